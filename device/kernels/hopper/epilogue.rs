//! The epilogue of a warpgroup. Accumulators are finished in registers and leave as boxes, which
//! TMA or the warps store. If C is read (`beta`), rows are staged in shared memory, finished and
//! stored.

use super::config::{ATOM_M, ArgumentsOf, Parts, Sums as _, WARPGROUP, WgmmaConfig};
use super::finish::{apply, finish};
use super::gather::Warpgroup;
use super::pieces::{has_pieces, write_finished};
use super::schedule::Work;
use super::store::{Destination, Staging as _, make_room, store};
use super::words::Corner;
use crate::mma::Convertible as _;
use crate::mma::{Arguments, Place, Staged, write_rows};
use core::marker::PhantomData;
use moye_device::arch::wgmma::Accumulators;
use moye_device::arch::{
    FULL_WARP, Fma as _, Word as _, bulk_wait_group_read, opaque, sync_barrier, sync_warp,
};
use moye_device::collective::Epilogue;
use moye_device::layout::{Layout, Swizzle, layout};
use moye_device::memory::{Element, Shared, TensorMapPointer};
use moye_device::pipeline::Full;
use moye_device::tensor::{StaticLayout, Tensor};

/// Columns of C that a warpgroup stages in shared memory at a time when it stores by rows.
pub(super) const COLUMNS: u32 = 64;

moye_device::static_layout! {
    /// These columns of an instruction's tile.
    pub Chunk = layout!((64, 64));
}

/// Their accumulators in shared memory, N-contiguous. Threads write pairs of neighbours in four
/// rows at a time; groups of eight are permuted by the row's number modulo 4, so that there are no
/// bank conflicts.
#[derive(Clone, Copy)]
pub struct ChunkSums;

impl StaticLayout for ChunkSums {
    const LAYOUT: Layout = layout!((64, 64):(64, 1));
    const SWIZZLE: Swizzle = Swizzle::new(2, 3, 3);
}

/// The columns of one instruction as [`Staged`] accumulators.
struct ChunkOf<G>(PhantomData<G>);

impl<G: WgmmaConfig> Staged for ChunkOf<G> {
    type Operand = G::Operand;
    type Sum = G::Sum;
    type Scalar = G::Scalar;
    type Output = G::Output;
    type TileC = Chunk;
    type Sums = ChunkSums;
    const THREADS: u32 = WARPGROUP;
}

/// A consuming warpgroup, and where it writes.
pub struct Writer<G: WgmmaConfig, E> {
    pub parts: Parts<G>,
    pub map: TensorMapPointer,
    /// The number of the consumer warpgroup, and of the thread in it.
    pub consumer: u32,
    pub thread: u32,
    /// The block's number in its cluster.
    pub rank: u32,
    /// What becomes of the accumulators; `()` for what the arguments say.
    pub epilogue: E,
}

/// A consumer warpgroup's part of a tile of C.
#[derive(Clone, Copy)]
pub struct Part {
    /// Its first row and column.
    pub first: (u32, u32),
    /// The batch.
    pub batch: u32,
    /// The split of K.
    pub split: u32,
}

impl Part {
    /// The rows of the warpgroup's instruction `mma_m`.
    #[inline(always)]
    pub(super) fn below(self, mma_m: u32) -> Self {
        Self { first: (self.first.0 + mma_m * ATOM_M, self.first.1), ..self }
    }
}

