//! Memory spaces: which types may live in device memory, and pointers that know the space they point to.

mod element;
mod global;
mod shared;

pub use element::Element;
pub use global::{Global, GlobalMut, GlobalPointer};
pub use shared::{Shared, SharedArray, SharedStorage};
