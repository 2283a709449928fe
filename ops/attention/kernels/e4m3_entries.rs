//! The kernels of 8-bit floats for Hopper by name: `hopper_e4m3_<head size>`; heads of 128 also
//! have one with smaller tiles (`_causal`). The kernels that end in `_lse`, and the one for heads
//! of 256, write the log-sum-exp. Results are bf16.

use super::arguments::Arguments;
use super::e4m3::{Maps, Scales, forward_e4m3};
use super::e4m3_config::*;
use super::hopper_config::{Config, TmaQ};
use super::hopper_schedule::Tiles;
use moye_device::atom::tma::TmaMap;
use moye_device::kernel;
use moye_device::number::F8E4M3;

macro_rules! entries {
    ($($name:ident $config:ident $loaded:literal;)+) => { $(
        #[doc = concat!("Attention of e4m3 by the shape [`", stringify!($config), "`]: a grid of any number of blocks along x.")]
        ///
        /// `section` is the number of heads whose keys and values are processed at a time, so that
        /// they stay in L2.
        ///
        /// # Safety
        /// Same contract as [`forward_e4m3`].
        #[kernel(threads = $config::THREADS, min_blocks = 1, shared = Storage<$config, $loaded>)]
        pub unsafe fn $name(
            q: TmaMap<TmaQ8<$config>>,
            k: TmaMap<TmaK8<$config>>,
            v: TmaMap<TmaV8<$config>>,
            o: TmaMap<TmaQ<$config>>,
            arguments: Arguments<F8E4M3>,
            scales: Scales,
            section: u32,
        ) {
            let maps = Maps { q: &q, k: &k, v: &v, o: &o };
            let tiles = || Tiles::new(&arguments, section, $config::RECOMPUTES);
            forward_e4m3::<$config, _, $loaded>(maps, &arguments, &scales, tiles)
        }
    )+ };
}
entries! {
    hopper_e4m3_64 E4m3D64 2;
    hopper_e4m3_64_lse E4m3D64Lse 2;
    hopper_e4m3_128 E4m3D128 2;
    hopper_e4m3_128_causal E4m3D128Causal 2;
    hopper_e4m3_128_lse E4m3D128Lse 2;
    hopper_e4m3_256 E4m3D256 1;
}
