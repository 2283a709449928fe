//! The law of each operation, on random layouts: nested to depth 3, with extents of 1 and strides of 0.

use moye_device::layout::*;
use proptest::prelude::*;

/// The most values that a law is checked at.
const VALUES: i64 = 2000;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        max_global_rejects: 1 << 20,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Shapes of small extents, nested to depth 3.
fn shape() -> impl Strategy<Value = IntTuple> {
    let extent = prop_oneof![2 => Just(1i64), 8 => 2i64..=9].prop_map(IntTuple::int);
    extent.prop_recursive(3, 6, 3, |inner| {
        prop::collection::vec(inner, 1..=3).prop_map(|elements| IntTuple::tuple(&elements))
    })
}

/// Shapes of powers of two, which fit into each other far more often.
fn even_shape() -> impl Strategy<Value = IntTuple> {
    let extent = prop_oneof![Just(1i64), Just(2), Just(2), Just(4), Just(8)].prop_map(IntTuple::int);
    extent.prop_recursive(3, 6, 3, |inner| {
        prop::collection::vec(inner, 1..=3).prop_map(|elements| IntTuple::tuple(&elements))
    })
}

fn with_strides(shape: IntTuple, strides: &[i64]) -> Layout {
    let strides = &strides[..shape.leaves()];
    if shape.is_int() {
        return Layout::new(shape, IntTuple::int(strides[0]));
    }
    Layout::new(shape, IntTuple::flat(strides).unflatten(shape))
}

/// Any strides: overlapping, broadcast, with gaps.
fn any_layout() -> impl Strategy<Value = Layout> {
    let stride = prop_oneof![1 => Just(0i64), 3 => 1i64..=4, 3 => 1i64..=40];
    (shape(), prop::collection::vec(stride, 32)).prop_map(|(shape, strides)| with_strides(shape, &strides))
}

/// Strides in some order, compact, scaled, or with some set to 0: what programs have.
fn ordered_layout(shape: impl Strategy<Value = IntTuple>) -> impl Strategy<Value = Layout> {
    let keys = prop::collection::vec(0i64..100, 32);
    (shape, keys, 1i64..=3, prop::collection::vec(0u8..8, 32)).prop_map(|(shape, keys, scale, zero)| {
        let order = if shape.is_int() {
            IntTuple::int(0)
        } else {
            IntTuple::flat(&keys[..shape.leaves()]).unflatten(shape)
        };
        let compact = make_ordered_layout(shape, order).stride();
        let strides: Vec<i64> = (0..shape.leaves())
            .map(|leaf| match compact.leaf(leaf) {
                Leaf::Int(stride) if zero[leaf] > 0 => stride * scale,
                _ => 0,
            })
            .collect();
        with_strides(shape, &strides)
    })
}

/// Compact layouts in some order: bijections onto `0..size`.
fn bijection(shape: impl Strategy<Value = IntTuple>) -> impl Strategy<Value = Layout> {
    (shape, prop::collection::vec(0i64..100, 32)).prop_map(|(shape, keys)| {
        let order = if shape.is_int() {
            IntTuple::int(0)
        } else {
            IntTuple::flat(&keys[..shape.leaves()]).unflatten(shape)
        };
        make_ordered_layout(shape, order)
    })
}

fn layouts() -> impl Strategy<Value = Layout> {
    prop_oneof![
        2 => any_layout(),
        3 => ordered_layout(shape()),
        3 => ordered_layout(even_shape()),
        1 => bijection(even_shape()),
    ]
}

/// Tilers of layouts, extents, wildcards and tuples of them.
fn tilers() -> impl Strategy<Value = Tiler> {
    let tiler = prop_oneof![
        1 => Just(Tiler::any()),
        2 => (1i64..100).prop_map(|extent| IntTuple::int(extent).tiler()),
        3 => any_layout().prop_filter("a tiler by mode holds several", |layout| layout.leaves() < 8).prop_map(Tiler::layout),
    ];
    tiler.prop_recursive(2, 3, 3, |inner| {
        prop::collection::vec(inner, 0..=3).prop_map(|tilers| Tiler::by_mode(&tilers))
    })
}

/// The size of the prefix that a law is checked at.
fn checked(layout: &Layout) -> i64 {
    layout.size().min(VALUES)
}

fn is_injective(layout: &Layout) -> bool {
    let mut seen = std::collections::HashSet::new();
    (0..layout.size()).all(|i| seen.insert(layout.at(i)))
}

