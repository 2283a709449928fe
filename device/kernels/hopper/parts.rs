//! Products with a single wave of tiles: one block for each tile, or, if there are few tiles, a
//! pair of blocks that split K. Mostly products with few rows or columns, by small tiles.
//!
//! Such a product has fewer large tiles than the GPU has multiprocessors, and is limited by memory
//! latency and bandwidth: what counts is how many multiprocessors load at the same time, and how
//! little each of them loads. A multiprocessor receives 64 bytes per clock from the L2 cache; a
//! tile of 64 x 64 needs as much of A as of B. If tiles leave multiprocessors idle, a cluster of
//! two blocks splits K, so that its operands are still read once:
//!
//! ```text
//! block 0   K's first half: load, multiply     send rows 32 to 63, add those of rows  0 to 31 that come, write C
//! block 1   K's second half                    send rows  0 to 31, add those of rows 32 to 63
//! ```
//!
//! The partial accumulators are reduced inside the cluster ([`Exchange`]), without a workspace or a
//! second kernel, and each block stores its share of C through the full epilogue. Addition of two
//! values is commutative, so the result is deterministic. Clusters of four are slower on an H200:
//! of 32 clusters with one block for each multiprocessor, some wait for the first ones to exit.
//!
//! The `_once` kernels are the same with large tiles, for products with about one tile for each
//! multiprocessor: a block with a single tile has no scheduler, and stores C from registers. Tiles
//! of 192 x 192 have three consumer warpgroups, whose threads take registers over from the
//! producer.
//!
//! The consumers' mainloop is the [`Loop`] of the other kernels. The rest is no instance of
//! [`gemm_warp_specialised`](moye_device::collective::gemm_warp_specialised), for three reasons:
//!
//! - The blocks of a pair synchronise once, after all products, and the threads of the producer
//!   warpgroup take part. `WarpSpecialised::init` runs before the first load, and its `finish` in
//!   one thread.
//! - After the exchange half of a warpgroup's threads have results. A scheduler's `fix_up` decides
//!   for a whole warpgroup.
//! - All threads compute their only tile, and wait for earlier kernels, before they take roles.

use super::config::{ATOM_M, ArgumentsOf, Boxes, Mma, ROW, StagesA, StagesB, WARPGROUP, WgmmaConfig};
use super::epilogue::{Part, finish};
use super::exchange::Exchange;
use super::mainloop::Loop;
use super::sink::{COLUMNS, ChunkSums, has_pieces, leave_columns, write_finished};
use super::tile::{Tile, part_of, tile_of};
use crate::mma::{Place, Staged, write_rows};
use core::marker::PhantomData;
use moye_device::arch::{
    CachePolicy, FULL_WARP, L2Evict, Word as _, Word128, cluster_arrive_relaxed, cluster_rank, cluster_wait,
    decrease_registers, elect, fence_proxy_async_shared, increase_registers, launch_dependents, opaque,
    prefetch_tensor_map, shuffle, sync_barrier, sync_threads, sync_warp, tensor_load, thread_idx,
    wait_for_prior_kernels,
};
use moye_device::collective::{Mainloop as _, StagesOf, WarpsOf};
use moye_device::layout::{IntTuple, Layout, Major, Swizzle};
use moye_device::memory::{Element as _, Shared, SharedArray, SharedStorage, TensorMap, TensorMapPointer};
use moye_device::pipeline::{PipelineStorage, Producer};
use moye_device::tensor::{Fragment, StaticLayout, Tensor};

/// Rows of a warpgroup's 64 that each of this many blocks reduces and stores.
const fn rows_of_share(parts: u32) -> u32 {
    ATOM_M / parts
}

/// Registers of a producer thread and of a consumer thread with three consumer warpgroups: 128 *
/// (32 + 3 * 160) are the 65,536 with which a block of 512 threads starts. Two consumer warpgroups
/// have enough from the start.
const FEW: u32 = 32;
/// See [`FEW`].
const MANY: u32 = 160;

/// Bytes of an operand that the L2 cache may still hold at the next read: an H200's has 50 MB.
const CACHED: u64 = 48 << 20;

/// The named barrier of all consumer warpgroups, and the first of their individual ones.
const OF_CONSUMERS: u32 = 1;
/// See [`OF_CONSUMERS`].
const OF_WARPGROUP: u32 = 2;

