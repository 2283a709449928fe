//! The configuration of a Hopper product as a type, and what follows from it: the tiled MMA, the
//! shared-memory stages, the TMA copies and their tensor maps.

use super::store::{Staging, StoreBox};
use crate::kernels::mma::{Arguments, Convertible, Scalar};
use moye_device::arch::Convert;
use moye_device::arch::wgmma::Accumulators;
use moye_device::atom::TiledMma;
use moye_device::atom::tma::TmaTile;
use moye_device::atom::wgmma::WgmmaAtom;
use moye_device::collective::{FixUp, LoadA, LoadB};
use moye_device::layout::{
    ComposedLayout, IntTuple, Layout, Major, SwizzleBytes, layout, make_col_major, shared_memory_atom,
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
/// Boxes of C in shared memory per warpgroup.
pub const BOXES_C: u32 = 2;

/// A configuration.
pub trait WgmmaConfig: Sized + 'static {
    /// The element type of A and B in memory. Both have the same type (no e4m3 by e5m2).
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
    /// Whether the two consumer warpgroups compute separate tiles and multiply in turn
    /// (*ping-pong*), or share each tile (*cooperative*).
    const PING_PONG: bool = false;
    /// Whether the accumulators are multiplied by [`Scales`](crate::kernels::mma::Scales).
    const SCALED: bool = false;
    /// Whether the products of a stage's K are added to the accumulators in f32: tensor cores keep
    /// about 14 bits of an accumulator of 8-bit floats.
    const PROMOTED: bool = false;
    /// Blocks of a cluster. Their tiles of C are stacked along M and share B: each block loads
    /// its share of B by multicast.
    const CLUSTER: u32 = 1;
    /// Blocks of a cluster that split K of one tile: see [`matmul_parts`](super::matmul_parts).
    const PARTS: u32 = 1;
    /// Whether a block computes one tile, or its slice of a tile's K, and loads boxes that fit the
    /// operands: see [`matmul_parts`](super::matmul_parts).
    const ONE_TILE: bool = false;
    /// 128-byte rows of shared memory of a stage along K.
    const DEPTH: u32 = 1;
    /// Pipeline stages.
    const STAGES: u32 = 4;

    /// Whether C is stored from registers, in 16-byte vectors if possible (`sink.rs`), rather than
    /// through boxes. For an `Output` of 4 bytes the boxes take two rounds, and after a block's
    /// last tile no product hides the TMA stores.
    const PIECES: bool = size_of::<Self::Output>() == 4 && !Self::PING_PONG;

    /// Instructions of a warpgroup along M, interleaved with the instructions of the other
    /// warpgroup that shares the tile.
    const MMA_M: u32 = 1;
    /// Rows of C that a warpgroup computes.
    const ROWS: u32 = Self::MMA_M * ATOM_M;
    /// Warpgroups that share a tile of C, and all of its stages.
    const TOGETHER: u32 = {
        assert!(Self::BLK_M.is_multiple_of(Self::ROWS), "BLK_M must be a multiple of a warpgroup's rows");
        Self::BLK_M / Self::ROWS
    };
    /// Consumer warpgroups.
    const CONSUMERS: u32 = if Self::PING_PONG {
        assert!(Self::TOGETHER == 1, "ping-pong warpgroups do not share a tile");
        2
    } else {
        Self::TOGETHER
    };
    /// Boxes of C that a warpgroup keeps in its tile's last stage, in the larger operand's part,
    /// beside its own boxes. The stage is released after C has been read from it.
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
    /// The boxes of A's part of a stage, if boxes fit the operands ([`ONE_TILE`](Self::ONE_TILE)).
    const BOXES_A: Boxes = Boxes::new(Self::BLK_M, Self::BLK_K, Self::DEPTH, Self::Atom::MAJOR_A);
    /// The boxes of B's part.
    const BOXES_B: Boxes = Boxes::new(Self::BLK_N, Self::BLK_K, Self::DEPTH, Self::Atom::MAJOR_B);
    /// Bytes of a stage's tile of A.
    const BYTES_A: u32 = Self::BLK_M * Self::DEPTH * ROW;
    /// Bytes of a stage's tile of B.
    const BYTES_B: u32 = Self::BLK_N * Self::DEPTH * ROW;
}

