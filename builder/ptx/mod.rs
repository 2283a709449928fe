//! PTX as text: the launch bounds that `#[kernel]` declares, what is in a module, and which source lines it is from.

mod bounds;
mod debug_info;
mod listing;
mod module;
mod text;

pub use bounds::{Bounds, apply_bounds};
pub use listing::{Instruction, Listing, Place};
pub use module::{Function, Module, ParseError};
