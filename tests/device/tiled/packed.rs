//! Tensors of sub-byte elements, on the simulator and on a GPU if there is one: every bit of the
//! destination is as expected, and the bits next to the matrix and between its rows are unchanged.

use crate::common::devices;
use crate::common::matrix::rng;
use crate::{SM_80, entry};
use moye::{Global, GlobalMut, Grid, Kernel};
use moye_device::number::{B1, S4, Scalar, U4};
use moye_kernels_tiled::packed as kernels;
use rand::RngExt;

/// Source, destination, extents, strides of both, in elements.
type CopyKernel = Kernel<(Global<u8>, GlobalMut<u8>, u32, u32, i64, i64, i64, i64)>;

/// A matrix's strides along M and along N.
type Strides = (usize, usize);

fn get<T: Scalar>(bytes: &[u8], i: usize) -> T {
    let per = 8 / T::WIDTH;
    T::from_low_bits(u64::from(bytes[i / per]) >> (i % per * T::WIDTH))
}

fn set<T: Scalar>(bytes: &mut [u8], i: usize, value: T) {
    let per = 8 / T::WIDTH;
    let shift = i % per * T::WIDTH;
    let mask = ((1u32 << T::WIDTH) - 1) << shift;
    let byte = u32::from(bytes[i / per]);
    bytes[i / per] = (byte & !mask | (value.low_bits() as u32) << shift) as u8;
}

/// The bytes of a matrix, and some after it, a multiple of 4.
fn bytes<T: Scalar>((m, n): (usize, usize), (along_m, along_n): Strides) -> usize {
    let elements = m.saturating_sub(1) * along_m + n.saturating_sub(1) * along_n + 1;
    (elements * T::WIDTH).div_ceil(8).next_multiple_of(4) + 16
}

/// Copies a random matrix over random bits, and compares all bits.
fn check<T: Scalar>(
    kernel: &CopyKernel,
    shape: (usize, usize),
    (tile_m, tile_n): (usize, usize),
    threads: u32,
    from: Strides,
    to: Strides,
) {
    let (m, n) = shape;
    let mut rng = rng(&[m, n, from.0, to.0, T::WIDTH]);
    let mut random = |bytes: usize| (0..bytes).map(|_| rng.random()).collect::<Vec<u8>>();
    let (source, before) = (random(bytes::<T>(shape, from)), random(bytes::<T>(shape, to)));
    let mut want = before.clone();
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        set(&mut want, i * to.0 + j * to.1, get::<T>(&source, i * from.0 + j * from.1));
    }
    for device in devices() {
        let module = device.load(&SM_80).unwrap();
        let (input, mut output) = (device.upload(&source).unwrap(), device.upload(&before).unwrap());
        let grid = Grid::new((m.div_ceil(tile_m) as u32, n.div_ceil(tile_n) as u32), threads);
        let [from_m, from_n, to_m, to_n] = [from.0, from.1, to.0, to.1].map(|stride| stride as i64);
        // SAFETY: both buffers contain the matrix with its strides, in whole words.
        unsafe {
            module.launch(kernel, grid, (&input, &mut output, m as u32, n as u32, from_m, from_n, to_m, to_n))
        }
        .unwrap();
        let got = output.download().unwrap();
        let wrong: Vec<_> = (0..got.len()).filter(|&at| got[at] != want[at]).take(8).collect();
        assert!(
            wrong.is_empty(),
            "{} of {m} x {n} {}, strides {from:?} to {to:?}, on {}: bytes {wrong:?} are {:02x?}, expected {:02x?}",
            kernel.name(),
            T::NAME,
            device.name(),
            wrong.iter().map(|&at| got[at]).collect::<Vec<_>>(),
            wrong.iter().map(|&at| want[at]).collect::<Vec<_>>(),
        );
    }
}

