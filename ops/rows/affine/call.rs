//! Builds the launches of a call.

use super::kernel::*;
use crate::prelude::*;
use half::{bf16, f16};
use moye_device::algorithm::{MapLaunch, MapModes};
use moye_device::kernel::Kernel;

/// The kernel of elements `Self` with results `U`.
trait AffineTo<U: Element>: Element {
    const KERNEL: Kernel<(Global<Self>, Global<Self>, GlobalMut<U>, MapModes<2>, f32, f32, f32)>;
}

macro_rules! kernels {
    ($($kernel:ident: $t:ty => $u:ty;)+) => { $(
        impl AffineTo<$u> for $t {
            const KERNEL: Kernel<(Global<$t>, Global<$t>, GlobalMut<$u>, MapModes<2>, f32, f32, f32)> = $kernel;
        }
    )+ };
}
kernels! {
    affine_f32_f32: f32 => f32;
    affine_f32_f16: f32 => f16;
    affine_f32_bf16: f32 => bf16;
    affine_f16_f32: f16 => f32;
    affine_f16_f16: f16 => f16;
    affine_f16_bf16: f16 => bf16;
    affine_bf16_f32: bf16 => f32;
    affine_bf16_f16: bf16 => f16;
    affine_bf16_bf16: bf16 => bf16;
}

/// Sums of multiples of elements of the first type as the second.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Affine {
    dtypes: [Dtype; 2],
    map: MapLaunch<2>,
    /// The bits of alpha, beta and the constant.
    scalars: [u32; 3],
}

impl Launch for Affine {
    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    unsafe fn launch(&self, to: To<'_>) -> Result<()> {
        let ([from, into], map, [alpha, beta, constant]) =
            (self.dtypes, &self.map, self.scalars.map(f32::from_bits));
        // SAFETY: the operands have the elements of the modes.
        of_floats!("affine", from, T => of_floats!("affine", into, U => unsafe {
            let [x, y] = map.inputs.map(Global::from_address);
            let arguments = (x, y, GlobalMut::from_address(map.out), map.modes, alpha, beta, constant);
            to.launch(&<T as AffineTo<U>>::KERNEL, map_grid(map).dependent(), arguments)
        }))
    }
}

/// The function of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `x + alpha y`.
    Add,
    /// `alpha x + beta y`.
    Axpby,
    /// x as another type.
    Cast,
    /// A constant in the shape of x.
    Constant,
}

impl Kind {
    /// The factors of x and y, and the constant; `None` for an absent term.
    pub fn scalars(self, options: &Options) -> [Option<f64>; 3] {
        match self {
            Self::Add => [Some(1.0), Some(options.float("alpha")), None],
            Self::Axpby => {
                let beta = options.float("beta");
                [Some(options.float("alpha")), (beta != 0.0).then_some(beta), None]
            }
            Self::Cast => [Some(1.0), None, None],
            Self::Constant => [None, None, Some(options.float("value"))],
        }
    }
}

/// Type and shape of the result: a sum has the type of its inputs, which are broadcast.
pub fn results(
    operation: &'static str,
    kind: Kind,
    inputs: &[Option<ArrayType>],
    options: &Options,
) -> Result<Vec<ArrayType>> {
    let x = given(inputs, 0);
    let (dtype, shape) = match kind {
        Kind::Constant => (x.dtype, x.shape.clone()),
        Kind::Cast => (float_option(operation, options, "dtype")?, x.shape.clone()),
        Kind::Add | Kind::Axpby => {
            let y = given(inputs, 1);
            if x.dtype != y.dtype {
                let detail = format!("x has elements of {}, and y of {}; convert one", x.dtype, y.dtype);
                return mismatch(operation, detail);
            }
            (x.dtype, broadcast_shape(operation, &[x, y])?)
        }
    };
    Ok(vec![ArrayType { dtype, shape }])
}

/// Computes `out = alpha x + beta y + constant`; an input that is left out needs no factor.
///
/// # Safety
/// The arrays are in memory of the stream's device until the work is complete; `out` shares no
/// elements with an input, or is the same array.
pub unsafe fn affine(
    operation: &'static str,
    on: &On<'_>,
    inputs: [Option<&Array>; 2],
    out: &Array,
    scalars: [Option<f64>; 3],
) -> Result<()> {
    let dtype = inputs.iter().flatten().next().map_or(out.dtype, |input| input.dtype);
    // Adding -0 changes no bit.
    let scalars = scalars.map(|value| (value.unwrap_or(-0.0) as f32).to_bits());
    let launches = map_launches(operation, inputs, out)?;
    launches.into_iter().try_for_each(|map| {
        // SAFETY: the arrays are on the stream's device until the work is complete.
        unsafe { on.launch(&Affine { dtypes: [dtype, out.dtype], map, scalars }) }
    })
}

/// Copies an array to one of the same shape, of any strides; it converts to the type of `out`.
///
/// # Safety
/// Same contract as [`affine`].
#[cfg(any(feature = "append", feature = "rope"))]
pub unsafe fn copy(operation: &'static str, on: &On<'_>, x: &Array, out: &Array) -> Result<()> {
    if !on.launches() {
        return Ok(());
    }
    // SAFETY: the arrays are on the stream's device until the work is complete.
    unsafe { affine(operation, on, [Some(x), None], out, [Some(1.0), None, None]) }
}

/// Computes a call; an operand without a factor is not read.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn compute(name: &'static str, kind: Kind, on: &On<'_>, call: &Call<'_>) -> Result<()> {
    let (scalars, out) = (kind.scalars(call.options), call.operand(call.operands.len() - 1));
    let inputs = [0, 1].map(|index| scalars[index].map(|_| call.operand(index)));
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { affine(name, on, inputs, out, scalars) }
}
