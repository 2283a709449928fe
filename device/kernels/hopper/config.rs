//! How a product on Hopper is tiled, as a type, and what follows from it: boxes, descriptors, shared memory.

use super::store::Staging;
use crate::mma::{Arguments, Convertible, Scalar};
use core::marker::PhantomData;
use moye_device::arch::wgmma::Accumulators;
use moye_device::atom::wgmma::{SharedOperand, WgmmaAtom};
use moye_device::layout::{ComposedLayout, IntTuple, Major, SwizzleBytes, shared_memory_atom};
use moye_device::memory::{Element, SharedStorage};
use moye_device::pipeline::{Pipeline, PipelineStorage, Readers, mbarrier_bytes};

/// Bytes of a row of shared memory that is swizzled as a whole, and that a box has along its contiguous mode.
pub const ROW: u32 = 128;
/// Rows of an instruction's tile of C.
pub const ATOM_M: u32 = 64;
/// Threads of a warpgroup.
pub const WARPGROUP: u32 = 128;
/// Bytes of a box of C: rows of one instruction, 128 bytes each.
pub const BOX_C: u32 = ATOM_M * ROW;
/// Boxes of C that a warpgroup has of its own in shared memory.
pub const BOXES_C: u32 = 2;
/// The named barrier of the two warpgroups that multiply a tile of C together, behind the block's and each warpgroup's own. Warpgroups
/// that take turns have this number for that, and no tile together.
pub const OF_TILE: u32 = 3;
/// Bytes of what a thread of a warpgroup tells the others.
const TOLD: u32 = 4;

/// A thread's sums of a tile: the accumulators `A` of each of `MMA_M` instructions, whose 64 rows lie below each other. `// (MMA, MMA_M)`
pub trait Sums<A>: Copy {
    /// All of them zero.
    const ZERO: Self;
    /// How many instructions: one or two.
    const MMA_M: u32;

    /// Those of one of them.
    fn of(&self, mma_m: u32) -> &A;

    /// Those of each, with its number.
    fn each(&self, function: impl FnMut(u32, &A));

    /// The same, to be changed.
    fn each_mut(&mut self, function: impl FnMut(u32, &mut A));
}

impl<A: Accumulators, const MMA_M: usize> Sums<A> for [A; MMA_M] {
    const ZERO: Self = [A::ZERO; MMA_M];
    const MMA_M: u32 = MMA_M as u32;

    #[inline(always)]
    fn of(&self, mma_m: u32) -> &A {
        &self[if MMA_M == 1 { 0 } else { mma_m as usize }]
    }

    // Written out, and no loop: registers are named by constants, and a loop that is unrolled late leaves moves behind.
    #[inline(always)]
    fn each(&self, mut function: impl FnMut(u32, &A)) {
        const { assert!(MMA_M == 1 || MMA_M == 2, "a warpgroup has one instruction, or two below each other") };
        function(0, &self[0]);
        if MMA_M == 2 {
            function(1, &self[MMA_M - 1]);
        }
    }

    #[inline(always)]
    fn each_mut(&mut self, mut function: impl FnMut(u32, &mut A)) {
        const { assert!(MMA_M == 1 || MMA_M == 2, "a warpgroup has one instruction, or two below each other") };
        function(0, &mut self[0]);
        if MMA_M == 2 {
            function(1, &mut self[MMA_M - 1]);
        }
    }
}

/// The accumulators of a configuration's instruction.
pub type AccumulatorsOf<G> = <<G as WgmmaConfig>::Atom as WgmmaAtom>::Accumulators;

