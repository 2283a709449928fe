//! What is advised where an operand does not fit: followed, the operation has an answer.

use super::strategies::*;
use moye_device::layout::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

proptest! {
    #![proptest_config(config(5_000))]

    #[test]
    fn what_a_complement_advises_is_accepted((a, cotarget) in (crossing(), 1i64..5000)) {
        of_complement(&a, cotarget)?;
    }

    #[test]
    fn what_a_left_inverse_advises_is_accepted(a in crossing()) {
        of_left_inverse(&a)?;
    }

    #[test]
    fn what_a_product_advises_of_its_block_is_accepted(
        a in crossing(), more in bijection(even_shape()), tiler in any_layout(), modes in (2i64..9, 1i64..9)
    ) {
        of_block(&a, &tiler)?;
        follow_strides(&a, |a| try_blocked_product(a, tiler))?;
        follow_strides(&a, |a| try_raked_product(a, tiler))?;
        // Of one mode of two: the other keeps its own answer.
        let by_mode = Tiler::by_mode(&[IntTuple::int(modes.0).tiler(), IntTuple::int(modes.1).tiler()]);
        follow_strides(&a, |a| try_logical_product(Layout::concat(&[a, more]), by_mode))?;
        follow_strides(&a, |a| try_logical_product(Layout::concat(&[more, a]), by_mode))?;
    }

    #[test]
    fn what_larger_elements_advise_is_accepted((a, count) in (prop_oneof![crossing(), walks()], 1i64..13)) {
        of_upcast(&a, count)?;
        follow_strides(&a, |a| try_recast(a, 8, 8 * count))?;
    }

    #[test]
    fn what_a_block_that_is_repeated_advises_is_accepted((block, shape) in (blocks(), extents())) {
        of_repeated(&block, &shape)?;
    }

    #[test]
    fn what_another_shape_advises_is_accepted((a, shape) in (walks(), shape())) {
        of_reshaped(&a, shape)?;
    }

    #[test]
    fn what_coordinates_of_both_kinds_advise_is_accepted(a in both_kinds()) {
        of_both_kinds(&a)?;
    }

    #[test]
    fn what_a_division_of_shapes_advises_is_accepted((shape, by) in (shape(), 2i64..13)) {
        of_shape_div(shape, by)?;
    }
}

#[test]
fn advice_is_given_and_followed_in_a_good_part_of_the_cases() {
    let counts = [
        ("complement", 300, followed((crossing(), 1i64..5000), |(a, cotarget)| of_complement(&a, cotarget))),
        ("left_inverse", 300, followed(crossing(), |a| of_left_inverse(&a))),
        ("logical_product", 50, followed((crossing(), any_layout()), |(a, tiler)| of_block(&a, &tiler))),
        ("upcast", 300, followed((crossing(), 1i64..13), |(a, count)| of_upcast(&a, count))),
        ("tile_to_shape", 300, followed((blocks(), extents()), |(block, shape)| of_repeated(&block, &shape))),
        ("with_shape", 10, followed((walks(), shape()), |(a, shape)| of_reshaped(&a, shape))),
        ("coshape", 150, followed(both_kinds(), |a| of_both_kinds(&a))),
        ("shape_div", 300, followed((shape(), 2i64..13), |(shape, by)| of_shape_div(shape, by))),
    ];
    for (operation, least, count) in counts {
        println!("{operation}: {count}");
        assert!(count >= least, "{operation}: advice was followed {count} times in 1,000 cases");
    }
}

/// How often what is advised was followed, in 1,000 cases.
fn followed<S: Strategy>(strategy: S, follow: impl Fn(S::Value) -> Result<usize, TestCaseError>) -> usize {
    let mut runner = TestRunner::deterministic();
    (0..1000)
        .map(|_| follow(strategy.new_tree(&mut runner).expect("a case").current()).expect("as above"))
        .sum()
}

fn of_complement(a: &Layout, cotarget: i64) -> Result<usize, TestCaseError> {
    follow_strides(a, |a| try_complement(a, cotarget))
}

fn of_left_inverse(a: &Layout) -> Result<usize, TestCaseError> {
    follow_strides(a, try_left_inverse)
}

fn of_block(a: &Layout, tiler: &Layout) -> Result<usize, TestCaseError> {
    follow_strides(a, |a| try_logical_product(a, tiler.tiler()))
}

fn of_upcast(a: &Layout, count: i64) -> Result<usize, TestCaseError> {
    follow_strides(a, |a| try_upcast(a, count))
}

