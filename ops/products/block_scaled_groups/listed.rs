//! Lists of products on the host.

use super::list::{CopyA, CopyB, Loop, SCALES, ScaledList, ScaledListKernels, WORDS};
use super::paired::check_scales;
use crate::block_scaled::call::scales;
use crate::grouped::list::MAP;
use crate::grouped::listed::map;
use crate::grouped::pairs::{listed, tiles_in_32_bits};
use crate::operand;
use moye_device::collective::Mainloop as _;
use moye_device::memory::Global;
use moye_device::number::F8E4M3;
use moye_runtime::operation::{Array, Dtype, check_device};
use moye_runtime::{Buffer, Device, Element, Error, Grid, Matrix, MatrixMut, Result, Stream};
use std::marker::PhantomData;

/// The name in messages.
const NAME: &str = "block_scaled_list";

/// The operands of a product of a [`BlockScaledList`].
#[derive(Clone, Debug)]
pub struct ScaledProduct<'a> {
    /// (m, k).
    pub a: Matrix<'a, F8E4M3>,
    /// (n, k).
    pub b: Matrix<'a, F8E4M3>,
    /// A scale for 1 x 128 elements of `a`, (m, ceil(k / 128)); an extent may be 1.
    pub scale_a: Matrix<'a, f32>,
    /// A scale for 128 x 128 elements of `b`, (ceil(n / 128), ceil(k / 128)); an extent may be 1.
    pub scale_b: Matrix<'a, f32>,
}

/// Products `c = (scale_a a) (scale_b b)^T` of e4m3, of matrices anywhere in memory and of
/// different shapes, in one launch, to results `O` of bf16 or f32.
///
/// The list's table is made once, in the device's memory, and each run computes all products.
///
/// ```
/// use moye::number::F8E4M3;
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_products::block_scaled_groups::{BlockScaledList, ScaledProduct};
///
/// let device = Device::sim();
/// let (ones, half) = (device.upload(&[F8E4M3::from_f32(1.0); 3 * 16])?, device.upload(&[0.5f32])?);
/// let product = |m, n, k| -> moye::Result<_> {
///     let scale = Matrix::row_major(&half, 1, 1)?;
///     let (a, b) = (Matrix::row_major(&ones, m, k)?, Matrix::row_major(&ones, n, k)?);
///     Ok(ScaledProduct { a, b, scale_a: scale.clone(), scale_b: scale })
/// };
/// let (mut first, mut second) = (device.alloc_uninit::<f32>(6)?, device.alloc_uninit::<f32>(1)?);
/// let results = vec![MatrixMut::row_major(&mut first, 3, 2)?, MatrixMut::row_major(&mut second, 1, 1)?];
/// BlockScaledList::new(&device, &[product(3, 2, 16)?, product(1, 1, 32)?], results)?.run()?;
/// assert_eq!((first.download()?[5], second.download()?[0]), (4.0, 8.0));
/// # Ok::<(), moye::Error>(())
/// ```
#[must_use = "nothing is computed before `run`"]
pub struct BlockScaledList<'a, O: Element> {
    device: Device,
    table: Buffer<u64>,
    count: u32,
    /// Blocks of a launch.
    blocks: u32,
    dtype: Dtype,
    matrices: PhantomData<(ScaledProduct<'a>, MatrixMut<'a, O>)>,
}

impl<'a, O: Element> BlockScaledList<'a, O> {
    /// The products, to the results of the same place, (m, n). K is contiguous in `a` and `b`, and
    /// their rows begin at multiples of 16 bytes.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] if shapes do not agree or K is 0, [`Error::Unsupported`] for
    /// results other than bf16 and f32, operands that TMA does not take, and on a GPU that is not
    /// of sm_90a, [`Error::WrongDevice`] for matrices of another device, and out of memory.
    pub fn new(
        device: &Device,
        products: &[ScaledProduct<'a>],
        mut results: Vec<MatrixMut<'a, O>>,
    ) -> Result<Self> {
        let stream = device.default_stream();
        operand::check_hopper(NAME, &stream)?;
        let mismatch = |detail| Err(Error::ShapeMismatch { operation: NAME, detail });
        if products.len() != results.len() {
            return mismatch(format!("{} products have {} results", products.len(), results.len()));
        }
        let dtype = match Dtype::of::<O>() {
            Some(dtype @ (Dtype::Bf16 | Dtype::F32)) => dtype,
            _ => {
                let detail = format!("results are {}, and must be bf16 or f32", O::NAME);
                return Err(Error::Unsupported { operation: NAME, detail });
            }
        };
        let mut words = vec![0; (products.len() * WORDS).max(1)];
        let mut tiles = 0u64;
        for (i, (product, c)) in products.iter().zip(&mut results).enumerate() {
            let ScaledProduct { a, b, scale_a, scale_b } = product;
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
            let of_k = operand::extent(NAME, "product", i, k)?;
            operand::extent(NAME, "product", i, m.max(n))?;
            let devices = [a.device(), b.device(), scale_a.device(), scale_b.device(), c.device()];
            for (argument, of) in devices.into_iter().enumerate() {
                check_device(NAME, &stream, 5 * i + argument, of)?;
            }
            let of_c = listed(&Array::of_mut(NAME, c)?, of_k);
            let place = &mut words[i * WORDS..][..WORDS];
            place[2 * MAP..][..5].copy_from_slice(&of_c.words());
            let of_scales = [("scale_a", scale_a, [m, k], 1), ("scale_b", scale_b, [n, k], 128)];
            for (j, (name, of, shape, rows)) in of_scales.into_iter().enumerate() {
                let (name, array) = (format!("{name} of product {i}"), Array::of(NAME, of)?);
                check_scales(NAME, &name, &array.shape, &shape, rows)?;
                let (address, [row, along_k, _]) = scales(&name, &array, false)?;
                let strides = u64::from(along_k) << 32 | u64::from(row);
                place[SCALES + 2 * j..][..2].copy_from_slice(&[address, strides]);
            }
            if m == 0 || n == 0 {
                continue;
            }
            for (name, matrix, tile, to) in [("a", a, &CopyA::TILE, 0), ("b", b, &CopyB::TILE, MAP)] {
                place[to..][..MAP].copy_from_slice(&map::<u8, _>(NAME, &stream, (i, name), matrix, tile)?);
            }
            let (block_m, block_n, _) = Loop::<ScaledList>::TILE;
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
        let list = ScaledList { table: Global::from_address(self.table.address()), count: self.count };
        let grid = Grid::new(self.blocks, Loop::<ScaledList>::THREADS).dependent();
        let module = stream.device().load(&crate::PTX)?;
        let kernel = match self.dtype {
            Dtype::F32 => &<f32 as ScaledListKernels>::KERNELS[0],
            _ => &<half::bf16 as ScaledListKernels>::KERNELS[0],
        };
        // SAFETY: the table has the products, whose matrices outlive the list; the caller's
        // promise about other streams.
        unsafe { module.launch_on(stream, kernel, grid, (list,)) }
    }
}
