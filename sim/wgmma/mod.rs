//! `wgmma.mma_async`: a warpgroup (four warps) multiplies matrices that lie in shared memory, A also in registers.
//!
//! An instruction is described by a value, [`Wgmma`], as [`Mma`](crate::intrinsics::Mma) describes one of `mma.sync`: what its
//! numbers are, and how products are summed. D has 64 rows, of which each warp computes 16, and N columns. Where elements
//! lie in registers is the same for all types of one width; where they lie in shared memory is told by descriptors
//! ([`MatrixDescriptor`]).
//!
//! # What is asynchronous
//! The products are computed at once and kept back: until the thread has waited for the group of the instruction and then
//! asks for them ([`take`](crate::intrinsics::wgmma_take_results)), its accumulators hold marks, which are NaNs to floats.
//! Reading them too early therefore shows. The next instruction on the same accumulators finds the kept values by the
//! marks. Operands in shared memory may not be written until the wait.

mod descriptor;
mod instruction;

pub use descriptor::{DescriptorSwizzle, MatrixDescriptor};
pub(crate) use instruction::WarpInput;
pub use instruction::{Wgmma, WgmmaA, WgmmaNumber, WgmmaResult};
