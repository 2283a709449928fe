//! PTX as text: the launch bounds that `#[kernel]` declares, and what is in a module.

mod bounds;

pub use bounds::{Bounds, apply_bounds};
