//! An epilogue that stores C while the last K tile is multiplied.
//!
//! Blocks that start together end together: all of them store C at once after the last product, and
//! the FMA units are idle meanwhile. So the last K tile is multiplied part by part: all of its
//! steps for one part of the accumulators, then for the next part. A part is stored when it is
//! complete, during the products of the next parts. Fragments that the parts share are loaded once
//! for each part, in this tile only. Each accumulator still adds its products in K order.
//!
//! `ptxas` schedules the loop over the other tiles differently depending on the code after it
//! (record 7). So this code is a separate loop, the thread's number and the loop's bounds are
//! [`opaque`], and none of it is computed ahead.

use super::config::{ArgumentsOf, Tiled};
use super::epilogue::{Direct, Epilogue, PartOfC, StagesOf};
use super::rows::Place;
use core::marker::PhantomData;
use moye_device::algorithm::{copy, gemm_tiled, transform};
use moye_device::arch::opaque;
use moye_device::atom::mma::{AddsInPlace, MmaAtom};
use moye_device::atom::{AccumulatorOf, PartitionS, StaticTiledCopy, StaticTiledMma, TilingError};
use moye_device::layout::{IntTuple, Layout, Swizzle, Tiler, logical_divide};
use moye_device::memory::Storable;
use moye_device::tensor::{Divisors, Fragment, RegistersRef, StaticLayout, Tensor};

/// As [`Direct`], part by part: mode `MODE` of a thread's accumulators (MMA, MMA_M, MMA_N), so 1
/// for M and 2 for N, is divided into `PARTS`. Its loop along K is unrolled by `UNROLLED` steps,
/// which divide the tile's.
///
/// The copies of fragments are those of `make_tiled_copy_a` and `_b`, whose values are in the order
/// of the product's.
pub struct ByParts<const MODE: usize, const PARTS: usize, const UNROLLED: u32 = 8>;

/// `L` with mode `MODE` divided into `PARTS` runs of neighbours; the number of the part is the last
/// mode: (V, M, N) is (V, M / PARTS, N, PARTS) for mode 1.
pub struct Parted<L, const MODE: usize, const PARTS: usize>(PhantomData<L>);

/// A thread's part of an operand's tile, (CPY, CPY_M, CPY_K, PIPE), divided along M like C: (V,
/// CPY_K, PIPE, PARTS). There is one part if C is not divided along the operand's mode of C, `OF`.
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
}

impl<L: StaticLayout, const OF: usize, const MODE: usize, const PARTS: usize> StaticLayout
    for PartedCopy<L, OF, MODE, PARTS>
{
    const LAYOUT: Layout = parted(L::LAYOUT.group(0, 2), 0, if OF == MODE { PARTS } else { 1 });
    const ORIGIN: Divisors = L::ORIGIN;
    const SWIZZLE: Swizzle = L::SWIZZLE;
    const MOVED: u64 = L::MOVED;
}

/// The same values in the order of atoms with one value each: (1, V * M).
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

impl<G, const MODE: usize, const PARTS: usize, const UNROLLED: u32> Epilogue<G>
    for ByParts<MODE, PARTS, UNROLLED>