/// By 32-bit words; rows of the source start at multiples of 4 bytes, those of the destination at
/// multiples of 2. Edges cross words and bytes.
fn by_words<T: Scalar>(kernel: &CopyKernel) {
    let words = |n: usize, bits: usize| n.next_multiple_of(bits / T::WIDTH) + bits / T::WIDTH;
    for shape in [(8, 128), (8, 256), (1, 1), (3, 5), (16, 129), (9, 100), (7, 131), (2, 31), (20, 3)] {
        check::<T>(kernel, shape, (8, 128), 32, (words(shape.1, 32), 1), (words(shape.1, 16), 1));
    }
}

/// Element by element, with threads sharing bytes; rows start within bytes and cross them.
fn by_elements<T: Scalar>(kernel: &CopyKernel) {
    for shape in [(8_usize, 16_usize), (1, 1), (3, 5), (17, 33), (9, 1), (1, 40)] {
        let (m, n) = shape;
        let rows = [(n, 1), (n + 3, 1), (2 * n + 1, 2)];
        let columns = [(1, m), (1, m + 5)];
        for from in rows.into_iter().chain(columns) {
            check::<T>(kernel, shape, (8, 16), 128, from, (n, 1));
            check::<T>(kernel, shape, (8, 16), 128, from, (1, m + 1));
        }
    }
}

/// One row for each thread; the source's rows start within bytes.
fn by_rows<T: Scalar>(kernel: &CopyKernel) {
    for shape in [(32_usize, 16_usize), (1, 1), (40, 13), (5, 33), (33, 8)] {
        let n = shape.1;
        let whole = n.next_multiple_of(16);
        check::<T>(kernel, shape, (32, 16), 32, (n, 1), (whole, 1));
        check::<T>(kernel, shape, (32, 16), 32, (1, shape.0), (whole + 16, 1));
    }
}

/// Transposed in shared memory, and read as values.
fn turned<T: Scalar>(kernel: &Kernel<(Global<u8>, GlobalMut<f32>)>) {
    let mut rng = rng(&[T::WIDTH, 128]);
    let source: Vec<u8> = (0..128 * T::WIDTH / 8).map(|_| rng.random()).collect();
    let value = |i: usize, j: usize| get::<T>(&source, 16 * i + j).to_f64() as f32;
    let want: Vec<f32> = (0..128).map(|at| value(7 - at % 8, 15 - at / 8)).collect();
    for device in devices() {
        let module = device.load(&SM_80).unwrap();
        let input = device.upload(&source).unwrap();
        let mut values = device.upload(&[f32::NAN; 128]).unwrap();
        // SAFETY: the buffers have 128 elements.
        unsafe { module.launch(kernel, Grid::new(1, 128), (&input, &mut values)) }.unwrap();
        assert_eq!(values.download().unwrap(), want, "{} on {}", kernel.name(), device.name());
    }
}

#[test]
fn matrices_are_copied_by_words() {
    by_words::<S4>(&kernels::words_s4);
    by_words::<U4>(&kernels::words_u4);
    by_words::<B1>(&kernels::words_b1);
}

#[test]
fn matrices_are_copied_by_elements() {
    by_elements::<S4>(&kernels::elements_s4);
    by_elements::<U4>(&kernels::elements_u4);
    by_elements::<B1>(&kernels::elements_b1);
}

#[test]
fn matrices_are_copied_by_rows() {
    by_rows::<S4>(&kernels::rows_s4);
    by_rows::<U4>(&kernels::rows_u4);
    by_rows::<B1>(&kernels::rows_b1);
}

#[test]
fn tiles_are_transposed_in_shared_memory() {
    turned::<S4>(&kernels::turned_s4);
    turned::<U4>(&kernels::turned_u4);
    turned::<B1>(&kernels::turned_b1);
}

#[test]
fn copies_take_words_and_leave_nothing_in_local_memory() {
    for (name, words) in [("words_s4", 4), ("words_u4", 4), ("words_b1", 1)] {
        assert_eq!(entry(name).count("st.shared.b32"), words, "{name}");
    }
}
