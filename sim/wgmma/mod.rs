//! `wgmma.mma_async`: a warpgroup (four warps) multiplies matrices in shared memory, A also from
//! registers.
//!
//! A value, [`Wgmma`], describes an instruction, like [`Mma`](crate::intrinsics::Mma) for
//! `mma.sync`: its element types, and how products are summed. D has 64 rows, of which each warp
//! computes 16, and N columns. The positions of elements in registers are the same for all types of
//! one width; descriptors define their locations in shared memory ([`MatrixDescriptor`]).
//!
//! # What is asynchronous
//! The products are computed immediately but held back. Until the thread has waited for the
//! instruction's group and then takes them ([`take`](crate::intrinsics::wgmma_take_results)), its
//! accumulators hold marks, which are NaN as floats, so that an early read is noticed. The next
//! instruction on the same accumulators finds the values by the marks. Operands in shared memory
//! must not be written until the wait.

mod descriptor;
mod instruction;

pub use descriptor::{DescriptorSwizzle, MatrixDescriptor};
pub(crate) use instruction::WarpInput;
pub use instruction::{Wgmma, WgmmaA, WgmmaNumber, WgmmaResult};