/// A block's shared memory: stages of A and of B, which the accumulators replace at the end; with
/// `PARTS` > 1 the exchange with the other block; and mbarriers.
///
/// Stages fill it, or stages and the exchange: 192 KB or more, so that a multiprocessor has one
/// block. With room for two, blocks of the next launch would be scheduled in pairs on the
/// multiprocessors whose blocks exit first.
pub type PartsStorage<G, const PARTS: u32, const STAGES: u32> = (
    SharedArray<<G as WgmmaConfig>::Operand, StagesA<G, STAGES>>,
    SharedArray<<G as WgmmaConfig>::Operand, StagesB<G, STAGES>>,
    PipelineStorage<STAGES, WarpsOf<Mma<G>>>,
    Exchange<G, PARTS>,
);

/// The stages of a block, which its accumulators replace.
type Stages<'a, G, const STAGES: u32> = StagesOf<Loop<'a, G, 1, STAGES>>;

/// The address of a warpgroup's chunk of accumulators.
#[inline(always)]
fn chunk_of<G: WgmmaConfig>(base: u32, consumer: u32, chunk: u32) -> u32 {
    base + (consumer * chunks::<G>() + chunk) * const { ATOM_M * COLUMNS * 4 }
}

/// One of `PARTS` blocks' share of 64 rows and columns.
#[derive(Clone, Copy)]
pub struct ShareOfChunk<const PARTS: u32>;

impl<const PARTS: u32> StaticLayout for ShareOfChunk<PARTS> {
    const LAYOUT: Layout = Layout::new(
        IntTuple::flat(&[rows_of_share(PARTS) as i64, COLUMNS as i64]),
        IntTuple::flat(&[1, rows_of_share(PARTS) as i64]),
    );
}

/// The share's accumulators: rows of a [`ChunkSums`], preceded by a multiple of four rows.
#[derive(Clone, Copy)]
pub struct ShareSums<const PARTS: u32>;

impl<const PARTS: u32> StaticLayout for ShareSums<PARTS> {
    const LAYOUT: Layout = Layout::new(
        IntTuple::flat(&[rows_of_share(PARTS) as i64, COLUMNS as i64]),
        IntTuple::flat(&[COLUMNS as i64, 1]),
    );
    const SWIZZLE: Swizzle = ChunkSums::SWIZZLE;
}

/// A share as [`Staged`] accumulators.
struct ShareOf<G, const PARTS: u32>(PhantomData<G>);

impl<G: WgmmaConfig, const PARTS: u32> Staged for ShareOf<G, PARTS> {
    type Operand = G::Operand;
    type Sum = G::Sum;
    type Scalar = G::Sum;
    type Output = G::Output;
    type TileC = ShareOfChunk<PARTS>;
    type Sums = ShareSums<PARTS>;
    const THREADS: u32 = WARPGROUP;
}

