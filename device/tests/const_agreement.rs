//! Constant and run-time evaluation agree: each operation runs on the same operands as a constant,
//! and at run time on operands that the compiler does not know.

use moye_device::layout::*;
use std::fmt::Debug;
use std::hint::black_box;

/// `type = operation(operands)` for each, as a constant and at run time.
macro_rules! agree {
    ($($type:ty = $operation:path, ($($operand:expr),*);)+) => { $({
        const CONSTANT: $type = $operation($($operand),*);
        let at_run_time: $type = $operation($(black_box($operand)),*);
        assert_eq!(CONSTANT, at_run_time, "{}", stringify!($operation));
    })+ };
}

const NESTED: Layout = layout!((4, (2, 2), 3):(2, (1, 8), 0));
const BLOCK: Layout = layout!((2, 5):(5, 1));
const MATRIX: Layout = layout!((128, 64):(64, 1));
const TILES: Tiler = tiler!((3:5, 4:6));
const BY_TILE: Tiler = tiler!((32, (4, 4):(1, 8)));
const SMEM: ComposedLayout = ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((8, 64):(64, 1)));
const SHAPE: IntTuple = tuple!((4, (2, 3), 5));
type Answer = Result<Layout, LayoutError>;

#[test]
fn constants_are_what_the_run_time_computes() {
    agree! {
        // Layouts from shapes.
        TvLayout = make_layout_tv, (layout!((32, 8):(8, 1)), layout!((4, 8):(8, 1)));
        // Their properties.
        i64 = Layout::at, (&NESTED, 37);
        i64 = Layout::at_coord::<3>, (&NESTED, [3, 2, 1]);
        [i64; 3] = Layout::coordinate::<3>, (&identity_layout(tuple!((4, 6, 5))), 77);
        i64 = Layout::size, (&NESTED);
        usize = Layout::rank, (&NESTED);
        usize = Layout::depth, (&NESTED);
        IntTuple = Layout::shape, (&NESTED);
        IntTuple = Layout::stride, (&NESTED);
        // Functions of layouts.
        Layout = composition, (layout!((2, 2, 2):(1, 3, 5)), layout!((2, 2):(1, 2)));
        Layout = composition_tiler, (layout!((12, (4, 8)):(59, (13, 1))), tiler!((3:4, 8:2)));
        Layout = composition, (identity_layout(tuple!((16, 32))), layout!(((4, 8), 4):((64, 1), 16)));
        Layout = domain_distribute, (tuple!((15, 14)), 6);
        Layout = recast, (layout!((8, 4)), 16, 32);
        Layout = logical_divide, (MATRIX, BY_TILE);
        Layout = zipped_divide, (identity_layout(tuple!((4096, 4096))), tiler!((128, 64)));
        Layout = logical_product, (BLOCK, TILES);
        Layout = raked_product, (BLOCK, layout!((3, 4)));
        Layout = tile_to_shape_ordered, (layout!((2, 3)), tuple!((4, 9)), tuple!((2, 1)));
        // Edits.
        Layout = Layout::flatten, (&NESTED);
        // Swizzles and layouts under them.
        i64 = Swizzle::apply, (&Swizzle::new(3, 4, 3), 0x1234);
        Result<Swizzle, LayoutError> = Swizzle::try_upcast, (&Swizzle::new(3, 4, 3), 2);
        Result<Swizzle, LayoutError> = Swizzle::try_downcast, (&Swizzle::new(3, 4, 3), 2);
        i64 = ComposedLayout::at_coord::<2>, (&SMEM, [5, 17]);
        i64 = ComposedLayout::cosize, (&SMEM);
        ComposedLayout = ComposedLayout::blocked_product, (SMEM, layout!((2, 2)));
        ComposedLayout = ComposedLayout::recast, (SMEM, 16, 32);
        ComposedLayout = composition_swizzled, (layout!((8, 8):(8, 1)), ComposedLayout::new(Swizzle::new(2, 0, 3), 0, layout!(64:1)));
        Swizzle = Swizzle::composition, (Swizzle::new(1, 5, 3), Swizzle::new(1, 4, 3));
        ComposedLayout = ComposedLayout::composition_swizzled, (ComposedLayout::new(Swizzle::new(1, 1, 2), 16, layout!((4, 4):(4, 1))), ComposedLayout::new(Swizzle::new(1, 0, -2), 0, layout!(16:1)));
        Layout = ComposedLayout::max_common_layout, (SMEM, ComposedLayout::plain(layout!((8, 64):(64, 1))));
        ComposedLayout = shared_memory_atom, (Major::K, SwizzleBytes::B128, 16);
        // Tuples.
        IntTuple = IntTuple::select, (SHAPE, &[1, 0]);
        IntTuple = IntTuple::flatten, (&SHAPE);
        // Text.
        Answer = Layout::parse, ("((4,8),(2,2,16)):((128,1),(64,8,256))");
        Result<Tiler, LayoutError> = Tiler::parse, ("(4:2,_,(2,2))");
        Result<ComposedLayout, LayoutError> = ComposedLayout::parse, ("Sw<3,3,3> o 8 o (8,64)");
        // Errors: the same kind, text and column.
        Answer = Layout::parse, ("(4,(2,0)):(1,(4,8))");
    }
}

