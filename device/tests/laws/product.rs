//! Products: the block, and its copies at free offsets.

use super::strategies::*;
use moye_device::layout::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(config(5_000))]

    #[test]
    fn product_repeats_the_block_at_free_places(a in layouts(), b in layouts()) {
        if let Ok(result) = try_logical_product(a, b.tiler()) {
            prop_assert_eq!(result.mode(0), a);
            prop_assert_eq!(result.extent(1), b.size());
            // Past its size a complement is empty, and a block may have gaps that no layout fills:
            // there only the law below holds.
            let Ok(free) = try_complement(a, a.size() * b.cosize()) else { return Ok(()) };
            for j in 0..checked(&b) {
                if b.at(j) < free.size() {
                    prop_assert_eq!(result.mode(1).at(j), free.at(b.at(j)), "{} by {} is {}", a, b, result);
                }
            }
        }
    }

    #[test]
    fn copies_in_a_product_never_meet(a in blocks(), b in layouts()) {
        prop_assume!(a.size() * b.size() <= 10 * VALUES);
        if let Ok(result) = try_logical_product(a, b.tiler()) {
            check_copies(a, b, (0..b.size()).map(|j| result.mode(1).at(j)))?;
        }
    }

    #[test]
    fn copies_in_blocked_and_raked_products_never_meet(
        block in prop::collection::vec((1i64..5, 1i64..24), 2), tiles in bijection(even_shape())
    ) {
        let block = Layout::new(tuple_of(&block, |mode| mode.0), tuple_of(&block, |mode| mode.1));
        prop_assume!(is_injective(&block) && block.size() * tiles.size() <= 10 * VALUES);
        for result in [try_blocked_product(block, tiles), try_raked_product(block, tiles)].into_iter().flatten() {
            prop_assert_eq!(result.size(), block.size() * tiles.size());
            prop_assert!(is_injective(&result), "{} by {} is {}", block, tiles, result);
        }
        let shape: Vec<i64> = (0..2).map(|mode| block.extent(mode) * (1 + tiles.size() % 3)).collect();
        for order in [tuple!((0, 1)), tuple!((1, 0))] {
            if let Ok(result) = try_tile_to_shape_ordered(block, IntTuple::flat(&shape), order) {
                prop_assert_eq!(product_each(result.shape()), IntTuple::flat(&shape));
                prop_assert!(is_injective(&result), "{} to {} is {}", block, IntTuple::flat(&shape), result);
            }
        }
    }

    #[test]
    fn blocked_and_raked_products_have_the_elements_of_the_logical_one(
        a in bijection(even_shape()), b in bijection(even_shape())
    ) {
        let (blocked, raked) = (try_blocked_product(a, b), try_raked_product(a, b));
        prop_assert_eq!(blocked.is_ok(), raked.is_ok());
        if let (Ok(blocked), Ok(raked)) = (blocked, raked) {
            prop_assert_eq!(blocked.rank(), a.rank().max(b.rank()));
            prop_assert_eq!(blocked.size(), a.size() * b.size());
            prop_assume!(blocked.size() <= VALUES);
            prop_assert!(is_injective(&blocked) && is_injective(&raked), "{blocked} {raked}");
            prop_assert_eq!(blocked.cosize(), blocked.size());
            for mode in 0..blocked.rank() {
                prop_assert_eq!(blocked.mode(mode).mode(0), raked.mode(mode).mode(1));
                prop_assert_eq!(blocked.mode(mode).mode(1), raked.mode(mode).mode(0));
            }
        }
    }

    #[test]
    fn a_tile_to_shape_has_that_shape(a in bijection(even_shape()), times in prop::collection::vec(1i64..5, 3)) {
        let rank = a.rank();
        let shape: Vec<i64> = (0..rank).map(|mode| a.extent(mode) * times[mode]).collect();
        let tiled = tile_to_shape(a, IntTuple::flat(&shape));
        prop_assert_eq!(product_each(tiled.shape()), IntTuple::flat(&shape));
        prop_assert_eq!(tiled.cosize(), tiled.size());
    }

    #[test]
    fn each_form_of_product_has_the_modes_of_the_logical_one(a in layouts(), tiler in tiler_modes()) {
        prop_assume!(!a.shape().is_int());
        let tiler = &tiler[..tiler.len().min(a.rank())];
        let by = tiler_of(tiler);
        if let Ok(logical) = try_logical_product(a, by) {
            check_forms(&logical, tiler, [try_zipped_product(a, by), try_tiled_product(a, by), try_flat_product(a, by)])?;
        } else {
            prop_assert!(try_zipped_product(a, by).is_err() && try_tiled_product(a, by).is_err());
            prop_assert!(try_flat_product(a, by).is_err());
        }
    }

    #[test]
    fn a_product_by_mode_repeats_each_mode(a in layouts(), tiler in tiler_modes()) {
        prop_assume!(!a.shape().is_int());
        let tiler = &tiler[..tiler.len().min(a.rank())];
        if let Ok(logical) = try_logical_product(a, tiler_of(tiler)) {
            for (m, mode) in modes(&logical).into_iter().enumerate() {
                let expected = match tiler.get(m) {
                    Some(Some(tile)) => logical_product(a.mode(m), *tile),
                    _ => a.mode(m),
                };
                prop_assert_eq!(mode, expected, "mode {} of {}", m, logical);
            }
        }
    }

    #[test]
    fn blocked_and_raked_products_are_the_logical_one_regrouped(a in layouts(), b in layouts()) {
        prop_assume!(!a.shape().is_int() && !b.shape().is_int() && a.rank() == b.rank());
        if let (Ok(blocked), Ok(logical)) = (try_blocked_product(a, b), try_logical_product(a, b.tiler())) {
            let raked = raked_product(a, b);
            for m in 0..a.rank() {
                let (block, copies) = (logical.mode(0).mode(m), logical.mode(1).mode(m));
                prop_assert_eq!(blocked.mode(m), Layout::concat(&[block, copies]));
                prop_assert_eq!(raked.mode(m), Layout::concat(&[copies, block]));
            }
        }
    }

    #[test]
    fn a_tile_to_shape_repeats_in_the_order(
        a in bijection(even_shape()), times in prop::collection::vec(1i64..4, 3), order in Just([0i64, 1, 2]).prop_shuffle()
    ) {
        let rank = a.rank();
        prop_assume!(!a.shape().is_int());
        let shape: Vec<i64> = (0..rank).map(|mode| a.extent(mode) * times[mode]).collect();
        let order = IntTuple::flat(&order[..rank]);
        let tiled = tile_to_shape_ordered(a, IntTuple::flat(&shape), order);
        // Copy k, along the mode of the smallest order first, begins k blocks further.
        let copies = make_ordered_layout(IntTuple::flat(&times[..rank]), order);
        for copy in 0..copies.size() {
            let at = idx2crd(copy, IntTuple::flat(&times[..rank]));
            let corner: Vec<i64> = (0..rank).map(|mode| at.mode(mode).value() * a.extent(mode)).collect();
            prop_assert_eq!(crd2idx(tiled, IntTuple::flat(&corner)), copies.at(copy) * a.size(), "{}", tiled);
        }
    }
}
