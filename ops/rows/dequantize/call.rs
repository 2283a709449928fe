//! From a call to launches.

use super::kernel::{DequantizeKernels, HELD, THREADS};
use crate::groups::{One, OneKernel};
use crate::of_floats;
use crate::tiles::{Arguments, Problem, TileOf, problem, scales_of};
use moye::operation::{self, ArrayType, Call, Launcher, Options};
use moye::{Error, Grid, Result, Stream};
use moye_device::memory::{Global, GlobalMut};
use std::marker::PhantomData;

pub const NAME: &str = "dequantize";

/// Dequantisation to elements `T`.
struct Dequantize<T>(PhantomData<T>);

impl<T: DequantizeKernels> OneKernel for Dequantize<T> {
    type Problem = Problem;
    type Call = Arguments;
    const NAME: &'static str = NAME;

    fn kernel() -> &'static str {
        T::KERNELS[0].name()
    }

    unsafe fn launch(problem: &Problem, call: &Arguments, on: &Launcher<'_>) -> Result<()> {
        let ([y, q, scales], [of_y, of_q, of_scales]) = (call.addresses, call.places);
        let in_row = problem.tiles.columns.div_ceil(16 / size_of::<T>() as u32);
        let blocks =
            (u64::from(in_row) * u64::from(problem.tiles.rows)).div_ceil((THREADS * HELD as u32).into());
        let (q, scales, y) =
            (Global::from_address(q), Global::from_address(scales), GlobalMut::from_address(y));
        let arguments = (q, scales, y, problem.tiles, of_q, of_scales, of_y);
        // SAFETY: the arrays hold the problem's elements; the grid has all of them.
        unsafe { on.launch(&T::KERNELS[0], Grid::new((blocks as u32, problem.matrices), THREADS), arguments) }
    }
}

/// The tile that scales of a shape are of.
pub fn tile_of_scales(shape: &[usize], scales: &[usize]) -> Result<TileOf> {
    let tiles = [(None, None), (Some(1), None), (Some(1), Some(128)), (Some(128), Some(128))];
    let found = tiles.into_iter().find(|&tile| scales_of(NAME, shape, tile).is_ok_and(|of| of == scales));
    found.ok_or_else(|| Error::ShapeMismatch {
        operation: NAME,
        detail: format!(
            "scales have shape {scales:?}, which is that of no tiles of an array of shape {shape:?}"
        ),
    })
}

/// Element type and shape of the result.
pub fn results(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let [q, scales] = [0, 1].map(|index| inputs[index].clone().expect("checked: it is not optional"));
    tile_of_scales(&q.shape, &scales.shape)?;
    let dtype = crate::float_option(NAME, options, "dtype")?;
    Ok(vec![ArrayType { dtype, shape: q.shape }])
}

/// Dequantises an array.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let [q, scales, y] = [0, 1, 2].map(|index| call.operand(index));
    if q.elements() == 0 {
        return Ok(());
    }
    let (problem, arguments) = problem(NAME, [y, q, scales], tile_of_scales(&q.shape, &scales.shape)?)?;
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe {
        of_floats!(NAME, y.dtype, T => operation::run::<One<Dequantize<T>>>(stream, &problem, &arguments))
    }
}

/// The kernel that computes a call.
pub fn explain(_: &Stream, call: &Call<'_>) -> Result<&'static str> {
    Ok(of_floats!(NAME, call.operand(2).dtype, T => Dequantize::<T>::kernel()))
}
