//! Guides to the parts of this crate, whose examples run as tests.

#[doc = include_str!("guide/layouts.md")]
pub mod layouts {}

#[doc = include_str!("guide/layout_algebra.md")]
pub mod layout_algebra {}

#[doc = include_str!("guide/partitions.md")]
pub mod partitions {}

#[doc = include_str!("guide/tiling.md")]
pub mod tiling {}

#[doc = include_str!("guide/attention.md")]
pub mod attention {}

#[doc = include_str!("guide/reductions.md")]
pub mod reductions {}

#[cfg(feature = "kernels")]
#[doc = include_str!("guide/ladder.md")]
pub mod ladder {}

#[cfg(feature = "kernels")]
#[doc = include_str!("guide/hopper.md")]
pub mod hopper {}
