//! Products that have one round of tiles: a block for each, and where there are few of them a pair of blocks that share K. Most of all those of few
//! rows or columns, by small tiles.
//!
//! Such a product has fewer large tiles than the chip has multiprocessors, and waits for memory: what counts is how many of them load
//! at the same time, and how little each has to load. A multiprocessor takes 64 bytes in a clock from the L2 cache; a tile of 64 x 64
//! asks for as much of A as of B. Where that leaves multiprocessors idle, a cluster of two blocks reads its tile's operands once, each
//! block its part of K:
//!
//! ```text
//! block 0   K's first half: load, multiply     send rows 32 to 63, add those of rows  0 to 31 that come, write C
//! block 1   K's second half                    send rows  0 to 31, add those of rows 32 to 63
//! ```
//!
//! So the parts meet within the cluster ([`Exchange`]): no workspace, no second kernel, and each block writes its share of C with all that
//! can be asked for. Two sums are the same in either order, so that the result is the same every time. Clusters of four would not do: of
//! 32 of them, with a block for each multiprocessor, some wait on an H200 for the first ones to end.
//!
//! The kernels called `_once` are the same with large tiles, for products that have about one for each multiprocessor: a block that ends behind
//! its tile has no schedule to go through, and writes C from registers. Tiles of 192 x 192 are multiplied by three warpgroups, whose threads
//! take registers over from those that load.

use super::config::{ATOM_M, AccumulatorsOf, ArgumentsOf, Boxes, ROW, ReadersOf, WARPGROUP, WgmmaConfig};
use super::epilogue::{COLUMNS, ChunkSums, Part, leave_columns};
use super::exchange::Exchange;
use super::matmul::load_boxes;
use super::pieces::{has_pieces, write_pieces};
use super::schedule::Job;
use super::sharing::Cut;
use crate::mma::{Place, Staged, write_rows};
use core::marker::PhantomData;
use moye_device::arch::wgmma::{
    Accumulators, wgmma_commit_group, wgmma_fence, wgmma_fence_registers, wgmma_wait_group,
};
use moye_device::arch::{
    CachePolicy, FULL_WARP, Fma as _, L2Evict, Word as _, Word128, block_idx, cluster_arrive_relaxed,
    cluster_rank, cluster_wait, decrease_registers, elect, fence_proxy_async_shared, increase_registers,
    launch_dependents, opaque, prefetch_tensor_map, shuffle, sync_barrier, sync_threads, sync_warp,
    tensor_load, thread_idx, wait_for_prior_kernels,
};
use moye_device::atom::wgmma::WgmmaAtom;
use moye_device::layout::{IntTuple, Layout, Major, Swizzle};
use moye_device::memory::{Element as _, Shared, SharedStorage, TensorMap, TensorMapPointer};
use moye_device::pipeline::{Consumer, Pipeline, PipelineStorage, Producer};
use moye_device::tensor::{StaticLayout, Tensor};

/// Rows of a warpgroup's 64 that each of so many blocks adds up and writes.
const fn rows_of_share(parts: u32) -> u32 {
    ATOM_M / parts
}

/// Registers of a thread that loads, and of one that multiplies, where three warpgroups do: 128 * (32 + 3 * 160) are the 65,536 that the block
/// of 512 threads starts with. Two have enough as they start.
const FEW: u32 = 32;
/// See [`FEW`].
const MANY: u32 = 160;

/// Bytes of an operand that the L2 cache may still have when it is read again: an H200's has 50 MB.
const CACHED: u64 = 48 << 20;

/// The named barrier of all consuming warpgroups, and the first of those of one each.
const OF_CONSUMERS: u32 = 1;
/// See [`OF_CONSUMERS`].
const OF_WARPGROUP: u32 = 2;

/// What a block keeps in shared memory: stages of A and of B, which its sums replace, where it is one of `PARTS` the exchange with the
/// other one, and mbarriers.
///
/// Stages fill it, or they and what a pair exchanges: 192 KB or more, so that a multiprocessor has one block. Where it has room for two,
/// those of the next launch take the places of the first that end, and crowd there.
pub struct PartsStorage<G, const PARTS: u32, const STAGES: u32>(PhantomData<G>);

