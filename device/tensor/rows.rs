//! Fragments by rows and columns: a thread's partition of a tile, viewed as `(row, column)`.
//!
//! A thread's accumulators are `(MMA, MMA_M, MMA_N)`, and an atom's values nest further rows and
//! columns. [`ByRow`] collects all modes along the rows in mode 0 and all modes along the columns
//! in mode 1, for any atom:
//!
//! ```
//! use moye_device::atom::mma::SM80_16x8x16_F32F16F16F32_TN;
//! use moye_device::atom::{AccumulatorOf, TiledMma};
//! use moye_device::layout::layout;
//! use moye_device::tensor::{ByRow, StaticLayout};
//! use moye_device::{static_layout, tiled_mma};
//!
//! static_layout! { Scores = layout!((64, 32)); } // (BLK_M, BLK_N)
//! tiled_mma! { Mma: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::new(layout!((2, 1, 1))); }
//!
//! assert_eq!(AccumulatorOf::<Scores, Mma>::LAYOUT, layout!(((2, 2), 2, 4))); // (MMA, MMA_M, MMA_N)
//! assert_eq!(ByRow::<AccumulatorOf<Scores, Mma>>::LAYOUT, layout!(((2, 2), (2, 4)):((2, 4), (1, 8)))); // (row, column)
//! ```

use super::at::{PlaceKinds, SliceOf};
use super::fragment::{FragmentLike, Registers, RegistersMut, RegistersRef};
use super::static_layout::{IdentityOf, StaticLayout};
use super::{Fragment, PartitionOf, Partitioned, Projection, Tensor, ThreadOf, one_tile};
use crate::layout::{IntTuple, Layout, coalesce, composition, filter_zeros, make_col_major};
use crate::memory::{Element, Storable};
use crate::tiling::TilingError;
use core::marker::PhantomData;

/// The layout of a thread's part of a tile, or of a fragment for it, whose elements have
/// coordinates `(row, column)` in the tile.
///
/// It is implemented for the partitions by tiled MMAs, by tiled copies and among threads; a user's
/// atom provides the two layouts of coordinates.
#[diagnostic::on_unimplemented(
    message = "the elements of a fragment of layout `{Self}` have no rows and columns that are known",
    note = "take the fragment of a partition: `mma.accumulator::<Tile>()`, `partition.make_fragment_like()`"
)]
pub trait OfTile: StaticLayout {
    /// The tile; only its shape is used.
    type Tile: StaticLayout;

    /// `index -> (row, column)`, relative to the thread's first element.
    type Elements: StaticLayout;

    /// `thread -> (row, column)` of its first element.
    type Threads: StaticLayout;
}

impl<L: OfTile> OfTile for FragmentLike<L> {
    type Tile = L::Tile;
    type Elements = L::Elements;
    type Threads = L::Threads;
}

/// The kept modes of a thread's part, relative to the slice's first element.
impl<L: OfTile, K: PlaceKinds> OfTile for SliceOf<L, K> {
    type Tile = L::Tile;
    type Elements = SliceOf<L::Elements, K>;
    type Threads = L::Threads;
}

impl<L: StaticLayout, T: StaticLayout, P: Projection> OfTile for PartitionOf<L, T, P> {
    type Tile = L;
    type Elements = PartitionOf<IdentityOf<L>, T, P>;
    type Threads = ThreadOf<IdentityOf<L>, T, P>;
}

/// `(row, column)` of a fragment of layout `L`.
pub struct ByRow<L>(PhantomData<L>);

/// The two-mode layout `L` after mode `MODE` was reduced: the other mode, compact.
pub struct Reduced<L, const MODE: usize>(PhantomData<L>);

macro_rules! marker {
    ($($name:ident<L $(, $i:ident)?>),+) => { $(
        impl<L $(, const $i: usize)?> Clone for $name<L $(, $i)?> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<L $(, const $i: usize)?> Copy for $name<L $(, $i)?> {}
    )+ };
}
marker!(ByRow<L>, Reduced<L, MODE>);

impl<L: OfTile> StaticLayout for ByRow<L> {
    const LAYOUT: Layout = by_row(&L::LAYOUT, &L::Elements::LAYOUT);
}

impl<L: StaticLayout, const MODE: usize> StaticLayout for Reduced<L, MODE> {
    const LAYOUT: Layout = {
        two_modes(&L::LAYOUT, MODE);
        make_col_major(L::LAYOUT.mode(1 - MODE).shape())
    };
}

