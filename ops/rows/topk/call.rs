//! Builds the launches of a call.

use super::kernel::{MOST, THREADS, TopKKernels};
use crate::prelude::*;

pub const NAME: &str = "topk";

/// The greatest elements of rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct TopK {
    /// x, values and indices.
    of: Along<3>,
    k: u32,
    /// Whether indices are i64.
    wide: bool,
}

impl Launch for TopK {
    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    unsafe fn launch(&self, to: To<'_>) -> Result<()> {
        let Self { of: Along { dtype, rows, groups, columns: n, arrays: [x, values, indices] }, k, wide } =
            *self;
        let grid = Grid::new((rows, groups), THREADS).dependent();
        // SAFETY: the arrays hold the rows; k was checked.
        of_floats!(NAME, dtype, T => unsafe { to.launch(&T::KERNELS[0], grid, (
            x.read(), values.write(), indices.write(), wide, n, k, x.place, values.place, indices.place,
        )) })
    }
}

/// Element types and shapes of values and indices.
pub fn results(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let x = given(inputs, 0);
    let (mut shape, axis) = (x.shape.clone(), Array::row_major(x, 0).axis(NAME, options.int("axis"))?);
    let (k, n) = (options.int("k"), shape[axis]);
    if k < 1 || k > i64::from(MOST).min(n as i64) {
        let detail = format!("k is {k}, and rows of {n} elements take 1 to {}", n.min(MOST as usize));
        return unsupported(NAME, detail);
    }
    shape[axis] = k as usize;
    let indices = if options.bool("int32") { Dtype::I32 } else { Dtype::I64 };
    Ok([x.dtype, indices].map(|dtype| ArrayType { dtype, shape: shape.clone() }).to_vec())
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn compute(on: &On<'_>, call: &Call<'_>) -> Result<()> {
    let x = call.operand(0);
    if x.elements() == 0 {
        return Ok(());
    }
    let arrays = [0, 1, 2].map(|index| Some(call.operand(index)));
    let of = Along::new(NAME, arrays, x.axis(NAME, call.options.int("axis"))?)?;
    let topk = TopK { of, k: call.options.int("k") as u32, wide: !call.options.bool("int32") };
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { on.launch(&topk) }
}