/// The stages: A's part of each, then B's.
pub struct Stages<G>(u32, PhantomData<G>);

impl<G> Clone for Stages<G> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<G> Copy for Stages<G> {}

impl<G: WgmmaConfig> Stages<G> {
    /// Bytes of a stage.
    const STAGE: u32 = G::BYTES_A + G::BYTES_B;

    /// A's part of a stage.
    #[inline(always)]
    fn a(self, stage: u32) -> u32 {
        self.0 + stage * Self::STAGE
    }

    /// B's part of a stage.
    #[inline(always)]
    fn b(self, stage: u32) -> u32 {
        self.a(stage) + G::BYTES_A
    }

    /// Where the sums of a warpgroup's chunk lie.
    #[inline(always)]
    fn chunk(self, consumer: u32, chunk: u32) -> u32 {
        self.0 + (consumer * chunks::<G>() + chunk) * const { ATOM_M * COLUMNS * 4 }
    }

    /// Where the share of one of `PARTS` blocks lies.
    #[inline(always)]
    fn share<const PARTS: u32>(self, consumer: u32, chunk: u32, rank: u32) -> u32 {
        self.chunk(consumer, chunk) + rank * const { rows_of_share(PARTS) * COLUMNS * 4 }
    }
}

impl<G: WgmmaConfig, const PARTS: u32, const STAGES: u32> PartsStorage<G, PARTS, STAGES> {
    /// Bytes of all stages, and behind them of the exchange.
    const BEFORE: [u32; 2] = {
        let (stages, sums) = (STAGES * Stages::<G>::STAGE, G::BLK_M * chunks::<G>() * COLUMNS * 4);
        assert!(sums <= stages, "the sums of a block replace its stages");
        assert!(stages > 128 * 1024, "a multiprocessor has room for one block");
        [stages, if PARTS > 1 { Exchange::<G>::BYTES } else { 0 }]
    };
}

impl<G: WgmmaConfig, const PARTS: u32, const STAGES: u32> SharedStorage for PartsStorage<G, PARTS, STAGES> {
    const BYTES: usize =
        (Self::BEFORE[0] + Self::BEFORE[1]) as usize + PipelineStorage::<STAGES, ReadersOf<G>>::BYTES;
    /// What a swizzle of 128 bytes repeats after.
    const ALIGN: usize = 1024;

    type Tensors = (Stages<G>, Exchange<G>, Pipeline<STAGES, ReadersOf<G>>);

    #[inline(always)]
    unsafe fn at(base: u32) -> Self::Tensors {
        let [stages, exchange] = const { Self::BEFORE };
        // SAFETY: the storage has these bytes behind the stages; where there is no exchange, nobody asks for one.
        unsafe {
            (
                Stages(base, PhantomData),
                Exchange::at(base + stages),
                PipelineStorage::at(base + stages + exchange),
            )
        }
    }
}

/// The share of 64 rows and columns that one of `PARTS` blocks has.
#[derive(Clone, Copy)]
pub struct ShareOfChunk<const PARTS: u32>;

impl<const PARTS: u32> StaticLayout for ShareOfChunk<PARTS> {
    const LAYOUT: Layout = Layout::new(
        IntTuple::flat(&[rows_of_share(PARTS) as i64, COLUMNS as i64]),
        IntTuple::flat(&[1, rows_of_share(PARTS) as i64]),
    );
}

/// The share's sums: rows of a [`ChunkSums`], of which a multiple of four are in front.
#[derive(Clone, Copy)]
pub struct ShareSums<const PARTS: u32>;

impl<const PARTS: u32> StaticLayout for ShareSums<PARTS> {
    const LAYOUT: Layout = Layout::new(
        IntTuple::flat(&[rows_of_share(PARTS) as i64, COLUMNS as i64]),
        IntTuple::flat(&[COLUMNS as i64, 1]),
    );
    const SWIZZLE: Swizzle = ChunkSums::SWIZZLE;
}

/// A share as [`Staged`] sums.
struct ShareOf<G, const PARTS: u32>(PhantomData<G>);

