//! Complement, inverses, and the common layout of two layouts.

use super::strategies::*;
use moye_device::layout::*;
use proptest::prelude::*;
use std::collections::HashMap;

proptest! {
    #![proptest_config(config(5_000))]

    #[test]
    fn complement_is_ordered_disjoint_and_covers_the_cotarget(a in prop_oneof![layouts(), blocks()], cotarget in 1i64..5000) {
        let complement = try_complement(a, cotarget);
        // Overlapping modes are refused as such, whether or not their elements meet.
        let overlaps = matches!(&complement, Err(error) if error.text().contains(" overlaps the modes "));
        if let Ok(rest) = complement {
            let kept = filter(a);
            prop_assert!(rest.depth() <= 1);
            for i in 1..rest.size().min(VALUES) {
                prop_assert!(rest.at(i - 1) < rest.at(i), "{rest} is not ordered");
            }
            prop_assume!(kept.size() * rest.size() <= 20_000);
            let both = Layout::concat(&[kept, rest]);
            prop_assert!(is_injective(&both), "{both} meets itself");
            prop_assert!(both.cosize() >= cotarget, "{both} ends before {cotarget}");
            // It covers the range, unless no layout does.
            if let Some(missing) = first_missing(&values(&both), cotarget) {
                prop_assert!(!copies_cover(&sorted_values(&kept), cotarget), "{both} leaves out {missing}");
            }
        } else if !overlaps && filter(a).size() <= VALUES && is_injective(&filter(a)) {
            prop_assert!(!copies_cover(&sorted_values(&filter(a)), cotarget), "{a} has a complement below {cotarget}");
        }
    }

    #[test]
    fn the_complement_of_a_bijection_onto_a_box_covers_the_rest(a in bijection(even_shape()), times in 1i64..20) {
        let rest = complement(a, a.size() * times);
        prop_assert_eq!(rest.size(), times);
        let both = Layout::concat(&[a, rest]);
        prop_assert_eq!(both.cosize(), both.size(), "{}", both);
    }

    #[test]
    fn right_inverse_is_one(a in walks()) {
        let inverse = right_inverse(a);
        for i in 0..checked(&inverse) {
            prop_assert_eq!(a.at(inverse.at(i)), i, "{} of {}", inverse, a);
        }
    }

    #[test]
    fn a_bijection_has_both_inverses_whole(a in bijection(shape())) {
        let (right, left) = (right_inverse(a), left_inverse(a));
        prop_assert_eq!(right.size(), a.size());
        for i in 0..checked(&a) {
            prop_assert_eq!(a.at(right.at(i)), i);
            prop_assert_eq!(left.at(a.at(i)), i);
        }
    }

    #[test]
    fn left_inverse_is_one(a in walks()) {
        if let Ok(inverse) = try_left_inverse(a) {
            for i in 0..checked(&a) {
                prop_assert_eq!(a.at(inverse.at(a.at(i))), a.at(i), "{} of {}", inverse, a);
                if a.size() <= VALUES && is_injective(&a) {
                    prop_assert_eq!(inverse.at(a.at(i)), i, "{} of {}", inverse, a);
                }
            }
        }
    }

    #[test]
    fn the_common_layout_is_contiguous_in_both(a in walks(), b in walks()) {
        if let Ok(common) = try_max_common_layout(a, b) {
            for i in 0..checked(&common) {
                prop_assert_eq!(a.at(common.at(i)), i, "{} of {} and {}", common, a, b);
                prop_assert_eq!(b.at(common.at(i)), i, "{} of {} and {}", common, a, b);
            }
            prop_assert_eq!(max_common_vector(a, b), common.size());
        }
    }

    #[test]
    fn no_more_elements_are_next_to_one_another_in_both_than_the_common_layout_has(a in walks(), b in common_partner()) {
        prop_assume!(b.size() <= VALUES && is_injective(&b) && leaves(&b).iter().all(|(_, stride)| *stride >= 0));
        prop_assert_eq!(max_common_vector(a, b), common_by_search(&a, &b), "{} and {}", a, b);
    }

    #[test]
    fn nor_where_the_two_do_not_compose(
        a in any_layout(), shape in prop::collection::vec(2i64..7, 2..4), keys in prop::collection::vec(0i64..9, 4)
    ) {
        // A layout with the shape's own extents, which rarely fit the extents of `a`.
        let shape = IntTuple::flat(&shape);
        let b = make_ordered_layout(shape, IntTuple::flat(&keys[..shape.rank()]));
        prop_assert_eq!(max_common_vector(a, b), common_by_search(&a, &b), "{} and {}", a, b);
    }

    #[test]
    fn only_negative_strides_are_said_to_run_down(a in walks(), cotarget in 1i64..200) {
        let backwards = leaves(&a).iter().any(|(extent, stride)| *extent > 1 && *stride < 0);
        for answer in [try_complement(a, cotarget), try_left_inverse(a)] {
            let Err(error) = answer else {
                prop_assert!(!backwards, "{a} has an answer");
                continue;
            };
            prop_assert_eq!(error.text().contains(" runs down to -"), backwards, "{}", error);
        }
    }
}

