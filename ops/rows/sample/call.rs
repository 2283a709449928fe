//! From a call to launches.

use super::kernel::{Rule, SampleKernels, THREADS};
use crate::groups::{self, Mode, One, OneKernel};
use crate::of_floats;
use crate::place::Place;
use moye::operation::{self, Array, ArrayType, Call, Dtype, Launcher, Options};
use moye::{Error, Grid, Result, Stream};
use moye_device::memory::{Global, GlobalMut};
use std::marker::PhantomData;

pub const NAME: &str = "sample";

/// The rows of a launch, in groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem {
    rows: u32,
    groups: u32,
    n: u32,
    /// Whether indices are i64.
    wide: bool,
}

/// Addresses, strides and scalars of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Arguments {
    x: u64,
    /// 0 without.
    seeds: u64,
    indices: u64,
    /// For x, for the seeds, for the indices, and for the numbers of rows.
    places: [Place; 4],
    rule: Rule,
}

/// Sampling from logits `T`.
struct Sample<T>(PhantomData<T>);

impl<T: SampleKernels> OneKernel for Sample<T> {
    type Problem = Problem;
    type Call = Arguments;
    const NAME: &'static str = NAME;

    fn kernel() -> &'static str {
        T::KERNELS[0].name()
    }

    unsafe fn launch(problem: &Problem, call: &Arguments, on: &Launcher<'_>) -> Result<()> {
        let Problem { rows, groups, n, wide } = *problem;
        let [of_x, of_seeds, of_indices, numbers] = call.places;
        let (x, seeds) = (Global::from_address(call.x), Global::from_address(call.seeds));
        let indices = GlobalMut::from_address(call.indices);
        let arguments = (x, seeds, indices, wide, n, of_x, of_seeds, of_indices, numbers, call.rule);
        // SAFETY: the caller's contract; rows have an element.
        unsafe { on.launch(&T::KERNELS[0], Grid::new((rows, groups), THREADS).dependent(), arguments) }
    }
}

/// The options as the kernel has them.
pub fn rule(options: &Options) -> Result<Rule> {
    let [temperature, top_p, min_p] =
        ["temperature", "top_p", "min_p"].map(|name| options.float(name) as f32);
    let top_k = u32::try_from(options.int("top_k"));
    let refuse = |detail: String| Err(Error::Unsupported { operation: NAME, detail });
    if !(temperature >= 0.0 && temperature.is_finite()) {
        return refuse(format!("temperature is {temperature}, and must be 0 or more"));
    }
    for (name, p) in [("top_p", top_p), ("min_p", min_p)] {
        if !(0.0..=1.0).contains(&p) {
            return refuse(format!("{name} is {p}, and must be from 0 to 1"));
        }
    }
    let Ok(top_k) = top_k else {
        return refuse(format!("top_k is {}, and must be 0 (all) or more", options.int("top_k")));
    };
    let factor = if temperature == 0.0 { 0.0 } else { 1.0 / temperature };
    let [factor, top_p, min_p] = [factor, top_p, min_p].map(f32::to_bits);
    Ok(Rule { factor, top_k, top_p, min_p, seed: options.int("seed").cast_unsigned() })
}

/// Element type and shape of the indices.
pub fn results(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let mut shape = inputs[0].clone().expect("checked: x is not optional").shape;
    rule(options)?;
    match shape.pop() {
        Some(1..) => {}
        n => {
            let detail = format!("rows have {} elements; there is none to draw", n.unwrap_or(0));
            return Err(Error::Unsupported { operation: NAME, detail });
        }
    }
    if let Some(seeds) = &inputs[1]
        && seeds.shape != shape
    {
        let detail = format!("seeds have shape {:?}, and must have {shape:?}: one for each row", seeds.shape);
        return Err(Error::ShapeMismatch { operation: NAME, detail });
    }
    let dtype = if options.bool("int32") { Dtype::I32 } else { Dtype::I64 };
    Ok(vec![ArrayType { dtype, shape }])
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let (x, seeds, indices) = (call.operand(0), call.operands[1].as_ref(), call.operand(2));
    if x.elements() == 0 {
        return Ok(());
    }
    let last = x.axis(NAME, -1)?;
    let numbers = Array::row_major(&indices.ty(), 0).strides;
    let of_seeds = |mode: usize| seeds.map_or(0, |seeds| seeds.strides[mode]);
    let modes: Vec<Mode<4>> = (0..last)
        .map(|mode| (x.shape[mode], [x.strides[mode], of_seeds(mode), indices.strides[mode], numbers[mode]]))
        .collect();
    let [groups, rows] = groups::groups_and_rows(NAME, x, groups::joined(modes))?;
    let n = i32::try_from(x.shape[last]).map_err(|_| {
        let detail = format!("rows have {} elements, and may have {}; split them", x.shape[last], i32::MAX);
        Error::Unsupported { operation: NAME, detail }
    })?;
    let element = if n > 1 { x.strides[last] } else { 1 };
    let problem = Problem { rows: rows.0, groups: groups.0, n: n as u32, wide: indices.dtype == Dtype::I64 };
    let arguments = Arguments {
        x: x.address,
        seeds: seeds.map_or(0, |seeds| seeds.address),
        indices: indices.address,
        places: [0, 1, 2, 3].map(|i| Place { group: groups.1[i], row: rows.1[i], element }),
        rule: rule(call.options)?,
    };
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { of_floats!(NAME, x.dtype, T => operation::run::<One<Sample<T>>>(stream, &problem, &arguments)) }
}

/// The kernel that computes a call.
pub fn explain(_: &Stream, call: &Call<'_>) -> Result<&'static str> {
    Ok(of_floats!(NAME, call.operand(0).dtype, T => Sample::<T>::kernel()))
}
