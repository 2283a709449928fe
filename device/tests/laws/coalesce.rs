//! Layouts with fewer modes: coalesce, filter, and what they drop.

use super::strategies::*;
use moye_device::layout::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(config(5_000))]

    #[test]
    fn coalesce_keeps_the_function_and_cannot_be_shortened(a in walks()) {
        let result = coalesce(a);
        prop_assert_eq!(result.size(), a.size());
        for i in 0..checked(&a) {
            prop_assert_eq!(result.at(i), a.at(i), "{} at {}", result, i);
        }
        prop_assert!(result.depth() <= 1);
        let (shape, stride) = (result.shape(), result.stride());
        let leaf = |tuple: &IntTuple, i| match tuple.leaf(i) { Leaf::Int(value) => value, other => panic!("{other:?}") };
        for i in 1..result.leaves() {
            prop_assert!(leaf(&shape, i) != 1 && leaf(&shape, i - 1) != 1, "{result}");
            prop_assert!(leaf(&stride, i) != leaf(&shape, i - 1) * leaf(&stride, i - 1), "{result} can be shortened");
        }
    }

    #[test]
    fn filter_keeps_the_image(a in walks()) {
        let image = |layout: &Layout| {
            let mut values: Vec<i64> = (0..layout.size()).map(|i| layout.at(i)).collect();
            values.sort_unstable();
            values.dedup();
            values
        };
        prop_assume!(a.size() <= VALUES);
        let result = filter(a);
        prop_assert_eq!(image(&result), image(&a));
        let stride = result.stride();
        prop_assert!(result.size() == 1 || (0..stride.leaves()).all(|i| stride.leaf(i) != Leaf::Int(0)), "{result}");
    }

    #[test]
    fn the_nullspace_is_mapped_to_zero(a in walks()) {
        let null = nullspace(a);
        for i in 0..checked(&null) {
            prop_assert_eq!(a.at(null.at(i)), 0, "{} of {}", null, a);
        }
        prop_assert_eq!(null.size() * filter(a).size(), a.size());
    }

    #[test]
    fn by_profile_each_mode_is_coalesced_or_filtered_separately(a in walks(), count in 0usize..5) {
        // A leaf for the whole layout is the operation itself; a profile with too many modes is
        // refused.
        prop_assert_eq!(filter_profile(a, tuple!(1)), filter(a));
        prop_assert_eq!(coalesce_profile(a, tuple!(1)), coalesce(a));
        prop_assert!(try_filter_profile(a, profile_of(a.rank() + 1)).is_err());
        prop_assert!(try_coalesce_profile(a, profile_of(a.rank() + 1)).is_err());
        // An integer has no modes, so that the leaf is its one profile.
        prop_assume!(!a.shape().is_int());
        let count = count.min(a.rank());
        let (coalesced, filtered) =
            (coalesce_profile(a, profile_of(count)), filter_profile(a, profile_of(count)));
        prop_assert_eq!((coalesced.rank(), filtered.rank()), (a.rank(), a.rank()));
        for m in 0..a.rank() {
            let mode = a.mode(m);
            prop_assert_eq!(coalesced.mode(m), if m < count { coalesce(mode) } else { mode });
            prop_assert_eq!(filtered.mode(m), if m < count { filter(mode) } else { mode });
        }
    }

    #[test]
    fn filtered_zeros_keep_the_shape_of_all_else(a in layouts()) {
        let result = filter_zeros(a);
        prop_assert!(congruent(result.shape(), a.shape()));
        for (before, after) in leaves(&a).into_iter().zip(leaves(&result)) {
            prop_assert_eq!(after, if before.1 == 0 { (1, 0) } else { before });
        }
        prop_assert_eq!(result.size() * nullspace(a).size(), a.size());
    }

    #[test]
    fn another_shape_of_the_same_size_is_the_same_function(
        a in layouts(), cuts in prop::collection::vec(any::<bool>(), 8), turn in 0usize..8
    ) {
        let shape = reshaped(a.size(), &cuts, turn);
        if let Ok(result) = a.try_with_shape(shape) {
            prop_assert!(compatible(shape, result.shape()), "{} with {} is {}", a, shape, result);
            for i in 0..checked(&a) {
                prop_assert_eq!(result.at(i), a.at(i), "{} with {} is {}", a, shape, result);
            }
        } else {
            prop_assert!(try_composition(a, make_col_major(shape)).is_err());
        }
        prop_assert_eq!(a.with_shape(IntTuple::int(a.size())).size(), a.size(), "the size itself is a shape");
        let error = a.try_with_shape(IntTuple::int(a.size() + 1)).unwrap_err();
        prop_assert!(error.text().contains("differ"), "{}", error);
    }
}
