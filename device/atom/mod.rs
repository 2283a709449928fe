//! Atoms: an instruction together with the thread-value layouts of what it does.

pub mod copy;
pub mod mma;
