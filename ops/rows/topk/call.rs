//! From a call to launches.

use super::kernel::{MOST, THREADS, TopKKernels};
use crate::groups::{Along, One, OneKernel};
use crate::of_floats;
use crate::place::Place;
use moye::operation::{self, Array, ArrayType, Call, Dtype, Launcher, Options};
use moye::{Error, Grid, Result, Stream};
use moye_device::memory::{Global, GlobalMut};
use std::marker::PhantomData;

pub const NAME: &str = "topk";

/// The rows of a launch, in groups, and the elements of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem {
    rows: u32,
    groups: u32,
    n: u32,
    k: u32,
    /// Whether indices are i64.
    wide: bool,
}

/// Addresses and strides of x, values and indices.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Arguments {
    addresses: [u64; 3],
    places: [Place; 3],
}

/// The greatest of elements `T`.
struct TopK<T>(PhantomData<T>);

impl<T: TopKKernels> OneKernel for TopK<T> {
    type Problem = Problem;
    type Call = Arguments;
    const NAME: &'static str = NAME;

    fn kernel() -> &'static str {
        T::KERNELS[0].name()
    }

    unsafe fn launch(problem: &Problem, call: &Arguments, on: &Launcher<'_>) -> Result<()> {
        let Problem { rows, groups, n, k, wide } = *problem;
        let ([x, values, indices], [of_x, of_values, of_indices]) = (call.addresses, call.places);
        let (values, indices) = (GlobalMut::from_address(values), GlobalMut::from_address(indices));
        let arguments = (Global::from_address(x), values, indices, wide, n, k, of_x, of_values, of_indices);
        // SAFETY: the caller's contract; k was checked.
        unsafe { on.launch(&T::KERNELS[0], Grid::new((rows, groups), THREADS), arguments) }
    }
}

/// Element types and shapes of values and indices.
pub fn results(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let ArrayType { dtype, mut shape } = inputs[0].clone().expect("checked: x is not optional");
    let axis =
        Array::row_major(&ArrayType { dtype, shape: shape.clone() }, 0).axis(NAME, options.int("axis"))?;
    let (k, n) = (options.int("k"), shape[axis]);
    if k < 1 || k > i64::from(MOST).min(n as i64) {
        let detail = format!("k is {k}, and rows of {n} elements take 1 to {}", n.min(MOST as usize));
        return Err(Error::Unsupported { operation: NAME, detail });
    }
    shape[axis] = k as usize;
    let indices = if options.bool("int32") { Dtype::I32 } else { Dtype::I64 };
    Ok([dtype, indices].map(|dtype| ArrayType { dtype, shape: shape.clone() }).to_vec())
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let arrays = [0, 1, 2].map(|index| call.operand(index));
    let x = arrays[0];
    if x.elements() == 0 {
        return Ok(());
    }
    let axis = x.axis(NAME, call.options.int("axis"))?;
    let Along { rows, groups, columns: n, places } = Along::new(NAME, arrays, axis)?;
    let (k, wide) = (call.options.int("k") as u32, !call.options.bool("int32"));
    let problem = Problem { rows, groups, n, k, wide };
    let arguments = Arguments { addresses: arrays.map(|array| array.address), places };
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { of_floats!(NAME, x.dtype, T => operation::run::<One<TopK<T>>>(stream, &problem, &arguments)) }
}

/// The kernel that computes a call.
pub fn explain(_: &Stream, call: &Call<'_>) -> Result<&'static str> {
    Ok(of_floats!(NAME, call.operand(0).dtype, T => TopK::<T>::kernel()))
}
