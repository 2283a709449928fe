//! Tiles in shared memory as operands: from a layout to matrix descriptors.
//!
//! # Contents of a descriptor
//! A descriptor holds a start address, two offsets and a swizzle, from which the instruction
//! computes the place of each 16-byte piece of its 64 x K or N x K tile. In pieces, with `W` of
//! them in a row of the swizzle (1 without):
//!
//! ```text
//! K-major   row r, piece c of k:   (r % 8) W + (r / 8) SBO + c              (without a swizzle c LBO)
//! MN-major  piece p of m, row k:   p % W + (p / W) LBO + (k % 8) W + (k / 8) SBO   (without p SBO + k % 8 + (k / 8) LBO)
//! ```
//!
//! These are CuTe's canonical layouts. A layout of a tile has a descriptor if its pieces are at
//! these places; since a layout is the sum of its modes' offsets, each mode is checked separately.
//! SBO and LBO are taken from the first pieces that depend on them.
//!
//! The swizzle works on addresses, so a tile may begin anywhere along a row of it (instructions
//! along K do), but its rows must be aligned to the swizzle's period.
//!
//! ```
//! use moye_device::atom::wgmma::{SM90_64x128x16_F32BF16BF16_SS as Atom, SharedOperand};
//! use moye_device::layout::{ComposedLayout, Major, SwizzleBytes, shared_memory_atom, tuple};
//!
//! const TILE: ComposedLayout = shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(tuple!((128, 64)));
//! const A: SharedOperand = SharedOperand::a::<Atom>(TILE);
//! // Two instructions along M, four along K; the stride of 8 rows is 1,024 bytes.
//! assert_eq!((A.blocks_mn(), A.blocks_k()), (2, 4));
//! assert_eq!(A.descriptor(0x400, 1, 3), 1 << 62 | (1024 >> 4) << 32 | 1 << 16 | (0x400 + 64 * 128 + 3 * 32) >> 4);
//! ```

use super::error::{Reason, WgmmaLayoutError};
use super::{OperandA, WgmmaAtom};
use crate::atom::TilingError;
use crate::layout::{ComposedLayout, Layout, Major, coalesce};
use crate::number::Number;

/// The most instructions along either mode of a tile.
const MAX_BLOCKS: usize = 32;

/// The matrix descriptors of a tile in shared memory: one for each instruction along M (or N) and
/// K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedOperand {
    /// The descriptor without an address.
    bits: u64,
    /// The start of each instruction's part, along either mode, in pieces of 16 bytes.
    mn: [u32; MAX_BLOCKS],
    k: [u32; MAX_BLOCKS],
    blocks: [usize; 2],
}

/// The parameters of a tile's checks.
#[derive(Clone, Copy)]
struct Tile {
    /// Elements in 16 bytes, and pieces in a row of the swizzle.
    piece: i64,
    row: i64,
    swizzled: bool,
    /// The instruction's extents.
    rows: i64,
    depth: i64,
}

impl SharedOperand {
    /// The operand A of an atom, for a tile (M, K) whose layout is in elements (for elements of one
    /// bit in bytes).
    ///
    /// # Panics
    /// If the layout has no descriptor; in a `const` this is a compile error with the reason and
    /// the nearest layout that has one.
    #[track_caller]
    #[must_use]
    pub const fn a<M: WgmmaAtom>(layout: ComposedLayout) -> Self {
        const {
            if M::OperandA::IN_REGISTERS {
                TilingError::of("SharedOperand")
                    .str("the atom ")
                    .str(M::NAME)
                    .str(" takes A from registers, which no descriptor names: take the atom in _SS, or give it a fragment")
                    .raise();
            }
        };
        unwrapped(Self::try_new(&layout, bits_of::<M::A>(), M::MAJOR_A, M::SHAPE_MNK[0]))
    }

    /// The operand B of an atom, for a tile (N, K).
    ///
    /// # Panics
    /// Same as [`SharedOperand::a`].
    #[track_caller]
    #[must_use]
    pub const fn b<M: WgmmaAtom>(layout: ComposedLayout) -> Self {
        unwrapped(Self::try_new(&layout, bits_of::<M::B>(), M::MAJOR_B, M::SHAPE_MNK[1]))
    }

    /// The descriptors of a tile (MN, K) of elements of `bits` bits (8 for elements of one bit,
    /// which are counted in bytes), for instructions with `rows` along its first mode and 32 bytes
    /// along its second.
    ///
    /// # Errors
    /// If it has none.
    pub const fn try_new(
        layout: &ComposedLayout,
        bits: i64,
        major: Major,
        rows: i64,
    ) -> Result<Self, WgmmaLayoutError> {
        match Self::of(layout, bits, major, rows) {
            Ok(operand) => Ok(operand),
            Err(reason) => Err(WgmmaLayoutError::new(layout, bits, major, rows, 256 / bits, reason)),
        }
    }

