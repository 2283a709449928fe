//! The layouts of `wgmma`'s operands in shared memory, compared with the plain triple loop.

use crate::common::matrix::rng;
use crate::matrix::{Kind, Matrix, Run, check};
use crate::numbers::{Inputs, TestNumber};
use crate::{WGMMA_PTX, devices};
use moye::{Device, Global, GlobalMut, Grid, Kernel};
use moye_device::arch::wgmma::Accumulators;
use moye_device::atom::wgmma::*;
use moye_device::layout::{ComposedLayout, Major, SwizzleBytes};
use moye_device::number::Number;
use moye_kernels_wgmma::{self as kernels, TILE_M, TILE_N, tile};

type MajorKernel = Kernel<(Global<u32>, Global<u32>, GlobalMut<u32>)>;

/// The layout of A in shared memory; `None` if the instruction reads A from registers.
type InShared = Option<ComposedLayout>;

fn product<M: WgmmaAtom<A: TestNumber, B: TestNumber, D: TestNumber>>(
    device: &Device,
    kernel: &MajorKernel,
    a_layout: InShared,
    b_layout: ComposedLayout,
    inputs: Inputs,
) {
    let (m, n, k) = (TILE_M as usize, TILE_N as usize, 1024 / M::A::WIDTH);
    let mut rng = rng(&kernel.name().bytes().map(usize::from).chain([inputs as usize]).collect::<Vec<_>>());
    let a = Matrix::draw(m, k, |rng| M::A::factor(inputs, rng), &mut rng);
    let b = Matrix::draw(n, k, |rng| M::B::factor(inputs, rng), &mut rng);
    let a_words = match a_layout {
        Some(layout) => a.image(&layout),
        None => registers_of_a::<M>(&a),
    };
    let [a_buffer, b_buffer] = [a_words, b.image(&b_layout)].map(|words| device.upload(&words).unwrap());
    let parts = [m / 64, n / M::SHAPE_MNK[1] as usize];
    let words = 128 * M::Accumulators::COUNT;
    let mut d = device.alloc_uninit::<u32>(parts[0] * parts[1] * words).unwrap();
    let module = device.load(&WGMMA_PTX).unwrap();
    // SAFETY: the buffers have the tiles of one block, and D's registers of each instruction.
    unsafe { module.launch(kernel, Grid::new(1, 128), (&a_buffer, &b_buffer, &mut d)) }.unwrap();

    let negated = kernel.name().matches("negated_a").count() + kernel.name().matches("negated_b").count();
    let sign = if kernel.name().contains("both") { 1.0 } else { 1.0 - 2.0 * negated as f64 };
    let kind = Kind::of(M::INSTRUCTION, M::A::WIDTH);
    let run = Run { kind, inputs, on_gpu: device.is_gpu(), sign };
    for (part, words) in d.download().unwrap().chunks(words).enumerate() {
        let (row, column) = (part / parts[1] * 64, part % parts[1] * M::SHAPE_MNK[1] as usize);
        let d = Matrix::<M::D>::of_registers(64, &M::C, words);
        let a = Matrix { rows: 64, elements: of_rows(&a, row, 64) };
        let b = Matrix {
            rows: M::SHAPE_MNK[1] as usize,
            elements: of_rows(&b, column, M::SHAPE_MNK[1] as usize),
        };
        let what = format!("{} at ({row}, {column}) on {}, {inputs:?}", kernel.name(), device.name());
        check(&what, run, (&a, &b), None, &d);
    }
}

/// The registers of A of each thread: by 64 rows, and by instruction along K.
fn registers_of_a<M: WgmmaAtom<A: TestNumber>>(a: &Matrix<M::A>) -> Vec<u32> {
    let columns = M::SHAPE_MNK[2] as usize;
    let parts = (0..a.rows / 64).flat_map(|m| (0..a.columns() / columns).map(move |k| (m, k)));
    parts
        .flat_map(|(m, k)| {
            let rows = of_rows(a, 64 * m, 64);
            let elements = rows[64 * columns * k..][..64 * columns].to_vec();
            Matrix { rows: 64, elements }.registers(&M::A)
        })
        .collect()
}

/// Rows `first..first + count` of a matrix.
fn of_rows<T: Copy>(matrix: &Matrix<T>, first: usize, count: usize) -> Vec<T> {
    matrix.elements.chunks(matrix.rows).flat_map(|column| column[first..first + count].to_vec()).collect()
}

macro_rules! majors {
    ($($name:ident $atom:ty, $a_major:ident $a_swizzle:ident, $b_major:ident $b_swizzle:ident;)*) => { $(
        #[test]
        fn $name() {
            let bits = <<$atom as WgmmaAtom>::A as Number>::WIDTH as i64;
            let a = tile(TILE_M, bits, Major::$a_major, SwizzleBytes::$a_swizzle);
            let b = tile(TILE_N, bits, Major::$b_major, SwizzleBytes::$b_swizzle);
            for device in devices() {
                for inputs in [Inputs::Small, Inputs::Uniform] {
                    product::<$atom>(&device, &kernels::$name, Some(a), b, inputs);
                }
            }
        }
    )* };
}
moye_kernels_wgmma::for_each_major!(majors);

macro_rules! registers {
    ($($name:ident $atom:ty, $b_major:ident $b_swizzle:ident;)*) => { $(
        #[test]
        fn $name() {
            let bits = <<$atom as WgmmaAtom>::B as Number>::WIDTH as i64;
            let b = tile(TILE_N, bits, Major::$b_major, SwizzleBytes::$b_swizzle);
            for device in devices() {
                for inputs in [Inputs::Small, Inputs::Uniform] {
                    product::<$atom>(&device, &kernels::$name, None, b, inputs);
                }
            }
        }
    )* };
}
moye_kernels_wgmma::for_each_of_registers!(registers);
