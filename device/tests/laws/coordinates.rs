//! Coordinates, indices, slices and edits.

use super::strategies::*;
use moye_device::layout::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

proptest! {
    #![proptest_config(config(5_000))]

    #[test]
    fn coordinates_and_indices_agree(a in walks(), index in 0i64..1_000_000) {
        let index = index % a.size();
        let coord = idx2crd(index, a.shape());
        prop_assert!(congruent(coord, a.shape()));
        prop_assert!(elem_less(coord, a.shape()));
        prop_assert_eq!(crd2idx(a, coord), a.at(index));
        prop_assert_eq!(crd2crd(IntTuple::int(index), a.shape()), coord);
        let next = increment(coord, a.shape());
        // Past the end too, where the last extent counts as unbounded.
        prop_assert_eq!(next, idx2crd(index + 1, a.shape()));
        prop_assert!(colex_less(coord, next), "{coord} {next}");
        let past = idx2crd(index + a.size(), a.shape());
        prop_assert_eq!(increment(past, a.shape()), idx2crd(index + a.size() + 1, a.shape()));
    }

    #[test]
    fn a_slice_and_its_offset_reach_the_same_elements(a in walks(), keep in 0u32..64, index in 0i64..1_000_000) {
        prop_assume!(!a.shape().is_int());
        let at: Vec<i64> = (0..a.rank()).map(|mode| index % a.extent(mode)).collect();
        let coord = |fill: i64| {
            let parts: Vec<IntTuple> = (0..a.rank())
                .map(|mode| match (keep >> mode & 1, fill) {
                    (0, _) => IntTuple::int(at[mode]),
                    (_, -1) => IntTuple::any(),
                    (_, fill) => IntTuple::int(fill % a.extent(mode)),
                })
                .collect();
            IntTuple::tuple(&parts)
        };
        let (part, offset) = slice_and_offset(a, coord(-1));
        let kept: i64 = (0..a.rank()).filter(|mode| keep >> mode & 1 == 1).map(|mode| a.extent(mode)).product();
        prop_assert_eq!(part.size(), kept);
        prop_assert_eq!(offset, crd2idx(a, coord(0)));
        prop_assert_eq!(dice(a, coord(-1)).size() * part.size(), a.size());
    }

    #[test]
    fn shape_division_rounds_up(a in shape(), by in 1i64..40) {
        let rounded = ceil_div(a, IntTuple::int(by));
        prop_assert!(congruent(a, rounded));
        if let Ok(exact) = try_shape_div(a, IntTuple::int(by)) {
            prop_assert_eq!(exact, rounded);
            prop_assert_eq!(exact.size(), (a.size() + by - 1) / by);
        }
    }

    #[test]
    fn edits_do_what_they_say(a in layouts(), b in layouts(), at in 0usize..4) {
        prop_assume!(!a.shape().is_int());
        let at = at % (a.rank() + 1);
        let longer = a.insert(at, b);
        prop_assert_eq!(longer.mode(at), b);
        prop_assert_eq!(longer.remove(at), a);
        prop_assert_eq!(a.append(b), a.insert(a.rank(), b));
        prop_assert_eq!(a.prepend(b), a.insert(0, b));
        let grouped = a.group(0, at);
        prop_assert_eq!(grouped.flatten(), a.flatten());
        prop_assert_eq!(grouped.rank(), a.rank() - at + 1);
        prop_assert_eq!(a.transpose().transpose(), a);
        prop_assert_eq!(a.take(0, at).rank() + a.take(at, a.rank()).rank(), a.rank());
        prop_assert_eq!(a.shape().flatten().unflatten(a.shape()), a.shape());
    }

    #[test]
    fn edits_keep_each_mode_in_its_place(a in layouts(), b in layouts(), to in 0usize..5, picks in prop::collection::vec(0usize..3, 0..5)) {
        prop_assume!(!a.shape().is_int());
        let rank = a.rank();
        let transposed = a.transpose();
        let padded = [a.append_dim(to), a.prepend_dim(to)];
        for m in 0..rank {
            prop_assert_eq!(transposed.mode(rank - 1 - m), a.mode(m));
            prop_assert_eq!(padded[0].mode(m), a.mode(m));
            prop_assert_eq!(padded[1].mode(padded[1].rank() - rank + m), a.mode(m));
            prop_assert_eq!(a.replace(m, b).mode(m), b);
            prop_assert_eq!(a.replace(m, b).remove(m), a.remove(m));
        }
        for one in [padded[0].take(rank, padded[0].rank()), padded[1].take(0, padded[1].rank() - rank)] {
            prop_assert_eq!((one.size(), one.cosize()), (1, 1));
        }
        let picks: Vec<usize> = picks.into_iter().map(|pick| pick % rank).collect();
        let selected = a.select(&picks);
        prop_assert_eq!(selected.rank(), picks.len());
        for (m, pick) in picks.iter().enumerate() {
            prop_assert_eq!(selected.mode(m), a.mode(*pick));
        }
        prop_assert_eq!(Layout::concat(&modes(&a)), a);
    }

    #[test]
    fn the_index_is_the_inner_product_of_coordinate_and_stride(a in layouts(), index in 0i64..1_000_000) {
        let coord = idx2crd(index % a.size(), a.shape());
        prop_assert_eq!(inner_product(coord, a.stride()), crd2idx(a, coord));
        prop_assert_eq!(inner_product(coord, prefix_product(a.shape())), index % a.size());
        let compact = make_col_major(a.shape());
        prop_assert_eq!(idx2crd_strided(index % a.size(), compact.shape(), prefix_product(a.shape())), coord);
    }

    #[test]
    fn tuples_of_one_profile_compare_leaf_by_leaf(
        shape in shape(), left in prop::collection::vec(0i64..4, 32), right in prop::collection::vec(0i64..4, 32)
    ) {
        let of = |values: &[i64]| match shape.is_int() {
            true => IntTuple::int(values[0]),
            false => IntTuple::flat(&values[..shape.leaves()]).unflatten(shape),
        };
        let (left, right) = (&left[..shape.leaves()], &right[..shape.leaves()]);
        let (a, b) = (of(left), of(right));
        // Each element is less than its counterpart, none equal to it: inside a shape, not on its
        // edge.
        prop_assert_eq!(elem_less(a, b), left.iter().zip(right).all(|(a, b)| a < b), "{} {}", a, b);
        prop_assert!(!elem_less(a, a), "{} is not below itself", a);
        // The first difference decides, from the front and from the back.
        prop_assert_eq!(lex_less(a, b), left < right, "{} {}", a, b);
        prop_assert_eq!(colex_less(a, b), left.iter().rev().lt(right.iter().rev()), "{} {}", a, b);
    }

    #[test]
    fn nested_coordinates_are_the_same_whatever_form_the_layout_has(
        (layout, tile) in (nested(), (1i64..7, 1i64..7))
    ) {
        let tile = strided(tile.0, tile.1);
        for i in 0..checked(&layout).min(99) {
            // `along` returns the parts of what `coordinate_of` returns.
            let whole = coordinate_of(layout, IntTuple::int(i));
            let parts = places(&layout, i);
            let shown: Vec<i64> = parts.iter().copied().filter(|part| *part != 0).collect();
            let held: Vec<i64> =
                (0..whole.leaves()).filter_map(|leaf| match whole.leaf(leaf) {
                    Leaf::Int(value) if value != 0 => Some(value),
                    _ => None,
                }).collect();
            prop_assert_eq!(shown, held, "{} at {}", layout, i);
            prop_assert_eq!(places(&coalesce(layout), i), parts, "{} coalesced", layout);
        }
        let filtered = filter(layout);
        let image = |layout: &Layout| (0..layout.size()).map(|i| places(layout, i)).collect::<BTreeSet<_>>();
        if layout.size() <= VALUES {
            prop_assert_eq!(image(&filtered), image(&layout), "{} filtered", layout);
        }
        let stride = filtered.stride();
        prop_assert!(
            filtered.size() == 1 || (0..stride.leaves()).all(|i| stride.leaf(i) != Leaf::Int(0)), "{}", filtered
        );
        prop_assert_eq!(coalesce(filtered).leaves(), filtered.leaves(), "{} cannot be shortened", filtered);
        if let Ok(after) = try_composition(layout, tile) {
            for i in 0..checked(&tile).min(99) {
                prop_assert_eq!(places(&after, i), places(&layout, tile.at(i)), "{} after {}", layout, tile);
            }
        }
        let of_indices = try_logical_divide(strided(layout.size(), 1), tile.tiler());
        if let (Ok(divided), Ok(indices)) = (try_logical_divide(layout, tile.tiler()), of_indices) {
            for i in 0..checked(&divided).min(99) {
                prop_assert_eq!(places(&divided, i), places(&layout, indices.at(i)), "{} by {}", layout, tile);
            }
        }
    }

    #[test]
    fn relations_of_shapes_are_orders(a in shape(), b in shape(), c in shape()) {
        for of in [compatible, weakly_compatible, congruent, weakly_congruent] {
            prop_assert!(of(a, a), "{} to itself", a);
            prop_assert!(!(of(a, b) && of(b, c)) || of(a, c), "{} {} {}", a, b, c);
        }
        prop_assert_eq!(congruent(a, b), weakly_congruent(a, b) && weakly_congruent(b, a));
        prop_assert!(!compatible(a, b) || (a.size() == b.size() && weakly_congruent(a, b)));
        prop_assert!(compatible(IntTuple::int(a.size()), a) && compatible(product_each(a), a));
    }
}

