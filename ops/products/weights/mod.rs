//! Products by quantised weights.

pub mod codes;
pub mod kernel;