fn strided(extent: i64, stride: i64) -> Layout {
    Layout::new(IntTuple::int(extent), IntTuple::int(stride))
}

/// Blocks with gaps, many of which no stride divides.
fn blocks() -> impl Strategy<Value = Layout> {
    let modes = prop::collection::vec((1i64..5, 1i64..24), 1..4);
    let gaps =
        modes.prop_map(|modes| Layout::new(tuple_of(&modes, |mode| mode.0), tuple_of(&modes, |mode| mode.1)));
    prop_oneof![2 => gaps, 1 => layouts()]
}

fn tuple_of(modes: &[(i64, i64)], part: impl Fn(&(i64, i64)) -> i64) -> IntTuple {
    IntTuple::flat(&modes.iter().map(part).collect::<Vec<i64>>())
}

/// That the block `a`, moved by `copies[j]`, meets its copies nowhere but where `b` has one number twice.
fn check_copies(a: Layout, b: Layout, copies: impl Iterator<Item = i64>) -> Result<(), TestCaseError> {
    let mut seen = std::collections::HashMap::new();
    for (j, copy) in copies.enumerate() {
        for i in 0..a.size() {
            let place = (a.at(i), b.at(j as i64));
            let before = *seen.entry(a.at(i) + copy).or_insert(place);
            prop_assert_eq!(before, place, "{} by {} meets itself at {}", a, b, a.at(i) + copy);
        }
    }
    Ok(())
}

