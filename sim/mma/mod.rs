//! `mma.sync`: a warp multiplies two small matrices that are distributed over the registers of its
//! lanes.
//!
//! An instruction is described by a value, [`Mma`]: the shape, and for each operand, which lane
//! holds which element where, and how bits decode to a number. The emulation gathers the tiles,
//! multiplies, and scatters the result, so a kernel with the wrong element in a register computes
//! the wrong result here too.

mod instruction;
mod operand;
mod product;

pub use instruction::{MMA_WORDS, Mma, MmaTables};
pub use operand::{MmaOperand, MmaResult};
pub(crate) use operand::{extract, insert_sum};
pub use product::MmaSum;
