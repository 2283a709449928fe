//! Atoms: an instruction together with the layouts of what it does, and the tiling over them.

pub mod copy;
