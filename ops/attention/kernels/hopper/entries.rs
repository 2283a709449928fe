//! The kernels for Hopper by name: `hopper_<type>_<head size>`; heads of 64 and 128 also have one
//! with smaller tiles (`_causal`). Kernels for pages, variable lengths and splits end in `_varied`,
//! or in `_few` with 64 rows. Kernels that also change individual scores end in `_general`. Kernels
//! for 8-bit floats have results of bf16; the kernels in `_lse`, and the kernel for heads of 256,
//! write the log-sum-exp.

use super::super::arguments::Arguments;
use super::super::schedule::OneWork;
use super::config::{HopperConfig, SMALL_BOX};
use super::e4m3::{E4m3Storage, ScaledMaps, Scales};
use super::forward::{KeyMaps, forward};
use super::layouts::*;
use super::schedule::Tiles;
use super::shapes::*;
use super::source::Maps;
use half::{bf16, f16};
use moye_device::arch::block_idx;
use moye_device::atom::tma::TmaMap;
use moye_device::kernel;
use moye_device::number::F8E4M3;

macro_rules! entries {
    ($($shape:ident: $bf16:ident, $f16:ident;)+) => {
        $(entries!(@one "bf16" $shape bf16 $bf16);)+
        $(entries!(@one "f16" $shape f16 $f16);)+
    };
    (@one $feature:literal $shape:ident $t:ident $name:ident) => {
        #[cfg(feature = $feature)]
        #[doc = concat!("Attention of `", stringify!($t), "` by the shape [`", stringify!($shape), "`]: a grid of any number of blocks along x.")]
        ///
        /// `section` is the number of heads whose keys and values are processed at a time, so that
        /// they stay in L2.
        ///
        /// # Safety
        /// Same contract as [`forward`].
        #[kernel(threads = $shape::<$t>::THREADS, min_blocks = 1, shared = Storage<$shape<$t>>)]
        pub unsafe fn $name(
            q: TmaMap<TmaQ<$shape<$t>>>,
            k: TmaMap<TmaK<$shape<$t>>>,
            v: TmaMap<TmaV<$shape<$t>>>,
            o: TmaMap<TmaO<$shape<$t>>>,
            arguments: Arguments<$t>,
            section: u32,
        ) {
            let tiles = || Tiles::new(&arguments, section, $shape::<$t>::RECOMPUTES);
            forward::<$shape<$t>, _, _>(Maps { q: &q, k: &k, v: &v, o: &o }, &arguments, tiles)
        }
    };
}
entries! {
    D64: hopper_bf16_64, hopper_f16_64;
    D64Causal: hopper_bf16_64_causal, hopper_f16_64_causal;
    D128: hopper_bf16_128, hopper_f16_128;
    D128Causal: hopper_bf16_128_causal, hopper_f16_128_causal;
    D80: hopper_bf16_80, hopper_f16_80;
    D96: hopper_bf16_96, hopper_f16_96;
    D192: hopper_bf16_192, hopper_f16_192;
    D192x128: hopper_bf16_192x128, hopper_f16_192x128;
    D256: hopper_bf16_256, hopper_f16_256;
}

macro_rules! varied {
    ($($shape:ident: $bf16:ident, $f16:ident;)+) => {
        $(varied!(@one "bf16" $shape bf16 $bf16);)+
        $(varied!(@one "f16" $shape f16 $f16);)+
    };
    (@one $feature:literal $shape:ident $t:ident $name:ident) => {
        #[cfg(feature = $feature)]
        #[doc = concat!("Attention of `", stringify!($t), "` by the shape [`", stringify!($shape), "`], of variable lengths, pages, splits and packed heads.")]
        ///
        /// # Safety
        /// Same contract as [`forward`].
        #[kernel(threads = $shape::<$t>::THREADS, min_blocks = 1, shared = VariedStorage<$shape<$t>>)]
        pub unsafe fn $name(
            k: TmaMap<TmaKeyBox<$shape<$t>>>,
            v: TmaMap<TmaValueBox<$shape<$t>>>,
            small_k: TmaMap<TmaKeyBox<$shape<$t>, SMALL_BOX>>,
            small_v: TmaMap<TmaValueBox<$shape<$t>, SMALL_BOX>>,
            arguments: Arguments<$t>,
        ) {
            let tiles = || OneWork::new(&arguments, block_idx().x, false);
            let maps = KeyMaps { boxes: (&k, &v), small: (&small_k, &small_v) };
            forward::<$shape<$t>, _, _>(maps, &arguments, tiles)
        }
    };
}
varied! {
    D64Varied: hopper_bf16_64_varied, hopper_f16_64_varied;
    D128Causal: hopper_bf16_128_varied, hopper_f16_128_varied;
    D256Varied: hopper_bf16_256_varied, hopper_f16_256_varied;
    D64General: hopper_bf16_64_general, hopper_f16_64_general;
    D80General: hopper_bf16_80_general, hopper_f16_80_general;
    D96General: hopper_bf16_96_general, hopper_f16_96_general;
    D128General: hopper_bf16_128_general, hopper_f16_128_general;
    D192General: hopper_bf16_192_general, hopper_f16_192_general;
    D192x128General: hopper_bf16_192x128_general, hopper_f16_192x128_general;
    D256General: hopper_bf16_256_general, hopper_f16_256_general;
    D64Few: hopper_bf16_64_few, hopper_f16_64_few;
    D128Few: hopper_bf16_128_few, hopper_f16_128_few;
    D256Few: hopper_bf16_256_few, hopper_f16_256_few;
}

macro_rules! e4m3 {
    ($($name:ident $shape:ident $loaded:literal;)+) => { $(
        #[cfg(feature = "e4m3")]
        #[doc = concat!("Attention of e4m3 by the shape [`", stringify!($shape), "`]: a grid of any number of blocks along x.")]
        ///
        /// `section` is the number of heads whose keys and values are processed at a time, so that
        /// they stay in L2.
        ///
        /// # Safety
        /// Same contract as [`forward`].
        #[kernel(threads = $shape::<F8E4M3>::THREADS, min_blocks = 1, shared = E4m3Storage<$shape<F8E4M3>, $loaded>)]
        pub unsafe fn $name(
            q: TmaMap<TmaQ<$shape<F8E4M3>>>,
            k: TmaMap<TmaK<$shape<F8E4M3>>>,
            v: TmaMap<TmaV<$shape<F8E4M3>>>,
            o: TmaMap<TmaO<$shape<F8E4M3>>>,
            arguments: Arguments<F8E4M3>,
            scales: Scales,
            section: u32,
        ) {
            let maps = Maps { q: &q, k: &k, v: &v, o: &o };
            let tiles = || Tiles::new(&arguments, section, $shape::<F8E4M3>::RECOMPUTES);
            forward(ScaledMaps::<$shape<F8E4M3>, $loaded> { maps, scales: &scales }, &arguments, tiles)
        }
    )+ };
}
e4m3! {
    hopper_e4m3_64 E4m3D64 2;
    hopper_e4m3_64_lse E4m3D64Lse 2;
    hopper_e4m3_128 E4m3D128 2;
    hopper_e4m3_128_causal E4m3D128Causal 2;
    hopper_e4m3_128_lse E4m3D128Lse 2;
    hopper_e4m3_256 E4m3D256 1;
}