where
    G: Tiled,
    <G::Mma as StaticTiledMma>::Atom: MmaAtom<C = G::Sum> + AddsInPlace,
{
    type Parameters = ();
    const GRANULE: usize = <Direct as Epilogue<G>>::GRANULE;
    const TAKES_LAST_TILE: bool = true;

    #[inline(always)]
    unsafe fn store(
        sums: &Fragment<G::Sum, AccumulatorOf<G::TileC, G::Mma>>,
        arguments: &ArgumentsOf<G>,
        (): &(),
        place: Place,
    ) {
        <Direct as Epilogue<G>>::store(sums, arguments, &(), place)
    }

    #[inline(always)]
    unsafe fn last_tile(
        sums: &mut Fragment<G::Sum, AccumulatorOf<G::TileC, G::Mma>>,
        (s_a, s_b): StagesOf<G>, // (BLK_M, BLK_K, PIPE), (BLK_N, BLK_K, PIPE)
        stage: u32,
        arguments: &ArgumentsOf<G>,
        (): &(),
        place: Place,
    ) {
        let place = Place { thread: opaque(place.thread), ..place };
        let (copy_a, copy_b) = (G::CopyA::get_slice(place.thread), G::CopyB::get_slice(place.thread));
        let (t_s_a, t_s_b) = (
            copy_a.partition_s(s_a).renamed::<PartedCopy<PartitionS<G::SmemA, G::CopyA>, 1, MODE, PARTS>>(), // (V, CPY_K, PIPE, PART)
            copy_b.partition_s(s_b).renamed::<PartedCopy<PartitionS<G::SmemB, G::CopyB>, 2, MODE, PARTS>>(), // (V, CPY_K, PIPE, PART)
        );
        let steps = const {
            steps(
                G::TileA::LAYOUT.extent(1),
                PartedCopy::<PartitionS<G::SmemA, G::CopyA>, 1, MODE, PARTS>::LAYOUT,
                PartedCopy::<PartitionS<G::SmemB, G::CopyB>, 2, MODE, PARTS>::LAYOUT,
                UNROLLED,
            )
        };
        let t_g_c =
            Direct::part_of::<G>(arguments, place).whole().renamed::<Parted<PartOfC<G>, MODE, PARTS>>(); // (MMA, MMA_M, MMA_N, PART)
        for part in 0..PARTS as u32 {
            let t_s_a = t_s_a.slice_last(if MODE == 1 { part } else { 0 }).slice_last(stage); // (V, CPY_K)
            let t_s_b = t_s_b.slice_last(if MODE == 2 { part } else { 0 }).slice_last(stage); // (V, CPY_K)
            let mut t_r_c =
                sums.view_as_mut::<Parted<AccumulatorOf<G::TileC, G::Mma>, MODE, PARTS>>().slice_last(part); // (MMA, MMA_M, MMA_N)
            // Called once; see the module's documentation.
            let mut left = opaque(1);
            while left > 0 {
                left -= 1;
                let mut step = 0;
                while step < opaque(steps) {
                    for ahead in 0..UNROLLED {
                        let (from_a, from_b) =
                            (t_s_a.slice_last(step + ahead), t_s_b.slice_last(step + ahead)); // (V), (V)
                        let (mut a, mut b) = (from_a.make_fragment_like(), from_b.make_fragment_like());
                        copy(&from_a, &mut a);
                        copy(&from_b, &mut b);
                        gemm_tiled(G::Mma::default(), &one_by_one(&a), &one_by_one(&b), &mut t_r_c);
                    }
                    step += UNROLLED;
                }
            }
            let mut to = t_g_c.slice_last(part); // (MMA, MMA_M, MMA_N)
            let mut results = to.make_fragment_like(); // (MMA, MMA_M, MMA_N)
            transform(&t_r_c, &mut results, |sum| Direct::result::<G>(arguments, sum));
            copy(&results, &mut to);
        }
    }
}

/// A fragment of consecutive values, as atoms with one value each have them: (MMA, MMA_M).
#[inline(always)]
fn one_by_one<T: Storable, L: StaticLayout>(
    values: &Fragment<T, L>,
) -> Tensor<RegistersRef<'_, T>, OneByOne<L>> {
    values.view_as()
}

#[cfg(test)]
mod tests {
    use super::super::sgemm::{large, wide};
    use super::*;
    use moye_device::layout::layout;

    type Sums<const PARTS: usize> = Parted<AccumulatorOf<large::TileC, large::Mma>, 1, PARTS>;
    type CopyOfA = PartitionS<large::SmemA, large::CopyA>;

    #[test]
    fn the_parts_of_the_sums_are_all_of_them_in_the_order_of_rows() {
        let (whole, parted) = (AccumulatorOf::<large::TileC, large::Mma>::LAYOUT, Sums::<4>::LAYOUT);
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
        let common = PartedCopy::<PartitionS<wide::SmemB, wide::CopyB>, 2, 1, 4>::LAYOUT;
        assert_eq!((common.extent(0), common.extent(3)), (16, 1), "C is not parted along it: {common}");
    }

    #[test]
    fn columns_are_parted_as_rows_are() {
        // 16 columns of `sgemm_tt` in four runs of 4, each the accumulators of one part, and the
        // vectors of B that it loads.
        type Sums = Parted<AccumulatorOf<wide::TileC, wide::Mma>, 2, 4>;
        let (whole, parted) = (AccumulatorOf::<wide::TileC, wide::Mma>::LAYOUT, Sums::LAYOUT);
        assert_eq!(
            (parted.extent(1), parted.extent(2), parted.extent(3)),
            (8, 4, 4),
            "(MMA, MMA_M, MMA_N, PART): {parted}"
        );
        for (row, column) in (0..8).flat_map(|row| (0..16).map(move |column| (row, column))) {
            let of_part = parted.at(row + 8 * (column % 4) + 32 * (column / 4));
            assert_eq!(of_part, whole.at(row + 8 * column), "row {row}, column {column} of {parted}");
        }
        let words = PartedCopy::<PartitionS<wide::SmemB, wide::CopyB>, 2, 2, 4>::LAYOUT;
        assert_eq!((words.extent(0), words.extent(3)), (4, 4), "(V, CPY_K, PIPE, PART): {words}");
        let halves = Parted::<AccumulatorOf<large::TileC, large::Mma>, 1, 2>::LAYOUT;
        assert_eq!((halves.extent(1), halves.extent(3)), (8, 2), "two parts of `sgemm_nt`: {halves}");
    }

    #[test]
    #[should_panic(expected = "has 16 places, which 6 parts do not divide")]
    fn parts_that_leave_some_of_the_sums_are_refused() {
        parted(AccumulatorOf::<large::TileC, large::Mma>::LAYOUT, 1, 6);
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