impl<G: WgmmaConfig, const PARTS: u32> Staged for ShareOf<G, PARTS> {
    type Operand = G::Operand;
    type Sum = G::Sum;
    type Scalar = G::Scalar;
    type Output = G::Output;
    type TileC = ShareOfChunk<PARTS>;
    type Sums = ShareSums<PARTS>;
    const THREADS: u32 = WARPGROUP;
}

/// `c = activation(alpha * a * b + beta * c + bias)`, a block for each tile, or a cluster of `PARTS`.
///
/// # Safety
/// All threads of the block come by together, and the kernel declares [`PartsStorage<G, PARTS, STAGES>`] and `G::THREADS` threads; it is launched
/// in clusters of `PARTS` blocks, as many as there are tiles of all batches. `a` and `b` are maps of boxes
/// [`WgmmaConfig::BOXES_A`] and `BOXES_B`, [fitted](Boxes::fitted) to M, N and K. The matrices lie in memory of the device; `c` overlaps none of the others. K is in one
/// chunk: `arguments.splits` is 1.
#[inline(always)]
pub unsafe fn matmul_parts<G: WgmmaConfig, const PARTS: u32, const STAGES: u32>(
    (a, b): (&TensorMap, &TensorMap),
    arguments: &ArgumentsOf<G>,
) {
    const { assert!(G::CLUSTER == 1, "each block loads all that it multiplies") };
    const { assert!(G::MMA_M == 1, "a warpgroup has 64 rows") };
    const { assert!(PARTS == 1 || PARTS == 2, "shares begin at a multiple of what their swizzle repeats after") };
    let thread = thread_idx().x;
    // The same in all lanes, and the compiler is to know it.
    let warpgroup = shuffle(FULL_WARP, thread / WARPGROUP, 0);
    // SAFETY: the kernel declares the storage.
    let (at, exchange, pipeline) = unsafe { PartsStorage::<G, PARTS, STAGES>::take() };
    let rank = if PARTS > 1 { cluster_rank() } else { 0 };
    if thread == 0 {
        // SAFETY: one thread; the pipeline's fence and a barrier follow.
        unsafe {
            if PARTS > 1 {
                exchange.init();
            }
            pipeline.init();
        }
    }
    let [boxes_a, boxes_b] = boxes::<G>(arguments);
    let mut stage = 0;
    while stage < STAGES {
        // SAFETY: nobody uses the stages yet, and the rows are theirs.
        unsafe {
            clear::<G>(boxes_a, at.a(stage), const { G::BYTES_A }, thread);
            clear::<G>(boxes_b, at.b(stage), const { G::BYTES_B }, thread);
        }
        stage += 1;
    }
    fence_proxy_async_shared();
    sync_threads();
    if PARTS > 1 {
        // SAFETY: all threads come by. What the other block is to see are mbarriers, which have a fence of their own.
        unsafe { cluster_arrive_relaxed() };
    }
    // What comes behind may prepare itself.
    launch_dependents();
    let tile = tile_of::<G, PARTS>(arguments);
    let piece = part_of(arguments.k.div_ceil(G::BLK_K), PARTS, rank);
    // Whatever the kernel in front writes may be read from here on.
    wait_for_prior_kernels();
    let consumer = warpgroup.wrapping_sub(1);
    // SAFETY: each warpgroup goes one way as a whole, and waits once for the cluster to have begun; the caller's contract.
    unsafe {
        if warpgroup == 0 {
            if const { G::CONSUMERS == 3 } {
                decrease_registers::<FEW>();
            }
            if thread < 32 && elect(FULL_WARP) {
                load::<G, STAGES>(
                    pipeline.producer(),
                    at,
                    (a.pointer(), b.pointer()),
                    tile,
                    piece,
                    arguments,
                );
            }
            sync_warp(FULL_WARP);
            if PARTS > 1 {
                cluster_wait();
            }
        } else {
            if const { G::CONSUMERS == 3 } {
                increase_registers::<MANY>();
            }
            let thread = thread % WARPGROUP;
            let mut sums = multiply::<G, STAGES>(pipeline.consumer(), at, consumer, piece.1);
            if PARTS > 1 {
                cluster_wait();
                if !Exchange::<G>::keeps(rank, thread) {
                    exchange.send(&sums, rank, consumer, thread);
                }
            }
            // The compiler is not to know that it was asked before: it would make a barrier for each answer, and `synccheck` wants one for all.
            let keeps = || PARTS == 1 || Exchange::<G>::keeps(rank, opaque(thread));
            if PARTS > 1 && keeps() {
                exchange.receive(&mut sums, consumer, thread);
            }
            if has_pieces::<(), _, _, _>(arguments) {
                if keeps() {
                    let first = (tile.first.0 + consumer * ATOM_M, tile.first.1);
                    write_pieces::<G>(
                        &mut sums,
                        arguments,
                        Part { first, batch: tile.batch, split: 0 },
                        thread,
                    );
                }
                return;
            }
            // The stages are free for sums when no warpgroup reads them any more, and all that was loaded has been waited for.
            sync_barrier(OF_CONSUMERS, const { G::CONSUMERS * WARPGROUP });
            if keeps() {
                let mut chunk = 0;
                while chunk < const { chunks::<G>() } {
                    leave_columns::<G>(sums.as_slice(), chunk, at.chunk(consumer, chunk), thread);
                    chunk += 1;
                }
            }
            sync_barrier(OF_WARPGROUP + consumer, WARPGROUP);
            write_share::<G, PARTS>(at, consumer, rank, thread, tile, arguments);
        }
    }
}

