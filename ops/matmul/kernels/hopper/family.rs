//! The kernels, each a name, an instruction and the constants of its configuration.

use super::config::{ArgumentsOf, Maps, WgmmaConfig};
use super::matmul::{WgmmaStorage, matmul};
use super::parts::{PartsStorage, matmul_parts};
use super::schedule::Sharing;
use half::{bf16, f16};
use moye_device::atom::wgmma::{
    K_MAJOR, MN_MAJOR, SM90_64x64x16_F32BF16BF16_SS, SM90_64x64x16_F32F16F16_SS,
    SM90_64x128x16_F32BF16BF16_SS, SM90_64x128x16_F32F16F16_SS, SM90_64x128x32_F32E4M3E4M3_SS_TN,
    SM90_64x128x32_F32E5M2E5M2_SS_TN, SM90_64x128x32_S32S8S8_SS_TN, SM90_64x192x16_F32BF16BF16_SS,
    SM90_64x192x16_F32F16F16_SS, SM90_64x256x8_F32TF32TF32_SS_TN, SM90_64x256x16_F32BF16BF16_SS,
    SM90_64x256x16_F32F16F16_SS, SM90_64x256x32_F32E4M3E4M3_SS_TN, SM90_64x256x32_F32E5M2E5M2_SS_TN,
    SM90_64x256x32_S32S8S8_SS_TN,
};
use moye_device::memory::TensorMap;
use moye_device::number::{F8E4M3, F8E5M2};

/// A configuration: operands, accumulators and C, the instruction, and the constants of
/// [`WgmmaConfig`] that differ from its defaults.
macro_rules! configuration {
    (@type PING_PONG) => { bool };
    (@type SCALED) => { bool };
    (@type PIECES) => { bool };
    (@type PROMOTED) => { bool };
    (@type $other:ident) => { u32 };
    ([$operand:ty, $sum:ty, $output:ty] $atom:ty { $($constant:ident = $value:literal),+ } $(PARTS = $parts:literal)?) => {
        /// The configuration.
        pub struct Tiling;

        impl WgmmaConfig for Tiling {
            type Operand = $operand;
            type Sum = $sum;
            type Output = $output;
            type Atom = $atom;
            $(const $constant: configuration!(@type $constant) = $value;)+
            $(const PARTS: u32 = $parts;
            const ONE_TILE: bool = true;)?
        }
    };
}

/// Kernels with a persistent grid.
macro_rules! wgmma {
    ($types:tt $($(#[$doc:meta])* $name:ident: $atom:ty = $constants:tt;)+) => { $(
        /// The kernel of this name, and its configuration.
        pub mod $name {
            use super::*;

            configuration!($types $atom $constants);

            /// The tiles of its tensor maps.
            pub const MAPS: Maps = Maps::new::<Tiling, { Tiling::CLUSTER }>();

            #[doc = concat!("`c = a * b` by `", stringify!($atom), "`: `", stringify!($constants), "`.")]
            ///
            $(#[$doc])*
            ///
            /// A persistent grid of at most one block for each SM, in clusters of `Tiling::CLUSTER`
            /// blocks.
            ///
            /// # Safety
            /// The tensor maps are of matrices in memory of the device, built from the tiles of
            #[doc = concat!("[`MAPS`](", stringify!($name), "::MAPS); the map of C is not used if")]
            /// `arguments.tensor_c` is 0. `c` overlaps no other. Every slice has at least one
            /// element of K. Each extent is at most 2^31 - 256. The launch has the clusters above.
            /// `sharing` has memory of this launch only.
            #[moye_device::kernel(
                threads = Tiling::THREADS,
                min_blocks = 1,
                shared = WgmmaStorage<Tiling, { Tiling::CLUSTER }, { Tiling::STAGES }>,
            )]
            pub unsafe fn $name(
                a: TensorMap,
                b: TensorMap,
                c: TensorMap,
                arguments: ArgumentsOf<Tiling>,
                sharing: Sharing<<Tiling as WgmmaConfig>::Sum>,
            ) {
                matmul::<Tiling, { Tiling::CLUSTER }, { Tiling::STAGES }>(&a, &b, Some(&c), &arguments, &sharing)
            }
        }
        pub use $name::$name;
    )+ };
}

