//! Boxes compared with the layouts that they make up.

extern crate std;

use super::TmaTile;
use super::tile::MAX_EXTENT;
use crate::layout::{ComposedLayout, Layout, Major, SwizzleBytes, layout, shared_memory_atom, tuple};
use proptest::prelude::*;
use std::collections::HashSet;
use std::vec;
use std::vec::Vec;

fn extents(tile: &TmaTile) -> Vec<i64> {
    tile.box_extents[..tile.rank].iter().map(|&extent| i64::from(extent)).collect()
}

/// Asserts that each element of each box is at the layout's offset, and that boxes hold each
/// element once.
fn assert_made_up(tile: &TmaTile, layout: &Layout) {
    let extents = extents(tile);
    let mut seen = HashSet::new();
    for copy in 0..tile.copies() {
        assert_eq!(tile.offsets[copy] % 128, 0, "{layout}: box {copy} begins at an odd address");
        for index in 0..extents.iter().product() {
            // The element's coordinate by modes, and its index in each.
            let (mut rest, mut place) = (index, 0);
            let mut coordinate = vec![0; tile.rank];
            for (dimension, &extent) in extents.iter().enumerate() {
                let mode = tile.modes[dimension];
                coordinate[mode] = i64::from(tile.starts[copy][dimension]) + rest % extent;
                place += layout.mode(mode).at(coordinate[mode]);
                rest /= extent;
            }
            let in_box = i64::from(tile.offsets[copy]) * 8 / tile.bits + index;
            assert_eq!(in_box, place, "{layout}: element {coordinate:?}");
            assert!(seen.insert(coordinate), "{layout}: an element is in two boxes");
        }
    }
    assert_eq!(seen.len() as i64, layout.size(), "{layout}");
}

#[test]
fn long_rows_fall_into_the_longest_aligned_boxes() {
    for (layout, bits, expected, copies) in [
        (layout!(384:1), 8, vec![128], 3),
        (layout!(320:1), 16, vec![64], 5),
        (layout!((320, 4)), 16, vec![64, 1], 20),
        (layout!(288:1), 32, vec![96], 3),
        (layout!(512:1), 16, vec![256], 2),
        // A whole run of up to 256 elements needs no further boxes.
        (layout!(240:1), 16, vec![240], 1),
        (layout!((48, 2):(1, 64)), 16, vec![48, 1], 2),
        // Other dimensions too: a second box after 180 rows of 16 bytes would begin within 128
        // bytes.
        (layout!((16, 360)), 8, vec![16, 120], 3),
    ] {
        let tile = TmaTile::try_new(&ComposedLayout::plain(layout), bits).unwrap();
        assert_eq!((extents(&tile), tile.copies()), (expected, copies), "{layout}");
        assert_made_up(&tile, &layout);
    }
    // 256 divides 768, but not the run of 384.
    let nested = layout!(((384, 2),):((1, 512),));
    let tile = TmaTile::new(ComposedLayout::plain(nested), 8);
    assert_eq!((extents(&tile), tile.copies()), (vec![128], 6));
    assert_made_up(&tile, &nested);
}

#[test]
fn rows_that_no_boxes_divide_are_an_error_that_names_rows_that_fit() {
    for (layout, bits, expected) in [
        (
            layout!((257, 8)),
            16,
            "of the contiguous mode 257 elements follow each other, 514 bytes; it must be a multiple of 16 bytes: 256 and \
             320 fit",
        ),
        (
            layout!((260, 8)),
            32,
            "mode 0 has a run of 260 elements, and a box at most 256; no divisor of 260 up to that is a multiple of 32, which \
             boxes need to begin at aligned addresses: 256 and 288 fit",
        ),
        (layout!((12, 8)), 8, "12 bytes; it must be a multiple of 16 bytes: 16 fits"),
        (layout!((20, 8)), 8, "20 bytes; it must be a multiple of 16 bytes: 16 and 32 fit"),
        (layout!((250, 8)), 8, "250 bytes; it must be a multiple of 16 bytes: 240 and 256 fit"),
        (layout!((16, 300)), 8, "mode 1 has a run of 300 elements, and a box at most 256; no divisor of 300"),
        (
            layout!((48, 2):(1, 56)),
            16,
            "a box begins at element 56, not a multiple of the 64 that a box is aligned to: 64 fits",
        ),
    ] {
        let said = TmaTile::try_new(&ComposedLayout::plain(layout), bits).unwrap_err();
        assert!(said.text().contains(expected), "{said}");
    }
    // Extents that the error suggests are accepted.
    for (rows, bits) in [(256, 16), (320, 16), (256, 32), (288, 32), (16, 8), (32, 8), (240, 8)] {
        let tile = TmaTile::try_new(&ComposedLayout::plain(layout!(rows:1)), bits).unwrap();
        assert_made_up(&tile, &layout!(rows:1));
    }
}

#[test]
fn swizzled_rows_are_as_long_as_what_is_swizzled() {
    let atom = shared_memory_atom(Major::K, SwizzleBytes::B128, 16);
    // 360 rows of 128 bytes: boxes of 120 rows begin at multiples of 1024 bytes, those of 180 do
    // not.
    let tile = TmaTile::new(atom.tile_to_shape(tuple!((360, 64))), 16);
    assert_eq!((extents(&tile), tile.copies()), (vec![64, 120], 3));
    let said = TmaTile::try_new(&ComposedLayout::new(atom.swizzle, 0, layout!((96, 8))), 16).unwrap_err();
    let expected = "its rows have 96 elements, and those of its swizzle 64: 64 and 128 fit";
    assert!(said.text().contains(expected), "{said}");
}

proptest! {
    #[test]
    fn boxes_bring_each_element_to_its_place(
        first in 1i64..80, unit in prop::sample::select(vec![1i64, 4, 8, 16, 32]),
        second in 1i64..6, pad in prop::sample::select(vec![0i64, 16, 64, 128]),
        rows in 1i64..300, gap in prop::sample::select(vec![0i64, 16, 64, 128]),
        bits in prop::sample::select(vec![8i64, 16, 32, 64]),
    ) {
        // ((first * unit, second), rows), with gaps between.
        let row = first * unit;
        let apart = row + pad;
        let layout = layout!(((row, second), rows):((1, apart), second * apart + gap));
        if let Ok(tile) = TmaTile::try_new(&ComposedLayout::plain(layout), bits) {
            prop_assert!(extents(&tile).iter().all(|&extent| extent <= MAX_EXTENT));
            assert_made_up(&tile, &layout);
        } else if second == 1 && rows == 1 {
            // A row alone is rejected only if no divisor fits.
            let does = |extent: i64| {
                row % extent == 0 && extent * bits % 128 == 0 && (extent == row || extent * bits % 1024 == 0)
                    && row / extent <= 32
            };
            prop_assert!(!(1..=row.min(MAX_EXTENT)).any(does), "{} of {} bits", layout, bits);
        }
    }
}