/// Layouts with many contiguous elements.
fn common_partner() -> impl Strategy<Value = Layout> {
    prop_oneof![2 => bijection(shape()), 2 => bijection(even_shape()), 1 => walks()]
}

/// The number of elements that are contiguous in both: a search through all coordinates, as far as
/// they form a layout.
fn common_by_search(a: &Layout, b: &Layout) -> i64 {
    let places: HashMap<i64, i64> = (0..b.size()).map(|coord| (b.at(coord), coord)).collect();
    let mut coords = Vec::new();
    while let Some(&coord) = places.get(&(coords.len() as i64))
        && a.at(coord) == coords.len() as i64
    {
        coords.push(coord);
    }
    // The first of them whose values a layout has: each run of equal steps is as long as the first.
    let mut modes: Vec<(i64, i64)> = Vec::new();
    let mut size = 1;
    while size < coords.len() {
        let step = coords[size];
        let at = |index: usize| {
            let (mut rest, mut sum) = (index as i64, 0);
            for &(extent, stride) in &modes {
                sum += rest % extent * stride;
                rest /= extent;
            }
            sum + rest * step
        };
        let agree = (0..coords.len()).take_while(|&index| at(index) == coords[index]).count();
        let run = agree / size;
        if run < 2 {
            break;
        }
        modes.push((run as i64, step));
        size *= run;
    }
    size as i64
}

#[test]
fn common_layouts_of_any_length_are_found() {
    for (a, b, size) in [
        // Next to modes in which the two do not compose.
        ("(5000,7):(1,10000)", "(5000,3,5):(1,5000,20000)", 5000),
        ("(4,(1000000,3)):(3000001,(1,1000000))", "(4,1500000,2):(1500000,1,6000000)", 1_500_000),
        ("(1000003,2,5):(1,3000000,7)", "(4611686018427387,3):(1,4611686018427387)", 1_000_003),
        // Carries that cancel: multiples of 6 counted through 4 and 3, and multiples of 3 through
        // bits.
        ("(4,3,1000):(0,1,2)", "(6,1999):(2000,1)", 1999),
        ("(2,2,2,2):(0,1,1,3)", "(3,7):(100,1)", 6),
        // An index of the composition is too large.
        ("(2,3):(1,3000000000000000000)", "4611686018427387904:1", 2),
    ] {
        let (a, b): (Layout, Layout) = (a.parse().unwrap(), b.parse().unwrap());
        assert_eq!(max_common_vector(a, b), size, "{a} and {b}");
        let common = max_common_layout(a, b);
        for i in [0, 1, size / 2, size - 1] {
            assert_eq!((a.at(common.at(i)), b.at(common.at(i))), (i, i), "{common} of {a} and {b}");
        }
    }
}

#[test]
fn coordinates_have_no_elements_in_common_with_indices() {
    for (a, b) in [
        ("(2,2,2,2):(0,1@0,1@0,3@0)", "(3,6):(0,1)"),
        ("(3,6):(0,1)", "(2,2):(1@0,1@1)"),
        ("(2,2):(1@0,1@1)", "(2,2):(1@0,1@1)"),
    ] {
        let (a, b): (Layout, Layout) = (a.parse().unwrap(), b.parse().unwrap());
        for error in [try_max_common_vector(a, b).unwrap_err(), try_max_common_layout(a, b).unwrap_err()] {
            assert!(error.text().contains("`along(k)`"), "{error}");
        }
    }
}
