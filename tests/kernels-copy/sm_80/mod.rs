//! What sm_80 has.

mod atomic;
mod cache;
mod convert;
mod copy;
mod matrix;
mod packed;
mod warp;

pub use atomic::*;
pub use cache::*;
pub use convert::*;
pub use copy::*;
pub use matrix::*;
pub use packed::*;
pub use warp::*;
