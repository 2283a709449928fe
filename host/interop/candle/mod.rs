//! Operations on tensors of [candle](candle_core) 0.11.
//!
//! [`Product`] is a custom operation of two tensors; [`ProductInto`] writes its result into a
//! tensor. [`Declared`] computes any operation with a
//! [`Declaration`](crate::operation::Declaration).
//!
//! ```
//! use candle_core::{Device, Tensor};
//! use moye::interop::candle::{Declared, Product};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let a = Tensor::ones((2, 5, 3), candle_core::DType::F32, &Device::Cpu)?;
//! let b = Tensor::full(2.0f32, (2, 3, 4), &Device::Cpu)?;
//! let c = a.apply_op2(&b, Product::new())?;
//! assert_eq!(c.to_vec3::<f32>()?, vec![vec![vec![6.0; 4]; 5]; 2]);
//! let transposed = Declared::new(&moye::TRANSPOSE).run(&[Some(&c)])?;
//! assert_eq!(transposed[0].dims(), [2, 4, 5]);
//! # Ok(())
//! # }
//! ```
//!
//! Keep a [`Product`] or a [`Declared`] and pass clones: it owns its workspaces.
//!
//! Tensors on a GPU stay there and are used on their device's stream; this needs the feature
//! `candle-cuda`, which builds candle's kernels by `nvcc`. Tensors on the host are copied to the
//! device of [`Product::on`], by default the simulator.

#[cfg(feature = "candle-cuda")]
mod cuda;
mod declared;
mod product;

pub use declared::Declared;
pub use product::{Product, ProductInto};

use candle_core::Layout;

/// The elements from the first to the last one of a layout, 0 if it is empty.
fn reach(layout: &Layout) -> usize {
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
