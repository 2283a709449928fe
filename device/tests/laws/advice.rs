//! What is advised of the first operand: followed, the operation has an answer.

use super::strategies::*;
use moye_device::layout::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(config(5_000))]

    #[test]
    fn what_a_complement_advises_is_accepted(a in crossing(), cotarget in 1i64..5000) {
        follow_advice(&a, |a| try_complement(a, cotarget))?;
    }

    #[test]
    fn what_a_left_inverse_advises_is_accepted(a in crossing()) {
        follow_advice(&a, try_left_inverse)?;
    }

    #[test]
    fn what_a_product_advises_of_its_block_is_accepted(
        a in crossing(), more in bijection(even_shape()), tiler in any_layout(), modes in (2i64..9, 1i64..9)
    ) {
        follow_advice(&a, |a| try_logical_product(a, tiler.tiler()))?;
        follow_advice(&a, |a| try_blocked_product(a, tiler))?;
        follow_advice(&a, |a| try_raked_product(a, tiler))?;
        // Of one mode of two: the other keeps its own answer.
        let by_mode = Tiler::by_mode(&[IntTuple::int(modes.0).tiler(), IntTuple::int(modes.1).tiler()]);
        follow_advice(&a, |a| try_logical_product(Layout::concat(&[a, more]), by_mode))?;
        follow_advice(&a, |a| try_logical_product(Layout::concat(&[more, a]), by_mode))?;
    }
}

/// Layouts of which many overlap, in one mode or in several, or have gaps that no stride divides.
fn crossing() -> impl Strategy<Value = Layout> {
    prop_oneof![2 => blocks(), 1 => any_layout()]
}

/// Where `of(a)` is refused for a stride of `a`, it is not with those that are advised.
fn follow_advice(
    a: &Layout,
    of: impl Fn(Layout) -> Result<Layout, LayoutError>,
) -> Result<(), TestCaseError> {
    let Err(error) = of(*a) else { return Ok(()) };
    let Some(reason) = error.reason() else { return Ok(()) };
    // What is said of the second operand, and of a complement, is followed elsewhere.
    let of_first =
        ["overlaps the modes of smaller stride", "so that no digit of an index", "that do not meet reach"];
    if reason.contains("of the tiler") || !of_first.iter().any(|said| reason.contains(said)) {
        return Ok(());
    }
    let said = reason.split_once("he mode of stride ").or_else(|| reason.split_once("he stride "));
    let Some(stride) = said.and_then(|(_, rest)| rest.split(' ').next()?.parse::<i64>().ok()) else {
        return Ok(());
    };
    let advice = reason.rsplit_once("; ").map_or("", |(_, advice)| advice);
    if advice.starts_with("strides that nest") {
        let nested = nested(a);
        prop_assert!(of(nested).is_ok(), "{}, but {} is refused", error, nested);
        return Ok(());
    }
    if !advice.starts_with("a stride of ") {
        prop_assert!(!advice.contains("would do"), "{}", error);
        return Ok(());
    }
    let mut numbers: Vec<i64> =
        advice.split(|letter: char| !letter.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    if advice.contains("or a larger multiple of ") {
        let (least, step) = (numbers[0], numbers[1]);
        numbers = (0..5).map(|more| least + more * step).collect();
    }
    for number in numbers {
        let fits = instead(a, stride, number).any(|other| of(other).is_ok());
        prop_assert!(fits, "{} advises {}, but no mode of stride {} takes it", error, number, stride);
    }
    Ok(())
}

/// `a` with the stride `to` for one of its modes of stride `stride`, for each of them.
fn instead(a: &Layout, stride: i64, to: i64) -> impl Iterator<Item = Layout> {
    let (shape, modes) = (a.shape(), leaves(a));
    let strides: Vec<i64> = modes.iter().map(|(_, stride)| *stride).collect();
    (0..modes.len()).filter(move |&leaf| modes[leaf].0 > 1 && modes[leaf].1 == stride).map(move |leaf| {
        let mut strides = strides.clone();
        strides[leaf] = to;
        with_strides(shape, &strides)
    })
}

/// `a` with strides in the same order, each the reach of those before it.
fn nested(a: &Layout) -> Layout {
    let modes = leaves(a);
    let mut order: Vec<usize> =
        (0..modes.len()).filter(|&leaf| modes[leaf].0 > 1 && modes[leaf].1 != 0).collect();
    order.sort_by_key(|&leaf| modes[leaf].1);
    let mut strides: Vec<i64> = modes.iter().map(|(_, stride)| *stride).collect();
    let mut reach = 1;
    for leaf in order {
        strides[leaf] = reach;
        reach *= modes[leaf].0;
    }
    with_strides(a.shape(), &strides)
}
