//! The algebra of tiled MMAs: how the operands of a product are divided among threads and values.
//!
//! Functions of layouts only, as in CuTe's `TiledMMA`. The threads are ordered by
//! `thr_layout_vmnk`: `(V, M, N, K)` to the thread, where `V` counts the threads of one atom and
//! the other modes the atoms along M, N and K. The operand A has no mode N, so threads that differ
//! only there hold the same elements of it; the same holds for B and C.

use super::super::tiled_copy::partition::unpacked;
use crate::layout::{
    IntTuple, Layout, LayoutError, Tiler, make_col_major, try_complement, try_composition,
    try_composition_tiler, try_logical_divide, try_make_col_major, try_right_inverse, try_tiled_product,
    try_zipped_divide,
};
use crate::tensor::fragment_layout;
use crate::tiling::{TilingError, by_algebra, or_raise};

/// An operand of a product `C (M, N) += A (M, K) * B (N, K)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// `(M, K)`
    A,
    /// `(N, K)`
    B,
    /// `(M, N)`, the accumulator.
    C,
    /// `(M, N)`, the result: same as C, unless an atom's result has another type than C.
    D,
}

impl Operand {
    /// The operand's two modes among M, N, K, and the mode that it lacks.
    pub(crate) const fn modes(self) -> ([usize; 2], usize) {
        match self {
            Self::A => ([0, 2], 1),
            Self::B => ([1, 2], 0),
            Self::C | Self::D => ([0, 1], 2),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::A => "A (M, K)",
            Self::B => "B (N, K)",
            Self::C => "C (M, N)",
            Self::D => "D (M, N)",
        }
    }
}

/// The order of the elements of a tile along one mode: CuTe's permutation.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant, reason = "nothing is boxed in no_std, and a permutation is a constant")]
pub enum Permutation {
    /// The elements that the atoms along the mode cover: CuTe's `_`.
    Atoms,
    /// Tiles of this extent, in order.
    Tile(i64),
    /// A layout of the elements of a tile: the order in which the atoms take them.
    Layout(Layout),
}

/// A tiled MMA without its types. For tools, which take atoms by name; kernels use
/// [`TiledMma`](crate::atom::TiledMma).
#[derive(Clone, Copy, Debug)]
pub struct MmaTiling {
    /// m, n, k of the atom.
    pub shape: [i64; 3],
    /// `(thread, value)` of A, B, C and D.
    pub layouts: [Layout; 4],
    /// The order of the tile's elements along M, N and K.
    pub permutation: [Permutation; 3],
    /// `(V, M, N, K)` to the thread.
    pub thr_vmnk: Layout,
}

const WHAT: &str = "TiledMma";

/// The message for atoms with gaps between their threads that are not filled: `threads`, if they
/// have a layout.
const fn apart(thr_id: &Layout, atoms: &Layout, threads: Option<&Layout>) -> TilingError {
    let mut error = TilingError::of(WHAT)
        .str("an atom is executed by the threads ")
        .layout(thr_id)
        .str(", and ")
        .int(atoms.size());
    error = match threads {
        Some(threads) => error.str(" of them by ").layout(threads).str(
            ", between which there are threads that no atom has and that cannot have the same as others",
        ),
        None => error.str(" of them by threads that no layout gives"),
    };
    error.str(
        ": the 8 threads of a quad pair are the lanes 0 to 3 and 16 to 19, and four quad pairs make a warp; take 1, 2 or a \
         multiple of 4 atoms, (2,2,1) say",
    )
}
const MNK: [&str; 3] = ["M", "N", "K"];

