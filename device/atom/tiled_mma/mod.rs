//! Tiled MMAs: an MMA atom repeated over warps, and over the elements of a larger tile.
//!
//! ```
//! use moye_device::atom::{Operand, TiledMma};
//! use moye_device::atom::mma::SM80_16x8x8_F32TF32TF32F32_TN;
//! use moye_device::layout::{layout, tuple};
//!
//! // Four warps, two by two over M and N, each with a 16 x 8 product.
//! const MMA: TiledMma<SM80_16x8x8_F32TF32TF32F32_TN> = TiledMma::new(layout!((2, 2, 1)));
//! assert_eq!((MMA.threads(), MMA.tile_mnk()), (128, tuple!((32, 16, 8))));
//! // A thread's part of a 64 x 64 accumulator: 4 elements of an atom, in 2 x 4 atoms.
//! assert_eq!(MMA.partition_c(layout!((64, 64))).shape(), tuple!(((2, 2), 2, 4)));
//! ```
//!
//! In a kernel a type carries the tiled MMA as its constant ([`StaticTiledMma`], declared by
//! [`tiled_mma!`](crate::tiled_mma)), as tensors carry their layouts.

mod cut;
mod kernel;
mod methods;
pub(crate) mod partition;

pub(crate) use kernel::stands_for;
pub use kernel::{
    AccumulatorOf, FragmentOf, OfA, OfB, OfC, OfD, OperandKind, PartitionMma, StaticTiledMma, ThrMma,
    ThreadMma,
};
pub use methods::StageOf;
pub use partition::{MmaTiling, Operand, Permutation};

use super::Atom;
use crate::analysis::{AccessReport, requests};
use crate::layout::{ComposedLayout, IntTuple, Layout};
use crate::memory::Storable;
use crate::tiling::{TilingError, or_raise};
use core::fmt;
use core::marker::PhantomData;

/// The MMA atom `A` tiled over warps and over the elements of a tile.
pub struct TiledMma<A> {
    tiling: MmaTiling,
    atom: PhantomData<fn() -> A>,
}

impl<A> Clone for TiledMma<A> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<A> Copy for TiledMma<A> {}

impl<A: Atom> TiledMma<A> {
    /// Atoms along M, N and K by `atoms`, for example `(2, 2, 1)`: CuTe's `make_tiled_mma`.
    ///
    /// One or two of the 8 x 8 x 4 atoms of sm_70, each of eight lanes with gaps between them,
    /// leave other lanes unused: these hold copies of the same elements, as in CuTe, and all 32
    /// execute the instruction. Only lanes whose index modulo 16 is below 4 or 8 should store
    /// accumulators (`lane & 12 == 0` for one atom, `lane & 8 == 0` for two).
    ///
    /// Adjacent atoms along K have separate accumulators of the same elements of C, as in CuTe: the
    /// kernel reduces them.
    ///
    /// # Panics
    /// If [`try_new`](Self::try_new) returns an error; in a `const` this is a compile error.
    #[track_caller]
    pub const fn new(atoms: Layout) -> Self {
        or_raise!(Self::try_new(atoms))
    }

    /// [`new`](Self::new) as a `Result`.
    ///
    /// # Errors
    /// If `atoms` has more than three modes, or does not number its atoms 0, 1, 2, ..., or leaves
    /// gaps in a warp (quad pairs: 1, 2 or a multiple of 4), or if the extents of all atoms do not
    /// fit in 64 bits.
    pub const fn try_new(atoms: Layout) -> Result<Self, TilingError> {
        Self::try_permuted(atoms, [Permutation::Atoms; 3])
    }

    /// [`new`](Self::new) with a larger tile, or another order of its elements, along each of M, N
    /// and K.
    ///
    /// # Panics
    /// If [`try_permuted`](Self::try_permuted) returns an error; in a `const` this is a compile
    /// error.
    #[track_caller]
    pub const fn permuted(atoms: Layout, permutation: [Permutation; 3]) -> Self {
        or_raise!(Self::try_permuted(atoms, permutation))
    }

    /// [`permuted`](Self::permuted) as a `Result`.
    ///
    /// # Errors
    /// Same as [`try_new`](Self::try_new), and if a tile is below 1 or not a multiple of the
    /// adjacent atoms.
    pub const fn try_permuted(atoms: Layout, permutation: [Permutation; 3]) -> Result<Self, TilingError> {
        let traits = const { A::TRAITS };
        match MmaTiling::new(traits.shape_mnk, traits.thr_id, traits.layouts, atoms, permutation) {
            Ok(tiling) => Ok(Self { tiling, atom: PhantomData }),
            Err(error) => Err(error),
        }
    }