/// Where a tile of C lies.
#[derive(Clone, Copy)]
struct Tile {
    /// Its first row and column.
    first: (u32, u32),
    /// Its batch.
    batch: u32,
}

/// The cluster's tile. One that would hang over the edge is moved inside, where that is possible: TMA takes longer for rows that are not
/// there than for any others (136 x 4096 x 4096 by tiles of 128 x 128 took 25.4 us on an H200, 256 x 4096 x 4096 took 17.1). What is
/// its neighbour's too is then written twice, with the same values; so C must not be read.
#[inline(always)]
fn tile_of<G: WgmmaConfig, const PARTS: u32>(arguments: &ArgumentsOf<G>) -> Tile {
    let stages = arguments.k.div_ceil(G::BLK_K);
    let work = Job {
        cluster: block_idx().x / PARTS,
        clusters: u32::MAX,
        extents: (arguments.m, arguments.n),
        tile: (G::BLK_M, G::BLK_N),
        stages: (stages, stages),
        splits: 1,
        batches: arguments.batches,
        cut: Cut::NONE,
    }
    .own();
    let moves = arguments.beta == G::Scalar::ZERO;
    // Boxes begin at multiples of 16 bytes along the contiguous mode; rows of C had better.
    let word = const { 16 / G::Operand::BYTES as u32 };
    let step_m = if matches!(G::Atom::MAJOR_A, Major::Mn) { word } else { 1 };
    Tile {
        first: (
            inside(work.m * G::BLK_M, arguments.m, G::BLK_M, if moves { step_m } else { 0 }),
            inside(work.n * G::BLK_N, arguments.n, G::BLK_N, if moves { word } else { 0 }),
        ),
        batch: work.batch,
    }
}

/// The first row of a tile of `block` rows that begins at `start`: so many in front of the end that it does not hang over, if there are
/// so many, and `step` divides the end (0: it stays).
#[inline(always)]
const fn inside(start: u32, end: u32, block: u32, step: u32) -> u32 {
    if step > 0 && end >= block && start + block > end && end.is_multiple_of(step) {
        end - block
    } else {
        start
    }
}

/// The boxes of a stage of A and of B: where K is contiguous, no more rows than there are. TMA takes its time for those that lie outside
/// of a matrix, too.
#[inline(always)]
fn boxes<G: WgmmaConfig>(arguments: &ArgumentsOf<G>) -> [Boxes; 2] {
    let k = arguments.k;
    [const { G::BOXES_A }.fitted(arguments.m, k), const { G::BOXES_B }.fitted(arguments.n, k)]
}