#[cfg(feature = "f16")]
wgmma! {
    [f16, f32, f16]
    wgmma_f16_tn: SM90_64x256x16_F32F16F16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 128, CLUSTER = 2 };
    wgmma_f16_nt: SM90_64x256x16_F32F16F16_SS<MN_MAJOR, MN_MAJOR> = { BLK_M = 128, CLUSTER = 2 };
    wgmma_f16_nn: SM90_64x256x16_F32F16F16_SS<MN_MAJOR, K_MAJOR> = { BLK_M = 128, CLUSTER = 2 };
    wgmma_f16_tt: SM90_64x256x16_F32F16F16_SS<K_MAJOR, MN_MAJOR> = { BLK_M = 128, CLUSTER = 2 };
    wgmma_f16_tn_128x128: SM90_64x128x16_F32F16F16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 128 };
    wgmma_f16_nt_128x128: SM90_64x128x16_F32F16F16_SS<MN_MAJOR, MN_MAJOR> = { BLK_M = 128 };
    wgmma_f16_nn_128x128: SM90_64x128x16_F32F16F16_SS<MN_MAJOR, K_MAJOR> = { BLK_M = 128 };
    wgmma_f16_tt_128x128: SM90_64x128x16_F32F16F16_SS<K_MAJOR, MN_MAJOR> = { BLK_M = 128 };
    wgmma_f16_tn_alone: SM90_64x256x16_F32F16F16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 128, PIECES = true };
    wgmma_f16_tn_256x128: SM90_64x128x16_F32F16F16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 256, MMA_M = 2, PIECES = true };
    wgmma_f16_tn_128x192: SM90_64x192x16_F32F16F16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 128, CLUSTER = 2 };
}
#[cfg(feature = "bf16")]
wgmma! {
    [bf16, f32, bf16]
    wgmma_bf16_tn: SM90_64x256x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 128, CLUSTER = 2 };
    wgmma_bf16_nt: SM90_64x256x16_F32BF16BF16_SS<MN_MAJOR, MN_MAJOR> = { BLK_M = 128, CLUSTER = 2 };
    wgmma_bf16_nn: SM90_64x256x16_F32BF16BF16_SS<MN_MAJOR, K_MAJOR> = { BLK_M = 128, CLUSTER = 2 };
    wgmma_bf16_tt: SM90_64x256x16_F32BF16BF16_SS<K_MAJOR, MN_MAJOR> = { BLK_M = 128, CLUSTER = 2 };
    wgmma_bf16_tn_128x128: SM90_64x128x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 128 };
    wgmma_bf16_nt_128x128: SM90_64x128x16_F32BF16BF16_SS<MN_MAJOR, MN_MAJOR> = { BLK_M = 128 };
    wgmma_bf16_nn_128x128: SM90_64x128x16_F32BF16BF16_SS<MN_MAJOR, K_MAJOR> = { BLK_M = 128 };
    wgmma_bf16_tt_128x128: SM90_64x128x16_F32BF16BF16_SS<K_MAJOR, MN_MAJOR> = { BLK_M = 128 };
    wgmma_bf16_tn_alone: SM90_64x256x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 128, PIECES = true };
    wgmma_bf16_tn_256x128: SM90_64x128x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 256, MMA_M = 2, PIECES = true };
}
#[cfg(feature = "tf32")]
wgmma! {
    [f32, f32, f32]
    /// The tensor map rounds the operands to tf32.
    wgmma_tf32_tn: SM90_64x256x8_F32TF32TF32_SS_TN = { BLK_M = 128, CLUSTER = 2 };
}
#[cfg(feature = "i8")]
wgmma! {
    [i8, i32, i32]
    /// 8-bit integers, 32-bit accumulators that wrap.
    wgmma_s8_tn: SM90_64x256x32_S32S8S8_SS_TN = { BLK_M = 128, CLUSTER = 2 };
    /// 8-bit integers, 32-bit accumulators that wrap; two warpgroups alternate tiles (ping-pong).
    wgmma_s8_tn_128x128: SM90_64x128x32_S32S8S8_SS_TN = { BLK_M = 128, CLUSTER = 2, MMA_M = 2, PING_PONG = true, STAGES = 6 };
}
#[cfg(feature = "f8")]
wgmma! {
    [F8E4M3, f32, bf16]
    /// The tensor cores keep about 14 bits of an accumulator; scales are applied to the
    /// accumulators.
    wgmma_e4m3_tn: SM90_64x256x32_F32E4M3E4M3_SS_TN = { BLK_M = 128, CLUSTER = 2, SCALED = true };
    /// Same as [`wgmma_e4m3_tn`](const@super::wgmma_e4m3_tn), with ping-pong warpgroups.
    wgmma_e4m3_tn_128x128: SM90_64x128x32_F32E4M3E4M3_SS_TN = { BLK_M = 128, CLUSTER = 2, SCALED = true, MMA_M = 2, PING_PONG = true, STAGES = 6 };
    /// The products of 128 elements of K are accumulated in f32; scales are applied at the end.
    wgmma_e4m3_tn_256x128_promoted: SM90_64x128x32_F32E4M3E4M3_SS_TN = { BLK_M = 256, CLUSTER = 2, SCALED = true, MMA_M = 2, PIECES = true, PROMOTED = true };
    /// Same as [`wgmma_e4m3_tn_256x128_promoted`](const@super::wgmma_e4m3_tn_256x128_promoted).
    wgmma_e4m3_tn_128x128_promoted: SM90_64x128x32_F32E4M3E4M3_SS_TN = { BLK_M = 128, CLUSTER = 2, SCALED = true, PROMOTED = true, STAGES = 6 };
}
#[cfg(feature = "f8")]
wgmma! {
    [F8E5M2, f32, bf16]
    /// The tensor cores keep about 14 bits of an accumulator; scales are applied to the
    /// accumulators.
    wgmma_e5m2_tn: SM90_64x256x32_F32E5M2E5M2_SS_TN = { BLK_M = 128, CLUSTER = 2, SCALED = true };
    /// Same as [`wgmma_e5m2_tn`](const@super::wgmma_e5m2_tn), with ping-pong warpgroups.
    wgmma_e5m2_tn_128x128: SM90_64x128x32_F32E5M2E5M2_SS_TN = { BLK_M = 128, CLUSTER = 2, SCALED = true, MMA_M = 2, PING_PONG = true, STAGES = 6 };
    /// The products of 128 elements of K are accumulated in f32; scales are applied at the end.
    wgmma_e5m2_tn_256x128_promoted: SM90_64x128x32_F32E5M2E5M2_SS_TN = { BLK_M = 256, CLUSTER = 2, SCALED = true, MMA_M = 2, PIECES = true, PROMOTED = true };
    /// Same as [`wgmma_e5m2_tn_256x128_promoted`](const@super::wgmma_e5m2_tn_256x128_promoted).
    wgmma_e5m2_tn_128x128_promoted: SM90_64x128x32_F32E5M2E5M2_SS_TN = { BLK_M = 128, CLUSTER = 2, SCALED = true, PROMOTED = true, STAGES = 6 };
}