/// Cases of operands for each operation below.
const COUNT: usize = 36;

/// Nested, with extents of 1, strides of 0, gaps, negative strides, strides along basis vectors,
/// and values near the limits of i64.
const LAYOUTS: &[Layout] = &[
    layout!(1:0),
    layout!(()),
    layout!(8:1),
    layout!(7:3),
    layout!(4:0),
    layout!((6, 2):(8, 2)),
    layout!((4, 6):(1, 10)),
    layout!((8, 8):(8, 1)),
    layout!((2, 2):(1, 3)),
    layout!((1, 4, 1):(5, 1, 7)),
    layout!((4, (2, 2), 3):(2, (1, 8), 0)),
    layout!(((2, 3), (1, (4, 2))):((1, 2), (9, (6, 24)))),
    layout!(((4, 8), (2, 2, 16)):((128, 1), (64, 8, 256))),
    layout!((4, 4):(1, 2)),
    layout!((3, 5):(-5, 1)),
    layout!((4, (2, 3)):(1@0, (1@1, 2@1))),
    layout!((4, (2, 3)):(1@0, (1@0@1, 1@1@1))),
    layout!((4, 2):(1@0, 1)),
    layout!((2, (3, 4)):(3@1, (1@0@0, 0))),
    layout!(((2, 2), 3):((6, 3), 1)),
    layout!((2, (1, 1), 3):(1, (2, 4), 2)),
    layout!((64, 64):(1, 72)),
    layout!((2, 2305843009213693952):(0, 1)),
];
const TUPLES: &[IntTuple] = &[
    tuple!(6),
    tuple!(()),
    tuple!((4, 6)),
    tuple!((1, 1)),
    tuple!((4, (2, 3), 5)),
    tuple!((3, (1, 2), 4)),
    tuple!(((2, 2), (1, (3, 1)))),
    tuple!((0, 0)),
    tuple!((2, _)),
    tuple!((1@0, 1@1)),
    tuple!((2@0, (1@0@1, 1@1@1))),
    tuple!((0, 1)),
    tuple!((4294967296, 4294967296)),
];
const TILERS: &[Tiler] = &[
    tiler!(4:1),
    tiler!((2, 2):(1, 4)),
    tiler!((2, 2)),
    tiler!((2:1, 4:2)),
    tiler!((_, 2)),
    tiler!(3:3),
    tiler!((2, (1, 2))),
    tiler!(((2, 1), _)),
    tiler!(1:0),
    tiler!((2, 2, 2)),
    tiler!((4:0, 3)),
];
const SWIZZLED: &[ComposedLayout] = &[
    SMEM,
    ComposedLayout::new(Swizzle::NONE, 4, layout!((4, 6):(1, 10))),
    ComposedLayout::new(Swizzle::new(1, 0, 2), 0, layout!((4, (2, 2)):(4, (1, 2)))),
    ComposedLayout::new(Swizzle::new(2, 0, -3), 8, layout!((4, 4):(16, 1))),
];
const NUMBERS: &[i64] = &[0, 1, 2, 3, 4, 7, 24, 1000, -1, i64::MAX];
const INDICES: &[usize] = &[0, 1, 2, 5];

