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
            // Refused only where elements are torn apart.
            Err(error) => {
                let torn = |element: i64| (0..count).any(|i| moved(element * count + i) != moved(element * count));
                prop_assert!((0..1 << 6).any(torn), "{}", error);
            }
        }
    }

    #[test]
    fn a_swizzle_moved_past_a_layout_is_the_same_function(
        a in bijection(even_shape()), bits in 0i64..3, base in 0i64..3, shift in -4i64..4
    ) {
        prop_assume!(a.size() <= VALUES);
        let Ok(swizzle) = Swizzle::try_new(bits, base, shift) else { return Ok(()) };
        let inner = ComposedLayout::new(swizzle, 0, Layout::new(IntTuple::int(a.size()), tuple!(1)));
        if let Ok(moved) = try_composition_swizzled(a, inner) {
            for i in 0..a.size() {
                prop_assert_eq!(moved.at(i), a.at(swizzle.apply(i)), "{} of {} after {}", moved, a, inner);
            }
        }
    }
}
