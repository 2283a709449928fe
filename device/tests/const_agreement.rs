//! Constant and run-time evaluation agree: each operation runs on the same operands as a constant,
//! and at run time on operands that the compiler does not know.

use moye_device::layout::*;
use std::hint::black_box;

/// `name: type = operation(operands)` for each, as a constant and at run time.
macro_rules! agree {
    ($($name:ident: $type:ty = $operation:path, ($($operand:expr),*);)+) => {
        $(
            #[test]
            fn $name() {
                const CONSTANT: $type = $operation($($operand),*);
                let at_run_time: $type = $operation($(black_box($operand)),*);
                assert_eq!(CONSTANT, at_run_time, "constant and run-time evaluation differ");
            }
        )+
    };
}

const A: Layout = layout!((6, 2):(8, 2));
const NESTED: Layout = layout!((4, (2, 2), 3):(2, (1, 8), 0));
const BLOCK: Layout = layout!((2, 5):(5, 1));
const MATRIX: Layout = layout!((128, 64):(64, 1));
const TILES: Tiler = tiler!((3:5, 4:6));
const BY_TILE: Tiler = tiler!((32, (4, 4):(1, 8)));
const SMEM: ComposedLayout = ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((8, 64):(64, 1)));
const SHAPE: IntTuple = tuple!((4, (2, 3), 5));
const COORD: IntTuple = tuple!((3, (1, 2), 4));
type Answer = Result<Layout, LayoutError>;

