//! The shapes of the kernels for Hopper, and the `wgmma` atoms of their products.

use super::super::config::{Pairs, TileConfig};
use super::config::HopperConfig;
use core::marker::PhantomData;
use half::{bf16, f16};
use moye_device::arch::{decrease_registers, increase_registers};
use moye_device::atom::copy::SM90_U32x4_STSM_N;
use moye_device::atom::wgmma::*;
use moye_device::atom::{StaticTiledMma, TiledMma, make_tiled_copy_c};
use moye_device::number::F8E4M3;
use moye_device::{layout, tiled_copy, tiled_mma};

/// The atoms of a warpgroup's products with `N` columns.
pub trait Products<const N: u32>: Pairs {
    /// Both operands in shared memory, K-major.
    type Shared: WgmmaAtom<OperandA = u64, D = f32>;
    /// A in registers. B is in shared memory, of 16 bits MN-major.
    type Registers: WgmmaAtom<OperandA = [u32; 4], D = f32>;
}

macro_rules! products {
    ($($t:ty: $($n:literal $ss:ty, $rs:ty;)+)+) => { $($(
        impl Products<$n> for $t {
            type Shared = $ss;
            type Registers = $rs;
        }
    )+)+ };
}
products! {
    bf16:
        64 SM90_64x64x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR>, SM90_64x64x16_F32BF16BF16_RS<MN_MAJOR>;
        80 SM90_64x80x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR>, SM90_64x80x16_F32BF16BF16_RS<MN_MAJOR>;
        96 SM90_64x96x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR>, SM90_64x96x16_F32BF16BF16_RS<MN_MAJOR>;
        112 SM90_64x112x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR>, SM90_64x112x16_F32BF16BF16_RS<MN_MAJOR>;
        128 SM90_64x128x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR>, SM90_64x128x16_F32BF16BF16_RS<MN_MAJOR>;
        160 SM90_64x160x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR>, SM90_64x160x16_F32BF16BF16_RS<MN_MAJOR>;
        192 SM90_64x192x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR>, SM90_64x192x16_F32BF16BF16_RS<MN_MAJOR>;
        256 SM90_64x256x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR>, SM90_64x256x16_F32BF16BF16_RS<MN_MAJOR>;
    f16:
        64 SM90_64x64x16_F32F16F16_SS<K_MAJOR, K_MAJOR>, SM90_64x64x16_F32F16F16_RS<MN_MAJOR>;
        80 SM90_64x80x16_F32F16F16_SS<K_MAJOR, K_MAJOR>, SM90_64x80x16_F32F16F16_RS<MN_MAJOR>;
        96 SM90_64x96x16_F32F16F16_SS<K_MAJOR, K_MAJOR>, SM90_64x96x16_F32F16F16_RS<MN_MAJOR>;
        112 SM90_64x112x16_F32F16F16_SS<K_MAJOR, K_MAJOR>, SM90_64x112x16_F32F16F16_RS<MN_MAJOR>;
        128 SM90_64x128x16_F32F16F16_SS<K_MAJOR, K_MAJOR>, SM90_64x128x16_F32F16F16_RS<MN_MAJOR>;
        160 SM90_64x160x16_F32F16F16_SS<K_MAJOR, K_MAJOR>, SM90_64x160x16_F32F16F16_RS<MN_MAJOR>;
        192 SM90_64x192x16_F32F16F16_SS<K_MAJOR, K_MAJOR>, SM90_64x192x16_F32F16F16_RS<MN_MAJOR>;
        256 SM90_64x256x16_F32F16F16_SS<K_MAJOR, K_MAJOR>, SM90_64x256x16_F32F16F16_RS<MN_MAJOR>;
    F8E4M3:
        64 SM90_64x64x32_F32E4M3E4M3_SS_TN, SM90_64x64x32_F32E4M3E4M3_RS_TN;
        96 SM90_64x96x32_F32E4M3E4M3_SS_TN, SM90_64x96x32_F32E4M3E4M3_RS_TN;
        128 SM90_64x128x32_F32E4M3E4M3_SS_TN, SM90_64x128x32_F32E4M3E4M3_RS_TN;
        192 SM90_64x192x32_F32E4M3E4M3_SS_TN, SM90_64x192x32_F32E4M3E4M3_RS_TN;
        256 SM90_64x256x32_F32E4M3E4M3_SS_TN, SM90_64x256x32_F32E4M3E4M3_RS_TN;
}

tiled_mma! {
    /// One atom: a product of a warpgroup.
    pub OneAtom<A: WgmmaAtom>: TiledMma<A> = TiledMma::new(layout!((1, 1, 1)));
}
tiled_copy! {
    /// O to shared memory.
    pub StoreOf<C: HopperConfig>: TiledCopy<SM90_U32x4_STSM_N, C::T> = make_tiled_copy_c(&C::Pv::MMA);
}

