//! A custom operation as a Python function.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

use moye_device::algorithm::{MAP_THREADS, MapModes, map};
use moye_device::prelude::*;

/// `out = x / (1 + exp(-x))`, element by element.
///
/// # Safety
/// `x` and `out` have the elements of `modes`; `out` is `x`, or shares no element with it.
#[kernel(threads = MAP_THREADS)]
pub unsafe fn silu(x: Global<f32>, out: GlobalMut<f32>, modes: MapModes<1>) {
    map((x,), out, &modes, |[x]: [f32; 1]| math::fast::silu(x));
}

#[cfg(not(target_arch = "nvptx64"))]
pub use host::SILU;

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::silu;
    use moye::operation::{
        Case, Declaration, Dtype, Elementwise, Launcher, OperandOf, Role, map_grid, run_elementwise,
    };
    use moye::{Global, GlobalMut, Ptx, Result};
    use moye_device::algorithm::MapLaunch;

    static KERNELS: Ptx = moye::include_ptx!("new_kernels");

    /// The declaration: the Python function's signature, documentation and checks, and the
    /// operation's test, are derived from it.
    pub static SILU: Declaration = Declaration {
        name: "silu",
        summary: "x times its sigmoid",
        operands: &[
            OperandOf::new(Role::Input, "x", "float32, of any shape and strides").of(&[Dtype::F32]),
            OperandOf::new(Role::Result, "out", "the result, of the shape of x").of(&[Dtype::F32]),
        ],
        options: &[],
        results: |inputs, _| Ok(vec![inputs[0].clone().expect("x is not optional")]),
        // SAFETY: the arrays of a call are on the stream's device until the work is complete.
        run: |stream, call| unsafe {
            run_elementwise::<Silu, 1>(stream, [Some(call.operand(0))], call.operand(1), ())
        },
        explain: |_, _| Ok(silu.name().into()),
        reference: |inputs, _| {
            let of = |values: &Vec<f64>| values.iter().map(|x| x / (1.0 + (-x).exp())).collect();
            inputs.iter().flatten().map(|(_, values)| of(values)).collect()
        },
        tolerance: |_| 1e-6,
        cases: &[Case::new(&[Some(&[3, 1000])]), Case::new(&[Some(&[0, 3])]), Case::new(&[Some(&[])])],
        bench: &[Case::new(&[Some(&[16_384, 4096])])],
    };

    struct Silu;

    impl Elementwise<1> for Silu {
        type Scalars = ();
        const NAME: &'static str = "silu";

        fn ptx() -> &'static Ptx {
            &KERNELS
        }

        fn kernel() -> &'static str {
            silu.name()
        }

        unsafe fn launch(call: &MapLaunch<1>, (): (), on: &Launcher<'_>) -> Result<()> {
            let [x] = call.inputs.map(Global::from_address);
            let arguments = (x, GlobalMut::from_address(call.out), call.modes);
            // SAFETY: the operands have the elements of the modes.
            unsafe { on.launch(&silu, map_grid(call), arguments) }
        }
    }
}

/// The extension module.
#[cfg(not(target_arch = "nvptx64"))]
mod python {
    moye_python_support::module!(new_kernels, &[&super::SILU]);
}