    /// [`permuted`](Self::permuted) with a tile of `m` x `n` x `k` elements, in order.
    ///
    /// # Panics
    /// If [`try_tiled`](Self::try_tiled) returns an error; in a `const` this is a compile error.
    #[track_caller]
    pub const fn tiled(atoms: Layout, tile: [i64; 3]) -> Self {
        or_raise!(Self::try_tiled(atoms, tile))
    }

    /// [`tiled`](Self::tiled) as a `Result`.
    ///
    /// # Errors
    /// Same as [`try_permuted`](Self::try_permuted).
    pub const fn try_tiled(atoms: Layout, [m, n, k]: [i64; 3]) -> Result<Self, TilingError> {
        Self::try_permuted(atoms, [Permutation::Tile(m), Permutation::Tile(n), Permutation::Tile(k)])
    }

    /// `(V, M, N, K)` to the thread: the threads of an atom, and the atoms along each mode.
    pub const fn thr_layout_vmnk(&self) -> Layout {
        self.tiling.thr_vmnk
    }

    /// The number of threads: [`MmaTiling::threads`].
    pub const fn threads(&self) -> i64 {
        self.tiling.threads()
    }

    /// The tile `(M, N, K)`.
    pub const fn tile_mnk(&self) -> IntTuple {
        IntTuple::flat(&[self.tiling.tile(0), self.tiling.tile(1), self.tiling.tile(2)])
    }

    /// The extent of the tile along mode `mode` of M, N, K.
    ///
    /// # Panics
    /// If [`try_tile_size`](Self::try_tile_size) returns an error.
    #[track_caller]
    pub const fn tile_size(&self, mode: usize) -> i64 {
        or_raise!(self.try_tile_size(mode))
    }

    /// [`tile_size`](Self::tile_size) as a `Result`.
    ///
    /// # Errors
    /// If `mode` is not 0, 1 or 2.
    pub const fn try_tile_size(&self, mode: usize) -> Result<i64, TilingError> {
        self.tiling.try_tile(mode)
    }

    /// The tile of one operand: `(M, K)`, `(N, K)` or `(M, N)`.
    pub const fn operand_tile(&self, operand: Operand) -> IntTuple {
        self.tiling.operand_tile(operand)
    }

    /// The tiled MMA without its types.
    pub const fn tiling(&self) -> &MmaTiling {
        &self.tiling
    }

    /// `(thread, value)` of an operand to the index in its tile: CuTe's `get_layoutA_TV`,
    /// `get_layoutB_TV` and `get_layoutC_TV`.
    ///
    /// # Panics
    /// If [`try_layout_tv`](Self::try_layout_tv) returns an error; in a `const` this is a compile
    /// error.
    #[track_caller]
    pub const fn layout_tv(&self, operand: Operand) -> Layout {
        or_raise!(self.try_layout_tv(operand))
    }

    /// [`layout_tv`](Self::layout_tv) as a `Result`.
    ///
    /// # Errors
    /// If a permutation uses elements past the tile, or one twice, or divides it in a way that no
    /// layout represents; or if the tile has 2^63 elements or more.
    pub const fn try_layout_tv(&self, operand: Operand) -> Result<Layout, TilingError> {
        self.tiling.layout_tv(operand)
    }

    /// The requests of a warp that accesses an operand's tile one element `T` at a time: sectors
    /// and bank conflicts.
    ///
    /// `tensor` is the tile's layout, with its strides and swizzle in memory.
    ///
    /// ```
    /// use moye_device::atom::mma::UniversalFma;
    /// use moye_device::atom::{Operand, TiledMma};
    /// use moye_device::layout::{ComposedLayout, layout};
    ///
    /// // A warp is a column of threads: it reads 32 neighbours of A, and of B one element.
    /// const MMA: TiledMma<UniversalFma<f32>> = TiledMma::new(layout!((32, 8, 1)));
    /// const SMEM: ComposedLayout = ComposedLayout::plain(layout!((128, 8):(1, 129)));
    /// const _: () = MMA.access::<f32>(Operand::A, SMEM).expect_conflict_free();
    /// const _: () = MMA.access::<f32>(Operand::B, SMEM).expect_conflict_free();
    /// ```
    ///
    /// # Panics
    /// If [`try_access`](Self::try_access) returns an error; in a `const` this is a compile error.
    #[track_caller]
    pub const fn access<T: Storable>(&self, operand: Operand, tensor: ComposedLayout) -> AccessReport {
        or_raise!(self.try_access::<T>(operand, tensor))
    }

