//! The algebra of tiled copies: how a tensor is divided among threads and values.
//!
//! Functions of layouts only, as in CuTe's `TiledCopy`, independent of elements and instructions.
//! The three thread-value layouts of an atom (source, destination, reference) order the same
//! elements differently; the tiled copy's `(thread, value)` layout uses the order of the reference.

use super::super::copy::ValueLayouts;
use super::super::tiled_mma::{MmaTiling, Operand};
use crate::layout::{
    IntTuple, Layout, Tiler, coalesce, make_col_major, try_coalesce_profile, try_composition,
    try_composition_tiler, try_logical_product, try_product_each, try_right_inverse, try_upcast,
    try_zipped_divide, tuple,
};
use crate::tensor::gcd;
use crate::tiling::{TilingError, by_algebra};

/// A tiled copy without its types: an atom's layouts over `(thread, value) -> tile`. For tools,
/// which take atoms by name; kernels use [`TiledCopy`](crate::atom::TiledCopy).
#[derive(Clone, Copy, Debug)]
pub struct CopyTiling {
    /// The atom's layouts in elements.
    pub atom: ValueLayouts,
    /// `(thread, value)` to the index in the tile.
    pub layout_tv: Layout,
    /// The division of a tensor into tiles.
    pub tiler: Tiler,
    /// The tile's shape.
    pub tile: IntTuple,
}

/// A side of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The source.
    Source,
    /// The destination.
    Destination,
}

const WHAT: &str = "TiledCopy";

impl CopyTiling {
    /// Threads and values by `layout_tv`, over tiles of `tiler`.
    ///
    /// # Errors
    /// If the threads or values are not a multiple of the atom's, reach past the tile, or do not
    /// cover it.
    pub const fn new(atom: ValueLayouts, layout_tv: Layout, tiler: Tiler) -> Result<Self, TilingError> {
        if layout_tv.rank() != 2 {
            return Err(TilingError::of(WHAT)
                .str("a thread-value layout has two modes, (thread, value); ")
                .layout(&layout_tv)
                .str(" has ")
                .int(layout_tv.rank() as i64));
        }
        let (threads, values) = (layout_tv.extent(0), layout_tv.extent(1));
        let (atom_threads, atom_values) = (atom.thr_id.size(), atom.reference.extent(1));
        if threads % atom_threads != 0 {
            return Err(TilingError::of(WHAT)
                .str("the ")
                .int(threads)
                .str(" threads of ")
                .layout(&layout_tv)
                .str(" are not a multiple of the ")
                .int(atom_threads)
                .str(" that execute the copy atom together; take ")
                .int(next_multiple(threads, atom_threads))
                .str(" threads, or an atom of fewer"));
        }
        if values % atom_values != 0 {
            return Err(TilingError::of(WHAT)
                .str("the ")
                .int(values)
                .str(" values of a thread in ")
                .layout(&layout_tv)
                .str(" are not a multiple of the ")
                .int(atom_values)
                .str(" elements of ")
                .int(atom.bits)
                .str(" bits that the copy atom moves for it at once; take ")
                .int(next_multiple(values, atom_values))
                .str(" values a thread, or an atom that moves ")
                .int(gcd(values as u64, atom_values as u64) as i64)
                .str(" at once, ")
                .int(gcd(values as u64, atom_values as u64) as i64 * atom.bits)
                .str(" bits"));
        }
        let tile = by_algebra!(WHAT, tiler.try_tile_shape());
        let size = by_algebra!(WHAT, crate::layout::try_product(tile));
        if has_negative_stride(&layout_tv) {
            return Err(TilingError::of(WHAT)
                .str("the thread-value layout ")
                .layout(&layout_tv)
                .str(" has a negative stride, and would start before the tile: count the threads or values in the other direction"));
        }
        if layout_tv.cosize() > size {
            return Err(TilingError::of(WHAT)
                .str("the thread-value layout ")
                .layout(&layout_tv)
                .str(" reaches ")
                .int(layout_tv.cosize())
                .str(" elements, and the tile has ")
                .int(size));
        }
        // tile -> (thread, value), for as many elements as the modes are contiguous.
        let reached = by_algebra!(WHAT, try_right_inverse(layout_tv)).size();
        if reached < size {
            return Err(TilingError::of(WHAT)
                .str("the thread-value layout ")
                .layout(&layout_tv)
                .str(" leaves elements of the tile out, or names them in an order that has no inverse: it reaches ")
                .int(reached)
                .str(" of ")
                .int(size)
                .str(" one after the other; take more threads or values, or a smaller tile"));
        }
        Ok(Self { atom, layout_tv, tiler, tile })
    }

