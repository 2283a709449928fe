//! Tiled copies: a copy atom spread over the threads of a block and the values of each thread.
//!
//! A [`TiledCopy`] is a plain value, computed at compile time. It defines which thread copies which
//! part of a tile, and divides tensors accordingly: [`tidfrg_s`](TiledCopy::tidfrg_s) into
//! `(thread, value, rest)`, [`partition_s`](TiledCopy::partition_s) into one thread's part.
//!
//! ```
//! use moye_device::atom::TiledCopy;
//! use moye_device::atom::copy::UniversalCopy;
//! use moye_device::layout::{layout, tuple};
//!
//! // Six threads, each with a block of 2 x 3 elements of f64.
//! const COPY: TiledCopy<UniversalCopy<f64>, f64> = TiledCopy::new(layout!((2, 3):(3, 1)), layout!((2, 3):(1, 2)));
//! assert_eq!(COPY.tile(), tuple!((4, 9)));
//! assert_eq!(COPY.layout_tv(), layout!(((3, 2), (2, 3)):((12, 2), (1, 4))));
//! // A thread's part of the 4 x 9 destination: one element at a time, 2 x 3 times, in one tile.
//! assert_eq!(COPY.partition_d(layout!((4, 9))), layout!(((1, (2, 3)), 1, 1):((0, (1, 4)), 0, 0)));
//! ```
//!
//! In a kernel a type carries the tiled copy as its constant ([`StaticTiledCopy`], declared by
//! [`tiled_copy!`](crate::tiled_copy)), as tensors carry their layouts.

mod access;
mod cut;
mod kernel;
pub(crate) mod partition;

pub use kernel::{PartitionD, PartitionS, RetileOf, StaticTiledCopy, ThrCopy, ThreadD, ThreadS};
pub use partition::{CopyTiling, End};

use super::Atom;
use super::copy::{CopyAtom, ValueLayouts};
use super::tiled_mma::{Operand, TiledMma};
use crate::layout::{IntTuple, Layout, Tiler};
use crate::memory::Storable;
use crate::tiling::{TilingError, or_raise};
use core::fmt;
use core::marker::PhantomData;

/// The copy atom `A` tiled over threads and values, for elements of type `T`.
pub struct TiledCopy<A, T> {
    tiling: CopyTiling,
    atom: PhantomData<fn() -> (A, T)>,
}

impl<A, T> Clone for TiledCopy<A, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<A, T> Copy for TiledCopy<A, T> {}

impl<A: CopyAtom, T: Storable> TiledCopy<A, T> {
    /// The atom's layouts in elements of `T`.
    const ATOM: Result<ValueLayouts, TilingError> = match A::LAYOUTS.try_whole_values(T::BITS) {
        Ok(values) => Ok(values),
        Err(error) => Err(error.tiling("TiledCopy")),
    };

    /// Threads arranged over a tile by `threads`, each with a block of `values`: CuTe's
    /// `make_tiled_copy`.
    ///
    /// Thread `threads(m, n)` copies the block `(m, n)` of the tile, in the order of `values`.
    ///
    /// # Panics
    /// If [`try_new`](Self::try_new) returns an error; in a `const` this is a compile error.
    #[track_caller]
    pub const fn new(threads: Layout, values: Layout) -> Self {
        or_raise!(Self::try_new(threads, values))
    }

    /// [`new`](Self::new) as a `Result`.
    ///
    /// # Errors
    /// If `threads` or `values` skip an index or repeat one, or are not a multiple of the atom's.
    pub const fn try_new(threads: Layout, values: Layout) -> Result<Self, TilingError> {
        let atom = match Self::ATOM {
            Ok(atom) => atom,
            Err(error) => return Err(error),
        };
        Self::of(CopyTiling::of_threads_and_values(atom, threads, values))
    }

    /// Threads and values by `layout_tv`, over tiles of `tiler`: CuTe's `make_tiled_copy_impl`.
    ///
    /// # Panics
    /// If [`try_from_tv`](Self::try_from_tv) returns an error; in a `const` this is a compile
    /// error.
    #[track_caller]
    pub const fn from_tv(layout_tv: Layout, tiler: Tiler) -> Self {
        or_raise!(Self::try_from_tv(layout_tv, tiler))
    }

    /// [`from_tv`](Self::from_tv) as a `Result`.
    ///
    /// # Errors
    /// If the threads or values are not a multiple of the atom's, reach past the tile, or do not
    /// cover it.
    pub const fn try_from_tv(layout_tv: Layout, tiler: Tiler) -> Result<Self, TilingError> {
        let atom = match Self::ATOM {
            Ok(atom) => atom,
            Err(error) => return Err(error),
        };
        Self::of(CopyTiling::new(atom, layout_tv, tiler))
    }

    const fn of(tiling: Result<CopyTiling, TilingError>) -> Result<Self, TilingError> {
        match tiling {
            Ok(tiling) => Ok(Self { tiling, atom: PhantomData }),
            Err(error) => Err(error),
        }
    }

    /// The tiled copy without its types.
    pub const fn tiling(&self) -> &CopyTiling {
        &self.tiling
    }

    /// The division of a tensor into tiles.
    pub const fn tiler(&self) -> Tiler {
        self.tiling.tiler
    }

