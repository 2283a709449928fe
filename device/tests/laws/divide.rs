//! Divides: the tiles reassemble the layout.

use super::strategies::*;
use moye_device::layout::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(config(5_000))]

    #[test]
    fn divide_is_the_layout_after_the_tile_and_its_complement(a in walks(), tile in prop_oneof![layouts(), blocks()]) {
        if let Ok(result) = try_logical_divide(a, tile.tiler()) {
            let rest = complement(tile, a.size());
            prop_assert_eq!(result.size(), tile.size() * rest.size());
            for i in 0..checked(&result) {
                let index = tile.at(i % tile.size()) + rest.at(i / tile.size());
                prop_assert_eq!(result.at(i), a.at(index), "{} by {} is {}", a, tile, result);
            }
        }
    }

    #[test]
    fn a_divide_has_every_element_in_a_tile_or_is_refused(size in 1i64..200, tile in blocks()) {
        // The identity, so that nothing else can be refused.
        let a = strided(size, 1);
        prop_assume!(tile.size() <= VALUES);
        match try_logical_divide(a, tile.tiler()) {
            Ok(result) => {
                prop_assert_eq!(first_missing(&values(&result), size), None, "{} by {} is {}", a, tile, result);
                if is_injective(&tile) {
                    prop_assert!(is_injective(&result), "{} by {} is {}", a, tile, result);
                }
            }
            Err(error) => {
                let image = sorted_values(&filter(tile));
                let meets_itself = image.windows(2).any(|pair| pair[0] == pair[1]);
                let refused = meets_itself || error.kind() == LayoutErrorKind::NotInjective;
                prop_assert!(refused || !copies_cover(&image, size), "{}", error);
            }
        }
    }

    #[test]
    fn each_form_of_divide_has_the_modes_of_the_logical_one(a in walks(), tiler in tiler_modes()) {
        let tiler = &tiler[..tiler.len().min(a.rank())];
        let by = tiler_of(tiler);
        if let Ok(logical) = try_logical_divide(a, by) {
            check_forms(&logical, tiler, [try_zipped_divide(a, by), try_tiled_divide(a, by), try_flat_divide(a, by)])?;
        } else {
            prop_assert!(try_zipped_divide(a, by).is_err() && try_tiled_divide(a, by).is_err());
            prop_assert!(try_flat_divide(a, by).is_err());
        }
    }

    #[test]
    fn a_divide_by_mode_divides_each_mode(a in layouts(), tiler in tiler_modes()) {
        let tiler = &tiler[..tiler.len().min(a.rank())];
        if let Ok(logical) = try_logical_divide(a, tiler_of(tiler)) {
            for (m, mode) in modes(&logical).into_iter().enumerate() {
                let expected = match tiler.get(m) {
                    Some(Some(tile)) => logical_divide(a.mode(m), *tile),
                    _ => a.mode(m),
                };
                prop_assert_eq!(mode, expected, "mode {} of {}", m, logical);
            }
        }
    }

    #[test]
    fn a_divide_by_tiles_that_fit_has_each_element_once(a in bijection(even_shape()), b in bijection(even_shape())) {
        prop_assume!(a.size() <= VALUES && a.size() % b.size() == 0);
        if let Ok(result) = try_logical_divide(a, b.tiler()) {
            prop_assert_eq!(sorted_values(&result), sorted_values(&a), "{} by {} is {}", a, b, result);
        }
    }
}
