//! How C is written: part by part, also at an edge.

use crate::algorithm::{copy, transform};
use crate::arch::opaque;
use crate::atom::mma::{AddsInPlace, MmaAtom};
use crate::atom::{AccumulatorOf, StaticTiledMma};
use crate::kernels::mma::{ArgumentsOf, ByParts, Direct, Epilogue, PartOfC, Parted, Place, StagesOf, Tiled};
use crate::tensor::Fragment;

/// As [`ByParts`], whose last tile this has where all of a tile of C exists. Where not, an element is written if it exists, part by part too: all at once
/// would take more registers than there are beside the sums, and `ptxas` would lay out those of the whole kernel without a look at their banks.
pub struct InParts<const MODE: usize, const PARTS: usize>;

impl<G, const MODE: usize, const PARTS: usize> Epilogue<G> for InParts<MODE, PARTS>
where
    G: Tiled,
    <G::Mma as StaticTiledMma>::Atom: MmaAtom<C = G::Sum> + AddsInPlace,
{
    const GRANULE: usize = <Direct as Epilogue<G>>::GRANULE;
    const TAKES_LAST_TILE: bool = true;

    #[inline(always)]
    unsafe fn store(
        sums: &Fragment<G::Sum, AccumulatorOf<G::TileC, G::Mma>>,
        arguments: &ArgumentsOf<G>,
        place: Place,
    ) {
        for part in 0..PARTS as u32 {
            // Once: what is computed of a part is not computed ahead.
            let mut left = opaque(1);
            while left > 0 {
                left -= 1;
                let place = Place { thread: opaque(place.thread), ..place };
                // (MMA, MMA_M, MMA_N, PART)
                let t_g_c =
                    Direct::part_of::<G>(arguments, place).renamed::<Parted<PartOfC<G>, MODE, PARTS>>();
                let mut to = t_g_c.slice_last(part); // (MMA, MMA_M, MMA_N)
                // SAFETY: the caller's contract; every element of the fragment is written before it is read.
                unsafe {
                    let mut results = to.make_fragment_like(); // (MMA, MMA_M, MMA_N)
                    let t_r_c = sums
                        .view_as::<Parted<AccumulatorOf<G::TileC, G::Mma>, MODE, PARTS>>()
                        .slice_last(part); // (MMA, MMA_M, MMA_N)
                    transform(&t_r_c, &mut results, |sum| Direct::result::<G>(arguments, sum));
                    copy(&results, &mut to);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn last_tile(
        sums: &mut Fragment<G::Sum, AccumulatorOf<G::TileC, G::Mma>>,
        stages: StagesOf<G>,
        stage: u32,
        arguments: &ArgumentsOf<G>,
        place: Place,
    ) {
        // SAFETY: the caller's contract.
        unsafe { <ByParts<MODE, PARTS> as Epilogue<G>>::last_tile(sums, stages, stage, arguments, place) }
    }
}