    /// [`access`](Self::access) as a `Result`.
    ///
    /// # Errors
    /// If the tile does not divide the tensor, or its accesses cannot be analysed; the error has
    /// the reason.
    pub const fn try_access<T: Storable>(
        &self,
        operand: Operand,
        tensor: ComposedLayout,
    ) -> Result<AccessReport, TilingError> {
        let layout = match self.tiling.by_thread(operand, tensor.layout) {
            Ok(layout) => layout,
            Err(error) => return Err(error),
        };
        match requests(&ComposedLayout { layout, ..tensor }, T::BITS, 1, 32) {
            Ok(report) => Ok(report),
            Err(why) => Err(TilingError::of("the accesses of a tiled MMA").str(why.message().as_str())),
        }
    }
}

macro_rules! partitions {
    ($(
        $(#[$doc:meta])*
        $name:ident / $try_name:ident = $function:ident($operand:expr);
    )+) => {
        impl<A: Atom> TiledMma<A> { $(
            $(#[$doc])*
            ///
            /// # Panics
            #[doc = concat!(
                "If [`",
                stringify!($try_name),
                "`](Self::",
                stringify!($try_name),
                ") returns an error; in a `const` this is a compile error.",
            )]
            #[track_caller]
            pub const fn $name(&self, tensor: Layout) -> Layout {
                or_raise!(self.$try_name(tensor))
            }

            #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") as a `Result`.")]
            ///
            /// # Errors
            /// If the tiles do not divide the tensor in a way that a layout has; the error names
            /// the numbers. As in CuTe, a tensor that is not a multiple of the tile is rounded up
            /// to one; in a kernel it does not compile.
            pub const fn $try_name(&self, tensor: Layout) -> Result<Layout, TilingError> {
                self.tiling.$function($operand, tensor)
            }
        )+ }
    };
}
partitions! {
    /// A tensor `(M, K)` as `((V, (THR_M, THR_K)), (value, (REST_M, REST_K)))`.
    thrfrg_a / try_thrfrg_a = thrfrg(Operand::A);
    /// A tensor `(N, K)` as `((V, (THR_N, THR_K)), (value, (REST_N, REST_K)))`.
    thrfrg_b / try_thrfrg_b = thrfrg(Operand::B);
    /// A tensor `(M, N)` as `((V, (THR_M, THR_N)), (value, (REST_M, REST_N)))`.
    thrfrg_c / try_thrfrg_c = thrfrg(Operand::C);
    /// A thread's part of a tensor `(M, K)`: `(value, REST_M, REST_K)`.
    partition_a / try_partition_a = partition(Operand::A);
    /// A thread's part of a tensor `(N, K)`: `(value, REST_N, REST_K)`.
    partition_b / try_partition_b = partition(Operand::B);
    /// A thread's part of a tensor `(M, N)`: `(value, REST_M, REST_N)`.
    partition_c / try_partition_c = partition(Operand::C);
    /// A thread's fragment of a tensor `(M, K)`, compact: `(value, REST_M, REST_K)`.
    fragment_a / try_fragment_a = fragment(Operand::A);
    /// A thread's fragment of a tensor `(N, K)`, compact: `(value, REST_N, REST_K)`.
    fragment_b / try_fragment_b = fragment(Operand::B);
    /// A thread's fragment of a tensor `(M, N)`, compact: `(value, REST_M, REST_N)`.
    fragment_c / try_fragment_c = fragment(Operand::C);
    /// A thread's part of a result `(M, N)`: `(value, REST_M, REST_N)`. Same as for C, unless the
    /// atom's types differ.
    partition_d / try_partition_d = partition(Operand::D);
    /// A thread's fragment of a result `(M, N)`, compact: `(value, REST_M, REST_N)`.
    fragment_d / try_fragment_d = fragment(Operand::D);
}

impl<A: Atom> fmt::Debug for TiledMma<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TiledMma")
            .field("atom", &A::TRAITS.name)
            .field("tile_mnk", &self.tile_mnk())
            .field("thr_layout_vmnk", &self.thr_layout_vmnk())
            .finish()
    }
}