agree! {
    // Layouts from shapes.
    make_layouts: Layout = make_layout, (SHAPE, tuple!((1, (4, 8), 24)));
    make_col_majors: Layout = make_col_major, (SHAPE);
    make_row_majors: Layout = make_row_major, (SHAPE);
    make_ordered_layouts: Layout = make_ordered_layout, (SHAPE, tuple!((2, (0, 1), 3)));
    make_layouts_like: Layout = make_layout_like, (NESTED);
    identity_layouts: Layout = identity_layout, (SHAPE);
    concatenations: Layout = Layout::concat, (&[A, NESTED]);
    thread_value_layouts: TvLayout = make_layout_tv, (layout!((32, 8):(8, 1)), layout!((4, 8):(8, 1)));
    thread_value_coordinates: Layout = TvLayout::coordinates, (&make_layout_tv(layout!((16, 8):(8, 1)), layout!((1, 4))));
    // Queries.
    indices: i64 = Layout::at, (&NESTED, 37);
    indices_of_coordinates: i64 = Layout::at_coord::<3>, (&NESTED, [3, 2, 1]);
    crd2idxs: i64 = crd2idx, (NESTED, tuple!((3, (1, 0), 2)));
    coordinates_of_indices: [i64; 3] = Layout::coordinate::<3>, (&identity_layout(tuple!((4, 6, 5))), 77);
    nested_coordinates_of_indices: IntTuple = coordinate_of, (identity_layout(SHAPE), tuple!(77));
    sizes: i64 = Layout::size, (&NESTED);
    cosizes: i64 = Layout::cosize, (&NESTED);
    ranks: usize = Layout::rank, (&NESTED);
    depths: usize = Layout::depth, (&NESTED);
    shapes: IntTuple = Layout::shape, (&NESTED);
    strides: IntTuple = Layout::stride, (&NESTED);
    modes: Layout = mode, (NESTED, 1);
    extents: i64 = Layout::extent, (&NESTED, 1);
    slices: Layout = slice, (NESTED, tuple!((1, (_, 1), _)));
    dices: Layout = dice, (NESTED, tuple!((1, (_, 1), _)));
    slice_offsets: i64 = slice_offset, (NESTED, tuple!((1, (_, 1), _)));
    slices_and_offsets: (Layout, i64) = slice_and_offset, (NESTED, tuple!((1, (_, 1), _)));
    // Functions of layouts.
    coalesced: Layout = coalesce, (layout!((2, (1, 6)):(1, (6, 2))));
    coalesced_by_profile: Layout = coalesce_profile, (layout!((2, (1, 6)):(1, (6, 2))), tuple!((1, 1)));
    filtered: Layout = filter, (NESTED);
    filtered_by_profile: Layout = filter_profile, (NESTED, tuple!((1, 1)));
    filtered_zeros: Layout = filter_zeros, (NESTED);
    compositions: Layout = composition, (A, layout!((4, 3):(3, 1)));
    compositions_found_by_search: Layout = composition, (layout!((2, 2, 2):(1, 3, 5)), layout!((2, 2):(1, 2)));
    compositions_with_tilers: Layout = composition_tiler, (layout!((12, (4, 8)):(59, (13, 1))), tiler!((3:4, 8:2)));
    compositions_of_coordinates: Layout = composition, (identity_layout(tuple!((16, 32))), layout!(((4, 8), 4):((64, 1), 16)));
    complements: Layout = complement, (layout!((2, 4):(1, 6)), 192);
    right_inverses: Layout = right_inverse, (layout!((4, (8, 2), 16):(16, (1, 64), 128)));
    left_inverses: Layout = left_inverse, (layout!((4, 2):(1, 8)));
    nullspaces: Layout = nullspace, (NESTED);
    common_layouts: Layout = max_common_layout, (layout!((4, 8):(8, 1)), layout!((4, 8):(16, 1)));
    common_vectors: i64 = max_common_vector, (layout!((4, 8):(8, 1)), layout!((4, 8):(16, 1)));
    distributed_domains: Layout = domain_distribute, (tuple!((15, 14)), 6);
    upcasts: Layout = upcast, (layout!((8, 4):(1, 8)), 4);
    downcasts: Layout = downcast, (layout!((2, 4):(1, 2)), 4);
    recasts: Layout = recast, (layout!((8, 4)), 16, 32);
    logical_divides: Layout = logical_divide, (MATRIX, BY_TILE);
    zipped_divides: Layout = zipped_divide, (MATRIX, BY_TILE);
    tiled_divides: Layout = tiled_divide, (MATRIX, BY_TILE);
    flat_divides: Layout = flat_divide, (MATRIX, BY_TILE);
    divides_of_coordinates: Layout = zipped_divide, (identity_layout(tuple!((4096, 4096))), tiler!((128, 64)));
    logical_products: Layout = logical_product, (BLOCK, TILES);
    zipped_products: Layout = zipped_product, (BLOCK, TILES);
    tiled_products: Layout = tiled_product, (BLOCK, TILES);
    flat_products: Layout = flat_product, (BLOCK, TILES);
    blocked_products: Layout = blocked_product, (BLOCK, layout!((3, 4)));
    raked_products: Layout = raked_product, (BLOCK, layout!((3, 4)));
    tiles_to_shapes: Layout = tile_to_shape, (layout!((2, 3)), tuple!((4, 9)));
    ordered_tiles_to_shapes: Layout = tile_to_shape_ordered, (layout!((2, 3)), tuple!((4, 9)), tuple!((2, 1)));
    tile_shapes: IntTuple = Tiler::tile_shape, (BY_TILE);
    // Edits.
    appended: Layout = Layout::append, (A, NESTED);
    prepended: Layout = Layout::prepend, (A, NESTED);
    appended_dims: Layout = Layout::append_dim, (A, 4);
    prepended_dims: Layout = Layout::prepend_dim, (A, 4);
    inserted: Layout = Layout::insert, (A, 1, NESTED);
    removed: Layout = Layout::remove, (NESTED, 1);
    replaced: Layout = Layout::replace, (NESTED, 1, A);
    taken: Layout = Layout::take, (NESTED, 1, 3);
    grouped: Layout = Layout::group, (NESTED, 1, 3);
    selected: Layout = Layout::select, (NESTED, &[2, 0, 2]);
    transposed: Layout = Layout::transpose, (NESTED);
    flattened: Layout = Layout::flatten, (&NESTED);
    reshaped: Layout = Layout::with_shape, (layout!((4, 6):(6, 1)), tuple!((2, 2, 6)));
    // Swizzles and layouts under them.
    swizzled_indices: i64 = Swizzle::apply, (&Swizzle::new(3, 4, 3), 0x1234);
    swizzles_upcast: Result<Swizzle, LayoutError> = Swizzle::try_upcast, (&Swizzle::new(3, 4, 3), 2);
    swizzles_downcast: Result<Swizzle, LayoutError> = Swizzle::try_downcast, (&Swizzle::new(3, 4, 3), 2);
    swizzled_coordinates: i64 = ComposedLayout::at_coord::<2>, (&SMEM, [5, 17]);
    swizzled_cosizes: i64 = ComposedLayout::cosize, (&SMEM);
    swizzled_compositions: ComposedLayout = ComposedLayout::composition, (SMEM, layout!((4, 8):(16, 64)));
    swizzled_divides: ComposedLayout = ComposedLayout::zipped_divide, (SMEM, tiler!((4, 16)));
    swizzled_products: ComposedLayout = ComposedLayout::blocked_product, (SMEM, layout!((2, 2)));
    swizzled_tiles_to_shapes: ComposedLayout = ComposedLayout::tile_to_shape, (SMEM, tuple!((128, 64)));
    swizzled_slices: ComposedLayout = ComposedLayout::slice, (SMEM, tuple!((3, _)));
    swizzled_recasts: ComposedLayout = ComposedLayout::recast, (SMEM, 16, 32);
    swizzles_moved_past: ComposedLayout = composition_swizzled, (layout!((8, 8):(8, 1)), ComposedLayout::new(Swizzle::new(2, 0, 3), 0, layout!(64:1)));
    swizzles_after_swizzles: Swizzle = Swizzle::composition, (Swizzle::new(1, 5, 3), Swizzle::new(1, 4, 3));
    swizzled_after_swizzled: ComposedLayout = ComposedLayout::composition_swizzled, (ComposedLayout::new(Swizzle::new(1, 1, 2), 16, layout!((4, 4):(4, 1))), ComposedLayout::new(Swizzle::new(1, 0, -2), 0, layout!(16:1)));
    swizzled_right_inverses: ComposedLayout = ComposedLayout::right_inverse, (SMEM);
    swizzled_left_inverses: ComposedLayout = ComposedLayout::left_inverse, (SMEM);
    swizzled_common_layouts: Layout = ComposedLayout::max_common_layout, (SMEM, ComposedLayout::plain(layout!((8, 64):(64, 1))));
    swizzled_common_vectors: i64 = ComposedLayout::max_common_vector, (SMEM, SMEM);
    shared_memory_atoms: ComposedLayout = shared_memory_atom, (Major::K, SwizzleBytes::B128, 16);
    // Tuples.
    products: i64 = product, (SHAPE);
    products_of_each: IntTuple = product_each, (SHAPE);
    inner_products: i64 = inner_product, (COORD, tuple!((1, (4, 8), 24)));
    prefix_products: IntTuple = prefix_product, (SHAPE);
    prefix_products_from: IntTuple = prefix_product_from, (SHAPE, tuple!((1, 2, 3)));
    compact_col_majors: IntTuple = compact_col_major, (SHAPE);
    compact_row_majors: IntTuple = compact_row_major, (SHAPE);
    compact_orders: IntTuple = compact_order, (SHAPE, tuple!((2, 0, 1)));
    shape_divisions: IntTuple = shape_div, (tuple!((3, 6, 2, 8)), tuple!(9));
    rounded_divisions: IntTuple = ceil_div, (tuple!((100, 64)), tuple!((32, 64)));
    idx2crds: IntTuple = idx2crd, (77, SHAPE);
    idx2crds_strided: IntTuple = idx2crd_strided, (77, SHAPE, tuple!((1, (4, 8), 24)));
    crd2crds: IntTuple = crd2crd, (tuple!((3, 5, 4)), SHAPE);
    crd2crds_from: IntTuple = crd2crd_from, (tuple!((1, 2)), tuple!((4, 6)), tuple!((3, 8)));
    incremented: IntTuple = increment, (tuple!((3, (1, 2), 0)), SHAPE);
    congruences: bool = congruent, (SHAPE, COORD);
    weak_congruences: bool = weakly_congruent, (tuple!((1, 1, 1)), SHAPE);
    compatibilities: bool = compatible, (tuple!((4, 6, 5)), SHAPE);
    weak_compatibilities: bool = weakly_compatible, (tuple!((2, 3, 5)), SHAPE);
    elements_less: bool = elem_less, (COORD, SHAPE);
    colexicographic_orders: bool = colex_less, (COORD, SHAPE);
    lexicographic_orders: bool = lex_less, (COORD, SHAPE);
    tuples_appended: IntTuple = IntTuple::append, (SHAPE, COORD);
    tuples_prepended: IntTuple = IntTuple::prepend, (SHAPE, COORD);
    tuples_inserted: IntTuple = IntTuple::insert, (SHAPE, 1, COORD);
    tuples_removed: IntTuple = IntTuple::remove, (SHAPE, 1);
    tuples_replaced: IntTuple = IntTuple::replace, (SHAPE, 1, COORD);
    tuples_taken: IntTuple = IntTuple::take, (SHAPE, 1, 3);
    tuples_grouped: IntTuple = IntTuple::group, (SHAPE, 0, 2);
    tuples_selected: IntTuple = IntTuple::select, (SHAPE, &[1, 0]);
    tuples_flattened: IntTuple = IntTuple::flatten, (&SHAPE);
    tuples_unflattened: IntTuple = IntTuple::unflatten, (tuple!((1, 2, 3, 4)), SHAPE);
    // Text.
    parsed_layouts: Answer = Layout::parse, ("((4,8),(2,2,16)):((128,1),(64,8,256))");
    parsed_tilers: Result<Tiler, LayoutError> = Tiler::parse, ("(4:2,_,(2,2))");
    parsed_swizzled_layouts: Result<ComposedLayout, LayoutError> = ComposedLayout::parse, ("Sw<3,3,3> o 8 o (8,64)");
    // Errors: the same kind, text and column.
    refused_compositions: Answer = try_composition, (layout!((4, 6):(1, 10)), layout!(4:3));
    refused_complements: Answer = try_complement, (layout!((4, 4):(1, 2)), 64);
    refused_divides: Answer = try_zipped_divide, (MATRIX, tiler!((8, 8, 8)));
    refused_inverses: Answer = try_left_inverse, (layout!((2, 2):(2, 3)));
    refused_upcasts: Answer = try_upcast, (layout!((3, 2):(2, 3)), 6);
    refused_modes: Answer = try_mode, (NESTED, 3);
    refused_text: Answer = Layout::parse, ("(4,(2,0)):(1,(4,8))");
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

/// `name: type = operation(lists of operands)`: for each case of operands, as a constant and at run
/// time.
macro_rules! agree_over {
    ($($name:ident: $type:ty = $operation:path, ($($operands:ident by $pace:literal),+);)+) => {
        $(
            #[test]
            #[allow(long_running_const_eval)]
            fn $name() {
                const CONSTANT: [$type; COUNT] = {
                    let mut all = [$operation($(of($operands, 0, $pace)),+); COUNT];
                    let mut case = 1;
                    while case < COUNT {
                        all[case] = $operation($(of($operands, case, $pace)),+);
                        case += 1;
                    }
                    all
                };
                for (case, constant) in CONSTANT.iter().enumerate() {
                    let at_run_time: $type = $operation($(of(black_box($operands), black_box(case), $pace)),+);
                    assert_eq!(*constant, at_run_time, "{} of case {case}", stringify!($operation));
                }
            }
        )+
    };
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

agree_over! {
    every_make_layout: Answer = try_make_layout, (TUPLES by 1, TUPLES by 2);
    every_col_major: Answer = try_make_col_major, (TUPLES by 1);
    every_row_major: Answer = try_make_row_major, (TUPLES by 1);
    every_ordered_layout: Answer = try_make_ordered_layout, (TUPLES by 1, TUPLES by 3);
    every_layout_like: Answer = try_make_layout_like, (LAYOUTS by 1);
    every_identity_layout: Answer = try_identity_layout, (TUPLES by 1);
    every_thread_value_layout: Result<TvLayout, LayoutError> = try_make_layout_tv, (LAYOUTS by 1, LAYOUTS by 2);
    every_index: Number = try_crd2idx, (LAYOUTS by 1, TUPLES by 1);
    every_coordinate_of_a_coordinate: TupleAnswer = try_coordinate_of, (LAYOUTS by 1, TUPLES by 1);
    every_flat_coordinate: Result<[i64; 2], LayoutError> = flat_coordinate, (LAYOUTS by 1, NUMBERS by 1);
    every_coshape: TupleAnswer = try_coshape, (LAYOUTS by 1);
    every_cosize: Number = cosize, (LAYOUTS by 1);
    every_element_of_coordinates: Layout = along, (LAYOUTS by 1, INDICES by 1);
    every_thread_value_coordinate: Answer = thread_value_coordinates_of, (LAYOUTS by 1, LAYOUTS by 2);
    every_extent: Number = extent, (LAYOUTS by 1, INDICES by 1);
    every_mode: Answer = try_mode, (LAYOUTS by 1, INDICES by 1);
    every_slice: Answer = try_slice, (LAYOUTS by 1, TUPLES by 1);
    every_dice: Answer = try_dice, (LAYOUTS by 1, TUPLES by 1);
    every_slice_offset: Number = try_slice_offset, (LAYOUTS by 1, TUPLES by 1);
    every_slice_coordinate: TupleAnswer = try_slice_coordinate, (LAYOUTS by 1, TUPLES by 1);
    every_slice_and_offset: Result<(Layout, i64), LayoutError> = try_slice_and_offset, (LAYOUTS by 1, TUPLES by 1);
    every_coalesce: Answer = try_coalesce, (LAYOUTS by 1);
    every_coalesce_by_profile: Answer = try_coalesce_profile, (LAYOUTS by 1, TUPLES by 1);
    every_filter: Answer = try_filter, (LAYOUTS by 1);
    every_filter_by_profile: Answer = try_filter_profile, (LAYOUTS by 1, TUPLES by 1);
    every_filter_of_zeros: Answer = try_filter_zeros, (LAYOUTS by 1);
    every_composition: Answer = try_composition, (LAYOUTS by 1, LAYOUTS by 3);
    every_composition_with_a_tiler: Answer = try_composition_tiler, (LAYOUTS by 1, TILERS by 1);
    every_composition_with_a_swizzle: Swizzling = try_composition_swizzled, (LAYOUTS by 1, SWIZZLED by 1);
    every_complement: Answer = try_complement, (LAYOUTS by 1, NUMBERS by 1);
    every_right_inverse: Answer = try_right_inverse, (LAYOUTS by 1);
    every_left_inverse: Answer = try_left_inverse, (LAYOUTS by 1);
    every_nullspace: Answer = try_nullspace, (LAYOUTS by 1);
    every_common_layout: Answer = try_max_common_layout, (LAYOUTS by 1, LAYOUTS by 2);
    every_common_vector: Number = try_max_common_vector, (LAYOUTS by 1, LAYOUTS by 2);
    every_distributed_domain: Answer = try_domain_distribute, (TUPLES by 1, NUMBERS by 1);
    every_upcast: Answer = try_upcast, (LAYOUTS by 1, NUMBERS by 1);
    every_downcast: Answer = try_downcast, (LAYOUTS by 1, NUMBERS by 1);
    every_recast: Answer = try_recast, (LAYOUTS by 1, NUMBERS by 1, NUMBERS by 3);
    every_logical_divide: Answer = try_logical_divide, (LAYOUTS by 1, TILERS by 1);
    every_zipped_divide: Answer = try_zipped_divide, (LAYOUTS by 1, TILERS by 1);
    every_tiled_divide: Answer = try_tiled_divide, (LAYOUTS by 1, TILERS by 1);
    every_flat_divide: Answer = try_flat_divide, (LAYOUTS by 1, TILERS by 1);
    every_logical_product: Answer = try_logical_product, (LAYOUTS by 1, TILERS by 1);
    every_zipped_product: Answer = try_zipped_product, (LAYOUTS by 1, TILERS by 1);
    every_tiled_product: Answer = try_tiled_product, (LAYOUTS by 1, TILERS by 1);
    every_flat_product: Answer = try_flat_product, (LAYOUTS by 1, TILERS by 1);
    every_blocked_product: Answer = try_blocked_product, (LAYOUTS by 1, LAYOUTS by 3);
    every_raked_product: Answer = try_raked_product, (LAYOUTS by 1, LAYOUTS by 3);
    every_tile_to_shape: Answer = try_tile_to_shape, (LAYOUTS by 1, TUPLES by 1);
    every_ordered_tile_to_shape: Answer = try_tile_to_shape_ordered, (LAYOUTS by 1, TUPLES by 1, TUPLES by 1);
    every_append: Answer = Layout::try_append, (LAYOUTS by 1, LAYOUTS by 3);
    every_prepend: Answer = Layout::try_prepend, (LAYOUTS by 1, LAYOUTS by 3);
    every_appended_dim: Answer = Layout::try_append_dim, (LAYOUTS by 1, INDICES by 1);
    every_prepended_dim: Answer = Layout::try_prepend_dim, (LAYOUTS by 1, INDICES by 1);
    every_insertion: Answer = Layout::try_insert, (LAYOUTS by 1, INDICES by 1, LAYOUTS by 3);
    every_removal: Answer = Layout::try_remove, (LAYOUTS by 1, INDICES by 1);
    every_replacement: Answer = Layout::try_replace, (LAYOUTS by 1, INDICES by 1, LAYOUTS by 3);
    every_part: Answer = Layout::try_take, (LAYOUTS by 1, INDICES by 1, INDICES by 3);
    every_group: Answer = Layout::try_group, (LAYOUTS by 1, INDICES by 1, INDICES by 3);
    every_selection: Answer = selection_of, (LAYOUTS by 1, INDICES by 1, INDICES by 3);
    every_concatenation: Answer = concatenated, (LAYOUTS by 1, LAYOUTS by 3);
    every_transposition: Answer = Layout::try_transpose, (LAYOUTS by 1);
    every_shape_of_a_layout: Answer = Layout::try_with_shape, (LAYOUTS by 1, TUPLES by 1);
    every_swizzled_index: Number = ComposedLayout::try_crd2idx, (SWIZZLED by 1, TUPLES by 1);
    every_swizzled_slice: Swizzling = ComposedLayout::try_slice, (SWIZZLED by 1, TUPLES by 1);
    every_swizzled_coalesce: Swizzling = ComposedLayout::try_coalesce, (SWIZZLED by 1);
    every_swizzled_coalesce_by_profile: Swizzling = ComposedLayout::try_coalesce_profile, (SWIZZLED by 1, TUPLES by 1);
    every_swizzled_filter: Swizzling = ComposedLayout::try_filter, (SWIZZLED by 1);
    every_swizzled_composition_with_a_tiler: Swizzling = ComposedLayout::try_composition_tiler, (SWIZZLED by 1, TILERS by 1);
    every_swizzled_composition_of_two: Swizzling = ComposedLayout::try_composition_swizzled, (SWIZZLED by 1, SWIZZLED by 3);
    every_swizzled_recast: Swizzling = ComposedLayout::try_recast, (SWIZZLED by 1, NUMBERS by 1, NUMBERS by 3);
    every_swizzled_tile_to_shape: Swizzling = ComposedLayout::try_tile_to_shape, (SWIZZLED by 1, TUPLES by 1);
    every_swizzled_common_layout: Answer = ComposedLayout::try_max_common_layout, (SWIZZLED by 1, SWIZZLED by 3);
    every_swizzled_common_vector: Number = ComposedLayout::try_max_common_vector, (SWIZZLED by 1, SWIZZLED by 3);
    every_swizzle: Result<Swizzle, LayoutError> = Swizzle::try_new, (NUMBERS by 1, NUMBERS by 3, NUMBERS by 7);
    every_swizzled_mode: Swizzling = ComposedLayout::try_mode, (SWIZZLED by 1, INDICES by 1);
    every_swizzled_composition: Swizzling = ComposedLayout::try_composition, (SWIZZLED by 1, LAYOUTS by 1);
    every_swizzled_divide: Swizzling = ComposedLayout::try_zipped_divide, (SWIZZLED by 1, TILERS by 1);
    every_swizzled_product: Swizzling = ComposedLayout::try_logical_product, (SWIZZLED by 1, TILERS by 1);
    every_swizzled_upcast: Swizzling = ComposedLayout::try_upcast, (SWIZZLED by 1, NUMBERS by 1);
    every_swizzled_downcast: Swizzling = ComposedLayout::try_downcast, (SWIZZLED by 1, NUMBERS by 1);
    every_swizzled_right_inverse: Swizzling = ComposedLayout::try_right_inverse, (SWIZZLED by 1);
    every_swizzled_left_inverse: Swizzling = ComposedLayout::try_left_inverse, (SWIZZLED by 1);
    every_tuple_leaf: Result<Leaf, LayoutError> = leaf, (TUPLES by 1, INDICES by 1);
    every_tuple_mode: TupleAnswer = tuple_mode, (TUPLES by 1, INDICES by 1);
    every_tuple_value: Number = value, (TUPLES by 1);
    every_tuple_size: Number = size, (TUPLES by 1);
    every_tuple_append: TupleAnswer = IntTuple::try_append, (TUPLES by 1, TUPLES by 3);
    every_tuple_prepend: TupleAnswer = IntTuple::try_prepend, (TUPLES by 1, TUPLES by 3);
    every_tuple_insertion: TupleAnswer = IntTuple::try_insert, (TUPLES by 1, INDICES by 1, TUPLES by 3);
    every_tuple_removal: TupleAnswer = IntTuple::try_remove, (TUPLES by 1, INDICES by 1);
    every_tuple_replacement: TupleAnswer = IntTuple::try_replace, (TUPLES by 1, INDICES by 1, TUPLES by 3);
    every_tuple_part: TupleAnswer = IntTuple::try_take, (TUPLES by 1, INDICES by 1, INDICES by 3);
    every_tuple_group: TupleAnswer = IntTuple::try_group, (TUPLES by 1, INDICES by 1, INDICES by 3);
    every_tuple_unflattened: TupleAnswer = IntTuple::try_unflatten, (TUPLES by 1, TUPLES by 3);
    every_tuple_with_a_leaf: TupleAnswer = IntTuple::try_with_leaf, (TUPLES by 1, INDICES by 1, NUMBERS by 1);
    every_scaled_integer: TupleAnswer = IntTuple::try_scaled, (NUMBERS by 1, INDICES by 1);
    every_tiler_of_a_shape: Result<Tiler, LayoutError> = Tiler::try_shape, (TUPLES by 1);
    every_tile_shape: TupleAnswer = Tiler::try_tile_shape, (TILERS by 1);
    every_product: Number = try_product, (TUPLES by 1);
    every_product_of_each: TupleAnswer = try_product_each, (TUPLES by 1);
    every_inner_product: Number = try_inner_product, (TUPLES by 1, TUPLES by 1);
    every_prefix_product: TupleAnswer = try_prefix_product, (TUPLES by 1);
    every_prefix_product_from: TupleAnswer = try_prefix_product_from, (TUPLES by 1, TUPLES by 3);
    every_compact_col_major: TupleAnswer = try_compact_col_major, (TUPLES by 1);
    every_compact_row_major: TupleAnswer = try_compact_row_major, (TUPLES by 1);
    every_compact_order: TupleAnswer = try_compact_order, (TUPLES by 1, TUPLES by 3);
    every_shape_division: TupleAnswer = try_shape_div, (TUPLES by 1, TUPLES by 3);
    every_rounded_division: TupleAnswer = try_ceil_div, (TUPLES by 1, TUPLES by 3);
    every_coordinate: TupleAnswer = try_idx2crd, (NUMBERS by 1, TUPLES by 1);
    every_strided_coordinate: TupleAnswer = try_idx2crd_strided, (NUMBERS by 1, TUPLES by 1, TUPLES by 1);
    every_renested_coordinate: TupleAnswer = try_crd2crd, (TUPLES by 1, TUPLES by 3);
    every_converted_coordinate: TupleAnswer = try_crd2crd_from, (TUPLES by 1, TUPLES by 1, TUPLES by 3);
    every_increment: TupleAnswer = try_increment, (TUPLES by 1, TUPLES by 3);
    every_congruence: bool = congruent, (TUPLES by 1, TUPLES by 3);
    every_weak_congruence: bool = weakly_congruent, (TUPLES by 1, TUPLES by 3);
    every_compatibility: bool = compatible, (TUPLES by 1, TUPLES by 3);
    every_weak_compatibility: bool = weakly_compatible, (TUPLES by 1, TUPLES by 3);
    every_comparison: bool = elem_less, (TUPLES by 1, TUPLES by 3);
    every_colexicographic_order: bool = colex_less, (TUPLES by 1, TUPLES by 3);
    every_lexicographic_order: bool = lex_less, (TUPLES by 1, TUPLES by 3);
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
