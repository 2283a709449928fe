//! Builds the launches of a call.

use super::kernel::{DequantizeKernels, Groups, HELD, QuantizeKernels, THREADS};
use crate::prelude::*;

/// The direction, and the form of the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Quantisation with a scale a group.
    Scales,
    /// Quantisation with a scale and a minimum a group.
    Minima,
    /// Dequantisation.
    Back,
}

/// Quantisation of the rows of matrices, or back.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Int4 {
    /// Floats, bytes, scales and minima.
    of: Along<4>,
    shape: Groups,
    back: bool,
}

impl Launch for Int4 {
    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    unsafe fn launch(&self, to: To<'_>) -> Result<()> {
        let Self { of: Along { dtype, groups, arrays: [x, q, scales, minima], .. }, shape, back } = *self;
        let units = u64::from(shape.rows) * u64::from(shape.units);
        let blocks = units.div_ceil((THREADS * HELD as u32).into()) as u32;
        let grid = Grid::new((blocks, groups), THREADS).dependent();
        let places = (x.place, q.place, scales.place, minima.place);
        let (of_x, of_q, of_scales, of_minima) = places;
        // SAFETY: the arrays hold the matrices; the grid has all units.
        of_floats!("int4", dtype, T => unsafe {
            let (scales, minima) = (scales.write(), minima.write());
            if back {
                let arguments = (q.read(), scales, minima, x.write(), shape, of_x, of_q, of_scales, of_minima);
                to.launch(&<T as DequantizeKernels>::KERNELS[0], grid, arguments)
            } else {
                let arguments = (x.read(), q.write(), scales, minima, shape, of_x, of_q, of_scales, of_minima);
                to.launch(&<T as QuantizeKernels>::KERNELS[0], grid, arguments)
            }
        })
    }
}

/// The elements of a group: the option of this name.
pub fn group(name: &'static str, options: &Options) -> Result<usize> {
    match options.int("group") {
        group @ (32 | 64 | 128) => Ok(group as usize),
        group => unsupported(name, format!("group is {group}, and may be 32, 64 or 128")),
    }
}

/// Element types and shapes: of the bytes, the scales and, if there are any, the minima, or of the
/// floats.
pub fn results(
    name: &'static str,
    kind: Kind,
    inputs: &[Option<ArrayType>],
    options: &Options,
) -> Result<Vec<ArrayType>> {
    let first = given(inputs, 0);
    let of = |dtype: Dtype, last: usize| {
        let mut shape = first.shape.clone();
        *shape.last_mut().expect("checked: it has a mode") = last;
        ArrayType { dtype, shape }
    };
    if kind != Kind::Back {
        let shape = &first.shape;
        let Some(columns) = shape.last().copied().filter(|columns| columns.is_multiple_of(2)) else {
            let detail =
                format!("x has shape {shape:?}, and rows must have an even number of elements; pad them");
            return unsupported(name, detail);
        };
        let dtype = options.dtype("scale_dtype");
        if !matches!(dtype, Dtype::F32 | Dtype::F16) {
            return unsupported(name, format!("scale_dtype is {dtype}, and may be float32 or float16"));
        }
        let (q, scales) = (of(Dtype::U8, columns / 2), of(dtype, columns.div_ceil(group(name, options)?)));
        let minima = (kind == Kind::Minima).then(|| scales.clone());
        return Ok([Some(q), Some(scales), minima].into_iter().flatten().collect());
    }
    let Some(&bytes) = first.shape.last() else {
        return mismatch(name, "q has no modes; give an array of one or more".to_owned());
    };
    let scales = given(inputs, 1);
    let wanted = of(scales.dtype, (2 * bytes).div_ceil(group(name, options)?)).shape;
    if scales.shape != wanted {
        return mismatch(name, format!("scales have shape {:?}, and must have {wanted:?}", scales.shape));
    }
    if let Some(minima) = inputs[2].as_ref().filter(|minima| *minima != scales) {
        let detail = format!(
            "minima have shape {:?} of {}, and must have {wanted:?} of {}",
            minima.shape, minima.dtype, scales.dtype
        );
        return mismatch(name, detail);
    }
    Ok(vec![of(float_option(name, options, "dtype")?, 2 * bytes)])
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn compute(name: &'static str, kind: Kind, on: &On<'_>, call: &Call<'_>) -> Result<()> {
    let back = kind == Kind::Back;
    let order = if back { [3, 0, 1, 2] } else { [0, 1, 2, 3] };
    let arrays = order.map(|index| call.operands.get(index).and_then(Option::as_ref));
    let [Some(x), Some(q), Some(scales), _] = arrays else {
        unreachable!("checked: minima alone are optional")
    };
    if x.elements() == 0 {
        return Ok(());
    }
    let (last, group) = (x.shape.len() - 1, group(name, call.options)?);
    let of = Along::new(name, arrays, last)?;
    if x.elements() > i32::MAX as usize || of.groups > moye_runtime::MAX_BLOCKS[1] {
        let detail = format!("x has shape {:?}, more than {} elements; split it", x.shape, i32::MAX);
        return unsupported(name, detail);
    }
    let columns = of.columns as usize;
    let aligned = columns.is_multiple_of(16) && is_of_words(x, 16) && is_of_words(q, 8);
    // Contiguous rows of whole groups are one.
    let strides = [columns, columns / 2, columns / group, columns / group].map(|stride| stride as i64);
    let is_one = |i: usize| {
        let stride = arrays[i].map(|array| array.strides[last]);
        stride.is_none_or(|stride| stride == 1 && of.arrays[i].place.row == strides[i])
    };
    let is_one = columns.is_multiple_of(group) && (0..4).all(is_one);
    let (rows, columns) = if is_one { (1, of.rows * of.columns) } else { (of.rows, of.columns) };
    let shape = Groups {
        rows,
        columns,
        log_group: group.trailing_zeros(),
        units: columns.div_ceil(group as u32) * (group as u32 / 8),
        wide: scales.dtype == Dtype::F32,
        aligned,
    };
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { on.launch(&Int4 { of, shape, back }) }
}
