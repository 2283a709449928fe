//! Composition: one layout after another.

use super::strategies::*;
use moye_device::layout::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(config(5_000))]

    #[test]
    fn what_is_said_of_a_mode_is_true_of_it_alone(a in walks(), b in walks()) {
        let Err(error) = try_composition(a, b) else { return Ok(()) };
        let reason = &error.text()[format!("composition({a}, {b}): ").len().min(error.text().len())..];
        let mode = reason.strip_prefix("mode ").and_then(|rest| rest.split_once(" of the second layout, "));
        match mode.and_then(|(_, rest)| rest.split_once(": ")) {
            Some((mode, _)) => prop_assert!(try_composition(a, mode.parse().unwrap()).is_err(), "{error}"),
            None if reason.contains("no layout has the function") => prop_assert!(b.shape().is_int(), "{error}"),
            None => {}
        }
    }

    #[test]
    fn composition_is_one_layout_after_the_other(a in walks(), b in walks()) {
        if let Ok(result) = try_composition(a, b) {
            check_composition(a, b, result)?;
        }
    }

    #[test]
    fn a_composition_is_refused_only_where_no_layout_has_the_function(a in walks(), b in layouts()) {
        prop_assume!(b.size() <= 512);
        if let Err(error) = try_composition(a, b) {
            // The candidate: leaf by leaf, the only flat layout with the leaf's values, if there is
            // one.
            prop_assert_eq!(error.kind(), LayoutErrorKind::Divisibility, "{}", error);
            prop_assert!(!is_representable(&a, &b), "{} o {} is refused, but a layout has the function: {}", a, b, error);
        }
    }

    #[test]
    fn what_a_composition_advises_is_accepted(a in layouts(), count in 2i64..40, step in 1i64..40) {
        let Err(error) = try_composition(a, strided(count, step)) else { return Ok(()) };
        let advice = error.text().rsplit_once("; ").map_or("", |(_, advice)| advice);
        let numbers: Vec<i64> = advice
            .split(|letter: char| !letter.is_ascii_digit())
            .filter_map(|word| word.parse().ok())
            .collect();
        let mut asked: Vec<(i64, i64)> = Vec::new();
        if advice.starts_with("a stride ") {
            asked.extend(numbers.iter().map(|stride| (count, *stride)));
            if advice.contains("multiple") {
                asked.extend((1..9).map(|times| (count, numbers[numbers.len() - 1] * times)));
            }
        } else if advice.starts_with("an extent of ") {
            asked.push((numbers[0], step));
            if advice.contains("at most") {
                asked.extend((1..numbers[0]).map(|extent| (extent, step)));
            }
            if advice.contains("multiple") {
                asked.extend((1..9).map(|times| (numbers[0] * times, step)));
            }
        }
        // No step of an extent above 1 is refused without advice if there is something to advise.
        let found = (1..65).find(|&other| try_composition(a, strided(count, other)).is_ok());
        prop_assert!(found.is_none() || !asked.is_empty(), "{} advises nothing, and {}:{:?} has an answer", error, count, found);
        for (count, step) in asked {
            if let Err(refused) = try_composition(a, strided(count, step)) {
                prop_assert!(false, "{} advises {}:{}, but {}", error, count, step, refused);
            }
        }
    }

    #[test]
    fn what_is_advised_of_steps_through_coordinates_is_accepted(shape in shape(), count in 2i64..20, step in 1i64..40) {
        let a = identity_layout(shape);
        let Err(error) = try_composition(a, strided(count, step)) else { return Ok(()) };
        let advice = error.text().rsplit_once("; ").map_or("", |(_, advice)| advice);
        let numbers: Vec<i64> =
            advice.split(|letter: char| !letter.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
        prop_assert!(!numbers.is_empty(), "{}", error);
        for number in numbers {
            let other = if advice.starts_with("a stride ") { strided(count, number) } else { strided(number, step) };
            prop_assert!(try_composition(a, other).is_ok(), "{}, but not {}", error, other);
        }
    }

    #[test]
    fn what_is_advised_of_one_mode_of_several_is_accepted(
        a in layouts(), more in layouts(), modes in prop::collection::vec((2i64..9, 1i64..24), 2..4)
    ) {
        let flat = |modes: &[(i64, i64)]| {
            Layout::new(tuple_of(modes, |mode| mode.0), tuple_of(modes, |mode| mode.1))
        };
        let by_mode =
            |modes: &[(i64, i64)]| Tiler::by_mode(&[flat(&modes[..1]).mode(0).tiler(), flat(&modes[1..]).mode(0).tiler()]);
        let pair = Layout::concat(&[a, more]);
        follow_advice(&modes, |modes| try_composition(a, flat(modes)))?;
        follow_advice(&modes, |modes| try_composition_tiler(a, flat(modes).tiler()))?;
        follow_advice(&modes[..2], |modes| try_composition_tiler(pair, by_mode(modes)))?;
        follow_advice(&modes, |modes| try_logical_product(a, flat(modes).tiler()))?;
        follow_advice(&modes[..2], |modes| try_logical_product(pair, by_mode(modes)))?;
        follow_advice(&modes, |modes| try_blocked_product(a, flat(modes)))?;
        follow_advice(&modes, |modes| try_raked_product(a, flat(modes)))?;
    }

    #[test]
    fn a_composition_by_mode_is_one_of_each_mode(a in walks(), tiler in tiler_modes()) {
        prop_assume!(!a.shape().is_int());
        let tiler = &tiler[..tiler.len().min(a.rank())];
        // What a mode of the tiler selects of a mode of the layout; the wildcard selects all.
        let parts: Vec<(Layout, Option<Layout>)> =
            tiler.iter().enumerate().map(|(m, tile)| (a.mode(m), tile.and_then(|tile| tile.as_layout()))).collect();
        match try_composition_tiler(a, tiler_of(tiler)) {
            Ok(result) => {
                prop_assert_eq!(result.rank(), parts.len(), "modes beyond the tiler are left out");
                for (m, (mode, tile)) in parts.iter().enumerate() {
                    match tile {
                        Some(tile) => check_composition(*mode, *tile, result.mode(m))?,
                        None => prop_assert_eq!(result.mode(m), *mode),
                    }
                }
            }
            Err(error) => {
                let refused = |(mode, tile): &(Layout, Option<Layout>)| tile.is_some_and(|tile| try_composition(*mode, tile).is_err());
                prop_assert!(parts.iter().any(refused), "each mode of {} has its answer, and together: {}", a, error);
            }
        }
        // One mode more than there are is refused.
        let more = vec![Some(IntTuple::int(1).tiler()); a.rank() + 1];
        prop_assert!(try_composition_tiler(a, tiler_of(&more)).is_err());
    }

    #[test]
    fn coordinate_layouts_compose_as_their_coordinates_do(a in layouts(), b in ordered_layout(even_shape())) {
        // A layout after the coordinates of its own shape is itself.
        let identity = identity_layout(a.shape());
        let same = composition(a, identity);
        for i in 0..checked(&a) {
            prop_assert_eq!(same.at(i), a.at(i), "{} after {}", a, identity);
        }
        // So is what it visits, wherever the coordinates are those of its indices.
        if b.cosize() <= a.size()
            && let Ok(visited) = try_composition(identity, b)
        {
            match try_composition(a, visited) {
                Ok(result) => {
                    for i in 0..checked(&b) {
                        prop_assert_eq!(result.at(i), a.at(b.at(i)), "{} after {}", a, visited);
                    }
                }
                Err(error) => prop_assert_eq!(error.kind(), LayoutErrorKind::Divisibility, "{}", error),
            }
        }
        // The coordinates of what a layout visits are the coordinates of its indices.
        let flat = IntTuple::flat(&[b.cosize().max(4) / 4, 4]);
        if let Ok(visited) = try_composition(identity_layout(flat), b) {
            for i in 0..checked(&b) {
                let coord = idx2crd(b.at(i), flat);
                let expected = [coord.mode(0).value(), coord.mode(1).value()];
                prop_assert_eq!(visited.coordinate::<2>(i), expected, "{} of {}", visited, b);
                prop_assert_eq!([visited.along(0).at(i), visited.along(1).at(i)], expected);
            }
        }
    }
}