/// The operand of a case. Each list advances at its own pace, so that operands meet in many pairs.
const fn of<T: Copy>(list: &[T], case: usize, pace: usize) -> T {
    list[(case * pace + case / list.len()) % list.len()]
}

/// `type = operation(lists of operands)`: for each case of operands, as a constant and at run time.
macro_rules! agree_over {
    ($($type:ty = $operation:path, ($($operands:ident by $pace:literal),+);)+) => { $({
        const CONSTANT: [$type; COUNT] = {
            let mut all = [$operation($(of($operands, 0, $pace)),+); COUNT];
            let mut case = 1;
            while case < COUNT {
                all[case] = $operation($(of($operands, case, $pace)),+);
                case += 1;
            }
            all
        };
        each_is(stringify!($operation), &CONSTANT, |case| {
            $operation($(of(black_box($operands), black_box(case), $pace)),+)
        });
    })+ };
}

fn each_is<T: PartialEq + Debug>(operation: &str, constants: &[T], at_run_time: impl Fn(usize) -> T) {
    for (case, constant) in constants.iter().enumerate() {
        assert_eq!(*constant, at_run_time(case), "{operation} of case {case}");
    }
}

type Number = Result<i64, LayoutError>;
type TupleAnswer = Result<IntTuple, LayoutError>;
type Swizzling = Result<ComposedLayout, LayoutError>;

/// Wraps operations that take their operands by reference or in a slice to take them by value.
macro_rules! by_value {
    ($($name:ident($($arg:ident: $type:ty),+) -> $out:ty = $body:expr;)+) => {
        $(const fn $name($($arg: $type),+) -> $out {
            $body
        })+
    };
}

by_value! {
    flat_coordinate(layout: Layout, index: i64) -> Result<[i64; 2], LayoutError> = layout.try_coordinate(index);
    cosize(layout: Layout) -> Number = layout.try_cosize();
    along(layout: Layout, basis: usize) -> Layout = layout.along(basis);
    extent(layout: Layout, index: usize) -> Number = layout.try_extent(index);
    selection_of(layout: Layout, first: usize, second: usize) -> Answer = layout.try_select(&[first, second]);
    concatenated(a: Layout, b: Layout) -> Answer = Layout::try_concat(&[a, b, a]);
    thread_value_coordinates_of(threads: Layout, values: Layout) -> Answer = match try_make_layout_tv(threads, values) {
        Ok(tv) => tv.try_coordinates(),
        Err(error) => Err(error),
    };
    leaf(tuple: IntTuple, index: usize) -> Result<Leaf, LayoutError> = tuple.try_leaf(index);
    tuple_mode(tuple: IntTuple, index: usize) -> TupleAnswer = tuple.try_mode(index);
    value(tuple: IntTuple) -> Number = tuple.try_value();
    size(tuple: IntTuple) -> Number = tuple.try_size();
}

