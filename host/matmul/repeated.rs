//! Products that a thread computed before on the same stream.
//!
//! A program computes the same product again: a layer of a network, step after step, in the same
//! buffers. Its launches are the same, so a thread keeps them as the driver takes them. A repeated
//! call compares its request with the earlier one, word by word, and launches.

use super::element::{Operand, Output};
use super::plan::Forced;
use super::problem::{BiasAlong, Request};
use crate::Result;
use crate::device::gpu::Gpu;
use crate::launch::Prepared;
use crate::matrix::{MatrixMut, Shape};
use crate::memory::Workspace;
use crate::mix::place;
use crate::stream::Stream;
use moye_device::memory::Element;
use std::any::TypeId;
use std::cell::RefCell;

/// The products that a thread keeps. Two of the same place replace each other.
const PLACES: usize = 64;
/// The most launches of a product that is kept.
const MOST_LAUNCHES: usize = 8;
/// Words of a request.
const WORDS: usize = 48;

/// A request: all that its launches depend on, but for the memory that its stream keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    types: TypeId,
    words: [u64; WORDS],
}

/// A product that was computed.
struct Repeated {
    key: Key,
    launches: Vec<Prepared>,
    /// The address and the bytes of its workspace.
    workspace: (u64, usize),
    /// The address of the stream's counters.
    counters: Option<u64>,
}

thread_local! {
    static REPEATED: RefCell<[Option<Box<Repeated>>; PLACES]> = const { RefCell::new([const { None }; PLACES]) };
}

/// The bits of a number.
fn bits<S: Element>(number: S) -> u64 {
    const { assert!(size_of::<S>() <= 8) };
    let mut word = 0u64;
    // SAFETY: a number of at most 8 bytes, all of which are initialised.
    unsafe {
        std::ptr::copy_nonoverlapping(
            (&raw const number).cast::<u8>(),
            (&raw mut word).cast(),
            size_of::<S>(),
        );
    }
    word
}

impl Key {
    /// The key of a request on the stream `stream` of the GPU `gpu`, both as addresses.
    pub fn of<T: Operand, U: Output<T>>(
        request: &Request<'_, '_, T, U>,
        c: &mut MatrixMut<'_, U>,
        [gpu, stream]: [u64; 2],
    ) -> Self {
        let matrix = |address: u64, len: usize, shape: Shape| {
            let Shape { rows, cols, row_stride, col_stride } = shape;
            let numbers = [len, rows, cols, row_stride, col_stride].map(|number| number as u64);
            let [len, rows, cols, row, column] = numbers;
            [address, len, rows, cols, row, column]
        };
        let (a, b, shape_c) = (request.a, request.b, c.shape());
        let [a0, a1, a2, a3, a4, a5] = matrix(a.data().address(), a.data().len(), a.shape());
        let [b0, b1, b2, b3, b4, b5] = matrix(b.data().address(), b.data().len(), b.shape());
        let [c0, c1, c2, c3, c4, c5] = matrix(c.data_mut().address(), c.data_mut().len(), shape_c);
        let [bias, bias_len, along] = match request.bias {
            None => [0; 3],
            Some((bias, along)) => {
                [bias.address(), bias.len() as u64, 1 + u64::from(*along == BiasAlong::Rows)]
            }
        };
        let [[scale_a, scale_a_len, has_a], [scale_b, scale_b_len, has_b]] = request
            .scales
            .map(|scale| scale.map_or([0; 3], |scale| [scale.address(), scale.len() as u64, 1]));
        let forced = |forced: Forced| {
            let Forced { tile, splits, kernel } = forced;
            let tile = tile.map_or(0, |(m, n)| u64::from(m) << 32 | u64::from(n));
            let splits = splits.map_or(u64::MAX, u64::from);
            let (name, len) = kernel.map_or((0, 0), |name| (name.as_ptr().addr() as u64, name.len() as u64));
            [tile, splits, name, len]
        };
        let [tile, splits, name, name_len] = forced(request.forced);
        let [measured, m_splits, m_name, m_name_len] = forced(request.measured.unwrap_or_default());
        let strides = request.batch.strides.map(|stride| stride as u64);
        let kinds = request.activation as u64
            | (request.precision as u64) << 8
            | u64::from(request.measured.is_some()) << 16
            | u64::from(request.forced.tile.is_some()) << 17
            | u64::from(request.measured.is_some_and(|measured| measured.tile.is_some())) << 18;
        #[rustfmt::skip]
        let words = [
            a0, a1, a2, a3, a4, a5, b0, b1, b2, b3, b4, b5, c0, c1, c2, c3, c4, c5,
            bits(request.alpha), bits(request.beta),
            bias, bias_len, along,
            scale_a, scale_a_len, has_a, scale_b, scale_b_len, has_b,
            tile, splits, name, name_len, measured, m_splits, m_name, m_name_len,
            request.batch.count as u64, strides[0], strides[1], strides[2],
            kinds, gpu, stream, 0, 0, 0, 0,
        ];
        Self { types: TypeId::of::<(T, U)>(), words }
    }

    /// Its place among the kept ones.
    fn place(&self) -> usize {
        // Addresses and extents; keys that differ only in another word replace each other.
        place::<PLACES>([0, 2, 3, 6, 9, 12].map(|word| self.words[word]))
    }
}

