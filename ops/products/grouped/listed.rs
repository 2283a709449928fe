//! Lists of products on the host.

use super::kernel::{CopyA, CopyB, Wide};
use super::list::{GroupedListKernels, List, Listed, Loop, MAP, WORDS};
use crate::operand;
use moye_device::atom::tma::TmaTile;
use moye_device::collective::Mainloop as _;
use moye_device::memory::{Global, TensorMap as Map};
use moye_runtime::operation::{Array, Dtype, check_device};
use moye_runtime::{
    Buffer, Device, Element, Error, Grid, KernelArg, Matrix, MatrixMut, Result, Stream, TensorMap,
};
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
            let [Ok(of_m), Ok(of_n), Ok(of_k)] = [m, n, k].map(u32::try_from) else {
                let detail = format!(
                    "product {i} is of {:?} and {:?}, and extents are {} at most; divide it",
                    [m, k],
                    [n, k],
                    u32::MAX
                );
                return Err(Error::Unsupported { operation: NAME, detail });
            };
            let of_c = Array::of_mut(NAME, c)?;
            let listed = Listed {
                c: of_c.address,
                row: of_c.strides[0],
                column: of_c.strides[1],
                extents: [of_m, of_n, of_k],
                aligned: u32::from(operand::is_aligned(&of_c)),
            };
            let place = &mut words[i * WORDS..][..WORDS];
            place[2 * MAP..][..5].copy_from_slice(&listed.words());
            if m == 0 || n == 0 {
                continue;
            }
            let (tile_a, tile_b) = tiles_of(dtype);
            for (name, matrix, tile, to) in [("a", a, tile_a, 0), ("b", b, tile_b, MAP)] {
                place[to..][..MAP].copy_from_slice(&map(&stream, dtype, i, name, matrix, tile)?);
            }
            let (block_m, block_n, _) = Loop::<half::bf16>::TILE;
            tiles += u64::from(of_m.div_ceil(block_m)) * u64::from(of_n.div_ceil(block_n));
        }
        // Tiles are counted in 32 bits.
        let Ok(tiles) = u32::try_from(tiles) else {
            let detail =
                format!("the products have {tiles} tiles, and may have {}; divide the list", u32::MAX);
            return Err(Error::Unsupported { operation: NAME, detail });
        };
        let blocks = device.rates().multiprocessors.min(tiles);
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

/// The words of the tensor map of an operand.
fn map<T: Element>(
    stream: &Stream,
    dtype: Dtype,
    product: usize,
    name: &str,
    matrix: &Matrix<'_, T>,
    tile: &TmaTile,
) -> Result<[u64; MAP]> {
    let array = Array::of(NAME, matrix)?;
    let Some(rows) = operand::taken(&array) else {
        let detail = format!(
            "{name} of product {product} has strides {:?} from address {:#x} on, and K must be contiguous and rows begin \
             at multiples of 16 bytes; copy it",
            array.strides, array.address
        );
        return Err(Error::Unsupported { operation: NAME, detail });
    };
    let map: TensorMap = match dtype {
        Dtype::F16 => rows.map::<half::f16>(stream, tile)?,
        _ => rows.map::<half::bf16>(stream, tile)?,
    };
    let map: Map = (&map).pass();
    // SAFETY: a tensor map is its 128 bytes, each of which is initialised.
    Ok(unsafe { std::mem::transmute::<Map, [u64; MAP]>(map) })
}