#[test]
#[allow(long_running_const_eval)]
fn operations_on_layouts_agree_case_by_case() {
    agree_over! {
        Answer = try_make_layout, (TUPLES by 1, TUPLES by 2);
        Answer = try_make_col_major, (TUPLES by 1);
        Answer = try_make_row_major, (TUPLES by 1);
        Answer = try_make_ordered_layout, (TUPLES by 1, TUPLES by 3);
        Answer = try_make_layout_like, (LAYOUTS by 1);
        Answer = try_identity_layout, (TUPLES by 1);
        Result<TvLayout, LayoutError> = try_make_layout_tv, (LAYOUTS by 1, LAYOUTS by 2);
        Number = try_crd2idx, (LAYOUTS by 1, TUPLES by 1);
        TupleAnswer = try_coordinate_of, (LAYOUTS by 1, TUPLES by 1);
        Result<[i64; 2], LayoutError> = flat_coordinate, (LAYOUTS by 1, NUMBERS by 1);
        TupleAnswer = try_coshape, (LAYOUTS by 1);
        Number = cosize, (LAYOUTS by 1);
        Layout = along, (LAYOUTS by 1, INDICES by 1);
        Answer = thread_value_coordinates_of, (LAYOUTS by 1, LAYOUTS by 2);
        Number = extent, (LAYOUTS by 1, INDICES by 1);
        Answer = try_mode, (LAYOUTS by 1, INDICES by 1);
        Answer = try_slice, (LAYOUTS by 1, TUPLES by 1);
        Answer = try_dice, (LAYOUTS by 1, TUPLES by 1);
        Number = try_slice_offset, (LAYOUTS by 1, TUPLES by 1);
        TupleAnswer = try_slice_coordinate, (LAYOUTS by 1, TUPLES by 1);
        Result<(Layout, i64), LayoutError> = try_slice_and_offset, (LAYOUTS by 1, TUPLES by 1);
        Answer = try_coalesce, (LAYOUTS by 1);
        Answer = try_coalesce_profile, (LAYOUTS by 1, TUPLES by 1);
        Answer = try_filter, (LAYOUTS by 1);
        Answer = try_filter_profile, (LAYOUTS by 1, TUPLES by 1);
        Answer = try_filter_zeros, (LAYOUTS by 1);
        Answer = try_composition, (LAYOUTS by 1, LAYOUTS by 3);
        Answer = try_composition_tiler, (LAYOUTS by 1, TILERS by 1);
        Swizzling = try_composition_swizzled, (LAYOUTS by 1, SWIZZLED by 1);
        Answer = try_complement, (LAYOUTS by 1, NUMBERS by 1);
        Answer = try_right_inverse, (LAYOUTS by 1);
        Answer = try_left_inverse, (LAYOUTS by 1);
        Answer = try_nullspace, (LAYOUTS by 1);
        Answer = try_max_common_layout, (LAYOUTS by 1, LAYOUTS by 2);
        Number = try_max_common_vector, (LAYOUTS by 1, LAYOUTS by 2);
        Answer = try_domain_distribute, (TUPLES by 1, NUMBERS by 1);
        Answer = try_upcast, (LAYOUTS by 1, NUMBERS by 1);
        Answer = try_downcast, (LAYOUTS by 1, NUMBERS by 1);
        Answer = try_recast, (LAYOUTS by 1, NUMBERS by 1, NUMBERS by 3);
        Answer = try_logical_divide, (LAYOUTS by 1, TILERS by 1);
        Answer = try_zipped_divide, (LAYOUTS by 1, TILERS by 1);
        Answer = try_tiled_divide, (LAYOUTS by 1, TILERS by 1);
        Answer = try_flat_divide, (LAYOUTS by 1, TILERS by 1);
        Answer = try_logical_product, (LAYOUTS by 1, TILERS by 1);
        Answer = try_zipped_product, (LAYOUTS by 1, TILERS by 1);
        Answer = try_tiled_product, (LAYOUTS by 1, TILERS by 1);
        Answer = try_flat_product, (LAYOUTS by 1, TILERS by 1);
        Answer = try_blocked_product, (LAYOUTS by 1, LAYOUTS by 3);
        Answer = try_raked_product, (LAYOUTS by 1, LAYOUTS by 3);
        Answer = try_tile_to_shape, (LAYOUTS by 1, TUPLES by 1);
        Answer = try_tile_to_shape_ordered, (LAYOUTS by 1, TUPLES by 1, TUPLES by 1);
        Answer = Layout::try_append, (LAYOUTS by 1, LAYOUTS by 3);
        Answer = Layout::try_prepend, (LAYOUTS by 1, LAYOUTS by 3);
        Answer = Layout::try_append_dim, (LAYOUTS by 1, INDICES by 1);
        Answer = Layout::try_prepend_dim, (LAYOUTS by 1, INDICES by 1);
        Answer = Layout::try_insert, (LAYOUTS by 1, INDICES by 1, LAYOUTS by 3);
        Answer = Layout::try_remove, (LAYOUTS by 1, INDICES by 1);
        Answer = Layout::try_replace, (LAYOUTS by 1, INDICES by 1, LAYOUTS by 3);
        Answer = Layout::try_take, (LAYOUTS by 1, INDICES by 1, INDICES by 3);
        Answer = Layout::try_group, (LAYOUTS by 1, INDICES by 1, INDICES by 3);
        Answer = selection_of, (LAYOUTS by 1, INDICES by 1, INDICES by 3);
        Answer = concatenated, (LAYOUTS by 1, LAYOUTS by 3);
        Answer = Layout::try_transpose, (LAYOUTS by 1);
        Answer = Layout::try_with_shape, (LAYOUTS by 1, TUPLES by 1);
    }
}

