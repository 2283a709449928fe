//! Transposes of 2 x 2 registers between pairs of lanes, by a shuffle.

use super::atom::{CopyAtom, RegisterFile};
use crate::arch::{FULL_WARP, lane_id, shuffle_xor};
use crate::layout::{Layout, layout};

macro_rules! atom {
    ($name:ident, $distance:literal, $dst:expr, $doc:literal) => {
        #[doc = $doc]
        ///
        /// The lower lane of a pair receives the first registers of both, the upper lane the second
        /// ones.
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;

        impl CopyAtom for $name {
            const NAME: &'static str = stringify!($name);
            const ARCH: u32 = 50;
            const PTX: Option<&'static str> = Some("shfl.sync.bfly.b32");
            type Source = RegisterFile<2>;
            type Destination = RegisterFile<2>;
            const THR_ID: Layout = layout!(32);
            const SRC: Layout = layout!((32, 64):(64, 1));
            const DST: Layout = $dst;
            const REF: Layout = Self::SRC;

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn call([first, second]: [u32; 2], (): ()) -> [u32; 2] {
                let upper = lane_id() & $distance != 0;
                let received = shuffle_xor(FULL_WARP, if upper { first } else { second }, $distance);
                if upper { [received, second] } else { [first, received] }
            }
        }
    };
}
atom!(
    SM50_Shuffle_U32_2x2Trans_XOR1,
    1,
    layout!(((2, 16), (32, 2)):((32, 128), (1, 64))),
    "Lanes 2 i and 2 i + 1 exchange the second register of the lower for the first of the upper."
);
atom!(
    SM50_Shuffle_U32_2x2Trans_XOR4,
    4,
    layout!(((4, 2, 4), (32, 2)):((64, 32, 512), (1, 256))),
    "Lanes i and i + 4 exchange the second register of the lower for the first of the upper."
);