    /// The tile's shape.
    pub const fn tile(&self) -> IntTuple {
        self.tiling.tile
    }

    /// `(thread, value)` to the index in the tile, by the atom's reference.
    pub const fn layout_tv(&self) -> Layout {
        self.tiling.layout_tv
    }

    /// The number of threads.
    pub const fn threads(&self) -> i64 {
        self.tiling.layout_tv.extent(0)
    }

    /// The number of values of a thread in a tile.
    pub const fn values(&self) -> i64 {
        self.tiling.layout_tv.extent(1)
    }

    /// The atom's layouts in elements.
    pub const fn atom_layouts(&self) -> ValueLayouts {
        self.tiling.atom
    }
}

macro_rules! partitions {
    ($(
        $(#[$doc:meta])*
        $name:ident / $try_name:ident($($arg:ident)?) = $function:ident($($end:expr)?);
    )+) => {
        impl<A: CopyAtom, T: Storable> TiledCopy<A, T> { $(
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
            pub const fn $name(&self $(, $arg: Layout)?) -> Layout {
                or_raise!(self.$try_name($($arg)?))
            }

            #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") as a `Result`.")]
            ///
            /// # Errors
            /// If the tiles do not divide the tensor in a way that a layout has; the error names
            /// the numbers. As in CuTe, a tensor that is not a multiple of the tile is rounded up
            /// to one; in a kernel it does not compile.
            pub const fn $try_name(&self $(, $arg: Layout)?) -> Result<Layout, TilingError> {
                self.tiling.$function($($end,)? $($arg)?)
            }
        )+ }
    };
}
partitions! {
    /// `(thread, value)` of the source to the index in the tile.
    layout_src_tv / try_layout_src_tv() = end_tv(End::Source);
    /// `(thread, value)` of the destination to the index in the tile.
    layout_dst_tv / try_layout_dst_tv() = end_tv(End::Destination);
    /// A source `(M, N, ...)` as `(thread, (value, repetition), (REST_M, REST_N, ...))`.
    tidfrg_s / try_tidfrg_s(tensor) = tidfrg(End::Source);
    /// A destination `(M, N, ...)` as `(thread, (value, repetition), (REST_M, REST_N, ...))`.
    tidfrg_d / try_tidfrg_d(tensor) = tidfrg(End::Destination);
    /// A thread's part of a source `(M, N, ...)`: `((value, repetition), REST_M, REST_N, ...)`. Its
    /// start is mode 0 of [`tidfrg_s`](Self::tidfrg_s) at the thread.
    partition_s / try_partition_s(tensor) = partition(End::Source);
    /// A thread's part of a destination `(M, N, ...)`:
    /// `((value, repetition), REST_M, REST_N, ...)`.
    partition_d / try_partition_d(tensor) = partition(End::Destination);
    /// A thread's fragment `(V, REST_M, REST_N, ...)` in this copy's modes
    /// `((value, repetition), REST_M, REST_N, ...)`, for the source's side.
    retile_s / try_retile_s(fragment) = retile();
    /// A thread's fragment `(V, REST_M, REST_N, ...)` in this copy's modes
    /// `((value, repetition), REST_M, REST_N, ...)`, for the destination's side.
    retile_d / try_retile_d(fragment) = retile();
}

impl<A: CopyAtom, T: Storable> fmt::Debug for TiledCopy<A, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TiledCopy")
            .field("atom", &format_args!("{}", super::copy::name::<A>()))
            .field("element", &T::NAME)
            .field("tile", &self.tile())
            .field("layout_tv", &self.layout_tv())
            .finish()
    }
}

macro_rules! of_mma {
    ($($(#[$doc:meta])* $name:ident / $try_name:ident: $operand:expr;)+) => { $(
        $(#[$doc])*
        ///
        /// # Panics
        #[doc = concat!(
            "If [`",
            stringify!($try_name),
            "`] returns an error; in a `const` this is a compile error.",
        )]
        #[track_caller]
        pub const fn $name<A: CopyAtom, T: Storable, M: Atom>(mma: &TiledMma<M>) -> TiledCopy<A, T> {
            or_raise!($try_name(mma))
        }

        #[doc = concat!("[`", stringify!($name), "`] as a `Result`.")]
        ///
        /// # Errors
        /// If the copy atom needs more threads or values than the tiled MMA has.
        pub const fn $try_name<A: CopyAtom, T: Storable, M: Atom>(
            mma: &TiledMma<M>,
        ) -> Result<TiledCopy<A, T>, TilingError> {
            match TiledCopy::<A, T>::ATOM {
                Ok(atom) => TiledCopy::of(CopyTiling::of_operand(atom, mma.tiling(), $operand)),
                Err(error) => Err(error),
            }
        }
    )+ };
}
of_mma! {
    /// The tiled copy whose threads hold the elements of A that they hold in `mma`, for a tile
    /// `(M, K)`.
    make_tiled_copy_a / try_make_tiled_copy_a: Operand::A;
    /// The tiled copy whose threads hold the elements of B that they hold in `mma`, for a tile
    /// `(N, K)`.
    make_tiled_copy_b / try_make_tiled_copy_b: Operand::B;
    /// The tiled copy whose threads hold the elements of C that they hold in `mma`, for a tile
    /// `(M, N)`.
    make_tiled_copy_c / try_make_tiled_copy_c: Operand::C;
}
