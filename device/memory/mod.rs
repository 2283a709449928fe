//! Memory spaces: which types may live in device memory, and pointers that know the space they point to.

mod element;
mod global;

pub use element::Element;
pub use global::{Global, GlobalMut};