/// `c = activation(alpha * a * b + beta * c + bias)` with one block for each tile, or a cluster of
/// `PARTS`.
///
/// # Safety
/// All threads of the block call it together, and the kernel declares
/// [`PartsStorage<G, PARTS, STAGES>`] and `G::THREADS` threads. The launch has clusters of `PARTS`
/// blocks, one for each tile of all batches. `a` and `b` are maps with the boxes
/// [`WgmmaConfig::BOXES_A`] and `BOXES_B`, [fitted](Boxes::fitted) to M, N and K. The matrices are
/// in memory of the device, and `c` overlaps no other. K is not split by the grid:
/// `arguments.splits` is 1.
#[inline(always)]
pub unsafe fn matmul_parts<G: WgmmaConfig, const PARTS: u32, const STAGES: u32>(
    (a, b): (&TensorMap, &TensorMap),
    arguments: &ArgumentsOf<G>,
) {
    const { assert!(G::CLUSTER == 1, "each block loads its whole operands") };
    const { assert!(G::MMA_M == 1, "a warpgroup has 64 rows") };
    const { assert!(PARTS == 1 || PARTS == 2, "shares start at a multiple of the swizzle's period") };
    const {
        let stages = STAGES * (G::BYTES_A + G::BYTES_B);
        assert!(
            G::BLK_M * chunks::<G>() * COLUMNS * 4 <= stages,
            "the accumulators of a block replace its stages"
        );
        assert!(stages > 128 * 1024, "a multiprocessor has room for one block");
    };
    let thread = thread_idx().x;
    // `warpgroup` is uniform across the warp; the shuffle tells the compiler so.
    let warpgroup = shuffle(FULL_WARP, thread / WARPGROUP, 0);
    let (sA, sB, pipeline, exchange) = PartsStorage::<G, PARTS, STAGES>::take();
    let base = sA.pointer().address();
    let rank = if PARTS > 1 { cluster_rank() } else { 0 };
    if thread == 0 {
        if PARTS > 1 {
            exchange.init();
        }
        pipeline.init();
    }
    let [boxes_a, boxes_b] = boxes::<G>(arguments);
    let mut stage = 0;
    while stage < STAGES {
        clear::<G>(boxes_a, base + stage * G::BYTES_A, const { G::BYTES_A }, thread);
        let to_b = sB.pointer().address() + stage * G::BYTES_B;
        clear::<G>(boxes_b, to_b, const { G::BYTES_B }, thread);
        stage += 1;
    }
    fence_proxy_async_shared();
    sync_threads();
    if PARTS > 1 {
        // The other block needs only the mbarriers, which have their own fence.
        cluster_arrive_relaxed();
    }
    // The next kernel may start.
    launch_dependents();
    let tile = tile_of::<G, PARTS>(arguments);
    let piece = part_of(arguments.k.div_ceil(G::BLK_K), PARTS, rank);
    // After this wait the kernel may read what earlier kernels wrote.
    wait_for_prior_kernels();
    let consumer = warpgroup.wrapping_sub(1);
    if warpgroup == 0 {
        if const { G::CONSUMERS == 3 } {
            decrease_registers::<FEW>();
        }
        if thread < 32 && elect(FULL_WARP) {
            load::<G, STAGES>((sA, sB, pipeline), (a.pointer(), b.pointer()), tile, piece, arguments);
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
        let mut tCrC = Fragment::uninit(); // (MMA, MMA_M, MMA_N)
        let mut mainloop =
            Loop::<G, 1, STAGES>::start((a, b, arguments), (sA, sB, pipeline), thread, consumer);
        mainloop.issue_whole(piece.1, &mut tCrC);
        mainloop.complete(&mut tCrC);
        mainloop.release();
        let sums = tCrC.values_mut();
        if PARTS > 1 {
            cluster_wait();
            if !Exchange::<G, PARTS>::keeps(rank, thread) {
                exchange.send(sums, rank, consumer, thread);
            }
        }
        // The compiler must not know that the condition was tested before: it would emit one
        // barrier for each outcome, and `synccheck` requires a single one.
        let keeps = || PARTS == 1 || Exchange::<G, PARTS>::keeps(rank, opaque(thread));
        if PARTS > 1 && keeps() {
            exchange.receive(sums, consumer, thread);
        }
        if has_pieces::<(), _, _, _>(arguments) {
            if keeps() {
                let first = (tile.first.0 + consumer * ATOM_M, tile.first.1);
                let part = Part { first, batch: tile.batch, split: 0 };
                finish::<G>(sums, arguments, part, thread);
                write_finished::<G>(sums, arguments, part, thread);
            }
            return;
        }
        // The stages may hold accumulators when no warpgroup reads them any more and all loads
        // have completed.
        sync_barrier(OF_CONSUMERS, const { G::CONSUMERS * WARPGROUP });
        if keeps() {
            let mut chunk = 0;
            while chunk < const { chunks::<G>() } {
                leave_columns::<G>(sums, chunk, chunk_of::<G>(base, consumer, chunk), thread);
                chunk += 1;
            }
        }
        sync_barrier(OF_WARPGROUP + consumer, WARPGROUP);
        write_share::<G, PARTS>(base, consumer, rank, thread, tile, arguments);
    }
}

/// The boxes of a stage of A and of B. If K is contiguous they have no more rows than the matrix,
/// because TMA takes time for out of bounds rows too.
#[inline(always)]
fn boxes<G: WgmmaConfig>(arguments: &ArgumentsOf<G>) -> [Boxes; 2] {
    let k = arguments.k;
    [const { G::BOXES_A }.fitted(arguments.m, k), const { G::BOXES_B }.fitted(arguments.n, k)]
}

/// Zeroes the rows of an operand's part of a stage that no copy writes and `wgmma` reads.
///
/// # Safety
/// All threads of the block call it; the memory belongs to the block.
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
            Word128::store_shared(at, Word128([0; 4]));
            at += const { WORD * G::THREADS };
        }
        start += block;
    }
}

