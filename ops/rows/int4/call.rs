//! From a call to launches.

use super::kernel::{DequantizeKernels, Groups, HELD, QuantizeKernels, THREADS};
use crate::groups::{self, Mode, One, OneKernel, is_of_words};
use crate::of_floats;
use crate::place::Place;
use moye::operation::{self, Array, ArrayType, Call, Dtype, Launcher, Options};
use moye::{Error, Grid, Result, Stream};
use moye_device::memory::{Global, GlobalMut};
use std::marker::PhantomData;

/// The matrices of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem {
    shape: Groups,
    matrices: u32,
}

/// Addresses and strides: of floats, bytes, scales, minima.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Arguments {
    addresses: [u64; 4],
    places: [Place; 4],
}

/// Quantisation of elements `T`, or back.
struct Int4<T, const BACK: bool>(PhantomData<T>);

impl<T: QuantizeKernels + DequantizeKernels, const BACK: bool> OneKernel for Int4<T, BACK> {
    type Problem = Problem;
    type Call = Arguments;
    const NAME: &'static str = "int4";

    fn kernel() -> &'static str {
        if BACK {
            <T as DequantizeKernels>::KERNELS[0].name()
        } else {
            <T as QuantizeKernels>::KERNELS[0].name()
        }
    }

    unsafe fn launch(problem: &Problem, call: &Arguments, on: &Launcher<'_>) -> Result<()> {
        let Problem { shape, matrices } = *problem;
        let ([x, q, scales, minima], [of_x, of_q, of_scales, of_minima]) = (call.addresses, call.places);
        let units = u64::from(shape.rows) * u64::from(shape.units);
        let grid = Grid::new((units.div_ceil((THREADS * HELD as u32).into()) as u32, matrices), THREADS);
        let [scales, minima] = [scales, minima].map(GlobalMut::from_address);
        // SAFETY: the caller's contract; the grid has all units.
        unsafe {
            if BACK {
                let (q, y) = (Global::from_address(q), GlobalMut::from_address(x));
                let arguments = (q, scales, minima, y, shape, of_x, of_q, of_scales, of_minima);
                return on.launch(&<T as DequantizeKernels>::KERNELS[0], grid, arguments);
            }
            let (x, q) = (Global::from_address(x), GlobalMut::from_address(q));
            let arguments = (x, q, scales, minima, shape, of_x, of_q, of_scales, of_minima);
            on.launch(&<T as QuantizeKernels>::KERNELS[0], grid, arguments)
        }
    }
}

/// The elements of a group: the option of this name.
pub fn group(name: &'static str, options: &Options) -> Result<usize> {
    match options.int("group") {
        group @ (32 | 64 | 128) => Ok(group as usize),
        group => {
            let detail = format!("group is {group}, and may be 32, 64 or 128");
            Err(Error::Unsupported { operation: name, detail })
        }
    }
}

/// A shape with another extent of the last mode.
fn with_last(shape: &[usize], last: usize) -> Vec<usize> {
    let mut shape = shape.to_vec();
    *shape.last_mut().expect("checked: it has a mode") = last;
    shape
}

/// Element types and shapes of the bytes, the scales and, if there are any, the minima.
pub fn quantized(
    name: &'static str,
    inputs: &[Option<ArrayType>],
    options: &Options,
    has_minima: bool,
) -> Result<Vec<ArrayType>> {
    let shape = inputs[0].clone().expect("checked: x is not optional").shape;
    let Some(columns) = shape.last().copied().filter(|columns| columns.is_multiple_of(2)) else {
        let detail =
            format!("x has shape {shape:?}, and rows must have an even number of elements; pad them");
        return Err(Error::Unsupported { operation: name, detail });
    };
    let dtype = options.dtype("scale_dtype");
    if !matches!(dtype, Dtype::F32 | Dtype::F16) {
        let detail = format!("scale_dtype is {dtype}, and may be float32 or float16");
        return Err(Error::Unsupported { operation: name, detail });
    }
    let scales = ArrayType { dtype, shape: with_last(&shape, columns.div_ceil(group(name, options)?)) };
    let q = ArrayType { dtype: Dtype::U8, shape: with_last(&shape, columns / 2) };
    Ok(if has_minima { vec![q, scales.clone(), scales] } else { vec![q, scales] })
}

