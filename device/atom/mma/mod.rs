//! MMA atoms: each matrix instruction as a zero-sized type, with its requirements and its
//! thread-value layouts.
//!
//! The names are CuTe's: `SM80_16x8x16_F32F16F16F32_TN` is the instruction of sm_80 for m = 16, n =
//! 8, k = 16 with the types of D, A, B and C; `T` and `N` state whether A and B are transposed, in
//! BLAS's sense: `TN` is A row-major and B column-major. The search finds MoYe's names
//! (`MMAOP_16x8x16_F32F16F16F32_TN`).
//!
//! ```
//! use moye_device::atom::mma::{MmaAtom, SM80_16x8x16_F32F16F16F32_TN as Atom};
//!
//! assert_eq!(Atom::SHAPE_MNK, [16, 8, 16]);
//! // Thread 5 holds as its third value of A the element m = 9, k = 2.
//! assert_eq!(Atom::A.at_coord([5, 2]), 9 + 16 * 2);
//! ```
//!
//! All atoms as data, for tables and searches: [`MMA_ATOMS`].

mod atom;
mod atoms;
mod complex;
mod dot;
mod halves;
mod info;
mod place;
mod universal;

pub use atom::{AddsInPlace, MmaAtom};
pub use atoms::*;
pub use complex::{SM80_8x8x4_C64C64C64C64_TN, SM80_8x8x4_GC64C64C64GC64_TN};
pub use dot::{SM61_DP2A, SM61_DP4A};
pub use halves::Half;
pub use info::{MMA_ATOMS, MmaInfo, MmaOperandInfo};
pub use place::{accumulator_column, accumulator_row};
pub use universal::UniversalFma;