/// Kernels that compute one tile for each block, or for each cluster of `parts` blocks that split
/// K.
macro_rules! wgmma_parts {
    (parts = $parts:literal, $types:tt $($name:ident: $atom:ty = $constants:tt;)+) => { $(
        /// The kernel of this name, and its configuration.
        pub mod $name {
            use super::*;

            configuration!($types $atom $constants PARTS = $parts);

            /// The boxes of its tensor maps.
            pub const MAPS: Maps = Maps::new::<Tiling, 1>();

            #[doc = concat!("`c = a * b` by `", stringify!($atom), "`: `", stringify!($constants), "`.")]
            ///
            /// A grid with one cluster for each tile of C of each batch. Blocks of a cluster, which
            #[doc = concat!("split K: ", $parts, ".")]
            ///
            /// # Safety
            /// The tensor maps are of matrices in memory of the device, built from the boxes of
            #[doc = concat!("[`MAPS`](", stringify!($name), "::MAPS), fitted to M, N and K; the map of C")]
            /// and `sharing` are not used. `c` overlaps no other. K is one chunk, and
            /// `arguments.splits` is 1. Each extent is at most 2^31 - 256. The launch has the
            /// clusters above.
            #[moye_device::kernel(
                threads = Tiling::THREADS,
                min_blocks = 1,
                shared = PartsStorage<Tiling, { Tiling::PARTS }, { Tiling::STAGES }>,
            )]
            pub unsafe fn $name(
                a: TensorMap,
                b: TensorMap,
                _c: TensorMap,
                arguments: ArgumentsOf<Tiling>,
                _sharing: Sharing<<Tiling as WgmmaConfig>::Sum>,
            ) {
                matmul_parts::<Tiling, { Tiling::PARTS }, { Tiling::STAGES }>(&a, &b, &arguments)
            }
        }
        pub use $name::$name;
    )+ };
}