    /// Threads arranged over a tile by `threads`, each with a block of `values`: CuTe's
    /// `make_tiled_copy`.
    ///
    /// # Errors
    /// If `threads` or `values` skip an index or repeat one, or are not a multiple of the atom's.
    pub const fn of_threads_and_values(
        atom: ValueLayouts,
        threads: Layout,
        values: Layout,
    ) -> Result<Self, TilingError> {
        let tv = by_algebra!(WHAT, crate::layout::try_make_layout_tv(threads, values));
        Self::new(atom, tv.layout, Tiler::shape(tv.tile))
    }

    /// Threads and values of a tiled MMA for one operand: CuTe's `make_tiled_copy_A`, `_B` and
    /// `_C`.
    ///
    /// # Errors
    /// If the copy atom needs more threads or values than the tiled MMA has.
    pub const fn of_operand(
        atom: ValueLayouts,
        mma: &MmaTiling,
        operand: Operand,
    ) -> Result<Self, TilingError> {
        let tv = match mma.layout_tv(operand) {
            Ok(tv) => tv,
            Err(error) => return Err(error),
        };
        Self::new(atom, tv, Tiler::shape(mma.operand_tile(operand)))
    }

    /// The thread-value layout of one side of the atom.
    const fn end(&self, end: End) -> Layout {
        match end {
            End::Source => self.atom.src,
            End::Destination => self.atom.dst,
        }
    }

    /// `(thread, (value, repetition), (REST_M, REST_N, ...))` of a tensor `(M, N, ...)`: CuTe's
    /// `tidfrg_S` and `tidfrg_D`.
    ///
    /// # Errors
    /// If no layout represents the division of the tensor by the tiles.
    pub const fn tidfrg(&self, end: End, tensor: Layout) -> Result<Layout, TilingError> {
        self.tidfrg_by(&self.thrval(end), tensor)
    }

    /// [`tidfrg`](Self::tidfrg), given the side's [`thrval`](Self::thrval), which is the same for
    /// all tensors.
    pub(super) const fn tidfrg_by(
        &self,
        thrval: &Result<Layout, TilingError>,
        tensor: Layout,
    ) -> Result<Layout, TilingError> {
        // ((TILE_M, TILE_N, ...), (REST_M, REST_N, ...))
        let tiles = by_algebra!(WHAT, try_zipped_divide(tensor, self.tiler));
        match thrval {
            Ok(thrval) => of_tiles(thrval, tiles),
            Err(error) => Err(*error),
        }
    }

