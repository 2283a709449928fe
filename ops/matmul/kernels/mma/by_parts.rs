//! A sink that stores C while the last K tile is multiplied.
//!
//! Blocks that start together end together: all of them store C at once after the last product, and
//! the FMA units are idle meanwhile. So the last K tile is multiplied part by part: all of its
//! steps for one part of the accumulators, then for the next part. A complete part is stored during
//! the products of the next parts. Fragments that the parts share are loaded once for each part, in
//! this tile only. Each accumulator still sums its products in K order.
//!
//! `ptxas` schedules the loop over the other tiles differently depending on the code after it
//! (record 7). So this code is a separate loop, and the thread's index and the loop's bounds are
//! [`opaque`], so that none of it is hoisted.

use super::config::{ArgumentsOf, Stages, TileC, Tiled};
use super::mainloop::TiledLoop;
use super::rows::Place;
use super::sink::{Direct, PartOfC, TileSink};
use core::marker::PhantomData;
use moye_device::algorithm::{copy, transform};
use moye_device::arch::opaque;
use moye_device::atom::{AccumulatorOf, PartitionS, StaticTiledCopy as _, StaticTiledMma as _, TilingError};
use moye_device::collective::{Accumulators, Sink, Team, WorkTile};
use moye_device::layout::{IntTuple, Layout, Swizzle, Tiler, logical_divide};
use moye_device::memory::Storable;
use moye_device::tensor::{Divisors, Fragment, RegistersRef, StaticLayout, Tensor};

/// [`Direct`] part by part: mode `MODE` of a thread's accumulators (MMA, MMA_M, MMA_N), 1 for M and
/// 2 for N, is divided into `PARTS`. The loop along K is unrolled by `UNROLLED` steps, which divide
/// the tile's.
///
/// The fragment copies are those of `make_tiled_copy_a` and `_b`, whose values have the order of
/// the MMA's.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByParts<const MODE: usize, const PARTS: usize, const UNROLLED: u32 = 8>;

/// `L` with mode `MODE` divided into `PARTS` contiguous runs; the part is the last mode: (V, M, N)
/// becomes (V, M / PARTS, N, PARTS) for mode 1.
pub struct Parted<L, const MODE: usize, const PARTS: usize>(PhantomData<L>);

/// A thread's part of an operand's tile, (CPY, CPY_M, CPY_K, PIPE), divided along M like C: (V,
/// CPY_K, PIPE, PARTS). `PARTS` is 1 if C is not divided along the operand's mode of C, `OF`.
pub struct PartedCopy<L, const OF: usize, const MODE: usize, const PARTS: usize>(PhantomData<L>);

impl<L, const MODE: usize, const PARTS: usize> Clone for Parted<L, MODE, PARTS> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L, const MODE: usize, const PARTS: usize> Copy for Parted<L, MODE, PARTS> {}

impl<L, const OF: usize, const MODE: usize, const PARTS: usize> Clone for PartedCopy<L, OF, MODE, PARTS> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L, const OF: usize, const MODE: usize, const PARTS: usize> Copy for PartedCopy<L, OF, MODE, PARTS> {}

/// `layout` with mode `mode` divided into `parts`, or a compile error.
const fn parted(layout: Layout, mode: usize, parts: usize) -> Layout {
    let whole = layout.mode(mode);
    if parts == 0 || whole.size() % parts as i64 != 0 {
        TilingError::of("ByParts")
            .str("mode ")
            .int(mode as i64)
            .str(" of ")
            .layout(&layout)
            .str(" has ")
            .int(whole.size())
            .str(" places, which ")
            .int(parts as i64)
            .str(" parts do not divide")
            .raise();
    }
    let part = Layout::new(IntTuple::int(whole.size() / parts as i64), IntTuple::int(1));
    let divided = logical_divide(whole, Tiler::layout(part)); // (part, parts)
    layout.replace(mode, divided.mode(0)).append(divided.mode(1))
}