#[cfg(feature = "f16")]
wgmma_parts! {
    parts = 1, [f16, f32, f16]
    wgmma_f16_tn_64x64: SM90_64x64x16_F32F16F16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 64, DEPTH = 2, STAGES = 6 };
    wgmma_f16_tn_64x128: SM90_64x128x16_F32F16F16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 64, STAGES = 8 };
    wgmma_f16_tn_128x128_once: SM90_64x128x16_F32F16F16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 128, STAGES = 6 };
    wgmma_f16_tn_128x192_once: SM90_64x192x16_F32F16F16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 128, STAGES = 5 };
    wgmma_f16_tn_192x192_once: SM90_64x192x16_F32F16F16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 192, STAGES = 4 };
    wgmma_f16_nn_64x64: SM90_64x64x16_F32F16F16_SS<MN_MAJOR, K_MAJOR> = { BLK_M = 64, DEPTH = 2, STAGES = 6 };
    wgmma_f16_tt_64x64: SM90_64x64x16_F32F16F16_SS<K_MAJOR, MN_MAJOR> = { BLK_M = 64, DEPTH = 2, STAGES = 6 };
}
#[cfg(feature = "f16")]
wgmma_parts! {
    parts = 2, [f16, f32, f16]
    wgmma_f16_tn_64x64_k2: SM90_64x64x16_F32F16F16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 64, DEPTH = 2, STAGES = 6 };
    wgmma_f16_tn_64x128_k2: SM90_64x128x16_F32F16F16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 64, STAGES = 8 };
    wgmma_f16_tn_128x128_k2: SM90_64x128x16_F32F16F16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 128, STAGES = 6 };
    wgmma_f16_tn_128x192_k2: SM90_64x192x16_F32F16F16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 128, STAGES = 4 };
    wgmma_f16_nn_64x64_k2: SM90_64x64x16_F32F16F16_SS<MN_MAJOR, K_MAJOR> = { BLK_M = 64, DEPTH = 2, STAGES = 6 };
    wgmma_f16_tt_64x64_k2: SM90_64x64x16_F32F16F16_SS<K_MAJOR, MN_MAJOR> = { BLK_M = 64, DEPTH = 2, STAGES = 6 };
}
#[cfg(feature = "bf16")]
wgmma_parts! {
    parts = 1, [bf16, f32, bf16]
    wgmma_bf16_tn_64x64: SM90_64x64x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 64, DEPTH = 2, STAGES = 6 };
    wgmma_bf16_tn_64x128: SM90_64x128x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 64, STAGES = 8 };
    wgmma_bf16_tn_128x128_once: SM90_64x128x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 128, STAGES = 6 };
    wgmma_bf16_tn_128x192_once: SM90_64x192x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 128, STAGES = 5 };
    wgmma_bf16_tn_192x192_once: SM90_64x192x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 192, STAGES = 4 };
    wgmma_bf16_nn_64x64: SM90_64x64x16_F32BF16BF16_SS<MN_MAJOR, K_MAJOR> = { BLK_M = 64, DEPTH = 2, STAGES = 6 };
    wgmma_bf16_tt_64x64: SM90_64x64x16_F32BF16BF16_SS<K_MAJOR, MN_MAJOR> = { BLK_M = 64, DEPTH = 2, STAGES = 6 };
}
#[cfg(feature = "bf16")]
wgmma_parts! {
    parts = 2, [bf16, f32, bf16]
    wgmma_bf16_tn_64x64_k2: SM90_64x64x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 64, DEPTH = 2, STAGES = 6 };
    wgmma_bf16_tn_64x128_k2: SM90_64x128x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 64, STAGES = 8 };
    wgmma_bf16_tn_128x128_k2: SM90_64x128x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 128, STAGES = 6 };
    wgmma_bf16_tn_128x192_k2: SM90_64x192x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> = { BLK_M = 128, STAGES = 4 };
    wgmma_bf16_nn_64x64_k2: SM90_64x64x16_F32BF16BF16_SS<MN_MAJOR, K_MAJOR> = { BLK_M = 64, DEPTH = 2, STAGES = 6 };
    wgmma_bf16_tt_64x64_k2: SM90_64x64x16_F32BF16BF16_SS<K_MAJOR, MN_MAJOR> = { BLK_M = 64, DEPTH = 2, STAGES = 6 };
}