impl MmaTiling {
    /// An atom of `m`, `n`, `k` (`shape`), with the threads `thr_id` and the thread-value layouts
    /// of A, B, C and D (`layouts`), repeated by `atoms`.
    ///
    /// # Errors
    /// Same as [`TiledMma::try_new`](crate::atom::TiledMma::try_new).
    pub const fn new(
        shape: [i64; 3],
        thr_id: Layout,
        layouts: [Layout; 4],
        atoms: Layout,
        permutation: [Permutation; 3],
    ) -> Result<Self, TilingError> {
        if atoms.rank() > 3 {
            return Err(TilingError::of(WHAT)
                .str("the layout of atoms goes along M, N and K, three modes; ")
                .layout(&atoms)
                .str(" has ")
                .int(atoms.rank() as i64));
        }
        let atoms = by_algebra!(WHAT, atoms.try_append_dim(3));
        let mut operand = 0;
        while operand < layouts.len() {
            if layouts[operand].rank() != 2 {
                return Err(TilingError::of(WHAT)
                    .str("a thread-value layout has two modes, (thread, value); ")
                    .layout(&layouts[operand])
                    .str(" has ")
                    .int(layouts[operand].rank() as i64));
            }
            operand += 1;
        }
        let mut mode = 0;
        while mode < 3 {
            if let Err(error) = extents_of(mode, shape[mode], atoms.extent(mode), &permutation[mode]) {
                return Err(error);
            }
            mode += 1;
        }
        let thr_vmnk = match try_tiled_product(thr_id, Tiler::layout(atoms)) {
            Ok(threads) => threads,
            // No layout represents the threads of another number of quad pairs.
            Err(_) if thr_id.cosize() > thr_id.size() => return Err(apart(&thr_id, &atoms, None)),
            Err(error) => return Err(TilingError::from_layout(WHAT, &error)),
        };
        let tiling = Self { shape, layouts, permutation, thr_vmnk };
        if by_algebra!(WHAT, try_right_inverse(atoms)).size() != atoms.size() {
            return Err(TilingError::of(WHAT)
                .str("the layout of atoms ")
                .layout(&atoms)
                .str(" gives the threads ")
                .layout(&thr_vmnk)
                .str(", which leaves numbers out or uses one twice: it must number its ")
                .int(atoms.size())
                .str(" atoms 0, 1, 2, ..."));
        }
        let all = by_algebra!(WHAT, tiling.with_idle());
        if by_algebra!(WHAT, try_right_inverse(all)).size() != all.size() {
            return Err(apart(&thr_id, &atoms, Some(&thr_vmnk)));
        }
        let mut mode = 0;
        while mode < 3 {
            let (tile, step) = (tiling.tile(mode), tiling.shape[mode] * tiling.atoms_along(mode));
            if tile % step != 0 {
                return Err(TilingError::of(WHAT)
                    .str("the tile of ")
                    .int(tile)
                    .str(" along ")
                    .str(MNK[mode])
                    .str(" is not a multiple of ")
                    .int(step)
                    .str(", the ")
                    .int(tiling.atoms_along(mode))
                    .str(" atoms of ")
                    .int(tiling.shape[mode])
                    .str(" side by side; take ")
                    .int(super::super::tiled_copy::partition::next_multiple(tile, step))
                    .str(", or fewer atoms"));
            }
            mode += 1;
        }
        Ok(tiling)
    }

    /// The number of threads. CuTe's `size`, except for one or two quad pairs, whose eight or
    /// sixteen lanes have gaps in their warp: there it is 32, and the lanes in the gaps hold copies
    /// of other lanes' elements.
    pub const fn threads(&self) -> i64 {
        or_raise!(self.coordinates()).size()
    }

    /// The threads of `thr_vmnk`, and the number of copies in the gaps: `(V, M, N, K, copies)`.
    const fn with_idle(&self) -> Result<Layout, LayoutError> {
        match try_complement(self.thr_vmnk, self.thr_vmnk.cosize()) {
            Ok(between) => Layout::try_concat(&[self.thr_vmnk, between]),
            Err(error) => Err(error),
        }
    }

    /// Thread to `(V, M, N, K)`, as an index. Like CuTe's `get_slice`, which decomposes a thread by
    /// the strides of `thr_vmnk`: a thread in a gap has the coordinate of the thread whose index
    /// differs only in the other digits.
    pub(super) const fn coordinates(&self) -> Result<Layout, TilingError> {
        let all = by_algebra!(WHAT, self.with_idle());
        let size = self.thr_vmnk.size();
        let alike = Layout::new(IntTuple::flat(&[size, all.size() / size]), IntTuple::flat(&[1, 0]));
        Ok(by_algebra!(WHAT, try_composition(alike, by_algebra!(WHAT, try_right_inverse(all)))))
    }