/// The steps of a tile along K, by `of_a` and `of_b`, (V, CPY_K, PIPE, PART), or a compile error.
const fn steps(tile: i64, of_a: Layout, of_b: Layout, unrolled: u32) -> u32 {
    if of_a.extent(1) != tile || of_b.extent(1) != tile || tile % unrolled as i64 != 0 {
        TilingError::of("ByParts")
            .str("a tile has ")
            .int(tile)
            .str(" along K, and a thread copies ")
            .int(of_a.extent(1))
            .str(" and ")
            .int(of_b.extent(1))
            .str(" steps of it: use threads along M and N only, and a multiple of ")
            .int(unrolled as i64)
            .raise();
    }
    tile as u32
}

impl<L: StaticLayout, const MODE: usize, const PARTS: usize> StaticLayout for Parted<L, MODE, PARTS> {
    const LAYOUT: Layout = parted(L::LAYOUT, MODE, PARTS);
    const ORIGIN: Divisors = L::ORIGIN;
    const SWIZZLE: Swizzle = L::SWIZZLE;
    const MOVED: u64 = L::MOVED;
    const STEPPED: u64 = L::STEPPED;
}

impl<L: StaticLayout, const OF: usize, const MODE: usize, const PARTS: usize> StaticLayout
    for PartedCopy<L, OF, MODE, PARTS>
{
    const LAYOUT: Layout = parted(L::LAYOUT.group(0, 2), 0, if OF == MODE { PARTS } else { 1 });
    const ORIGIN: Divisors = L::ORIGIN;
    const SWIZZLE: Swizzle = L::SWIZZLE;
    const MOVED: u64 = L::MOVED;
    const STEPPED: u64 = L::STEPPED;
}

/// The same values, ordered as atoms with one value each: (1, V * M).
pub struct OneByOne<L>(PhantomData<L>);

impl<L> Clone for OneByOne<L> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L> Copy for OneByOne<L> {}

impl<L: StaticLayout> StaticLayout for OneByOne<L> {
    const LAYOUT: Layout = Layout::new(IntTuple::flat(&[1, L::LAYOUT.size()]), IntTuple::flat(&[0, 1]));
}

impl<const MODE: usize, const PARTS: usize, const UNROLLED: u32> TileSink for ByParts<MODE, PARTS, UNROLLED> {
    const ALONG_M: bool = Direct::ALONG_M;
    const TAKES_LAST_TILE: bool = true;
}

impl<M: TiledLoop, const MODE: usize, const PARTS: usize, const UNROLLED: u32> Sink<M>
    for ByParts<MODE, PARTS, UNROLLED>
{
    type Storage = ();

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn store(&self, tCrC: &Accumulators<M>, (): &(), tile: &WorkTile, _: &Team, mainloop: &mut M) {
        let place = mainloop.place(tile);
        match mainloop.last_stage() {
            Some(stage) => <Self as LastTile<M::Tiling>>::last_tile(
                &mut tCrC.clone(),
                mainloop.stages(),
                stage,
                mainloop.arguments(),
                place,
            ),
            None => Direct::write::<M>(tCrC, mainloop, place),
        }
    }
}

/// Multiplies the last K tile of an in-bounds tile of C, and stores C meanwhile.
pub trait LastTile<G: Tiled> {
    /// Multiplies the K tile in stage `stage`, and stores the tile of C.
    ///
    /// # Safety
    /// All threads of the product call it together. The K tile has arrived for all of them, and no
    /// thread writes its stage. The tile of C is in bounds and writable, and another block that
    /// writes a part of it writes the same values.
    unsafe fn last_tile(
        sums: &mut Fragment<G::Sum, AccumulatorOf<TileC<G>, G::Mma>>,
        stages: Stages<G>,
        stage: u32,
        arguments: &ArgumentsOf<G>,
        place: Place,
    );
}

