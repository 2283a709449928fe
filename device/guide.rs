//! Guides to the parts of this crate, whose examples run as tests.

#[doc = moye_macros::page!("guide/layouts.md")]
pub mod layouts {
    const _: &str = include_str!("guide/layouts.md");
}

#[doc = moye_macros::page!("guide/layout_algebra.md")]
pub mod layout_algebra {
    const _: &str = include_str!("guide/layout_algebra.md");
}

#[doc = moye_macros::page!("guide/partitions.md")]
pub mod partitions {
    const _: &str = include_str!("guide/partitions.md");
}

#[doc = moye_macros::page!("guide/tiling.md")]
pub mod tiling {
    const _: &str = include_str!("guide/tiling.md");
}

// On the host the simulator replaces the GPU.
#[cfg(not(target_arch = "nvptx64"))]
#[doc = moye_macros::page!("guide/profile.md")]
pub mod profile {
    const _: &str = include_str!("guide/profile.md");
}

#[doc = moye_macros::page!("guide/attention.md")]
pub mod attention {
    const _: &str = include_str!("guide/attention.md");
}

#[doc = moye_macros::page!("guide/reductions.md")]
pub mod reductions {
    const _: &str = include_str!("guide/reductions.md");
}

// On the host the simulator replaces the GPU.
#[cfg(not(target_arch = "nvptx64"))]
#[doc = moye_macros::page!("guide/bytes.md")]
pub mod bytes {
    const _: &str = include_str!("guide/bytes.md");
}

#[doc = moye_macros::page!("guide/collectives.md")]
pub mod collectives {
    const _: &str = include_str!("guide/collectives.md");
}

#[doc = moye_macros::page!("guide/debugging.md")]
pub mod debugging {
    const _: &str = include_str!("guide/debugging.md");
}