    /// `((thread, repeated threads), (value, repetition))` of one side to the index in the tile.
    pub(super) const fn thrval(&self, end: End) -> Result<Layout, TilingError> {
        if self.atom.reference.size() == 1 && self.end(end).size() == 1 {
            // One thread and one value: nothing is reordered. Most copies take this path.
            let one = make_col_major(IntTuple::int(1));
            let values = Layout::concat(&[one, coalesce(self.layout_tv.mode(1))]);
            return Ok(Layout::concat(&[coalesce(self.layout_tv.mode(0)), values]));
        }
        // The side's (thread, value) -> the reference's (thread, value)
        let inverse = by_algebra!(WHAT, try_right_inverse(self.atom.reference));
        let ref2end = by_algebra!(WHAT, try_composition(inverse, self.end(end)));
        // ((thread, value) of the atom, (repeated threads, repeated values)) -> tile
        let atom = IntTuple::flat(&[self.atom.thr_id.size(), self.atom.reference.extent(1)]);
        let by_atom = by_algebra!(WHAT, try_zipped_divide(self.layout_tv, Tiler::shape(atom)));
        let by_end = by_algebra!(WHAT, try_composition(by_atom.mode(0), ref2end));
        // ((thread, repeated threads), (value, repeated values)) -> tile
        let threads = by_algebra!(WHAT, Layout::try_concat(&[by_end.mode(0), by_atom.mode(1).mode(0)]));
        let values = by_algebra!(WHAT, Layout::try_concat(&[by_end.mode(1), by_atom.mode(1).mode(1)]));
        let zipped = by_algebra!(WHAT, Layout::try_concat(&[threads, values]));
        Ok(by_algebra!(WHAT, try_coalesce_profile(zipped, tuple!((1, (1, 1))))))
    }

    /// `(thread, value)` of one side to the index in the tile: CuTe's `get_layoutS_TV` and
    /// `get_layoutD_TV`.
    ///
    /// # Errors
    /// If no layout represents the division of the tile by the tiler.
    pub const fn end_tv(&self, end: End) -> Result<Layout, TilingError> {
        let tile = make_col_major(self.tile);
        let one = by_algebra!(WHAT, tile.try_append_dim(tile.rank() + 1));
        // ((TILE_M, TILE_N, ...), 1)
        let tiles = Layout::concat(&[tile, one.mode(tile.rank())]);
        let thrval = match self.thrval(end) {
            Ok(thrval) => thrval,
            Err(error) => return Err(error),
        };
        let parts = match of_tiles(&thrval, tiles) {
            Ok(parts) => parts,
            Err(error) => return Err(error),
        };
        Ok(Layout::concat(&[parts.mode(0), parts.mode(1)]))
    }

    /// The part of a thread: `((value, repetition), REST_M, REST_N, ...)`, CuTe's `partition_S` and
    /// `partition_D`.
    ///
    /// # Errors
    /// Same as [`tidfrg`](Self::tidfrg).
    pub const fn partition(&self, end: End, tensor: Layout) -> Result<Layout, TilingError> {
        of_thread(&self.tidfrg(end, tensor))
    }

    /// [`partition`](Self::partition) of a tensor that the tile divides; otherwise the last tiles
    /// would reach past its end.
    ///
    /// # Errors
    /// If the tile does not divide the tensor; the error names both.
    pub const fn partition_whole(&self, end: End, tensor: Layout) -> Result<Layout, TilingError> {
        self.partition_whole_of(&self.tidfrg(end, tensor), &tensor)
    }

    /// [`partition_whole`](Self::partition_whole), given the [`tidfrg`](Self::tidfrg) of the
    /// tensor.
    pub(super) const fn partition_whole_of(
        &self,
        parts: &Result<Layout, TilingError>,
        tensor: &Layout,
    ) -> Result<Layout, TilingError> {
        let tile = self.tile.size();
        if let Ok(cut) = parts
            && tile * cut.extent(2) != tensor.size()
        {
            let tiles = cut.extent(2);
            return Err(TilingError::of(WHAT)
                .str("the tile ")
                .tuple(&self.tile)
                .str(" does not divide the tensor ")
                .layout(tensor)
                .str(", of which ")
                .int(tiles)
                .str(" tiles would take ")
                .int(tile * tiles)
                .str(" elements of ")
                .int(tensor.size())
                .str(
                    ": take a tensor whose extents are multiples of the tile's, or fewer threads or values",
                ));
        }
        of_thread(parts)
    }

