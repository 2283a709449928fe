//! What sm_80 has.

mod convert;
mod copy;
mod matrix;

pub use convert::*;
pub use copy::*;
pub use matrix::*;
