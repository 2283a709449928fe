//! Memory spaces: the types that device memory can hold, and typed pointers to each space.

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