#[test]
#[allow(long_running_const_eval)]
fn operations_on_swizzled_layouts_agree_case_by_case() {
    agree_over! {
        Number = ComposedLayout::try_crd2idx, (SWIZZLED by 1, TUPLES by 1);
        Swizzling = ComposedLayout::try_slice, (SWIZZLED by 1, TUPLES by 1);
        Swizzling = ComposedLayout::try_coalesce, (SWIZZLED by 1);
        Swizzling = ComposedLayout::try_coalesce_profile, (SWIZZLED by 1, TUPLES by 1);
        Swizzling = ComposedLayout::try_filter, (SWIZZLED by 1);
        Swizzling = ComposedLayout::try_composition_tiler, (SWIZZLED by 1, TILERS by 1);
        Swizzling = ComposedLayout::try_composition_swizzled, (SWIZZLED by 1, SWIZZLED by 3);
        Swizzling = ComposedLayout::try_recast, (SWIZZLED by 1, NUMBERS by 1, NUMBERS by 3);
        Swizzling = ComposedLayout::try_tile_to_shape, (SWIZZLED by 1, TUPLES by 1);
        Answer = ComposedLayout::try_max_common_layout, (SWIZZLED by 1, SWIZZLED by 3);
        Number = ComposedLayout::try_max_common_vector, (SWIZZLED by 1, SWIZZLED by 3);
        Result<Swizzle, LayoutError> = Swizzle::try_new, (NUMBERS by 1, NUMBERS by 3, NUMBERS by 7);
        Swizzling = ComposedLayout::try_mode, (SWIZZLED by 1, INDICES by 1);
        Swizzling = ComposedLayout::try_composition, (SWIZZLED by 1, LAYOUTS by 1);
        Swizzling = ComposedLayout::try_zipped_divide, (SWIZZLED by 1, TILERS by 1);
        Swizzling = ComposedLayout::try_logical_product, (SWIZZLED by 1, TILERS by 1);
        Swizzling = ComposedLayout::try_upcast, (SWIZZLED by 1, NUMBERS by 1);
        Swizzling = ComposedLayout::try_downcast, (SWIZZLED by 1, NUMBERS by 1);
        Swizzling = ComposedLayout::try_right_inverse, (SWIZZLED by 1);
        Swizzling = ComposedLayout::try_left_inverse, (SWIZZLED by 1);
    }
}