impl<G: Tiled, const MODE: usize, const PARTS: usize, const UNROLLED: u32> LastTile<G>
    for ByParts<MODE, PARTS, UNROLLED>
{
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn last_tile(
        sums: &mut Fragment<G::Sum, AccumulatorOf<TileC<G>, G::Mma>>,
        (sA, sB): Stages<G>, // (BLK_M, BLK_K, PIPE), (BLK_N, BLK_K, PIPE)
        stage: u32,
        arguments: &ArgumentsOf<G>,
        place: Place,
    ) {
        let place = Place { thread: opaque(place.thread), ..place };
        // A thread's part with one mode divided has the same elements, origin and swizzle.
        let tCsA = G::ReadA::get_slice(place.thread).partition_s(sA).renamed::<PartedCopy<
            PartitionS<G::SmemA, G::ReadA>,
            1,
            MODE,
            PARTS,
        >>(); // (V, CPY_K, PIPE, PART)
        let tCsB = G::ReadB::get_slice(place.thread).partition_s(sB).renamed::<PartedCopy<
            PartitionS<G::SmemB, G::ReadB>,
            2,
            MODE,
            PARTS,
        >>(); // (V, CPY_K, PIPE, PART)
        let steps = const {
            steps(
                G::TILE.2 as i64,
                PartedCopy::<PartitionS<G::SmemA, G::ReadA>, 1, MODE, PARTS>::LAYOUT,
                PartedCopy::<PartitionS<G::SmemB, G::ReadB>, 2, MODE, PARTS>::LAYOUT,
                UNROLLED,
            )
        };
        let tCgC =
            Direct::part_of::<G>(arguments, place).whole().renamed::<Parted<PartOfC<G>, MODE, PARTS>>(); // (MMA, MMA_M, MMA_N, PART)
        let mma = G::Mma::get_slice(place.thread);
        for part in 0..PARTS as u32 {
            let tCsA = tCsA.at((.., .., stage, if MODE == 1 { part } else { 0 })); // (V, CPY_K)
            let tCsB = tCsB.at((.., .., stage, if MODE == 2 { part } else { 0 })); // (V, CPY_K)
            let mut tCrC = sums.view_as_mut::<Parted<AccumulatorOf<TileC<G>, G::Mma>, MODE, PARTS>>(); // (MMA, MMA_M, MMA_N, PART)
            let mut tCrC = tCrC.at_mut((.., .., .., part)); // (MMA, MMA_M, MMA_N)
            // Called once; see the module's documentation.
            let mut left = opaque(1);
            while left > 0 {
                left -= 1;
                let mut step = 0;
                while step < opaque(steps) {
                    for ahead in 0..UNROLLED {
                        let (from_a, from_b) = (tCsA.at((.., step + ahead)), tCsB.at((.., step + ahead))); // (V), (V)
                        let (mut a, mut b) = (from_a.make_fragment_like(), from_b.make_fragment_like());
                        copy(&from_a, &mut a);
                        copy(&from_b, &mut b);
                        mma.gemm(&mut tCrC, one_by_one(&a), one_by_one(&b));
                    }
                    step += UNROLLED;
                }
            }
            let mut to = tCgC.at((.., .., .., part)); // (MMA, MMA_M, MMA_N)
            let mut results = to.make_fragment_like(); // (MMA, MMA_M, MMA_N)
            transform(&tCrC, &mut results, |sum| Direct::result::<G>(arguments, sum));
            copy(&results, &mut to);
        }
    }
}

/// A fragment of consecutive values, ordered as atoms with one value each: (MMA, MMA_M).
#[inline(always)]
fn one_by_one<T: Storable, L: StaticLayout>(
    values: &Fragment<T, L>,
) -> Tensor<RegistersRef<'_, T>, OneByOne<L>> {
    values.view_as()
}

#[cfg(test)]
mod tests {
    use super::super::sgemm::{Nt, Tt};
    use super::*;
    use moye_device::layout::layout;

    type Sums<const PARTS: usize> = Parted<AccumulatorOf<TileC<Nt>, <Nt as Tiled>::Mma>, 1, PARTS>;
    type CopyOfA = PartitionS<<Nt as Tiled>::SmemA, <Nt as Tiled>::ReadA>;