const WHAT: &str = "by_row";

/// The axis along which a leaf of a layout of coordinates moves: 0, 1, or 2 if it has stride 0.
const fn axis_of(rows: &Layout, columns: &Layout, leaf: usize) -> usize {
    let (row, column) = (rows.step(leaf) != 0, columns.step(leaf) != 0);
    match (rows.shape[leaf] > 1, row, column) {
        (false, ..) | (true, false, false) => 2,
        (true, true, false) => 0,
        (true, false, true) => 1,
        (true, true, true) => TilingError::of(WHAT)
            .str("a mode of the coordinates moves along rows and columns at once, by ")
            .int(rows.step(leaf))
            .str(" and ")
            .int(columns.step(leaf))
            .str(": partition the tile by modes that each move along one")
            .raise(),
    }
}

/// `(row, column)` of a fragment, given the coordinates of its elements.
const fn by_row(fragment: &Layout, elements: &Layout) -> Layout {
    if fragment.size() != elements.size() {
        TilingError::of(WHAT)
            .str("the fragment ")
            .layout(fragment)
            .str(" has other elements than its coordinates ")
            .layout(elements)
            .raise();
    }
    let (rows, columns) = (elements.along(0), elements.along(1));
    let one = make_col_major(IntTuple::int(1));
    let mut modes = [[one; crate::layout::MAX_LEAVES]; 2];
    let mut counts = [0; 2];
    let (mut leaf, mut before) = (0, 1);
    while leaf < elements.leaves() {
        let extent = elements.shape[leaf];
        let axis = axis_of(&rows, &columns, leaf);
        if axis < 2 {
            let index = Layout::new(IntTuple::int(extent), IntTuple::int(before));
            modes[axis][counts[axis]] = composition(*fragment, index);
            counts[axis] += 1;
        } else if extent > 1 {
            TilingError::of(WHAT)
                .str("the fragment has elements of the tile more than once: ")
                .layout(elements)
                .raise();
        }
        before *= extent;
        leaf += 1;
    }
    let mut gathered = [one; 2];
    let mut axis = 0;
    while axis < 2 {
        if counts[axis] == 1 {
            gathered[axis] = modes[axis][0];
        } else if counts[axis] > 1 {
            gathered[axis] = Layout::concat(modes[axis].split_at(counts[axis]).0);
        }
        axis += 1;
    }
    Layout::concat(&gathered)
}

/// The tensor has two modes, one of which is `mode`, or the call does not compile.
pub(super) const fn two_modes(layout: &Layout, mode: usize) {
    if layout.rank() != 2 || mode > 1 {
        TilingError::of("reduce")
            .str("mode ")
            .int(mode as i64)
            .str(" of ")
            .layout(layout)
            .str(": rows and columns are modes 0 and 1 of a tensor of two; view a fragment of more by_row")
            .raise();
    }
}

/// The registers of a fragment of layout `L` in the order of the coordinates `E`: the same elements
/// of the tile, as another partition orders them.
pub struct Reordered<L, E>(PhantomData<(L, E)>);

impl<L, E> Clone for Reordered<L, E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L, E> Copy for Reordered<L, E> {}

impl<L: OfTile, E: StaticLayout> StaticLayout for Reordered<L, E> {
    const LAYOUT: Layout = reordered(&L::LAYOUT, &L::Elements::LAYOUT, &E::LAYOUT);
}

const AS_OPERAND: &str = "as_a";

/// The registers of `fragment`, whose elements have the coordinates `elements`, in the order of the
/// coordinates `wanted`.
const fn reordered(fragment: &Layout, elements: &Layout, wanted: &Layout) -> Layout {
    let registers = by_row(fragment, elements);
    let (rows, columns) = (elements.along(0), elements.along(1));
    // Similarly (row, column) -> coordinate, along each axis.
    let by_index = make_col_major(elements.shape());
    let places = by_row(&by_index, elements);
    let (wanted_rows, wanted_columns) = (wanted.along(0), wanted.along(1));
    let mut result = wanted_rows;
    let mut leaf = 0;
    while leaf < wanted.leaves() {
        let axis = axis_of(&wanted_rows, &wanted_columns, leaf);
        result.stride[leaf] = if axis == 2 {
            0
        } else {
            let line = if axis == 0 { &wanted_rows } else { &wanted_columns };
            let own = if axis == 0 { &rows } else { &columns };
            step_of(
                &registers.mode(axis),
                &places.mode(axis),
                own,
                line.step(leaf),
                wanted.shape[leaf],
                wanted,
                elements,
            )
        };
        leaf += 1;
    }
    if result.size() != fragment.size() {
        not_alike(wanted, elements);
    }
    result
}

