//! A kernel on the host's side: [`Kernel`], a typed value with name, parameter types, launch bounds
//! and shared-memory size, made by the attribute `#[kernel]`; and [`KernelParam`], the types of
//! parameters.

mod param;
#[cfg(not(target_arch = "nvptx64"))]
mod typed;

pub use moye_macros::KernelParam;
pub use param::{KernelParam, ParamType, Scalar};
#[cfg(not(target_arch = "nvptx64"))]
pub use typed::{Kernel, LaunchBounds, Params};

/// Whether kernels are compiled for the simulator too: the crate's feature `simulator`.
pub const SIMULATED: bool = cfg!(feature = "simulator");

/// The body of a kernel for the simulator; `#[kernel]` writes a call of it.
#[cfg(feature = "simulator")]
#[doc(hidden)]
#[macro_export]
macro_rules! __simulated {
    ($name:expr, $arguments:ident, $call:expr) => {
        $call
    };
}

/// Without the simulator the body is checked, but not compiled.
#[cfg(not(feature = "simulator"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __simulated {
    ($name:expr, $arguments:ident, $call:expr) => {{
        let _ = $arguments;
        ::core::panic!(
            "the kernel `{}` was compiled without its code for the simulator: enable the feature `simulator` of moye-device",
            $name
        )
    }};
}

/// Compiles only where every kernel parameter type is allowed; `#[kernel]` writes a call of it per
/// parameter.
#[doc(hidden)]
#[inline(always)]
pub const fn assert_param<P: KernelParam>() {}

/// Compiles only where the type may be a field of a parameter; `#[derive(KernelParam)]` writes a
/// call of it per field of the struct `of`.
#[doc(hidden)]
#[track_caller]
pub const fn assert_field<P: KernelParam>(of: &str) {
    if P::TYPE.is_constant() {
        crate::tiling::TilingError::of(of)
            .str("kernels take a tensor map by the address of a parameter of its own; pass it beside the struct")
            .raise();
    }
}

/// Bit `i` is set where parameter `i` is a [`ParamType::Constant`]; `#[kernel]` hands it to
/// moye-build.
#[doc(hidden)]
pub const fn constants(types: &[ParamType]) -> u32 {
    let mut mask = 0;
    let mut i = 0;
    while i < types.len() {
        mask |= (types[i].is_constant() as u32) << i;
        i += 1;
    }
    mask
}
