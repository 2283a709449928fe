//! PTX source: the launch bounds that `#[kernel]` declares, a module's contents and source lines,
//! and modules packed kernel by kernel.

mod bounds;
mod debug_info;
mod differences;
mod listing;
mod module;
mod packed;
mod split;
mod tables;
mod text;
mod variables;
mod version;

pub use bounds::{Bounds, apply_bounds};
pub use listing::{Instruction, Listing, Place};
pub use module::{Function, Module, ParseError};
pub use packed::{Entry, Packed, Part};
pub(crate) use version::raise_version;
