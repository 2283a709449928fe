//! Builds the launches of a call.

use super::Activation;
use super::kernel::{ActivatedKernels, GatedPairKernels};
use crate::prelude::*;
use moye_device::algorithm::MapLaunch;

/// The function of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A product with SiLU of x.
    Swiglu,
    /// A product with GELU of x, by the form that the option `approximate` names.
    Geglu,
    /// A product with the squared ReLU of x.
    Relu2glu,
    /// The activation that the option names, of x with a bias.
    Biased,
}

impl Kind {
    /// The activation.
    pub fn activation(self, options: &Options) -> Activation {
        match self {
            Self::Swiglu => Activation::Silu,
            Self::Geglu if options.choice("approximate") == "tanh" => Activation::GeluTanh,
            Self::Geglu => Activation::Gelu,
            Self::Relu2glu => Activation::Relu2,
            Self::Biased => Activation::named(options.choice("activation")),
        }
    }
}

/// `f(x) * other` or `f(x + other)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Activated {
    dtype: Dtype,
    map: MapLaunch<2>,
    activation: u32,
    gated: bool,
}

impl Launch for Activated {
    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    unsafe fn launch(&self, to: To<'_>) -> Result<()> {
        let &Self { dtype, ref map, activation, gated } = self;
        // SAFETY: the operands have the elements of the modes.
        of_floats!("activation", dtype, T => unsafe {
            let [x, other] = map.inputs.map(Global::from_address);
            let arguments = (x, other, GlobalMut::from_address(map.out), map.modes, activation, gated);
            to.launch(&<T as ActivatedKernels>::KERNELS[0], map_grid(map).dependent(), arguments)
        })
    }
}

/// `f(a) * b` of adjacent elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct GatedPairs {
    dtype: Dtype,
    map: MapLaunch<1>,
    activation: u32,
}

impl Launch for GatedPairs {
    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    unsafe fn launch(&self, to: To<'_>) -> Result<()> {
        let &Self { dtype, ref map, activation } = self;
        // SAFETY: the operands have the elements of the modes.
        of_floats!("activation", dtype, T => unsafe {
            let (x, out) = (Global::from_address(map.inputs[0]), GlobalMut::from_address(map.out));
            let kernel = &<T as GatedPairKernels>::KERNELS[0];
            to.launch(kernel, map_grid(map).dependent(), (x, out, map.modes, activation))
        })
    }
}

/// Type and shape of the result: with a bias as x, of a product as its factors.
pub fn results(
    operation: &'static str,
    kind: Kind,
    inputs: &[Option<ArrayType>],
    _: &Options,
) -> Result<Vec<ArrayType>> {
    let (mut x, other) = (given(inputs, 0).clone(), inputs[1].as_ref());
    let name = if kind == Kind::Biased { "bias" } else { "up" };
    if let Some(other) = other.filter(|other| other.dtype != x.dtype) {
        let detail = format!("{name} has elements of {}, and x of {}; convert one", other.dtype, x.dtype);
        return mismatch(operation, detail);
    }
    match (kind, other) {
        (Kind::Biased, Some(bias)) if broadcast_shape(operation, &[&x, bias])? != x.shape => {
            mismatch(operation, format!("bias has shape {:?}, and x only {:?}", bias.shape, x.shape))
        }
        (Kind::Biased, _) => Ok(vec![x]),
        (_, Some(up)) if up.shape != x.shape => mismatch(
            operation,
            format!("up has shape {:?}, and must have that of x, {:?}", up.shape, x.shape),
        ),
        (_, Some(_)) => Ok(vec![x]),
        (_, None) => match x.shape.last_mut() {
            Some(last) if last.is_multiple_of(2) => {
                *last /= 2;
                Ok(vec![x])
            }
            _ => {
                let shape = &x.shape;
                mismatch(operation, format!("x has shape {shape:?}; without up its last extent must be even"))
            }
        },
    }
}

/// The operands of a launch.
enum Operands {
    /// x, and its gate or bias.
    Two([Option<Array>; 2]),
    /// Pairs of elements, as elements of twice the size.
    Pairs(Array),
}

/// The operands of a gated call without `up`.
fn halves(x: &Array, interleaved: bool) -> Operands {
    let (bytes, last) = (x.dtype.bytes(), x.shape.len() - 1);
    let mut gate = x.clone();
    gate.shape[last] /= 2;
    let distance = if interleaved { x.strides[last] } else { gate.shape[last] as i64 * x.strides[last] };
    if interleaved {
        let are_pairs = x.strides[last] == 1
            && x.address.is_multiple_of(2 * bytes as u64)
            && (0..last).all(|mode| x.shape[mode] <= 1 || x.strides[mode] % 2 == 0);
        if are_pairs {
            gate.strides[..last].iter_mut().for_each(|stride| *stride /= 2);
            // Only the size of the elements matters.
            gate.dtype = if bytes == 2 { Dtype::F32 } else { Dtype::I64 };
            return Operands::Pairs(gate);
        }
        gate.strides[last] *= 2;
    }
    let address = gate.address.wrapping_add_signed(distance * bytes as i64);
    let up = Array { address, ..gate.clone() };
    Operands::Two([Some(gate), Some(up)])
}

/// Computes a gated call, or one with a bias.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn compute(name: &'static str, kind: Kind, on: &On<'_>, call: &Call<'_>) -> Result<()> {
    let (x, other, out) = (call.operand(0), &call.operands[1], call.operand(2));
    let (dtype, gated) = (x.dtype, kind != Kind::Biased);
    let activation = kind.activation(call.options) as u32;
    let operands = match gated && other.is_none() {
        true => halves(x, call.options.bool("interleaved")),
        false => Operands::Two([Some(x.clone()), other.clone()]),
    };
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe {
        match operands {
            Operands::Two(inputs) => map_launches(name, inputs.each_ref().map(Option::as_ref), out)?
                .into_iter()
                .try_for_each(|map| on.launch(&Activated { dtype, map, activation, gated })),
            Operands::Pairs(pairs) => map_launches(name, [Some(&pairs)], out)?
                .into_iter()
                .try_for_each(|map| on.launch(&GatedPairs { dtype, map, activation })),
        }
    }
}
