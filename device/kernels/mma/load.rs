//! Copies of an operand's tiles from global memory into their stages.
//!
//! [`Asynchronous`] is `cp.async`: accesses of 16 bytes along a mode that is contiguous in both
//! places. A K-contiguous operand of an FMA product has to be transposed: its stage is M-contiguous
//! (or N-contiguous), so that a thread reads four neighbours at a time, and `cp.async` could move
//! only single numbers. [`Turned`] loads a few neighbours along K of four rows into registers, and
//! stores four neighbours along M for each of them. This transpose takes no instruction: the two
//! copies only name the same registers in another order.

use core::marker::PhantomData;
use moye_device::algorithm::{CopyDestination, CopySource, copy, copy_tiled};
use moye_device::atom::copy::CopyAtom;
use moye_device::atom::{PartitionD, PartitionS, StaticTiledCopy, TilingError};
use moye_device::layout::{IntTuple, Layout, composition, left_inverse};
use moye_device::memory::{Element, Global, Shared};
use moye_device::tensor::{
    AllButLast, Along, Fragment, FragmentLike, GlobalTensor, IdentityOf, Registers, SharedTensor,
    StaticLayout, Strided, Strides, WholeTiles,
};

/// An operand's tiles along K, in global memory: (BLK, BLK_K, k).
pub type Tiles<T, S, Tile> = GlobalTensor<Global<T>, S, IdentityOf<Tile>, Along<1>>;
/// A thread's source in them: (CPY, CPY_BLK, CPY_K, k).
type PartOfTiles<T, S, Tile, C> = GlobalTensor<Global<T>, S, PartitionS<IdentityOf<Tile>, C>, Along<1>>;
/// Its destination: (CPY, CPY_BLK, CPY_K, PIPE).
type PartOfStages<T, Smem, C> = SharedTensor<T, PartitionD<Smem, C>>;
/// A thread's part of one tile in the order of its loads: (CPY, CPY_BLK, CPY_K).
type LoadedOf<T, Tile, C> = Fragment<T, FragmentLike<PartitionS<IdentityOf<Tile>, C>>>;
type SourceOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Source;
type DestinationOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Destination;

/// The copy of an operand with elements `T` and strides `S`, in tiles `Tile`, into the stages
/// `Smem`.
pub trait Load<T: Element, S: Strides, Tile: StaticLayout, Smem: StaticLayout>: 'static {
    /// The number of threads that load.
    const THREADS: i64;
    /// For copies through registers: after how many eighths of a tile's steps the registers are
    /// stored and the next tile is loaded; none for copies that go directly into the stage.
    const EIGHTHS: Option<u32>;
    /// Whether tiles go through registers: [`Loading::start`] loads one, and [`Loading::finish`]
    /// stores it to its stage. Otherwise `start` does both, and `cp_async_wait` waits for it.
    const THROUGH_REGISTERS: bool = Self::EIGHTHS.is_some();
    /// A thread's part.
    type Part: Loading;

    /// The part of `thread`.
    fn part(thread: u32, tiles: Tiles<T, S, Tile>, stages: SharedTensor<T, Smem>) -> Self::Part;
}

/// A thread's part of an operand's tiles and stages.
pub trait Loading: Clone {
    /// Starts the copy of tile `tile`; out of bounds elements become zeros.
    ///
    /// # Safety
    /// The operand is readable. No other thread reads or writes `stage` until all threads have
    /// synchronised after the arrival of `cp.async`. A copy through registers does not touch the
    /// stage here, and the previous one of this part is finished.
    unsafe fn start(&mut self, tile: u32, stage: u32);

    /// [`start`](Self::start) for a tile that is in bounds.
    ///
    /// # Safety
    /// As [`start`](Self::start).
    unsafe fn start_whole(&mut self, tile: u32, stage: u32);

    /// Stores what was started, if it went through registers.
    ///
    /// # Safety
    /// [`start`](Self::start) was called before. No other thread reads or writes `stage` until all
    /// threads have synchronised after this.
    unsafe fn finish(&mut self, stage: u32);
}

/// By `cp.async`: the tiled copy `C` from global memory to the stage.
pub struct Asynchronous<C>(PhantomData<C>);

/// See [`Asynchronous`].
#[derive(Clone)]
pub struct AsynchronousPart<T: Element, S: Strides, Tile, Smem, C> {
    /// (CPY, CPY_BLK, CPY_K, k)
    tiles: PartOfTiles<T, S, Tile, C>,
    /// (CPY, CPY_BLK, CPY_K, PIPE)
    stages: PartOfStages<T, Smem, C>,
}