/// The distance between the registers of `extent` elements that are `step` apart in the tile.
const fn step_of(
    registers: &Layout,
    places: &Layout,
    coordinates: &Layout,
    step: i64,
    extent: i64,
    wanted: &Layout,
    elements: &Layout,
) -> i64 {
    let (mut first, mut i) = (0, 1);
    while i < extent {
        // The place in this thread that is `i` steps further.
        let mut place = 0;
        while place < places.size() && coordinates.at(places.at(place)) != i * step {
            place += 1;
        }
        if place == places.size() {
            not_alike(wanted, elements);
        }
        let register = registers.at(place);
        if i == 1 {
            first = register;
        }
        if register != i * first {
            not_alike(wanted, elements);
        }
        i += 1;
    }
    first
}

#[track_caller]
const fn not_alike(wanted: &Layout, elements: &Layout) -> ! {
    TilingError::of(AS_OPERAND)
        .str("a thread has the elements ")
        .layout(elements)
        .str(" of the accumulator and would need ")
        .layout(wanted)
        .str(" of the operand: take atoms whose operand A and accumulators have one layout, such as those of 16 bits and f32, ")
        .str("and put the warps along M, or go through shared memory")
        .raise()
}

/// Two partitions assign each thread elements that start at the same coordinate, or the call does
/// not compile.
#[track_caller]
pub(crate) const fn same_threads(wanted: &Layout, given: &Layout) {
    let mut axis = 0;
    while axis < 2 {
        let (one, other) = (coalesce(wanted.along(axis)), coalesce(given.along(axis)));
        if !one.equals(&other) {
            TilingError::of(AS_OPERAND)
                .str("threads have the elements of the accumulator from ")
                .layout(given)
                .str(" on, and would need those of the operand from ")
                .layout(wanted)
                .str(" on: take atoms whose operand A and accumulators have one layout, such as those of 16 bits and f32, ")
                .str("and put the warps along M, or go through shared memory")
                .raise();
        }
        axis += 1;
    }
}

/// The layout of a fragment of which the lanes of a warp hold parts: provides the lanes over which
/// a reduction continues.
#[diagnostic::on_unimplemented(
    message = "nothing is known of the lanes that share the elements of a fragment of layout `{Self}`",
    note = "it is known of what `by_row().reduce::<MODE>(..)` gives of a partitioned tile; across a quad or a warp: `across_quad`, `across_warp`"
)]
pub trait AcrossLanes: StaticLayout {
    /// The bits in which the indices of lanes that hold parts of one element differ.
    const LANES: u32;
}

impl<L: OfTile, const MODE: usize> AcrossLanes for Reduced<ByRow<L>, MODE> {
    const LANES: u32 = lanes(&L::Threads::LAYOUT, MODE);
}

/// The bits of a lane index that move along `axis` and not along the other axis.
const fn lanes(threads: &Layout, axis: usize) -> u32 {
    let (rows, columns) = (threads.along(0), threads.along(1));
    let (mut leaf, mut before, mut bits) = (0, 1, 0u32);
    while leaf < threads.leaves() {
        let extent = threads.shape[leaf];
        if axis_of(&rows, &columns, leaf) == axis {
            let after = before * extent;
            if after > 32 || extent & (extent - 1) != 0 || before & (before - 1) != 0 {
                TilingError::of("across_lanes")
                    .str("the threads ")
                    .layout(threads)
                    .str(" share a ")
                    .str(if axis == 1 { "row" } else { "column" })
                    .str(" beyond a warp, or by numbers that are not powers of two: put the warps of the tiled MMA along ")
                    .str(if axis == 1 { "M" } else { "N" })
                    .str(", or reduce through shared memory (across_block)")
                    .raise();
            }
            bits |= (after - before) as u32;
        }
        before *= extent;
        leaf += 1;
    }
    bits
}