/// Where `of(modes)` is refused, it is not with the modes that are advised.
fn follow_advice(
    modes: &[(i64, i64)],
    of: impl Fn(&[(i64, i64)]) -> Result<Layout, LayoutError>,
) -> Result<(), TestCaseError> {
    let Err(error) = of(modes) else { return Ok(()) };
    let Some(reason) = error.reason() else { return Ok(()) };
    let Some((mode, _)) = reason.strip_prefix("mode ").and_then(|rest| rest.split_once(" of the ")) else {
        return Ok(());
    };
    let Ok(mode) = mode.parse::<usize>() else { return Ok(()) };
    let advice = reason.rsplit_once("; ").map_or("", |(_, advice)| advice);
    if reason.contains(" of the block") || !advice.ends_with(" would work") {
        return Ok(());
    }
    let numbers: Vec<i64> =
        advice.split(|letter: char| !letter.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    let (extent, stride) = modes[mode];
    let mut asked = Vec::new();
    if advice.starts_with("a stride ") {
        asked.extend(numbers.iter().map(|number| (extent, *number)));
        if advice.contains("multiple") {
            asked.push((extent, numbers[numbers.len() - 1] * 3));
        }
    } else if advice.starts_with("an extent of ") {
        asked.extend(numbers.iter().map(|number| (*number, stride)));
        if advice.contains("at most") {
            asked.extend((1..numbers[0]).map(|number| (number, stride)));
        }
        if advice.contains("multiple") {
            asked.push((numbers[0] * 3, stride));
        }
    } else if advice.starts_with("a mode of ") {
        asked.extend(numbers.chunks(2).map(|mode| (mode[0], mode[1])));
    }
    for instead in asked {
        let mut others = modes.to_vec();
        others[mode] = instead;
        if let Err(refused) = of(&others) {
            prop_assert!(false, "{} advises {:?}, but {}", error, instead, refused);
        }
    }
    Ok(())
}

/// Whether a layout of the shape of `b`, its integers split into flat tuples, has the function
/// `a(b(i))`: built leaf by leaf from values alone.
fn is_representable(a: &Layout, b: &Layout) -> bool {
    let (shape, stride) = (b.shape().flatten(), b.stride().flatten());
    let ints = |tuple: &IntTuple, i| match tuple.leaf(i) {
        Leaf::Int(value) => value,
        other => panic!("{other:?}"),
    };
    let mut modes: Vec<(i64, i64)> = Vec::new();
    for leaf in 0..shape.leaves() {
        let (count, step) = (ints(&shape, leaf), ints(&stride, leaf));
        let f = |i: i64| a.at(step * i);
        let (mut scale, mut rest) = (1, count);
        while rest > 1 {
            let difference = f(scale);
            let run = (2..rest).find(|&i| f(scale * i) != difference * i).unwrap_or(rest);
            if rest % run != 0 {
                return false;
            }
            modes.push((run, difference));
            scale *= run;
            rest /= run;
        }
    }
    (0..b.size()).all(|i| {
        let (mut rest, mut sum) = (i, 0);
        for &(extent, stride) in &modes {
            sum += rest % extent * stride;
            rest /= extent;
        }
        sum == a.at(b.at(i))
    })
}
