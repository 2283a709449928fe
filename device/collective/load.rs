//! Copies of an operand's tiles from global memory to their stages.
//!
//! A tiled copy by `cp.async` accesses 16 bytes along a mode that is contiguous on both sides. A
//! K-contiguous operand of an FMA product must be transposed: its stage is M-contiguous (or
//! N-contiguous), so that a thread reads four adjacent elements at a time, and `cp.async` could
//! move only single elements. [`TransposedLoad`] loads a few adjacent elements along K of four rows
//! into registers, and stores four adjacent elements along M for each of them. This transpose takes
//! no instruction: the two copies only name the same registers in another order.

use crate::algorithm::{GlobalToShared, ReadBy, WrittenBy, copy, copy_tiled};
use crate::atom::{PartitionD, PartitionS, StaticTiledCopy, TilingError};
use crate::layout::{IntTuple, Layout, composition, left_inverse};
use crate::memory::{Element, Global, Shared};
use crate::tensor::{
    Along, Fragment, FragmentLike, GlobalTensor, IdentityOf, OneStage, Registers, SharedTensor, StaticLayout,
    Strided, Strides, WholeTiles,
};
use core::marker::PhantomData;

/// The tiles along K of an operand with stages `Smem`, in global memory: (BLK, BLK_K, k).
pub type TilesAlongK<T, S, Smem> = GlobalTensor<Global<T>, S, IdentityOf<OneStage<Smem>>, Along<1>>;
/// The thread's source in a tile: (CPY, CPY_BLK, CPY_K).
type Source<Smem, C> = PartitionS<IdentityOf<OneStage<Smem>>, C>;

/// The copy of an operand with elements `T` and strides `S` to the stages `Smem`, (BLK, BLK_K,
/// PIPE): a tiled copy by `cp.async`, or [`TransposedLoad`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not copy tiles of `{T}` with the strides `{S}` into stages of shared memory",
    note = "tiled copies of `SM80_CP_ASYNC_*_ZFILL` do, and `TransposedLoad`"
)]
pub trait Load<T: Element, S: Strides, Smem: StaticLayout> {
    /// The number of threads that load.
    const THREADS: i64;
    /// For copies through registers: after how many eighths of a tile's steps the registers are
    /// stored and the next tile is loaded; `None` for copies that write the stage directly.
    const EIGHTHS: Option<u32>;
    /// Whether tiles go through registers: [`Loading::start`] loads one, and [`Loading::finish`]
    /// stores it to its stage. Otherwise `start` does both, and `cp_async_wait` waits for it.
    const THROUGH_REGISTERS: bool = Self::EIGHTHS.is_some();
    /// A thread's part.
    type Part: Loading;

    /// The part of thread `thread`.
    fn part(thread: u32, tiles: TilesAlongK<T, S, Smem>, stages: SharedTensor<T, Smem>) -> Self::Part;
}

/// A thread's part of an operand's tiles and stages.
pub trait Loading: Clone {
    /// Starts the copy of tile `tile`; out of bounds elements become zeros.
    ///
    /// # Safety
    /// The operand is readable. No other thread reads or writes `stage` until all threads have
    /// synchronised after the arrival of `cp.async`. A copy through registers does not access the
    /// stage here, and the previous copy of this part is finished.
    unsafe fn start(&mut self, tile: u32, stage: u32);

    /// [`start`](Self::start) for a tile that is in bounds.
    ///
    /// # Safety
    /// Same contract as [`start`](Self::start).
    unsafe fn start_whole(&mut self, tile: u32, stage: u32);

    /// Stores the tile that was started, if it is in registers.
    ///
    /// # Safety
    /// [`start`](Self::start) was called before. No other thread reads or writes `stage` until all
    /// threads have synchronised after this call.
    unsafe fn finish(&mut self, stage: u32);
}

/// A thread's part of a copy by `cp.async`, `C`.
#[derive(Clone)]
pub struct AsynchronousPart<T: Element, S: Strides, Smem, C> {
    /// (CPY, CPY_BLK, CPY_K, k)
    tiles: GlobalTensor<Global<T>, S, Source<Smem, C>, Along<1>>,
    /// (CPY, CPY_BLK, CPY_K, PIPE)
    stages: SharedTensor<T, PartitionD<Smem, C>>,
}