impl<T: Storable, L: OfTile> Fragment<T, L> {
    /// The fragment as `(row, column)`, for reading: see [`ByRow`].
    #[inline(always)]
    pub fn by_row(&self) -> Tensor<RegistersRef<'_, T>, ByRow<L>> {
        self.view_as()
    }

    /// The fragment as `(row, column)`, for writing: see [`ByRow`].
    #[inline(always)]
    pub fn by_row_mut(&mut self) -> Tensor<RegistersMut<'_, T>, ByRow<L>> {
        self.view_as_mut()
    }

    /// [`reduce`](Tensor::reduce) over the columns: an element for each of the thread's rows.
    ///
    /// Other lanes hold a row's other elements: [`across_lanes`](Fragment::across_lanes) continues
    /// over these.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn reduce_rows(&self, f: impl Fn(T, T) -> T) -> Fragment<T, Reduced<ByRow<L>, 1>>
    where
        T: Element,
    {
        self.by_row().reduce::<1>(f)
    }

    /// [`reduce`](Tensor::reduce) over the rows: an element for each of the thread's columns.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn reduce_columns(&self, f: impl Fn(T, T) -> T) -> Fragment<T, Reduced<ByRow<L>, 0>>
    where
        T: Element,
    {
        self.by_row().reduce::<0>(f)
    }

    /// [`fold`](Tensor::fold) over the columns, starting from a value for each row: a running
    /// maximum or sum.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn fold_rows<U: Element, LS: StaticLayout>(
        &self,
        start: &Fragment<U, LS>,
        f: impl Fn(U, T) -> U,
    ) -> Fragment<U, LS>
    where
        T: Element,
    {
        self.by_row().fold::<1, U, LS>(start, f)
    }

    /// [`apply_along`](Tensor::apply_along) the rows: replaces each element by `f` of it and its
    /// row's element of `rows`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn apply_rows<U: Element, LO: StaticLayout>(&mut self, rows: &Fragment<U, LO>, f: impl Fn(T, U) -> T)
    where
        T: Element,
    {
        self.by_row_mut().apply_along::<0, U, LO>(rows, f);
    }

    /// [`apply_along`](Tensor::apply_along) the columns, with its column's element of `columns`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn apply_columns<U: Element, LO: StaticLayout>(
        &mut self,
        columns: &Fragment<U, LO>,
        f: impl Fn(T, U) -> T,
    ) where
        T: Element,
    {
        self.by_row_mut().apply_along::<1, U, LO>(columns, f);
    }

    /// A fragment with `value` for each of the thread's rows: a running maximum or sum.
    #[inline(always)]
    pub fn rows<U: Element>(&self, value: U) -> Fragment<U, Reduced<ByRow<L>, 1>> {
        Fragment::filled(value)
    }
}

impl<E: Partitioned, L: OfTile> Tensor<E, L> {
    /// A fragment with `value` for each row of the thread's part, which is not read: a running
    /// maximum or sum. Open tiles along the columns have the same rows.
    ///
    /// ```
    /// # #![allow(non_snake_case)]
    /// use moye_device::prelude::*;
    ///
    /// static_layout! { Tile = layout!((4, 128)); } // (BLK_M, BLK_N)
    /// tiled_copy! {
    ///     Rows: TiledCopy<AutoVectorizingCopy, f32> =
    ///         TiledCopy::new(layout!((4, 32):(32, 1)), layout!((1, 4)));
    /// }
    /// let x = Global::<f32>::from_address(0x1000);
    /// let gX = tile!(tensor!(x, (100u32, 300u32), (300, 1)), Tile, (2, _)); // (BLK_M, BLK_N, n)
    /// let tXgX = Rows::get_slice(33).partition_s(gX); // (CPY, CPY_M, CPY_N, n)
    /// let max = tXgX.rows(f32::NEG_INFINITY); // (CPY_M)
    /// assert_eq!((max[0], max.layout().size()), (f32::NEG_INFINITY, 1));
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn rows<U: Element>(&self, value: U) -> Fragment<U, Reduced<ByRow<FragmentLike<L>>, 1>> {
        // Tiles along the columns have the same rows.
        const { one_tile("rows", E::OPEN_AXES & !(1 << 1), &L::LAYOUT) };
        Fragment::filled(value)
    }
}

/// A tensor in registers.
pub trait InRegisters: super::Access {}
impl<T: Storable> InRegisters for Registers<T> {}
impl<T: Storable> InRegisters for RegistersRef<'_, T> {}
impl<T: Storable> InRegisters for RegistersMut<'_, T> {}

