//! The kernels for Hopper by name: `hopper_<type>_<head size>`; heads of 64 and 128 also have one
//! with smaller tiles (`_causal`). Kernels for pages, variable lengths and splits end in `_varied`,
//! or in `_few` with 64 rows. Kernels that also change individual scores end in `_general`.

use super::arguments::Arguments;
use super::hopper::{Maps, forward};
use super::hopper_config::*;
use super::hopper_schedule::Tiles;
use super::hopper_varied::forward_varied;
use super::schedule::OneWork;
use half::{bf16, f16};
use moye_device::arch::block_idx;
use moye_device::atom::tma::TmaMap;
use moye_device::kernel;

macro_rules! entries {
    ($($name:ident $config:ident $t:ty;)+) => { $(
        #[doc = concat!("Attention of `", stringify!($t), "` by the shape [`", stringify!($config), "`]: a grid of any number of blocks along x.")]
        ///
        /// `section` is the number of heads whose keys and values are processed at a time, so that
        /// they stay in L2.
        ///
        /// # Safety
        /// Same contract as [`forward`].
        #[kernel(threads = $config::THREADS, min_blocks = 1, shared = Storage<$config>)]
        pub unsafe fn $name(
            q: TmaMap<TmaQ<$config>>,
            k: TmaMap<TmaK<$config>>,
            v: TmaMap<TmaV<$config>>,
            o: TmaMap<TmaO<$config>>,
            arguments: Arguments<$t>,
            section: u32,
        ) {
            let tiles = || Tiles::new(&arguments, section, $config::RECOMPUTES);
            forward::<$config, _>(Maps { q: &q, k: &k, v: &v, o: &o }, &arguments, tiles)
        }
    )+ };
}
#[cfg(feature = "bf16")]
entries! {
    hopper_bf16_64 Bf16D64 bf16;
    hopper_bf16_64_causal Bf16D64Causal bf16;
    hopper_bf16_128 Bf16D128 bf16;
    hopper_bf16_128_causal Bf16D128Causal bf16;
    hopper_bf16_80 Bf16D80 bf16;
    hopper_bf16_96 Bf16D96 bf16;
    hopper_bf16_192 Bf16D192 bf16;
    hopper_bf16_192x128 Bf16D192x128 bf16;
    hopper_bf16_256 Bf16D256 bf16;
}
#[cfg(feature = "f16")]
entries! {
    hopper_f16_64 F16D64 f16;
    hopper_f16_64_causal F16D64Causal f16;
    hopper_f16_128 F16D128 f16;
    hopper_f16_128_causal F16D128Causal f16;
    hopper_f16_80 F16D80 f16;
    hopper_f16_96 F16D96 f16;
    hopper_f16_192 F16D192 f16;
    hopper_f16_192x128 F16D192x128 f16;
    hopper_f16_256 F16D256 f16;
}

macro_rules! varied {
    ($($name:ident $config:ident $t:ty;)+) => { $(
        #[doc = concat!("Attention of `", stringify!($t), "` by the shape [`", stringify!($config), "`], of variable lengths, pages, splits and packed heads.")]
        ///
        /// # Safety
        /// Same contract as [`forward_varied`].
        #[kernel(threads = $config::THREADS, min_blocks = 1, shared = VariedStorage<$config>)]
        pub unsafe fn $name(
            k: TmaMap<TmaKeyBox<$config>>,
            v: TmaMap<TmaValueBox<$config>>,
            small_k: TmaMap<TmaKeyBox<$config, SMALL_BOX>>,
            small_v: TmaMap<TmaValueBox<$config, SMALL_BOX>>,
            arguments: Arguments<$t>,
        ) {
            let tiles = || OneWork::new(&arguments, block_idx().x, $config::RECOMPUTES);
            forward_varied::<$config, _>((&k, &v), (&small_k, &small_v), &arguments, tiles)
        }
    )+ };
}
#[cfg(feature = "bf16")]
varied! {
    hopper_bf16_64_varied Bf16D64Varied bf16;
    hopper_bf16_128_varied Bf16D128Causal bf16;
    hopper_bf16_256_varied Bf16D256Varied bf16;
    hopper_bf16_64_general Bf16D64General bf16;
    hopper_bf16_80_general Bf16D80General bf16;
    hopper_bf16_96_general Bf16D96General bf16;
    hopper_bf16_128_general Bf16D128General bf16;
    hopper_bf16_192_general Bf16D192General bf16;
    hopper_bf16_192x128_general Bf16D192x128General bf16;
    hopper_bf16_256_general Bf16D256General bf16;
    hopper_bf16_64_few Bf16D64Few bf16;
    hopper_bf16_128_few Bf16D128Few bf16;
    hopper_bf16_256_few Bf16D256Few bf16;
}
#[cfg(feature = "f16")]
varied! {
    hopper_f16_64_varied F16D64Varied f16;
    hopper_f16_128_varied F16D128Causal f16;
    hopper_f16_256_varied F16D256Varied f16;
    hopper_f16_64_general F16D64General f16;
    hopper_f16_80_general F16D80General f16;
    hopper_f16_96_general F16D96General f16;
    hopper_f16_128_general F16D128General f16;
    hopper_f16_192_general F16D192General f16;
    hopper_f16_192x128_general F16D192x128General f16;
    hopper_f16_256_general F16D256General f16;
    hopper_f16_64_few F16D64Few f16;
    hopper_f16_128_few F16D128Few f16;
    hopper_f16_256_few F16D256Few f16;
}