impl<T, S, Tile, Smem, C> Load<T, S, Tile, Smem> for Asynchronous<C>
where
    T: Element,
    S: Strides,
    Tile: StaticLayout,
    Smem: StaticLayout,
    C: StaticTiledCopy<Element = T>,
    AsynchronousPart<T, S, Tile, Smem, C>: Loading,
{
    const THREADS: i64 = C::COPY.threads();
    const EIGHTHS: Option<u32> = None;
    type Part = AsynchronousPart<T, S, Tile, Smem, C>;

    #[inline(always)]
    fn part(thread: u32, tiles: Tiles<T, S, Tile>, stages: SharedTensor<T, Smem>) -> Self::Part {
        let copy = C::get_slice(thread);
        AsynchronousPart { tiles: copy.partition_s(tiles), stages: copy.partition_d(stages) }
    }
}

impl<T, S, Tile, Smem, C> Loading for AsynchronousPart<T, S, Tile, Smem, C>
where
    T: Element,
    S: Strides,
    Tile: StaticLayout,
    Smem: StaticLayout,
    C: StaticTiledCopy<Element = T>,
    Strided<Global<T>, S>: CopySource<SourceOf<C>>,
    Strided<Global<T>, WholeTiles<S>>: CopySource<SourceOf<C>>,
    Shared<T>: CopyDestination<DestinationOf<C>>,
{
    #[inline(always)]
    unsafe fn start(&mut self, tile: u32, stage: u32) {
        copy_tiled(C::default(), &self.tiles.tile(tile), &mut self.stages.slice_last(stage));
    }

    #[inline(always)]
    unsafe fn start_whole(&mut self, tile: u32, stage: u32) {
        copy_tiled(C::default(), &self.tiles.tile(tile).whole(), &mut self.stages.slice_last(stage));
    }

    #[inline(always)]
    unsafe fn finish(&mut self, _: u32) {}
}

/// Through registers, for an operand to transpose: loaded by the tiled copy `From`, stored by `To`.
/// Both give a thread the same elements of a tile, all that it has. They are stored after `EIGHTHS`
/// eighths of a tile's steps; the next ones are loaded then, most of a tile before they are needed.
pub struct Turned<From, To, const EIGHTHS: u32>(PhantomData<(From, To)>);

/// See [`Turned`].
#[derive(Clone)]
pub struct TurnedPart<T: Element, S: Strides, Tile, Smem, From, To> {
    /// (CPY, CPY_BLK, CPY_K, k)
    tiles: PartOfTiles<T, S, Tile, From>,
    /// (CPY, CPY_BLK, CPY_K, PIPE)
    stages: PartOfStages<T, Smem, To>,
    /// (CPY, CPY_BLK, CPY_K)
    loaded: LoadedOf<T, Tile, From>,
}

impl<T, S, Tile, Smem, From, To, const EIGHTHS: u32> Load<T, S, Tile, Smem> for Turned<From, To, EIGHTHS>
where
    T: Element,
    S: Strides,
    Tile: StaticLayout,
    Smem: StaticLayout,
    From: StaticTiledCopy<Element = T>,
    To: StaticTiledCopy<Element = T>,
    TurnedPart<T, S, Tile, Smem, From, To>: Loading,
{
    const THREADS: i64 = From::COPY.threads();
    const EIGHTHS: Option<u32> = {
        assert!(EIGHTHS < 8, "Turned: a tile is written within its steps, 0 to 7 eighths through them");
        Some(EIGHTHS)
    };
    type Part = TurnedPart<T, S, Tile, Smem, From, To>;

    #[inline(always)]
    fn part(thread: u32, tiles: Tiles<T, S, Tile>, stages: SharedTensor<T, Smem>) -> Self::Part {
        TurnedPart {
            tiles: From::get_slice(thread).partition_s(tiles),
            stages: To::get_slice(thread).partition_d(stages),
            // SAFETY: a tile is loaded before it is stored.
            loaded: unsafe { Fragment::uninit() },
        }
    }
}

impl<T, S, Tile, Smem, From, To> Loading for TurnedPart<T, S, Tile, Smem, From, To>
where
    T: Element,
    S: Strides,
    Tile: StaticLayout,
    Smem: StaticLayout,
    From: StaticTiledCopy<Element = T>,
    To: StaticTiledCopy<Element = T>,
    Strided<Global<T>, S>: CopySource<SourceOf<From>>,
    Strided<Global<T>, WholeTiles<S>>: CopySource<SourceOf<From>>,
    Registers<T>: CopyDestination<DestinationOf<From>> + CopySource<SourceOf<To>>,
    Shared<T>: CopyDestination<DestinationOf<To>>,
{
    #[inline(always)]
    unsafe fn start(&mut self, tile: u32, _: u32) {
        copy_tiled(From::default(), &self.tiles.tile(tile), &mut self.loaded);
    }

    #[inline(always)]
    unsafe fn start_whole(&mut self, tile: u32, _: u32) {
        copy_tiled(From::default(), &self.tiles.tile(tile).whole(), &mut self.loaded);
    }

    #[inline(always)]
    unsafe fn finish(&mut self, stage: u32) {
        let mut to = self.stages.slice_last(stage); // (CPY, CPY_BLK, CPY_K)
        let mut turned = to.make_fragment_like(); // (CPY, CPY_BLK, CPY_K)
        copy(&self.loaded.view_as::<TurnedOf<From, To, AllButLast<Smem>>>(), &mut turned);
        copy_tiled(To::default(), &turned, &mut to);
    }
}