/// The other fragment has an element for each place of a mode, or the call does not compile.
#[track_caller]
const fn one_each(what: &str, layout: &Layout, mode: usize, other: &Layout) {
    two_modes(layout, mode);
    if layout.extent(mode) != other.size() {
        TilingError::of(what)
            .str("mode ")
            .int(mode as i64)
            .str(" of ")
            .layout(layout)
            .str(" has ")
            .int(layout.extent(mode))
            .str(" places, and ")
            .layout(other)
            .str(" has ")
            .int(other.size())
            .str(" elements: take a fragment with one for each")
            .raise();
    }
}

/// The index of place `(kept, along)` where `MODE` is the mode of `along`.
#[inline(always)]
fn index_of<L: StaticLayout, const MODE: usize>(kept: usize, along: usize) -> usize {
    let rows = const { L::LAYOUT.extent(0) as usize };
    if MODE == 1 { kept + along * rows } else { along + kept * rows }
}

impl<T: Element, E: InRegisters + super::Engine<Element = T>, L: StaticLayout> Tensor<E, L> {
    /// Reduces the elements along mode `MODE` of a tensor of two modes, in order: for
    /// `(row, column)`, `reduce::<1>(f32::max)` is the maximum of each row over the elements of
    /// this thread.
    ///
    /// ```
    /// use moye_device::layout::layout;
    /// use moye_device::static_layout;
    /// use moye_device::tensor::Fragment;
    ///
    /// static_layout! { Values = layout!((2, 3)); }
    /// let mut values = Fragment::<f32, Values>::zeros();
    /// for (i, j) in [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)] {
    ///     values[(i, j)] = (10 * i + j) as f32;
    /// }
    /// let (greatest, sums) = (values.view().reduce::<1>(f32::max), values.view().reduce::<0>(|a, b| a + b));
    /// assert_eq!((greatest[0], greatest[1]), (2.0, 12.0));
    /// assert_eq!((sums[0], sums[1], sums[2]), (10.0, 12.0, 14.0));
    /// ```
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn reduce<const MODE: usize>(&self, f: impl Fn(T, T) -> T) -> Fragment<T, Reduced<L, MODE>> {
        let (kept, along) = const {
            two_modes(&L::LAYOUT, MODE);
            (L::LAYOUT.extent(1 - MODE) as usize, L::LAYOUT.extent(MODE) as usize)
        };
        let mut result = Fragment::zeros();
        for i in 0..kept {
            // SAFETY: inside the tensor, which the code that created it has initialised.
            let mut value = unsafe { self.get(index_of::<L, MODE>(i, 0)) };
            for j in 1..along {
                // SAFETY: inside the initialised tensor.
                value = f(value, unsafe { self.get(index_of::<L, MODE>(i, j)) });
            }
            result[i] = value;
        }
        result
    }

    /// [`reduce`](Self::reduce), starting from a value for each place of the other mode: the result
    /// has the layout of `start`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn fold<const MODE: usize, U: Element, LS: StaticLayout>(
        &self,
        start: &Fragment<U, LS>,
        f: impl Fn(U, T) -> U,
    ) -> Fragment<U, LS> {
        let (kept, along) = const {
            two_modes(&L::LAYOUT, MODE);
            one_each("fold", &L::LAYOUT, 1 - MODE, &LS::LAYOUT);
            (L::LAYOUT.extent(1 - MODE) as usize, L::LAYOUT.extent(MODE) as usize)
        };
        let mut result = Fragment::zeros();
        for i in 0..kept {
            let mut value = start[i];
            for j in 0..along {
                // SAFETY: inside the tensor, which the code that created it has initialised.
                value = f(value, unsafe { self.get(index_of::<L, MODE>(i, j)) });
            }
            result[i] = value;
        }
        result
    }

    /// A fragment of `f` of each element, in order.
    ///
    /// ```
    /// use moye_device::layout::layout;
    /// use moye_device::static_layout;
    /// use moye_device::tensor::Fragment;
    ///
    /// static_layout! { Values = layout!((4)); }
    /// let whole = Fragment::<f32, Values>::filled(2.5).map(|x| x as i32);
    /// assert_eq!(whole[3], 2);
    /// ```
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn map<U: Element>(&self, mut f: impl FnMut(T) -> U) -> Fragment<U, FragmentLike<L>> {
        let mut result = Fragment::zeros();
        for i in 0..Self::SIZE {
            // SAFETY: inside the tensor, which the code that created it has initialised.
            result[i] = f(unsafe { self.get(i) });
        }
        result
    }
}

