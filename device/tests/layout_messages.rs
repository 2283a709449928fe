//! Errors: the plain form panics with the text of the `Result` form, which contains the operation,
//! every operand, and the rule that they violate.

use moye_device::layout::*;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The text of a panic.
fn panic_of<T>(plain: impl FnOnce() -> T) -> String {
    let payload = match catch_unwind(AssertUnwindSafe(plain)) {
        Ok(_) => panic!("the plain form has an answer"),
        Err(payload) => payload,
    };
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => (*payload.downcast::<&str>().expect("a text")).to_owned(),
    }
}

/// An operand as a message prints it.
trait Shown {
    fn shown(&self) -> String;
}

macro_rules! shown_by_display {
    ($($type:ty),+) => {$(
        impl Shown for $type {
            fn shown(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

shown_by_display!(i64, usize, IntTuple, Layout, Tiler, Swizzle, ComposedLayout);

impl<T: Display, const N: usize> Shown for [T; N] {
    fn shown(&self) -> String {
        self.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
    }
}

impl<T: Shown> Shown for &T {
    fn shown(&self) -> String {
        (*self).shown()
    }
}

/// `plain | result: (operands), "the rule"`, each with operands that return an error.
macro_rules! refusals {
    ($($plain:path | $result:path: ($($operand:expr),+), $would:expr;)+) => {$({
        let error = match $result($($operand),+) {
            Ok(_) => panic!("{} has an answer", stringify!($result)),
            Err(error) => error,
        };
        let text = error.text();
        assert_eq!(panic_of(|| $plain($($operand),+)), text, "{}", stringify!($plain));
        let name = stringify!($plain).replace(' ', "");
        let name = name.rsplit("::").find(|part| !part.starts_with('<')).unwrap();
        println!("{text}");
        assert!(text.starts_with(&format!("{name}(")) || text.starts_with("Sw<"), "{name} is named: {text}");
        $(assert!(text.contains(&$operand.shown()), "{} is not in: {text}", $operand.shown());)+
        assert!(text.contains($would), "`{}` is not in: {text}", $would);
    })+};
}

const A: Layout = layout!((4, 6):(1, 10));
const NESTED: Layout = layout!((4, (2, 2), 3):(2, (1, 8), 24));
const COORDINATES: Layout = layout!((4, 3):(1@0, 1@1));
const BROADCAST: Layout = layout!((4, 2):(1, 2));
const SHAPE: IntTuple = tuple!((4, (2, 3), 5));
const SMEM: ComposedLayout = ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((8, 64):(64, 1)));

#[test]
fn plain_forms_panic_with_the_text_of_the_result_forms() {
    refusals! {
        make_layout | try_make_layout: (SHAPE, tuple!((1, 2))), "a tuple for each tuple";
        mode | try_mode: (NESTED, 3usize), "the rank is 3";
        make_col_major | try_make_col_major: (tuple!((4, 0))), "at least 1";
        make_row_major | try_make_row_major: (tuple!((4, -2))), "at least 1";
        make_ordered_layout | try_make_ordered_layout: (SHAPE, tuple!((1, 2))), "must be the same";
        make_layout_like | try_make_layout_like: (COORDINATES), "take `along(k)`";
        identity_layout | try_identity_layout: (tuple!((4, _))), "an integer is needed here";
        identity_layout | try_identity_layout: (tuple!((((((((2, 3),),),),),), 4))), "deeper than 5 tuples, which is what a basis vector holds; flatten what nests deeper";
        coordinate_of | try_coordinate_of: (layout!((4, 3):(1@0, 1)), tuple!((2, 1))), "the strides 1 and 1@0 make a coordinate both an integer and a tuple; it must be one or the other";
        coordinate_of | try_coordinate_of: (layout!((4, 3):(2@1, 1@0@1)), tuple!((2, 1))), "the strides 2@1 and 1@0@1 make a coordinate both an integer and a tuple; it must be one or the other";
        coordinate_of | try_coordinate_of: (COORDINATES, tuple!((2, 1, 0))), "one for each mode";
        coshape | try_coshape: (layout!((4, 3):(1@0, 1))), "it must be one or the other";
        Layout::cosize | Layout::try_cosize: (&layout!((4, 3):(1@0, 1))), "it must be one or the other";
        Layout::cosize | Layout::try_cosize: (&layout!((2, 2):(4294967296@0, 4294967296@1))), "does not fit in 64 bits";
        slice_coordinate | try_slice_coordinate: (COORDINATES, tuple!((_, 1, 0))), "one for each mode";
        composition | try_composition: (A, layout!(4:1@2)), "a stride along basis vector 2 selects a mode that is not there; the rank there is 2, and an index is below it";
        composition | try_composition: (NESTED, layout!(4:1@2@1)), "a stride along basis vector 2@1 selects a mode that is not there; the rank there is 2, and an index is below it";
        crd2idx | try_crd2idx: (NESTED, tuple!((1, 2))), "one for each mode";
        slice | try_slice: (NESTED, tuple!(((1, 2), _, _))), "which takes an integer";
        dice | try_dice: (NESTED, tuple!((_, _))), "one for each mode";
        slice_offset | try_slice_offset: (COORDINATES, tuple!((1, _))), "take `along(k)`";
        slice_and_offset | try_slice_and_offset: (NESTED, tuple!((_, _))), "one for each mode";
        coalesce_profile | try_coalesce_profile: (A, tuple!((1, 1, 1))), "at most one for each mode";
        filter_profile | try_filter_profile: (A, tuple!((1, 1, 1))), "at most one for each mode";
        composition | try_composition: (A, layout!(4:3)), "neither divides nor is divided by the extent 4";
        composition_tiler | try_composition_tiler: (A, tiler!((2:1, 3:1, 5:1))), "at most one for each mode";
        composition_swizzled | try_composition_swizzled: (layout!(8:3), SMEM), "must be powers of two";
        complement | try_complement: (BROADCAST, 64i64), "each stride must be a multiple of what those before it reach";
        right_inverse | try_right_inverse: (COORDINATES), "take `along(k)`";
        left_inverse | try_left_inverse: (layout!((2, 2):(2, 3))), "each stride must be a multiple of what those before it reach";
        max_common_layout | try_max_common_layout: (A, COORDINATES), "take `along(k)`";
        max_common_vector | try_max_common_vector: (A, COORDINATES), "take `along(k)`";
        domain_distribute | try_domain_distribute: (SHAPE, 0i64), "at least 1";
        upcast | try_upcast: (A, 3i64), "neither divides nor is divided by 3";
        upcast | try_upcast: (layout!((6, 5):(1, 6)), 4i64), "the stride 6 neither divides nor is divided by 4";
        downcast | try_downcast: (layout!(4:2), 2i64), "a mode 1:1 appended would work";
        recast | try_recast: (A, 0i64, 8i64), "at least 1";
        logical_divide | try_logical_divide: (A, tiler!((2:1, 3:1, 5:1))), "at most one for each mode";
        logical_divide | try_logical_divide: (layout!(12:1), tiler!((2, 2):(1, 3))), "each stride must be a multiple of what those before it reach";
        composition_swizzled | try_composition_swizzled: (layout!((8, 8):(8, 1)), ComposedLayout::new(Swizzle::new(2, 0, 3), 1, layout!(8:1))), "cannot be moved past the layout";
        composition_swizzled | try_composition_swizzled: (layout!((2, 4):(0, 1)), ComposedLayout::new(Swizzle::new(1, 0, -1), 0, layout!(4:1))), "keep both or neither";
        zipped_divide | try_zipped_divide: (A, tiler!((2:1, 3:1, 5:1))), "at most one for each mode";
        tiled_divide | try_tiled_divide: (A, tiler!((2:1, 3:1, 5:1))), "at most one for each mode";
        flat_divide | try_flat_divide: (A, tiler!((2:1, 3:1, 5:1))), "at most one for each mode";
        logical_product | try_logical_product: (A, tiler!((2:1, 3:1, 5:1))), "at most one for each mode";
        zipped_product | try_zipped_product: (A, tiler!((2:1, 3:1, 5:1))), "at most one for each mode";
        tiled_product | try_tiled_product: (A, tiler!((2:1, 3:1, 5:1))), "at most one for each mode";
        flat_product | try_flat_product: (A, tiler!((2:1, 3:1, 5:1))), "at most one for each mode";
        blocked_product | try_blocked_product: (BROADCAST, layout!(2:1)), "each stride must be a multiple of what those before it reach";
        raked_product | try_raked_product: (BROADCAST, layout!(2:1)), "each stride must be a multiple of what those before it reach";
        tile_to_shape | try_tile_to_shape: (A, tuple!((9, 6))), "mode 0 of the shape: the extent 9 is not a multiple of 4";
        tile_to_shape | try_tile_to_shape: (A, tuple!((12, 6))), "mode 0 of the block's repeats, 3:1: the extent 3 is not a multiple of 2";
        tile_to_shape | try_tile_to_shape: (A, tuple!((12, 6))), "is not a multiple of";
        Layout::with_shape | Layout::try_with_shape: (A, tuple!((3, 8))), "mode 1 of the shape, 8:3: the stride 3 neither divides nor is divided by the extent 4";
        Layout::with_shape | Layout::try_with_shape: (A, tuple!((3, 8))), "neither divides nor is divided by the extent 4";
        tile_to_shape_ordered | try_tile_to_shape_ordered: (A, tuple!((8, 6)), tuple!((1, 2, 3))), "must be the same";
        shape_div | try_shape_div: (tuple!((6, 2)), tuple!(4)), "by 4";
        shape_div | try_shape_div: (tuple!(6), tuple!(4)), "neither divides nor is divided by 4";
        ceil_div | try_ceil_div: (tuple!((6, 2)), tuple!((2, 2, 2))), "must be the same";
        product | try_product: (tuple!((4, _))), "an integer is needed here";
        product_each | try_product_each: (tuple!((4, _))), "an integer is needed here";
        inner_product | try_inner_product: (SHAPE, tuple!((1, 2))), "a tuple for each tuple";
        prefix_product | try_prefix_product: (tuple!((4, _))), "an integer is needed here";
        prefix_product_from | try_prefix_product_from: (SHAPE, tuple!(((1, 2), 1, 1))), "which takes an integer";
        compact_col_major | try_compact_col_major: (tuple!((4, _))), "an integer is needed here";
        compact_row_major | try_compact_row_major: (tuple!((4, _))), "an integer is needed here";
        compact_order | try_compact_order: (SHAPE, tuple!(((1, 2), 1, 1))), "which takes an integer";
        idx2crd | try_idx2crd: (-1i64, SHAPE), "at least 0";
        idx2crd_strided | try_idx2crd_strided: (1i64, SHAPE, tuple!((1, 2))), "a tuple for each tuple";
        crd2crd | try_crd2crd: (tuple!(((1, 2), 1, 1)), SHAPE), "which takes an integer";
        crd2crd_from | try_crd2crd_from: (tuple!((1, 2)), SHAPE, tuple!(4)), "one for each mode";
        increment | try_increment: (tuple!((1, 2)), SHAPE), "a tuple for each tuple";
        increment | try_increment: (tuple!((4, 5)), tuple!((4, 6))), "mode 0 of the coordinate: 4 is not within the extent 4; it is 0 to 3";
        increment | try_increment: (tuple!((0, (1, -1))), tuple!((4, (2, 3)))), "mode (1,1) of the coordinate: the last integer is -1; it must be at least 0";
        complement | try_complement: (layout!((2, 2):(1, 3)), 12i64), "the stride 3 is not a multiple of 2, what the smaller strides reach, and copies of the layout end at 11, below 12; each stride must be a multiple";
        complement | try_complement: (layout!((3, 3):(8, 1)), 24i64), "each stride must be a multiple of what those before it reach";
        make_layout_tv | try_make_layout_tv: (layout!(4:2), layout!(2:1)), "as by a compact layout";
        Swizzle::new | Swizzle::try_new: (3i64, 4i64, 1i64), "at least 3";
    }
}

#[test]
fn a_negative_stride_is_said_to_run_below_what_is_counted() {
    let down = "the mode 4:-4 (modes coalesced) runs down to -12, and indices are counted from 0 upwards; strides must be \
                positive";
    let beside = layout!((4, 4):(1, -4));
    refusals! {
        complement | try_complement: (beside, 16i64), down;
        left_inverse | try_left_inverse: (beside), down;
        logical_divide | try_logical_divide: (layout!(24:1), beside.tiler()), down;
        left_inverse | try_left_inverse: (layout!(4:-1)), "the mode 4:-1 (modes coalesced) runs down to -3";
        logical_product | try_logical_product: (layout!(4:-1), tiler!(3:1)), "the mode 4:-1 (modes coalesced) runs down to -3";
        complement | try_complement: (layout!((4, 4):(1, -1)), 16i64), "the mode 4:-1 (modes coalesced) runs down to -3";
    }
    assert_eq!(try_complement(beside, 16).unwrap_err().kind(), LayoutErrorKind::Range);
}

#[test]
fn the_first_of_two_layouts_counts_as_unbounded() {
    assert_eq!(max_common_vector(layout!(4:1), layout!(8:1)), 8);
    assert_eq!(max_common_vector(layout!(8:1), layout!(4:1)), 4);
}

#[test]
fn the_reason_is_what_stands_behind_the_operands_and_the_text_that_was_read() {
    let error = Layout::parse("(4,2): (1,4,3)").unwrap_err();
    assert!(error.reason().unwrap().starts_with("shape and stride nest differently"), "{error}");
    assert_eq!(Layout::parse("(4,2").unwrap_err().reason(), Some("expected `,` or `)`"));
    let error = try_composition(A, layout!(4:3)).unwrap_err();
    assert_eq!(error.text(), format!("composition((4,6):(1,10), 4:3): {}", error.reason().unwrap()));
}

/// Constant evaluation limits how long an operation may take.
const REFUSED: [bool; 9] = [
    try_logical_divide(identity_layout(tuple!((50021, 60013))), tiler!(30011:1)).is_err(),
    // Many values of these layouts are evaluated for each candidate.
    try_composition(layout!((4064, 60, 1000):(1, 4320, 293760)), layout!((2, 2048):(512, 2))).is_err(),
    try_composition(layout!(((32, 127), 60, 1000):((1, 32), 4320, 293760)), layout!((2, 2048):(512, 2)))
        .is_err(),
    // This many fit into a mode.
    try_logical_divide(layout!((120011, 2):(1, 1000000)), tiler!(64:1)).is_err(),
    try_logical_divide(layout!((60013, 2):(1, 65536)), tiler!(32:1)).is_err(),
    try_tile_to_shape(layout!((2, 1):(4, 0)), tuple!((4002, 2000))).is_err(),
    // Counts just above 4,096, the most values that the search for a layout compares: no search
    // begins. Counts a little smaller are searched.
    try_composition(layout!((12000, 60):(1, 100000)), layout!((4097, 4):(3, 1))).is_err(),
    try_tile_to_shape(layout!((2, 1):(12001, 0)), tuple!((6, 4097))).is_err(),
    try_logical_divide(layout!(((131203, 2), 8):((1, 1000000), 10000000)), tiler!((64:1, _))).is_err(),
];

#[test]
fn a_refusal_takes_no_longer_where_extents_are_large() {
    assert_eq!(std::hint::black_box(REFUSED), [true; 9]);
    let layout = identity_layout(tuple!((50021, 60013)));
    let start = std::time::Instant::now();
    let error = try_logical_divide(layout, tiler!(30011:1)).unwrap_err();
    assert!(start.elapsed().as_millis() < 500, "{:?} for {error}", start.elapsed());
}

#[test]
fn what_fails_in_a_complement_is_said_of_it() {
    let complement = "of mode 0 (modes coalesced) of the complement (2,2):(4,60)";
    refusals! {
        logical_product | try_logical_product: (A, tiler!(3:1)), complement;
        zipped_product | try_zipped_product: (A, tiler!(3:1)), complement;
        tiled_product | try_tiled_product: (A, tiler!(3:1)), complement;
        flat_product | try_flat_product: (A, tiler!(3:1)), complement;
        blocked_product | try_blocked_product: (A, layout!(3:1)), complement;
        raked_product | try_raked_product: (A, layout!(3:1)), complement;
        ComposedLayout::logical_product | ComposedLayout::try_logical_product: (ComposedLayout::plain(A), tiler!(3:1)), complement;
        tile_to_shape | try_tile_to_shape: (A, tuple!((12, 6))), complement;
        tile_to_shape_ordered | try_tile_to_shape_ordered: (A, tuple!((4, 18)), tuple!((1, 0))), complement;
        logical_product | try_logical_product: (layout!((8, (4, 6)):(1, (1, 10))), tiler!((2:1, 3:1))), "mode 1 of the tiler, 3:1: the extent 3";
        logical_product | try_logical_product: (layout!((8, (4, 2)):(1, (1, 2))), tiler!((2:1, 3:1))), "mode 1 of the block, (4,2):(1,2): the mode of stride 2";
        logical_divide | try_logical_divide: (A, tiler!(3:1)), "the complement 8:3 of the tile: the stride 3";
        logical_divide | try_logical_divide: (A, tiler!(3:1)), "neither divides nor is divided by";
        logical_divide | try_logical_divide: (COORDINATES, tiler!(3:1)), "a step of 6 goes along basis vector 0 and basis vector 1 at once, which one stride cannot hold; a tile stays within a mode";
        zipped_divide | try_zipped_divide: (layout!((8, (4, 3)):(1@0, (1@0@1, 1@1@1))), tiler!((2:1, 3:1))), "basis vector 0@1 and basis vector 1@1 at once, which one stride cannot hold; a tile stays within a mode";
        composition | try_composition: (COORDINATES, layout!(2:5)), "a step of 5 goes along basis vector 0 and basis vector 1 at once, which one stride cannot hold";
        composition | try_composition: (layout!((5, 6, 1):(48, 1, 12)), layout!(7:3)), "neither divides nor is divided by";
        logical_divide | try_logical_divide: (layout!((8, (4, 6)):(1, (1, 10))), tiler!((2:1, 3:1))), "mode 1 of the tiler, 3:1: the complement 8:3 of the tile: the stride 3";
        logical_product | try_logical_product: (layout!(4611686018427387904:1), tiler!(4:1)), "the block's size 4611686018427387904 times the tiler's cosize 4";
    }
}

#[test]
fn the_mode_that_does_not_fit_is_named() {
    refusals! {
        composition | try_composition: (A, layout!((2, (3, 4)):(1, (2, 3)))), "mode (1,0) of the second layout, 3:2: the extent 3";
        composition | try_composition: (layout!((2, 4):(1, 6)), layout!((1, 3, (2)):(1, 1, (3)))), "mode 1 of the second layout, 3:1: the extent 3 is not a multiple of 2";
        ComposedLayout::composition | ComposedLayout::try_composition: (SMEM, layout!((2, 4):(1, 3))), "mode 1 of the second layout, 4:3: ";
        composition_tiler | try_composition_tiler: (layout!((12, (4, 6)):(1, (100, 310))), tiler!((2:1, 4:3))), "mode 1 of the tiler, 4:3: the stride 3 neither divides nor is divided by the extent 4 of mode 0 (modes coalesced) of (4,6):(100,310)";
        composition_tiler | try_composition_tiler: (layout!((12, (4, 6)):(1, (100, 310))), tiler!((2:1, (2, 4):(1, 3)))), "mode (1,1) of the tiler, 4:3: ";
        composition_tiler | try_composition_tiler: (layout!((12, (4, 6)):(1, (100, 310))), tiler!((2:1, (2:1, 2:1, 2:1)))), "mode 1 of the tiler: the tiler has 3 modes";
        logical_divide | try_logical_divide: (layout!((12, 10)), tiler!((3:2, (2, 2):(1, 3)))), "mode 1 of the tiler, (2,2):(1,3): the tile's stride 3";
        zipped_divide | try_zipped_divide: (layout!((12, 10)), tiler!((3:2, (2, 2):(1, 3)))), "mode 1 of the tiler, (2,2):(1,3): the tile's stride 3";
        make_layout | try_make_layout: (tuple!((4, (6, 8))), tuple!((2, (5, 3, 1)))), "mode 1, (6,8) beside (5,3,1): shape and stride nest differently;";
        make_layout | try_make_layout: (tuple!((4, (6, 8))), tuple!((2, (5, (3, 1))))), "mode (1,1), 8 beside (3,1): shape and stride nest differently;";
        inner_product | try_inner_product: (tuple!((4, (6, 8))), tuple!((2, 1))), "mode 1, (6,8) beside 1: the two tuples nest differently;";
        idx2crd_strided | try_idx2crd_strided: (3i64, tuple!((4, (6, 8))), tuple!((2, 1))), "mode 1, (6,8) beside 1: shape and stride nest differently;";
        make_layout_tv | try_make_layout_tv: (layout!((4, 2)), layout!(4:2)), "only 1 of 4 values are reached; each must be reached once, without a gap";
        make_layout_tv | try_make_layout_tv: (layout!((4, 2):(1, 1)), layout!(4:1)), "only 4 of 8 threads are reached";
        make_layout | try_make_layout: (tuple!((4294967296, 4294967296)), tuple!((1, 1))), "the size 4294967296 times the extent 4294967296";
        mode | try_mode: (NESTED, 7usize), ", 7): there is no mode 7";
        IntTuple::mode | IntTuple::try_mode: (&tuple!((1, 2)), 2usize), "mode((1,2), 2): there is no mode 2";
    }
}

#[test]
fn so_do_methods() {
    refusals! {
        Layout::extent | Layout::try_extent: (&NESTED, 3usize), "the rank is 3";
        Layout::append | Layout::try_append: (A, layout!(4611686018427387904:1)), "below 2^63";
        Layout::prepend | Layout::try_prepend: (A, layout!(4611686018427387904:1)), "below 2^63";
        Layout::insert | Layout::try_insert: (A, 3usize, NESTED), "the rank is 2";
        Layout::remove | Layout::try_remove: (A, 2usize), "the rank is 2";
        Layout::replace | Layout::try_replace: (A, 2usize, NESTED), "the rank is 2";
        Layout::take | Layout::try_take: (NESTED, 2usize, 4usize), "at most the rank, 3";
        Layout::group | Layout::try_group: (NESTED, 2usize, 4usize), "at most the rank, 3";
        Layout::select | Layout::try_select: (NESTED, &[0usize, 5]), "the rank is 3";
        Layout::append_dim | Layout::try_append_dim: (A, 33usize), "coalesce the operands first";
        Layout::prepend_dim | Layout::try_prepend_dim: (A, 33usize), "coalesce the operands first";
        Layout::with_shape | Layout::try_with_shape: (A, tuple!((5, 5))), "the shape must have the size 24";
        Layout::concat | Layout::try_concat: (&[A, layout!(4611686018427387904:1)]), "below 2^63";
        Layout::coordinate::<1> | Layout::try_coordinate::<1>: (&COORDINATES, 5i64), "request at least 2";
        Layout::coordinate::<2> | Layout::try_coordinate::<2>: (&layout!((4, (3, 2)):(1@0, (1@0@1, 1@1@1))), 5i64), "the stride 1@0@1 is along no element of a flat coordinate";
        Layout::coordinate::<2> | Layout::try_coordinate::<2>: (&A, 5i64), "the stride 1 is along no element of a flat coordinate; a basis vector of one index, such as 1@0, is";
        Layout::coordinate::<2> | Layout::try_coordinate::<2>: (&layout!((4, 3):(1@0, 1)), 5i64), "it must be one or the other";
        IntTuple::mode | IntTuple::try_mode: (&SHAPE, 3usize), "the rank is 3";
        IntTuple::leaf | IntTuple::try_leaf: (&SHAPE, 4usize), "there are 4";
        IntTuple::value | IntTuple::try_value: (&SHAPE), "an integer is needed here";
        IntTuple::size | IntTuple::try_size: (&tuple!((4, _))), "an integer is needed here";
        IntTuple::scaled | IntTuple::try_scaled: (3i64, 64usize), "0 to 63";
        IntTuple::insert | IntTuple::try_insert: (SHAPE, 4usize, tuple!(7)), "the rank is 3";
        IntTuple::remove | IntTuple::try_remove: (SHAPE, 3usize), "the rank is 3";
        IntTuple::replace | IntTuple::try_replace: (SHAPE, 3usize, tuple!(7)), "the rank is 3";
        IntTuple::take | IntTuple::try_take: (SHAPE, 2usize, 4usize), "at most the rank, 3";
        IntTuple::group | IntTuple::try_group: (SHAPE, 2usize, 4usize), "at most the rank, 3";
        IntTuple::select | IntTuple::try_select: (SHAPE, &[0usize, 5]), "the rank is 3";
        IntTuple::unflatten | IntTuple::try_unflatten: (tuple!((1, 2)), SHAPE), "must be the same";
        Tiler::tile_shape | Tiler::try_tile_shape: (tiler!((4, (2, _)))), "a tile has an extent or a layout";
        ComposedLayout::new | ComposedLayout::try_new: (Swizzle::new(3, 3, 3), -1i64, A), "at least 0";
        ComposedLayout::mode | ComposedLayout::try_mode: (SMEM, 2usize), "the rank is 2";
        ComposedLayout::composition | ComposedLayout::try_composition: (SMEM, layout!(4:3)), "neither divides nor is divided by";
        ComposedLayout::crd2idx | ComposedLayout::try_crd2idx: (SMEM, tuple!((1, 2, 3))), "one for each mode";
        ComposedLayout::zipped_divide | ComposedLayout::try_zipped_divide: (SMEM, tiler!((1, 1, 1))), "at most one for each mode";
        ComposedLayout::plain | ComposedLayout::try_plain: (layout!(4:-1)), "at least 0";
        ComposedLayout::composition_swizzled | ComposedLayout::try_composition_swizzled: (ComposedLayout::new(Swizzle::NONE, 4, layout!(8:1)), ComposedLayout::new(Swizzle::new(1, 0, 3), 0, layout!(16:1))), "is not a multiple of";
        ComposedLayout::right_inverse | ComposedLayout::try_right_inverse: (ComposedLayout::new(Swizzle::NONE, 4, A)), "invert with the offset 0";
        ComposedLayout::right_inverse | ComposedLayout::try_right_inverse: (ComposedLayout::new(Swizzle::new(1, 0, -2), 0, layout!(2:1))), "takes an index below the size 2 to 5";
        ComposedLayout::left_inverse | ComposedLayout::try_left_inverse: (ComposedLayout::new(Swizzle::new(1, 0, 2), 0, layout!((2, 2):(2, 3)))), "; each stride must be a multiple of what those before it reach";
        Swizzle::composition | Swizzle::try_composition: (Swizzle::new(2, 0, 3), Swizzle::new(2, 0, 2)), "no single swizzle does both";
        Swizzle::composition | Swizzle::try_composition: (Swizzle::new(2, 2, 2), Swizzle::new(2, 4, 2)), "must have none in common";
        Swizzle::composition | Swizzle::try_composition: (Swizzle::new(1, 0, 4), Swizzle::new(1, 2, 4)), "as a swizzle has them";
        IntTuple::with_leaf | IntTuple::try_with_leaf: (SHAPE, 4usize, 1i64), "there are 4";
        ComposedLayout::upcast | ComposedLayout::try_upcast: (SMEM, 3i64), "a power of two";
    }
    let tv = make_layout_tv(layout!((16, 8):(8, 1)), layout!((1, 4)));
    let torn = layout!((3, 5):(1, 7));
    assert_eq!(panic_of(|| tv.of(torn)), tv.try_of(torn).unwrap_err().text());
    assert!(tv.try_of(torn).unwrap_err().text().contains("composition((3,5):(1,7), ((8,16),4):((64,1),16))"));
}

#[test]
fn evaluation_panics_with_the_text_of_crd2idx() {
    let of = |layout, coord| try_crd2idx(layout, coord).unwrap_err();
    assert_eq!(panic_of(|| COORDINATES.at(5)), of(COORDINATES, tuple!(5)).text());
    assert_eq!(panic_of(|| COORDINATES.at_coord([1, 2])), of(COORDINATES, tuple!((1, 2))).text());
    assert_eq!(panic_of(|| NESTED.at_coord([1, 2])), of(NESTED, tuple!((1, 2))).text());
    let text = panic_of(|| NESTED.at_coord([1, 2, 3, 4]));
    assert!(text.contains("(4,(2,2),3):(2,(1,8),24), (1,2,3,4)"), "{text}");
    assert!(text.contains("4 elements for a rank of 3"), "{text}");
}

#[test]
fn a_transform_of_two_tuples_names_the_mode_in_which_they_nest_differently() {
    let error = tuple!((4, (2, 3))).try_transform_with(&tuple!((1, 5)), |a, b| a * b).unwrap_err();
    let text = "transform((4,(2,3)), (1,5)): mode 1, (2,3) beside 5: the two tuples nest differently; they need a \
                tuple for each tuple and an integer for each integer";
    assert_eq!(error.text(), text);
}

#[test]
fn many_and_large_operands_leave_room_for_the_reason() {
    let wide = Layout::new(IntTuple::flat(&[1; 32]), IntTuple::flat(&[i64::MAX; 32]));
    for error in [
        wide.try_append(wide).unwrap_err(),
        Layout::try_concat(&[wide; 9]).unwrap_err(),
        Tiler::try_by_mode(&[wide.tiler(); 5]).unwrap_err(),
    ] {
        assert!(error.text().contains("...: "), "{error}");
        assert!(error.text().ends_with("coalesce the operands first"), "{error}");
    }
    let error = wide.try_select(&[usize::MAX; 32]).unwrap_err();
    assert!(error.text().ends_with("the rank is 32"), "{error}");
}

#[test]
fn an_error_that_no_single_stride_corrects_says_so() {
    let nest = "; each stride must be a multiple of what those before it reach";
    refusals! {
        complement | try_complement: (layout!((6, 8, 5):(10, 8, 9)), 3000i64), nest;
        left_inverse | try_left_inverse: (layout!((6, 8, 5):(10, 8, 9))), nest;
        blocked_product | try_blocked_product: (layout!((6, 8, 5):(10, 8, 9)), layout!(4:12)), "which reach to 64; each stride must be a multiple";
        raked_product | try_raked_product: (layout!((2, 3, 5):(1, 11, 5)), layout!((5, 6):(3, 4))), "each stride must be a multiple of what those before it reach";
    }
}

#[test]
fn a_carry_is_an_error_with_the_condition_or_a_shape_that_works() {
    refusals! {
        composition | try_composition: (layout!((4, 3):(1, 100)), layout!((3, 2):(1, 3))), "; the steps of all modes together must stay below the extent";
        Layout::with_shape | Layout::try_with_shape: (layout!((4, 3):(1, 100)), tuple!((3, 2, 2))), "; the steps of all modes together must stay below the extent";
        tile_to_shape | try_tile_to_shape: (layout!((2, 1):(4, 0)), tuple!((6, 2))), "; the steps of all modes together must stay below the extent";
        upcast | try_upcast: (layout!((3, 2):(1, 2)), 4i64), "; together they must stay below 4";
        upcast | try_upcast: (layout!((4, 2):(1, -1)), 4i64), "the stride -1 runs backwards through the parts of an element of 4; strides within an element must be positive";
        coshape | try_coshape: (layout!((2, 2):(1, 1@63))), "it must be one or the other, for all strides along it";
        Layout::coordinate::<1> | Layout::try_coordinate::<1>: (&layout!((2, 2):(1, 1@0)), 0i64), "it must be one or the other, for all strides along it";
        shape_div | try_shape_div: (tuple!((6, 6)), tuple!((4, 4))), "neither divides nor is divided by 4";
    }
}

macro_rules! sources {
    ($($name:literal)+) => { [$(($name, include_str!(concat!("../layout/", $name, ".rs")))),+] };
}

/// The files of the algebra, without the files of the `Result` forms.
const ALGEBRA: [(&str, &str); 37] = sources! {
    "basis" "builder" "by_mode" "coalesce" "common" "complement" "compose" "composed" "composed_inverse"
    "display" "divide" "edit" "error" "evaluate" "fault" "int_tuple/mod" "int_tuple/arithmetic"
    "int_tuple/builder" "int_tuple/compare" "int_tuple/coordinate" "int_tuple/edit" "int_tuple/transform"
    "inverse" "layout" "make" "parse" "product" "profile" "reader" "recast" "shared_memory" "slice"
    "swizzle" "swizzle_past" "text" "tiler" "tv"
};

/// The advice calls functions of the algebra, so they must not depend on it: `operation.rs`, which
/// builds an operation's two forms, calls it.
#[test]
fn no_function_of_the_algebra_imports_or_calls_the_advice() {
    let advice = include_str!("../layout/refusal/mod.rs");
    // An associated function of an error is called without an import.
    let (_, added) = advice.split_once("impl LayoutError {").expect("what the advice adds to an error");
    let (added, _) = added.split_once("\n}\n").unwrap();
    let added: Vec<_> = added
        .split("const fn ")
        .skip(1)
        .map(|function| function.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap())
        .collect();
    assert!(added.contains(&"at_place"), "{added:?}");
    for (name, text) in ALGEBRA {
        assert!(!text.contains("refusal"), "{name}.rs names the advice");
        for function in &added {
            assert!(!text.contains(&format!("::{function}(")), "{name}.rs calls {function} of the advice");
        }
    }
    let rooms = include_str!("../layout/mod.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    for room in rooms.filter(|room| !["operation", "refusal"].contains(room)) {
        let is_it = |name: &str| name == room || name.strip_suffix("/mod") == Some(room);
        assert!(ALGEBRA.iter().any(|(name, _)| is_it(name)), "{room} is looked through");
    }
    let (_, fault) = ALGEBRA.iter().find(|(name, _)| *name == "fault").unwrap();
    assert!(!fault.contains("use super::error") && !fault.contains("use super::text"), "a fault is numbers");
}
