//! From a call to launches.

use super::kernel::SoftmaxKernels;
use crate::of_floats;
use crate::plan::{self, Plan, Problem, RowsOf};
use moye::operation::{self, Call, Launcher, Operation};
use moye::{Ptx, Rates, Result, Stream};
use moye_device::algorithm::RowStride;
use moye_device::memory::{Global, GlobalMut};
use std::marker::PhantomData;

/// Softmax of elements `T`.
struct Softmax<T>(PhantomData<T>);

/// Addresses and scalars of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Arguments {
    x: u64,
    y: u64,
    ldx: RowStride,
    ldy: RowStride,
    /// The bits of an f32.
    scale: u32,
    log: bool,
}

impl<T: SoftmaxKernels> Operation for Softmax<T> {
    type Problem = Problem;
    type Plan = Plan;
    type Call = Arguments;
    const NAME: &'static str = "softmax";

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates(problem: &Problem, card: &Rates) -> Vec<Plan> {
        plan::candidates(problem, card)
    }

    fn cost(plan: &Plan, problem: &Problem, card: &Rates) -> f64 {
        plan::cost(plan, problem, card, 2.0)
    }

    fn kernel(plan: &Plan) -> &'static str {
        T::KERNELS[plan.instance].name()
    }

    unsafe fn launch(plan: &Plan, problem: &Problem, call: &Arguments, on: &Launcher<'_>) -> Result<()> {
        let Arguments { x, y, ldx, ldy, scale, log } = *call;
        let (x, y) = (Global::from_address(x), GlobalMut::from_address(y));
        let arguments = (x, y, problem.rows, problem.columns, ldx, ldy, f32::from_bits(scale), log);
        // SAFETY: the caller's contract; the plan holds whole rows of this alignment.
        unsafe { on.launch(&T::KERNELS[plan.instance], plan.grid(problem), arguments) }
    }
}

/// Computes a call of softmax.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn softmax(stream: &Stream, call: &Call<'_>) -> Result<()> {
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { run("softmax", stream, call, false) }
}

/// Computes a call of log-softmax.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn log_softmax(stream: &Stream, call: &Call<'_>) -> Result<()> {
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { run("log_softmax", stream, call, true) }
}

/// Computes a call of either.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
unsafe fn run(name: &'static str, stream: &Stream, call: &Call<'_>, log: bool) -> Result<()> {
    let rows = rows(name, call)?;
    if rows.rows == 0 || rows.columns == 0 {
        return Ok(());
    }
    let x = call.operand(0);
    let scale = (call.options.float("scale") as f32).to_bits();
    let problem = rows.problem(name, x.dtype, stream.device())?;
    for addresses in &rows.launches {
        let (ldx, ldy) = (rows.strides[0], rows.strides[1]);
        let arguments = Arguments { x: addresses[0], y: addresses[1], ldx, ldy, scale, log };
        // SAFETY: the call's arrays are on the stream's device until the work is complete.
        unsafe {
            of_floats!(name, x.dtype, T => operation::run::<Softmax<T>>(stream, &problem, &arguments)?);
        }
    }
    Ok(())
}

/// The kernel that computes a call.
pub fn explain(name: &'static str, stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    let (dtype, device) = (call.operand(0).dtype, stream.device());
    let problem = rows(name, call)?.problem(name, dtype, device)?;
    Ok(of_floats!(name, dtype, T => Softmax::<T>::kernel(&operation::plan::<Softmax<T>>(device, &problem)?)))
}

fn rows(name: &'static str, call: &Call<'_>) -> Result<RowsOf> {
    let (x, y) = (call.operand(0), call.operand(1));
    RowsOf::new(name, &[x, y], x.axis(name, call.options.int("axis"))?)
}
