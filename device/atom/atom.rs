//! The part that all matrix instructions have in common.

use super::mma::MmaAtom;
use crate::layout::Layout;
use crate::number::Number;

/// The shape and the thread-value layouts of an atom, from which a [`TiledMma`](super::TiledMma) is
/// built. CuTe's `MMA_Traits`.
#[derive(Clone, Copy, Debug)]
pub struct AtomTraits {
    /// CuTe's name.
    pub name: &'static str,
    /// The extents m, n and k.
    pub shape_mnk: [i64; 3],
    /// The threads that execute the atom together.
    pub thr_id: Layout,
    /// `(thread, value)` to the element, for A, B, C and D.
    pub layouts: [Layout; 4],
    /// The element types of A, B, C and D: name and bits.
    pub numbers: [(&'static str, usize); 4],
}

/// A matrix instruction: an FMA, `mma.sync`, or `wgmma` with A in shared memory or in registers.
///
/// Implemented by each [`MmaAtom`] and each [`WgmmaAtom`](super::wgmma::WgmmaAtom). This trait
/// defines how operands are divided among threads; the two others define how the instruction is
/// executed.
pub trait Atom: Copy + Default + Send + Sync + 'static {
    /// The properties of the atom.
    const TRAITS: AtomTraits;
}

/// The name and the bits of an element type.
pub(crate) const fn number<N: Number>() -> (&'static str, usize) {
    (N::NAME, N::WIDTH)
}

impl<A: MmaAtom> Atom for A {
    const TRAITS: AtomTraits = AtomTraits {
        name: A::NAME,
        shape_mnk: A::SHAPE_MNK,
        thr_id: A::THR_ID,
        layouts: [<A as MmaAtom>::A, <A as MmaAtom>::B, <A as MmaAtom>::C, <A as MmaAtom>::D],
        numbers: [number::<A::A>(), number::<A::B>(), number::<A::C>(), number::<A::D>()],
    };
}
