//! The kernels.

use crate::attention::Arguments;
use crate::attention::hopper::{Maps, forward};
use crate::attention::hopper_config::*;
use half::{bf16, f16};
use moye_device::atom::tma::TmaMap;
use moye_device::kernel;

macro_rules! entries {
    ($($name:ident $config:ident $t:ty;)+) => { $(
        /// Any number of blocks along x; a tensor map each for Q, K and V.
        ///
        /// # Safety
        /// As [`forward`].
        #[kernel(threads = $config::THREADS, min_blocks = 1, shared = Storage<$config>)]
        pub unsafe fn $name(
            q: TmaMap<TmaQ<$config>>,
            k: TmaMap<TmaK<$config>>,
            v: TmaMap<TmaK<$config>>,
            arguments: Arguments<$t>,
            section: u32,
        ) {
            // SAFETY: the caller's contract.
            unsafe { forward::<$config>(Maps { q: &q, k: &k, v: &v }, &arguments, section) }
        }
    )+ };
}
entries! {
    hopper_bf16_64 Bf16D64 bf16;
    hopper_bf16_128_causal Bf16D128Causal bf16;
    hopper_bf16_128 Bf16D128 bf16;
    hopper_bf16_256 Bf16D256 bf16;
    hopper_f16_128_causal F16D128Causal f16;
    v1 V1 bf16;
    v2 V2 bf16;
    v3 V3 bf16;
    v4 V4 bf16;
    v5 V5 bf16;
}