/// A configuration.
pub trait WgmmaConfig: Sized + 'static {
    /// The elements of A and B in memory: of one type, as no configuration has an atom of two (e4m3 by e5m2).
    type Operand: Element;
    /// The elements that the atom accumulates.
    type Sum: Convertible<Self::Scalar> + Element<Bits = u32>;
    /// What is computed in behind the product.
    type Scalar: Scalar + Staging<Self::Scalar>;
    /// The elements of C.
    type Output: Staging<Self::Scalar>;
    /// The instruction, with A and B in shared memory; one covers all of the tile's N.
    type Atom: WgmmaAtom<OperandA = u64, Accumulators: Accumulators<Register = Self::Sum>>;
    /// What a thread sums: the accumulators of the instructions that its warpgroup has below each other, one or two.
    type Sums: Sums<AccumulatorsOf<Self>>;
    /// Rows of a block's tile of C: 64 for each instruction of each warpgroup that multiplies it.
    const BLK_M: u32;
    /// Whether the two consuming warpgroups have whole tiles and multiply in turn (*ping-pong*), or share each tile (*cooperative*).
    const PING_PONG: bool;
    /// Whether the sums are multiplied by [`Scales`](crate::mma::Scales).
    const SCALED: bool;
    /// Blocks of a cluster, which have tiles of C below each other, and B in common: each loads its part of B for all of them.
    const CLUSTER: u32;
    /// Rows of shared memory that a stage has along K, of 128 bytes each.
    const DEPTH: u32 = 1;
    /// Stages in shared memory.
    const STAGES: u32 = 4;

    /// Whether C leaves the registers by pieces of 16 bytes where it can (`pieces.rs`), and not through boxes: where `Output` has 4 bytes boxes
    /// take two rounds, and behind a block's last tile nothing is multiplied while TMA stores them.
    const PIECES: bool = size_of::<Self::Output>() == 4 && !Self::PING_PONG;

    /// Instructions that a warpgroup has below each other.
    const MMA_M: u32 = Self::Sums::MMA_M;
    /// Rows of a tile of C that a warpgroup multiplies.
    const ROWS: u32 = Self::MMA_M * ATOM_M;
    /// Warpgroups that multiply a tile of C together, and read each of its stages.
    const TOGETHER: u32 = {
        assert!(
            Self::BLK_M.is_multiple_of(Self::ROWS),
            "a warpgroup multiplies all rows of its instructions"
        );
        Self::BLK_M / Self::ROWS
    };
    /// Warpgroups that multiply.
    const CONSUMERS: u32 = if Self::PING_PONG {
        assert!(Self::TOGETHER == 1, "of warpgroups that take turns, each multiplies a tile by itself");
        2
    } else {
        Self::TOGETHER
    };
    /// Boxes of C for which a warpgroup has room in its tile's last stage, beside those of its own: that stage is released when C was read
    /// from there. They lie in A's part, where they take the place of the warpgroup's rows, if there are two instructions of them, and in B's
    /// otherwise.
    const SPARE_BOXES: u32 = if Self::PING_PONG {
        0
    } else {
        assert!(Self::TOGETHER <= 2, "the named barriers are those of two consuming warpgroups");
        if Self::MMA_M > 1 { Self::ROWS * ROW / BOX_C } else { Self::BYTES_B / Self::TOGETHER / BOX_C }
    };
    /// Threads of a block.
    const THREADS: u32 = WARPGROUP * (1 + Self::CONSUMERS);
    /// Columns of a block's tile of C.
    const BLK_N: u32 = Self::Atom::SHAPE_MNK[1] as u32;
    /// What a stage has of K: `DEPTH` rows of shared memory where K is contiguous.
    const BLK_K: u32 = Self::DEPTH * (ROW / Self::Operand::BYTES as u32);
    /// A stage's tile of A in shared memory, (BLK_M, BLK_K).
    const SMEM_A: ComposedLayout = stage::<Self::Operand>(Self::BLK_M, Self::BLK_K, Self::Atom::MAJOR_A);
    /// A stage's tile of B in shared memory, (BLK_N, BLK_K).
    const SMEM_B: ComposedLayout = stage::<Self::Operand>(Self::BLK_N, Self::BLK_K, Self::Atom::MAJOR_B);
    /// The instruction's descriptors of A.
    const A: SharedOperand = SharedOperand::a::<Self::Atom>(Self::SMEM_A);
    /// The instruction's descriptors of B.
    const B: SharedOperand = SharedOperand::b::<Self::Atom>(Self::SMEM_B);
    /// The boxes in which TMA loads A's part of a stage.
    const BOXES_A: Boxes = Boxes::new(Self::BLK_M, Self::BLK_K, Self::DEPTH, Self::Atom::MAJOR_A);
    /// The boxes in which TMA loads what a block brings of B's part of a stage.
    const BOXES_B: Boxes =
        Boxes::new(Self::BLK_N / Self::CLUSTER, Self::BLK_K, Self::DEPTH, Self::Atom::MAJOR_B);
    /// Bytes of a stage's tile of A.
    const BYTES_A: u32 = Self::BLK_M * Self::DEPTH * ROW;
    /// Bytes of a stage's tile of B.
    const BYTES_B: u32 = Self::BLK_N * Self::DEPTH * ROW;

    /// The first row of a consuming warpgroup's part of its tile.
    #[inline(always)]
    fn row(consumer: u32) -> u32 {
        if Self::PING_PONG { 0 } else { consumer * Self::ROWS }
    }
}