/// Of a block that is repeated up to a shape of these extents, or of some that end at `extents`.
fn of_repeated(block: &Layout, extents: &[i64]) -> Result<usize, TestCaseError> {
    let of = |extents: &[i64]| try_tile_to_shape(*block, IntTuple::flat(extents));
    let Err(error) = of(extents) else { return Ok(0) };
    let Some(said) = advice(&error).strip_prefix("an extent of ") else {
        prop_assert!(!of_shape(&error), "{}", error);
        return Ok(0);
    };
    let (told, mode) = said.split_once(" along mode ").expect("the mode is named");
    let mode = numbers(mode)[0] as usize;
    let mut others = extents.to_vec();
    if said.contains("for this mode") {
        for (other, extent) in others.iter_mut().enumerate() {
            let part = if other < block.rank() { block.extent(other) } else { 1 };
            if other != mode && *extent % part != 0 {
                *extent = part;
            }
        }
    }
    for extent in numbers(told) {
        others[mode] = extent;
        prop_assert!(of(&others).is_ok(), "{}, but {:?} is refused", error, others);
    }
    Ok(numbers(told).len())
}

/// A shape of the same size, with the leading extents of `shape` and the rest of the size after
/// them.
fn of_reshaped(a: &Layout, shape: IntTuple) -> Result<usize, TestCaseError> {
    let other = IntTuple::tuple(&[shape, IntTuple::int(a.size() / shape.size().min(a.size()))]);
    let Err(error) = a.try_with_shape(other) else { return Ok(0) };
    let Some((said, _)) = advice(&error).split_once(" of the layout's modes coalesced would work") else {
        prop_assert!(!of_shape(&error), "{}", error);
        return Ok(0);
    };
    let shape: IntTuple = said.trim_start_matches("the shape ").parse().expect("a shape");
    let with_shape = a.try_with_shape(shape);
    prop_assert!(with_shape.is_ok(), "{}, but {:?}", error, with_shape.map_err(|error| error.to_string()));
    Ok(1)
}

fn of_both_kinds(a: &Layout) -> Result<usize, TestCaseError> {
    let Err(error) = try_coshape(*a) else { return Ok(0) };
    let Some((instead, _)) = advice(&error).split_once(" beside ") else {
        prop_assert!(!error.text().contains("would work"), "{}", error);
        return Ok(0);
    };
    let (_, said) = error.text().split_once("the strides ").expect("the strides are named");
    let (before, _) = said.split_once(" and ").expect("two strides");
    let (shape, strides) = (a.shape(), a.stride());
    let mut others: Vec<String> = (0..strides.leaves()).map(|i| strides.mode(i).to_string()).collect();
    let leaf = others.iter().position(|stride| stride == before).expect("one of the strides");
    others[leaf] = instead.to_owned();
    let other = Layout::new(shape, format!("({})", others.join(",")).parse().expect("strides"));
    prop_assert!(try_coshape(other).is_ok(), "{}, but {} is refused", error, other);
    Ok(1)
}

fn of_shape_div(shape: IntTuple, by: i64) -> Result<usize, TestCaseError> {
    let Err(error) = try_shape_div(shape, IntTuple::int(by)) else { return Ok(0) };
    let (_, said) = error.text().split_once("the extent ").expect("the extent is named");
    let (extent, of) = (numbers(said)[0], numbers(advice(&error))[0]);
    let mut asked = vec![of, 3 * of];
    if advice(&error).starts_with("a divisor or ") {
        asked.extend((1..of).filter(|divisor| of % divisor == 0));
    }
    let extents = shape.fold(Vec::new(), |mut all, leaf| {
        all.push(value(leaf));
        all
    });
    for &number in &asked {
        let fits = (0..extents.len()).filter(|&leaf| extents[leaf] == extent).any(|leaf| {
            let mut others = extents.clone();
            others[leaf] = number;
            let other =
                if shape.is_int() { IntTuple::int(number) } else { IntTuple::flat(&others).unflatten(shape) };
            try_shape_div(other, IntTuple::int(by)).is_ok()
        });
        prop_assert!(fits, "{}, but {} does not", error, number);
    }
    Ok(asked.len())
}

fn value(leaf: Leaf) -> i64 {
    match leaf {
        Leaf::Int(value) => value,
        other => panic!("{other:?}"),
    }
}

/// Layouts of which many overlap, in one mode or in several, or have gaps that no stride divides.
fn crossing() -> impl Strategy<Value = Layout> {
    prop_oneof![2 => blocks(), 1 => any_layout()]
}

fn extents() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(1i64..40, 3..4)
}

