//! `mma.sync`: a warp multiplies two small matrices that its lanes hold in registers.
//!
//! There is one function for each instruction, named after it: `mma_m16n8k16_f32_f16_f16_f32` is
//! `mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32`, with the types of D, A, B and C. The
//! [layouts](fragments) map each element to the lanes' registers. All functions come from one table
//! (`table.rs`), as do the [atoms](crate::atom::mma).
//!
//! Every function is `unsafe` for one reason: all 32 lanes of the warp must execute it together.
//!
//! The simulator gathers the matrices from the lanes' registers by the same layouts, multiplies,
//! and scatters the result. Integers are exact. Sums of floats are not defined to the last bit by
//! the hardware: see `moye_sim::intrinsics::MmaSum` for the model and its bound.

pub mod fragments;
mod instruction;
mod registers;
mod table;

pub use instruction::*;
pub use registers::{Register, Registers};