/// A stage of an operand: rows of 128 bytes, whose pieces of 16 are exchanged by the row's number modulo 8. Where M (or N) is
/// contiguous, a block of 64 x `BLK_K` follows the other, as boxes bring them.
const fn stage<T: Element>(extent: u32, k: u32, major: Major) -> ComposedLayout {
    let atom = shared_memory_atom(major, SwizzleBytes::B128, 8 * T::BYTES as i64);
    let shape = IntTuple::flat(&[extent as i64, k as i64]);
    match major {
        Major::K => atom.tile_to_shape(shape),
        Major::Mn => atom.tile_to_shape_ordered(shape, IntTuple::flat(&[2, 1])),
    }
}

/// What the tensor map of an operand says, and how many copies fill a stage of it.
///
/// The map has three dimensions: the operand's contiguous mode, the other one, and batches (1 of them where all batches have the
/// same operand). Where `depth` is more than 1 it has four: elements of a block along K, M or N, blocks, which are 128 bytes apart, and
/// batches. If blocks come one by one (`at_once` is 1), there is one, as long as K. It is swizzled by 128 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boxes {
    /// Which mode is contiguous.
    pub major: Major,
    /// A box's elements along the contiguous mode, and along the other one.
    pub extents: [u32; 2],
    /// Boxes of a stage, along M or N.
    pub count: u32,
    /// Where K is contiguous, how many such blocks of a stage follow each other along K.
    pub depth: u32,
    /// How many of them a copy brings: all, by a map that has them as a dimension, or one.
    pub at_once: u32,
}

impl Boxes {
    /// The boxes of a tile of `extent` along M or N, by `k`, which are `depth` rows of shared memory.
    #[must_use]
    pub const fn new(extent: u32, k: u32, depth: u32, major: Major) -> Self {
        assert!(extent <= 256 && k <= 256, "a box has at most 256 elements along a dimension");
        let row = k / depth;
        match major {
            Major::K => Self { major, extents: [row, extent], count: 1, depth, at_once: 1 },
            // Rows of shared memory lie along M or N, as many as `k`.
            Major::Mn => Self { major, extents: [row, k], count: extent / row, depth: 1, at_once: 1 },
        }
    }

    /// The same of a matrix that has but `extent` elements along M or N, and `k` along K. Where K is contiguous, a box has no more rows
    /// than there are, in eights, which is what a swizzle repeats after. All blocks of a stage come at once if they have all rows of the
    /// tile, and K has whole ones only: then blocks are a dimension of the map of their own, which has no end within one.
    #[inline(always)]
    #[must_use]
    pub const fn fitted(self, extent: u32, k: u32) -> Self {
        match self.major {
            Major::K if extent < self.extents[1] => {
                Self { extents: [self.extents[0], extent.div_ceil(8) * 8], ..self }
            }
            Major::K if k.is_multiple_of(self.extents[0]) => Self { at_once: self.depth, ..self },
            _ => self,
        }
    }

    /// Bytes of all boxes of a stage.
    #[inline(always)]
    #[must_use]
    pub const fn bytes(&self) -> u32 {
        self.count * self.depth * self.extents[1] * ROW
    }

    /// Elements along M or N from one box to the next.
    #[must_use]
    pub const fn step(&self) -> u32 {
        self.extents[0]
    }
}

/// The arguments of a configuration's kernel. `a` and `b` are not read: tensor maps stand for them.
pub type ArgumentsOf<G> =
    Arguments<<G as WgmmaConfig>::Operand, <G as WgmmaConfig>::Output, <G as WgmmaConfig>::Scalar>;

/// The warps that read a stage: those of the warpgroups that multiply a tile together.
pub struct ReadersOf<G>(PhantomData<G>);

impl<G: WgmmaConfig> Readers for ReadersOf<G> {
    const WARPS: u32 = G::TOGETHER * WARPGROUP / 32;
}

/// What a block keeps in shared memory: stages of A and of B, boxes of C for each consuming warpgroup, mbarriers, and a word that
/// each consuming warpgroup tells itself.
///
/// Stages and boxes are addressed as a whole, by TMA and descriptors; so they are no arrays of elements.
pub struct WgmmaStorage<G>(PhantomData<G>);

