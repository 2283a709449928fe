//! The family: an element type, an atom and a number of rows make a kernel.

use super::config::{ArgumentsOf, WgmmaConfig};
use super::matmul::{WgmmaStorage, matmul};
use super::parts::{PartsStorage, matmul_parts};
use super::sharing::Sharing;
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

/// The configuration and the kernel of each entry.
macro_rules! wgmma {
    (@is scaled scaled) => { true };
    (@is ping_pong ping_pong) => { true };
    (@is tall tall) => { true };
    // Where it is no option, the configuration sets it itself.
    (@pieces pieces) => { const PIECES: bool = true; };
    (@pieces $other:ident) => {};
    (@is $what:ident $other:ident) => { false };
    ($(
        $(#[$doc:meta])*
        $name:ident = $operand:ty => $sum:ty, $output:ty {
            rows: $rows:literal, cluster: $cluster:literal, threads = $threads:literal, $atom:ty $(, $option:ident)* $(; stages: $stages:literal)?
        }
    )+) => { $(
        /// The kernel of this name, and its configuration.
        pub mod $name {
            use super::*;

            /// The configuration.
            pub struct Tiling;

            impl WgmmaConfig for Tiling {
                type Operand = $operand;
                type Sum = $sum;
                type Output = $output;
                type Atom = $atom;
                const MMA_M: u32 = if false $(|| wgmma!(@is tall $option))* { 2 } else { 1 };
                const BLK_M: u32 = $rows;
                const CLUSTER: u32 = $cluster;
                const PING_PONG: bool = false $(|| wgmma!(@is ping_pong $option))*;
                const SCALED: bool = false $(|| wgmma!(@is scaled $option))*;
                $(const STAGES: u32 = $stages;)?
                $(wgmma!(@pieces $option);)*
            }

            const _: () = assert!(Tiling::THREADS == $threads, "one producer warpgroup, and one consumer for every 64 or 128 rows, or two in turn");

            $(#[$doc])*
            ///
            /// A persistent grid of at most one block for each multiprocessor, in clusters.
            ///
            /// # Safety
            /// The tensor maps are of matrices in memory of the device, with the boxes that
            /// [`Boxes`](super::super::Boxes) gives for A, B and C; the map of C is not used if
            /// `arguments.tensor_c` is 0. `c` overlaps no other. Every split has at least one
            /// element of K. Each extent is at most 2^31 - 256. The launch has clusters of
            #[doc = concat!(stringify!($cluster), " blocks. `sharing` has memory of this launch only.")]
            #[moye_device::kernel(threads = $threads, min_blocks = 1, shared = WgmmaStorage<Tiling, { Tiling::CLUSTER }, { Tiling::STAGES }>)]
            pub unsafe fn $name(
                a: TensorMap,
                b: TensorMap,
                c: TensorMap,
                arguments: ArgumentsOf<Tiling>,
                sharing: Sharing<$sum>,
            ) {
                matmul::<Tiling, { Tiling::CLUSTER }, { Tiling::STAGES }>((&a, &b, &c), &arguments, &sharing)
            }
        }
        pub use $name::$name;
    )+ };
}

#[cfg(feature = "matmul-f16")]
wgmma! {
    /// `c = a * b` in f16 with K contiguous in both, f32 accumulators, tiles of 128 x 256.
    wgmma_f16_tn = f16 => f32, f16 { rows: 128, cluster: 2, threads = 384, SM90_64x256x16_F32F16F16_SS<K_MAJOR, K_MAJOR> }
    /// `c = a * b` in f16 with M contiguous in `a` and N in `b`, f32 accumulators, tiles of
    /// 128 x 256.
    wgmma_f16_nt = f16 => f32, f16 { rows: 128, cluster: 2, threads = 384, SM90_64x256x16_F32F16F16_SS<MN_MAJOR, MN_MAJOR> }
    /// `c = a * b` in f16 with M contiguous in `a` and K in `b`, f32 accumulators, tiles of
    /// 128 x 256.
    wgmma_f16_nn = f16 => f32, f16 { rows: 128, cluster: 2, threads = 384, SM90_64x256x16_F32F16F16_SS<MN_MAJOR, K_MAJOR> }
    /// `c = a * b` in f16 with K contiguous in `a` and N in `b`, f32 accumulators, tiles of
    /// 128 x 256.
    wgmma_f16_tt = f16 => f32, f16 { rows: 128, cluster: 2, threads = 384, SM90_64x256x16_F32F16F16_SS<K_MAJOR, MN_MAJOR> }
    /// `c = a * b` in f16 with K contiguous in both, f32 accumulators, tiles of 128 x 128.
    wgmma_f16_tn_128x128 = f16 => f32, f16 { rows: 128, cluster: 1, threads = 384, SM90_64x128x16_F32F16F16_SS<K_MAJOR, K_MAJOR> }
    /// `c = a * b` in f16 with M contiguous in `a` and N in `b`, f32 accumulators, tiles of
    /// 128 x 128.
    wgmma_f16_nt_128x128 = f16 => f32, f16 { rows: 128, cluster: 1, threads = 384, SM90_64x128x16_F32F16F16_SS<MN_MAJOR, MN_MAJOR> }
    /// `c = a * b` in f16 with M contiguous in `a` and K in `b`, f32 accumulators, tiles of
    /// 128 x 128.
    wgmma_f16_nn_128x128 = f16 => f32, f16 { rows: 128, cluster: 1, threads = 384, SM90_64x128x16_F32F16F16_SS<MN_MAJOR, K_MAJOR> }
    /// `c = a * b` in f16 with K contiguous in `a` and N in `b`, f32 accumulators, tiles of
    /// 128 x 128.
    wgmma_f16_tt_128x128 = f16 => f32, f16 { rows: 128, cluster: 1, threads = 384, SM90_64x128x16_F32F16F16_SS<K_MAJOR, MN_MAJOR> }
    /// `c = a * b` in f16 with K contiguous in both, f32 accumulators, tiles of 128 x 256, without
    /// clusters.
    wgmma_f16_tn_alone = f16 => f32, f16 { rows: 128, cluster: 1, threads = 384, SM90_64x256x16_F32F16F16_SS<K_MAJOR, K_MAJOR>, pieces }
    /// `c = a * b` in f16 with K contiguous in both, f32 accumulators, tiles of 256 x 128, two
    /// instructions below each other for each warpgroup, without clusters.
    wgmma_f16_tn_256x128 = f16 => f32, f16 { rows: 256, cluster: 1, threads = 384, SM90_64x128x16_F32F16F16_SS<K_MAJOR, K_MAJOR>, tall, pieces }
    /// `c = a * b` in f16 with K contiguous in both, f32 accumulators, tiles of 128 x 192.
    wgmma_f16_tn_128x192 = f16 => f32, f16 { rows: 128, cluster: 2, threads = 384, SM90_64x192x16_F32F16F16_SS<K_MAJOR, K_MAJOR> }
}
#[cfg(feature = "matmul-bf16")]
wgmma! {
    /// `c = a * b` in bf16 with K contiguous in both, f32 accumulators, tiles of 128 x 256.
    wgmma_bf16_tn = bf16 => f32, bf16 { rows: 128, cluster: 2, threads = 384, SM90_64x256x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> }
    /// `c = a * b` in bf16 with M contiguous in `a` and N in `b`, f32 accumulators, tiles of
    /// 128 x 256.
    wgmma_bf16_nt = bf16 => f32, bf16 { rows: 128, cluster: 2, threads = 384, SM90_64x256x16_F32BF16BF16_SS<MN_MAJOR, MN_MAJOR> }
    /// `c = a * b` in bf16 with M contiguous in `a` and K in `b`, f32 accumulators, tiles of
    /// 128 x 256.
    wgmma_bf16_nn = bf16 => f32, bf16 { rows: 128, cluster: 2, threads = 384, SM90_64x256x16_F32BF16BF16_SS<MN_MAJOR, K_MAJOR> }
    /// `c = a * b` in bf16 with K contiguous in `a` and N in `b`, f32 accumulators, tiles of
    /// 128 x 256.
    wgmma_bf16_tt = bf16 => f32, bf16 { rows: 128, cluster: 2, threads = 384, SM90_64x256x16_F32BF16BF16_SS<K_MAJOR, MN_MAJOR> }
    /// `c = a * b` in bf16 with K contiguous in both, f32 accumulators, tiles of 128 x 128.
    wgmma_bf16_tn_128x128 = bf16 => f32, bf16 { rows: 128, cluster: 1, threads = 384, SM90_64x128x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> }
    /// `c = a * b` in bf16 with M contiguous in `a` and N in `b`, f32 accumulators, tiles of
    /// 128 x 128.
    wgmma_bf16_nt_128x128 = bf16 => f32, bf16 { rows: 128, cluster: 1, threads = 384, SM90_64x128x16_F32BF16BF16_SS<MN_MAJOR, MN_MAJOR> }
    /// `c = a * b` in bf16 with M contiguous in `a` and K in `b`, f32 accumulators, tiles of
    /// 128 x 128.
    wgmma_bf16_nn_128x128 = bf16 => f32, bf16 { rows: 128, cluster: 1, threads = 384, SM90_64x128x16_F32BF16BF16_SS<MN_MAJOR, K_MAJOR> }
    /// `c = a * b` in bf16 with K contiguous in `a` and N in `b`, f32 accumulators, tiles of
    /// 128 x 128.
    wgmma_bf16_tt_128x128 = bf16 => f32, bf16 { rows: 128, cluster: 1, threads = 384, SM90_64x128x16_F32BF16BF16_SS<K_MAJOR, MN_MAJOR> }
    /// `c = a * b` in bf16 with K contiguous in both, f32 accumulators, tiles of 128 x 256, without
    /// clusters.
    wgmma_bf16_tn_alone = bf16 => f32, bf16 { rows: 128, cluster: 1, threads = 384, SM90_64x256x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR>, pieces }
    /// `c = a * b` in bf16 with K contiguous in both, f32 accumulators, tiles of 256 x 128, two
    /// instructions below each other for each warpgroup, without clusters.
    wgmma_bf16_tn_256x128 = bf16 => f32, bf16 { rows: 256, cluster: 1, threads = 384, SM90_64x128x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR>, tall, pieces }
    /// `c = a * b` in bf16 with K contiguous in both, f32 accumulators, tiles of 128 x 192.
    wgmma_bf16_tn_128x192 = bf16 => f32, bf16 { rows: 128, cluster: 2, threads = 384, SM90_64x192x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> }
}
#[cfg(feature = "matmul-tf32")]
wgmma! {
    /// `c = a * b` in tf32, which the tensor map rounds to, with K contiguous in both, tiles of
    /// 128 x 256.
    wgmma_tf32_tn = f32 => f32, f32 { rows: 128, cluster: 2, threads = 384, SM90_64x256x8_F32TF32TF32_SS_TN }
}
#[cfg(feature = "matmul-i8")]
wgmma! {
    /// `c = a * b` of 8-bit integers with K contiguous in both, wrapping 32-bit accumulators, tiles
    /// of 128 x 256.
    wgmma_s8_tn = i8 => i32, i32 { rows: 128, cluster: 2, threads = 384, SM90_64x256x32_S32S8S8_SS_TN }
    /// As [`wgmma_s8_tn`](const@wgmma_s8_tn), tiles of 128 x 128 that two warpgroups take in turn,
    /// of which each has two instructions below each other.
    wgmma_s8_tn_128x128 = i8 => i32, i32 { rows: 128, cluster: 2, threads = 384, SM90_64x128x32_S32S8S8_SS_TN, tall, ping_pong; stages: 6 }
}
#[cfg(feature = "matmul-f8")]
wgmma! {
    /// `c = scales * a * b` of e4m3 with K contiguous in both, f32 accumulators, of which the
    /// tensor cores keep about 14 bits, tiles of 128 x 256.
    wgmma_e4m3_tn = F8E4M3 => f32, bf16 { rows: 128, cluster: 2, threads = 384, SM90_64x256x32_F32E4M3E4M3_SS_TN, scaled }
    /// As [`wgmma_e4m3_tn`](const@wgmma_e4m3_tn), tiles of 128 x 128 that two warpgroups take in
    /// turn, of which each has two instructions below each other.
    wgmma_e4m3_tn_128x128 = F8E4M3 => f32, bf16 { rows: 128, cluster: 2, threads = 384, SM90_64x128x32_F32E4M3E4M3_SS_TN, scaled, tall, ping_pong; stages: 6 }
    /// As [`wgmma_e4m3_tn`](const@wgmma_e4m3_tn), of e5m2.
    wgmma_e5m2_tn = F8E5M2 => f32, bf16 { rows: 128, cluster: 2, threads = 384, SM90_64x256x32_F32E5M2E5M2_SS_TN, scaled }
    /// As [`wgmma_e4m3_tn_128x128`](const@wgmma_e4m3_tn_128x128), of e5m2.
    wgmma_e5m2_tn_128x128 = F8E5M2 => f32, bf16 { rows: 128, cluster: 2, threads = 384, SM90_64x128x32_F32E5M2E5M2_SS_TN, scaled, tall, ping_pong; stages: 6 }
}

/// The configuration and the kernel of each entry with one tile for each block, or one tile for
/// each cluster whose blocks split K.
macro_rules! wgmma_parts {
    ($(
        $(#[$doc:meta])*
        $name:ident = $operand:ty => $sum:ty, $output:ty {
            rows: $rows:literal, parts: $parts:literal, stages: $stages:literal of $depth:literal, threads = $threads:literal, $atom:ty
        }
    )+) => { $(
        /// The kernel of this name, and its configuration.
        pub mod $name {
            use super::*;

            /// The configuration.
            pub struct Tiling;

            impl WgmmaConfig for Tiling {
                type Operand = $operand;
                type Sum = $sum;
                type Output = $output;
                type Atom = $atom;
                const BLK_M: u32 = $rows;
                const CLUSTER: u32 = 1;
                const DEPTH: u32 = $depth;
                const STAGES: u32 = $stages;
                const PING_PONG: bool = false;
                const SCALED: bool = false;
            }

            const _: () = assert!(Tiling::THREADS == $threads, "one producer warpgroup, and one consumer for every 64 rows");

            $(#[$doc])*
            ///
            /// A grid with one cluster for each tile of C of each batch, whose blocks split K.
            ///
            /// # Safety
            /// The tensor maps are of matrices in memory of the device, with the boxes that
            /// [`Boxes`](super::super::Boxes) gives for A and B, fitted to M, N and K; the map of C
            /// and `sharing` are not used. `c` overlaps no other. K is one chunk, and
            /// `arguments.splits` is 1. Each extent is at most 2^31 - 256. The launch has clusters
            /// of
            #[doc = concat!(stringify!($parts), " blocks (1: none).")]
            #[moye_device::kernel(threads = $threads, min_blocks = 1, shared = PartsStorage<Tiling, $parts, { Tiling::STAGES }>)]
            pub unsafe fn $name(
                a: TensorMap,
                b: TensorMap,
                _c: TensorMap,
                arguments: ArgumentsOf<Tiling>,
                _sharing: Sharing<$sum>,
            ) {
                matmul_parts::<Tiling, $parts, { Tiling::STAGES }>((&a, &b), &arguments)
            }
        }
        pub use $name::$name;
    )+ };
}

#[cfg(feature = "matmul-f16")]
wgmma_parts! {
    /// `c = a * b` in f16 with K contiguous in both, f32 accumulators, tiles of 64 x 64.
    wgmma_f16_tn_64x64 = f16 => f32, f16 { rows: 64, parts: 1, stages: 6 of 2, threads = 256, SM90_64x64x16_F32F16F16_SS<K_MAJOR, K_MAJOR> }
    /// As [`wgmma_f16_tn_64x64`](const@wgmma_f16_tn_64x64), K split over two blocks.
    wgmma_f16_tn_64x64_k2 = f16 => f32, f16 { rows: 64, parts: 2, stages: 6 of 2, threads = 256, SM90_64x64x16_F32F16F16_SS<K_MAJOR, K_MAJOR> }
    /// `c = a * b` in f16 with K contiguous in both, f32 accumulators, tiles of 64 x 128.
    wgmma_f16_tn_64x128 = f16 => f32, f16 { rows: 64, parts: 1, stages: 8 of 1, threads = 256, SM90_64x128x16_F32F16F16_SS<K_MAJOR, K_MAJOR> }
    /// As [`wgmma_f16_tn_64x128`](const@wgmma_f16_tn_64x128), K split over two blocks.
    wgmma_f16_tn_64x128_k2 = f16 => f32, f16 { rows: 64, parts: 2, stages: 8 of 1, threads = 256, SM90_64x128x16_F32F16F16_SS<K_MAJOR, K_MAJOR> }
    /// `c = a * b` in f16 with K contiguous in both, f32 accumulators, tiles of 128 x 128, one for
    /// each block.
    wgmma_f16_tn_128x128_once = f16 => f32, f16 { rows: 128, parts: 1, stages: 6 of 1, threads = 384, SM90_64x128x16_F32F16F16_SS<K_MAJOR, K_MAJOR> }
    /// `c = a * b` in f16 with K contiguous in both, f32 accumulators, tiles of 128 x 192, one for
    /// each block.
    wgmma_f16_tn_128x192_once = f16 => f32, f16 { rows: 128, parts: 1, stages: 5 of 1, threads = 384, SM90_64x192x16_F32F16F16_SS<K_MAJOR, K_MAJOR> }
    /// `c = a * b` in f16 with K contiguous in both, f32 accumulators, tiles of 192 x 192 with
    /// three consumer warpgroups, one for each block.
    wgmma_f16_tn_192x192_once = f16 => f32, f16 { rows: 192, parts: 1, stages: 4 of 1, threads = 512, SM90_64x192x16_F32F16F16_SS<K_MAJOR, K_MAJOR> }
    /// `c = a * b` in f16 with K contiguous in both, f32 accumulators, tiles of 128 x 128, K split
    /// over two blocks.
    wgmma_f16_tn_128x128_k2 = f16 => f32, f16 { rows: 128, parts: 2, stages: 6 of 1, threads = 384, SM90_64x128x16_F32F16F16_SS<K_MAJOR, K_MAJOR> }
    /// `c = a * b` in f16 with K contiguous in both, f32 accumulators, tiles of 128 x 192, K split
    /// over two blocks.
    wgmma_f16_tn_128x192_k2 = f16 => f32, f16 { rows: 128, parts: 2, stages: 4 of 1, threads = 384, SM90_64x192x16_F32F16F16_SS<K_MAJOR, K_MAJOR> }
    /// `c = a * b` in f16 with M contiguous in `a` and K in `b`, f32 accumulators, tiles of
    /// 64 x 64.
    wgmma_f16_nn_64x64 = f16 => f32, f16 { rows: 64, parts: 1, stages: 6 of 2, threads = 256, SM90_64x64x16_F32F16F16_SS<MN_MAJOR, K_MAJOR> }
    /// As [`wgmma_f16_nn_64x64`](const@wgmma_f16_nn_64x64), K split over two blocks.
    wgmma_f16_nn_64x64_k2 = f16 => f32, f16 { rows: 64, parts: 2, stages: 6 of 2, threads = 256, SM90_64x64x16_F32F16F16_SS<MN_MAJOR, K_MAJOR> }
    /// `c = a * b` in f16 with K contiguous in `a` and N in `b`, f32 accumulators, tiles of
    /// 64 x 64.
    wgmma_f16_tt_64x64 = f16 => f32, f16 { rows: 64, parts: 1, stages: 6 of 2, threads = 256, SM90_64x64x16_F32F16F16_SS<K_MAJOR, MN_MAJOR> }
    /// As [`wgmma_f16_tt_64x64`](const@wgmma_f16_tt_64x64), K split over two blocks.
    wgmma_f16_tt_64x64_k2 = f16 => f32, f16 { rows: 64, parts: 2, stages: 6 of 2, threads = 256, SM90_64x64x16_F32F16F16_SS<K_MAJOR, MN_MAJOR> }
}
#[cfg(feature = "matmul-bf16")]
wgmma_parts! {
    /// `c = a * b` in bf16 with K contiguous in both, f32 accumulators, tiles of 64 x 64.
    wgmma_bf16_tn_64x64 = bf16 => f32, bf16 { rows: 64, parts: 1, stages: 6 of 2, threads = 256, SM90_64x64x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> }
    /// As [`wgmma_bf16_tn_64x64`](const@wgmma_bf16_tn_64x64), K split over two blocks.
    wgmma_bf16_tn_64x64_k2 = bf16 => f32, bf16 { rows: 64, parts: 2, stages: 6 of 2, threads = 256, SM90_64x64x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> }
    /// `c = a * b` in bf16 with K contiguous in both, f32 accumulators, tiles of 64 x 128.
    wgmma_bf16_tn_64x128 = bf16 => f32, bf16 { rows: 64, parts: 1, stages: 8 of 1, threads = 256, SM90_64x128x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> }
    /// As [`wgmma_bf16_tn_64x128`](const@wgmma_bf16_tn_64x128), K split over two blocks.
    wgmma_bf16_tn_64x128_k2 = bf16 => f32, bf16 { rows: 64, parts: 2, stages: 8 of 1, threads = 256, SM90_64x128x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> }
    /// `c = a * b` in bf16 with K contiguous in both, f32 accumulators, tiles of 128 x 128, one for
    /// each block.
    wgmma_bf16_tn_128x128_once = bf16 => f32, bf16 { rows: 128, parts: 1, stages: 6 of 1, threads = 384, SM90_64x128x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> }
    /// `c = a * b` in bf16 with K contiguous in both, f32 accumulators, tiles of 128 x 192, one for
    /// each block.
    wgmma_bf16_tn_128x192_once = bf16 => f32, bf16 { rows: 128, parts: 1, stages: 5 of 1, threads = 384, SM90_64x192x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> }
    /// `c = a * b` in bf16 with K contiguous in both, f32 accumulators, tiles of 192 x 192 with
    /// three consumer warpgroups, one for each block.
    wgmma_bf16_tn_192x192_once = bf16 => f32, bf16 { rows: 192, parts: 1, stages: 4 of 1, threads = 512, SM90_64x192x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> }
    /// `c = a * b` in bf16 with K contiguous in both, f32 accumulators, tiles of 128 x 128, K split
    /// over two blocks.
    wgmma_bf16_tn_128x128_k2 = bf16 => f32, bf16 { rows: 128, parts: 2, stages: 6 of 1, threads = 384, SM90_64x128x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> }
    /// `c = a * b` in bf16 with K contiguous in both, f32 accumulators, tiles of 128 x 192, K split
    /// over two blocks.
    wgmma_bf16_tn_128x192_k2 = bf16 => f32, bf16 { rows: 128, parts: 2, stages: 4 of 1, threads = 384, SM90_64x192x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR> }
    /// `c = a * b` in bf16 with M contiguous in `a` and K in `b`, f32 accumulators, tiles of
    /// 64 x 64.
    wgmma_bf16_nn_64x64 = bf16 => f32, bf16 { rows: 64, parts: 1, stages: 6 of 2, threads = 256, SM90_64x64x16_F32BF16BF16_SS<MN_MAJOR, K_MAJOR> }
    /// As [`wgmma_bf16_nn_64x64`](const@wgmma_bf16_nn_64x64), K split over two blocks.
    wgmma_bf16_nn_64x64_k2 = bf16 => f32, bf16 { rows: 64, parts: 2, stages: 6 of 2, threads = 256, SM90_64x64x16_F32BF16BF16_SS<MN_MAJOR, K_MAJOR> }
    /// `c = a * b` in bf16 with K contiguous in `a` and N in `b`, f32 accumulators, tiles of
    /// 64 x 64.
    wgmma_bf16_tt_64x64 = bf16 => f32, bf16 { rows: 64, parts: 1, stages: 6 of 2, threads = 256, SM90_64x64x16_F32BF16BF16_SS<K_MAJOR, MN_MAJOR> }
    /// As [`wgmma_bf16_tt_64x64`](const@wgmma_bf16_tt_64x64), K split over two blocks.
    wgmma_bf16_tt_64x64_k2 = bf16 => f32, bf16 { rows: 64, parts: 2, stages: 6 of 2, threads = 256, SM90_64x64x16_F32BF16BF16_SS<K_MAJOR, MN_MAJOR> }
}
