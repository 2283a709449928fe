//! The producer for pages of fewer than [`BOX`](super::hopper_config::BOX) tokens: a warp, each
//! lane of which loads one box of a tile of keys.
//!
//! A tile of 128 keys in pages of 16 is eight boxes at unrelated addresses. Each lane reads the
//! page number of its box one tile ahead, so that the reads of a tile cost one latency.
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

use super::hopper_config::{
    Config, Element, KeyBoxes, SMALL_BOX, STAGES, SmemK, SmemV, TmaKeyBox, TmaValueBox, ValueBoxes,
};
use super::hopper_places::Places;
use super::hopper_tile::Tile;
use moye_device::arch::{lane_id, prefetch_tensor_map};
use moye_device::atom::tma::TmaMap;
use moye_device::pipeline::Producer;
use moye_device::tensor::SharedTensor;

/// The maps of K and V by boxes of `B` keys.
pub type BoxMaps<'a, C, const B: u32> = (&'a TmaMap<TmaKeyBox<C, B>>, &'a TmaMap<TmaValueBox<C, B>>);

/// Loads the tiles of K and V of a tile of queries, from the last to the first.
///
/// # Safety
/// All lanes of one warp execute this call. The maps describe the pages; the table has the pages of
/// all keys. The arrays are those of the pipelines.
#[inline(always)]
pub unsafe fn produce_small<C: Config>(
    (k, v): BoxMaps<'_, C, SMALL_BOX>,
    tile: &Tile<'_, C>,
    (sK, sV): (SharedTensor<Element<C>, SmemK<C>>, SharedTensor<Element<C>, SmemV<C>>),
    (keys, values): (&mut Producer<STAGES, 1>, &mut Producer<STAGES, 1>),
) {
    let boxes = const {
        assert!(C::BLK_N % SMALL_BOX == 0 && C::BLK_N / SMALL_BOX <= 32, "a lane has a box of a tile");
        C::BLK_N / SMALL_BOX
    };
    let sK = sK.with_layout::<KeyBoxes<C, SMALL_BOX>>(); // (SMALL_BOX, D, BLK_N / SMALL_BOX, STAGES)
    let sV = sV.with_layout::<ValueBoxes<C, SMALL_BOX>>(); // (SMALL_BOX, DV, BLK_N / SMALL_BOX, STAGES)
    let (mK, mV) = (k.tensor(), v.tensor());
    let (head, (begin, end)) = (tile.work.kv_head, tile.keys);
    let places = Places::new(tile.arguments, &tile.sequence);
    let lane = lane_id();
    // Lanes without a box are clamped to the last box.
    let place = |tile: u32| places.of(tile * C::BLK_N + lane.min(boxes - 1) * SMALL_BOX);
    macro_rules! load {
        ($pipeline:ident, $box:ident, $tensor:ident, $array:ident, $place:expr) => {
            let bytes = const { C::BLK_N / SMALL_BOX * $box::<C, SMALL_BOX>::BYTES };
            let filling = $pipeline.acquire_by_warp(bytes);
            if lane < boxes {
                let [row, page] = $place;
                let to = filling.of($array).at((.., .., lane)); // (SMALL_BOX, D or DV)
                $box::<C, SMALL_BOX>::get_slice().copy(
                    $tensor.offset([row, 0, head as i32, page]),
                    to,
                    &filling,
                );
            }
        };
    }
    // Each stage expects the bytes that are loaded into it.
    if lane == 0 {
        prefetch_tensor_map(k.pointer());
        prefetch_tensor_map(v.pointer());
    }
    if !tile.exists() || begin >= end {
        return;
    }
    let mut next = end - 1;
    let mut of_values = place(next);
    load!(keys, TmaKeyBox, mK, sK, of_values);
    let mut of_keys = if next > begin { place(next - 1) } else { of_values };
    while next > begin {
        next -= 1;
        let later = if next > begin { place(next - 1) } else { of_keys };
        load!(keys, TmaKeyBox, mK, sK, of_keys);
        load!(values, TmaValueBox, mV, sV, of_values);
        (of_values, of_keys) = (of_keys, later);
    }
    load!(values, TmaValueBox, mV, sV, of_values);
}
