//! Matmul on Hopper's tensor cores: TMA fills stages of shared memory, and `wgmma` reads them
//! there.
//!
//! A kernel is an instance of
//! [`gemm_warp_specialised`](moye_device::collective::gemm_warp_specialised)
//! (`matmul.rs`), of four parts:
//!
//! | part | type | file |
//! | --- | --- | --- |
//! | tile scheduler | [`Schedule`] | `schedule.rs` |
//! | mainloop | [`Loop`] | `mainloop.rs` |
//! | epilogue | [`Finish`] | `epilogue.rs` |
//! | sink | [`Store`] | `sink.rs`, `store.rs` |
//!
//! `config.rs` holds their configuration, `family.rs` the kernels.
//!
//! A block of three warpgroups loops over tiles of C (persistent kernel):
//!
//! ```text
//! warpgroup 0   one thread: for each tile, for each 128 bytes of K: acquire a stage, have TMA load A's and B's part
//! warpgroup 1   rows  0 to  63 of the tile: wait for a stage, four wgmma, release the stage before; then write C
//! warpgroup 2   the same for rows 64 to 127
//! ```
//!
//! With tiles of 256 x 128 a warpgroup computes 128 rows, by eight `wgmma` for each stage.
//!
//! While C is stored, the stages of the next tile are filled, except one: the tile's last stage
//! holds boxes of C, beside the warpgroups' own boxes, until TMA has read them (`store.rs`). A
//! consumer thread needs its registers for accumulators, 128 for a tile of 128 x 256, so warpgroup
//! 0 releases registers ([`decrease_registers`](moye_device::arch::decrease_registers)).
//!
//! Most blocks of 128 x 256 are in clusters of two, stacked along M. They share the columns of
//! B: each loads half of them, by multicast. So a pair loads (128 + 128 + 256) rows of 128 bytes
//! from the L2 cache for each stage; two independent blocks load 768. If there is about one tile
//! for each SM and rows start at cache lines, independent blocks (`_alone`) are faster, because
//! they need not start and exit together. Tiles of 256 x 128 complement them: a warpgroup issues
//! two instructions along M, with the same number of accumulators and loads. For example, 4097 x
//! 4096 has 17 x 32 tiles of 256 x 128, and 33 x 16 tiles of 128 x 256, which fill whole waves of
//! 132 SMs; 4096 x 4097 is the opposite case.
//!
//! Kernels of 128 x 128 of 8-bit elements are *ping-pong*: each of the two consumer warpgroups
//! computes separate tiles, and one multiplies while the other one writes C; see
//! [`PingPong`](moye_device::collective::PingPong).
//!
//! If the last wave would leave many SMs idle, its tiles are split along K (stream-K):
//! see [`Cut`].
//!
//! f16 and bf16 products with few rows or columns use a kernel with small tiles, which pairs of
//! blocks may split along K: see [`matmul_parts`]. It stores C from registers if C is not read.
//! With large tiles it computes products of one wave (`_once`): each block computes one tile and
//! exits. Its scheduler is [`OneTile`](moye_device::collective::OneTile), its sink [`StoreShare`].
//!
//! f32 by FMA has a separate mainloop and producer warps, which also transpose the operands: see
//! [`sgemm()`].
//!
//! Accumulators of 8-bit floats are first multiplied by the scales, in registers.
//!
//! C is stored from registers in 16-byte vectors ([`WgmmaConfig::PIECES`]), or through swizzled
//! boxes in shared memory. TMA stores the boxes if the rows of C start at multiples of 16 bytes;
//! otherwise warps store them. Bias and activation are applied first, in registers (`epilogue.rs`).
//! If C is read (`beta`), the whole epilogue works on rows in shared memory, as in the
//! [`mma`](super::mma) kernels.
//!
//! The kernels take tensor maps as parameters, which the host builds from the tiles of the kernel's
//! copies ([`Maps`]). With a PDL launch they start before the previous kernel has completed.

#![allow(non_snake_case, reason = "tensors have CuTe's names")]

mod config;
mod epilogue;
mod exchange;
#[allow(unused_imports, unused_macros, reason = "each feature needs some of them")]
mod family;
mod mainloop;
mod matmul;
mod parts;
mod schedule;
#[cfg_attr(not(feature = "f32"), allow(unused_imports, reason = "the entry points use them"))]
mod sgemm;
mod sink;
mod store;
mod tile;

pub use config::{
    Boxes, CopyA, CopyB, Maps, Mma, OperandBatches, OperandMap, StagesA, StagesB, WgmmaConfig, operand,
};
pub use epilogue::Finish;
pub use exchange::Exchange;
#[allow(unused_imports, reason = "each feature has some kernels")]
pub use family::*;
pub use mainloop::Loop;
pub use matmul::{WgmmaStorage, matmul, matmul_with};
pub use moye_device::collective::Cut;
pub use parts::{PartsStorage, StoreShare, matmul_parts};
pub use schedule::{Job, Schedule, Share, Sharing};
pub use sgemm::{SgemmBox, SgemmConfig, SgemmStorage, sgemm, sgemm_nn_tma, sgemm_nt_tma, sgemm_tn_tma};
pub use sink::{BoxStorage, Store};
pub use store::{Staging, StoreBox};