impl<T: Element, E: InRegisters + super::Engine<Element = T>, L: StaticLayout> Tensor<E, L> {
    /// A fragment of `f` of each element and the element of `other` at the same index.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn zip<U: Element, V: Element, EO, LO: StaticLayout>(
        &self,
        other: &Tensor<EO, LO>,
        mut f: impl FnMut(T, U) -> V,
    ) -> Fragment<V, FragmentLike<L>>
    where
        EO: InRegisters + super::Engine<Element = U>,
    {
        const {
            same_size("zip", &L::LAYOUT, &LO::LAYOUT);
            each_once("zip", &L::LAYOUT);
        };
        let mut result = Fragment::zeros();
        for i in 0..Self::SIZE {
            // SAFETY: inside both, which the code that created them has initialised.
            result[i] = unsafe { f(self.get(i), other.get(i)) };
        }
        result
    }
}

macro_rules! in_place {
    ($($engine:ty $(, $lifetime:lifetime)?;)+) => { $(
        impl<$($lifetime,)? T: Element, L: StaticLayout> Tensor<$engine, L> {
            /// Replaces each element by `f` of it.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn apply(&mut self, mut f: impl FnMut(T) -> T) {
                const { each_once("apply", &L::LAYOUT) };
                for i in 0..Self::SIZE {
                    self[i] = f(self[i]);
                }
            }

            /// Replaces each element of a tensor of two modes by `f` of it and the element of
            /// `other` at its place in mode `MODE`: for `(row, column)`,
            /// `apply_along::<0>(&max, |x, max| x - max)` subtracts each row's maximum.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn apply_along<const MODE: usize, U: Element, LO: StaticLayout>(
                &mut self,
                other: &Fragment<U, LO>,
                f: impl Fn(T, U) -> T,
            ) {
                let (kept, along) = const {
                    one_each("apply_along", &L::LAYOUT, MODE, &LO::LAYOUT);
                    each_once("apply_along", &L::LAYOUT);
                    (L::LAYOUT.extent(MODE) as usize, L::LAYOUT.extent(1 - MODE) as usize)
                };
                for i in 0..kept {
                    let with = other[i];
                    for j in 0..along {
                        // `MODE` is the mode that is kept.
                        let index = if MODE == 0 { index_of::<L, 1>(i, j) } else { index_of::<L, 0>(i, j) };
                        self[index] = f(self[index], with);
                    }
                }
            }

            /// Replaces each element by `f` of it and the element of `other` at the same index.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn apply_with<U: Element, EO, LO: StaticLayout>(
                &mut self,
                other: &Tensor<EO, LO>,
                mut f: impl FnMut(T, U) -> T,
            ) where
                EO: InRegisters + super::Engine<Element = U>,
            {
                const {
                    same_size("apply_with", &L::LAYOUT, &LO::LAYOUT);
                    each_once("apply_with", &L::LAYOUT);
                };
                for i in 0..Self::SIZE {
                    // SAFETY: inside the tensor, which the code that created it has initialised.
                    self[i] = f(self[i], unsafe { other.get(i) });
                }
            }
        }
    )+ };
}
in_place! {
    Registers<T>;
    RegistersMut<'a, T>, 'a;
}

/// Both have the same number of elements, or the call does not compile.
#[track_caller]
pub(crate) const fn same_size(what: &str, one: &Layout, other: &Layout) {
    if one.size() != other.size() {
        TilingError::of(what)
            .layout(one)
            .str(" has ")
            .int(one.size())
            .str(" elements and ")
            .layout(other)
            .str(" has ")
            .int(other.size())
            .str(": both must have the same number of elements")
            .raise();
    }
}

/// A tensor whose indices are written one after the other, with different values, has each element
/// once, or the call does not compile.
#[track_caller]
pub(crate) const fn each_once(what: &str, layout: &Layout) {
    let elements = filter_zeros(*layout).size();
    if elements != layout.size() {
        TilingError::of(what)
            .layout(layout)
            .str(" has ")
            .int(layout.size())
            .str(" indices for ")
            .int(elements)
            .str(" elements, which would be written several times: `map` makes another fragment of the same layout")
            .raise();
    }
}
