//! Copy atoms and the instructions beside them, each by a kernel of its own, on the simulator and
//! the GPU where there is one: against plain Rust, and the GPU against the simulator bit for bit. A
//! NaN is as good as any other NaN.
#![allow(clippy::type_complexity, reason = "a kernel's type is its parameter list")]

#[path = "../../fixtures/common/mod.rs"]
mod common;

mod arithmetic;
mod atomics;
mod atoms;
mod conversions;
mod instructions;
mod memory;
mod needs;
mod packed;
mod ptx;
mod support;
mod warp;