#[test]
fn a_tuple_is_mapped_and_folded_leaf_by_leaf() {
    let shape = tuple!((4, (2, 3), 5));
    assert_eq!(shape.transform(|extent| 2 * extent), tuple!((8, (4, 6), 10)));
    assert_eq!(
        tuple!((1, _, 2@1, 3@0)).transform(|value| value - 2),
        tuple!((-1, _, 0, 1@0)),
        "of value 0 no basis is left"
    );
    let order = shape.fold(String::new(), |text, leaf| format!("{text}{leaf:?} "));
    assert_eq!(order, "Int(4) Int(2) Int(3) Int(5) ");
    assert_eq!(
        shape.fold(1, |product, leaf| if let Leaf::Int(extent) = leaf { product * extent } else { 0 }),
        shape.size()
    );
}

#[test]
fn a_tuple_is_transformed_and_folded_in_a_const_as_at_run_time() {
    const SHAPE: IntTuple = tuple!((4, (_, 3@1), 1@0));
    const LESS: IntTuple = transform!(SHAPE, |value| value - 1);
    assert_eq!(LESS, tuple!((3, (_, 2@1), 0)), "of value 0 no basis is left");
    assert_eq!(LESS, SHAPE.transform(|value| value - 1));
    const SUM: IntTuple = transform!(tuple!((4, (2, 3))), tuple!((1, (5, 1))), |a, b| a + 10 * b);
    assert_eq!(SUM, tuple!((14, (52, 13))));
    assert_eq!(tuple!((4, (2, 3))).try_transform_with(&tuple!((1, (5, 1))), |a, b| a + 10 * b), Ok(SUM));
    const INTEGERS: i64 =
        fold!(SHAPE, 0, |count, leaf| if let Leaf::Int(_) = leaf { count + 1 } else { count });
    assert_eq!(INTEGERS, 1);
    let apart = tuple!((4, 2)).try_transform_with(&tuple!((4, (2, 3))), |a, b| a + b).unwrap_err();
    assert!(
        apart.text().starts_with("transform((4,2), (4,(2,3))): ")
            && apart.text().contains("nest differently"),
        "{apart}"
    );
    let open = tuple!((4, 2)).try_transform_with(&SHAPE.take(0, 2), |a, b| a + b).unwrap_err();
    assert!(open.text().contains("nest differently"), "{open}");
    assert!(
        tuple!(4)
            .try_transform_with(&tuple!(_), |a, b| a + b)
            .unwrap_err()
            .text()
            .contains("an integer is needed")
    );
}

