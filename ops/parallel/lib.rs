//! Products over several GPUs: a product and its collective as one operation.
//!
//! - [`Group`] holds the ranks: the GPUs of one process, or one GPU of each of several.
//! - [`ParallelMatmul`] multiplies by weights that are divided among the ranks: by columns, with
//!   activations gathered during the product, or by rows, with partial results reduced.
//! - [`Collectives`] sum, gather and send buffers: with NCCL on GPUs.
//!
//! `kernel.rs` has the kernels, `arrivals.rs` their tile order and the wait for a shard.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![deny(missing_docs)]

#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub mod arrivals;
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub mod kernel;

#[cfg(not(target_arch = "nvptx64"))]
mod builder;
#[cfg(not(target_arch = "nvptx64"))]
mod call;
#[cfg(not(target_arch = "nvptx64"))]
mod collectives;
#[cfg(not(target_arch = "nvptx64"))]
mod cost;
#[cfg(not(target_arch = "nvptx64"))]
mod exchange;
#[cfg(not(target_arch = "nvptx64"))]
mod fallback;
#[cfg(not(target_arch = "nvptx64"))]
mod group;
#[cfg(not(target_arch = "nvptx64"))]
mod launch;
#[cfg(not(target_arch = "nvptx64"))]
mod matmul;
#[cfg(not(target_arch = "nvptx64"))]
pub mod measure;
#[cfg(not(target_arch = "nvptx64"))]
mod nccl;
#[cfg(not(target_arch = "nvptx64"))]
mod rendezvous;
#[cfg(not(target_arch = "nvptx64"))]
mod round;
#[cfg(not(target_arch = "nvptx64"))]
mod transport;
#[cfg(not(target_arch = "nvptx64"))]
mod wait;
#[cfg(not(target_arch = "nvptx64"))]
mod workspace;

#[cfg(not(target_arch = "nvptx64"))]
pub use builder::ParallelMatmulBuilder;
#[cfg(not(target_arch = "nvptx64"))]
pub use collectives::{Collectives, ONE_SHOT, Summand, Transfer};
#[cfg(not(target_arch = "nvptx64"))]
pub use cost::RankRates;
#[cfg(not(target_arch = "nvptx64"))]
pub use group::Group;
#[cfg(not(target_arch = "nvptx64"))]
pub use matmul::{Form, Operands, ParallelElement, ParallelMatmul};
#[cfg(not(target_arch = "nvptx64"))]
pub use nccl::nccl_version;
#[cfg(not(target_arch = "nvptx64"))]
pub use rendezvous::Rendezvous;

/// The kernels.
#[cfg(all(not(target_arch = "nvptx64"), feature = "kernels"))]
pub static PTX: moye_runtime::Ptx = moye_runtime::include_ptx!("moye_parallel");

/// The kernels: none without the feature `kernels`, for programs on the simulator.
#[cfg(all(not(target_arch = "nvptx64"), not(feature = "kernels")))]
pub static PTX: moye_runtime::Ptx = moye_runtime::Ptx::new("moye_parallel", &[]);

/// The crate's page in a registry.
#[cfg(doctest)]
#[doc = include_str!("README.md")]
mod readme {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/parallel.md")]
mod guide {}
