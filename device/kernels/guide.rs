//! Guides to the kernels, whose examples run as tests.

#[doc = include_str!("guide/ladder.md")]
pub mod ladder {}

#[doc = include_str!("guide/epilogue.md")]
pub mod epilogue {}

#[doc = include_str!("guide/hopper.md")]
pub mod hopper {}
