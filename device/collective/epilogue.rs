//! Epilogues: map each accumulator and its coordinates in C to the result.
//!
//! An epilogue is a value; a tuple of epilogues applies them in order. [`ByElement`] combines an
//! epilogue with C's shape, and is passed to a kernel's body:
//!
//! ```
//! use moye_device::collective::{Coordinate, Epilogue, Map, Scale};
//! let epilogue = (Scale(0.5), Map(|x: f32| x.max(0.0)));
//! let at = Coordinate { row: 3, column: 4, batch: 0 };
//! // SAFETY: neither reads memory.
//! assert_eq!(unsafe { (epilogue.element(3.0, at), epilogue.element(-3.0, at)) }, (1.5, 0.0));
//! ```
//!
//! A custom epilogue gets the element's row, column and batch. This one masks a causal product:
//!
//! ```
//! use moye_device::collective::{Coordinate, Epilogue};
//!
//! #[derive(Clone, Copy)]
//! struct Causal;
//!
//! impl Epilogue for Causal {
//!     unsafe fn element(&self, value: f32, at: Coordinate) -> f32 {
//!         if at.column > at.row { f32::NEG_INFINITY } else { value }
//!     }
//! }
//! ```

use super::Team;
use super::mainloop::{Accumulators, Mainloop};
use super::tiles::WorkTile;
use crate::arch::{Convert, Fma};
use crate::atom::StaticTiledMma;
use crate::memory::{Element, Global, GlobalPointer};

/// The position of an element in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coordinate {
    /// Its row.
    pub row: u32,
    /// Its column.
    pub column: u32,
    /// Its matrix in the batch.
    pub batch: u32,
}

/// An epilogue for accumulators of type `S`.
///
/// It is called only for elements of C, so that it need not check bounds, unless it sets
/// [`ANYWHERE`](Self::ANYWHERE). Blocks whose tiles overlap call it for the same element, so it
/// must not have side effects.
pub trait Epilogue<S = f32>: Copy {
    /// Whether each result equals the value.
    const IS_IDENTITY: bool = false;

    /// Whether it may also be called for an accumulator out of bounds of C, whose result is not
    /// stored: set it for a function of the value only, or if reads are predicated. Without a
    /// branch around each call the code is shorter and takes fewer registers.
    const ANYWHERE: bool = false;

    /// The result, given the value so far.
    ///
    /// # Safety
    /// `at` is an element of C, for which the epilogue's pointers are valid; or `ANYWHERE` is set,
    /// and the pointers are valid wherever it reads.
    unsafe fn element(&self, value: S, at: Coordinate) -> S;
}

impl<S> Epilogue<S> for () {
    const IS_IDENTITY: bool = true;
    const ANYWHERE: bool = true;

    #[inline(always)]
    unsafe fn element(&self, value: S, _: Coordinate) -> S {
        value
    }
}

macro_rules! tuples {
    ($($($name:ident)+;)+) => { $(
        impl<S, $($name: Epilogue<S>),+> Epilogue<S> for ($($name,)+) {
            const IS_IDENTITY: bool = $($name::IS_IDENTITY)&&+;
            const ANYWHERE: bool = $($name::ANYWHERE)&&+;

            #[cfg_attr(target_arch = "nvptx64", inline(always))]
            #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
            unsafe fn element(&self, value: S, at: Coordinate) -> S {
                let ($($name,)+) = self;
                // SAFETY: `at` is an element of C if one of the parts requires it.
                unsafe { $(let value = $name.element(value, at);)+ value }
            }
        }
    )+ };
}
tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
}

/// A function of the value only, such as an activation.
#[derive(Clone, Copy, Debug)]
pub struct Map<F>(pub F);

impl<S, F: Fn(S) -> S + Copy> Epilogue<S> for Map<F> {
    const ANYWHERE: bool = true;

    #[inline(always)]
    unsafe fn element(&self, value: S, _: Coordinate) -> S {
        self.0(value)
    }
}

/// Multiplication by a factor: alpha.
#[derive(Clone, Copy, Debug)]
pub struct Scale<S>(pub S);

impl<S: Fma> Epilogue<S> for Scale<S> {
    const ANYWHERE: bool = true;

    #[inline(always)]
    unsafe fn element(&self, value: S, _: Coordinate) -> S {
        self.0.fma(value, S::ZERO)
    }
}

/// A vector with an element for each row of C, or for each column.
#[derive(Clone, Copy, Debug)]
struct Vector<T: Element> {
    pointer: Global<T>,
    count: u32,
    batch: i64,
    by_row: bool,
}

impl<T: Element> Vector<T> {
    /// # Safety
    /// The vector may be read.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn at(&self, at: Coordinate) -> T {
        let index = if self.by_row { at.row } else { at.column };
        let element = self.pointer.offset(i64::from(at.batch) * self.batch + i64::from(index));
        // SAFETY: the operand is readable; out of bounds elements are not read.
        unsafe { element.read_if(index < self.count) }
    }
}