/// The parts of a [`WgmmaStorage`]: shared addresses.
pub struct Parts<G>(u32, PhantomData<G>);

impl<G> Clone for Parts<G> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<G> Copy for Parts<G> {}

impl<G: WgmmaConfig> SharedStorage for WgmmaStorage<G> {
    const BYTES: usize = {
        let stages = G::STAGES * (G::BYTES_A + G::BYTES_B);
        (stages + G::CONSUMERS * (BOXES_C * BOX_C + TOLD)) as usize + mbarrier_bytes(G::STAGES) as usize
    };
    /// What a swizzle of 128 bytes repeats after.
    const ALIGN: usize = 1024;

    type Tensors = Parts<G>;

    #[inline(always)]
    unsafe fn at(base: u32) -> Self::Tensors {
        Parts(base, PhantomData)
    }
}

impl<G: WgmmaConfig> Parts<G> {
    /// A's part of a stage.
    #[inline(always)]
    pub fn a(self, stage: u32) -> u32 {
        self.0 + stage * G::BYTES_A
    }

    /// B's part of a stage.
    #[inline(always)]
    pub fn b(self, stage: u32) -> u32 {
        self.0 + G::STAGES * G::BYTES_A + stage * G::BYTES_B
    }

    /// The boxes of C of a consuming warpgroup.
    #[inline(always)]
    pub fn c(self, consumer: u32) -> u32 {
        self.0 + G::STAGES * (G::BYTES_A + G::BYTES_B) + consumer * BOXES_C * BOX_C
    }

    /// The boxes of C of a consuming warpgroup in a stage, [`WgmmaConfig::SPARE_BOXES`] of them.
    #[inline(always)]
    pub fn spare(self, stage: u32, consumer: u32) -> u32 {
        let part = if const { G::MMA_M > 1 } { self.a(stage) } else { self.b(stage) };
        part + consumer * const { G::SPARE_BOXES * BOX_C }
    }

    /// The word in which a thread of a consuming warpgroup tells the others something.
    #[inline(always)]
    pub fn told(self, consumer: u32) -> u32 {
        self.c(G::CONSUMERS) + mbarrier_bytes(G::STAGES) + consumer * TOLD
    }

    /// The mbarriers of the stages.
    ///
    /// # Safety
    /// Each thread asks for them once, since it has one role.
    #[inline(always)]
    pub unsafe fn pipeline<const STAGES: u32, const CLUSTER: u32>(
        self,
    ) -> Pipeline<STAGES, ReadersOf<G>, CLUSTER> {
        const { assert!(STAGES == G::STAGES, "the configuration's stages") };
        // SAFETY: the storage has these bytes behind the boxes of C, for nothing else.
        unsafe { PipelineStorage::<STAGES, ReadersOf<G>, CLUSTER>::at(self.c(G::CONSUMERS)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_has_no_more_rows_than_there_are_in_eights() {
        let boxes = Boxes::new(64, 64, 1, Major::K);
        for (extent, rows) in [(1, 8), (8, 8), (9, 16), (63, 64), (64, 64), (65, 64), (4096, 64)] {
            let fitted = boxes.fitted(extent, 64);
            assert_eq!((fitted.extents, fitted.bytes()), ([64, rows], 128 * rows), "of {extent} rows");
        }
        // What lies along the contiguous mode is as long as the swizzle.
        let along = Boxes::new(64, 64, 1, Major::Mn);
        assert_eq!((along.fitted(1, 64), along.bytes()), (along, 64 * 128));
    }

    #[test]
    fn blocks_along_k_come_at_once_where_the_tile_is_full_and_k_has_whole_ones() {
        let boxes = Boxes::new(64, 128, 2, Major::K);
        assert_eq!((boxes.extents, boxes.depth, boxes.bytes()), ([64, 64], 2, 2 * 64 * 128));
        for (extent, k, at_once) in [(64, 128, 2), (65, 192, 2), (64, 100, 1), (63, 128, 1), (64, 1, 1)] {
            let fitted = boxes.fitted(extent, k);
            assert_eq!((fitted.at_once, fitted.depth), (at_once, 2), "{extent} rows, {k} of K");
        }
        // Where M or N is contiguous, a box has all of the stage's K.
        let along = Boxes::new(64, 128, 2, Major::Mn);
        assert_eq!((along.extents, along.count, along.depth), ([64, 128], 1, 1));
        assert_eq!((along.fitted(1, 100), along.bytes()), (along, 128 * 128));
    }
}
