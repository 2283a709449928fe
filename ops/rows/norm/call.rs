//! From a call to launches.

use super::kernel::RmsNormKernels;
use crate::of_floats;
use crate::plan::{self, Plan, Problem, RowsOf};
use moye::operation::{self, Array, ArrayType, Call, Launcher, Operation, Options};
use moye::{Error, Ptx, Rates, Result, Stream};
use moye_device::algorithm::RowStride;
use moye_device::memory::{Global, GlobalMut};
use std::marker::PhantomData;

const NAME: &str = "rms_norm";

/// The greatest number of arrays: x, residual, out, sum.
const ARRAYS: usize = 4;

/// RMSNorm of elements `T`.
struct RmsNorm<T>(PhantomData<T>);

/// Addresses and scalars of a launch. The address of what is left out is 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Arguments {
    /// x, residual, out, sum.
    addresses: [u64; ARRAYS],
    strides: [RowStride; ARRAYS],
    weight: u64,
    /// The bits of an f32.
    eps: u32,
}

impl<T: RmsNormKernels> Operation for RmsNorm<T> {
    type Problem = Problem;
    type Plan = Plan;
    type Call = Arguments;
    const NAME: &'static str = NAME;

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
        let ([x, residual, y, sum], [ldx, ldr, ldy, lds]) = (call.addresses, call.strides);
        let arguments = (
            Global::from_address(x),
            Global::from_address(residual),
            Global::from_address(call.weight),
            GlobalMut::from_address(y),
            GlobalMut::from_address(sum),
            problem.rows,
            problem.columns,
            ldx,
            ldr,
            ldy,
            lds,
            f32::from_bits(call.eps),
        );
        // SAFETY: the caller's contract; the plan holds whole rows of this alignment.
        unsafe { on.launch(&T::KERNELS[plan.instance], plan.grid(problem), arguments) }
    }
}

/// Element types and shapes of `out` and `sum`.
pub fn results(inputs: &[Option<ArrayType>], _: &Options) -> Result<Vec<ArrayType>> {
    let x = inputs[0].clone().expect("checked: x is not optional");
    let refuse = |name: &str, is: &ArrayType, shape: &[usize]| {
        let detail = format!(
            "{name} has shape {:?} of {}, and must have {shape:?} of {}, as x has {:?}",
            is.shape, is.dtype, x.dtype, x.shape
        );
        Err(Error::ShapeMismatch { operation: NAME, detail })
    };
    let Some(columns) = x.shape.last() else {
        let detail = "x has no modes; give an array of one or more".to_owned();
        return Err(Error::ShapeMismatch { operation: NAME, detail });
    };
    for (name, input, shape) in
        [("weight", &inputs[1], std::slice::from_ref(columns)), ("residual", &inputs[2], &x.shape)]
    {
        match input {
            Some(is) if is.shape != shape || is.dtype != x.dtype => return refuse(name, is, shape),
            _ => {}
        }
    }
    Ok(vec![x.clone(), x])
}

/// The rows of a call; their strides and addresses are those of the arrays that are there.
fn rows(call: &Call<'_>) -> Result<(RowsOf, Option<u64>)> {
    let x = call.operand(0);
    let arrays: Vec<&Array> =
        [0, 2, 3, 4].into_iter().filter_map(|index| call.operands[index].as_ref()).collect();
    let mut rows = RowsOf::new(NAME, &arrays, x.axis(NAME, -1)?)?;
    let weight = call.operands[1].as_ref();
    if let Some(weight) = weight {
        rows.aligned &= weight.address.is_multiple_of(16) && (weight.strides == [1] || rows.columns == 1);
        if weight.strides != [1] && rows.columns > 1 {
            let detail = format!("weight has stride {}, and must be contiguous; copy it", weight.strides[0]);
            return Err(Error::Unsupported { operation: NAME, detail });
        }
    }
    Ok((rows, weight.map(|weight| weight.address)))
}

/// Computes a call.
///
/// # Safety
/// As for [`moye::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let (rows, weight) = rows(call)?;
    if rows.rows == 0 || rows.columns == 0 {
        return Ok(());
    }
    let x = call.operand(0);
    let eps = (call.options.float("eps") as f32).to_bits();
    let problem = rows.problem(NAME, x.dtype, stream.device())?;
    for launch in &rows.launches {
        let mut given = launch.iter().zip(&rows.strides);
        let mut arguments = Arguments {
            addresses: [0; ARRAYS],
            strides: [RowStride { row: 0, element: 1 }; ARRAYS],
            weight: weight.unwrap_or(0),
            eps,
        };
        for (place, index) in [0, 2, 3, 4].into_iter().enumerate() {
            if call.operands[index].is_some()
                && let Some((address, stride)) = given.next()
            {
                (arguments.addresses[place], arguments.strides[place]) = (*address, *stride);
            }
        }
        // SAFETY: the call's arrays are on the stream's device until the work is complete.
        unsafe {
            of_floats!(NAME, x.dtype, T => operation::run::<RmsNorm<T>>(stream, &problem, &arguments)?);
        }
    }
    Ok(())
}

/// The kernel that computes a call.
pub fn explain(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    let (dtype, device) = (call.operand(0).dtype, stream.device());
    let problem = rows(call)?.0.problem(NAME, dtype, device)?;
    Ok(of_floats!(NAME, dtype, T => RmsNorm::<T>::kernel(&operation::plan::<RmsNorm<T>>(device, &problem)?)))
}