/// Element type and shape of the floats.
pub fn dequantized(
    name: &'static str,
    inputs: &[Option<ArrayType>],
    options: &Options,
) -> Result<Vec<ArrayType>> {
    let [q, scales] = [0, 1].map(|index| inputs[index].clone().expect("checked: it is not optional"));
    let mismatch = |detail| Err(Error::ShapeMismatch { operation: name, detail });
    let Some(&bytes) = q.shape.last() else {
        return mismatch("q has no modes; give an array of one or more".to_owned());
    };
    let wanted = with_last(&q.shape, (2 * bytes).div_ceil(group(name, options)?));
    if scales.shape != wanted {
        return mismatch(format!("scales have shape {:?}, and must have {wanted:?}", scales.shape));
    }
    if let Some(minima) = inputs[2].as_ref().filter(|minima| **minima != scales) {
        return mismatch(format!(
            "minima have shape {:?} of {}, and must have {wanted:?} of {}",
            minima.shape, minima.dtype, scales.dtype
        ));
    }
    let dtype = crate::float_option(name, options, "dtype")?;
    Ok(vec![ArrayType { dtype, shape: with_last(&q.shape, 2 * bytes) }])
}

/// The problem of floats, bytes, scales and minima.
fn problem(name: &'static str, arrays: [Option<&Array>; 4], group: usize) -> Result<(Problem, Arguments)> {
    let [Some(x), Some(q), Some(scales), _] = arrays else {
        unreachable!("checked: minima alone are optional")
    };
    let last = x.shape.len() - 1;
    let stride = |mode: usize| arrays.map(|array| array.map_or(0, |array| array.strides[mode]));
    let modes: Vec<Mode<4>> = (0..last).map(|mode| (x.shape[mode], stride(mode))).collect();
    let [matrices, rows] = groups::groups_and_rows(name, x, groups::joined(modes))?;
    let columns = x.shape[last];
    if x.elements() > i32::MAX as usize || matrices.0 > moye::MAX_BLOCKS[1] {
        let detail = format!("x has shape {:?}, more than {} elements; split it", x.shape, i32::MAX);
        return Err(Error::Unsupported { operation: name, detail });
    }
    let aligned = columns.is_multiple_of(16) && is_of_words(x, 16) && is_of_words(q, 8);
    // Contiguous rows of whole groups are one.
    let (mut rows_of, mut columns_of) = (rows.0, columns as u32);
    let strides = [columns, columns / 2, columns / group, columns / group].map(|stride| stride as i64);
    let is_one = |i: usize| arrays[i].is_none() || stride(last)[i] == 1 && rows.1[i] == strides[i];
    if columns.is_multiple_of(group) && (0..4).all(is_one) {
        (rows_of, columns_of) = (1, rows.0 * columns_of);
    }
    let shape = Groups {
        rows: rows_of,
        columns: columns_of,
        log_group: group.trailing_zeros(),
        units: columns_of.div_ceil(group as u32) * (group as u32 / 8),
        wide: scales.dtype == Dtype::F32,
        aligned,
    };
    let places =
        [0, 1, 2, 3].map(|i| Place { group: matrices.1[i], row: rows.1[i], element: stride(last)[i] });
    let addresses = arrays.map(|array| array.map_or(0, |array| array.address));
    Ok((Problem { shape, matrices: matrices.0 }, Arguments { addresses, places }))
}

/// Floats, bytes, scales and minima among the operands of a call.
fn arrays<'a>(call: &'a Call<'_>, back: bool) -> [Option<&'a Array>; 4] {
    let order = if back { [3, 0, 1, 2] } else { [0, 1, 2, 3] };
    order.map(|index| call.operands.get(index).and_then(Option::as_ref))
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(name: &'static str, stream: &Stream, call: &Call<'_>, back: bool) -> Result<()> {
    let arrays = arrays(call, back);
    let Some(x) = arrays[0].filter(|x| x.elements() > 0) else { return Ok(()) };
    let (problem, arguments) = problem(name, arrays, group(name, call.options)?)?;
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    of_floats!(name, x.dtype, T => unsafe {
        if back {
            operation::run::<One<Int4<T, true>>>(stream, &problem, &arguments)
        } else {
            operation::run::<One<Int4<T, false>>>(stream, &problem, &arguments)
        }
    })
}

/// The kernel that computes a call.
pub fn explain(name: &'static str, call: &Call<'_>, back: bool) -> Result<&'static str> {
    let x = arrays(call, back)[0].expect("checked: it is not optional");
    Ok(of_floats!(name, x.dtype, T => {
        if back { Int4::<T, true>::kernel() } else { Int4::<T, false>::kernel() }
    }))
}