#[test]
fn tuples_compare_where_their_leaves_are_on_one_line() {
    for less in [colex_less, lex_less] {
        assert!(less(tuple!(2@1), tuple!(3@1)) && !less(tuple!(3@1), tuple!(2@1)));
        assert!(less(tuple!(0), tuple!(3@1)) && less(tuple!(-1@2), tuple!(0)), "0 is on every line");
        assert!(less(tuple!((1@0, 2@1)), tuple!((1@0, 3@1))));
        for (a, b) in [
            (tuple!(2@0), tuple!(3@1)),
            (tuple!(2), tuple!(3@1)),
            (tuple!(2@1), tuple!(3)),
            (tuple!(_), tuple!(3)),
            (tuple!(_), tuple!(_)),
            (tuple!(0), tuple!(_)),
            (tuple!((1, 2)), tuple!(3)),
            (tuple!((1@0, 5)), tuple!((1@1, 5))),
        ] {
            assert!(!less(a, b) && !less(b, a), "{a} and {b} do not compare");
        }
    }
    // Elements that do not compare count only where they decide.
    assert!(colex_less(tuple!((1@0, 1)), tuple!((1@1, 2))) && !lex_less(tuple!((1@0, 1)), tuple!((1@1, 2))));
    assert!(!elem_less(tuple!(2@1), tuple!(3@1)), "what is not an integer is within no shape");
}

