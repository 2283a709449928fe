//! The kernels' bodies: scheduler, mainloop, epilogue and sink.

use super::config::{ArgumentsOf, MmaConfig};
use super::mainloop::{Loop, first};
use super::scalar::{Convertible as _, Scalar as _};
use super::schedule::Schedule;
use super::sink::TileSink as _;
use super::{Activation, Arguments};
use moye_device::arch::{Convert as _, Fma as _};
use moye_device::atom::StaticTiledMma as _;
use moye_device::collective::{Accumulators, Coordinate, Epilogue, Team, TileEpilogue, WorkTile, gemm};
use moye_device::memory::Global;

/// `c = activation(alpha * a * b + beta * c + bias)`: a block computes one tile of C, for its batch
/// and its slice of K.
///
/// # Safety
/// The matrices are inside their buffers, with the alignment that `G` promises. The kernel declares
/// [`Storage<G>`](super::Storage) and is launched with the threads of `G::Mma`: one block for each
/// tile along x, and for each slice of each batch along y.
#[inline(always)]
pub unsafe fn matmul<G: MmaConfig<Sink: Default>>(arguments: &ArgumentsOf<G>) {
    gemm::<Loop<G>, _, _, _>(*arguments, Schedule::new::<G>(arguments), (), G::Sink::default());
}

/// [`matmul`] with a custom [`Epilogue`]; alpha, beta, bias and activation of the arguments are
/// ignored.
///
/// Elements out of bounds of C are not passed to it. Two blocks whose tiles overlap at an edge pass
/// the same element, so the epilogue must have no side effects. Its counterpart on Hopper is
/// `hopper::matmul_with`.
///
/// # Safety
/// Same contract as [`matmul`]; what the epilogue points to is readable, and is not C. K is not
/// split: `arguments.splits` is 1.
#[inline(always)]
pub unsafe fn matmul_with<G: MmaConfig<Sink: Default>, E: Epilogue<G::Scalar>>(
    arguments: &ArgumentsOf<G>,
    own: E,
) {
    const { assert!(!G::Sink::TAKES_LAST_TILE, "an epilogue needs complete accumulators: use another sink") };
    let plain = Arguments {
        bias: Global::from_address(0),
        alpha: G::Scalar::ONE,
        beta: G::Scalar::ZERO,
        activation: Activation::None as u32,
        ..*arguments
    };
    let epilogue = Own { arguments: &plain, own };
    gemm::<Loop<G>, _, _, _>(plain, Schedule::new::<G>(&plain), epilogue, G::Sink::default());
}

/// A caller's epilogue, for the elements in bounds of C.
#[derive(Clone, Copy)]
struct Own<'a, A, E> {
    arguments: &'a A,
    own: E,
}

impl<G: MmaConfig, E: Epilogue<G::Scalar>> TileEpilogue<Loop<G>> for Own<'_, ArgumentsOf<G>, E> {
    type Loaded = ();

    #[inline(always)]
    unsafe fn load(&self, _: &WorkTile, _: &Team) {}

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn apply(&self, tCrC: &mut Accumulators<Loop<G>>, (): (), tile: &WorkTile, team: &Team) {
        let first = first::<G>(self.arguments, tile);
        let at = G::Mma::get_slice(team.thread).coordinates(tCrC, first); // (MMA, MMA_M, MMA_N)
        let (m, n) = (self.arguments.m, self.arguments.n);
        tCrC.apply_at(&at, |sum, (row, column)| {
            if row >= m || column >= n {
                return sum;
            }
            let at = Coordinate { row, column, batch: tile.batch };
            self.own.element(sum.widen(), at).convert()
        });
    }
}
