//! Guides to the kernels, whose examples run as tests.

#[doc = moye_device::page!("guide/ladder.md")]
pub mod ladder {
    const _: &str = include_str!("guide/ladder.md");
}

#[doc = moye_device::page!("guide/epilogue.md")]
pub mod epilogue {
    const _: &str = include_str!("guide/epilogue.md");
}

#[doc = moye_device::page!("guide/hopper.md")]
pub mod hopper {
    const _: &str = include_str!("guide/hopper.md");
}
