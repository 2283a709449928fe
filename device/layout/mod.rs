//! The layout algebra: shapes, strides, and the functions over them, evaluated at compile time.
//!
//! A [`Layout`] maps coordinates to indices. It is a plain `Copy` value, and every operation is a
//! `const fn`: a static layout is a `const`, a dynamic one is a variable, and one implementation
//! serves both. Each operation has two forms: `composition(a, b)` panics (in a `const`: does not
//! compile) if no layout is the result, `try_composition(a, b)` returns a [`LayoutError`] with the
//! same message.
//!
//! The guides explain it by example: [layouts](crate::guide::layouts), [their
//! algebra](crate::guide::layout_algebra), and [partitions](crate::guide::partitions).
//!
//! The names, and the form of each result, are those of CuTe's C++ library. Coordinates, modes,
//! thread and value indices are counted from 0.
//!
//! ```
//! use moye_device::layout::{Layout, composition, layout, tiler, zipped_divide};
//!
//! const SMEM: Layout = layout!((32, 32):(1, 33));
//! const TILES: Layout = zipped_divide(SMEM, tiler!((8, 4)));
//! assert_eq!(TILES, layout!(((8, 4), (4, 8)):((1, 33), (8, 132))));
//! assert_eq!(composition(SMEM, layout!((32, 32):(32, 1))), layout!((32, 32):(33, 1)));
//! ```

mod basis;
mod builder;
mod by_mode;
mod coalesce;
mod common;
mod complement;
mod compose;
mod composed;
mod composed_inverse;
mod display;
mod divide;
mod edit;
mod error;
mod evaluate;
mod fault;
mod int_tuple;
mod inverse;
#[allow(clippy::module_inception)]
mod layout;
mod make;
mod operation;
mod parse;
mod product;
mod profile;
mod reader;
mod recast;
mod refusal;
mod shared_memory;
mod slice;
mod swizzle;
mod swizzle_past;
mod text;
mod tiler;
mod tv;

#[doc(inline)]
pub use crate::{__layout_fold as fold, __layout_transform as transform};
pub use basis::{Basis, MAX_BASIS, MAX_BASIS_DEPTH};
pub use coalesce::{
    coalesce, coalesce_profile, filter, filter_profile, filter_zeros, try_coalesce, try_coalesce_profile,
    try_filter, try_filter_profile, try_filter_zeros,
};
pub use common::{
    domain_distribute, max_common_layout, max_common_vector, nullspace, try_domain_distribute,
    try_max_common_layout, try_max_common_vector, try_nullspace,
};
pub use complement::{complement, try_complement};
pub use compose::{composition, composition_tiler, try_composition, try_composition_tiler};
pub use composed::ComposedLayout;
pub use divide::{
    flat_divide, logical_divide, tiled_divide, try_flat_divide, try_logical_divide, try_tiled_divide,
    try_zipped_divide, zipped_divide,
};
pub use error::LayoutError;
pub use evaluate::{coordinate_of, coshape, crd2idx, try_coordinate_of, try_coshape, try_crd2idx};
pub use fault::LayoutErrorKind;
pub use int_tuple::{
    IntTuple, Leaf, ceil_div, colex_less, compact_col_major, compact_order, compact_row_major, compatible,
    congruent, crd2crd, crd2crd_from, elem_less, idx2crd, idx2crd_strided, increment, inner_product,
    lex_less, prefix_product, prefix_product_from, product, product_each, shape_div, try_ceil_div,
    try_compact_col_major, try_compact_order, try_compact_row_major, try_crd2crd, try_crd2crd_from,
    try_idx2crd, try_idx2crd_strided, try_increment, try_inner_product, try_prefix_product,
    try_prefix_product_from, try_product, try_product_each, try_shape_div, weakly_compatible,
    weakly_congruent,
};
pub use inverse::{left_inverse, right_inverse, try_left_inverse, try_right_inverse};
pub use layout::{Layout, make_layout, mode, try_make_layout, try_mode};
pub(crate) use make::mode_coordinates;
pub use make::{
    identity_layout, make_col_major, make_layout_like, make_ordered_layout, make_row_major,
    try_identity_layout, try_make_col_major, try_make_layout_like, try_make_ordered_layout,
    try_make_row_major,
};
pub use moye_macros::{layout, tiler, tuple};
pub use parse::Notation;
pub use product::{
    blocked_product, flat_product, logical_product, raked_product, tile_to_shape, tile_to_shape_ordered,
    tiled_product, try_blocked_product, try_flat_product, try_logical_product, try_raked_product,
    try_tile_to_shape, try_tile_to_shape_ordered, try_tiled_product, try_zipped_product, zipped_product,
};
pub use profile::{MAX_LEAVES, MAX_NODES};
pub(crate) use recast::gcd;
pub use recast::{downcast, recast, try_downcast, try_recast, try_upcast, upcast};
pub use shared_memory::{Major, SwizzleBytes, shared_memory_atom, try_shared_memory_atom};
pub use slice::{
    dice, slice, slice_and_offset, slice_coordinate, slice_offset, try_dice, try_slice, try_slice_and_offset,
    try_slice_coordinate, try_slice_offset,
};
pub use swizzle::Swizzle;
pub use swizzle_past::{composition_swizzled, try_composition_swizzled};
pub(crate) use text::Text;
pub use tiler::Tiler;
pub use tv::{TvLayout, make_layout_tv, try_make_layout_tv};