/// Layouts of coordinates of which many have a place that is both an integer and a tuple.
fn both_kinds() -> impl Strategy<Value = Layout> {
    const PLACES: [&[usize]; 7] = [&[0], &[1], &[0, 0], &[0, 1], &[1, 0], &[0, 1, 0], &[63]];
    prop::collection::vec((2i64..5, 1i64..4, 0..=PLACES.len()), 2..5).prop_map(|modes| {
        let strides: Vec<IntTuple> = modes
            .iter()
            .map(|&(_, stride, place)| match PLACES.get(place) {
                Some(path) => IntTuple::along(stride, Basis::new(path)),
                None => IntTuple::int(stride),
            })
            .collect();
        Layout::new(
            IntTuple::flat(&modes.iter().map(|mode| mode.0).collect::<Vec<_>>()),
            IntTuple::tuple(&strides),
        )
    })
}

/// Whether something is advised of a shape, or of a derived operand: everything except the advice
/// for the block.
fn of_shape(error: &LayoutError) -> bool {
    error.text().contains("would work")
        && !error.text().contains("of the block, ")
        && !error.text().contains("overlaps the modes of smaller stride")
        && !error.text().contains("so that no digit of an index")
}

/// What is said behind the last semicolon.
fn advice(error: &LayoutError) -> &str {
    error.text().rsplit_once("; ").map_or("", |(_, advice)| advice)
}

fn numbers(text: &str) -> Vec<i64> {
    text.split(|letter: char| !letter.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

/// If `of(a)` is refused for a stride of `a`, it is accepted with the advised ones. Returns the
/// number of suggestions that were followed.
fn follow_strides(
    a: &Layout,
    of: impl Fn(Layout) -> Result<Layout, LayoutError>,
) -> Result<usize, TestCaseError> {
    let Err(error) = of(*a) else { return Ok(0) };
    let Some(reason) = error.reason() else { return Ok(0) };
    if let Some(stride) = advice(&error).strip_suffix(" from the other end would work") {
        let stride = numbers(stride)[0];
        let turned = instead(a, -stride, stride).any(|other| of(other).is_ok());
        prop_assert!(turned, "{}, but no mode of stride {} takes it", error, -stride);
        return Ok(1);
    }
    // What is said of the second operand, and of a complement, is followed elsewhere.
    let of_first = [
        "overlaps the modes of smaller stride",
        "so that no digit of an index",
        "that do not meet reach",
        "neither divides nor is divided by",
    ];
    if reason.contains("of the tiler")
        || reason.contains("(modes coalesced)")
        || !of_first.iter().any(|said| reason.contains(said))
    {
        let elsewhere = reason.contains("of the tiler") || reason.contains("(modes coalesced)");
        prop_assert!(elsewhere || !reason.contains("would work"), "{} is followed nowhere", error);
        return Ok(0);
    }
    let said = reason.split_once("he mode of stride ").or_else(|| reason.split_once("he stride "));
    let Some(stride) = said.and_then(|(_, rest)| rest.split(' ').next()?.parse::<i64>().ok()) else {
        return Ok(0);
    };
    let advice = advice(&error);
    if advice.starts_with("strides that nest") {
        let nested = nested(a);
        prop_assert!(of(nested).is_ok(), "{}, but {} is refused", error, nested);
        return Ok(1);
    }
    if !advice.starts_with("a stride ") {
        prop_assert!(!advice.contains("would work"), "{}", error);
        return Ok(0);
    }
    let mut numbers = numbers(advice);
    if advice.contains("or a larger multiple of ") {
        let (least, step) = (numbers[0], numbers[1]);
        numbers = (0..5).map(|more| least + more * step).collect();
    } else if advice.contains(" a multiple of ") {
        let of = numbers[numbers.len() - 1];
        numbers.extend((2..5).map(|times| times * of));
    }
    for &number in &numbers {
        let fits = instead(a, stride, number).any(|other| of(other).is_ok());
        prop_assert!(fits, "{} advises {}, but no mode of stride {} takes it", error, number, stride);
    }
    Ok(numbers.len())
}

/// `a` with the stride `to` for one of its modes of stride `stride`, for each of them; where it
/// runs backwards, both do.
fn instead(a: &Layout, stride: i64, to: i64) -> impl Iterator<Item = Layout> {
    let (shape, modes) = (a.shape(), leaves(a));
    let strides: Vec<i64> = modes.iter().map(|(_, stride)| *stride).collect();
    (0..strides.len()).filter(move |&leaf| modes[leaf].1.abs() == stride.abs()).map(move |leaf| {
        let mut others = strides.clone();
        others[leaf] = if strides[leaf] == stride { to } else { -to };
        with_strides(shape, &others)
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