    /// A thread's fragment `(V, REST_M, REST_N, ...)` of another partition of the same tile, with
    /// this copy's modes `((value, repetition), REST_M, REST_N, ...)`: CuTe's `retile`.
    ///
    /// # Errors
    /// If the fragment does not belong to this copy's tile.
    pub const fn retile(&self, fragment: Layout) -> Result<Layout, TilingError> {
        let values = fragment.extent(0);
        let threads = self.layout_tv.extent(0);
        // (m, n) -> index of the value, in units of the fragment's values
        let inverse = by_algebra!(WHAT, try_right_inverse(self.layout_tv));
        let by_tile = by_algebra!(WHAT, inverse.try_with_shape(self.tile));
        let frg_mn = by_algebra!(WHAT, try_upcast(by_tile, threads * values));
        // (values of the atom, repetition) -> (v, m, n)
        let places = by_algebra!(WHAT, try_right_inverse(frg_mn));
        let all = by_algebra!(
            WHAT,
            try_logical_product(make_col_major(IntTuple::int(values)), Tiler::layout(places))
        );
        let atom = make_col_major(IntTuple::int(self.atom.reference.extent(1)));
        let frg_v = by_algebra!(WHAT, try_zipped_divide(all, Tiler::layout(atom)));
        // ((V, TILE_M, TILE_N, ...), (1, REST_M, REST_N, ...))
        let tile = by_algebra!(WHAT, try_product_each(frg_mn.shape()));
        let tile = by_algebra!(WHAT, tile.try_prepend(IntTuple::int(values)));
        let tiles = by_algebra!(WHAT, try_zipped_divide(fragment, Tiler::shape(tile)));
        let tiler = by_algebra!(WHAT, Tiler::try_by_mode(&[Tiler::layout(frg_v), Tiler::any()]));
        let parts = by_algebra!(WHAT, try_composition_tiler(tiles, tiler));
        let rest = parts.mode(1);
        let rest = by_algebra!(WHAT, rest.try_take(1, rest.rank()));
        Ok(by_algebra!(WHAT, unpacked(parts.mode(0), rest)))
    }
}

/// `(thread, (value, repetition), (REST_M, REST_N, ...))` of a tensor that is already divided into
/// tiles.
const fn of_tiles(thrval: &Layout, tiles: Layout) -> Result<Layout, TilingError> {
    // ((thread, value), (REST_M, REST_N, ...))
    let tiler = by_algebra!(WHAT, Tiler::try_by_mode(&[Tiler::layout(*thrval), Tiler::any()]));
    let parts = by_algebra!(WHAT, try_composition_tiler(tiles, tiler));
    let thrval = parts.mode(0);
    let modes = [thrval.mode(0), thrval.mode(1), parts.mode(1)];
    Ok(by_algebra!(WHAT, Layout::try_concat(&modes)))
}

/// `((value, repetition), REST_M, REST_N, ...)` of
/// `(thread, (value, repetition), (REST_M, REST_N, ...))`.
pub(super) const fn of_thread(parts: &Result<Layout, TilingError>) -> Result<Layout, TilingError> {
    let parts = match parts {
        Ok(parts) => parts,
        Err(error) => return Err(*error),
    };
    let rest = parts.mode(2);
    if rest.rank() == 1 {
        // As in CuTe, the rest of a tensor of one mode stays a tuple of one.
        return Ok(Layout::concat(&[parts.mode(1), rest]));
    }
    Ok(by_algebra!(WHAT, unpacked(parts.mode(1), rest)))
}

/// `(first, rest_0, rest_1, ...)`.
pub(crate) const fn unpacked(first: Layout, rest: Layout) -> Result<Layout, crate::layout::LayoutError> {
    rest.try_prepend(first)
}

const fn has_negative_stride(layout: &Layout) -> bool {
    let leaves = layout.leaves();
    let mut leaf = 0;
    while leaf < leaves {
        if layout.shape[leaf] > 1 && layout.step(leaf) < 0 {
            return true;
        }
        leaf += 1;
    }
    false
}

/// The smallest multiple of `of` that is at least `value`; if that does not fit, the largest that
/// does.
pub(crate) const fn next_multiple(value: i64, of: i64) -> i64 {
    let below = value / of * of;
    if below == value {
        return value;
    }
    match below.checked_add(of) {
        Some(above) => above,
        None => below,
    }
}
