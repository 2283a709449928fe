//! Memory on a device: [`Buffer`]s and ranges of them.

mod buffer;
mod counters;
mod raw;
mod slice;
mod workspace;

pub use buffer::Buffer;
pub use counters::Counters;
pub use slice::{BufferSlice, BufferSliceMut};
pub(crate) use workspace::Used;
pub use workspace::Workspace;

use moye_device::memory::Element;
use std::mem::MaybeUninit;

/// The bytes of elements.
fn bytes_of<T: Element>(elements: &[T]) -> &[u8] {
    // SAFETY: elements have no padding (`Element`), so every byte is initialised.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// The bytes of elements, to overwrite.
fn bytes_of_mut<T: Element>(elements: &mut [T]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: every byte pattern is a valid element (`Element`), and `raw` writes only initialised
    // bytes.
    unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), size_of_val(elements)) }
}
