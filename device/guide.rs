//! Guides to the parts of this crate, whose examples run as tests.

#[doc = include_str!("guide/layouts.md")]
pub mod layouts {}