    /// Atoms along mode `mode` of M, N, K.
    ///
    /// # Panics
    /// If [`try_atoms_along`](Self::try_atoms_along) returns an error.
    #[track_caller]
    pub const fn atoms_along(&self, mode: usize) -> i64 {
        or_raise!(self.try_atoms_along(mode))
    }

    /// [`atoms_along`](Self::atoms_along) as a `Result`.
    ///
    /// # Errors
    /// If `mode` is not 0, 1 or 2.
    pub const fn try_atoms_along(&self, mode: usize) -> Result<i64, TilingError> {
        if mode < 3 { Ok(self.thr_vmnk.extent(mode + 1)) } else { Err(no_mode(mode)) }
    }

    /// The extent of the tile along mode `mode` of M, N, K.
    ///
    /// # Panics
    /// If [`try_tile`](Self::try_tile) returns an error.
    #[track_caller]
    pub const fn tile(&self, mode: usize) -> i64 {
        or_raise!(self.try_tile(mode))
    }

    /// [`tile`](Self::tile) as a `Result`.
    ///
    /// # Errors
    /// If `mode` is not 0, 1 or 2.
    pub const fn try_tile(&self, mode: usize) -> Result<i64, TilingError> {
        if mode >= 3 {
            return Err(no_mode(mode));
        }
        Ok(match self.permutation[mode] {
            Permutation::Atoms => self.shape[mode] * self.atoms_along(mode),
            Permutation::Tile(tile) => tile,
            Permutation::Layout(layout) => layout.size(),
        })
    }

    const fn tiler(&self, mode: usize) -> Tiler {
        match self.permutation[mode] {
            Permutation::Layout(layout) => Tiler::layout(layout),
            _ => Tiler::shape(IntTuple::int(self.tile(mode))),
        }
    }

    /// The tile of one operand: `(M, K)`, `(N, K)` or `(M, N)`.
    pub const fn operand_tile(&self, operand: Operand) -> IntTuple {
        let [first, second] = operand.modes().0;
        IntTuple::flat(&[self.tile(first), self.tile(second)])
    }

    const fn layout(&self, operand: Operand) -> Layout {
        self.layouts[match operand {
            Operand::A => 0,
            Operand::B => 1,
            Operand::C => 2,
            Operand::D => 3,
        }]
    }

    /// `((V, (THR_0, THR_1)), (value, (REST_0, REST_1)))` of an operand's tensor: CuTe's
    /// `thrfrg_A`, `_B`, `_C`.
    ///
    /// # Errors
    /// If no layout represents the division of the tensor by the tiles.
    pub const fn thrfrg(&self, operand: Operand, tensor: Layout) -> Result<Layout, TilingError> {
        let [first, second] = operand.modes().0;
        if tensor.rank() < 2 {
            return Err(TilingError::of(WHAT)
                .str("the operand ")
                .str(operand.name())
                .str(" has two modes; ")
                .layout(&tensor)
                .str(" has ")
                .int(tensor.rank() as i64));
        }
        // (PERM_0, PERM_1)
        let tile = by_algebra!(WHAT, Tiler::try_by_mode(&[self.tiler(first), self.tiler(second)]));
        let permuted = by_algebra!(WHAT, try_logical_divide(tensor, tile));
        // ((ATOM_0, ATOM_1), (REST_0, REST_1))
        let atom = [ints(self.shape[first]), ints(self.shape[second])];
        let by_atom = by_algebra!(WHAT, try_zipped_divide(permuted, Tiler::by_mode(&atom)));
        // ((V, value), (REST_0, REST_1))
        let by_value = by_algebra!(
            WHAT,
            try_composition_tiler(
                by_atom,
                by_algebra!(WHAT, Tiler::try_by_mode(&[Tiler::layout(self.layout(operand)), Tiler::any()]))
            )
        );
        // ((THR_0, THR_1), (REST_0, REST_1))
        let atoms = [ints(self.atoms_along(first)), ints(self.atoms_along(second))];
        let by_thread = by_algebra!(WHAT, try_zipped_divide(by_value.mode(1), Tiler::by_mode(&atoms)));
        let threads = by_algebra!(WHAT, Layout::try_concat(&[by_value.mode(0).mode(0), by_thread.mode(0)]));
        let values = by_algebra!(WHAT, Layout::try_concat(&[by_value.mode(0).mode(1), by_thread.mode(1)]));
        Ok(by_algebra!(WHAT, Layout::try_concat(&[threads, values])))
    }

