//! From a call to launches.

use super::Activation;
use super::kernel::{ActivatedKernels, GatedPairKernels};
use crate::of_floats;
use moye::operation::{
    Array, ArrayType, Call, Dtype, Elementwise, Launcher, broadcast_shape, map_grid, run_elementwise,
};
use moye::{Error, Ptx, Result, Stream};
use moye_device::algorithm::MapLaunch;
use moye_device::memory::{Global, GlobalMut};
use std::marker::PhantomData;

/// `f(x) * other` or `f(x + other)` of elements `T`.
struct Activated<T>(PhantomData<T>);

impl<T: ActivatedKernels> Elementwise<2> for Activated<T> {
    /// The activation, and whether the second input is a factor.
    type Scalars = (u32, bool);
    const NAME: &'static str = "activated";

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn kernel() -> &'static str {
        T::KERNELS[0].name()
    }

    unsafe fn launch(call: &MapLaunch<2>, (activation, gated): (u32, bool), on: &Launcher<'_>) -> Result<()> {
        let [x, other] = call.inputs.map(Global::from_address);
        let arguments = (x, other, GlobalMut::from_address(call.out), call.modes, activation, gated);
        // SAFETY: the caller's contract; the operands have the elements of the modes.
        unsafe { on.launch(&T::KERNELS[0], map_grid(call).dependent(), arguments) }
    }
}

/// `f(a) * b` of adjacent elements `T`.
struct GatedPairs<T>(PhantomData<T>);

impl<T: GatedPairKernels> Elementwise<1> for GatedPairs<T> {
    type Scalars = u32;
    const NAME: &'static str = "gated_pairs";

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn kernel() -> &'static str {
        T::KERNELS[0].name()
    }

    unsafe fn launch(call: &MapLaunch<1>, activation: u32, on: &Launcher<'_>) -> Result<()> {
        let (x, out) = (Global::from_address(call.inputs[0]), GlobalMut::from_address(call.out));
        // SAFETY: the caller's contract; the operands have the elements of the modes.
        unsafe { on.launch(&T::KERNELS[0], map_grid(call).dependent(), (x, out, call.modes, activation)) }
    }
}

fn same_type(operation: &'static str, name: &str, x: &ArrayType, other: &Option<ArrayType>) -> Result<()> {
    match other {
        Some(other) if other.dtype != x.dtype => {
            let detail = format!("{name} has elements of {}, and x of {}; convert one", other.dtype, x.dtype);
            Err(Error::ShapeMismatch { operation, detail })
        }
        _ => Ok(()),
    }
}

/// Type and shape of a gated result.
pub fn gated_results(operation: &'static str, inputs: &[Option<ArrayType>]) -> Result<Vec<ArrayType>> {
    let mismatch = |detail| Err(Error::ShapeMismatch { operation, detail });
    let mut x = inputs[0].clone().expect("checked: x is not optional");
    same_type(operation, "up", &x, &inputs[1])?;
    if let Some(up) = &inputs[1] {
        return if up.shape == x.shape {
            Ok(vec![x])
        } else {
            mismatch(format!("up has shape {:?}, and must have that of x, {:?}", up.shape, x.shape))
        };
    }
    match x.shape.last_mut() {
        Some(last) if last.is_multiple_of(2) => *last /= 2,
        _ => {
            let shape = &x.shape;
            return mismatch(format!("x has shape {shape:?}; without up its last extent must be even"));
        }
    }
    Ok(vec![x])
}

/// Type and shape of a result with a bias: those of x.
pub fn biased_results(operation: &'static str, inputs: &[Option<ArrayType>]) -> Result<Vec<ArrayType>> {
    let x = inputs[0].clone().expect("checked: x is not optional");
    same_type(operation, "bias", &x, &inputs[1])?;
    if let Some(bias) = &inputs[1]
        && broadcast_shape(operation, &[&x, bias])? != x.shape
    {
        let detail = format!("bias has shape {:?}, and x only {:?}", bias.shape, x.shape);
        return Err(Error::ShapeMismatch { operation, detail });
    }
    Ok(vec![x])
}

/// The operands of a launch.
enum Operands {
    /// x, and its gate or bias.
    Two([Option<Array>; 2]),
    /// Pairs of elements, as elements of twice the size.
    Pairs(Array),
}

/// The operands of a gated call.
fn gated_operands(call: &Call<'_>) -> Operands {
    let x = call.operand(0);
    if let Some(up) = &call.operands[1] {
        return Operands::Two([Some(x.clone()), Some(up.clone())]);
    }
    let (bytes, last) = (x.dtype.bytes(), x.shape.len() - 1);
    let mut gate = x.clone();
    gate.shape[last] /= 2;
    let interleaved = call.options.bool("interleaved");
    let distance = if interleaved { x.strides[last] } else { gate.shape[last] as i64 * x.strides[last] };
    if interleaved {
        let are_pairs = x.strides[last] == 1
            && x.address.is_multiple_of(2 * bytes as u64)
            && (0..last).all(|mode| x.shape[mode] <= 1 || x.strides[mode] % 2 == 0);
        if are_pairs {
            gate.strides[..last].iter_mut().for_each(|stride| *stride /= 2);
            // Only the size of the elements counts.
            gate.dtype = if bytes == 2 { Dtype::F32 } else { Dtype::I64 };
            return Operands::Pairs(gate);
        }
        gate.strides[last] *= 2;
    }
    let address = gate.address.wrapping_add_signed(distance * bytes as i64);
    let up = Array { address, ..gate.clone() };
    Operands::Two([Some(gate), Some(up)])
}

/// The operands of a call with a bias.
fn biased_operands(call: &Call<'_>) -> Operands {
    Operands::Two([call.operands[0].clone(), call.operands[1].clone()])
}

/// The activation of a call, and its operands.
fn operands(activation: Option<Activation>, call: &Call<'_>) -> (u32, Operands) {
    match activation {
        Some(activation) => (activation as u32, gated_operands(call)),
        None => (Activation::named(call.options.choice("activation")) as u32, biased_operands(call)),
    }
}

/// Computes a gated call, or without `activation` one with a bias.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(
    operation: &'static str,
    activation: Option<Activation>,
    stream: &Stream,
    call: &Call<'_>,
) -> Result<()> {
    let gated = activation.is_some();
    let (activation, operands) = operands(activation, call);
    let (dtype, out) = (call.operand(0).dtype, call.operand(2));
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    of_floats!(operation, dtype, T => unsafe {
        match operands {
            Operands::Two(inputs) => {
                let inputs = inputs.each_ref().map(Option::as_ref);
                run_elementwise::<Activated<T>, 2>(stream, inputs, out, (activation, gated))
            }
            Operands::Pairs(pairs) => {
                run_elementwise::<GatedPairs<T>, 1>(stream, [Some(&pairs)], out, activation)
            }
        }
    })
}

/// The kernel that computes a call.
pub fn explain(
    operation: &'static str,
    activation: Option<Activation>,
    call: &Call<'_>,
) -> Result<&'static str> {
    let (_, operands) = operands(activation, call);
    Ok(of_floats!(operation, call.operand(0).dtype, T => match operands {
        Operands::Two(_) => Activated::<T>::kernel(),
        Operands::Pairs(_) => GatedPairs::<T>::kernel(),
    }))
}
