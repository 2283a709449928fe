//! Tiles as lists of boxes.
//!
//! A layout is the sum of its modes' offsets, and a box of extents `(e0, e1, ...)` is dense:
//! element `(i0, i1, ...)` is at `i0 + e0 (i1 + e1 (...))`. So the largest box is found mode by
//! mode, in the order of their strides. The first mode has a run of elements that are 1 apart, the
//! next mode a run of elements that are `e0` apart, the third one of elements that are `e0 e1`
//! apart, and so on. The extent of a box is the whole run if that is at most 256. A longer run is
//! divided: the extent is its largest divisor up to 256 with which all boxes begin at multiples of
//! 128 bytes. The rest of the tile is further boxes of the same extents, at the layout's offsets of
//! their first elements.

use super::error::{Reason, TmaLayoutError};
use crate::arch::{CachePolicy, tensor_load, tensor_prefetch, tensor_reduce_add, tensor_store};
use crate::layout::{ComposedLayout, Layout, gcd};
use crate::memory::TensorMapPointer;

/// The most dimensions of a tensor.
pub(super) const MAX_RANK: usize = 5;
/// The largest extent of a box.
pub(super) const MAX_EXTENT: i64 = 256;
const MAX_COPIES: usize = 32;

/// The boxes that make up a tile in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TmaTile {
    pub(super) rank: usize,
    /// For each dimension of the tensor, fastest first, the mode of the tile.
    pub(super) modes: [usize; MAX_RANK],
    /// By dimension.
    pub(super) box_extents: [u32; MAX_RANK],
    /// 0 for none, then 1 to 3 for spans of 32, 64 and 128 bytes.
    pub(super) swizzle: u32,
    /// The bits of an element.
    pub(super) bits: i64,
    copies: usize,
    /// The start of each box, in elements by dimension, and in bytes of shared memory.
    pub(super) starts: [[i32; MAX_RANK]; MAX_COPIES],
    pub(super) offsets: [u32; MAX_COPIES],
}

impl TmaTile {
    /// The boxes of a tile with the tensor's modes and elements of `bits` bits.
    ///
    /// # Panics
    /// If the tile does not consist of boxes; in a `const` this is a compile error with the reason.
    #[track_caller]
    #[must_use]
    pub const fn new(layout: ComposedLayout, bits: i64) -> Self {
        match Self::try_new(&layout, bits) {
            Ok(tile) => tile,
            Err(error) => panic!("{}", error.text()),
        }
    }

    /// [`TmaTile::new`] as a `Result`.
    ///
    /// # Errors
    /// If the tile does not consist of boxes.
    pub const fn try_new(layout: &ComposedLayout, bits: i64) -> Result<Self, TmaLayoutError> {
        match Self::of(layout, bits) {
            Ok(tile) => Ok(tile),
            Err(reason) => Err(TmaLayoutError::new(layout, bits, reason)),
        }
    }

    const fn of(layout: &ComposedLayout, bits: i64) -> Result<Self, Reason> {
        if !matches!(bits, 8 | 16 | 32 | 64) {
            return Err(Reason::Element(bits));
        }
        let rank = layout.rank();
        if rank < 1 || rank > MAX_RANK {
            return Err(Reason::Rank(rank));
        }
        if layout.offset != 0 {
            return Err(Reason::Offset(layout.offset));
        }
        let swizzle = layout.swizzle;
        let piece = 128 / bits;
        if swizzle.bits() > 0
            && (swizzle.bits() > 3 || swizzle.base() != piece.ilog2() as i64 || swizzle.shift() != 3)
        {
            return Err(Reason::Swizzle);
        }
        let mut tile = Self {
            rank,
            modes: order(&layout.layout),
            box_extents: [1; MAX_RANK],
            swizzle: swizzle.bits() as u32,
            bits,
            copies: 0,
            starts: [[0; MAX_RANK]; MAX_COPIES],
            offsets: [0; MAX_COPIES],
        };
        if let Err(reason) = tile.find_box(&layout.layout) {
            return Err(reason);
        }
        if let Err(reason) = tile.find_starts(&layout.layout) {
            return Err(reason);
        }
        Ok(tile)
    }

    /// The alignment of boxes in elements: 128 bytes, or with a swizzle its period.
    const fn aligned(&self) -> i64 {
        if self.swizzle > 0 { (8 * (128 / self.bits)) << self.swizzle } else { 1024 / self.bits }
    }

