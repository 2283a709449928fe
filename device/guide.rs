//! Guides to the parts of this crate, whose examples run as tests.

#[doc = include_str!("guide/layouts.md")]
pub mod layouts {}

#[doc = include_str!("guide/layout_algebra.md")]
pub mod layout_algebra {}

#[doc = include_str!("guide/partitions.md")]
pub mod partitions {}

#[doc = include_str!("guide/tiling.md")]
pub mod tiling {}

// The simulator is what the host has for a GPU.
#[cfg(not(target_arch = "nvptx64"))]
#[doc = include_str!("guide/profile.md")]
pub mod profile {}

#[doc = include_str!("guide/attention.md")]
pub mod attention {}

#[doc = include_str!("guide/reductions.md")]
pub mod reductions {}

#[doc = include_str!("guide/collectives.md")]
pub mod collectives {}

#[doc = include_str!("guide/debugging.md")]
pub mod debugging {}
