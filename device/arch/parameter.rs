//! The address of a kernel parameter, for instructions that need it.

/// The generic address of a tensor map that is a kernel parameter.
///
/// On a GPU `#[kernel]` has stored it in the first word, because Rust cannot express the address of
/// a parameter; in the simulator it is the address of the words, marked as that of a parameter.
#[inline(always)]
pub(crate) fn parameter_address(words: &[u64; 16]) -> u64 {
    #[cfg(target_arch = "nvptx64")]
    return words[0];
    #[cfg(not(target_arch = "nvptx64"))]
    {
        core::ptr::from_ref(words) as u64 | moye_sim::PARAMETER_SPACE
    }
}