macro_rules! vectors {
    ($($(#[$doc:meta])* $name:ident $what:literal |$value:ident, $own:ident| $result:expr;)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<T: Element>(Vector<T>);

        impl<T: Element> $name<T> {
            #[doc = concat!($what, " for each of C's `rows`, and the distance to those of the next matrix of the batch.")]
            #[inline(always)]
            #[must_use]
            pub const fn of_rows(pointer: Global<T>, rows: u32, batch: i64) -> Self {
                Self(Vector { pointer, count: rows, batch, by_row: true })
            }

            #[doc = concat!($what, " for each of C's `columns`, and the distance to those of the next matrix of the batch.")]
            #[inline(always)]
            #[must_use]
            pub const fn of_columns(pointer: Global<T>, columns: u32, batch: i64) -> Self {
                Self(Vector { pointer, count: columns, batch, by_row: false })
            }
        }

        impl<T: Element + Convert<f32>> Epilogue for $name<T> {
            const ANYWHERE: bool = true;

            #[cfg_attr(target_arch = "nvptx64", inline(always))]
            #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
            unsafe fn element(&self, $value: f32, at: Coordinate) -> f32 {
                // SAFETY: the vector may be read.
                let $own: f32 = unsafe { self.0.at(at) }.convert();
                $result
            }
        }
    )+ };
}
vectors! {
    /// A bias, added to each element.
    Bias "An element" |value, bias| value + bias;
    /// Factors of rows or columns: the scales of quantised operands.
    Scales "A factor" |value, scale| value * scale;
}

/// A matrix of C's shape, combined with C element by element: `f(value, element)`. Beta times the
/// previous C is one example, a residual and a gate are others.
#[derive(Clone, Copy, Debug)]
pub struct With<T: Element, F> {
    pointer: Global<T>,
    shape: (u32, u32),
    strides: (i64, i64),
    batch: i64,
    f: F,
}

impl<T: Element, F> With<T, F> {
    /// The elements of matrices of `shape` (M, N) with `strides`; `batch` is the batch stride. Both
    /// are in elements.
    ///
    /// The matrices may be C if no tiles overlap, as with this module's mainloops: the same thread
    /// reads each element before it writes the result. Tiles that are moved inside C
    /// (`moye_matmul::kernels::mma::matmul_with`) would read elements that another block has
    /// written.
    #[inline(always)]
    #[must_use]
    pub const fn new(pointer: Global<T>, shape: (u32, u32), strides: (i64, i64), batch: i64, f: F) -> Self {
        Self { pointer, shape, strides, batch, f }
    }
}

impl<T: Element + Convert<f32>, F: Fn(f32, f32) -> f32 + Copy> Epilogue for With<T, F> {
    const ANYWHERE: bool = true;

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn element(&self, value: f32, at: Coordinate) -> f32 {
        let (row, column) = (i64::from(at.row) * self.strides.0, i64::from(at.column) * self.strides.1);
        let element = self.pointer.offset(i64::from(at.batch) * self.batch + row + column);
        let inside = at.row < self.shape.0 && at.column < self.shape.1;
        // SAFETY: the operand is readable; out of bounds elements are not read.
        (self.f)(value, unsafe { element.read_if(inside) }.convert())
    }
}

/// The epilogue of a tile: applied to all of a thread's accumulators at once, before they are
/// stored.
///
/// `()` leaves them unchanged, and [`ByElement`] applies an [`Epilogue`] to each. Implement this
/// trait if conditions are evaluated once for all elements, or operands are loaded while the last
/// products of a tile run.
pub trait TileEpilogue<M: Mainloop>: Copy {
    /// The operands that [`load`](Self::load) returns.
    type Loaded;

    /// Loads what [`apply`](Self::apply) needs, in few registers, for this thread of the team,
    /// while the last products of the tile run.
    ///
    /// # Safety
    /// The epilogue's pointers are valid.
    unsafe fn load(&self, tile: &WorkTile, team: &Team) -> Self::Loaded;

    /// Replaces a thread's accumulators by the results.
    ///
    /// # Safety
    /// The accumulators are complete; the epilogue's pointers are valid.
    unsafe fn apply(
        &self,
        accumulators: &mut Accumulators<M>,
        loaded: Self::Loaded,
        tile: &WorkTile,
        team: &Team,
    );
}

impl<M: Mainloop> TileEpilogue<M> for () {
    type Loaded = ();

    #[inline(always)]
    unsafe fn load(&self, _: &WorkTile, _: &Team) {}

    #[inline(always)]
    unsafe fn apply(&self, _: &mut Accumulators<M>, (): (), _: &WorkTile, _: &Team) {}
}

/// An [`Epilogue`] that is applied to each of a thread's accumulators that is an element of C; if
/// it sets [`ANYWHERE`](Epilogue::ANYWHERE), also to the others, which are not stored.
#[derive(Clone, Copy, Debug)]
pub struct ByElement<E> {
    shape: (u32, u32),
    epilogue: E,
}

impl<E> ByElement<E> {
    /// Applies `epilogue` to each element of matrices of `shape`, (M, N).
    #[inline(always)]
    #[must_use]
    pub const fn new(shape: (u32, u32), epilogue: E) -> Self {
        Self { shape, epilogue }
    }
}

impl<M: Mainloop, E: Epilogue<M::Accumulator>> TileEpilogue<M> for ByElement<E> {
    type Loaded = ();

    #[inline(always)]
    unsafe fn load(&self, _: &WorkTile, _: &Team) {}

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn apply(&self, tCrC: &mut Accumulators<M>, (): (), tile: &WorkTile, team: &Team) {
        if E::IS_IDENTITY {
            return;
        }
        let first = (tile.m * M::TILE.0, tile.n * M::TILE.1);
        let at = M::Mma::get_slice(team.thread).coordinates(tCrC, first); // (MMA, MMA_M, MMA_N)
        // No `apply_at`: faults and profiles would name its closure instead of the kernel's line.
        for i in 0..Accumulators::<M>::SIZE {
            let (row, column) = at.coordinate(i);
            if E::ANYWHERE || row < self.shape.0 && column < self.shape.1 {
                let at = Coordinate { row, column, batch: tile.batch };
                // SAFETY: the element is in C, or the epilogue does not require it; its pointers
                // are valid.
                tCrC[i] = unsafe { self.epilogue.element(tCrC[i], at) };
            }
        }
    }
}
