//! Memory spaces: which types may live in device memory, and pointers that know the space they
//! point to.

mod element;
mod global;
mod packed;
mod shared;
mod tensor_map;

/// Arrays are tensors, and have their path here beside the pointers.
pub use crate::tensor::{SharedArray, SharedStorage};
pub(crate) use element::for_each_index;
pub use element::{Element, ElementOffset, Storable};
pub use global::{Global, GlobalMut, GlobalPointer, GlobalPointerMut};
pub use packed::{GlobalPacked, GlobalPackedMut, SharedPacked};
pub use shared::Shared;
pub use tensor_map::{TensorMap, TensorMapPointer};
