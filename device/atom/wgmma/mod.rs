//! Atoms of `wgmma`: each instruction as a zero-sized type, with its thread-value layouts and the
//! valid layouts of operands in shared memory.
//!
//! The names are CuTe's: `SM90_64x256x16_F32BF16BF16_SS` is the instruction for m = 64, n = 256, k
//! = 16 with the types of D, A and B; `SS` has A and B in shared memory, `RS` has A in registers.
//! `TN` means "K-major only", which holds for all types except those of 16 bits. Choices are
//! constants, in CuTe's order: which of A and B are MN-major, and which are negated.
//!
//! ```
//! use moye_device::atom::wgmma::{K_MAJOR, MN_MAJOR, SM90_64x128x16_F32BF16BF16_SS as Atom, WgmmaAtom};
//!
//! assert_eq!(<Atom>::SHAPE_MNK, [64, 128, 16]);
//! // Thread 5 of the second warp holds as its third value the element m = 16 + 1 + 8, n = 2.
//! assert_eq!(<Atom>::C.at_coord([37, 2]), 25 + 64 * 2);
//! // B read from a tile whose N is contiguous.
//! type Transposed = Atom<K_MAJOR, MN_MAJOR>;
//! ```
//!
//! [`SharedOperand`] describes a tile in shared memory for the instruction: its matrix descriptors.

mod atom;
mod atoms;
mod descriptors;
mod error;
mod gemm;
mod info;
mod methods;
mod narrow;
mod operand;

pub use atom::{K_MAJOR, MN_MAJOR, NEGATED, OperandA, WgmmaAtom};
pub use atoms::*;
pub(super) use descriptors::descriptors_of;
pub use descriptors::{DescriptorTensor, Descriptors, DescriptorsOf};
pub use error::WgmmaLayoutError;
pub use gemm::{
    OperandOf, OperandTensorA, PackPair, ScaleOut, accumulators_as_a, pack_fragment, warpgroup_arrive,
    warpgroup_commit_batch, warpgroup_fence_operand, warpgroup_gemm, warpgroup_wait, warpgroup_wait_after,
};
pub use info::{WGMMA_ATOMS, WgmmaInfo};
pub use narrow::{PackQuad, accumulators_as_a_paired, paired_column};
pub use operand::SharedOperand;
