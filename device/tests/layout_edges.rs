//! Edge cases of the algebra: rank 0, extents of 1, strides of 0, values at capacity, numbers that
//! do not fit in 64 bits. Each has a result or an error; none panics, wraps around or loops.

use moye_device::layout::*;
use proptest::prelude::*;

fn text(layout: &str) -> Layout {
    layout.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn tuple(text: &str) -> IntTuple {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// The kind of an error. The text must state what the kind stands for.
fn refused<T: std::fmt::Debug>(result: Result<T, LayoutError>) -> LayoutErrorKind {
    let error = result.expect_err("there is no answer");
    let says = match error.kind() {
        LayoutErrorKind::Capacity => "more than 32 integers",
        LayoutErrorKind::Overflow => "64 bits",
        _ => "",
    };
    assert!(error.text().contains(says), "{error}");
    error.kind()
}

const EMPTY: Layout = layout!(():());

#[test]
fn rank_0_is_the_layout_of_one_element() {
    assert_eq!((EMPTY.rank(), EMPTY.depth(), EMPTY.size(), EMPTY.cosize()), (0, 1, 1, 1));
    assert_eq!((EMPTY.at(0), EMPTY.at_coord([])), (0, 0));
    assert_eq!(crd2idx(EMPTY, tuple!(())), 0);
    assert_eq!(EMPTY.to_string(), "():()");
    assert_eq!("()".parse(), Ok(EMPTY), "the compact layout of the empty shape");
    assert_eq!(coalesce(EMPTY), layout!(1:0));
    assert_eq!(filter(EMPTY), layout!(1:0));
    assert_eq!(nullspace(EMPTY), layout!(1:0));
    assert_eq!(right_inverse(EMPTY), layout!(1:0));
    assert_eq!(left_inverse(EMPTY), layout!(1:0));
    assert_eq!(complement(EMPTY, 1), layout!(1:0));
    assert_eq!(complement(EMPTY, 6), layout!(6:1), "it leaves out all but 0, which it shares");
    assert_eq!(composition(layout!((4, 2)), EMPTY), EMPTY, "the right operand gives the shape");
    assert_eq!(composition(EMPTY, layout!(1:0)), layout!(1:0));
    assert_eq!(identity_layout(tuple!(())), EMPTY);
    assert_eq!(make_col_major(tuple!(())), EMPTY);
    assert_eq!(make_row_major(tuple!(())), EMPTY);
    assert_eq!(EMPTY.append(layout!(4:1)), layout!((4):(1)));
    assert_eq!(EMPTY.append_dim(2), layout!((1, 1):(0, 0)));
    assert_eq!(EMPTY.group(0, 0), text("(()):(())"));
    assert_eq!(EMPTY.transpose(), EMPTY);
    assert_eq!(EMPTY.flatten(), EMPTY);
    assert_eq!(Layout::concat(&[]), EMPTY);
    assert_eq!(blocked_product(EMPTY, EMPTY), EMPTY);
    assert_eq!(tile_to_shape(EMPTY, tuple!(())), EMPTY);
    assert_eq!(product(tuple!(())), 1);
    assert_eq!(idx2crd(0, tuple!(())), tuple!(()));
    assert_eq!(increment(tuple!(()), tuple!(())), tuple!(()));
    assert!(elem_less(tuple!(()), tuple!(())), "no element is out of bounds");
    assert_eq!(refused(try_mode(EMPTY, 0)), LayoutErrorKind::Range);
    assert_eq!(refused(EMPTY.try_remove(0)), LayoutErrorKind::Range);
    assert_eq!(refused(try_crd2idx(EMPTY, tuple!((0)))), LayoutErrorKind::Profile);
}

#[test]
fn a_tiler_without_modes_leaves_every_mode_as_the_rest() {
    let matrix = layout!((4, 8));
    let none = Tiler::by_mode(&[]);
    assert_eq!(logical_divide(matrix, none), matrix);
    assert_eq!(zipped_divide(matrix, none), text("((),(4,8)):((),(1,4))"));
    assert_eq!(composition_tiler(matrix, none), EMPTY, "composition drops what the tiler leaves out");
}

#[test]
fn extents_of_1_count_as_modes_and_for_nothing_else() {
    let a = layout!((1, 4, 1, 2):(7, 1, 9, 4));
    assert_eq!(coalesce(a), layout!(8:1));
    assert_eq!(filter(a), layout!(8:1));
    assert_eq!((a.size(), a.cosize()), (8, 8), "the strides 7 and 9 are never stepped along");
    assert_eq!(right_inverse(a), layout!(8:1));
    assert_eq!(left_inverse(a), layout!(8:1));
    assert_eq!(complement(a, 24), layout!(3:8));
    assert_eq!(composition(layout!((4, 1):(2, 5)), layout!(4:1)), layout!(4:2));
    assert_eq!(make_col_major(tuple!((1, 4, 1))), layout!((1, 4, 1):(0, 1, 0)));
    assert_eq!(make_layout_like(layout!((1, 4):(100, 7))), layout!((1, 4):(0, 1)));
    let three = try_upcast(layout!((1, 8):(3, 1)), 4);
    assert_eq!(
        refused(three),
        LayoutErrorKind::Divisibility,
        "as in CuTe, also of a stride that is not stepped along"
    );
    assert_eq!(max_common_vector(layout!((1, 4):(5, 1)), layout!((4, 1):(1, 6))), 4);
    assert_eq!(zipped_divide(layout!((1, 8)), tiler!((1, 4))), layout!(((1, 4), (1, 2)):((0, 1), (0, 4))));
    // No coordinate but 0: any stride fits in 64 bits, even if its magnitude does not.
    let far = Layout::new(tuple!((1, 2)), IntTuple::flat(&[i64::MIN, 1]));
    assert_eq!((far.cosize(), far.at(1)), (2, 1));
    assert_eq!(make_layout_like(far), layout!((1, 2):(0, 1)));
    assert_eq!(refused(try_upcast(far, 2)), LayoutErrorKind::Overflow);
}

#[test]
fn strides_of_0_repeat_and_their_elements_are_one() {
    let a = layout!((4, 3, 2):(1, 0, 4));
    assert_eq!((a.size(), a.cosize()), (24, 8));
    assert_eq!(a.at_coord([3, 2, 1]), 7);
    assert_eq!(filter_zeros(a), layout!((4, 1, 2):(1, 0, 4)));
    assert_eq!(filter(a), layout!(8:1));
    assert_eq!(nullspace(a), layout!(3:4));
    assert_eq!(coalesce(layout!((2, 3, 4):(0, 0, 1))), layout!((6, 4):(0, 1)), "runs of stride 0 join");
    assert_eq!(complement(a, 16), layout!(2:8), "of its image");
    assert_eq!(composition(layout!((4, 2):(2, 1)), layout!((3, 2):(0, 4))), layout!((3, 2):(0, 1)));
    assert_eq!(composition(layout!((4, 8):(0, 1)), layout!(8:2)), layout!((2, 4):(0, 1)));
    assert_eq!(make_layout_like(a), layout!((4, 3, 2):(1, 0, 4)));
    assert_eq!(right_inverse(layout!((2, 8):(0, 1))), layout!(8:2));
    let (left, zero) = (left_inverse(a), a.at_coord([2, 1, 1]));
    assert_eq!(a.at(left.at(zero)), zero);
    assert_eq!(upcast(a, 4), layout!((1, 3, 2):(1, 0, 1)));
    assert_eq!(refused(try_make_layout_tv(layout!(4:0), layout!(2:1))), LayoutErrorKind::Divisibility);
}

/// A layout at capacity: 32 modes of 2 elements in descending strides, none of which joins the
/// next.
fn full() -> Layout {
    let strides: Vec<i64> = (0..32).map(|mode| 1i64 << (32 - mode)).collect();
    Layout::new(IntTuple::flat(&[2; 32]), IntTuple::flat(&strides))
}

#[test]
fn what_does_not_fit_in_a_value_is_refused() {
    use LayoutErrorKind::Capacity;
    let full = full();
    let shape = full.shape();
    assert_eq!((full.leaves(), full.rank()), (32, 32));
    // Tuples.
    assert_eq!(refused(IntTuple::try_flat(&[1; 33])), Capacity);
    assert_eq!(refused(IntTuple::try_tuple(&[shape, IntTuple::int(1)])), Capacity);
    assert_eq!(
        refused(IntTuple::try_tuple(&[tuple!(()); 64])),
        Capacity,
        "64 tuples and the one around them"
    );
    assert_eq!(IntTuple::tuple(&[tuple!(()); 63]).rank(), 63);
    assert_eq!(refused(shape.try_append(tuple!(1))), Capacity);
    assert_eq!(refused(shape.try_prepend(tuple!(1))), Capacity);
    assert_eq!(refused(shape.try_insert(3, tuple!(1))), Capacity);
    assert_eq!(refused(shape.try_replace(3, tuple!((1, 1)))), Capacity);
    assert_eq!(refused(shape.try_select(&[0; 33])), Capacity);
    assert_eq!(refused(shape.try_select(&[0; 1000])), Capacity);
    let nested: IntTuple = tuple(&format!("{}1{}", "(".repeat(60), ")".repeat(60)));
    assert_eq!(nested.depth(), 60);
    let deep = nested.group(0, 1).group(0, 1).group(0, 1);
    assert_eq!(refused(deep.try_group(0, 1)), Capacity, "64 nodes are full");
    // Layouts.
    let one = layout!(1:0);
    assert_eq!(refused(full.try_append(one)), Capacity);
    assert_eq!(refused(full.try_prepend(one)), Capacity);
    assert_eq!(refused(full.try_insert(32, one)), Capacity);
    assert_eq!(refused(full.try_replace(0, layout!((1, 1)))), Capacity);
    assert_eq!(refused(full.try_append_dim(33)), Capacity);
    assert_eq!(refused(full.try_prepend_dim(33)), Capacity);
    assert_eq!(refused(full.try_append_dim(usize::MAX)), Capacity);
    assert_eq!(refused(full.try_select(&[5; 33])), Capacity);
    assert_eq!(refused(Layout::try_concat(&[full, one])), Capacity);
    assert_eq!(refused(Tiler::try_by_mode(&[full.tiler(), Tiler::any()])), Capacity);
    assert_eq!(refused(try_logical_divide(full, tiler!(1:0))), Capacity, "(1, the 32 modes)");
    assert_eq!(refused(try_zipped_divide(full, IntTuple::flat(&[1; 32]).tiler())), Capacity);
    assert_eq!(refused(try_tiled_divide(full, IntTuple::flat(&[1; 32]).tiler())), Capacity);
    assert_eq!(refused(try_flat_divide(full, IntTuple::flat(&[1; 32]).tiler())), Capacity);
    assert_eq!(refused(try_logical_product(full, tiler!(1:0))), Capacity);
    assert_eq!(refused(try_zipped_product(full, tiler!(1:0))), Capacity);
    assert_eq!(refused(try_tiled_product(full, tiler!(1:0))), Capacity);
    assert_eq!(refused(try_flat_product(full, tiler!(1:0))), Capacity);
    assert_eq!(refused(try_blocked_product(full, one)), Capacity);
    assert_eq!(refused(try_raked_product(full, one)), Capacity);
    assert_eq!(refused(try_tile_to_shape(full, shape)), Capacity);
    assert_eq!(
        refused(try_composition(full, layout!((4294967296, 2):(1, 0)))),
        Capacity,
        "32 modes and one more"
    );
    // The digit below the first stride is another mode.
    assert_eq!(refused(try_left_inverse(full)), Capacity);
    // Text.
    let long = format!("({})", ["1"; 33].join(","));
    assert_eq!(refused(long.parse::<IntTuple>()), Capacity);
    assert_eq!(refused(long.parse::<Layout>()), Capacity);
    assert!(matches!(refused("(".repeat(500).parse::<Layout>()), LayoutErrorKind::Parse { column: 61 }));
    // The same operations succeed on half as much.
    let half = full.take(0, 16);
    assert_eq!(logical_divide(half, tiler!(1:0)).leaves(), 17);
    assert_eq!(blocked_product(half, Layout::concat(&[one; 16])).leaves(), 32);
    assert_eq!(coalesce(full), full);
    assert_eq!(full.transpose().leaves(), 32);
    assert_eq!(right_inverse(full), one, "no mode of stride 1");
}

#[test]
fn numbers_beyond_64_bits_are_refused() {
    use LayoutErrorKind::Overflow;
    let most = i64::MAX;
    let int = IntTuple::int;
    let of = |shape: &[i64], stride: &[i64]| Layout::try_new(IntTuple::flat(shape), IntTuple::flat(stride));
    // Sizes and indices of layouts.
    assert_eq!(refused(of(&[1 << 32, 1 << 31], &[1, 0])), Overflow, "the size is 2^63");
    assert_eq!(refused(of(&[3], &[1 << 62])), Overflow, "the last index is 2^63");
    assert_eq!(refused(of(&[3, 2], &[1 << 61, 1 << 62])), Overflow, "the sum of the last indices is 2^63");
    assert_eq!(refused(of(&[2, 2], &[most, 1])), Overflow);
    assert_eq!(refused(of(&[2], &[most])), Overflow, "the cosize is 2^63");
    assert_eq!(refused(of(&[2], &[i64::MIN])), Overflow, "its magnitude does not fit");
    assert_eq!(
        refused(of(&[2, 2], &[-(1 << 62), 1 << 62])),
        Overflow,
        "the sum of the magnitudes does not fit"
    );
    assert_eq!(of(&[2], &[most - 1]).map(|layout| layout.cosize()), Ok(most));
    assert_eq!(of(&[most], &[0]).map(|layout| layout.size()), Ok(most));
    let long = layout!(4611686018427387904:1);
    assert_eq!(refused(Layout::try_concat(&[long, layout!(2:0)])), Overflow);
    assert_eq!(refused(long.try_append(layout!(2:1))), Overflow);
    assert_eq!(refused(try_make_col_major(tuple("(4294967296,4294967296)"))), Overflow);
    assert_eq!(refused(try_make_row_major(tuple("(4294967296,4294967296)"))), Overflow);
    assert_eq!(refused(try_make_ordered_layout(tuple("(4294967296,4294967296)"), tuple!((1, 0)))), Overflow);
    assert_eq!(refused(try_identity_layout(tuple("(4294967296,4294967296)"))), Overflow);
    assert_eq!(refused(format!("{}0", i64::MAX).parse::<IntTuple>()), LayoutErrorKind::Parse { column: 1 });
    assert_eq!(i64::MIN.to_string().parse(), Ok(int(i64::MIN)));
    // Evaluation.
    let wide = layout!((4, 4):(1, 1000000000000));
    assert_eq!(refused(try_crd2idx(wide, int(most))), Overflow);
    assert_eq!(refused(try_slice_offset(wide, IntTuple::tuple(&[IntTuple::any(), int(most)]))), Overflow);
    // Operations.
    assert_eq!(refused(try_composition(layout!(2:4611686018427387904), layout!(2:2))), Overflow);
    assert_eq!(refused(try_composition(layout!((2, 2):(1, 4)), layout!(2:4611686018427387904))), Overflow);
    let least = of(&[2, 1], &[0, i64::MIN]).unwrap();
    assert_eq!(refused(try_composition(least, layout!(3:1))), LayoutErrorKind::Divisibility, "0, 0, -2^63");
    assert_eq!(
        try_complement(layout!(3:1), most).map(|rest| rest.cosize()),
        Ok(most),
        "its last period fits"
    );
    assert_eq!(refused(tiler!(((4294967296, 4294967296), 3)).try_tile_shape()), LayoutErrorKind::Overflow);
    assert_eq!(
        refused(try_complement(layout!((2, 2):(4611686018427387904, 1)), 9)),
        Overflow,
        "it ends at 2^63"
    );
    assert_eq!(refused(try_logical_product(long, tiler!(2:1))), Overflow);
    assert_eq!(refused(try_blocked_product(long, layout!(2))), Overflow);
    assert_eq!(refused(try_downcast(long, 2)), Overflow);
    assert_eq!(refused(try_downcast(layout!(2:4611686018427387904), 2)), Overflow);
    assert_eq!(refused(try_recast(long, 64, 8)), Overflow);
    assert_eq!(refused(try_domain_distribute(tuple("(4294967296,4294967296)"), 4)), Overflow);
    // Tuples.
    assert_eq!(refused(try_product(tuple("(4294967296,2147483648)"))), Overflow);
    assert_eq!(refused(try_product_each(tuple("((4294967296,2147483648),2)"))), Overflow);
    assert_eq!(refused(try_inner_product(tuple!((3, 1)), IntTuple::flat(&[most, 0]))), Overflow);
    assert_eq!(refused(try_inner_product(tuple!((1, 1)), IntTuple::flat(&[most, 1]))), Overflow);
    assert_eq!(refused(try_prefix_product(tuple("(4294967296,2147483648,2)"))), Overflow);
    assert_eq!(refused(try_compact_col_major(tuple("(4294967296,2147483648)"))), Overflow);
    assert_eq!(refused(try_crd2crd_from(IntTuple::flat(&[0, most]), tuple!((2, 2)), tuple!(4))), Overflow);
    assert_eq!(increment(int(most - 1), int(most)), int(most), "the last extent counts as unbounded");
    assert_eq!(refused(try_increment(int(most), int(most))), Overflow);
    assert!(
        weakly_compatible(int(-1), int(i64::MIN)),
        "the remainder is 0 although the quotient does not fit"
    );
    assert_eq!(refused(IntTuple::flat(&[i64::MIN, -1]).try_size()), Overflow);
}

#[test]
fn swizzled_layouts_count_what_the_swizzle_reaches() {
    use LayoutErrorKind::Overflow;
    let far = Swizzle::new(1, 59, 3);
    // 2^59 is below 2^62, the bit that would change it; nothing below moves.
    let huge = ComposedLayout::new(far, 0, layout!(1152921504606846976:1));
    assert_eq!(huge.cosize(), 1152921504606846976);
    let up = Swizzle::new(1, 0, -62);
    assert_eq!(ComposedLayout::new(up, 0, layout!(2:1)).cosize(), (1 << 62) + 2, "index 1 moves to 2^62 + 1");
    assert_eq!(refused(ComposedLayout::try_new(Swizzle::NONE, i64::MAX, layout!(1))), Overflow);
    assert_eq!(refused(ComposedLayout::try_new(Swizzle::NONE, i64::MAX - 1, layout!(2:-1))), Overflow);
    assert_eq!(
        refused(ComposedLayout::try_new(up, (1 << 62) - 1, layout!((2, 2):(1, 4611686018427387902)))),
        Overflow
    );
    assert_eq!(refused(ComposedLayout::try_new(Swizzle::NONE, 0, layout!(2:-1))), LayoutErrorKind::Range);
    let last = ComposedLayout::new(Swizzle::NONE, i64::MAX - 4, layout!(4:1));
    assert_eq!(refused(last.try_slice(IntTuple::int(5))), Overflow);
    assert_eq!(refused(last.try_downcast(2)), Overflow);
}

#[test]
fn a_mode_that_is_not_there_is_named_as_it_was_asked_for() {
    let a = layout!((2, 3, 4));
    for (error, says) in [
        (a.try_remove(3), "there is no mode 3; the rank is 3"),
        (a.try_replace(7, a), "there is no mode 7;"),
        (a.try_select(&[0, 3]), "there is no mode 3;"),
        (a.try_remove(usize::MAX), "there is no mode 18446744073709551615;"),
        (a.try_insert(usize::MAX, a), "there is no mode 18446744073709551615;"),
        (a.try_select(&[usize::MAX]), "there is no mode 18446744073709551615;"),
        (try_mode(a, 3), "there is no mode 3;"),
        (a.try_take(2, 1), "there are no modes 2..1;"),
        (a.try_take(2, 4), "there are no modes 2..4;"),
        (a.try_group(3, 4), "there are no modes 3..4;"),
    ] {
        let error = error.unwrap_err();
        assert_eq!(error.kind(), LayoutErrorKind::Range);
        assert!(error.text().contains(says), "{error}");
    }
    assert_eq!(a.take(3, 3), EMPTY, "an empty range is one");
}

/// Integers at the limits, and small ones that cause errors among them.
fn edge() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => -3i64..=9,
        2 => (0u32..63).prop_map(|bit| 1i64 << bit),
        2 => (1u32..63).prop_map(|bit| (1i64 << bit) - 1),
        1 => (0u32..63).prop_map(|bit| -(1i64 << bit)),
        1 => prop::sample::select(vec![i64::MIN, i64::MIN + 1, i64::MAX, i64::MAX - 1]),
        1 => any::<i64>(),
    ]
}