    /// The largest box.
    const fn find_box(&mut self, layout: &Layout) -> Result<(), Reason> {
        let piece = 128 / self.bits;
        let aligned = self.aligned();
        let mut step = 1;
        let mut dimension = 0;
        while dimension < self.rank {
            let mode = layout.mode(self.modes[dimension]);
            let run = run(&mode, step);
            // Consecutive boxes along this dimension are `step` times the extent apart.
            let multiple = aligned / gcd(step, aligned);
            let fits = match dimension {
                // A row of a box has the length of the swizzle's span.
                0 if self.swizzle > 0 => {
                    Fits { unit: piece << self.swizzle, multiple: piece << self.swizzle }
                }
                0 => Fits { unit: piece, multiple },
                _ => Fits { unit: 1, multiple },
            };
            let mut extent = fits.largest_divisor(run);
            if dimension == 0 {
                if run == 1 && mode.size() > 1 {
                    return Err(Reason::NotContiguous);
                }
                if run % piece != 0 {
                    return Err(Reason::Row { run, bits: self.bits, nearest: fits.nearest(run) });
                }
                if self.swizzle > 0 {
                    if run % fits.unit != 0 {
                        return Err(Reason::Span { run, span: fits.unit, nearest: fits.nearest(run) });
                    }
                    extent = fits.unit;
                }
            }
            if extent == 0 {
                let mode = self.modes[dimension];
                return Err(Reason::Run { mode, run, multiple, nearest: fits.nearest(run) });
            }
            self.box_extents[dimension] = extent as u32;
            step *= extent;
            dimension += 1;
        }
        Ok(())
    }

    /// The starts of all boxes.
    const fn find_starts(&mut self, layout: &Layout) -> Result<(), Reason> {
        let mut copies = 1;
        let mut dimension = 0;
        while dimension < self.rank {
            copies *= layout.extent(self.modes[dimension]) / self.box_extents[dimension] as i64;
            dimension += 1;
        }
        if copies > MAX_COPIES as i64 {
            return Err(Reason::Copies { copies });
        }
        self.copies = copies as usize;
        let aligned = self.aligned();
        let mut copy = 0;
        while copy < self.copies {
            let mut rest = copy as i64;
            let mut offset = 0;
            let mut dimension = 0;
            while dimension < self.rank {
                let mode = layout.mode(self.modes[dimension]);
                let extent = self.box_extents[dimension] as i64;
                let start = rest % (mode.size() / extent) * extent;
                rest /= mode.size() / extent;
                self.starts[copy][dimension] = start as i32;
                offset += mode.at(start);
                dimension += 1;
            }
            if offset % aligned != 0 {
                return Err(Reason::Start { offset, elements: aligned });
            }
            self.offsets[copy] = (offset * self.bits / 8) as u32;
            copy += 1;
        }
        Ok(())
    }

    /// The number of tensor copies that move the tile.
    pub const fn copies(&self) -> usize {
        self.copies
    }

    /// Whether both have the same boxes at the same places.
    pub(super) const fn is_same(&self, other: &Self) -> bool {
        let mut same = self.rank == other.rank
            && self.bits == other.bits
            && self.swizzle == other.swizzle
            && self.copies == other.copies;
        let mut dimension = 0;
        while dimension < MAX_RANK {
            same = same && self.box_extents[dimension] == other.box_extents[dimension];
            same = same && self.modes[dimension] == other.modes[dimension];
            dimension += 1;
        }
        let mut copy = 0;
        while same && copy < self.copies {
            same = self.offsets[copy] == other.offsets[copy];
            copy += 1;
        }
        same
    }

    /// The bytes of the tile, which its mbarrier expects.
    pub const fn bytes(&self) -> u32 {
        let mut bytes = self.copies as u32 * self.bits as u32 / 8;
        let mut dimension = 0;
        while dimension < self.rank {
            bytes *= self.box_extents[dimension];
            dimension += 1;
        }
        bytes
    }

    /// The start of a box, in the tensor's dimensions; `start` is the tile's start, by modes.
    #[inline(always)]
    const fn start<const R: usize>(&self, copy: usize, start: [i32; R]) -> [i32; R] {
        let mut result = [0; R];
        let mut dimension = 0;
        while dimension < R {
            result[dimension] = start[self.modes[dimension]] + self.starts[copy][dimension];
            dimension += 1;
        }
        result
    }

    /// Asserts in the simulator that a start has the tile's modes. The compiler cannot: the tile's
    /// rank is a value, not a type.
    #[cfg(not(target_arch = "nvptx64"))]
    #[track_caller]
    fn check_start<const R: usize>(&self, start: [i32; R]) {
        assert!(
            R == self.rank,
            "the start {start:?} has {R} coordinates, and the tile {} modes: give one for each mode",
            self.rank
        );
    }

