//! Swizzles, and layouts under them.

use super::strategies::*;
use moye_device::layout::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(config(5_000))]

    #[test]
    fn a_swizzle_is_its_own_inverse(bits in 0i64..6, base in 0i64..8, shift in -8i64..8, index in 0i64..1 << 40) {
        if let Ok(swizzle) = Swizzle::try_new(bits, base, shift) {
            prop_assert_eq!(swizzle.apply(swizzle.apply(index)), index);
            prop_assert_eq!(swizzle.apply(index) >> (bits + base + shift.abs()), index >> (bits + base + shift.abs()));
        } else {
            prop_assert!(shift.abs() < bits);
        }
    }

    #[test]
    fn a_recast_swizzled_layout_is_the_same_memory(
        log in 0u32..4, swizzle in prop::sample::select(vec![(3, 4, 3), (2, 4, 3), (1, 4, 3), (3, 3, 3), (0, 4, 3)])
    ) {
        let count = 1i64 << log;
        let bytes = ComposedLayout::new(Swizzle::new(swizzle.0, swizzle.1, swizzle.2), 0, layout!((8, 128):(128, 1)));
        let wide = bytes.upcast(count);
        prop_assert_eq!(wide.size() * count, bytes.size());
        if i64::from(log) <= swizzle.1 {
            for row in 0..8 {
                for column in 0..128 / count {
                    let expected = bytes.at_coord([row, column * count]) / count;
                    prop_assert_eq!(wide.at_coord([row, column]), expected);
                }
            }
            prop_assert_eq!(wide.downcast(count), bytes);
        }
    }

    #[test]
    fn an_upcast_swizzle_moves_whole_elements_alike(
        bits in 0i64..4, base in 0i64..4, shift in -5i64..=5, log in 0u32..10, index in 0i64..1 << 20
    ) {
        let Ok(swizzle) = Swizzle::try_new(bits, base, shift) else { return Ok(()) };
        let count = 1i64 << log;
        let moved = |index: i64| swizzle.apply(index) / count;
        match swizzle.try_upcast(count) {
            Ok(wide) => prop_assert_eq!(wide.apply(index / count), moved(index), "{} by {} is {}", swizzle, count, wide),
            // Refused only if elements are split.
            Err(error) => {
                let torn = |element: i64| (0..count).any(|i| moved(element * count + i) != moved(element * count));
                prop_assert!((0..1 << 6).any(torn), "{}", error);
            }
        }
    }

    #[test]
    fn two_swizzles_are_one_or_no_swizzle_does_both(second in swizzles(), first in swizzles()) {
        let both = |index: i64| second.apply(first.apply(index));
        match second.try_composition(first) {
            Ok(one) => for index in 0..1 << 13 {
                prop_assert_eq!(one.apply(index), both(index), "{} after {} is {}", second, first, one);
            },
            // Refused only if no swizzle of as many bits is the function.
            Err(error) => {
                let all = (0..=6).flat_map(|bits| (0..=9).flat_map(move |base| (-9..=9).map(move |shift| (bits, base, shift))));
                for (bits, base, shift) in all {
                    let Ok(one) = Swizzle::try_new(bits, base, shift) else { continue };
                    prop_assert!((0..1 << 13).any(|index| one.apply(index) != both(index)), "{error}, but {one} does both");
                }
            }
        }
    }

    #[test]
    fn a_swizzle_moved_past_a_layout_is_the_same_function(
        a in prop_oneof![bijection(even_shape()), ordered_layout(even_shape()), layouts()], swizzle in swizzles(),
        inner in inner_layout(), offset in prop_oneof![2 => Just(0i64), 1 => 0i64..64]
    ) {
        let Ok(inner) = ComposedLayout::try_new(swizzle, offset, inner) else { return Ok(()) };
        if let Ok(moved) = try_composition_swizzled(a, inner) {
            for i in 0..inner.size() {
                let expected = crd2idx(a, IntTuple::int(inner.at(i)));
                prop_assert_eq!(moved.at(i), expected, "{} of {} after {}", moved, a, inner);
            }
        }
    }

    #[test]
    fn a_swizzled_layout_after_another_is_the_same_function(
        a in composed(), swizzle in swizzles(), inner in inner_layout(), offset in prop_oneof![2 => Just(0i64), 1 => 0i64..64]
    ) {
        let Ok(inner) = ComposedLayout::try_new(swizzle, offset, inner) else { return Ok(()) };
        if let Ok(both) = a.try_composition_swizzled(inner) {
            for i in 0..inner.size() {
                prop_assert_eq!(both.at(i), a.crd2idx(IntTuple::int(inner.at(i))), "{} of {} after {}", both, a, inner);
            }
        }
        if let Ok(both) = swizzle.try_composition_swizzled(a) {
            for i in 0..checked(&a.layout) {
                prop_assert_eq!(both.at(i), swizzle.apply(a.at(i)), "{} of {} after {}", both, swizzle, a);
            }
        }
    }

    #[test]
    fn inverses_of_swizzled_layouts_are_inverses(a in composed()) {
        if let Ok(inverse) = a.try_right_inverse() {
            for i in 0..checked(&inverse.layout) {
                prop_assert_eq!(a.at(inverse.at(i)), i, "{} of {}", inverse, a);
            }
            prop_assert_eq!(inverse.size(), right_inverse(a.layout).size());
        }
        if let Ok(inverse) = a.try_left_inverse() {
            for i in 0..checked(&a.layout) {
                prop_assert_eq!(a.at(inverse.at(a.at(i))), a.at(i), "{} of {}", inverse, a);
                if a.layout.size() <= VALUES && is_injective(&a.layout) {
                    prop_assert_eq!(inverse.at(a.at(i)), i, "{} of {}", inverse, a);
                }
            }
        }
    }

    #[test]
    fn what_swizzled_layouts_have_in_common_is_in_the_same_order(
        a in composed(), b in composed(), same in any::<bool>(), plain in any::<bool>()
    ) {
        let b = match (same, plain) {
            (_, true) => ComposedLayout::plain(b.layout),
            (true, false) => ComposedLayout { swizzle: a.swizzle, offset: 0, layout: b.layout },
            (false, false) => b,
        };
        prop_assume!(ComposedLayout::try_new(b.swizzle, b.offset, b.layout).is_ok());
        let Ok(common) = a.try_max_common_layout(b) else { return Ok(()) };
        prop_assert_eq!(a.max_common_vector(b), common.size());
        if a.size() == b.size() {
            // Otherwise the first of the two counts as unbounded.
            prop_assert_eq!(b.max_common_vector(a), common.size());
        }
        prop_assert!(common.size() <= max_common_vector(a.layout, b.layout));
        let of = |layout: ComposedLayout| (0..checked(&common)).map(|i| layout.at(common.at(i)) - layout.at(0)).collect::<Vec<_>>();
        prop_assert_eq!(of(a), of(b), "{} of {} and {}", common, a, b);
        // Contiguous and in order; under one shared swizzle, which permutes the block, in any
        // order.
        let mut block = of(a);
        if a.swizzle == b.swizzle && common.size() <= VALUES {
            block.sort_unstable();
        } else if a.swizzle == b.swizzle {
            return Ok(());
        }
        prop_assert_eq!(block, (0..checked(&common)).collect::<Vec<_>>(), "{} of {} and {}", common, a, b);
    }

    #[test]
    fn shared_memory_atoms_are_the_swizzle_of_their_bytes(log in 0u32..8, row in 0usize..4, k in any::<bool>()) {
        let bits = 1i64 << log;
        let swizzle = [SwizzleBytes::None, SwizzleBytes::B32, SwizzleBytes::B64, SwizzleBytes::B128][row];
        let major = if k { Major::K } else { Major::Mn };
        let atom = shared_memory_atom(major, swizzle, bits);
        let length = swizzle.bytes() * 8 / bits;
        prop_assert_eq!(atom.shape(), if k { IntTuple::flat(&[8, length]) } else { IntTuple::flat(&[length, 8]) });
        for row in 0..8 {
            for column in 0..length {
                let at = atom.at_coord(if k { [row, column] } else { [column, row] }) * bits;
                // The byte of an element; the bits inside it stay.
                let plain = (row * length + column) * bits;
                prop_assert_eq!(at / 8, swizzle.of_bytes().apply(plain / 8));
                prop_assert_eq!(at % 8, plain % 8);
            }
        }
        prop_assert!(try_shared_memory_atom(major, swizzle, 3 * bits).is_err());
    }
}

pub fn swizzles() -> impl Strategy<Value = Swizzle> {
    (0i64..4, 0i64..4, -5i64..6).prop_filter_map("groups that overlap", |(bits, base, shift)| {
        Swizzle::try_new(bits, base, shift).ok()
    })
}

/// The inner of two layouts: all indices below a bound, in order or not.
pub fn inner_layout() -> impl Strategy<Value = Layout> {
    prop_oneof![
        (1i64..130).prop_map(|size| strided(size, 1)),
        ordered_layout(even_shape())
            .prop_filter("few", |layout| layout.size() <= VALUES && layout.cosize() < 1 << 20),
    ]
}

/// Swizzled layouts, most of which have inverses.
pub fn composed() -> impl Strategy<Value = ComposedLayout> {
    let layout = prop_oneof![4 => bijection(even_shape()), 2 => ordered_layout(even_shape()), 1 => bijection(shape()), 1 => layouts()];
    (swizzles(), prop_oneof![3 => Just(0i64), 1 => 0i64..64], layout)
        .prop_filter_map("too large", |(swizzle, offset, layout)| {
            ComposedLayout::try_new(swizzle, offset, layout).ok()
        })
}