/// The registers into which `From` loads a tile `L`, in the order in which `To` stores them: (CPY,
/// CPY_BLK, CPY_K).
pub struct TurnedOf<From, To, L>(PhantomData<(From, To, L)>);

impl<From, To, L> Clone for TurnedOf<From, To, L> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<From, To, L> Copy for TurnedOf<From, To, L> {}

impl<From: StaticTiledCopy, To: StaticTiledCopy, L: StaticLayout> StaticLayout for TurnedOf<From, To, L> {
    const LAYOUT: Layout = {
        let (from, to) = (From::COPY.layout_tv(), To::COPY.layout_tv());
        same_elements(&from, &to, L::LAYOUT.size());
        // To's value -> element of the tile -> From's value
        let values = composition(left_inverse(from.mode(1)), to.mode(1));
        let one = Layout::new(IntTuple::int(1), IntTuple::int(0));
        Layout::concat(&[values, one, one])
    };
}

/// Both copies give a thread the same elements, and all threads together all of a tile of `size`
/// elements, or a compile error.
const fn same_elements(from: &Layout, to: &Layout, size: i64) {
    let threads = from.extent(0);
    let mut same = threads == to.extent(0) && from.size() == size && to.size() == size;
    let mut thread = 0;
    while same && thread < threads {
        same = from.mode(0).at(thread) == to.mode(0).at(thread);
        thread += 1;
    }
    let values = composition(left_inverse(from.mode(1)), to.mode(1));
    let mut value = 0;
    while same && value < values.size() {
        same = from.mode(1).at(values.at(value)) == to.mode(1).at(value);
        value += 1;
    }
    if !same {
        TilingError::of("Turned")
            .str("a tile of ")
            .int(size)
            .str(" elements is read by ")
            .layout(from)
            .str(" (thread, value) and written by ")
            .layout(to)
            .str(": take the same threads for both, the same elements for each of them, and all of the tile at once")
            .raise();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use moye_device::atom::TiledCopy;
    use moye_device::atom::copy::UniversalCopy;
    use moye_device::layout::layout;
    use moye_device::{static_layout, tiled_copy};

    static_layout! {
        Tile = layout!((16, 8));
    }
    tiled_copy! {
        /// Pairs along K of four rows.
        Pairs: TiledCopy<UniversalCopy<u64>, f32> = TiledCopy::new(layout!((4, 4)), layout!((4, 2):(2, 1)));
        /// The same values as four neighbours along M of two columns.
        Fours: TiledCopy<UniversalCopy<u128>, f32> = TiledCopy::new(layout!((4, 4)), layout!((4, 2)));
        /// By threads that are contiguous along K.
        Across: TiledCopy<UniversalCopy<u128>, f32> = TiledCopy::new(layout!((4, 4):(4, 1)), layout!((4, 2)));
    }

    #[test]
    fn a_block_of_registers_is_turned_by_naming_it_in_another_order() {
        let turned = TurnedOf::<Pairs, Fours, Tile>::LAYOUT;
        // Value (row, column) of four rows and two columns is what was loaded as pair `row`, number
        // `column`.
        for (row, column) in (0..4).flat_map(|row| (0..2).map(move |column| (row, column))) {
            assert_eq!(turned.at(row + 4 * column), 2 * row + column, "row {row}, column {column}: {turned}");
        }
        assert_eq!((turned.rank(), turned.size()), (3, 8), "(CPY, CPY_BLK, CPY_K): {turned}");
    }

    #[test]
    #[should_panic(
        expected = "a tile of 128 elements is read by ((4,4),(2,4)):((4,32),(16,1)) (thread, value) and written by"
    )]
    fn copies_that_give_threads_other_elements_are_refused() {
        same_elements(&Pairs::COPY.layout_tv(), &Across::COPY.layout_tv(), 128);
    }

    #[test]
    #[should_panic(expected = "a tile of 256 elements")]
    fn copies_that_leave_some_of_a_tile_are_refused() {
        same_elements(&Pairs::COPY.layout_tv(), &Fours::COPY.layout_tv(), 256);
    }
}
