//! Products that models run: a folder and a feature each.
//!
//! Each folder has all of an operation, as in `moye-rows`: what it is and its builder
//! (`mod.rs`), its kernel (`kernel.rs`), the launches of a call (`call.rs`), the float64
//! reference (`oracle.rs`) and its cases (`cases.rs`).
//!
//! # Options that `Matmul` lacks
//! `moye::Matmul` has scales of operands, rows and columns. Scales of blocks, groups and formats of
//! weights are operations here instead: their operands have other types and shapes than A and B,
//! and imports point downwards, so that `moye-matmul` knows no other family. Instead of an option,
//! write:
//!
//! | for | write |
//! | --- | --- |
//! | scales of blocks | `block_scaled::BlockScaled::new(a, b).scales(scale_a, scale_b)` |
//! | groups of rows | `grouped::GroupedMatmul::new(a, b, ends)` |
//! | padded groups | `grouped::GroupedMatmul::padded(a, b, counts)` |
//! | matrices anywhere in memory | `grouped::GroupedList::new(&device, &products, results)` |
//! | weights of 4 and 8 bits | `weights::LinearQuantized::new(x, &weights)` |
//! | a gate | `gated::LinearGated::new(x, gate_up)` |
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![deny(missing_docs)]

#[cfg(feature = "block_scaled")]
pub mod block_scaled;
#[cfg(feature = "block_scaled_groups")]
pub mod block_scaled_groups;
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
#[allow(dead_code, reason = "some operation needs it")]
mod bounds;
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
#[allow(dead_code, reason = "some operation needs it")]
mod builder;
#[cfg(feature = "few")]
pub mod few;
#[cfg(all(feature = "fused", any(not(target_arch = "nvptx64"), target_feature = "sm_90a")))]
pub mod fused;
#[cfg(feature = "gated")]
pub mod gated;
#[cfg(feature = "grouped")]
pub mod grouped;
#[cfg(feature = "grouped_k")]
pub mod grouped_k;
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
#[allow(dead_code, reason = "some operation needs it")]
mod launches;
#[cfg(feature = "moe")]
pub mod moe;
#[cfg(feature = "kernels")]
#[allow(dead_code, reason = "some operation needs it")]
pub mod operand;
#[cfg(feature = "weights")]
pub mod weights;

#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
mod host {
    use moye_runtime::Ptx;
    use moye_runtime::operation::Declaration;

    /// The kernels of the enabled operations.
    pub static PTX: Ptx = moye_runtime::include_ptx!("moye_products");

    macro_rules! operations {
        ($($feature:literal $folder:ident: $($operation:ident),+;)+) => {
            /// The enabled operations.
            pub static OPERATIONS: &[&Declaration] = &[$($(
                #[cfg(feature = $feature)]
                &crate::$folder::$operation,
            )+)+];
        };
    }
    operations! {
        "block_scaled" block_scaled: BLOCK_SCALED;
        "block_scaled_groups" block_scaled_groups: BLOCK_SCALED_PAIRS, BLOCK_SCALED_K;
        "few" few: LINEAR_FEW;
        "fused" fused: LINEAR_RESIDUAL, LINEAR_QKV, LINEAR_E4M3;
        "gated" gated: LINEAR_GATED;
        "grouped" grouped: GROUPED, GROUPED_PAIRS;
        "grouped_k" grouped_k: GROUPED_K;
        "moe" moe: MOE;
        "weights" weights: LINEAR_QUANTIZED, LINEAR_QUANTIZED_A8, PACK_WEIGHTS, UNPACK_WEIGHTS;
    }
}
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
pub use host::{OPERATIONS, PTX};

/// The README that a registry shows.
#[cfg(all(doctest, feature = "weights"))]
#[doc = include_str!("README.md")]
mod readme {}
#[cfg(all(doctest, feature = "weights"))]
#[doc = include_str!("../../docs/guide/weights.md")]
mod guide {}
#[cfg(all(doctest, feature = "weights"))]
#[doc = include_str!("../../docs/guide/language_model.md")]
mod guide_language_model {}
#[cfg(all(doctest, feature = "block_scaled"))]
#[doc = include_str!("../../docs/guide/block_scaled.md")]
mod guide_block_scaled {}
#[cfg(all(doctest, feature = "fused", feature = "gated"))]
#[doc = include_str!("../../docs/guide/fused.md")]
mod guide_fused {}
#[cfg(all(doctest, feature = "grouped_k", feature = "moe"))]
#[doc = include_str!("../../docs/guide/grouped.md")]
mod guide_grouped {}
