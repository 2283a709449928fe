//! The tests of the crate in one program: linking a dozen takes longer than compiling them.

mod common;

mod bulk;
mod cluster;
mod cp_async;
mod early_release;
mod flags;
mod grid;
mod guide;
mod matrix;
mod mbarrier;
mod memory_faults;
mod profile;
mod races;
mod store_async;
mod variables;
mod waiting;
mod warp;
mod wgmma;
