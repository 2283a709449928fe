//! The epilogue as a visitor of the accumulators: the result of each, by its coordinates in C.

use super::config::{ArgumentsOf, Tiled};
use super::epilogue::{Epilogue, through_shared};
use super::rows::Place;
use super::scalar::{Convertible as _, Scalar as _};
use super::{Activation, Arguments};
use core::marker::PhantomData;
use moye_device::arch::Fma as _;
use moye_device::atom::mma::MmaAtom;
use moye_device::atom::{AccumulatorOf, StaticTiledMma};
use moye_device::memory::Global;
use moye_device::tensor::Fragment;

/// The epilogue of an accumulator, by its coordinates in C. The kernel visits every element of C
/// and stores the results: [`matmul_with`](super::matmul_with) with the epilogue [`Visited`], and
/// on Hopper `hopper::matmul_with`.
///
/// Two blocks whose tiles overlap at an edge visit the same element, so a visitor must have no side
/// effects. The coordinates do not include the batch: all batches of a launch are visited in the
/// same way.
///
/// The implementing type is a parameter of the kernel: a `#[repr(C)]` struct with
/// [`KernelParam`](moye_device::kernel::KernelParam) that holds what the epilogue reads.
///
/// ```
/// use moye_device::kernel::KernelParam;
/// use moye_device::memory::Global;
/// use moye_kernels::mma::Visitor;
///
/// /// `c = a * b + bias`.
/// #[repr(C)]
/// #[derive(Clone, Copy, KernelParam)]
/// struct Biased {
///     /// An element for each column of C.
///     bias: Global<f32>,
/// }
///
/// impl Visitor<f32> for Biased {
///     unsafe fn visit(&self, value: f32, (_, column): (u32, u32)) -> f32 {
///         // SAFETY: the column exists.
///         value + unsafe { self.bias.read(column.into()) }
///     }
/// }
/// ```
pub trait Visitor<S>: Copy {
    /// Whether accumulators are visited. If not, the epilogue is that of the arguments.
    const VISITS: bool = true;

    /// The result for the accumulator `value` at `(row, column)` of C.
    ///
    /// # Safety
    /// C has this element, and the visitor's pointers are valid.
    unsafe fn visit(&self, value: S, place: (u32, u32)) -> S;
}

/// No visitor: `activation(alpha * a * b + beta * c + bias)`.
impl<S> Visitor<S> for () {
    const VISITS: bool = false;

    #[inline(always)]
    unsafe fn visit(&self, value: S, _: (u32, u32)) -> S {
        value
    }
}

/// The epilogue that [visits](Visitor) the accumulators and stages the results in shared memory.
/// Alpha, beta, bias and activation of the arguments are ignored; K is not split.
pub struct Visited<V>(PhantomData<V>);

impl<G: Tiled, V: Visitor<G::Scalar>> Epilogue<G> for Visited<V>
where
    <G::Mma as StaticTiledMma>::Atom: MmaAtom<C = G::Sum>,
{
    type Parameters = V;

    #[inline(always)]
    unsafe fn store(
        sums: &Fragment<G::Sum, AccumulatorOf<G::TileC, G::Mma>>,
        arguments: &ArgumentsOf<G>,
        visitor: &V,
        place: Place,
    ) {
        let at = G::Mma::get_slice(place.thread).coordinates(sums, place.first); // (MMA, MMA_M, MMA_N)
        let mut results = sums.clone();
        results.apply_at(&at, |sum, (row, column)| {
            if row >= arguments.m || column >= arguments.n {
                return sum;
            }
            // SAFETY: C has the element; the caller's contract.
            G::Sum::narrow(unsafe { visitor.visit(sum.widen(), (row, column)) })
        });
        let plain = Arguments {
            bias: Global::from_address(0),
            alpha: G::Scalar::ONE,
            beta: G::Scalar::ZERO,
            activation: Activation::None as u32,
            ..*arguments
        };
        // SAFETY: the caller's contract.
        unsafe { through_shared::<G>(&results, &plain, place) }
    }
}