/// Stores a chunk of an instruction's accumulators in shared memory, as [`ChunkSums`] arranges
/// them.
///
/// # Safety
/// The memory from `base` on belongs to the warpgroup. All of its threads call it; `thread` is the
/// caller's number.
#[inline(always)]
pub(super) unsafe fn leave_columns<G: WgmmaConfig>(sums: &[G::Sum], chunk: u32, base: u32, thread: u32) {
    let (warp, lane) = (thread / 32, thread % 32);
    let row = 16 * warp + lane / 4;
    let mut j = 0;
    while j < 8 && chunk * COLUMNS + 8 * j < G::BLK_N {
        let at = ((chunk * COLUMNS + 8 * j) / 2) as usize;
        let column = 8 * j + 2 * (lane % 4);
        let address = |row: u32| base + 4 * ChunkSums::SWIZZLE.apply((row * COLUMNS + column) as i64) as u32;
        let pair = |at: usize| G::Scalar::pair(sums[at].widen(), sums[at + 1].widen());
        // SAFETY: the caller's contract; each pair belongs to one thread.
        unsafe {
            u64::store_shared(address(row), pair(at));
            u64::store_shared(address(row + 8), pair(at + 2));
        }
        j += 1;
    }
}

/// The offset in elements of a batch and a split of K from C's first element.
#[inline(always)]
pub(super) fn offset<T: Element, O: Element, S: Element>(arguments: &Arguments<T, O, S>, part: Part) -> i64 {
    i64::from(part.batch) * arguments.batch_c + i64::from(part.split) * arguments.split_c
}

/// Whether elements of C have the accumulator's type, if that is not the only type.
#[inline(always)]
pub(super) fn is_wide<T: Element, O: Element, S: Element>(arguments: &Arguments<T, O, S>) -> bool {
    size_of::<O>() != size_of::<S>() && arguments.wide != 0
}

/// The address of a part in C, with elements of `S` if they are `wide`.
#[inline(always)]
pub(super) fn corner<T: Element, O: Element, S: Element>(
    arguments: &Arguments<T, O, S>,
    part: Part,
    wide: bool,
) -> Corner {
    let bytes = if wide { size_of::<S>() } else { size_of::<O>() } as i64;
    let (row, column) = part.first;
    let element = offset(arguments, part) + i64::from(row) * arguments.ldc + i64::from(column);
    Corner {
        address: arguments.c.address().wrapping_add_signed(element * bytes),
        row: arguments.ldc * bytes,
        left: (arguments.m.saturating_sub(row), arguments.n - column),
    }
}

impl<G: WgmmaConfig, E: Epilogue<G::Scalar>> Writer<G, E> {
    /// The warpgroup's own barrier; 0 is the block's.
    #[inline(always)]
    fn barrier(&self) -> u32 {
        1 + self.consumer
    }

    /// The warpgroup's place in its block.
    #[inline(always)]
    pub fn place(&self) -> Warpgroup {
        Warpgroup { rank: self.rank, consumer: self.consumer, thread: self.thread, barrier: self.barrier() }
    }

    /// The warpgroup's part of a cluster's tile.
    #[inline(always)]
    pub fn part(&self, work: Work) -> Part {
        let row = (work.m * G::CLUSTER + self.rank) * G::BLK_M + G::row(self.consumer);
        Part { first: (row, work.n * G::BLK_N), batch: work.batch, split: work.split }
    }

    /// Waits until the stores of the previous tile have read the boxes.
    ///
    /// # Safety
    /// All threads of the warpgroup call it together.
    #[inline(always)]
    pub unsafe fn make_room(&self) {
        // SAFETY: the caller's contract.
        unsafe { make_room(self.thread, self.barrier()) };
    }