impl<T, S, Smem, C> Load<T, S, Smem> for C
where
    T: Element,
    S: Strides,
    Smem: StaticLayout,
    C: GlobalToShared<S, Element = T> + GlobalToShared<WholeTiles<S>, Element = T>,
{
    const THREADS: i64 = C::COPY.threads();
    const EIGHTHS: Option<u32> = None;
    type Part = AsynchronousPart<T, S, Smem, C>;

    #[inline(always)]
    fn part(thread: u32, tiles: TilesAlongK<T, S, Smem>, stages: SharedTensor<T, Smem>) -> Self::Part {
        let copy = C::get_slice(thread);
        AsynchronousPart { tiles: copy.partition_s(tiles), stages: copy.partition_d(stages) }
    }
}

impl<T, S, Smem, C> Loading for AsynchronousPart<T, S, Smem, C>
where
    T: Element,
    S: Strides,
    Smem: StaticLayout,
    C: GlobalToShared<S, Element = T> + GlobalToShared<WholeTiles<S>, Element = T>,
{
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn start(&mut self, tile: u32, stage: u32) {
        // SAFETY: the operand is readable, and no thread uses the stage.
        unsafe {
            <C as GlobalToShared<S>>::fill(
                &self.tiles.at((.., .., .., tile)),
                &mut self.stages.at((.., .., .., stage)),
            );
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn start_whole(&mut self, tile: u32, stage: u32) {
        let tile = self.tiles.at((.., .., .., tile)).whole(); // (CPY, CPY_BLK, CPY_K)
        let mut stage = self.stages.at((.., .., .., stage)); // (CPY, CPY_BLK, CPY_K)
        // SAFETY: the tile is inside the readable operand, and no thread uses the stage.
        unsafe { <C as GlobalToShared<WholeTiles<S>>>::fill(&tile, &mut stage) };
    }

    #[inline(always)]
    unsafe fn finish(&mut self, _: u32) {}
}

/// A copy through registers, for an operand to transpose: loaded by the tiled copy `From`, stored
/// by `To`. Both assign a thread the same elements of a tile. They are stored after `EIGHTHS`
/// eighths of a tile's steps; then the next tile is loaded, most of a tile before it is needed.
pub struct TransposedLoad<From, To, const EIGHTHS: u32>(PhantomData<(From, To)>);

/// A thread's part of a [`TransposedLoad`].
#[derive(Clone)]
pub struct TransposedPart<T: Element, S: Strides, Smem, From, To> {
    /// (CPY, CPY_BLK, CPY_K, k)
    tiles: GlobalTensor<Global<T>, S, Source<Smem, From>, Along<1>>,
    /// (CPY, CPY_BLK, CPY_K, PIPE)
    stages: SharedTensor<T, PartitionD<Smem, To>>,
    /// (CPY, CPY_BLK, CPY_K)
    loaded: Fragment<T, FragmentLike<Source<Smem, From>>>,
}

impl<T, S, Smem, From, To, const EIGHTHS: u32> Load<T, S, Smem> for TransposedLoad<From, To, EIGHTHS>
where
    T: Element,
    S: Strides,
    Smem: StaticLayout,
    From: StaticTiledCopy<Element = T>,
    To: StaticTiledCopy<Element = T>,
    TransposedPart<T, S, Smem, From, To>: Loading,
{
    const THREADS: i64 = From::COPY.threads();
    const EIGHTHS: Option<u32> = {
        assert!(
            EIGHTHS < 8,
            "TransposedLoad: a tile is written within its steps, 0 to 7 eighths through them"
        );
        Some(EIGHTHS)
    };
    type Part = TransposedPart<T, S, Smem, From, To>;

    #[inline(always)]
    fn part(thread: u32, tiles: TilesAlongK<T, S, Smem>, stages: SharedTensor<T, Smem>) -> Self::Part {
        TransposedPart {
            tiles: From::get_slice(thread).partition_s(tiles),
            stages: To::get_slice(thread).partition_d(stages),
            // SAFETY: a tile is loaded before it is stored.
            loaded: unsafe { Fragment::uninit() },
        }
    }
}

impl<T, S, Smem, From, To> Loading for TransposedPart<T, S, Smem, From, To>
where
    T: Element,
    S: Strides,
    Smem: StaticLayout,
    From: StaticTiledCopy<Element = T>,
    To: StaticTiledCopy<Element = T>,
    Strided<Global<T>, S>: ReadBy<From::Atom>,
    Strided<Global<T>, WholeTiles<S>>: ReadBy<From::Atom>,
    Registers<T>: WrittenBy<From::Atom> + ReadBy<To::Atom>,
    Shared<T>: WrittenBy<To::Atom>,
{
    #[inline(always)]
    unsafe fn start(&mut self, tile: u32, _: u32) {
        // SAFETY: the operand is readable.
        unsafe { copy_tiled(From::default(), &self.tiles.at((.., .., .., tile)), &mut self.loaded) };
    }

    #[inline(always)]
    unsafe fn start_whole(&mut self, tile: u32, _: u32) {
        let tile = self.tiles.at((.., .., .., tile)).whole(); // (CPY, CPY_BLK, CPY_K)
        // SAFETY: the tile is inside the readable operand.
        unsafe { copy_tiled(From::default(), &tile, &mut self.loaded) };
    }

    #[inline(always)]
    unsafe fn finish(&mut self, stage: u32) {
        let mut to = self.stages.at((.., .., .., stage)); // (CPY, CPY_BLK, CPY_K)
        // SAFETY: the stage is writable; the fragment is fully written before it is read.
        unsafe {
            let mut transposed = to.make_fragment_like(); // (CPY, CPY_BLK, CPY_K)
            copy(&self.loaded.view_as::<TransposedRegisters<From, To, OneStage<Smem>>>(), &mut transposed);
            copy_tiled(To::default(), &transposed, &mut to);
        }
    }
}

/// The registers into which `From` loads a tile `L`, in the order in which `To` stores them: (CPY,
/// CPY_BLK, CPY_K).
pub struct TransposedRegisters<From, To, L>(PhantomData<(From, To, L)>);

impl<From, To, L> Clone for TransposedRegisters<From, To, L> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<From, To, L> Copy for TransposedRegisters<From, To, L> {}

impl<From: StaticTiledCopy, To: StaticTiledCopy, L: StaticLayout> StaticLayout
    for TransposedRegisters<From, To, L>
{
    const LAYOUT: Layout = {
        let (from, to) = (From::COPY.layout_tv(), To::COPY.layout_tv());
        same_elements(&from, &to, L::LAYOUT.size());
        // To's value -> element of the tile -> From's value
        let values = composition(left_inverse(from.mode(1)), to.mode(1));
        let one = Layout::new(IntTuple::int(1), IntTuple::int(0));
        Layout::concat(&[values, one, one])
    };
}

/// Both copies assign a thread the same elements, and all threads together cover a tile of `size`
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
        TilingError::of("TransposedLoad")
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
    use crate::atom::TiledCopy;
    use crate::atom::copy::UniversalCopy;
    use crate::layout::layout;
    use crate::{static_layout, tiled_copy};

    static_layout! {
        Tile = layout!((16, 8));
    }
    tiled_copy! {
        /// Pairs along K of four rows.
        Pairs: TiledCopy<UniversalCopy<u64>, f32> = TiledCopy::new(layout!((4, 4)), layout!((4, 2):(2, 1)));
        /// The same values as four adjacent elements along M of two columns.
        Fours: TiledCopy<UniversalCopy<u128>, f32> = TiledCopy::new(layout!((4, 4)), layout!((4, 2)));
        /// By threads that are contiguous along K.
        Across: TiledCopy<UniversalCopy<u128>, f32> = TiledCopy::new(layout!((4, 4):(4, 1)), layout!((4, 2)));
    }

    #[test]
    fn a_block_of_registers_is_transposed_by_naming_it_in_another_order() {
        let transposed = TransposedRegisters::<Pairs, Fours, Tile>::LAYOUT;
        // Value (row, column) of four rows and two columns was loaded as element `column` of pair
        // `row`.
        for (row, column) in (0..4).flat_map(|row| (0..2).map(move |column| (row, column))) {
            assert_eq!(
                transposed.at(row + 4 * column),
                2 * row + column,
                "row {row}, column {column}: {transposed}"
            );
        }
        assert_eq!((transposed.rank(), transposed.size()), (3, 8), "(CPY, CPY_BLK, CPY_K): {transposed}");
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