    const fn of(layout: &ComposedLayout, bits: i64, major: Major, rows: i64) -> Result<Self, Reason> {
        let tile = match Tile::of(layout, bits, major, rows) {
            Ok(tile) => tile,
            Err(reason) => return Err(reason),
        };
        let (mn, k) = (layout.layout.mode(0), layout.layout.mode(1));
        let offsets = match major {
            Major::K => tile.k_major(&mn, &k),
            Major::Mn => tile.mn_major(&mn, &k),
        };
        let (leading, stride) = match offsets {
            Ok(offsets) => offsets,
            Err(reason) => return Err(reason),
        };
        let mut operand = Self { bits: 0, mn: [0; MAX_BLOCKS], k: [0; MAX_BLOCKS], blocks: [0; 2] };
        if let Err(reason) = tile.starts(&mn, rows, &mut operand.mn, &mut operand.blocks[0]) {
            return Err(reason);
        }
        if let Err(reason) = tile.starts(&k, tile.depth, &mut operand.k, &mut operand.blocks[1]) {
            return Err(reason);
        }
        if leading < 0 || leading > 0x3FFF {
            return Err(Reason::Far { offset: leading });
        }
        if stride < 0 || stride > 0x3FFF {
            return Err(Reason::Far { offset: stride });
        }
        // The descriptor's encoding of the swizzles.
        let swizzle: u64 = match tile.row {
            8 => 1,
            4 => 2,
            2 => 3,
            _ => 0,
        };
        operand.bits = swizzle << 62 | (stride as u64) << 32 | (leading as u64) << 16;
        Ok(operand)
    }

    /// The number of instructions along M (or N).
    pub const fn blocks_mn(&self) -> usize {
        self.blocks[0]
    }

    /// The number of instructions along K.
    pub const fn blocks_k(&self) -> usize {
        self.blocks[1]
    }

    /// The start of the part of instruction `mn` along M (or N), in bytes from the start of the
    /// tile. If parts are equally spaced, an index that is known only at run time can multiply the
    /// offset of 1.
    pub const fn offset_mn(&self, mn: usize) -> u32 {
        16 * self.mn[mn]
    }

    /// The descriptor of an instruction's part of the tile at a shared address: instruction `mn`
    /// along M (or N) and `k` along K. Both should be constants, since other values need a lookup
    /// in memory. The address is a multiple of 16, or with a swizzle of its period: 256, 512 or
    /// 1,024 bytes.
    #[inline(always)]
    #[must_use]
    pub const fn descriptor(&self, address: u32, mn: usize, k: usize) -> u64 {
        self.bits | ((address >> 4) + self.mn[mn] + self.k[k]) as u64 & 0x3FFF
    }
}

/// The bits of a layout's unit: elements of one bit are counted in bytes.
const fn bits_of<T: Number>() -> i64 {
    if T::WIDTH < 8 { 8 } else { T::WIDTH as i64 }
}

/// `width` steps of a mode, `inner` pieces apart.
#[derive(Clone, Copy)]
struct Run {
    width: i64,
    inner: i64,
}

#[track_caller]
const fn unwrapped(operand: Result<SharedOperand, WgmmaLayoutError>) -> SharedOperand {
    match operand {
        Ok(operand) => operand,
        Err(error) => panic!("{}", error.text()),
    }
}

impl Tile {
    const fn of(layout: &ComposedLayout, bits: i64, major: Major, rows: i64) -> Result<Self, Reason> {
        let piece = 128 / bits;
        let swizzle = layout.swizzle;
        let swizzled = swizzle.bits() > 0;
        if layout.rank() != 2 {
            return Err(Reason::Rank(layout.rank()));
        }
        if layout.offset != 0 {
            return Err(Reason::Offset(layout.offset));
        }
        if swizzled && (swizzle.bits() > 3 || swizzle.base() != piece.ilog2() as i64 || swizzle.shift() != 3)
        {
            return Err(Reason::Swizzle);
        }
        if matches!(major, Major::Mn) && bits != 16 {
            return Err(Reason::MajorOfType);
        }
        let depth = 256 / bits;
        let (mn, k) = (layout.layout.extent(0), layout.layout.extent(1));
        if mn % rows != 0 || mn / rows > MAX_BLOCKS as i64 {
            return Err(Reason::Extent { mode: 0, extent: mn, by: rows });
        }
        if k % depth != 0 || k / depth > MAX_BLOCKS as i64 {
            return Err(Reason::Extent { mode: 1, extent: k, by: depth });
        }
        Ok(Self { piece, row: 1 << swizzle.bits(), swizzled, rows, depth })
    }

    /// The period of the first 8 rows, in pieces.
    const fn pattern(&self) -> i64 {
        8 * self.row
    }

