//! The configuration of a Hopper product as a type, and what follows from it: the tiled MMA, stages
//! in shared memory, TMA boxes.

use super::store::Staging;
use crate::mma::{Arguments, Convertible, Scalar};
use moye_device::arch::Convert;
use moye_device::arch::wgmma::Accumulators;
use moye_device::atom::TiledMma;
use moye_device::atom::wgmma::WgmmaAtom;
use moye_device::collective::FixUp;
use moye_device::layout::{
    ComposedLayout, IntTuple, Major, SwizzleBytes, make_col_major, shared_memory_atom,
};
use moye_device::memory::Element;
use moye_device::{swizzled_layout, tiled_mma};

/// Bytes of a row in the 128-byte swizzle, which is also a box's extent along its contiguous mode.
pub const ROW: u32 = 128;
/// Rows of an instruction's tile of C.
pub const ATOM_M: u32 = 64;
/// Threads of a warpgroup.
pub const WARPGROUP: u32 = 128;
/// Bytes of a box of C: the rows of one instruction, 128 bytes each.
pub const BOX_C: u32 = ATOM_M * ROW;
/// Boxes of C in shared memory that a warpgroup owns.
pub const BOXES_C: u32 = 2;

/// A configuration.
pub trait WgmmaConfig: Sized + 'static {
    /// The element type of A and B in memory. No configuration has two types (e4m3 by e5m2).
    type Operand: Element;
    /// The accumulator's type, and that of the epilogue's arithmetic.
    type Sum: Scalar
        + Staging<Self::Sum>
        + Convertible<Self::Sum>
        + Convert<Self::Output>
        + FixUp
        + Element<Bits = u32>;
    /// The element type of C.
    type Output: Staging<Self::Sum>;
    /// The instruction, with A and B in shared memory; its N is the tile's N.
    type Atom: WgmmaAtom<OperandA = u64, D = Self::Sum, Accumulators: Accumulators<Register = Self::Sum>>;
    /// BLK_M: 64 rows for each instruction of each warpgroup that shares the tile.
    const BLK_M: u32;
    /// Whether the two consumer warpgroups have their own tiles and multiply in turn (*ping-pong*),
    /// or share each tile (*cooperative*).
    const PING_PONG: bool = false;
    /// Whether the accumulators are multiplied by [`Scales`](crate::mma::Scales).
    const SCALED: bool = false;
    /// Blocks of a cluster. Their tiles of C are below each other and have B in common: each block
    /// loads its share of B by multicast.
    const CLUSTER: u32 = 1;
    /// Blocks of a cluster that split K of one tile: see [`matmul_parts`](super::matmul_parts).
    const PARTS: u32 = 1;
    /// Whether a block has one tile, or its split of a tile's K, and loads boxes that fit the
    /// operands: see [`matmul_parts`](super::matmul_parts).
    const ONE_TILE: bool = false;
    /// 128-byte rows of shared memory that a stage has along K.
    const DEPTH: u32 = 1;
    /// Pipeline stages.
    const STAGES: u32 = 4;

    /// Whether C is stored from registers in 16-byte vectors where possible (`sink.rs`), rather
    /// than through boxes. For an `Output` of 4 bytes the boxes take two rounds, and after a
    /// block's last tile no product hides the TMA stores.
    const PIECES: bool = size_of::<Self::Output>() == 4 && !Self::PING_PONG;

    /// Instructions of a warpgroup below each other; between them are those of the other warpgroup
    /// that shares the tile.
    const MMA_M: u32 = 1;
    /// Rows of C that a warpgroup computes.
    const ROWS: u32 = Self::MMA_M * ATOM_M;
    /// Warpgroups that share a tile of C, and all of its stages.
    const TOGETHER: u32 = {
        assert!(Self::BLK_M.is_multiple_of(Self::ROWS), "a warpgroup has whole instructions");
        Self::BLK_M / Self::ROWS
    };
    /// Consumer warpgroups.
    const CONSUMERS: u32 = if Self::PING_PONG {
        assert!(Self::TOGETHER == 1, "ping-pong warpgroups do not share a tile");
        2
    } else {
        Self::TOGETHER
    };
    /// Boxes of C for which a warpgroup uses its tile's last stage, beside its own boxes. That
    /// stage is released after C has been read from it. The boxes are in the larger operand's part.
    const SPARE_BOXES: u32 = if Self::PING_PONG {
        0
    } else {
        let larger = if Self::BYTES_A > Self::BYTES_B { Self::BYTES_A } else { Self::BYTES_B };
        larger / Self::TOGETHER / BOX_C
    };
    /// Threads of a block.
    const THREADS: u32 = WARPGROUP * (1 + Self::CONSUMERS);
    /// BLK_N.
    const BLK_N: u32 = Self::Atom::SHAPE_MNK[1] as u32;
    /// BLK_K: `DEPTH` rows of shared memory if K is contiguous.
    const BLK_K: u32 = Self::DEPTH * (ROW / Self::Operand::BYTES as u32);
    /// The boxes in which TMA loads A's part of a stage.
    const BOXES_A: Boxes = Boxes::new(Self::BLK_M, Self::BLK_K, Self::DEPTH, Self::Atom::MAJOR_A);
    /// The boxes in which TMA loads a block's share of B's part of a stage.
    const BOXES_B: Boxes =
        Boxes::new(Self::BLK_N / Self::CLUSTER, Self::BLK_K, Self::DEPTH, Self::Atom::MAJOR_B);
    /// Bytes of a stage's tile of A.
    const BYTES_A: u32 = Self::BLK_M * Self::DEPTH * ROW;
    /// Bytes of a stage's tile of B.
    const BYTES_B: u32 = Self::BLK_N * Self::DEPTH * ROW;
}

