//! Atoms: an instruction together with its thread-value layouts, and how atoms are tiled over the
//! threads of a block. [The guide](crate::guide::tiling) walks through both by example.

#[allow(clippy::module_inception, reason = "the trait `Atom` is in the file of its name")]
mod atom;
pub mod copy;
pub mod mma;
mod operands;
mod tiled_copy;
mod tiled_mma;
pub mod tma;
pub mod wgmma;

pub use crate::tiling::TilingError;
pub(crate) use atom::number;
pub use atom::{Atom, AtomTraits};
pub use operands::{ByDescriptors, ByRegisters, FragmentA, FragmentB, MakeFragment, Multiplies, Operands};
pub use tiled_copy::{
    CopyTiling, End, PartitionD, PartitionS, RetileOf, StaticTiledCopy, ThrCopy, ThreadD, ThreadS, TiledCopy,
    make_tiled_copy_a, make_tiled_copy_b, make_tiled_copy_c, try_make_tiled_copy_a, try_make_tiled_copy_b,
    try_make_tiled_copy_c,
};
pub(crate) use tiled_mma::stands_for;
pub use tiled_mma::{
    AccumulatorOf, FragmentOf, MmaTiling, OfA, OfB, OfC, OfD, Operand, OperandKind, PartitionMma,
    Permutation, StageOf, StaticTiledMma, ThrMma, ThreadMma, TiledMma,
};