    /// Checks that the contiguous mode is contiguous in pieces, and the other mode aligned to them.
    const fn check_pieces(
        &self,
        contiguous: &Layout,
        other: &Layout,
        modes: [usize; 2],
    ) -> Result<(), Reason> {
        // Whole pieces, and strides of whole pieces, are in place; for the error elements are
        // checked one by one.
        let line = coalesce(*contiguous);
        if line.stride[0] == 1
            && line.shape[0] % self.piece == 0
            && self.steps_whole(&line, 1)
            && self.steps_whole(other, 0)
        {
            return Ok(());
        }
        let mut i = 0;
        while i < contiguous.size() {
            let within = i % self.piece;
            let (first, at) = (contiguous.at(i - within), contiguous.at(i));
            if at - first != within {
                return Err(Reason::Torn { mode: modes[0], index: i - within, next: i, gap: at - first });
            }
            if within == 0 && at % self.piece != 0 {
                return Err(Reason::Unaligned { mode: modes[0], index: i, offset: at });
            }
            i += 1;
        }
        let mut i = 0;
        while i < other.size() {
            let at = other.at(i);
            if at % self.piece != 0 {
                return Err(Reason::Unaligned { mode: modes[1], index: i, offset: at });
            }
            i += 1;
        }
        Ok(())
    }

    /// Whether the strides of the leaves from `first` on are multiples of a piece.
    const fn steps_whole(&self, layout: &Layout, first: usize) -> bool {
        let leaves = layout.leaves();
        let mut leaf = first;
        while leaf < leaves && layout.stride[leaf] % self.piece == 0 {
            leaf += 1;
        }
        leaf == leaves
    }

    /// Checks that within each instruction's part of a mode, the element `step i` is at `place(i)`
    /// pieces, where `place(i) = i % width * inner + i / width * outer`. `outer` is determined if
    /// the mode is long enough; otherwise it is `otherwise`.
    const fn check_mode(
        &self,
        layout: &Layout,
        mode: usize,
        part: i64,
        step: i64,
        Run { width, inner }: Run,
        otherwise: i64,
    ) -> Result<i64, Reason> {
        let count = part / step;
        let outer =
            if count > width { (layout.at(width * step) - layout.at(0)) / self.piece } else { otherwise };
        let mut start = 0;
        while start < layout.size() {
            let origin = layout.at(start);
            let mut i = 0;
            while i < count {
                let found = layout.at(start + i * step) - origin;
                let wanted = (i % width * inner + i / width * outer) * self.piece;
                if found != wanted {
                    return Err(Reason::Place { mode, index: start + i * step, found, wanted });
                }
                i += 1;
            }
            start += part;
        }
        Ok(outer)
    }

    /// LBO and SBO of a K-major tile, in pieces.
    const fn k_major(&self, mn: &Layout, k: &Layout) -> Result<(i64, i64), Reason> {
        if let Err(reason) = self.check_pieces(k, mn, [1, 0]) {
            return Err(reason);
        }
        let run = Run { width: 8, inner: self.row };
        let stride = match self.check_mode(mn, 0, self.rows, 1, run, self.pattern()) {
            Ok(stride) => stride,
            Err(reason) => return Err(reason),
        };
        // Two pieces along K: with a swizzle they follow each other.
        let run = Run { width: 1, inner: 0 };
        let leading = match self.check_mode(k, 1, self.depth, self.piece, run, 1) {
            Ok(leading) => leading,
            Err(reason) => return Err(reason),
        };
        if self.swizzled && leading != 1 {
            let (found, wanted) = (leading * self.piece, self.piece);
            return Err(Reason::Place { mode: 1, index: self.piece, found, wanted });
        }
        Ok((leading, stride))
    }

    /// LBO and SBO of an MN-major tile, in pieces.
    const fn mn_major(&self, mn: &Layout, k: &Layout) -> Result<(i64, i64), Reason> {
        if let Err(reason) = self.check_pieces(mn, k, [0, 1]) {
            return Err(reason);
        }
        let row = self.row * self.piece;
        if self.rows % row != 0 {
            return Err(Reason::RowTooLong { row, rows: self.rows });
        }
        let run = Run { width: self.row, inner: 1 };
        let across = match self.check_mode(mn, 0, self.rows, self.piece, run, self.pattern()) {
            Ok(across) => across,
            Err(reason) => return Err(reason),
        };
        let run = Run { width: 8, inner: self.row };
        let along = match self.check_mode(k, 1, self.depth, 1, run, self.pattern()) {
            Ok(along) => along,
            Err(reason) => return Err(reason),
        };
        // The names of the two offsets depend on the swizzle.
        Ok(if self.swizzled { (across, along) } else { (along, across) })
    }

    /// The start of each instruction's part of a mode, in pieces.
    const fn starts(
        &self,
        layout: &Layout,
        part: i64,
        starts: &mut [u32; MAX_BLOCKS],
        count: &mut usize,
    ) -> Result<(), Reason> {
        let blocks = layout.size() / part;
        let mut i = 0;
        while i < blocks {
            let offset = layout.at(i * part);
            let pieces = offset / self.piece;
            if self.swizzled && pieces % self.pattern() >= self.row {
                return Err(Reason::Start { index: i * part, offset, pattern: self.pattern() * self.piece });
            }
            if pieces < 0 || pieces > 0x3FFF {
                return Err(Reason::Far { offset: pieces });
            }
            starts[i as usize] = pieces as u32;
            i += 1;
        }
        *count = blocks as usize;
        Ok(())
    }
}
