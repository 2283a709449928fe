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
            None if reason.contains("divide") || reason.contains("is not a multiple of") => prop_assert!(b.shape().is_int(), "{error}"),
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
            // The candidate: leaf by leaf, the only flat layout with the leaf's values, if one
            // exists.
            prop_assert_eq!(error.kind(), LayoutErrorKind::Divisibility, "{}", error);
            prop_assert!(!is_representable(&a, &b), "{} o {} is refused, but a layout has the function: {}", a, b, error);
        }
    }

    #[test]
    fn a_composition_by_mode_is_one_of_each_mode(a in walks(), tiler in tiler_modes()) {
        prop_assume!(!a.shape().is_int());
        let tiler = &tiler[..tiler.len().min(a.rank())];
        // The part of each mode of the layout that the tiler selects; the wildcard selects all.
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
        // Too many modes are refused.
        let more = vec![Some(IntTuple::int(1).tiler()); a.rank() + 1];
        prop_assert!(try_composition_tiler(a, tiler_of(&more)).is_err());
    }

    #[test]
    fn coordinate_layouts_compose_as_their_coordinates_do(a in layouts(), b in ordered_layout(even_shape())) {
        // Composing a layout with the identity layout of its shape returns the layout.
        let identity = identity_layout(a.shape());
        let same = composition(a, identity);
        for i in 0..checked(&a) {
            prop_assert_eq!(same.at(i), a.at(i), "{} after {}", a, identity);
        }
        // So is the layout of the visited coordinates, where they are the coordinates of its
        // indices.
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
        // The coordinates that a layout visits are the coordinates of its indices.
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

/// Whether a layout of the shape of `b`, its integers split into flat tuples, is the function
/// `a(b(i))`: built leaf by leaf only from values.
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
