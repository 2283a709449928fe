//! Strategies for the laws, and shared checks.

use moye_device::layout::*;
use proptest::prelude::*;

/// The most values at which a law is checked.
pub const VALUES: i64 = 2000;

pub fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        max_global_rejects: 1 << 20,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Shapes of small extents, nested to depth 3.
pub fn shape() -> impl Strategy<Value = IntTuple> {
    let extent = prop_oneof![2 => Just(1i64), 8 => 2i64..=9].prop_map(IntTuple::int);
    extent.prop_recursive(3, 6, 3, |inner| {
        prop::collection::vec(inner, 1..=3).prop_map(|elements| IntTuple::tuple(&elements))
    })
}

/// Shapes of powers of two, which divide each other far more often.
pub fn even_shape() -> impl Strategy<Value = IntTuple> {
    let extent = prop_oneof![Just(1i64), Just(2), Just(2), Just(4), Just(8)].prop_map(IntTuple::int);
    extent.prop_recursive(3, 6, 3, |inner| {
        prop::collection::vec(inner, 1..=3).prop_map(|elements| IntTuple::tuple(&elements))
    })
}

pub fn with_strides(shape: IntTuple, strides: &[i64]) -> Layout {
    let strides = &strides[..shape.leaves()];
    if shape.is_int() {
        return Layout::new(shape, IntTuple::int(strides[0]));
    }
    Layout::new(shape, IntTuple::flat(strides).unflatten(shape))
}

/// Any strides: overlapping, broadcast, with gaps.
pub fn any_layout() -> impl Strategy<Value = Layout> {
    let stride = prop_oneof![1 => Just(0i64), 3 => 1i64..=4, 3 => 1i64..=40];
    (shape(), prop::collection::vec(stride, 32)).prop_map(|(shape, strides)| with_strides(shape, &strides))
}

