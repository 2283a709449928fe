//! The tests of the crate, in one program: linking a dozen costs more than compiling them.

mod common;

mod cp_async;
mod grid;
mod matrix;
mod memory_faults;
mod waiting;
mod warp;
