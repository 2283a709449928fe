//! Operations on tensors of [candle](candle_core) 0.11: [`Declared`] computes any operation with a
//! [`Declaration`](crate::operation::Declaration).
//!
//! Keep a [`Declared`] and pass clones: it owns its workspaces.
//!
//! Tensors on a GPU stay there and are used on their device's stream; this needs the feature
//! `candle-cuda`, which builds candle's kernels by `nvcc`. Tensors on the host are copied to the
//! device of [`Declared::on`], by default the simulator.

#[cfg(feature = "candle-cuda")]
mod cuda;
mod declared;

#[cfg(feature = "candle-cuda")]
pub use cuda::Streams;
pub use declared::Declared;

use candle_core::Layout;

/// The elements from the first to the last one of a layout, 0 if it is empty.
pub fn reach(layout: &Layout) -> usize {
    if layout.dims().contains(&0) {
        return 0;
    }
    1 + layout
        .dims()
        .iter()
        .zip(layout.stride())
        .map(|(&extent, &stride)| (extent - 1) * stride)
        .sum::<usize>()
}