#[test]
#[allow(long_running_const_eval)]
fn operations_on_tuples_and_tilers_agree_case_by_case() {
    agree_over! {
        Result<Leaf, LayoutError> = leaf, (TUPLES by 1, INDICES by 1);
        TupleAnswer = tuple_mode, (TUPLES by 1, INDICES by 1);
        Number = value, (TUPLES by 1);
        Number = size, (TUPLES by 1);
        TupleAnswer = IntTuple::try_append, (TUPLES by 1, TUPLES by 3);
        TupleAnswer = IntTuple::try_prepend, (TUPLES by 1, TUPLES by 3);
        TupleAnswer = IntTuple::try_insert, (TUPLES by 1, INDICES by 1, TUPLES by 3);
        TupleAnswer = IntTuple::try_remove, (TUPLES by 1, INDICES by 1);
        TupleAnswer = IntTuple::try_replace, (TUPLES by 1, INDICES by 1, TUPLES by 3);
        TupleAnswer = IntTuple::try_take, (TUPLES by 1, INDICES by 1, INDICES by 3);
        TupleAnswer = IntTuple::try_group, (TUPLES by 1, INDICES by 1, INDICES by 3);
        TupleAnswer = IntTuple::try_unflatten, (TUPLES by 1, TUPLES by 3);
        TupleAnswer = IntTuple::try_with_leaf, (TUPLES by 1, INDICES by 1, NUMBERS by 1);
        TupleAnswer = IntTuple::try_scaled, (NUMBERS by 1, INDICES by 1);
        Result<Tiler, LayoutError> = Tiler::try_shape, (TUPLES by 1);
        TupleAnswer = Tiler::try_tile_shape, (TILERS by 1);
        Number = try_product, (TUPLES by 1);
        TupleAnswer = try_product_each, (TUPLES by 1);
        Number = try_inner_product, (TUPLES by 1, TUPLES by 1);
        TupleAnswer = try_prefix_product, (TUPLES by 1);
        TupleAnswer = try_prefix_product_from, (TUPLES by 1, TUPLES by 3);
        TupleAnswer = try_compact_col_major, (TUPLES by 1);
        TupleAnswer = try_compact_row_major, (TUPLES by 1);
        TupleAnswer = try_compact_order, (TUPLES by 1, TUPLES by 3);
        TupleAnswer = try_shape_div, (TUPLES by 1, TUPLES by 3);
        TupleAnswer = try_ceil_div, (TUPLES by 1, TUPLES by 3);
        TupleAnswer = try_idx2crd, (NUMBERS by 1, TUPLES by 1);
        TupleAnswer = try_idx2crd_strided, (NUMBERS by 1, TUPLES by 1, TUPLES by 1);
        TupleAnswer = try_crd2crd, (TUPLES by 1, TUPLES by 3);
        TupleAnswer = try_crd2crd_from, (TUPLES by 1, TUPLES by 1, TUPLES by 3);
        TupleAnswer = try_increment, (TUPLES by 1, TUPLES by 3);
        bool = congruent, (TUPLES by 1, TUPLES by 3);
        bool = weakly_congruent, (TUPLES by 1, TUPLES by 3);
        bool = compatible, (TUPLES by 1, TUPLES by 3);
        bool = weakly_compatible, (TUPLES by 1, TUPLES by 3);
        bool = elem_less, (TUPLES by 1, TUPLES by 3);
        bool = colex_less, (TUPLES by 1, TUPLES by 3);
        bool = lex_less, (TUPLES by 1, TUPLES by 3);
    }
}

#[test]
fn the_cases_of_operations_are_answered_and_refused() {
    let cases = |of: &dyn Fn(usize) -> bool| (0..COUNT).filter(|&case| of(case)).count();
    for (operation, answered) in [
        ("composition", cases(&|case| try_composition(of(LAYOUTS, case, 1), of(LAYOUTS, case, 3)).is_ok())),
        ("complement", cases(&|case| try_complement(of(LAYOUTS, case, 1), of(NUMBERS, case, 1)).is_ok())),
        (
            "logical_divide",
            cases(&|case| try_logical_divide(of(LAYOUTS, case, 1), of(TILERS, case, 1)).is_ok()),
        ),
        (
            "logical_product",
            cases(&|case| try_logical_product(of(LAYOUTS, case, 1), of(TILERS, case, 1)).is_ok()),
        ),
        ("left_inverse", cases(&|case| try_left_inverse(of(LAYOUTS, case, 1)).is_ok())),
        ("upcast", cases(&|case| try_upcast(of(LAYOUTS, case, 1), of(NUMBERS, case, 1)).is_ok())),
        ("shape_div", cases(&|case| try_shape_div(of(TUPLES, case, 1), of(TUPLES, case, 3)).is_ok())),
        ("increment", cases(&|case| try_increment(of(TUPLES, case, 1), of(TUPLES, case, 3)).is_ok())),
    ] {
        assert!(
            (3..COUNT - 3).contains(&answered),
            "{answered} of {COUNT} cases of {operation} are answered"
        );
    }
}

#[test]
fn layouts_parsed_in_a_constant_are_those_of_the_macro() {
    const PARSED: Layout = match Layout::parse("((4,8),(2,2,16)):((128,1),(64,8,256))") {
        Ok(layout) => layout,
        Err(error) => panic!("{}", error.text()),
    };
    assert_eq!(PARSED, layout!(((4, 8), (2, 2, 16)):((128, 1), (64, 8, 256))));
}