proptest! {
    #![proptest_config(config(5_000))]

    #[test]
    fn orders_of_tuples_are_orders(a in flat_tuple(), b in flat_tuple(), c in flat_tuple()) {
        for less in [colex_less, lex_less] {
            prop_assert!(!less(a, a));
            prop_assert!(!(less(a, b) && less(b, a)), "{} {}", a, b);
            prop_assert!(!(less(a, b) && less(b, c)) || less(a, c) || !less(c, a), "{} {} {}", a, b, c);
        }
        let integers = |tuple: IntTuple| -> Option<Vec<i64>> {
            (0..tuple.leaves()).map(|leaf| match tuple.leaf(leaf) { Leaf::Int(value) => Some(value), _ => None }).collect()
        };
        if let (Some(left), Some(right)) = (integers(a), integers(b)) {
            prop_assert_eq!(lex_less(a, b), left < right);
            prop_assert_eq!(colex_less(a, b), left.iter().rev().lt(right.iter().rev()));
        }
    }
}

/// Flat tuples of up to three integers, some along basis vectors.
fn flat_tuple() -> impl Strategy<Value = IntTuple> {
    let leaf = prop_oneof![
        4 => (-2i64..3).prop_map(IntTuple::int),
        1 => (-2i64..3, 0usize..2).prop_map(|(value, basis)| IntTuple::scaled(value, basis)),
    ];
    prop::collection::vec(leaf, 0..=3).prop_map(|leaves| IntTuple::tuple(&leaves))
}

/// The modes that the strides of [`nested`] are along, in the order of the coordinate's integers.
const PLACES: [&[usize]; 5] = [&[0], &[1, 0], &[1, 1, 0], &[1, 1, 1], &[2, 0]];

/// Layouts of nested coordinates.
fn nested() -> impl Strategy<Value = Layout> {
    (even_shape(), prop::collection::vec((0i64..4, 0..PLACES.len()), 32)).prop_map(|(shape, strides)| {
        let leaf = |leaf: usize| {
            let (value, place) = strides[leaf];
            IntTuple::along(value, Basis::new(PLACES[place]))
        };
        let stride = match shape.is_int() {
            true => leaf(0),
            false => {
                let leaves: Vec<IntTuple> = (0..shape.leaves()).map(leaf).collect();
                IntTuple::tuple(&leaves).unflatten(shape)
            }
        };
        Layout::new(shape, stride)
    })
}

/// The integer at each of these modes.
fn places(layout: &Layout, index: i64) -> Vec<i64> {
    PLACES
        .iter()
        .map(|path| path.iter().fold(*layout, |layout, &element| layout.along(element)).at(index))
        .collect()
}

#[test]
fn a_place_is_an_integer_or_a_tuple() {
    let a = layout!(((2, 3), 5):((1, 10), 100));
    let error = try_composition(a, layout!((2, 2):(1@0@0, 1@0))).unwrap_err();
    assert!(
        error
            .text()
            .ends_with("both an integer and a tuple; it must be one or the other, for all strides along it"),
        "{error}"
    );
    assert_eq!(composition(a, layout!((2, 2):(1@0@0, 1@1@0))), layout!((2, 2):(1, 10)));
    // No mode can be selected inside an integer mode.
    let error = try_composition(layout!((4, 5):(1, 100)), layout!((2, 2):(1@0@0, 3@0))).unwrap_err();
    assert!(error.text().ends_with("it must be one or the other, for all strides along it"), "{error}");
    assert!(try_composition_tiler(layout!((4, ((2, 3), 5))), tiler!((4, (2, 2):(1@0@0, 1@0)))).is_err());
    assert_eq!(tuple!(0@1), "0@1".parse().unwrap(), "a value of 0 is along nothing");
    assert_eq!(tuple!((0@1, 2@0, _)).to_string(), "(0,2@0,_)");
}