macro_rules! shapes {
    ($($(#[$doc:meta])* $name:ident: $d:literal x $keys:literal x $dv:literal, $warpgroups:literal of $registers:literal $($general:ident)? $(, $option:ident: $kind:ident = $value:expr)*;)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<T>(PhantomData<T>);

        impl<T: Products<$keys> + Products<$dv>> TileConfig for $name<T> {
            type Operand = T;
            const D: i64 = $d;
            const DV: i64 = $dv;
            const BLK_M: u32 = 64 * $warpgroups;
            const BLK_N: u32 = $keys;
            const GENERAL: bool = !stringify!($($general)?).is_empty();
            const PAGED: bool = true;
            const APPROXIMATE_TANH: bool = true;
        }

        impl<T: Products<$keys> + Products<$dv>> HopperConfig for $name<T> {
            type T = T::Result;
            const WARPGROUPS: u32 = $warpgroups;
            $(const $option: $kind = $value;)*
            type Qk = OneAtom<<T as Products<$keys>>::Shared>;
            type Pv = OneAtom<<T as Products<$dv>>::Registers>;
            type StoreO = StoreOf<Self>;

            // Four or three warpgroups share 512 registers. One consumer and the producer start
            // with the maximum of a thread.
            #[inline(always)]
            unsafe fn set_registers<const CONSUMER: bool>() {
                match ($warpgroups, CONSUMER) {
                    (1, _) => {}
                    (_, true) => increase_registers::<$registers>(),
                    (3, false) => decrease_registers::<32>(),
                    (_, false) => decrease_registers::<{ 504 - 2 * $registers }>(),
                }
            }
        }
    )+ };
}
shapes! {
    /// Heads of 64.
    D64: 64 x 128 x 64, 3 of 160, RECOMPUTES: bool = true;
    /// Heads of 64, of variable lengths: a block computes one tile and recomputes nothing.
    D64Varied: 64 x 128 x 64, 3 of 160;
    /// Heads of 64, for short sequences with a mask.
    D64Causal: 64 x 128 x 64, 2 of 232;
    /// Heads of 128, for sliding windows and few keys.
    D128Causal: 128 x 128 x 128, 2 of 232;
    /// Heads of 128.
    D128: 128 x 160 x 128, 2 of 232;
    /// Heads of 80.
    D80: 80 x 160 x 80, 2 of 232;
    /// Heads of 96.
    D96: 96 x 160 x 96, 2 of 232;
    /// Heads of 192.
    D192: 192 x 112 x 192, 2 of 232, SEPARATE_O: bool = false;
    /// Heads of 192 with values of 128.
    D192x128: 192 x 128 x 128, 2 of 232, SEPARATE_O: bool = false;
    /// Heads of 256.
    D256: 256 x 80 x 256, 2 of 232, SEPARATE_O: bool = false, RECOMPUTES: bool = true;
    /// Heads of 256, in boxes of 64 keys.
    D256Varied: 256 x 64 x 256, 2 of 232, SEPARATE_O: bool = false;
    /// Heads of 64, all options.
    D64General: 64 x 128 x 64, 2 of 232 general, TURNS: bool = false, SEPARATE_O: bool = false;
    /// Heads of 80, all options.
    D80General: 80 x 128 x 80, 2 of 232 general, SEPARATE_O: bool = false;
    /// Heads of 96, all options.
    D96General: 96 x 128 x 96, 2 of 232 general, SEPARATE_O: bool = false;
    /// Heads of 128, all options.
    D128General: 128 x 128 x 128, 2 of 232 general, SEPARATE_O: bool = false;
    /// Heads of 192, all options.
    D192General: 192 x 64 x 192, 2 of 232 general, SEPARATE_O: bool = false;
    /// Heads of 192 with values of 128, all options.
    D192x128General: 192 x 128 x 128, 2 of 232 general, SEPARATE_O: bool = false, AHEAD: bool = false;
    /// Heads of 256, all options.
    D256General: 256 x 64 x 256, 2 of 232 general, SEPARATE_O: bool = false, AHEAD: bool = false;
    /// Heads of 64, for few rows.
    D64Few: 64 x 128 x 64, 1 of 240, TURNS: bool = false, SEPARATE_O: bool = false;
    /// Heads of 128, for few rows.
    D128Few: 128 x 128 x 128, 1 of 240, TURNS: bool = false, SEPARATE_O: bool = false;
    /// Heads of 256, for few rows.
    D256Few: 256 x 64 x 256, 1 of 240, TURNS: bool = false, SEPARATE_O: bool = false;
}

macro_rules! e4m3 {
    ($($(#[$doc:meta])* $name:ident: $d:literal x $keys:literal x $dv:literal, $warpgroups:literal of $registers:literal, STAGES_V = $stages:literal, SUMS_BY_WGMMA = $sums:literal;)+) => { shapes! { $(
        $(#[$doc])*
        $name: $d x $keys x $dv, $warpgroups of $registers,
            STAGES_V: u32 = $stages, SUMS_BY_WGMMA: bool = $sums, TILES_Q: u32 = $warpgroups, OFFSET: u32 = 6, SLACK: f32 = 2.5;
    )+ } };
}
e4m3! {
    /// 8-bit floats, heads of 64.
    E4m3D64: 64 x 128 x 64, 3 of 160, STAGES_V = 2, SUMS_BY_WGMMA = true;
    /// 8-bit floats, heads of 64, with the log-sum-exp.
    E4m3D64Lse: 64 x 128 x 64, 3 of 160, STAGES_V = 2, SUMS_BY_WGMMA = false;
    /// 8-bit floats, heads of 128, for sliding windows and few keys.
    E4m3D128Causal: 128 x 128 x 128, 2 of 232, STAGES_V = 2, SUMS_BY_WGMMA = true;
    /// 8-bit floats, heads of 128.
    E4m3D128: 128 x 192 x 128, 2 of 232, STAGES_V = 2, SUMS_BY_WGMMA = true;
    /// 8-bit floats, heads of 128, with the log-sum-exp.
    E4m3D128Lse: 128 x 192 x 128, 2 of 232, STAGES_V = 2, SUMS_BY_WGMMA = false;
    /// 8-bit floats, heads of 256, with the log-sum-exp: products, not the softmax, are the limit.
    E4m3D256: 256 x 96 x 256, 2 of 232, STAGES_V = 1, SUMS_BY_WGMMA = false;
}
