//! The number types of matrix instructions that neither Rust nor `half` provides: tf32, the two
//! 8-bit floats, 4-bit integers, single bits, complex numbers.
//!
//! They are primarily formats of a GPU's operands. Their conversions are exact if possible, and
//! otherwise round like the GPU's conversion instructions; the simulator and the references in
//! tests compute with them.

mod complex;
mod float8;
mod packed;
mod scalar;
mod tf32;

pub use complex::{Complex64, GaussComplex};
pub use float8::{F8E4M3, F8E5M2};
pub use packed::{B1, Packed, S4, U4};
pub use scalar::{Number, Scalar};
pub use tf32::Tf32;
