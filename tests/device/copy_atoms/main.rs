//! Copy atoms and related instructions, one kernel each, on the simulator and on a GPU if there is
//! one: compared with plain Rust, and the GPU with the simulator bit for bit. All NaNs are equal.
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
