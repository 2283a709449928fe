//! Copy atoms: instructions that move data, with thread-value layouts for source and destination.
//!
//! An atom is a zero-sized type, named as in CuTe, which implements [`CopyAtom`]. Its layouts are
//! in bits: `(thread, bit)` to the index of the bit, for the source ([`CopyAtom::SRC`]) and for the
//! destination ([`CopyAtom::DST`]); the indices of [`CopyAtom::REF`] are in the order of the data.
//! The search finds MoYe's names (`LDSM_U32x4_N`, `CPOP_ASYNC_CACHEALWAYS`). [`values_of`] returns
//! the layouts in elements of a type, from which tiled copies are built:
//!
//! ```
//! use moye_device::atom::copy::{SM75_U32x4_LDSM_N, values_of};
//! use moye_device::layout;
//! use half::f16;
//!
//! const LDSM: moye_device::atom::copy::ValueLayouts = values_of::<SM75_U32x4_LDSM_N, f16>();
//! // Each lane names a row of 8 elements and gets two elements of each of the four matrices.
//! assert_eq!(LDSM.src, layout!((32, 8):(8, 1)));
//! assert_eq!(LDSM.dst, layout!((32, (2, 4)):(2, (1, 64))));
//! ```
//!
//! An element type that the instruction cannot move does not compile; the message states the sizes:
//!
//! ```compile_fail
//! use moye_device::atom::copy::{SM75_U32x4_LDSM_N, ValueLayouts, values_of};
//! const LDSM: ValueLayouts = values_of::<SM75_U32x4_LDSM_N, f64>();
//! ```

mod atom;
mod cp_async;
mod layouts;
mod matrix;
mod shuffle;
mod table;
mod universal;

pub use atom::{
    AnySpace, CopyAtom, GlobalMemory, MemorySpace, RegisterFile, SharedMemory, Side, name, values_of,
};
pub use cp_async::{
    CpAsyncBits, CpAsyncGlobalBits, SM80_CP_ASYNC_CACHEALWAYS, SM80_CP_ASYNC_CACHEALWAYS_ZFILL,
    SM80_CP_ASYNC_CACHEGLOBAL, SM80_CP_ASYNC_CACHEGLOBAL_ZFILL,
};
pub use layouts::{AtomError, BitLayouts, ValueLayouts};
pub use matrix::{
    SM75_U16x2_LDSM_T, SM75_U16x4_LDSM_T, SM75_U16x8_LDSM_T, SM75_U32x1_LDSM_N, SM75_U32x1_MOVM_T,
    SM75_U32x2_LDSM_N, SM75_U32x4_LDSM_N, SM90_U16x2_STSM_T, SM90_U16x4_STSM_T, SM90_U16x8_STSM_T,
    SM90_U32x1_STSM_N, SM90_U32x2_STSM_N, SM90_U32x4_STSM_N,
};
pub use shuffle::{SM50_Shuffle_U32_2x2Trans_XOR1, SM50_Shuffle_U32_2x2Trans_XOR4};
pub use table::{CopyAtomInfo, copy_atoms};
pub use universal::{
    AutoVectorizingCopy, AutoVectorizingCopyWithAssumedAlignment, DefaultCopy, UniversalCopy,
};
