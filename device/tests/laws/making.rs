//! Construction of layouts: from shapes, orders, threads and values.

use super::strategies::*;
use moye_device::layout::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(config(5_000))]

    #[test]
    fn compact_strides_follow_the_order(shape in shape(), keys in prop::collection::vec(0i64..6, 32)) {
        prop_assume!(!shape.is_int());
        let order = IntTuple::flat(&keys[..shape.leaves()]).unflatten(shape);
        let stride = compact_order(shape, order);
        prop_assert!(congruent(stride, shape));
        prop_assert_eq!(make_ordered_layout(shape, order), Layout::new(shape, stride));
        // The smallest order comes first, then the leftmost of equals: each stride is the product
        // of the extents before it.
        let mut sequence: Vec<usize> = (0..shape.leaves()).collect();
        sequence.sort_by_key(|&leaf| (keys[leaf], leaf));
        let mut product = 1;
        for leaf in sequence {
            let extent = int_at(&shape, leaf);
            prop_assert_eq!(int_at(&stride, leaf), if extent == 1 { 0 } else { product }, "{} of {}", stride, shape);
            product *= extent;
        }
        let counted = |sign: i64| IntTuple::flat(&(0..shape.leaves() as i64).map(|i| sign * i).collect::<Vec<_>>());
        prop_assert_eq!(compact_order(shape, counted(1).unflatten(shape)), compact_col_major(shape));
        prop_assert_eq!(compact_order(shape, counted(-1).unflatten(shape)), compact_row_major(shape));
        prop_assert_eq!(make_col_major(shape).stride(), compact_col_major(shape));
        prop_assert_eq!(make_row_major(shape).stride(), compact_row_major(shape));
    }

    #[test]
    fn an_order_at_a_tuple_counts_for_its_leaves(shape in shape(), keys in prop::collection::vec(0i64..6, 3)) {
        prop_assume!(!shape.is_int());
        let of_modes = IntTuple::flat(&keys[..shape.rank()]);
        let of_leaves: Vec<i64> =
            (0..shape.rank()).flat_map(|m| vec![keys[m]; shape.mode(m).leaves()]).collect();
        let of_leaves = IntTuple::flat(&of_leaves).unflatten(shape);
        prop_assert_eq!(compact_order(shape, of_modes), compact_order(shape, of_leaves));
    }

    #[test]
    fn a_layout_like_another_is_compact_in_the_same_order(a in layouts()) {
        let like = make_layout_like(a);
        prop_assert_eq!(like.shape(), a.shape());
        let (before, after) = (leaves(&a), leaves(&like));
        let kept: i64 = before.iter().filter(|leaf| leaf.1 != 0).map(|leaf| leaf.0).product();
        prop_assert_eq!(like.cosize(), kept, "{} like {}", like, a);
        prop_assert!(filter(like).size() == kept && (kept > VALUES || is_injective(&filter(like))), "{}", like);
        for (i, (old, new)) in before.iter().zip(&after).enumerate() {
            prop_assert_eq!(new.1 == 0, old.1 == 0 || old.0 == 1, "what is broadcast stays broadcast: {}", like);
            for (other, its) in before[..i].iter().zip(&after) {
                if old.0 > 1 && other.0 > 1 && old.1 > 0 && other.1 > 0 {
                    prop_assert_eq!(old.1 < other.1, new.1 < its.1, "{} like {}", like, a);
                }
            }
        }
        prop_assert_eq!(make_layout_like(like), like, "it is like itself");
    }

    #[test]
    fn a_distributed_domain_is_ordered_and_divides_both(shape in shape(), count in 1i64..400) {
        let domain = domain_distribute(shape, count);
        prop_assert_eq!(count % domain.size(), 0, "{} of {}", domain, count);
        prop_assert!(domain.at(domain.size() - 1) < shape.size(), "{} leaves {}", domain, shape);
        for i in 1..checked(&domain) {
            prop_assert!(domain.at(i - 1) < domain.at(i), "{} is not ordered", domain);
        }
        // From each extent it takes the largest divisor of the remaining count: a box, coordinate
        // by coordinate.
        let mut rest = count;
        let mut box_of = Vec::new();
        for leaf in 0..shape.leaves() {
            let extent = int_at(&shape, leaf);
            let part = (1..=extent).rev().find(|part| extent % part == 0 && rest % part == 0).unwrap();
            box_of.push(part);
            rest /= part;
        }
        prop_assert_eq!(domain.size(), box_of.iter().product::<i64>());
        for i in 0..checked(&domain) {
            let coord = idx2crd(domain.at(i), shape);
            prop_assert!((0..shape.leaves()).all(|leaf| int_at(&coord, leaf) < box_of[leaf]), "{} of {}", coord, domain);
        }
        let matrix = make_col_major(shape);
        let tiles = zipped_divide(matrix, domain.tiler());
        prop_assert_eq!(tiles.extent(0), domain.size());
        prop_assert_eq!(tiles.size(), matrix.size());
    }

    #[test]
    fn identity_layouts_map_coordinates_to_themselves(shape in shape(), index in 0i64..1_000_000) {
        let index = index % shape.size();
        let coord = idx2crd(index, shape);
        let identity = identity_layout(shape);
        // Congruent with the shape, also for extents of 1.
        prop_assert_eq!(coordinate_of(identity, IntTuple::int(index)), coord);
        prop_assert_eq!(coordinate_of(identity, coord), coord);
        prop_assert_eq!(coshape(identity), shape);
        prop_assert_eq!(identity.cosize(), shape.size());
        let none = idx2crd(0, shape);
        for mode in 0..if shape.is_int() { 0 } else { shape.rank() } {
            prop_assert_eq!(coordinate_of(identity.along(mode), coord), coord.mode(mode), "along {}", mode);
            let rest = coord.replace(mode, IntTuple::any());
            prop_assert_eq!(slice_coordinate(identity, rest), coord.replace(mode, none.mode(mode)));
            prop_assert_eq!(coshape(slice(identity, rest)).mode(mode), shape.mode(mode));
        }
    }

    #[test]
    fn the_identity_of_the_sizes_of_modes_has_an_integer_for_each(shape in shape(), index in 0i64..1_000_000) {
        prop_assume!(!shape.is_int() && shape.rank() == 2);
        let index = index % shape.size();
        let coord = idx2crd(index, product_each(shape));
        let of_modes = identity_layout(product_each(shape)).with_shape(shape);
        prop_assert_eq!(of_modes.coordinate::<2>(index), [coord.mode(0).value(), coord.mode(1).value()]);
    }

    #[test]
    fn a_thread_value_layout_reaches_each_element_of_the_tile_once(
        threads in bijection(even_shape()), values in bijection(even_shape())
    ) {
        if let Ok(tv) = try_make_layout_tv(threads, values) {
            prop_assert_eq!(tv.threads(), threads.size());
            prop_assert_eq!(tv.values(), values.size());
            prop_assert_eq!(tv.tile.size(), tv.layout.size());
            prop_assume!(tv.layout.size() <= VALUES);
            prop_assert!(is_injective(&tv.layout), "{}", tv.layout);
            prop_assert_eq!(tv.layout.cosize(), tv.layout.size());
            // Element (thread, value) is where the raked product has this pair.
            let places = raked_product(threads, values);
            for i in 0..tv.layout.size() {
                prop_assert_eq!(places.at(tv.layout.at(i)), i);
            }
        }
    }
}