/// Zeros in an operand's part of a stage, of so many bytes: in rows that no copy brings, and that `wgmma` reads.
///
/// # Safety
/// All threads of the block come by; the memory is theirs.
#[inline(always)]
unsafe fn clear<G: WgmmaConfig>(boxes: Boxes, to: u32, bytes: u32, thread: u32) {
    const WORD: u32 = size_of::<Word128>() as u32;
    if boxes.bytes() == bytes {
        return;
    }
    let block = bytes / boxes.depth;
    let mut start = to;
    while start < to + bytes {
        let mut at = start + boxes.bytes() / boxes.depth + WORD * thread;
        while at < start + block {
            // SAFETY: the caller's contract; each word belongs to one thread.
            unsafe { Word128::store_shared(at, Word128([0; 4])) };
            at += const { WORD * G::THREADS };
        }
        start += block;
    }
}

/// Loads an operand's part of a stage of so many bytes, from element `mn` along M or N and `k` on.
///
/// # Safety
/// As [`load_boxes`].
#[inline(always)]
unsafe fn load_blocks(
    boxes: Boxes,
    map: TensorMapPointer,
    [mn, k, batch]: [i32; 3],
    (to, barrier): (u32, u32),
    bytes: u32,
    policy: Option<CachePolicy>,
) {
    // SAFETY: the caller's contract.
    unsafe {
        if boxes.depth == 1 {
            load_boxes(boxes, map, [mn, k, batch], (to, barrier), None, policy);
        } else if boxes.at_once > 1 {
            let block = k / boxes.extents[0] as i32;
            tensor_load(to, map, [0, mn, block, batch], barrier, None, policy);
        } else {
            let mut block = 0;
            while block < boxes.depth {
                let start = [k + (block * boxes.extents[0]) as i32, mn, 0, batch];
                tensor_load(to + block * (bytes / boxes.depth), map, start, barrier, None, policy);
                block += 1;
            }
        }
    }
}

/// Loads the stages of the block's part of K.
///
/// # Safety
/// One thread; the kernel's contract.
#[inline(always)]
unsafe fn load<G: WgmmaConfig, const STAGES: u32>(
    mut producer: Producer<STAGES, 1>,
    at: Stages<G>,
    (a, b): (TensorMapPointer, TensorMapPointer),
    tile: Tile,
    (first, stages): (u32, u32),
    arguments: &ArgumentsOf<G>,
) {
    let (row, column) = (tile.first.0 as i32, tile.first.1 as i32);
    let [boxes_a, boxes_b] = boxes::<G>(arguments);
    // One batch is the same for all where they have no distance.
    let batch_a = if arguments.batch_a == 0 { 0 } else { tile.batch as i32 };
    let batch_b = if arguments.batch_b == 0 { 0 } else { tile.batch as i32 };
    // What one tile alone reads is read once. Where the L2 cache would not hold it until the next call, it is not to keep it.
    let once = |others: bool, extent: u32, batch: i64| {
        let bytes = u64::from(extent) * u64::from(arguments.k) * const { G::Operand::BYTES as u64 };
        let again = others || batch == 0 && arguments.batches > 1;
        (!again && bytes > CACHED).then(|| CachePolicy::new(L2Evict::First))
    };
    let once_a = once(arguments.n > G::BLK_N, arguments.m, arguments.batch_a);
    let once_b = once(arguments.m > G::BLK_M, arguments.n, arguments.batch_b);
    // SAFETY: the maps are as the caller says; each stage gets as many bytes as are announced, what lies outside of the
    // matrices as zeros.
    unsafe {
        prefetch_tensor_map(a);
        prefetch_tensor_map(b);
        let mut stage = first;
        while stage < first + stages {
            let k = (stage * G::BLK_K) as i32;
            let filling = producer.acquire(boxes_a.bytes() + boxes_b.bytes());
            let (to_a, to_b) = (at.a(filling.index()), at.b(filling.index()));
            let barrier = filling.barrier();
            load_blocks(boxes_a, a, [row, k, batch_a], (to_a, barrier), const { G::BYTES_A }, once_a);
            load_blocks(boxes_b, b, [column, k, batch_b], (to_b, barrier), const { G::BYTES_B }, once_b);
            stage += 1;
        }
    }
}

