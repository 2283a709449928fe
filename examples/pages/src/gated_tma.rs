//! The epilogue of [`gated`](crate::gated) on Hopper's mainloop: TMA fills the stages, and two
//! warpgroups multiply with `wgmma`.

use crate::gated::Gated;
use moye_device::prelude::*;
use moye_matmul::kernels::hopper::{CopyA, CopyB, Sharing, WgmmaConfig, WgmmaStorage, matmul_with};
use moye_matmul::kernels::mma::Arguments;

/// Tiles of 128 x 128, without clusters.
pub struct Config;
impl WgmmaConfig for Config {
    type Operand = f16;
    type Sum = f32;
    type Output = f16;
    type Atom = SM90_64x128x16_F32F16F16_SS<K_MAJOR, K_MAJOR>;
    const BLK_M: u32 = 128;
    const CLUSTER: u32 = 1;
    const PING_PONG: bool = false;
    const SCALED: bool = false;
}

/// The mainloop's copy of a stage of A, of a tensor (row, k, batch). The host creates its tensor
/// map.
pub type TmaA = CopyA<Config>;
/// The copy of a stage of B, of a tensor (row, k, batch).
pub type TmaB = CopyB<Config, { Config::CLUSTER }>;

/// A persistent grid of any number of blocks.
///
/// # Safety
/// Same contract as [`matmul_with`]; bias has an element for each column of C, gate for each
/// element.
#[kernel(
    threads = Config::THREADS,
    min_blocks = 1,
    shared = WgmmaStorage<Config, { Config::CLUSTER }, { Config::STAGES }>,
)]
pub unsafe fn gated_tma(
    a: TmaMap<TmaA>,
    b: TmaMap<TmaB>,
    arguments: Arguments<f16, f16, f32>,
    epilogue: Gated,
) {
    matmul_with::<Config, Gated, { Config::CLUSTER }, { Config::STAGES }>(
        &a,
        &b,
        None,
        &arguments,
        &Sharing::NONE,
        epilogue,
    )
}
