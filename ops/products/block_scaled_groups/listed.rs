//! Lists of products on the host.

use super::paired::{check_scales, kernel_of};
use crate::block_scaled::Float8;
use crate::block_scaled::call::scales;
use crate::grouped::listed::{Products, Table};
use crate::launches;
use moye_device::number::F8E4M3;
use moye_runtime::operation::{Array, Dtype, check_device};
use moye_runtime::{Device, Element, Error, Matrix, MatrixMut, Result, Stream};
use std::marker::PhantomData;

/// The name in messages.
const NAME: &str = "block_scaled_list";

/// The operands of a product of a [`BlockScaledList`], of e4m3 or e5m2.
#[derive(Clone, Debug)]
pub struct ScaledProduct<'a, A: Float8 = F8E4M3, B: Float8 = F8E4M3> {
    /// (m, k).
    pub a: Matrix<'a, A>,
    /// (n, k).
    pub b: Matrix<'a, B>,
    /// A scale for 1 x 128 elements of `a`, (m, ceil(k / 128)); an extent may be 1.
    pub scale_a: Matrix<'a, f32>,
    /// A scale for 128 x 128 elements of `b`, (ceil(n / 128), ceil(k / 128)); an extent may be 1.
    pub scale_b: Matrix<'a, f32>,
}

/// Products `c = (scale_a a) (scale_b b)^T` of 8-bit floats, of matrices anywhere in memory and of
/// different shapes, in one launch, to results `O` of bf16 or f32, or of f16 if all operands are
/// e4m3.
///
/// The list's table is built once, in the device's memory, and each run computes all products.
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
pub struct BlockScaledList<'a, O: Element, A: Float8 = F8E4M3, B: Float8 = F8E4M3> {
    table: Table,
    matrices: PhantomData<(ScaledProduct<'a, A, B>, MatrixMut<'a, O>)>,
}

impl<'a, O: Element, A: Float8, B: Float8> BlockScaledList<'a, O, A, B> {
    /// The products, to the results of the same index, (m, n). K is contiguous in `a` and `b`, and
    /// their rows begin at multiples of 16 bytes.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] if shapes do not agree or K is 0, [`Error::Unsupported`] for
    /// results of other types, operands that TMA does not take, and on a GPU that is not of sm_90a,
    /// [`Error::WrongDevice`] for matrices of another device, and out of memory.
    pub fn new(
        device: &Device,
        products: &[ScaledProduct<'a, A, B>],
        mut results: Vec<MatrixMut<'a, O>>,
    ) -> Result<Self> {
        let stream = device.default_stream();
        launches::check_hopper(NAME, &stream)?;
        if products.len() != results.len() {
            let detail = format!("{} products have {} results", products.len(), results.len());
            return Err(Error::ShapeMismatch { operation: NAME, detail });
        }
        let of = |dtype: Option<Dtype>| dtype.expect("8-bit floats have a Dtype");
        let operands = [of(Dtype::of::<A>()), of(Dtype::of::<B>())];
        let Some(result) = Dtype::of::<O>() else {
            let detail = format!("results are {}, and may be bf16, f16 or f32", O::NAME);
            return Err(Error::Unsupported { operation: NAME, detail });
        };
        let mut list = Products::new(NAME, &stream, kernel_of(NAME, operands, result)?);
        for (i, (product, c)) in products.iter().zip(&mut results).enumerate() {
            let ScaledProduct { a, b, scale_a, scale_b } = product;
            let devices = [a.device(), b.device(), scale_a.device(), scale_b.device(), c.device()];
            for (argument, of) in devices.into_iter().enumerate() {
                check_device(NAME, &stream, 5 * i + argument, of)?;
            }
            let operands = [Array::of(NAME, a)?, Array::of(NAME, b)?];
            let of_scales = |name: &str, of: &Matrix<'_, f32>, shape: &[usize], rows: usize| {
                let (name, array) = (format!("{name} of product {i}"), Array::of(NAME, of)?);
                check_scales(NAME, &name, &array.shape, shape, rows)?;
                scales(NAME, &name, &array, false)
            };
            let of_scales = [
                of_scales("scale_a", scale_a, &operands[0].shape, 1)?,
                of_scales("scale_b", scale_b, &operands[1].shape, 128)?,
            ];
            list.add(operands, of_scales, &Array::of_mut(NAME, c)?)?;
        }
        Ok(Self { table: list.table()?, matrices: PhantomData })
    }

    /// Computes all products on the default stream.
    ///
    /// # Errors
    /// The errors of [`Device::launch`].
    pub fn run(&self) -> Result<()> {
        // SAFETY: the default stream runs its work in order.
        unsafe { self.run_on(&self.table.device().default_stream()) }
    }

    /// Computes all products on a stream of the same device.
    ///
    /// # Errors
    /// The errors of [`Device::launch`], and [`Error::WrongDevice`] for another device's stream.
    ///
    /// # Safety
    /// Until the work is complete, the list lives, and no other stream writes the operands, or
    /// reads or writes the results.
    pub unsafe fn run_on(&self, stream: &Stream) -> Result<()> {
        // SAFETY: the matrices outlive the list; the caller's promise about other streams.
        unsafe { self.table.run_on(stream) }
    }
}