/// Multiplies the stages of the block's part of K.
///
/// # Safety
/// All threads of a consuming warpgroup; the kernel's contract.
#[inline(always)]
unsafe fn multiply<G: WgmmaConfig, const STAGES: u32>(
    mut consumer: Consumer<STAGES, 1>,
    at: Stages<G>,
    number: u32,
    stages: u32,
) -> AccumulatorsOf<G> {
    let mut sums = <AccumulatorsOf<G> as Accumulators>::ZERO;
    let mut before = None;
    let mut stage = 0;
    // SAFETY: the stages come full; an instruction's operands are released when the group behind it is the only one that runs,
    // and its accumulators read when none does.
    unsafe {
        while stage < stages {
            let full = consumer.wait();
            // This warpgroup's rows of A.
            let a = at.a(full.index()) + number * ATOM_M * ROW;
            let b = at.b(full.index());
            wgmma_fence();
            let mut k = 0;
            while k < const { G::A.blocks_k() } {
                // The first instruction does not add.
                let adds = stage > 0 || k > 0;
                let (a, b) = (const { G::A }.descriptor(a, 0, k), const { G::B }.descriptor(b, 0, k));
                G::Atom::mma(&mut sums, a, b, adds);
                k += 1;
            }
            wgmma_commit_group();
            wgmma_wait_group::<1>();
            if let Some(before) = before.replace(full) {
                consumer.release(before);
            }
            stage += 1;
        }
        wgmma_wait_group::<0>();
        if let Some(before) = before {
            consumer.release(before);
        }
        wgmma_fence_registers(&mut sums);
    }
    sums
}

/// Chunks of columns of a tile.
const fn chunks<G: WgmmaConfig>() -> u32 {
    G::BLK_N.div_ceil(COLUMNS)
}

/// Writes the block's share of the tile.
///
/// # Safety
/// All threads of a consuming warpgroup, behind a barrier of theirs after the share was left; the kernel's contract.
#[inline(always)]
unsafe fn write_share<G: WgmmaConfig, const PARTS: u32>(
    at: Stages<G>,
    consumer: u32,
    rank: u32,
    thread: u32,
    tile: Tile,
    arguments: &ArgumentsOf<G>,
) {
    let row = tile.first.0 + consumer * ATOM_M + rank * rows_of_share(PARTS);
    let offset = i64::from(tile.batch) * arguments.batch_c;
    let mut chunk = 0;
    while chunk < const { chunks::<G>() } {
        let column = tile.first.1 + chunk * COLUMNS;
        if row < arguments.m && column < arguments.n {
            // SAFETY: the caller's contract; the rows of a share begin at a multiple of what their swizzle repeats after.
            unsafe {
                let s_c = Tensor::shared(Shared::from_address(at.share::<PARTS>(consumer, chunk, rank))); // (BLK_M, BLK_N)
                write_rows::<ShareOf<G, PARTS>>(
                    arguments,
                    s_c,
                    Place { first: (row, column), batch: tile.batch, offset, thread },
                );
            }
        }
        chunk += 1;
    }
}

/// The first stage of a block's part of K, and how many it has: as even as can be, the first blocks have one more.
#[inline(always)]
const fn part_of(stages: u32, parts: u32, part: u32) -> (u32, u32) {
    let (least, more) = (stages / parts, stages % parts);
    let first = part * least + if part < more { part } else { more };
    (first, least + if part < more { 1 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_that_would_hang_over_the_edge_is_moved_inside_where_that_is_possible() {
        for ((start, end, block, step), first) in [
            ((64, 128, 64, 1), 64),
            ((64, 127, 64, 1), 63),
            ((128, 136, 128, 8), 8),
            ((128, 137, 128, 8), 128),
            ((128, 137, 128, 1), 9),
            ((0, 63, 64, 1), 0),
            ((64, 65, 64, 0), 64),
        ] {
            assert_eq!(
                inside(start, end, block, step),
                first,
                "from {start} of {end}, {block} rows, by {step}"
            );
        }
    }
}