tiled_mma! {
    /// The warpgroups that share a tile, one below the other.
    pub Mma<G: WgmmaConfig>: TiledMma<G::Atom> =
        TiledMma::new(make_col_major(IntTuple::flat(&[G::TOGETHER as i64, 1, 1])));
}

/// Stages of an operand, (BLK_MN, BLK_K, PIPE): rows of 128 bytes, whose 16-byte vectors are
/// permuted by the row's number modulo 8. If M (or N) is contiguous, blocks of 64 x `BLK_K` follow
/// each other, as the boxes load them.
const fn stages<T: Element>(extent: u32, k: u32, count: u32, major: Major) -> ComposedLayout {
    let atom = shared_memory_atom(major, SwizzleBytes::B128, 8 * T::BYTES as i64);
    let shape = IntTuple::flat(&[extent as i64, k as i64, count as i64]);
    match major {
        Major::K => atom.tile_to_shape(shape),
        Major::Mn => atom.tile_to_shape_ordered(shape, IntTuple::flat(&[2, 1, 3])),
    }
}

swizzled_layout! {
    /// Stages of A, (BLK_M, BLK_K, PIPE).
    pub StagesA<G: WgmmaConfig, const STAGES: u32> =
        stages::<G::Operand>(G::BLK_M, G::BLK_K, STAGES, G::Atom::MAJOR_A);
    /// Stages of B, (BLK_N, BLK_K, PIPE).
    pub StagesB<G: WgmmaConfig, const STAGES: u32> =
        stages::<G::Operand>(G::BLK_N, G::BLK_K, STAGES, G::Atom::MAJOR_B);
}

/// The tensor map of an operand, and the number of copies that fill a stage.
///
/// The map has three dimensions: the operand's contiguous mode, the other mode, and batches (1 if
/// all batches use the same matrix). With a `depth` above 1 it has four: elements of a block along
/// K, M or N, blocks, which are 128 bytes apart, and batches. If blocks are loaded one at a time
/// (`at_once` is 1), there is one block, as long as K. The swizzle is 128 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boxes {
    /// Which mode is contiguous.
    pub major: Major,
    /// The extents of a box along the contiguous mode and along the other.
    pub extents: [u32; 2],
    /// Boxes of a stage along M or N.
    pub count: u32,
    /// If K is contiguous, the number of such blocks of a stage along K.
    pub depth: u32,
    /// The number of blocks that a copy loads: all, with a map that has them as a dimension, or
    /// one.
    pub at_once: u32,
}

impl Boxes {
    /// The boxes of a tile of `extent` along M or N and `k` along K, which is `depth` rows of
    /// shared memory.
    #[must_use]
    pub const fn new(extent: u32, k: u32, depth: u32, major: Major) -> Self {
        assert!(extent <= 256 && k <= 256, "a box has at most 256 elements along a dimension");
        let row = k / depth;
        match major {
            Major::K => Self { major, extents: [row, extent], count: 1, depth, at_once: 1 },
            // Rows of shared memory are along M or N, `k` of them.
            Major::Mn => Self { major, extents: [row, k], count: extent / row, depth: 1, at_once: 1 },
        }
    }

    /// The same for a matrix with `extent` elements along M or N, and `k` along K. If K is
    /// contiguous, a box has no more rows than the matrix, rounded up to 8, the swizzle's period.
    /// All blocks of a stage are loaded at once if they have all rows of the tile and K is a
    /// multiple of the block: blocks are then a dimension of the map, in which no block can end
    /// early.
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

    /// The step along M or N from one box to the next.
    #[must_use]
    pub const fn step(&self) -> u32 {
        self.extents[0]
    }
}

/// The arguments of a configuration's kernel. `a` and `b` are not read: the tensor maps replace
/// them.
pub type ArgumentsOf<G> =
    Arguments<<G as WgmmaConfig>::Operand, <G as WgmmaConfig>::Output, <G as WgmmaConfig>::Sum>;

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
        // The extent along the contiguous mode is the swizzle's.
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
        // If M or N is contiguous, a box has all of the stage's K.
        let along = Boxes::new(64, 128, 2, Major::Mn);
        assert_eq!((along.extents, along.count, along.depth), ([64, 128], 1, 1));
        assert_eq!((along.fitted(1, 100), along.bytes()), (along, 128 * 128));
    }
}
