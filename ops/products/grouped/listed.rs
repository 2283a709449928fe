//! Lists of products on the host.

use super::kernel::{CopyA, CopyB, Wide};
use super::list::{GroupedListKernels, List, Loop, MAP, WORDS};
use super::pairs::{listed, tiles_in_32_bits};
use crate::operand;
use moye_device::atom::tma::{TmaElement, TmaTile};
use moye_device::collective::Mainloop as _;
use moye_device::memory::{Global, TensorMap as Map};
use moye_runtime::operation::{Array, Dtype, check_device};
use moye_runtime::{Buffer, Device, Element, Error, Grid, KernelArg, Matrix, MatrixMut, Result, Stream};
use std::marker::PhantomData;

/// The name in messages.
const NAME: &str = "grouped_list";

/// Products `c = a b^T` of matrices anywhere in memory, of different shapes, in one launch.
///
/// The list's table is made once, in the device's memory, and each run computes all products.
///
/// ```
/// use moye::half::bf16;
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_products::grouped::GroupedList;
///
/// let device = Device::sim();
/// let (a, b) = (device.upload(&[bf16::ONE; 3 * 16])?, device.upload(&[bf16::ONE; 2 * 16])?);
/// let (mut first, mut second) = (device.alloc_uninit::<bf16>(6)?, device.alloc_uninit::<bf16>(1)?);
/// let products = [
///     (Matrix::row_major(&a, 3, 16)?, Matrix::row_major(&b, 2, 16)?),
///     (Matrix::row_major(&a, 1, 8)?, Matrix::row_major(&b, 1, 8)?),
/// ];
/// let results = vec![MatrixMut::row_major(&mut first, 3, 2)?, MatrixMut::row_major(&mut second, 1, 1)?];
/// GroupedList::new(&device, &products, results)?.run()?;
/// assert_eq!((first.download()?[5].to_f32(), second.download()?[0].to_f32()), (16.0, 8.0));
/// # Ok::<(), moye::Error>(())
/// ```
#[must_use = "nothing is computed before `run`"]
pub struct GroupedList<'a, T: Element> {
    device: Device,
    table: Buffer<u64>,
    count: u32,
    /// Blocks of a launch.
    blocks: u32,
    dtype: Dtype,
    matrices: PhantomData<(&'a T, MatrixMut<'a, T>)>,
}

impl<'a, T: Element> GroupedList<'a, T> {
    /// The products of the pairs `(a, b)`, (m, k) and (n, k), to the results of the same place, (m,
    /// n). K is contiguous in `a` and `b`, and their rows begin at multiples of 16 bytes.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] if shapes do not agree or K is 0, [`Error::Unsupported`] for
    /// elements other than f16 and bf16, operands that TMA does not take, and on a GPU that is not
    /// of sm_90a, [`Error::WrongDevice`] for matrices of another device, and out of memory.
    pub fn new(
        device: &Device,
        products: &[(Matrix<'a, T>, Matrix<'a, T>)],
        mut results: Vec<MatrixMut<'a, T>>,
    ) -> Result<Self> {
        let stream = device.default_stream();
        operand::check_hopper(NAME, &stream)?;
        let mismatch = |detail| Err(Error::ShapeMismatch { operation: NAME, detail });
        if products.len() != results.len() {
            return mismatch(format!("{} products have {} results", products.len(), results.len()));
        }
        let dtype = match Dtype::of::<T>() {
            Some(dtype @ (Dtype::Bf16 | Dtype::F16)) => dtype,
            _ => {
                let detail = format!("elements are {}, and must be f16 or bf16; convert them", T::NAME);
                return Err(Error::Unsupported { operation: NAME, detail });
            }
        };
        let mut words = vec![0; (products.len() * WORDS).max(1)];
        let mut tiles = 0u64;
        for (i, ((a, b), c)) in products.iter().zip(&mut results).enumerate() {
            let ([m, k], [n, of_b]) = ([a.rows(), a.cols()], [b.rows(), b.cols()]);
            if k != of_b || k == 0 || (c.rows(), c.cols()) != (m, n) {
                return mismatch(format!(
                    "product {i} is of {:?} and {:?} to {:?}, and must be of (m, k) and (n, k) to (m, n), with k of 1 \
                     or more",
                    [m, k],
                    [n, of_b],
                    [c.rows(), c.cols()]
                ));
            }
            for (argument, of) in [a.device(), b.device(), c.device()].into_iter().enumerate() {
                check_device(NAME, &stream, 3 * i + argument, of)?;
            }
            let of_k = operand::extent(NAME, "product", i, k)?;
            operand::extent(NAME, "product", i, m.max(n))?;
            let of_c = listed(&Array::of_mut(NAME, c)?, of_k);
            let place = &mut words[i * WORDS..][..WORDS];
            place[2 * MAP..][..5].copy_from_slice(&of_c.words());
            if m == 0 || n == 0 {
                continue;
            }
            let (tile_a, tile_b) = tiles_of(dtype);
            for (name, matrix, tile, to) in [("a", a, tile_a, 0), ("b", b, tile_b, MAP)] {
                let of = (i, name);
                let map = match dtype {
                    Dtype::F16 => map::<half::f16, _>(NAME, &stream, of, matrix, tile)?,
                    _ => map::<half::bf16, _>(NAME, &stream, of, matrix, tile)?,
                };
                place[to..][..MAP].copy_from_slice(&map);
            }
            let (block_m, block_n, _) = Loop::<half::bf16>::TILE;
            tiles += u64::from(of_c.m.div_ceil(block_m)) * u64::from(of_c.n.div_ceil(block_n));
        }
        let blocks = device.rates().multiprocessors.min(tiles_in_32_bits(NAME, tiles)?);
        let (table, count) = (device.upload(&words)?, products.len() as u32);
        Ok(Self { device: device.clone(), table, count, blocks, dtype, matrices: PhantomData })
    }

