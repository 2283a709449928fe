//! Builds the launches of a call.

use super::kernel::{DequantizeKernels, HELD, THREADS};
use crate::prelude::*;
use crate::tiles::{Matrices, TileOf, matrices, scales_of};

pub const NAME: &str = "dequantize";

/// Dequantisation of matrices.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Dequantize(Matrices);

impl Launch for Dequantize {
    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    unsafe fn launch(&self, to: To<'_>) -> Result<()> {
        let Matrices { dtype, tiles, count, arrays: [y, q, scales] } = self.0;
        let in_row = tiles.columns.div_ceil(16 / dtype.bytes() as u32);
        let vectors = u64::from(in_row) * u64::from(tiles.rows);
        let blocks = vectors.div_ceil((THREADS * HELD as u32).into()) as u32;
        let grid = Grid::new((blocks, count), THREADS).dependent();
        // SAFETY: the arrays hold the matrices; the grid has all vectors.
        of_floats!(NAME, dtype, T => unsafe {
            let arguments = (q.read(), scales.read(), y.write(), tiles, q.place, scales.place, y.place);
            to.launch(&T::KERNELS[0], grid, arguments)
        })
    }
}

/// The tile to which scales of a shape belong.
pub fn tile_of_scales(shape: &[usize], scales: &[usize]) -> Result<TileOf> {
    let tiles = [(None, None), (Some(1), None), (Some(1), Some(128)), (Some(128), Some(128))];
    let mut tiles = tiles.into_iter().map(|(rows, columns)| TileOf { rows, columns });
    let found = tiles.find(|&tile| scales_of(NAME, shape, tile).is_ok_and(|of| of == scales));
    let Some(tile) = found else {
        let detail =
            format!("scales have shape {scales:?}, which is that of no tiles of an array of shape {shape:?}");
        return mismatch(NAME, detail);
    };
    Ok(tile)
}

/// Element type and shape of the result.
pub fn results(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let (q, scales) = (given(inputs, 0), given(inputs, 1));
    tile_of_scales(&q.shape, &scales.shape)?;
    Ok(vec![ArrayType { dtype: float_option(NAME, options, "dtype")?, shape: q.shape.clone() }])
}

/// Dequantises an array.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn compute(on: &On<'_>, call: &Call<'_>) -> Result<()> {
    let [q, scales, y] = [0, 1, 2].map(|index| call.operand(index));
    if q.elements() == 0 {
        return Ok(());
    }
    let of = matrices(NAME, [y, q, scales], tile_of_scales(&q.shape, &scales.shape)?)?;
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { on.launch(&Dequantize(of)) }
}