/// Modes of a coordinate, mostly flat.
fn basis() -> impl Strategy<Value = Basis> {
    prop_oneof![
        2 => (0usize..4).prop_map(|index| Basis::new(&[index])),
        1 => prop::collection::vec(0usize..3, 1..=MAX_BASIS_DEPTH).prop_map(|path| Basis::new(&path)),
        1 => prop::collection::vec(0..MAX_BASIS, 1..=MAX_BASIS_DEPTH).prop_map(|path| Basis::new(&path)),
    ]
}

fn edge_tuple() -> impl Strategy<Value = IntTuple> {
    let leaf = prop_oneof![
        20 => edge().prop_map(IntTuple::int),
        1 => Just(IntTuple::any()),
        1 => (edge(), basis()).prop_map(|(value, basis)| IntTuple::along(value, basis)),
        1 => Just(tuple!(())),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop::collection::vec(inner, 0..=4).prop_map(|elements| IntTuple::tuple(&elements))
    })
}

/// Layouts of at most 12 modes, with extents and strides up to the limits.
fn edge_layout() -> impl Strategy<Value = Layout> {
    let extent = prop_oneof![
        3 => Just(1i64),
        8 => 2i64..=9,
        3 => (1u32..40).prop_map(|bit| 1i64 << bit),
        1 => 1i64..=i64::MAX,
    ];
    let stride = prop_oneof![
        20 => edge().prop_map(IntTuple::int),
        1 => (1i64..5, basis()).prop_map(|(value, basis)| IntTuple::along(value, basis)),
    ];
    (prop::collection::vec((extent, stride), 1..=12), any::<bool>()).prop_filter_map(
        "too large",
        |(modes, is_tuple)| {
            let shape: Vec<IntTuple> = modes.iter().map(|&(extent, _)| IntTuple::int(extent)).collect();
            let stride: Vec<IntTuple> = modes.iter().map(|&(_, stride)| stride).collect();
            if is_tuple {
                Layout::try_new(IntTuple::tuple(&shape), IntTuple::tuple(&stride)).ok()
            } else {
                Layout::try_new(shape[0], stride[0]).ok()
            }
        },
    )
}

