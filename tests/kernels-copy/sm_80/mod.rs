//! What sm_80 has.

mod atomic;
// What the compiler says of a constant it says before it looks at instructions: a test of the
// latter leaves these out.
#[cfg(not(all(target_arch = "nvptx64", feature = "no_hints")))]
mod cache;
mod convert;
mod copy;
mod matrix;
mod mbarrier;
mod packed;
mod parameters;
mod warp;

pub use atomic::*;
#[cfg(not(all(target_arch = "nvptx64", feature = "no_hints")))]
pub use cache::*;
pub use convert::*;
pub use copy::*;
pub use matrix::*;
pub use mbarrier::*;
pub use packed::*;
pub use parameters::*;
pub use warp::*;
