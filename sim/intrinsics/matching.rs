//! Further matches beside [`match_any`](super::match_any): of 64-bit values, and of all lanes.

use crate::block::{ExitedLanes, warp_collective};

/// The lanes of `mask` that hold the same value as the calling lane: `match.any.sync.b64`.
#[track_caller]
pub fn match_any_u64(mask: u32, value: u64) -> u32 {
    warp_collective("match.any.sync.b64", mask, ExitedLanes::Ignored, value, |lanes| {
        let same =
            |lane: usize| (0..32).filter(move |&other| lanes[lane].is_some() && lanes[other] == lanes[lane]);
        std::array::from_fn(|lane| same(lane).fold(0, |all, other| all | 1 << other))
    })
}

/// Whether all lanes of `mask` hold the same value: `match.all.sync.b32`.
#[track_caller]
pub fn match_all(mask: u32, value: u32) -> bool {
    warp_collective("match.all.sync", mask, ExitedLanes::Ignored, value, |lanes| {
        let mut values = lanes.iter().flatten();
        let first = values.next();
        [values.all(|value| Some(value) == first); 32]
    })
}
