//! The common part of a tiled copy's partitions of a tensor, computed once.
//!
//! A constant of a generic type is evaluated for every instance of it, and the compiler's
//! evaluation of the algebra takes longer than the rest of its work on a kernel: one division
//! yields both a thread's origin and its elements.

use super::{End, StaticTiledCopy};
use crate::layout::Layout;
use crate::tensor::StaticLayout;
use crate::tiling::TilingError;
use core::marker::PhantomData;

/// A tensor of layout `L`, the source or the destination of the tiled copy `C`.
pub(super) struct Cut<const SOURCE: bool, L, C>(PhantomData<(L, C)>);

impl<const SOURCE: bool, C: StaticTiledCopy> Cut<SOURCE, (), C> {
    /// The common part for all tensors: see [`CopyTiling::thrval`](super::CopyTiling::thrval).
    const THRVAL: Result<Layout, TilingError> =
        C::COPY.tiling().thrval(if SOURCE { End::Source } else { End::Destination });

    /// Whether this side is the destination and has the source's layouts.
    const AS_SOURCE: bool = {
        let atom = C::COPY.tiling().atom;
        !SOURCE && atom.src.equals(&atom.dst)
    };
}

impl<const SOURCE: bool, L: StaticLayout, C: StaticTiledCopy> Cut<SOURCE, L, C> {
    /// `(thread, (value, repetition), (REST_M, REST_N, ...))`.
    pub const PARTS: Result<Layout, TilingError> =
        if Cut::<SOURCE, (), C>::AS_SOURCE { Cut::<true, L, C>::parts() } else { Self::cut() };

    // Functions, since constants that a function names are evaluated only if it is called.
    const fn parts() -> Result<Layout, TilingError> {
        Self::PARTS
    }

    const fn cut() -> Result<Layout, TilingError> {
        C::COPY.tiling().tidfrg_by(&Cut::<SOURCE, (), C>::THRVAL, L::LAYOUT)
    }
}