    /// Loads the tile from the coordinates `start` to the shared address `tile` of its first
    /// element; its [`bytes`](Self::bytes) complete on `mbarrier`. One thread calls it.
    ///
    /// # Safety
    /// Same contract as [`tensor_load`], for a map built by [`tensor_map`](Self::tensor_map);
    /// `tile` is a multiple of 128, or with a swizzle of 1,024. `R` is the number of the tile's
    /// modes, which the simulator asserts.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn load<const R: usize>(
        &self,
        tile: u32,
        map: TensorMapPointer,
        start: [i32; R],
        mbarrier: u32,
        multicast: Option<u16>,
        policy: Option<CachePolicy>,
    ) {
        #[cfg(not(target_arch = "nvptx64"))]
        self.check_start(start);
        let mut copy = 0;
        while copy < self.copies {
            let at = self.start(copy, start);
            // SAFETY: `map` is this tile's; `tile` and `mbarrier` are shared memory of the block.
            unsafe { tensor_load(tile + self.offsets[copy], map, at, mbarrier, multicast, policy) };
            copy += 1;
        }
    }

    /// Prefetches the tile at the coordinates `start` into L2. One thread calls it.
    ///
    /// # Safety
    /// Same contract as [`load`](Self::load), for the map.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn prefetch<const R: usize>(&self, map: TensorMapPointer, start: [i32; R]) {
        #[cfg(not(target_arch = "nvptx64"))]
        self.check_start(start);
        let mut copy = 0;
        while copy < self.copies {
            // SAFETY: `map` is this tile's.
            unsafe { tensor_prefetch(map, self.start(copy, start)) };
            copy += 1;
        }
    }

    /// Stores the tile at the shared address `tile` to the coordinates `start`, as far as it is in
    /// bounds. One thread calls it, and commits it as a group.
    ///
    /// # Safety
    /// Same contract as [`tensor_store`], for a map built by [`tensor_map`](Self::tensor_map);
    /// addresses and `R` as for [`load`](Self::load).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn store<const R: usize>(
        &self,
        map: TensorMapPointer,
        start: [i32; R],
        tile: u32,
        policy: Option<CachePolicy>,
    ) {
        #[cfg(not(target_arch = "nvptx64"))]
        self.check_start(start);
        let mut copy = 0;
        while copy < self.copies {
            let at = self.start(copy, start);
            // SAFETY: `map` is this tile's, and `tile` is fenced shared memory of the block.
            unsafe { tensor_store(map, at, tile + self.offsets[copy], policy) };
            copy += 1;
        }
    }

    /// [`store`](Self::store) that adds to the destination.
    ///
    /// # Safety
    /// Same contract as [`store`](Self::store).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn reduce_add<const R: usize>(&self, map: TensorMapPointer, start: [i32; R], tile: u32) {
        #[cfg(not(target_arch = "nvptx64"))]
        self.check_start(start);
        let mut copy = 0;
        while copy < self.copies {
            let at = self.start(copy, start);
            // SAFETY: `map` is this tile's, and `tile` is fenced shared memory of the block.
            unsafe { tensor_reduce_add(map, at, tile + self.offsets[copy], None) };
            copy += 1;
        }
    }
}

/// The number of elements of a mode, from element 0, that are `step` apart: its extent, or that of
/// its first nested modes.
const fn run(mode: &Layout, step: i64) -> i64 {
    let flat = mode.flatten();
    let mut length = 1;
    let mut i = 0;
    while i < flat.rank() {
        let leaf = flat.mode(i);
        if leaf.size() > 1 {
            if leaf.at(1) != length * step {
                break;
            }
            length *= leaf.size();
        }
        i += 1;
    }
    length
}

/// The runs of elements that boxes can cover: up to [`MAX_EXTENT`] a multiple of `unit`, above it a
/// multiple of `multiple`, so that consecutive boxes are aligned.
struct Fits {
    unit: i64,
    multiple: i64,
}

impl Fits {
    /// The largest extent of a box that divides a run; 0 if no extent does.
    const fn largest_divisor(&self, run: i64) -> i64 {
        if run <= MAX_EXTENT {
            return run;
        }
        let mut extent = MAX_EXTENT;
        while extent > 0 && (run % extent != 0 || extent % self.multiple != 0) {
            extent -= 1;
        }
        extent
    }

    /// The nearest runs that fit, below and above; 0 if no shorter run fits.
    const fn nearest(&self, run: i64) -> [i64; 2] {
        let (unit, multiple) = (self.unit, self.multiple);
        let below = if run <= MAX_EXTENT || run / multiple * multiple < MAX_EXTENT / unit * unit {
            (if run < MAX_EXTENT { run } else { MAX_EXTENT }) / unit * unit
        } else {
            run / multiple * multiple
        };
        let above = (run / unit + 1) * unit;
        [below, if above <= MAX_EXTENT { above } else { (run / multiple + 1) * multiple }]
    }
}

/// The modes in the order of the stride of their second elements; modes of extent 1 at the end.
const fn order(layout: &Layout) -> [usize; MAX_RANK] {
    let mut modes = [0; MAX_RANK];
    let mut i = 0;
    while i < layout.rank() {
        let mut at = i;
        while at > 0 && stride(layout, modes[at - 1]) > stride(layout, i) {
            modes[at] = modes[at - 1];
            at -= 1;
        }
        modes[at] = i;
        i += 1;
    }
    modes
}

const fn stride(layout: &Layout, mode: usize) -> i64 {
    let mode = layout.mode(mode);
    if mode.size() > 1 { mode.at(1) } else { i64::MAX }
}
