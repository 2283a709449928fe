//! The language's [`Epilogue`](collective::Epilogue) on the accumulators of these products.

use super::config::{ArgumentsOf, Tiled};
use super::epilogue::{Epilogue, through_shared};
use super::rows::Place;
use super::scalar::{Convertible as _, Scalar as _};
use super::{Activation, Arguments};
use core::marker::PhantomData;
use moye_device::arch::{Fma as _, block_idx};
use moye_device::atom::mma::MmaAtom;
use moye_device::atom::{AccumulatorOf, StaticTiledMma};
use moye_device::collective::{self, Coordinate};
use moye_device::memory::Global;
use moye_device::tensor::Fragment;

/// The epilogue `E`, a parameter of the kernel, applied to each accumulator. The results go through
/// shared memory to C. Alpha, beta, bias and activation of the arguments are left out; K is in one
/// part.
///
/// Elements out of bounds of C are not passed to it. Two blocks whose tiles overlap at an edge pass
/// the same element, so the epilogue has no side effects. On Hopper `hopper::matmul_with` takes it.
pub struct Visited<E>(PhantomData<E>);

impl<G: Tiled, E: collective::Epilogue<G::Scalar>> Epilogue<G> for Visited<E>
where
    <G::Mma as StaticTiledMma>::Atom: MmaAtom<C = G::Sum>,
{
    type Parameters = E;

    #[inline(always)]
    unsafe fn store(
        sums: &Fragment<G::Sum, AccumulatorOf<G::TileC, G::Mma>>,
        arguments: &ArgumentsOf<G>,
        epilogue: &E,
        place: Place,
    ) {
        let at = G::Mma::get_slice(place.thread).coordinates(sums, place.first); // (MMA, MMA_M, MMA_N)
        let batch = block_idx().y / arguments.splits;
        let mut results = sums.clone();
        results.apply_at(&at, |sum, (row, column)| {
            if row >= arguments.m || column >= arguments.n {
                return sum;
            }
            G::Sum::narrow(epilogue.element(sum.widen(), Coordinate { row, column, batch }))
        });
        let plain = Arguments {
            bias: Global::from_address(0),
            alpha: G::Scalar::ONE,
            beta: G::Scalar::ZERO,
            activation: Activation::None as u32,
            ..*arguments
        };
        through_shared::<G>(&results, &plain, place)
    }
}