/// The law of `composition`, and that the result has the shape of `b` up to splitting.
fn check_composition(a: Layout, b: Layout, result: Layout) -> Result<(), TestCaseError> {
    prop_assert_eq!(result.size(), b.size());
    prop_assert!(compatible(b.shape(), result.shape()), "{} o {} has the shape {}", a, b, result.shape());
    for i in 0..checked(&b) {
        prop_assert_eq!(result.at(i), a.at(b.at(i)), "{} o {} is {}, wrong at {}", a, b, result, i);
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(5_000))]

    #[test]
    fn composition_is_one_layout_after_the_other(a in layouts(), b in layouts()) {
        if let Ok(result) = try_composition(a, b) {
            check_composition(a, b, result)?;
        }
    }

    #[test]
    fn a_composition_is_refused_only_where_no_layout_has_the_function(a in layouts(), b in layouts()) {
        prop_assume!(b.size() <= 512);
        if let Err(error) = try_composition(a, b) {
            // The candidate: leaf by leaf, the only flat layout with the leaf's values, if there is one.
            prop_assert_eq!(error.kind(), LayoutErrorKind::Divisibility, "{}", error);
            prop_assert!(!is_representable(&a, &b), "{} o {} is refused, but a layout has the function: {}", a, b, error);
        }
    }

    #[test]
    fn what_a_composition_advises_is_accepted(a in layouts(), count in 2i64..40, step in 1i64..40) {
        let Err(error) = try_composition(a, strided(count, step)) else { return Ok(()) };
        let Some((_, advice)) = error.text().rsplit_once("; ") else { return Ok(()) };
        let numbers: Vec<i64> = advice
            .split(|letter: char| !letter.is_ascii_digit())
            .filter_map(|word| word.parse().ok())
            .collect();
        let mut asked: Vec<(i64, i64)> = Vec::new();
        if advice.starts_with("a stride of ") {
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
        for (count, step) in asked {
            if let Err(refused) = try_composition(a, strided(count, step)) {
                prop_assert!(false, "{} advises {}:{}, but {}", error, count, step, refused);
            }
        }
    }

    #[test]
    fn coalesce_keeps_the_function_and_cannot_be_shortened(a in layouts()) {
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
    fn coalesce_by_profile_keeps_modes_and_the_function(a in layouts()) {
        let profile = if a.shape().is_int() { tuple!(1) } else { IntTuple::flat(&vec![1; a.rank()]) };
        let result = coalesce_profile(a, profile);
        prop_assert_eq!(result.rank(), a.rank());
        for mode in 0..a.rank() {
            prop_assert_eq!(result.extent(mode), a.extent(mode));
        }
        for i in 0..checked(&a) {
            prop_assert_eq!(result.at(i), a.at(i));
        }
    }

    #[test]
    fn filter_keeps_the_image(a in layouts()) {
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
    fn complement_is_ordered_disjoint_and_reaches_the_cotarget(a in layouts(), cotarget in 1i64..5000) {
        if let Ok(rest) = try_complement(a, cotarget) {
            let kept = filter(a);
            prop_assert!(rest.depth() <= 1);
            for i in 1..rest.size().min(VALUES) {
                prop_assert!(rest.at(i - 1) < rest.at(i), "{rest} is not ordered");
            }
            let both = Layout::concat(&[kept, rest]);
            // What both reach is counted in whole periods of the last mode, which may end in a gap.
            let (shape, stride) = (both.shape(), both.stride());
            let period = |i| match (shape.leaf(i), stride.leaf(i)) {
                (Leaf::Int(extent), Leaf::Int(stride)) => (extent * stride).max(1),
                other => panic!("{other:?}"),
            };
            let reach = (0..both.leaves()).map(period).max().unwrap_or(1);
            prop_assert!(reach >= cotarget, "{both} does not reach {cotarget}");
            if both.size() <= 20_000 {
                prop_assert!(is_injective(&both), "{both} meets itself");
            }
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
    fn right_inverse_is_one(a in layouts()) {
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
    fn left_inverse_is_one(a in layouts()) {
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
    fn divide_is_the_layout_after_the_tile_and_its_complement(a in layouts(), tile in layouts()) {
        if let Ok(result) = try_logical_divide(a, tile.tiler()) {
            let rest = complement(tile, a.size());
            prop_assert_eq!(result.size(), tile.size() * rest.size());
            for i in 0..checked(&result) {
                let index = tile.at(i % tile.size()) + rest.at(i / tile.size());
                prop_assert_eq!(result.at(i), a.at(index), "{} by {} is {}", a, tile, result);
            }
        }
    }

    #[test]
    fn the_forms_of_divide_have_the_same_elements(a in layouts(), tiles in prop::collection::vec(1i64..9, 3)) {
        let rank = a.rank().min(3);
        let tiler = IntTuple::flat(&tiles[..rank]).tiler();
        if let Ok(logical) = try_logical_divide(a, tiler) {
            let forms = [zipped_divide(a, tiler), tiled_divide(a, tiler), flat_divide(a, tiler)];
            let sorted = |layout: &Layout| {
                let mut values: Vec<i64> = (0..layout.size()).map(|i| layout.at(i)).collect();
                values.sort_unstable();
                values
            };
            prop_assume!(logical.size() <= 4 * VALUES);
            for form in &forms {
                prop_assert_eq!(sorted(form), sorted(&logical), "{}", form);
            }
            prop_assert_eq!(forms[0].rank(), 2);
            let tile: i64 = tiles[..rank].iter().product();
            prop_assert_eq!(forms[0].extent(0), tile);
            prop_assert_eq!(forms[0].extent(1) * tile, logical.size());
        }
    }

    #[test]
    fn product_repeats_the_block_at_free_places(a in layouts(), b in layouts()) {
        if let Ok(result) = try_logical_product(a, b.tiler()) {
            prop_assert_eq!(result.mode(0), a);
            prop_assert_eq!(result.extent(1), b.size());
            // Beyond its size a complement has no places: there the law below holds alone.
            let free = complement(a, a.size() * b.cosize());
            for j in 0..checked(&b) {
                if b.at(j) < free.size() {
                    prop_assert_eq!(result.mode(1).at(j), free.at(b.at(j)), "{} by {} is {}", a, b, result);
                }
            }
        }
    }

    #[test]
    fn copies_in_a_product_never_meet(a in blocks(), b in layouts()) {
        prop_assume!(a.size() * b.size() <= 10 * VALUES);
        if let Ok(result) = try_logical_product(a, b.tiler()) {
            check_copies(a, b, (0..b.size()).map(|j| result.mode(1).at(j)))?;
        }
    }

    #[test]
    fn copies_in_blocked_and_raked_products_never_meet(
        block in prop::collection::vec((1i64..5, 1i64..24), 2), tiles in bijection(even_shape())
    ) {
        let block = Layout::new(tuple_of(&block, |mode| mode.0), tuple_of(&block, |mode| mode.1));
        prop_assume!(is_injective(&block) && block.size() * tiles.size() <= 10 * VALUES);
        for result in [try_blocked_product(block, tiles), try_raked_product(block, tiles)].into_iter().flatten() {
            prop_assert_eq!(result.size(), block.size() * tiles.size());
            prop_assert!(is_injective(&result), "{} by {} is {}", block, tiles, result);
        }
        let shape: Vec<i64> = (0..2).map(|mode| block.extent(mode) * (1 + tiles.size() % 3)).collect();
        for order in [tuple!((0, 1)), tuple!((1, 0))] {
            if let Ok(result) = try_tile_to_shape_ordered(block, IntTuple::flat(&shape), order) {
                prop_assert_eq!(product_each(result.shape()), IntTuple::flat(&shape));
                prop_assert!(is_injective(&result), "{} to {} is {}", block, IntTuple::flat(&shape), result);
            }
        }
    }

    #[test]
    fn blocked_and_raked_products_have_the_elements_of_the_logical_one(
        a in bijection(even_shape()), b in bijection(even_shape())
    ) {
        let (blocked, raked) = (try_blocked_product(a, b), try_raked_product(a, b));
        prop_assert_eq!(blocked.is_ok(), raked.is_ok());
        if let (Ok(blocked), Ok(raked)) = (blocked, raked) {
            prop_assert_eq!(blocked.rank(), a.rank().max(b.rank()));
            prop_assert_eq!(blocked.size(), a.size() * b.size());
            prop_assume!(blocked.size() <= VALUES);
            prop_assert!(is_injective(&blocked) && is_injective(&raked), "{blocked} {raked}");
            prop_assert_eq!(blocked.cosize(), blocked.size());
            for mode in 0..blocked.rank() {
                prop_assert_eq!(blocked.mode(mode).mode(0), raked.mode(mode).mode(1));
                prop_assert_eq!(blocked.mode(mode).mode(1), raked.mode(mode).mode(0));
            }
        }
    }

    #[test]
    fn text_and_back_is_the_same_layout(a in layouts()) {
        prop_assert_eq!(a.to_string().parse(), Ok(a));
        prop_assert_eq!(a.shape().to_string().parse(), Ok(a.shape()));
        let coordinates = identity_layout(a.shape());
        prop_assert_eq!(coordinates.to_string().parse(), Ok(coordinates));
    }

    #[test]
    fn text_and_back_is_the_same_tiler(tiler in tilers()) {
        let text = tiler.to_string();
        prop_assert_eq!(text.parse(), Ok(tiler));
        prop_assert_eq!(text.replace(',', " , ").replace(':', " : ").parse(), Ok(tiler));
    }

    #[test]
    fn text_and_back_is_the_same_swizzled_layout(
        a in layouts(), bits in 0i64..6, base in 0i64..8, shift in -8i64..8, offset in 0i64..1 << 40
    ) {
        let Ok(swizzle) = Swizzle::try_new(bits, base, shift) else { return Ok(()) };
        prop_assert_eq!(swizzle.to_string().parse(), Ok(swizzle));
        let composed = ComposedLayout::new(swizzle, offset, a);
        prop_assert_eq!(composed.to_string().parse(), Ok(composed));
    }

    #[test]
    fn coordinates_and_indices_agree(a in layouts(), index in 0i64..1_000_000) {
        let index = index % a.size();
        let coord = idx2crd(index, a.shape());
        prop_assert!(congruent(coord, a.shape()));
        prop_assert!(elem_less(coord, a.shape()));
        prop_assert_eq!(crd2idx(a, coord), a.at(index));
        prop_assert_eq!(crd2crd(IntTuple::int(index), a.shape()), coord);
        let next = increment(coord, a.shape());
        prop_assert_eq!(next, idx2crd((index + 1) % a.size(), a.shape()));
        if index + 1 < a.size() {
            prop_assert!(colex_less(coord, next), "{coord} {next}");
        }
    }

    #[test]
    fn a_slice_and_its_offset_reach_the_same_elements(a in layouts(), keep in 0u32..64, index in 0i64..1_000_000) {
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
    fn coordinate_layouts_compose_as_their_coordinates_do(a in layouts(), b in ordered_layout(even_shape())) {
        // A layout after the coordinates of its own shape is itself.
        let identity = identity_layout(a.shape());
        if let Ok(same) = try_composition(a, identity) {
            for i in 0..checked(&a) {
                prop_assert_eq!(same.at(i), a.at(i), "{} after {}", a, identity);
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
            // Element (thread, value) is where the raked product has that pair.
            let places = raked_product(threads, values);
            for i in 0..tv.layout.size() {
                prop_assert_eq!(places.at(tv.layout.at(i)), i);
            }
        }
    }

    #[test]
    fn upcast_and_downcast_undo_each_other(a in bijection(even_shape()), log in 0u32..4) {
        let count = 1 << log;
        let wide = upcast(downcast(a, count), count);
        for i in 0..checked(&a) {
            prop_assert_eq!(wide.at(i), a.at(i));
        }
    }

    #[test]
    fn a_downcast_has_the_parts_of_each_element(a in layouts(), count in 1i64..9) {
        let parts = downcast(a, count);
        let leaves: Vec<(Leaf, Leaf)> = (0..a.leaves()).map(|i| (a.shape().leaf(i), a.stride().leaf(i))).collect();
        let ones = leaves.iter().filter(|leaf| **leaf == (Leaf::Int(1), Leaf::Int(1))).count();
        let whole = leaves.iter().any(|leaf| leaf.1 == Leaf::Int(1));
        let longer = leaves.iter().any(|leaf| leaf.0 != Leaf::Int(1) && leaf.1 == Leaf::Int(1));
        let each = if whole { count } else { 1 };
        // Each extent of 1 at stride 1 beyond the first mode that gets the parts repeats them, as in CuTe.
        let repeats = (ones + usize::from(longer)).saturating_sub(1);
        let size = a.size() * each * count.pow(repeats as u32);
        prop_assert_eq!(parts.size(), size, "{} by {} is {}", a, count, parts);
        prop_assume!(repeats == 0 && a.size() <= VALUES);
        let sorted = |mut values: Vec<i64>| { values.sort_unstable(); values };
        let expected = (0..a.size()).flat_map(|i| (0..each).map(move |part| a.at(i) * count + part)).collect();
        let got = (0..parts.size()).map(|i| parts.at(i)).collect();
        prop_assert_eq!(sorted(got), sorted(expected), "{} by {} is {}", a, count, parts);
    }

    #[test]
    fn a_recast_is_an_upcast_and_a_downcast(a in layouts(), from in 0u32..8, to in 0u32..8) {
        let (from, to) = (1i64 << from, 1i64 << to);
        let expected = if to >= from { try_upcast(a, to / from) } else { try_downcast(a, from / to) };
        prop_assert_eq!(try_recast(a, from, to).ok(), expected.ok());
    }

    #[test]
    fn an_upcast_has_the_elements_that_are_touched(a in layouts(), count in 1i64..9) {
        if let Ok(wide) = try_upcast(a, count) && a.size() <= VALUES {
            let sorted = |mut values: Vec<i64>| { values.sort_unstable(); values.dedup(); values };
            // Of a mode that stays within an element or goes in whole elements, each by itself.
            let mode = |layout: &Layout, leaf: usize| match (layout.shape().leaf(leaf), layout.stride().leaf(leaf)) {
                (Leaf::Int(extent), Leaf::Int(stride)) => (0..extent).map(|i| i * stride).collect::<Vec<i64>>(),
                other => panic!("{other:?}"),
            };
            for leaf in 0..a.leaves() {
                let touched = mode(&a, leaf).iter().map(|index| index / count).collect();
                prop_assert_eq!(sorted(mode(&wide, leaf)), sorted(touched), "{} by {} is {}", a, count, wide);
            }
        }
    }

    #[test]
    fn the_common_layout_is_contiguous_in_both(a in layouts(), b in layouts()) {
        if let Ok(common) = try_max_common_layout(a, b) {
            for i in 0..checked(&common) {
                prop_assert_eq!(a.at(common.at(i)), i, "{} of {} and {}", common, a, b);
                prop_assert_eq!(b.at(common.at(i)), i, "{} of {} and {}", common, a, b);
            }
            prop_assert_eq!(max_common_vector(a, b), common.size());
        }
    }

    #[test]
    fn the_nullspace_is_mapped_to_zero(a in layouts()) {
        let null = nullspace(a);
        for i in 0..checked(&null) {
            prop_assert_eq!(a.at(null.at(i)), 0, "{} of {}", null, a);
        }
        prop_assert_eq!(null.size() * filter(a).size(), a.size());
    }

    #[test]
    fn a_tile_to_shape_has_that_shape(a in bijection(even_shape()), times in prop::collection::vec(1i64..5, 3)) {
        let rank = a.rank();
        let shape: Vec<i64> = (0..rank).map(|mode| a.extent(mode) * times[mode]).collect();
        let tiled = tile_to_shape(a, IntTuple::flat(&shape));
        prop_assert_eq!(product_each(tiled.shape()), IntTuple::flat(&shape));
        prop_assert_eq!(tiled.cosize(), tiled.size());
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
}

/// Whether a layout of the shape of `b`, its integers split into flat tuples, has the function `a(b(i))`: built leaf by
/// leaf from values alone.
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