    /// [`thrfrg`](Self::thrfrg) of a tensor that the tile divides; otherwise the last tiles would
    /// reach past its end.
    pub(crate) const fn thrfrg_whole(&self, operand: Operand, tensor: Layout) -> Result<Layout, TilingError> {
        let parts = self.thrfrg(operand, tensor);
        match self.is_whole(operand, &parts, &tensor) {
            Ok(()) => parts,
            Err(error) => Err(error),
        }
    }

    /// Whether the tile divides the tensor, given its [`thrfrg`](Self::thrfrg).
    pub(super) const fn is_whole(
        &self,
        operand: Operand,
        parts: &Result<Layout, TilingError>,
        tensor: &Layout,
    ) -> Result<(), TilingError> {
        let parts = match parts {
            Ok(parts) => parts,
            Err(error) => return Err(*error),
        };
        // If an operand is in shared memory, all threads of an atom hold all its elements.
        let atom = self.layout(operand);
        let alike = if atom.size() > atom.cosize() { atom.size() / atom.cosize() } else { 1 };
        if parts.size() != alike * tensor.size() {
            return Err(TilingError::of(WHAT)
                .str("the tile ")
                .tuple(&self.operand_tile(operand))
                .str(" of the operand ")
                .str(operand.name())
                .str(" does not divide the tensor ")
                .layout(tensor)
                .str(", of which it would take ")
                .int(parts.size())
                .str(" elements of ")
                .int(tensor.size())
                .str(": take a tensor whose extents are multiples of the tile's, fewer atoms side by side, or a permutation that \
                      names each element once"));
        }
        Ok(())
    }

    /// `(V, (THR_0, THR_1))` of an operand, with the missing mode inserted at stride 0:
    /// `(V, M, N, K)`.
    pub(super) const fn with_all_modes(&self, operand: Operand) -> Tiler {
        let (m, n, k) = (self.atoms_along(0), self.atoms_along(1), self.atoms_along(2));
        let modes = match operand {
            Operand::A => [pair(m, n, [1, 0]), Tiler::any()],
            Operand::B => [pair(m, n, [0, 1]), Tiler::any()],
            Operand::C | Operand::D => [Tiler::any(), pair(n, k, [1, 0])],
        };
        Tiler::by_mode(&[Tiler::any(), Tiler::by_mode(&modes)])
    }

    /// `(thread, (value, (REST_0, REST_1)))` of an operand's tensor.
    ///
    /// # Errors
    /// If the tile does not divide the tensor; the error names both.
    pub const fn by_thread(&self, operand: Operand, tensor: Layout) -> Result<Layout, TilingError> {
        self.by_thread_of(
            &self.thrfrg_whole(operand, tensor),
            &self.coordinates(),
            self.with_all_modes(operand),
        )
    }

    /// [`by_thread`](Self::by_thread), given the [`thrfrg_whole`](Self::thrfrg_whole) of the
    /// tensor, the [`coordinates`](Self::coordinates), and the tiler of the operand's
    /// [`with_all_modes`](Self::with_all_modes).
    pub(super) const fn by_thread_of(
        &self,
        parts: &Result<Layout, TilingError>,
        coordinates: &Result<Layout, TilingError>,
        all_modes: Tiler,
    ) -> Result<Layout, TilingError> {
        let parts = match parts {
            Ok(parts) => parts,
            Err(error) => return Err(*error),
        };
        let threads = by_algebra!(WHAT, try_composition_tiler(parts.mode(0), all_modes));
        let coordinates = match coordinates {
            Ok(coordinates) => *coordinates,
            Err(error) => return Err(*error),
        };
        let by_number = by_algebra!(WHAT, try_composition(threads, coordinates));
        Ok(by_algebra!(WHAT, Layout::try_concat(&[by_number, parts.mode(1)])))
    }

