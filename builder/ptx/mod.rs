//! PTX as text: the launch bounds that `#[kernel]` declares, and what is in a module.

mod bounds;
mod module;
mod text;

pub use bounds::{Bounds, apply_bounds};
pub use module::{Function, Module, ParseError};