tiled_mma! {
    /// The warpgroups that share a tile, stacked along M.
    pub Mma<G: WgmmaConfig>: TiledMma<G::Atom> =
        TiledMma::new(make_col_major(IntTuple::flat(&[G::TOGETHER as i64, 1, 1])));
}

/// Stages of an operand, (BLK_MN, BLK_K, PIPE): rows of 128 bytes, whose 16-byte vectors are
/// permuted by the row's index modulo 8. If M (or N) is contiguous, blocks of 64 x `BLK_K` follow
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

/// The copy of a stage of A, of a tensor (M, K, batch).
pub type CopyA<G> = LoadA<<G as WgmmaConfig>::Operand, StagesA<G, 1>, 3>;
/// The copy of a stage of B, of a tensor (N, K, batch); each block of a cluster loads a share.
pub type CopyB<G, const CLUSTER: u32> = LoadB<<G as WgmmaConfig>::Operand, StagesB<G, 1>, 3, CLUSTER>;

/// The tiles of a kernel's tensor maps, which are the tiles of its copies. The host builds the maps
/// from them, so that host and kernel agree.
///
/// The parameters are untyped [`TensorMap`](moye_device::memory::TensorMap)s: with a
/// [`TmaMap`](moye_device::atom::tma::TmaMap) each kernel would have a different type, and the
/// host's table has one type for all kernels of an element type. Besides, C has one of two element
/// types, and the extents of fitted boxes are known only at run time.
#[derive(Clone, Copy, Debug)]
pub struct Maps {
    /// A.
    pub a: OperandMap,
    /// B; each block of a cluster loads a share.
    pub b: OperandMap,
    /// C, a tensor (M, N, batch or slice), with elements of [`WgmmaConfig::Output`] and with those
    /// of [`WgmmaConfig::Sum`]; `None` if C is written through its address.
    pub c: Option<[&'static TmaTile; 2]>,
}

/// The loads of an operand.
#[derive(Clone, Copy, Debug)]
pub enum OperandMap {
    /// By a tile of an [`operand`].
    Tile(&'static TmaTile),
    /// By boxes that are [fitted](Boxes::fitted) to the operand.
    Fitted(Boxes),
}

impl Maps {
    /// The maps of a configuration's kernel, whose clusters have `CLUSTER` blocks.
    #[must_use]
    pub const fn new<G: WgmmaConfig, const CLUSTER: u32>() -> Self {
        const { assert!(CLUSTER == G::CLUSTER, "the configuration's cluster") };
        if G::ONE_TILE {
            return Self { a: OperandMap::Fitted(G::BOXES_A), b: OperandMap::Fitted(G::BOXES_B), c: None };
        }
        Self {
            a: OperandMap::Tile(const { &CopyA::<G>::TILE }),
            b: OperandMap::Tile(const { &CopyB::<G, CLUSTER>::TILE }),
            c: Some(const { [&StoreBox::<G::Output>::TILE, &StoreBox::<G::Sum>::TILE] }),
        }
    }
}

/// The boxes that fill an operand's part of a stage in a kernel with
/// [`ONE_TILE`](WgmmaConfig::ONE_TILE): rows of 128 bytes, swizzled like the stage.
///
/// With a `depth` above 1 the stage has several blocks along K. They are a dimension of the tensor
/// if one copy loads all of them (`at_once`); otherwise the tensor has one block, as long as K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boxes {
    /// The contiguous mode.
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
    /// The boxes of a tile of `extent` along M or N and `k` along K, `depth` rows of shared memory.
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

    /// The boxes for a matrix with `extent` elements along M or N, and `k` along K. If K is
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

    /// Copies that fill a stage.
    #[must_use]
    pub const fn copies(&self) -> u32 {
        self.count * self.depth / self.at_once
    }