    #[test]
    fn the_parts_of_the_sums_are_all_of_them_in_the_order_of_rows() {
        let (whole, parted) = (AccumulatorOf::<TileC<Nt>, <Nt as Tiled>::Mma>::LAYOUT, Sums::<4>::LAYOUT);
        assert_eq!((parted.rank(), parted.extent(3)), (4, 4), "(MMA, MMA_M, MMA_N, PART): {parted}");
        for (row, column) in (0..16).flat_map(|row| (0..8).map(move |column| (row, column))) {
            let of_part = parted.at(row % 4 + 4 * column + 32 * (row / 4));
            assert_eq!(of_part, whole.at(row + 16 * column), "row {row}, column {column} of {parted}");
        }
    }

    #[test]
    fn a_part_of_an_operand_is_what_its_sums_take() {
        // 16 rows in runs of 4, 64 apart.
        let parted = PartedCopy::<CopyOfA, 1, 1, 4>::LAYOUT;
        assert_eq!(
            (parted.rank(), parted.extent(0), parted.extent(3)),
            (4, 4, 4),
            "(V, CPY_K, PIPE, PART): {parted}"
        );
        for (part, value) in (0..4).flat_map(|part| (0..4).map(move |value| (part, value))) {
            assert_eq!(
                parted.at(value + 4 * 16 * 3 * part),
                64 * part + value,
                "part {part}, value {value} of {parted}"
            );
        }
        let common = PartedCopy::<PartitionS<<Tt as Tiled>::SmemB, <Tt as Tiled>::ReadB>, 2, 1, 4>::LAYOUT;
        assert_eq!((common.extent(0), common.extent(3)), (16, 1), "C is not parted along it: {common}");
    }

    #[test]
    fn columns_are_parted_as_rows_are() {
        // 16 columns of `sgemm_tt` in four runs of 4, each the accumulators of one part, and the
        // vectors of B that this part loads.
        type Sums = Parted<AccumulatorOf<TileC<Tt>, <Tt as Tiled>::Mma>, 2, 4>;
        let (whole, parted) = (AccumulatorOf::<TileC<Tt>, <Tt as Tiled>::Mma>::LAYOUT, Sums::LAYOUT);
        assert_eq!(
            (parted.extent(1), parted.extent(2), parted.extent(3)),
            (8, 4, 4),
            "(MMA, MMA_M, MMA_N, PART): {parted}"
        );
        for (row, column) in (0..8).flat_map(|row| (0..16).map(move |column| (row, column))) {
            let of_part = parted.at(row + 8 * (column % 4) + 32 * (column / 4));
            assert_eq!(of_part, whole.at(row + 8 * column), "row {row}, column {column} of {parted}");
        }
        let words = PartedCopy::<PartitionS<<Tt as Tiled>::SmemB, <Tt as Tiled>::ReadB>, 2, 2, 4>::LAYOUT;
        assert_eq!((words.extent(0), words.extent(3)), (4, 4), "(V, CPY_K, PIPE, PART): {words}");
        let halves = Parted::<AccumulatorOf<TileC<Nt>, <Nt as Tiled>::Mma>, 1, 2>::LAYOUT;
        assert_eq!((halves.extent(1), halves.extent(3)), (8, 2), "two parts of `sgemm_nt`: {halves}");
    }

    #[test]
    #[should_panic(expected = "has 16 places, which 6 parts do not divide")]
    fn parts_that_leave_some_of_the_sums_are_refused() {
        parted(AccumulatorOf::<TileC<Nt>, <Nt as Tiled>::Mma>::LAYOUT, 1, 6);
    }

    #[test]
    #[should_panic(expected = "a tile has 16 along K, and a thread copies 16 and 8 steps of it")]
    fn threads_along_k_are_refused() {
        let half = layout!((8, 8, 3, 1));
        steps(16, PartedCopy::<CopyOfA, 1, 1, 4>::LAYOUT, half, 8);
    }

    #[test]
    #[should_panic(expected = "use threads along M and N only, and a multiple of 12")]
    fn a_loop_that_is_unrolled_by_what_does_not_divide_a_tile_is_refused() {
        let of_a = PartedCopy::<CopyOfA, 1, 1, 4>::LAYOUT;
        steps(16, of_a, of_a, 12);
    }
}
