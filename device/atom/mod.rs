//! Atoms: an instruction together with its thread-value layouts.

pub mod mma;
