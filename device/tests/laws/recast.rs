//! The same memory with elements of another size.

use super::strategies::*;
use moye_device::layout::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(config(5_000))]

    #[test]
    fn an_upcast_undoes_a_downcast(a in layouts(), count in 1i64..9) {
        if let Ok(parts) = try_downcast(a, count) {
            prop_assert!(congruent(parts.shape(), a.shape()));
            for ((extent, stride), before) in leaves(&parts).into_iter().zip(leaves(&a)) {
                prop_assert_eq!(upcast(strided(extent, stride), count), strided(before.0, before.1), "{}", parts);
            }
            // As a whole too, unless extents of 1 at stride 1 repeat the parts.
            let units = leaves(&a).iter().filter(|leaf| leaf.1 == 1).count();
            if units <= 1 || a.leaves() == 1 {
                prop_assert_eq!(try_upcast(parts, count), Ok(a), "{}", parts);
            }
        }
    }

    #[test]
    fn a_downcast_has_the_parts_of_each_element(a in layouts(), count in 2i64..9) {
        let leaves: Vec<(i64, i64)> = leaves(&a);
        let units = leaves.iter().filter(|leaf| leaf.1 == 1).count();
        let ones = leaves.iter().filter(|leaf| **leaf == (1, 1)).count();
        let parts = match try_downcast(a, count) {
            Ok(parts) => parts,
            Err(error) => {
                prop_assert_eq!(units, 0, "{}", error);
                return Ok(());
            }
        };
        prop_assert!(units > 0, "{} by {} is {}", a, count, parts);
        // Each extent of 1 at stride 1 beside another mode of stride 1 repeats the parts, as in
        // CuTe.
        let repeats = ones - usize::from(ones == units);
        prop_assert_eq!(parts.size(), a.size() * count * count.pow(repeats as u32), "{} by {} is {}", a, count, parts);
        prop_assume!(repeats == 0 && a.size() <= VALUES);
        let sorted = |mut values: Vec<i64>| { values.sort_unstable(); values };
        let expected = (0..a.size()).flat_map(|i| (0..count).map(move |part| a.at(i) * count + part)).collect();
        prop_assert_eq!(sorted(values(&parts)), sorted(expected), "{} by {} is {}", a, count, parts);
    }

    #[test]
    fn a_recast_is_an_upcast_and_a_downcast(a in layouts(), from in 0u32..8, to in 0u32..8) {
        let (from, to) = (1i64 << from, 1i64 << to);
        let expected = if to >= from { try_upcast(a, to / from) } else { try_downcast(a, from / to) };
        prop_assert_eq!(try_recast(a, from, to).ok(), expected.ok());
    }

    #[test]
    fn a_recast_by_any_ratio_has_the_elements_that_are_touched(
        a in prop_oneof![ordered_layout(shape()), bijection(shape()), layouts()], from in 0usize..7, to in 0usize..7,
    ) {
        const BITS: [i64; 7] = [4, 6, 8, 12, 16, 24, 32];
        let (from, to) = (BITS[from], BITS[to]);
        // Other ratios reduce to `upcast` and `downcast`.
        prop_assume!(from % to != 0 && to % from != 0 && a.size() <= VALUES);
        let Ok(result) = try_recast(a, from, to) else { return Ok(()) };
        prop_assert_eq!(result.size() * to, a.size() * from, "{} from {} to {} bits is {}", a, from, to, result);
        prop_assume!(is_injective(&a));
        let bits = |layout: &Layout, size: i64| {
            let mut bits: Vec<i64> = values(layout).iter().flat_map(|at| at * size..(at + 1) * size).collect();
            bits.sort_unstable();
            bits
        };
        prop_assert_eq!(bits(&result, to), bits(&a, from), "{} from {} to {} bits is {}", a, from, to, result);
    }

    #[test]
    fn an_upcast_has_the_elements_that_are_touched(a in layouts(), count in 1i64..13) {
        prop_assume!(a.size() <= VALUES);
        let sorted = |mut values: Vec<i64>| { values.sort_unstable(); values.dedup(); values };
        let touched = values(&a).iter().map(|index| index / count).collect();
        match try_upcast(a, count) {
            Ok(wide) => prop_assert_eq!(sorted(values(&wide)), sorted(touched), "{} by {} is {}", a, count, wide),
            // Refused only if some elements are not the sum of what each mode visits alone.
            Err(error) => {
                let aligned = leaves(&a).iter().all(|&(_, stride)| stride == 0 || stride % count == 0 || count % stride == 0);
                let apart = |i: i64| {
                    let mut rest = i;
                    leaves(&a).iter().map(|&(extent, stride)| {
                        let digit = rest % extent;
                        rest /= extent;
                        digit * stride / count
                    }).sum::<i64>()
                };
                prop_assert!(!aligned || (0..a.size()).any(|i| apart(i) != a.at(i) / count), "{}", error);
            }
        }
    }

    #[test]
    fn strides_that_run_backwards_within_an_element_are_refused(extent in 2i64..9, stride in 1i64..9, count in 2i64..9) {
        let backwards = strided(extent, -stride);
        if stride == 1 {
            let error = try_downcast(backwards, count).unwrap_err();
            prop_assert!(error.text().contains("backwards"), "{error}");
        }
        match try_upcast(backwards, count) {
            Ok(wide) => {
                prop_assert_eq!(stride % count, 0);
                for i in 0..extent {
                    prop_assert_eq!(wide.at(i), backwards.at(i).div_euclid(count));
                }
            }
            Err(_) => prop_assert!(stride % count != 0),
        }
    }
}