/// Compact strides in some order, scaled, or with some set to 0: layouts as programs use them.
pub fn ordered_layout(shape: impl Strategy<Value = IntTuple>) -> impl Strategy<Value = Layout> {
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
pub fn bijection(shape: impl Strategy<Value = IntTuple>) -> impl Strategy<Value = Layout> {
    (shape, prop::collection::vec(0i64..100, 32)).prop_map(|(shape, keys)| {
        let order = if shape.is_int() {
            IntTuple::int(0)
        } else {
            IntTuple::flat(&keys[..shape.leaves()]).unflatten(shape)
        };
        make_ordered_layout(shape, order)
    })
}

pub fn layouts() -> impl Strategy<Value = Layout> {
    prop_oneof![
        2 => any_layout(),
        3 => ordered_layout(shape()),
        3 => ordered_layout(even_shape()),
        1 => bijection(even_shape()),
    ]
}

/// Layouts with negative strides in some modes.
pub fn walks() -> impl Strategy<Value = Layout> {
    let backwards = (layouts(), any::<u32>()).prop_map(|(layout, which)| {
        let strides: Vec<i64> = leaves(&layout)
            .iter()
            .enumerate()
            .map(|(leaf, (_, stride))| if which >> leaf & 1 == 1 { -stride } else { *stride })
            .collect();
        with_strides(layout.shape(), &strides)
    });
    prop_oneof![2 => layouts(), 1 => backwards]
}

/// Tilers of layouts, extents, wildcards and tuples of them.
pub fn tilers() -> impl Strategy<Value = Tiler> {
    let tiler = prop_oneof![
        1 => Just(Tiler::any()),
        2 => (1i64..100).prop_map(|extent| IntTuple::int(extent).tiler()),
        3 => any_layout().prop_filter("a tiler by mode holds several", |layout| layout.leaves() < 8).prop_map(Tiler::layout),
    ];
    tiler.prop_recursive(2, 3, 3, |inner| {
        prop::collection::vec(inner, 0..=3).prop_map(|tilers| Tiler::by_mode(&tilers))
    })
}

/// The size of the prefix at which a law is checked.
pub fn checked(layout: &Layout) -> i64 {
    layout.size().min(VALUES)
}

pub fn is_injective(layout: &Layout) -> bool {
    let mut seen = std::collections::HashSet::new();
    (0..layout.size()).all(|i| seen.insert(layout.at(i)))
}

pub fn strided(extent: i64, stride: i64) -> Layout {
    Layout::new(IntTuple::int(extent), IntTuple::int(stride))
}

/// Blocks with gaps, many of which no stride divides.
pub fn blocks() -> impl Strategy<Value = Layout> {
    let modes = prop::collection::vec((1i64..5, 1i64..24), 1..4);
    let gaps =
        modes.prop_map(|modes| Layout::new(tuple_of(&modes, |mode| mode.0), tuple_of(&modes, |mode| mode.1)));
    prop_oneof![2 => gaps, 1 => layouts()]
}

pub fn tuple_of(modes: &[(i64, i64)], part: impl Fn(&(i64, i64)) -> i64) -> IntTuple {
    IntTuple::flat(&modes.iter().map(part).collect::<Vec<i64>>())
}

/// Checks that the block `a`, moved by `copies[j]`, meets its copies only where `b` has one value
/// twice.
pub fn check_copies(a: Layout, b: Layout, copies: impl Iterator<Item = i64>) -> Result<(), TestCaseError> {
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

/// The law of `composition`; the result has the shape of `b` up to splitting.
pub fn check_composition(a: Layout, b: Layout, result: Layout) -> Result<(), TestCaseError> {
    prop_assert_eq!(result.size(), b.size());
    prop_assert!(compatible(b.shape(), result.shape()), "{} o {} has the shape {}", a, b, result.shape());
    for i in 0..checked(&b) {
        prop_assert_eq!(result.at(i), a.at(b.at(i)), "{} o {} is {}, wrong at {}", a, b, result, i);
    }
    Ok(())
}

/// The values of a layout, in order.
pub fn values(layout: &Layout) -> Vec<i64> {
    (0..layout.size()).map(|i| layout.at(i)).collect()
}

/// The values of a layout, smallest first.
pub fn sorted_values(layout: &Layout) -> Vec<i64> {
    let mut values = values(layout);
    values.sort_unstable();
    values
}

/// The first index below `end` that is missing in `values`.
pub fn first_missing(values: &[i64], end: i64) -> Option<i64> {
    let reached: std::collections::HashSet<i64> = values.iter().copied().collect();
    (0..end).find(|index| !reached.contains(index))
}

/// Whether a layout can place copies of a set, whose smallest element is 0, that cover `0..end`
/// without overlap. One attempt is enough: the next copy begins at the first gap, and the offsets
/// below `end` are the first values of one smallest layout.
pub fn copies_cover(set: &[i64], end: i64) -> bool {
    let mut reached = std::collections::HashSet::new();
    let mut places = Vec::new();
    for index in 0..end {
        if !reached.contains(&index) {
            places.push(index);
            if !set.iter().all(|element| reached.insert(index + element)) {
                return false;
            }
        }
    }
    let mut modes = Vec::new();
    let mut scale = 1;
    while scale < places.len() {
        let (stride, mut run) = (places[scale], 1);
        while scale * run < places.len() && places[scale * run] == stride * run as i64 {
            run += 1;
        }
        modes.push((run as i64, stride));
        scale *= run;
    }
    let all = values(&Layout::new(tuple_of(&modes, |mode| mode.0), tuple_of(&modes, |mode| mode.1)));
    let mut reached = std::collections::HashSet::new();
    all.starts_with(&places)
        && all.iter().all(|place| set.iter().all(|element| reached.insert(place + element)))
}

/// The integer at a leaf.
pub fn int_at(tuple: &IntTuple, leaf: usize) -> i64 {
    match tuple.leaf(leaf) {
        Leaf::Int(value) => value,
        other => panic!("{other:?} in {tuple}"),
    }
}

/// The extents and strides of a layout's leaves.
pub fn leaves(layout: &Layout) -> Vec<(i64, i64)> {
    let (shape, stride) = (layout.shape(), layout.stride());
    (0..layout.leaves()).map(|leaf| (int_at(&shape, leaf), int_at(&stride, leaf))).collect()
}

/// A profile with an integer for each of the first `modes` modes.
pub fn profile_of(modes: usize) -> IntTuple {
    IntTuple::flat(&vec![1; modes])
}

/// The modes of a layout; an integer layout is its own only mode.
pub fn modes(layout: &Layout) -> Vec<Layout> {
    (0..layout.rank()).map(|mode| layout.mode(mode)).collect()
}

/// The elements of a tiler by mode: `None` is the wildcard.
pub fn tiler_modes() -> impl Strategy<Value = Vec<Option<Tiler>>> {
    let mode = prop_oneof![
        1 => Just(None),
        3 => (1i64..9).prop_map(|extent| Some(IntTuple::int(extent).tiler())),
        3 => ordered_layout(even_shape()).prop_map(|layout| Some(layout.tiler())),
    ];
    prop::collection::vec(mode, 1..=3)
}

pub fn tiler_of(modes: &[Option<Tiler>]) -> Tiler {
    let modes: Vec<Tiler> = modes.iter().map(|mode| mode.unwrap_or(Tiler::any())).collect();
    Tiler::by_mode(&modes)
}

/// Checks that the zipped, tiled and flat forms hold the modes of the logical form in their places:
/// the first part of mode `m` is mode `m` of the tile, the second of the rest. `forms` are zipped,
/// tiled and flat.
pub fn check_forms(
    logical: &Layout,
    tiler: &[Option<Tiler>],
    forms: [Result<Layout, LayoutError>; 3],
) -> Result<(), TestCaseError> {
    let mut tiles = Vec::new();
    let mut rest = Vec::new();
    for (m, mode) in modes(logical).into_iter().enumerate() {
        match tiler.get(m) {
            Some(Some(_)) => {
                tiles.push(mode.mode(0));
                rest.push(mode.mode(1));
            }
            Some(None) => {
                tiles.push(layout!(1:0));
                rest.push(mode);
            }
            None => rest.push(mode),
        }
    }
    // A tuple of one mode stays a tuple, as in CuTe.
    let unpacked = |modes: &[Layout]| match modes {
        [one] => vec![Layout::concat(&[*one])],
        modes => modes.to_vec(),
    };
    let zipped = Layout::concat(&[Layout::concat(&tiles), Layout::concat(&rest)]);
    let tiled = Layout::concat(&[vec![Layout::concat(&tiles)], unpacked(&rest)].concat());
    let flat = Layout::concat(&[unpacked(&tiles), unpacked(&rest)].concat());
    for (form, expected) in forms.into_iter().zip([zipped, tiled, flat]) {
        prop_assert_eq!(form, Ok(expected), "of {}", logical);
    }
    Ok(())
}

/// A shape of the same size: the prime factors of `size` in some order, grouped at the cuts.
pub fn reshaped(size: i64, cuts: &[bool], turn: usize) -> IntTuple {
    let mut factors = Vec::new();
    let mut rest = size;
    let mut factor = 2;
    while rest > 1 {
        if rest % factor == 0 {
            factors.push(factor);
            rest /= factor;
        } else {
            factor += 1;
        }
    }
    if !factors.is_empty() {
        let by = turn % factors.len();
        factors.rotate_left(by);
    }
    let mut extents = vec![1i64];
    for (factor, cut) in factors.into_iter().zip(cuts.iter().cycle()) {
        if *cut && extents.len() < 12 {
            extents.push(factor);
        } else {
            *extents.last_mut().unwrap() *= factor;
        }
    }
    IntTuple::flat(&extents)
}
