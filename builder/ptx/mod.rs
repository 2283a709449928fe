//! PTX as text: the launch bounds that `#[kernel]` declares, what is in a module, and texts packed kernel by kernel.

mod bounds;
mod module;
mod packed;
mod split;
mod text;

pub use bounds::{Bounds, apply_bounds};
pub use module::{Function, Module, ParseError};
pub use packed::{Entry, Packed, Part};
