//! Matmul on Hopper's tensor cores: TMA fills stages of shared memory, `wgmma` reads them there.
//!
//! A block of three warpgroups has one tile of C after the other, as long as there are any:
//!
//! ```text
//! warpgroup 0   one thread: for each tile, for each 128 bytes of K: acquire a stage, have TMA load A's and B's part
//! warpgroup 1   rows  0 to  63 of the tile: wait for a stage, four wgmma, release the stage before; then write C
//! warpgroup 2   rows 64 to 127 likewise
//! ```
//!
//! In tiles of 256 x 128 a warpgroup has 128 rows, and eight `wgmma` of a stage.
//!
//! While C is written, stages of the next tile are being filled, all but one: the tile's last stage has boxes of C, beside those that each
//! warpgroup has of its own, until TMA has read them (`store.rs`). Accumulators are all that a thread holds, 128 of them for a tile of
//! 128 x 256, so warpgroup 0 gives registers away ([`decrease_registers`](moye_device::arch::decrease_registers)).
//!
//! Most blocks of 128 x 256 come in clusters of two, one below the other: they have the same columns of B, of which each loads a half
//! for both. So a pair reads (128 + 128 + 256) rows of shared memory's 128 bytes from the L2 cache for each stage, where two
//! blocks by themselves read 768. Where there is about one tile for each multiprocessor and rows begin at lines of the L2 cache, blocks
//! by themselves are faster (`_alone`): they need not begin and end together. Tiles of 256 x 128 are there beside theirs, where a warpgroup has two
//! instructions below each other, as many sums, and as much to load: 4097 x 4096 has 17 x 32 tiles of 256 x 128 and 33 x 16 of 128 x 256, of which the
//! second fill the rounds of 132 multiprocessors, and 4096 x 4097 is the other way round.
//!
//! Kernels of 128 x 128 of 8-bit elements are *ping-pong*: each of the two consuming warpgroups has tiles of its own,
//! and one multiplies while the other one writes C. `ping_pong.rs` says how they take turns.
//!
//! Where the last round of tiles would leave much of the chip idle, the last tiles are shared by parts of K: see [`Cut`] and
//! [`gather()`].
//!
//! Products of f16 and bf16 with few rows or columns have another kernel, of small tiles, which pairs of blocks may share along K: see
//! [`matmul_parts`]. It writes C from registers where C is not read (`pieces.rs`). With large tiles it is for products that have one round of
//! them (`_once`): there a block has one, and ends.
//!
//! f32 by FMA has a pipeline of its own, whose producer warps also transpose the operands: see [`sgemm()`].
//!
//! Sums of 8-bit floats are multiplied by scales first, in the registers that hold them.
//!
//! C leaves the registers by words of 16 bytes ([`WgmmaConfig::PIECES`], `pieces.rs`), or goes through shared memory, in swizzled boxes, which TMA
//! stores if the rows of C start at multiples of 16 bytes, and warps write by words if not (`words.rs`). A bias and an activation come before
//! that, in the registers that hold the sums (`finish.rs`). Where what was in C is added (`beta`), all is done by rows, as for
//! [`mma`](super::mma)'s kernels.
//!
//! The kernels take tensor maps as parameters (see [`Boxes`] for what they must say) and begin before the kernel in front has
//! ended, where the launch allows it.

mod config;
mod epilogue;
mod exchange;
#[cfg(any(
    feature = "matmul-bf16",
    feature = "matmul-f16",
    feature = "matmul-f8",
    feature = "matmul-i8",
    feature = "matmul-tf32"
))]
#[allow(unused_imports, unused_macros, reason = "each feature needs some of them")]
mod family;
mod finish;
mod gather;
mod matmul;
mod parts;
mod pieces;
mod ping_pong;
mod scale;
mod schedule;
#[cfg_attr(not(feature = "matmul-f32"), allow(unused_imports, reason = "the entry points use them"))]
mod sgemm;
mod sharing;
mod store;
mod words;

pub use config::{AccumulatorsOf, Boxes, Sums, WgmmaConfig, WgmmaStorage};
#[cfg(any(
    feature = "matmul-bf16",
    feature = "matmul-f16",
    feature = "matmul-f8",
    feature = "matmul-i8",
    feature = "matmul-tf32"
))]
pub use family::*;
pub use gather::gather;
pub use matmul::{matmul, matmul_with};
pub use parts::{PartsStorage, matmul_parts};
pub use schedule::{Job, Schedule, Share, Turn, Work};
pub use sgemm::{SgemmBox, SgemmConfig, SgemmStorage, sgemm, sgemm_nn_tma, sgemm_nt_tma, sgemm_tn_tma};
pub use sharing::{Cut, Piece, Sharing};
pub use store::Staging;
