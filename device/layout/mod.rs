//! The layout algebra: shapes, strides, and the functions over them, evaluated at compile time.
//!
//! A [`Layout`] maps coordinates to indices. It is a plain `Copy` value, and every operation is a `const fn`: a static
//! layout is a `const`, a dynamic one is a variable, and one implementation serves both. Each operation has two forms:
//! `composition(a, b)` panics (in a `const`: does not compile) where no layout is the answer, `try_composition(a, b)`
//! returns a [`LayoutError`] with the same text.
//!
//! The names, and the form of each result, are those of CuTe's C++ library. Coordinates, modes, thread and value
//! indices are counted from 0.
//!
//! ```
//! use moye_device::layout::{Layout, composition, layout, tiler, zipped_divide};
//!
//! const SMEM: Layout = layout!((32, 32):(1, 33));
//! const TILES: Layout = zipped_divide(SMEM, tiler!((8, 4)));
//! assert_eq!(TILES, layout!(((8, 4), (4, 8)):((1, 33), (8, 132))));
//! assert_eq!(composition(SMEM, layout!((32, 32):(32, 1))), layout!((32, 32):(33, 1)));
//! ```

mod builder;
mod by_mode;
mod coalesce;
mod complement;
mod compose;
mod display;
mod divide;
mod edit;
mod error;
mod evaluate;
mod int_tuple;
mod inverse;
#[allow(clippy::module_inception)]
mod layout;
mod make;
mod operation;
mod parse;
mod product;
mod profile;
mod slice;
mod text;
mod tiler;

pub use coalesce::{
    coalesce, coalesce_profile, filter, filter_profile, filter_zeros, try_coalesce, try_coalesce_profile,
    try_filter, try_filter_profile, try_filter_zeros,
};
pub use complement::{complement, try_complement};
pub use compose::{composition, composition_tiler, try_composition, try_composition_tiler};
pub use divide::{
    flat_divide, logical_divide, tiled_divide, try_flat_divide, try_logical_divide, try_tiled_divide,
    try_zipped_divide, zipped_divide,
};
pub use error::{LayoutError, LayoutErrorKind};
pub use evaluate::{crd2idx, try_crd2idx};
pub use int_tuple::{IntTuple, Leaf, MAX_BASIS};
pub use inverse::{left_inverse, right_inverse, try_left_inverse, try_right_inverse};
pub use layout::{Layout, make_layout, mode, try_make_layout, try_mode};
pub use make::{
    identity_layout, make_col_major, make_row_major, try_identity_layout, try_make_col_major,
    try_make_row_major,
};
pub use moye_macros::{layout, tiler, tuple};
pub use product::{
    blocked_product, flat_product, logical_product, raked_product, tiled_product, try_blocked_product,
    try_flat_product, try_logical_product, try_raked_product, try_tiled_product, try_zipped_product,
    zipped_product,
};
pub use profile::{MAX_LEAVES, MAX_NODES};
pub use slice::{
    dice, slice, slice_and_offset, slice_offset, try_dice, try_slice, try_slice_and_offset, try_slice_offset,
};
pub use tiler::Tiler;
