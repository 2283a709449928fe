//! Guides to the kernels, whose examples run as tests.

use moye_device::page;

#[doc = page!("guide/ladder.md")]
pub mod ladder {
    const _: &str = include_str!("guide/ladder.md");
}

#[doc = page!("guide/epilogue.md")]
pub mod epilogue {
    const _: &str = include_str!("guide/epilogue.md");
}

#[doc = page!("guide/hopper.md")]
pub mod hopper {
    const _: &str = include_str!("guide/hopper.md");
}