    /// `(thread, value)` to the index in the operand's tile: CuTe's `get_layoutA_TV`, `B`, `C`.
    ///
    /// # Errors
    /// If a permutation uses elements past the tile, or one twice; or if the tile has 2^63 elements
    /// or more.
    pub const fn layout_tv(&self, operand: Operand) -> Result<Layout, TilingError> {
        self.by_thread(operand, by_algebra!(WHAT, try_make_col_major(self.operand_tile(operand))))
    }

    /// A thread's part of an operand: `(value, REST_0, REST_1, ...)`, CuTe's `partition_A`, `B`,
    /// `C`.
    ///
    /// # Errors
    /// If no layout represents the division of the tensor by the tiles.
    pub const fn partition(&self, operand: Operand, tensor: Layout) -> Result<Layout, TilingError> {
        of_thread(&self.thrfrg(operand, tensor))
    }

    /// The layout of a thread's fragment of an operand: for A and B by [`fragment_layout`], for C
    /// and D compact in the order of its modes, independent of the strides in memory. CuTe's
    /// `partition_fragment_A`, `B`, `C`.
    ///
    /// # Errors
    /// Same as [`partition`](Self::partition).
    pub const fn fragment(&self, operand: Operand, tensor: Layout) -> Result<Layout, TilingError> {
        fragment_of(operand, &self.partition(operand, tensor))
    }
}

/// `(value, REST_0, REST_1, ...)` of `((V, (THR_0, THR_1)), (value, (REST_0, REST_1)))`.
pub(super) const fn of_thread(parts: &Result<Layout, TilingError>) -> Result<Layout, TilingError> {
    match parts {
        Ok(parts) => {
            let values = parts.mode(1);
            Ok(by_algebra!(WHAT, unpacked(values.mode(0), values.mode(1))))
        }
        Err(error) => Err(*error),
    }
}

/// The layout of a thread's fragment, given its part: see [`MmaTiling::fragment`].
pub(super) const fn fragment_of(
    operand: Operand,
    part: &Result<Layout, TilingError>,
) -> Result<Layout, TilingError> {
    match part {
        Ok(part) if matches!(operand, Operand::C | Operand::D) => Ok(make_col_major(part.shape())),
        Ok(part) => Ok(fragment_layout(*part)),
        Err(error) => Err(*error),
    }
}

/// Rejects an atom or a tile without extent along mode `mode`, and an extent of all atoms that does
/// not fit in 64 bits.
const fn extents_of(
    mode: usize,
    shape: i64,
    atoms: i64,
    permutation: &Permutation,
) -> Result<(), TilingError> {
    if shape < 1 {
        return Err(extent("the atom", shape, mode).str("; it must be at least 1"));
    }
    if let Permutation::Tile(tile) = permutation
        && *tile < 1
    {
        return Err(extent("the tile", *tile, mode).str("; it must be a multiple of the atom's ").int(shape));
    }
    if shape.checked_mul(atoms).is_none() {
        let error = extent("the atom", shape, mode).str(", and ").int(atoms);
        return Err(error.str(" of them side by side do not fit in 64 bits; take fewer"));
    }
    Ok(())
}

/// "the tile has the extent 0 along K".
const fn extent(what: &'static str, extent: i64, mode: usize) -> TilingError {
    TilingError::of(WHAT).str(what).str(" has the extent ").int(extent).str(" along ").str(MNK[mode])
}

/// The error of a mode that a product does not have.
#[cold]
const fn no_mode(mode: usize) -> TilingError {
    TilingError::of(WHAT)
        .str("there is no mode ")
        .int(mode as i64)
        .str("; the modes of a product are M, N and K: 0, 1 and 2")
}

/// The tiler of `extent` elements in order.
const fn ints(extent: i64) -> Tiler {
    Tiler::shape(IntTuple::int(extent))
}

/// The layout `(a, b):stride` as a tiler.
const fn pair(a: i64, b: i64, stride: [i64; 2]) -> Tiler {
    Tiler::layout(Layout::new(IntTuple::flat(&[a, b]), IntTuple::flat(&stride)))
}