/// Loads an operand's part of a stage, from element `mn` along M or N and `k` along K.
///
/// # Safety
/// As [`tensor_load`].
#[inline(always)]
unsafe fn load_boxes(
    boxes: Boxes,
    map: TensorMapPointer,
    [mn, k, batch]: [i32; 3],
    (to, barrier): (u32, u32),
    multicast: Option<u16>,
    policy: Option<CachePolicy>,
) {
    let rows = boxes.extents[1];
    let mut i = 0;
    while i < boxes.count {
        let mn = mn + (i * boxes.step()) as i32;
        let start = match boxes.major {
            Major::K => [k, mn, batch],
            Major::Mn => [mn, k, batch],
        };
        tensor_load(to + i * rows * ROW, map, start, barrier, multicast, policy);
        i += 1;
    }
}

/// Loads an operand's part of a stage, of this many bytes, from element `mn` along M or N and `k`
/// along K.
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

/// The producer: loads the stages of the block's split of K.
///
/// # Safety
/// One thread calls it; the kernel's contract.
#[inline(always)]
unsafe fn load<G: WgmmaConfig, const STAGES: u32>(
    (sA, sB, pipeline): Stages<'_, G, STAGES>,
    (a, b): (TensorMapPointer, TensorMapPointer),
    tile: Tile,
    (first, stages): (u32, u32),
    arguments: &ArgumentsOf<G>,
) {
    let (row, column) = (tile.first.0 as i32, tile.first.1 as i32);
    let [boxes_a, boxes_b] = boxes::<G>(arguments);
    // A batch stride of 0 means one matrix for all batches.
    let batch_a = if arguments.batch_a == 0 { 0 } else { tile.batch as i32 };
    let batch_b = if arguments.batch_b == 0 { 0 } else { tile.batch as i32 };
    // An operand that a single tile reads is read once. If the L2 cache would not hold it until the
    // next call, it should not be kept there.
    let once = |others: bool, extent: u32, batch: i64| {
        let bytes = u64::from(extent) * u64::from(arguments.k) * const { G::Operand::BYTES as u64 };
        let again = others || batch == 0 && arguments.batches > 1;
        (!again && bytes > CACHED).then(|| CachePolicy::new(L2Evict::First))
    };
    let once_a = once(arguments.n > G::BLK_N, arguments.m, arguments.batch_a);
    let once_b = once(arguments.m > G::BLK_M, arguments.n, arguments.batch_b);
    prefetch_tensor_map(a);
    prefetch_tensor_map(b);
    let mut producer: Producer<STAGES, 1> = pipeline.producer();
    let mut stage = first;
    while stage < first + stages {
        let k = (stage * G::BLK_K) as i32;
        let filling = producer.acquire(boxes_a.bytes() + boxes_b.bytes());
        let to_a = sA.pointer().address() + filling.index() * G::BYTES_A;
        let to_b = sB.pointer().address() + filling.index() * G::BYTES_B;
        let barrier = filling.barrier();
        load_blocks(boxes_a, a, [row, k, batch_a], (to_a, barrier), const { G::BYTES_A }, once_a);
        load_blocks(boxes_b, b, [column, k, batch_b], (to_b, barrier), const { G::BYTES_B }, once_b);
        stage += 1;
    }
}

/// Chunks of columns of a tile.
const fn chunks<G: WgmmaConfig>() -> u32 {
    G::BLK_N.div_ceil(COLUMNS)
}

/// Stores the block's share of the tile.
///
/// # Safety
/// All threads of a consumer warpgroup call it, after a barrier of theirs that follows the store of
/// the share; the kernel's contract.
#[inline(always)]
unsafe fn write_share<G: WgmmaConfig, const PARTS: u32>(
    base: u32,
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
            let share =
                chunk_of::<G>(base, consumer, chunk) + rank * const { rows_of_share(PARTS) * COLUMNS * 4 };
            let s_c = Tensor::shared(Shared::from_address(share)); // (BLK_M, BLK_N)
            write_rows::<ShareOf<G, PARTS>>(arguments, s_c, Place { first: (row, column), offset, thread });
        }
        chunk += 1;
    }
}