/// Invariants of a returned layout: its size, its cosize and its last index fit.
fn sound(result: Result<Layout, LayoutError>) -> Result<(), TestCaseError> {
    let Ok(layout) = result else { return Ok(()) };
    prop_assert_eq!(Layout::try_new(layout.shape(), layout.stride()), Ok(layout));
    prop_assert!(layout.size() >= 1, "{layout}");
    // Only layouts with strides along basis vectors may lack a cosize: of a size that exceeds 64
    // bits, or beside integers.
    match layout.try_cosize() {
        Ok(cosize) => prop_assert!(cosize >= 1, "{layout}"),
        Err(error) => prop_assert!(layout.is_coordinate(), "{error}"),
    }
    if let (Ok(last), Ok(shape)) =
        (try_coordinate_of(layout, IntTuple::int(layout.size() - 1)), try_coshape(layout))
    {
        prop_assert!(congruent(last, shape) && elem_less(last, shape), "{layout}: {last} in {shape}");
    }
    if !layout.is_coordinate() {
        prop_assert!(layout.at(layout.size() - 1) < layout.cosize(), "{layout}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, max_global_rejects: 1 << 20, ..ProptestConfig::default() })]

    #[test]
    fn no_tuple_makes_an_operation_panic(a in edge_tuple(), b in edge_tuple(), n in edge(), index in 0usize..6) {
        let _ = (try_product(a), try_product_each(a), try_inner_product(a, b), a.try_size());
        let _ = (try_prefix_product(a), try_prefix_product_from(a, b));
        let _ = (try_compact_col_major(a), try_compact_row_major(a), try_compact_order(a, b));
        let _ = (try_shape_div(a, b), try_ceil_div(a, b), try_ceil_div(a, IntTuple::int(n)));
        let _ = (try_idx2crd(n, a), try_idx2crd_strided(n, a, b), try_crd2crd(a, b), try_crd2crd_from(a, b, b));
        let _ = (try_increment(a, a), try_increment(a, b), try_crd2crd(IntTuple::int(n), b));
        let _ = (compatible(a, b), weakly_compatible(a, b), congruent(a, b), weakly_congruent(a, b));
        let _ = (elem_less(a, b), colex_less(a, b), lex_less(a, b));
        let _ = (a.try_append(b), a.try_prepend(b), a.try_insert(index, b), a.try_remove(index));
        let _ = (a.try_replace(index, b), a.try_take(index, 3), a.try_group(index, 3), a.try_select(&[index, 0]));
        let _ = (a.try_unflatten(b), a.flatten(), Tiler::try_shape(a));
        sound(Layout::try_new(a, b))?;
        sound(Layout::try_new(a, a))?;
        sound(try_make_col_major(a))?;
        sound(try_make_row_major(a))?;
        sound(try_make_ordered_layout(a, b))?;
        sound(try_identity_layout(a))?;
        sound(try_domain_distribute(a, n))?;
        prop_assert_eq!(a.to_string().parse(), Ok(a));
    }

    #[test]
    fn no_layout_makes_an_operation_panic(
        a in edge_layout(), b in edge_layout(), shape in edge_tuple(), n in edge(), index in 0usize..6
    ) {
        prop_assert_eq!(a.to_string().parse(), Ok(a));
        for result in [
            try_coalesce(a), try_filter(a), try_filter_zeros(a), try_coalesce_profile(a, shape),
            try_filter_profile(a, shape), try_composition(a, b), try_complement(a, n), try_right_inverse(a),
            try_left_inverse(a), try_nullspace(a), try_max_common_layout(a, b), try_make_layout_like(a),
            try_logical_divide(a, b.tiler()), try_logical_product(a, b.tiler()), try_blocked_product(a, b),
            try_raked_product(a, b), try_tile_to_shape(a, shape), try_tile_to_shape_ordered(a, shape, b.stride()),
            try_upcast(a, n), try_downcast(a, n), try_recast(a, n, 8), try_slice(a, shape), try_dice(a, shape),
            a.try_with_shape(shape), a.try_append(b), a.try_prepend(b), a.try_insert(index, b), a.try_remove(index),
            a.try_replace(index, b), a.try_take(index, 3), a.try_group(index, 3), a.try_select(&[index, 0]),
            a.try_transpose(), a.try_append_dim(index), a.try_prepend_dim(index), Layout::try_concat(&[a, b, a]),
            try_make_layout_tv(a, b).map(|tv| tv.layout),
        ] {
            sound(result)?;
        }
        if let Ok(tiler) = Tiler::try_shape(shape) {
            for result in [
                try_composition_tiler(a, tiler), try_logical_divide(a, tiler), try_zipped_divide(a, tiler),
                try_tiled_divide(a, tiler), try_flat_divide(a, tiler), try_logical_product(a, tiler),
                try_zipped_product(a, tiler), try_tiled_product(a, tiler), try_flat_product(a, tiler),
            ] {
                sound(result)?;
            }
        }
        let _ = (try_max_common_vector(a, b), try_crd2idx(a, shape), try_crd2idx(a, IntTuple::int(n)));
        let _ = (try_slice_offset(a, shape), try_slice_and_offset(a, shape), try_slice_coordinate(a, shape));
        let _ = (try_coordinate_of(a, shape), try_coshape(a), a.along(index), a.try_coordinate::<2>(n));
    }

    #[test]
    fn no_swizzled_layout_makes_an_operation_panic(
        a in edge_layout(), b in edge_layout(), swizzle in (0i64..5, 0i64..60, -62i64..63), n in edge(),
        shape in edge_tuple(),
    ) {
        let Ok(swizzle) = Swizzle::try_new(swizzle.0, swizzle.1, swizzle.2) else { return Ok(()) };
        let Ok(composed) = ComposedLayout::try_new(swizzle, n, a) else { return Ok(()) };
        for result in [
            Ok(composed), composed.try_composition(b), composed.try_logical_divide(b.tiler()),
            composed.try_tile_to_shape(shape), composed.try_slice(shape), composed.try_upcast(n),
            composed.try_downcast(n), composed.try_recast(n, 8), composed.try_recast(8, 16),
            composed.try_mode(1), try_composition_swizzled(b, composed),
        ] {
            let Ok(result) = result else { continue };
            prop_assert!(result.cosize() > 0, "{result}");
            prop_assert!(result.at(result.size() - 1) < result.cosize(), "{result}");
        }
    }

    #[test]
    fn the_cosize_of_a_swizzled_layout_is_its_largest_index_and_one(
        bits in 0i64..4, base in 0i64..5, shift in -6i64..6, offset in 0i64..40, size in 1i64..1000
    ) {
        let Ok(swizzle) = Swizzle::try_new(bits, base, shift) else { return Ok(()) };
        let composed = ComposedLayout::new(swizzle, offset, Layout::new(IntTuple::int(size), tuple!(1)));
        let largest = (0..offset + size).map(|index| swizzle.apply(index)).max().unwrap();
        prop_assert_eq!(composed.cosize(), largest + 1, "{}", composed);
    }
}

#[test]
fn products_of_integer_modes_keep_every_copy() {
    // The free offsets of 4:2 are (2,2):(1,8): the copies over the integer mode are two modes in
    // one operand.
    assert_eq!(blocked_product(layout!(4:2), layout!(4:1)), layout!(((4, (2, 2)),):((2, (1, 8)),)));
    assert_eq!(raked_product(layout!(4:2), layout!(4:1)), layout!((((2, 2), 4),):(((1, 8), 2),)));
    assert_eq!(blocked_product(layout!((4,):(2,)), layout!(4:1)).size(), 16);
}

#[test]
fn products_beyond_the_gaps_of_a_block_continue_behind_it() {
    let block = layout!((2, 2):(3, 8));
    assert_eq!(logical_product(block, tiler!(6:1)), layout!(((2, 2), (3, 2)):((3, 8), (1, 16))));
    // Three offsets are between the elements; the fourth, after them, is not one step further.
    let error = try_logical_product(block, tiler!(4:1)).unwrap_err();
    assert_eq!(error.kind(), LayoutErrorKind::Divisibility, "{error}");
    assert!(error.text().contains("(2,2):(3,8)"), "{error}");
    assert!(try_tile_to_shape(layout!((4, 4):(3, 16)), tuple!((8, 8))).is_err());
    // A block whose gaps no stride divides: its copies come only after it.
    assert_eq!(
        logical_product(layout!((2, 2, 2):(1, 3, 11)), tiler!(2:1)),
        layout!(((2, 2, 2), 2):((1, 3, 11), 22))
    );
}

#[test]
fn a_swizzle_that_cannot_be_recast_says_why() {
    let bytes = ComposedLayout::new(Swizzle::new(1, 0, -2), 0, layout!(8:1));
    let hidden = bytes.try_upcast(2).unwrap_err();
    assert!(
        hidden.text().contains("Sw<1,0,-2>") && hidden.text().contains("within one element of 2"),
        "{hidden}"
    );
    let power = bytes.try_upcast(3).unwrap_err();
    assert!(power.text().contains("power of two"), "{power}");
    let high = ComposedLayout::new(Swizzle::new(1, 60, 2), 0, layout!(1:0));
    let beyond = high.try_downcast(4).unwrap_err();
    assert!(beyond.text().contains("beyond bit 62"), "{beyond}");
}

#[test]
fn one_mode_gets_the_parts_of_a_downcast() {
    assert_eq!(downcast(layout!((2, 3):(1, 1)), 2), layout!((4, 3):(1, 2)));
    assert_eq!(downcast(layout!((1, 6):(0, 1)), 2), layout!((1, 12):(0, 1)));
    assert_eq!(downcast(layout!((1, 6):(1, 2)), 2), layout!((2, 6):(1, 4)));
    // CuTe's form, which repeats elements, and the fix.
    assert_eq!(downcast(layout!((1, 6):(1, 1)), 2), layout!((2, 12):(1, 1)));
    assert_eq!(downcast(coalesce(layout!((1, 6):(1, 1))), 2), layout!(12:1));
}

#[test]
fn a_recast_that_would_leave_elements_out_is_refused() {
    let apart = try_downcast(layout!(4:2), 2).unwrap_err();
    assert!(apart.text().ends_with("a mode 1:1 appended would work"), "{apart}");
    assert_eq!(downcast(layout!((4):(2)).append(layout!(1:1)), 2), layout!((4, 2):(4, 1)));
    assert_eq!(downcast(layout!(4:2), 1), layout!(4:2), "elements of the same size");
    let backwards = try_downcast(layout!(4:-1), 2).unwrap_err();
    assert!(backwards.text().contains("the stride -1 runs backwards"), "{backwards}");
    let backwards = try_upcast(layout!(8:-2), 4).unwrap_err();
    assert!(backwards.text().contains("the stride -2 runs backwards"), "{backwards}");
    assert_eq!(upcast(layout!(8:-4), 4), layout!(8:-1), "whole elements, in whichever order");
    // 2 * 2 + 3 = 7 is in the second element of 6, which neither mode reaches alone.
    let carry = try_upcast(layout!((3, 2):(2, 3)), 6).unwrap_err();
    assert!(carry.text().contains("sum to 7 within an element of 6"), "{carry}");
    assert_eq!(upcast(layout!((2, 2):(2, 3)), 6), layout!((1, 1):(1, 1)), "5 is still in the first");
}

#[test]
fn a_left_inverse_is_refused_for_the_true_reason() {
    let apart = try_left_inverse(layout!((2, 2):(2, 3))).unwrap_err();
    assert!(apart.text().contains("the stride 3 is not a multiple of the next smaller stride 2"), "{apart}");
    assert!(
        apart.text().ends_with("; each stride must be a multiple of what those before it reach"),
        "{apart}"
    );
    for stride in [4, 6, 8] {
        let a = Layout::new(tuple!((2, 2)), IntTuple::flat(&[2, stride]));
        assert_eq!(left_inverse(a).at(a.at(3)), 3);
    }
    let twice = try_left_inverse(layout!((4, 4):(1, 2))).unwrap_err();
    assert_eq!(twice.kind(), LayoutErrorKind::NotInjective, "{twice}");
}

#[test]
fn a_composition_is_refused_in_terms_of_its_operands() {
    let error = try_composition(layout!((4, 12):(2, 4)), layout!(3:3)).unwrap_err();
    assert!(error.text().contains("the stride 3 neither divides nor is divided by the extent 4"), "{error}");
    let error = try_composition(layout!((4, 4, 6):(1, 10, 100)), layout!(20:1)).unwrap_err();
    assert!(error.text().contains("the extent 20 is not a multiple of 16"), "{error}");
}