    /// Writes the warpgroup's part of a tile. `last` is the tile's last stage, if it had one; the
    /// warpgroup has not released it. `met` says whether the stage's readers [have
    /// met](super::store::meet) since; if not, they meet here.
    ///
    /// # Safety
    /// All threads of the warpgroup call it together, after [`make_room`](Self::make_room); the
    /// kernel's contract.
    #[inline(always)]
    pub unsafe fn write(
        &self,
        sums: &mut G::Sums,
        arguments: &ArgumentsOf<G>,
        part: Part,
        (last, met): (Option<&Full>, bool),
    ) {
        // The code below must not take registers while the accumulators are computed.
        let thread = opaque(self.thread);
        // SAFETY: the caller's contract.
        unsafe {
            if !E::IS_IDENTITY || arguments.beta == G::Scalar::ZERO {
                sums.each_mut(
                    #[inline(always)]
                    |m, sums| {
                        if E::IS_IDENTITY {
                            finish::<G>(sums, arguments, part.below(m), thread);
                        } else {
                            apply::<G, E>(sums, self.epilogue, arguments, part.below(m), thread);
                        }
                    },
                );
                if const { G::PIECES } && has_pieces::<E, _, _, _>(arguments) {
                    sums.each(
                        #[inline(always)]
                        |m, sums| write_finished::<G>(sums, arguments, part.below(m), thread),
                    );
                    return;
                }
                let wide = is_wide(arguments);
                let to = Destination {
                    mapped: arguments.tensor_c != 0,
                    map: self.map,
                    start: [
                        part.first.1 as i32,
                        part.first.0 as i32,
                        (part.batch * arguments.splits + part.split) as i32,
                    ],
                    corner: corner(arguments, part, wide),
                    boxes: self.parts.c(self.consumer),
                    // If K is 0, no stage was loaded.
                    spare: self
                        .parts
                        .spare(if let Some(last) = last { last.index() } else { 0 }, self.consumer),
                    met,
                    barrier: self.barrier(),
                    thread,
                };
                if wide {
                    store::<G, G::Scalar>(sums, &to);
                } else {
                    store::<G, G::Output>(sums, &to);
                }
            } else {
                self.write_rows(sums, arguments, part, thread);
            }
        }
    }

    /// Stages some columns at a time in shared memory.
    ///
    /// # Safety
    /// As [`Self::write`].
    #[inline(always)]
    unsafe fn write_rows(&self, sums: &G::Sums, arguments: &ArgumentsOf<G>, part: Part, thread: u32) {
        let base = self.parts.c(self.consumer);
        let offset = offset(arguments, part);
        // The bounds are known only at run time, so that these stay loops: their body is long and
        // rarely runs.
        let below = const { if G::MMA_M > 1 { Some(G::MMA_M) } else { None } };
        let mut m = 0;
        while m < below.map_or(1, opaque) {
            let (first_m, first_n) = part.below(m).first;
            let left = if first_m < arguments.m { arguments.n - first_n } else { 0 };
            let columns = if left < G::BLK_N { left } else { G::BLK_N };
            let mut chunk = 0;
            while chunk * COLUMNS < columns {
                // SAFETY: the chunk's memory belongs to the warpgroup, whose threads synchronise
                // before it is written again and before it is read; each pair belongs to one
                // thread.
                unsafe {
                    sync_barrier(self.barrier(), WARPGROUP);
                    let mut this = 0;
                    while this < const { G::MMA_M * G::BLK_N.div_ceil(COLUMNS) } {
                        let (this_m, this_chunk) = (this % G::MMA_M, this / G::MMA_M);
                        // Registers have constant names, so each chunk's registers are in a branch
                        // of their own.
                        if this_m == m && this_chunk == chunk {
                            leave_columns::<G>(sums.of(this_m).as_slice(), this_chunk, base, thread);
                        }
                        this += 1;
                    }
                    sync_barrier(self.barrier(), WARPGROUP);
                    let s_c = Tensor::shared(Shared::from_address(base)); // (64, 64)
                    let first = (first_m, first_n + chunk * COLUMNS);
                    let thread = opaque(thread);
                    write_rows::<ChunkOf<G>>(arguments, s_c, Place { first, offset, thread });
                }
                chunk += 1;
            }
            m += 1;
        }
    }

    /// Waits until all of the warp's groups of stores, except the last `PENDING`, have read their
    /// source: [`OWN_GROUPS`](super::store::OWN_GROUPS) before a stage with boxes of C is released,
    /// 0 before the block exits. All lanes of the warp call it together. The first warp issues all
    /// stores of a warpgroup; the others need not wait, because a stage is free only when all warps
    /// have released it.
    #[inline(always)]
    pub fn wait_for_stores<const PENDING: u32>(&self) {
        if self.thread == 0 {
            bulk_wait_group_read::<PENDING>();
        }
        sync_warp(FULL_WARP);
    }
}
