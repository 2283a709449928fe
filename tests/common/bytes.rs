//! Elements as bytes and bytes as elements.

use moye_device::memory::Element;

/// The element with the first of these bytes.
pub fn of_bytes<T: Element>(bytes: &[u8]) -> T {
    assert!(bytes.len() >= T::BYTES, "an element has {} bytes, these are {}", T::BYTES, bytes.len());
    // SAFETY: there are as many bytes, and any are a value of an element.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

/// The bytes of elements, one after the other.
pub fn bytes<T: Element>(elements: &[T]) -> &[u8] {
    // SAFETY: elements have no padding.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}