    /// Computes all products on the default stream.
    ///
    /// # Errors
    /// Those of [`Device::launch`].
    pub fn run(&self) -> Result<()> {
        // SAFETY: the default stream runs its work in order.
        unsafe { self.run_on(&self.device.default_stream()) }
    }

    /// Computes all products on a stream of the same device.
    ///
    /// # Errors
    /// Those of [`Device::launch`], and [`Error::WrongDevice`] for another device's stream.
    ///
    /// # Safety
    /// Until the work is complete, the list lives, and no other stream writes the operands, or
    /// reads or writes the results.
    pub unsafe fn run_on(&self, stream: &Stream) -> Result<()> {
        check_device(NAME, stream, 0, &self.device)?;
        if self.blocks == 0 {
            return Ok(());
        }
        let list = List { table: Global::from_address(self.table.address()), count: self.count };
        let grid = Grid::new(self.blocks, Loop::<half::bf16>::THREADS).dependent();
        let module = stream.device().load(&crate::PTX)?;
        let kernel = match self.dtype {
            Dtype::F16 => &<half::f16 as GroupedListKernels>::KERNELS[0],
            _ => &<half::bf16 as GroupedListKernels>::KERNELS[0],
        };
        // SAFETY: the table has the products, whose matrices outlive the list; the caller's
        // promise about other streams.
        unsafe { module.launch_on(stream, kernel, grid, (list,)) }
    }
}

/// The tiles of A and B.
const fn tiles_of(dtype: Dtype) -> (&'static TmaTile, &'static TmaTile) {
    match dtype {
        Dtype::F16 => (&CopyA::<half::f16, Wide>::TILE, &CopyB::<half::f16, Wide, 1>::TILE),
        _ => (&CopyA::<half::bf16, Wide>::TILE, &CopyB::<half::bf16, Wide, 1>::TILE),
    }
}

/// The words of the tensor map of the operand `name` of a product, of elements `E` for TMA.
pub(crate) fn map<E: TmaElement, T: Element>(
    operation: &'static str,
    stream: &Stream,
    (product, name): (usize, &str),
    matrix: &Matrix<'_, T>,
    tile: &TmaTile,
) -> Result<[u64; MAP]> {
    let array = Array::of(operation, matrix)?;
    let Some(rows) = operand::taken(&array) else {
        let detail = format!(
            "{name} of product {product} has strides {:?} from address {:#x} on, and K must be contiguous and rows begin \
             at multiples of 16 bytes; copy it",
            array.strides, array.address
        );
        return Err(Error::Unsupported { operation, detail });
    };
    let map = rows.map::<E>(stream, tile)?;
    let map: Map = (&map).pass();
    // SAFETY: a tensor map is its 128 bytes, each of which is initialised.
    Ok(unsafe { std::mem::transmute::<Map, [u64; MAP]>(map) })
}