/// Launches a product again; `None` if it was not computed before, or if the stream's memory is
/// another one since.
///
/// # Safety
/// As for [`super::run::run`]; `key` is that of the request, whose buffers are on the stream's
/// device, which is `gpu`. The stream captures no graph of its own.
pub(super) unsafe fn launch(key: &Key, gpu: &'static Gpu, stream: &Stream) -> Option<Result<()>> {
    REPEATED.with_borrow(|kept| {
        let known = kept[key.place()].as_deref().filter(|known| known.key == *key)?;
        let (address, bytes) = known.workspace;
        // Held until all has been launched.
        let workspace = match Workspace::new(stream, bytes) {
            Ok(workspace) => workspace,
            Err(error) => return Some(Err(error)),
        };
        let same = workspace.as_ref().map_or(0, Workspace::address) == address;
        if !same || stream.kept(gpu).known_counters() != known.counters {
            return None;
        }
        let raw = stream.raw(gpu);
        let launched = gpu.bind().and_then(|()| {
            // SAFETY: the caller's contract: the launches were made for the same request, on this
            // stream, with the same workspace and counters.
            known.launches.iter().try_for_each(|launch| unsafe { launch.launch(gpu, raw) })
        });
        Some(launched)
    })
}

/// Keeps the launches of a product.
pub(super) fn keep(
    key: Key,
    launches: Vec<Prepared>,
    workspace: (u64, usize),
    (gpu, stream): (&'static Gpu, &Stream),
) {
    if launches.len() <= MOST_LAUNCHES && Workspace::is_kept(workspace.1) {
        let counters = stream.kept(gpu).known_counters();
        let place = key.place();
        let repeated = Box::new(Repeated { key, launches, workspace, counters });
        REPEATED.with_borrow_mut(|kept| kept[place] = Some(repeated));
    }
}

#[cfg(all(test, feature = "matmul-f32"))]
mod tests {
    use super::*;
    use crate::{Buffer, Device, Matmul, Matrix};

    /// The key of a product of the same buffers, changed by `change`.
    fn key<'a>(
        device: &Device,
        [a, b]: [&'a Buffer<f32>; 2],
        c: &mut Buffer<f32>,
        (m, n, k): (usize, usize, usize),
        change: impl FnOnce(Matmul<'a, f32>) -> Matmul<'a, f32>,
    ) -> Key {
        let (a, b) = (Matrix::row_major(a, m, k).unwrap(), Matrix::row_major(b, k, n).unwrap());
        let product = change(Matmul::new(a, b));
        let mut c = MatrixMut::row_major(c, m, n).unwrap();
        Key::of(&product.request(device, &c).unwrap(), &mut c, [1, 2])
    }

    #[test]
    fn products_that_differ_in_anything_have_different_keys() {
        let device = Device::sim();
        let buffer = || device.alloc_zeroed::<f32>(4096).unwrap();
        let (a, b, other, bias, mut c) = (buffer(), buffer(), buffer(), buffer(), buffer());
        let of = |len: usize| bias.slice(..len).unwrap();
        let cube = (16, 16, 16);
        let mut keys = vec![
            key(&device, [&a, &b], &mut c, cube, |product| product),
            key(&device, [&a, &b], &mut c, (8, 16, 16), |product| product),
            key(&device, [&a, &b], &mut c, (16, 8, 16), |product| product),
            key(&device, [&a, &b], &mut c, (16, 16, 8), |product| product),
            key(&device, [&other, &b], &mut c, cube, |product| product),
            key(&device, [&a, &other], &mut c, cube, |product| product),
            key(&device, [&a, &b], &mut buffer(), cube, |product| product),
            key(&device, [&a, &b], &mut c, cube, |product| product.transpose_a()),
            key(&device, [&a, &b], &mut c, cube, |product| product.transpose_b()),
            key(&device, [&a, &b], &mut c, cube, |product| product.alpha(2.0)),
            key(&device, [&a, &b], &mut c, cube, |product| product.beta(1.0)),
            key(&device, [&a, &b], &mut c, cube, |product| product.bias(of(16))),
            key(&device, [&a, &b], &mut c, cube, |product| product.bias_rows(of(16))),
            key(&device, [&a, &b], &mut c, cube, |product| product.relu()),
            key(&device, [&a, &b], &mut c, cube, |product| product.gelu()),
            key(&device, [&a, &b], &mut c, cube, |product| product.tf32()),
            key(&device, [&a, &b], &mut c, cube, |product| product.batch(2, [256, 256, 256])),
            key(&device, [&a, &b], &mut c, cube, |product| product.batch(3, [256, 256, 256])),
            key(&device, [&a, &b], &mut c, cube, |product| product.batch(3, [0, 256, 256])),
            key(&device, [&a, &b], &mut c, cube, |product| product.tile(128, 128)),
            key(&device, [&a, &b], &mut c, cube, |product| product.tile(0, 0)),
            key(&device, [&a, &b], &mut c, cube, |product| product.split_k(1)),
            key(&device, [&a, &b], &mut c, cube, |product| product.split_k(2)),
            key(&device, [&a, &b], &mut c, cube, |product| product.kernel("one")),
            key(&device, [&a, &b], &mut c, cube, |product| product.kernel("other")),
        ];
        let first = keys[0];
        assert!(key(&device, [&a, &b], &mut c, cube, |product| product) == first, "the same product");
        let mut elsewhere = first;
        elsewhere.words[42] = 3;
        keys.push(elsewhere);
        for (i, key) in keys.iter().enumerate() {
            let same = keys.iter().position(|other| other == key);
            assert_eq!(same, Some(i), "number {i} has the key of another product");
        }
    }
}