    /// The tile of one copy, from which the tensor map is built: (MN, K, batch), or (MN, K in a
    /// block, block, batch) with a depth above 1.
    #[must_use]
    pub const fn tile<T: Element>(&self) -> TmaTile {
        let [row, rows] = self.extents;
        let of_copy = match self.major {
            Major::K => stages::<T>(rows, row, self.at_once, self.major),
            Major::Mn => stages::<T>(row, rows, 1, self.major),
        };
        let one = layout!((1):(0)).mode(0);
        let tile = if self.depth == 1 { of_copy.layout } else { of_copy.layout.append(one) };
        TmaTile::new(ComposedLayout::new(of_copy.swizzle, 0, tile), 8 * T::BYTES as i64)
    }

    /// The operand with the modes of [`tile`](Self::tile): `extent` along M or N and `k` along K,
    /// with its leading dimension in elements.
    #[must_use]
    pub const fn tensor(&self, (extent, k): (u32, u32), leading: i64, batches: OperandBatches) -> Layout {
        if self.depth == 1 {
            return operand(self.major, (extent, k), leading, batches);
        }
        let row = self.extents[0];
        let (row, blocks) = if self.at_once > 1 { (row, k / row) } else { (k, 1) };
        let shape = [extent as i64, row as i64, blocks as i64, batches.count as i64];
        Layout::new(IntTuple::flat(&shape), IntTuple::flat(&[leading, 1, row as i64, batches.stride]))
    }

    /// The step along M or N from one box to the next.
    #[must_use]
    pub const fn step(&self) -> u32 {
        self.extents[0]
    }
}

/// The batches of an operand in its tensor map: one if all batches use the same matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandBatches {
    /// The number of matrices.
    pub count: u32,
    /// Their stride in elements.
    pub stride: i64,
}

/// An operand (MN, K, batch) in memory, of `extent` along M or N and `k` along K, with its
/// contiguous mode and its leading dimension in elements.
#[must_use]
pub const fn operand(major: Major, (extent, k): (u32, u32), leading: i64, batches: OperandBatches) -> Layout {
    let (mn, along_k) = if matches!(major, Major::K) { (leading, 1) } else { (1, leading) };
    let shape = [extent as i64, k as i64, batches.count as i64];
    Layout::new(IntTuple::flat(&shape), IntTuple::flat(&[mn, along_k, batches.stride]))
}

/// The arguments of a configuration's kernel. `a` and `b` are not read: the tensor maps replace
/// them.
pub type ArgumentsOf<G> =
    Arguments<<G as WgmmaConfig>::Operand, <G as WgmmaConfig>::Output, <G as WgmmaConfig>::Sum>;

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;
    use moye_device::atom::wgmma::{K_MAJOR, MN_MAJOR, SM90_64x64x16_F32BF16BF16_SS};
    use moye_sim::TensorElement;

    /// Two blocks along K in a stage, and N contiguous in B.
    struct Deep;

    impl WgmmaConfig for Deep {
        type Operand = bf16;
        type Sum = f32;
        type Output = bf16;
        type Atom = SM90_64x64x16_F32BF16BF16_SS<K_MAJOR, MN_MAJOR>;
        const BLK_M: u32 = 64;
        const DEPTH: u32 = 2;
        const ONE_TILE: bool = true;
    }

    #[test]
    fn boxes_that_are_not_fitted_are_those_of_the_copy_of_a_stage() {
        let batches = OperandBatches { count: 1, stride: 0 };
        let of_copy = |tile: TmaTile, major| {
            let tensor = operand(major, (64, 128), 1024, batches);
            tile.tensor_map(TensorElement::Bf16, 0x1000, &tensor).unwrap()
        };
        for (copy, boxes) in [(CopyA::<Deep>::TILE, Deep::BOXES_A), (CopyB::<Deep, 1>::TILE, Deep::BOXES_B)] {
            let own = of_copy(copy, boxes.major);
            let tensor = boxes.tensor((64, 128), 1024, batches);
            let map = boxes.tile::<bf16>().tensor_map(TensorElement::Bf16, 0x1000, &tensor).unwrap();
            assert_eq!((map.box_extents, map.swizzle), (own.box_extents, own.swizzle), "{boxes:?}");
            assert_eq!((boxes.bytes(), boxes.copies()), (copy.bytes(), copy.copies() as u32), "{boxes:?}");
        }
        assert!(matches!(Maps::new::<Deep, 1>().a, OperandMap::Fitted(boxes) if boxes == Deep::BOXES_A));
    }

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
