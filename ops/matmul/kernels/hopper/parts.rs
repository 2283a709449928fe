//! Products of a single wave of tiles: one block for each tile, or, if there are few tiles, a pair
//! of blocks that split K. Mostly products with few rows or columns, in small tiles.
//!
//! Such a product has fewer large tiles than the GPU has SMs, and is limited by memory latency and
//! bandwidth. It is faster the more SMs load at the same time, and the less each of them loads.
//! An SM receives 64 bytes per clock from the L2 cache; a tile of 64 x 64 needs as much of A as of
//! B. If tiles leave SMs idle, a cluster of two blocks splits K, so that its operands are still
//! read once:
//!
//! ```text
//! block 0   K's first half: load, multiply     send rows 32 to 63, add the received rows  0 to 31, write C
//! block 1   K's second half                    send rows  0 to 31, add the received rows 32 to 63, write C
//! ```
//!
//! The partial accumulators are reduced inside the cluster ([`Exchange`]), without a workspace or a
//! second kernel, and each block stores its share of C through the full epilogue. Addition of two
//! values is commutative, so the result is deterministic. Clusters of four are slower on an H200:
//! some of 32 clusters with one block for each SM wait for the first ones to exit.
//!
//! The `_once` kernels are the same with large tiles, for products with about one tile for each SM.
//! Tiles of 192 x 192 have three consumer warpgroups.
//!
//! The kernels are instances of
//! [`gemm_warp_specialised`](moye_device::collective::gemm_warp_specialised), like the others, with
//! the language's scheduler [`OneTile`]. With [`ONE_TILE`](WgmmaConfig::ONE_TILE) the mainloop
//! differs in two points:
//!
//! - **Boxes.** A tile that crosses C's edge is moved inside (`tile.rs`), and boxes have no more
//!   rows than the operand ([`Boxes::fitted`]), which is known at run time. A
//!   [`TmaCopy`](moye_device::atom::tma::TmaCopy) has the extents of its layout, which are
//!   constants. So the producer calls [`tensor_load`] for each box, and the rows that no box fills
//!   are zeroed before.
//! - **Exchange.** A block computes its slice of K, and `complete` adds the other block's
//!   accumulators. The blocks of a pair synchronise once, after all products, and the producer's
//!   warpgroup takes part
//!   ([`WarpSpecialised::leave`](moye_device::collective::WarpSpecialised::leave)).
//!
//! After the exchange half of a warpgroup's threads have results. The sink [`StoreShare`] stores
//! them from registers. If C is read, or its rows are not whole vectors, it stages accumulators in
//! the memory of the stages.

use super::config::{ATOM_M, ArgumentsOf, Boxes, CopyA, CopyB, ROW, WARPGROUP, WgmmaConfig};
use super::epilogue::{Finish, Part};
use super::exchange::Exchange;
use super::mainloop::Loop;
use super::schedule::GROUP;
use super::sink::{COLUMNS, ChunkSums, has_pieces, leave_columns, write_finished};
use super::tile::{first_of, stages_of};
use crate::kernels::mma::{Convertible, Place, Scalar, Staged, write_rows};
use core::marker::PhantomData;
use moye_device::arch::{
    CachePolicy, Convert, L2Evict, Word as _, Word128, block_idx, cluster_rank, fence_proxy_async_shared,
    tensor_load, thread_idx,
};
use moye_device::collective::{
    Accumulators, Mainloop as _, OneTile, Sink, StorageOf, Team, WorkTile, Worker, gemm_warp_specialised,
};
use moye_device::layout::{IntTuple, Layout, Major, Swizzle};
use moye_device::memory::{Element, Shared, TensorMap, TensorMapPointer};
use moye_device::pipeline::Producer;
use moye_device::tensor::{StaticLayout, Tensor};

/// Rows of a warpgroup's 64 that each of `parts` blocks reduces and stores.
const fn rows_of_share(parts: u32) -> u32 {
    ATOM_M / parts
}

/// Bytes of an operand that the L2 cache may still hold at the next read: an H200 has 50 MB.
const CACHED: u64 = 48 << 20;

/// The `shared` declaration of a kernel: stages of A and of B, which the accumulators replace at
/// the end; mbarriers; and with `PARTS` > 1 the exchange with the other block.
///
/// These take 192 KB or more, so that an SM runs one block. With room for two, blocks of the next
/// launch would be scheduled in pairs on the SMs whose blocks exit first.
pub type PartsStorage<G, const PARTS: u32, const STAGES: u32> =
    StorageOf<Loop<'static, G, 1, STAGES>, StoreShare<'static, G, PARTS>>;

/// The address of a warpgroup's chunk of accumulators.
#[inline(always)]
fn chunk_of<G: WgmmaConfig>(base: u32, consumer: u32, chunk: u32) -> u32 {
    base + (consumer * chunks::<G>() + chunk) * const { ATOM_M * COLUMNS * 4 }
}

/// The share of 64 rows and columns of one of `PARTS` blocks.
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
struct ShareOf<T, S, O, const PARTS: u32>(PhantomData<(T, S, O)>);

impl<T, S, O, const PARTS: u32> Staged for ShareOf<T, S, O, PARTS>
where
    T: Element,
    S: Scalar + Convertible<S> + Convert<O>,
    O: Convertible<S>,
{
    type Operand = T;
    type Sum = S;
    type Scalar = S;
    type Output = O;
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
/// blocks, one for each tile of all batches. `a` and `b` are maps of the [tiles](Boxes::tile) of
/// [`WgmmaConfig::BOXES_A`] and `BOXES_B`, [fitted](Boxes::fitted) to M, N and K. The matrices are
/// in memory of the device, and `c` overlaps no other. The grid does not split K:
/// `arguments.splits` is 1. With `PARTS` = 2, K has at least two stages.
#[inline(always)]
pub unsafe fn matmul_parts<G: WgmmaConfig, const PARTS: u32, const STAGES: u32>(
    a: &TensorMap,
    b: &TensorMap,
    arguments: &ArgumentsOf<G>,
) {
    const { assert!(G::CLUSTER == 1, "each block loads its whole operands") };
    const { assert!(G::MMA_M == 1, "a warpgroup has 64 rows") };
    const { assert!(PARTS == 1 || PARTS == 2, "shares start at a multiple of the swizzle's period") };
    const { assert!(G::ONE_TILE && G::PARTS == PARTS, "the configuration's parts") };
    const {
        let (a, b) = (CopyA::<G>::TILE, CopyB::<G, 1>::TILE);
        assert!(
            G::BOXES_A.bytes() == a.bytes() && G::BOXES_A.copies() == a.copies() as u32,
            "boxes that are not fitted are those of a stage of A"
        );
        assert!(
            G::BOXES_B.bytes() == b.bytes() && G::BOXES_B.copies() == b.copies() as u32,
            "boxes that are not fitted are those of a stage of B"
        );
    };
    const {
        let stages = STAGES * (G::BYTES_A + G::BYTES_B);
        assert!(
            G::BLK_M * chunks::<G>() * COLUMNS * 4 <= stages,
            "the accumulators of a block replace its stages"
        );
        assert!(stages > 128 * 1024, "an SM has room for one block");
    };
    let tiles = Loop::<G, 1, STAGES>::tiles((arguments.m, arguments.n, arguments.k), arguments.batches);
    let worker = Worker { number: block_idx().x / PARTS, ..Worker::block() };
    gemm_warp_specialised::<Loop<G, 1, STAGES>, _, _, _>(
        (a, b, arguments),
        OneTile::new(tiles, worker, const { GROUP / G::BLK_M }),
        Finish::<G, ()> { arguments, own: () },
        StoreShare::<G, PARTS> { arguments },
    );
}

/// The boxes of a stage of A and of B. If K is contiguous they have no more rows than the matrix,
/// because TMA takes time for out of bounds rows too.
#[inline(always)]
fn boxes<G: WgmmaConfig>(arguments: &ArgumentsOf<G>) -> [Boxes; 2] {
    let k = arguments.k;
    [const { G::BOXES_A }.fitted(arguments.m, k), const { G::BOXES_B }.fitted(arguments.n, k)]
}

/// Zeroes the rows of all stages that `wgmma` reads and no copy writes.
///
/// # Safety
/// All threads of the block call it; the stages at these addresses belong to the block, and a
/// barrier follows.
#[inline(always)]
pub(super) unsafe fn clear<G: WgmmaConfig, const STAGES: u32>(
    arguments: &ArgumentsOf<G>,
    to_a: u32,
    to_b: u32,
) {
    const WORD: u32 = size_of::<Word128>() as u32;
    let [boxes_a, boxes_b] = boxes::<G>(arguments);
    let of_stage = |boxes: Boxes, to: u32, bytes: u32| {
        if boxes.bytes() == bytes {
            return;
        }
        let block = bytes / boxes.depth;
        let mut start = to;
        while start < to + bytes {
            let mut at = start + boxes.bytes() / boxes.depth + WORD * thread_idx().x;
            while at < start + block {
                Word128::store_shared(at, Word128([0; 4]));
                at += const { WORD * G::THREADS };
            }
            start += block;
        }
    };
    let mut stage = 0;
    while stage < STAGES {
        of_stage(boxes_a, to_a + stage * G::BYTES_A, const { G::BYTES_A });
        of_stage(boxes_b, to_b + stage * G::BYTES_B, const { G::BYTES_B });
        stage += 1;
    }
    fence_proxy_async_shared();
}

/// Loads an operand's part of a stage, from element `mn` along M or N and `k` along K.
///
/// # Safety
/// Same contract as [`tensor_load`].
#[inline(always)]
unsafe fn load_boxes(
    boxes: Boxes,
    map: TensorMapPointer,
    [mn, k, batch]: [i32; 3],
    to: u32,
    barrier: u32,
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
        tensor_load(to + i * rows * ROW, map, start, barrier, None, policy);
        i += 1;
    }
}

/// Loads an operand's part of a stage, of `bytes` bytes, from element `mn` along M or N and `k`
/// along K.
///
/// # Safety
/// Same contract as [`load_boxes`].
#[inline(always)]
unsafe fn load_blocks(
    boxes: Boxes,
    map: TensorMapPointer,
    [mn, k, batch]: [i32; 3],
    to: u32,
    barrier: u32,
    bytes: u32,
    policy: Option<CachePolicy>,
) {
    if boxes.depth == 1 {
        load_boxes(boxes, map, [mn, k, batch], to, barrier, policy);
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

/// Loads the stages of the block's slice of a tile's K.
///
/// # Safety
/// Same contract as [`WarpSpecialised::load`](moye_device::collective::WarpSpecialised::load).
#[inline(always)]
pub(super) unsafe fn load_fitted<G: WgmmaConfig, const CLUSTER: u32, const STAGES: u32>(
    producer: &mut Producer<STAGES, CLUSTER>,
    to_a: u32,
    to_b: u32,
    a: TensorMapPointer,
    b: TensorMapPointer,
    tile: &WorkTile,
    arguments: &ArgumentsOf<G>,
) {
    let (row, column) = first_of::<G>(arguments, tile);
    let (row, column) = (row as i32, column as i32);
    let [boxes_a, boxes_b] = boxes::<G>(arguments);
    // A batch stride of 0 means one matrix for all batches.
    let batch_a = if arguments.batch_a == 0 { 0 } else { tile.batch as i32 };
    let batch_b = if arguments.batch_b == 0 { 0 } else { tile.batch as i32 };
    // An operand that only one tile reads is read once. If the L2 cache would not hold it until the
    // next call, it is evicted first.
    let once = |others: bool, extent: u32, batch: i64| {
        let bytes = u64::from(extent) * u64::from(arguments.k) * const { G::Operand::BYTES as u64 };
        let again = others || batch == 0 && arguments.batches > 1;
        (!again && bytes > CACHED).then(|| CachePolicy::new(L2Evict::First))
    };
    let once_a = once(arguments.n > G::BLK_N, arguments.m, arguments.batch_a);
    let once_b = once(arguments.m > G::BLK_M, arguments.n, arguments.batch_b);
    let (mut stage, end) = stages_of::<G>(tile);
    while stage < end {
        let k = (stage * G::BLK_K) as i32;
        let filling = producer.acquire(boxes_a.bytes() + boxes_b.bytes());
        let to_a = to_a + filling.index() * G::BYTES_A;
        let to_b = to_b + filling.index() * G::BYTES_B;
        let barrier = filling.barrier();
        load_blocks(boxes_a, a, [row, k, batch_a], to_a, barrier, const { G::BYTES_A }, once_a);
        load_blocks(boxes_b, b, [column, k, batch_b], to_b, barrier, const { G::BYTES_B }, once_b);
        stage += 1;
    }
}

/// Chunks of columns of a tile.
const fn chunks<G: WgmmaConfig>() -> u32 {
    G::BLK_N.div_ceil(COLUMNS)
}

/// Stores the block's share of its tile.
pub struct StoreShare<'a, G: WgmmaConfig, const PARTS: u32> {
    arguments: &'a ArgumentsOf<G>,
}

impl<G: WgmmaConfig, const PARTS: u32> Clone for StoreShare<'_, G, PARTS> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<G: WgmmaConfig, const PARTS: u32> Copy for StoreShare<'_, G, PARTS> {}

impl<'a, G: WgmmaConfig, const PARTS: u32, const STAGES: u32> Sink<Loop<'a, G, 1, STAGES>>
    for StoreShare<'a, G, PARTS>
{
    type Storage = ();

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn store(
        &self,
        tCrC: &Accumulators<Loop<'a, G, 1, STAGES>>, // (MMA, 1, 1)
        (): &(),
        tile: &WorkTile,
        team: &Team,
        mainloop: &mut Loop<'a, G, 1, STAGES>,
    ) {
        let Self { arguments } = *self;
        let (values, thread) = (tCrC.values(), team.within_warpgroup());
        let part = Part::new::<G>(arguments, tile, team.warpgroup());
        if has_pieces::<(), _, _, _>(arguments, arguments.n) {
            if Exchange::<G>::keeps(thread) {
                write_finished::<G>(values, arguments, part, thread);
            }
            return;
        }
        let base = mainloop.first_stage();
        // The stages may hold accumulators when no warpgroup reads them any more and all loads
        // have completed.
        team.sync();
        if Exchange::<G>::keeps(thread) {
            let mut chunk = 0;
            while chunk < const { chunks::<G>() } {
                let to = chunk_of::<G>(base, team.warpgroup(), chunk);
                leave_columns(values, const { G::BLK_N }, chunk, to, thread);
                chunk += 1;
            }
        }
        team.sync_warpgroup();
        let above = if PARTS > 1 { cluster_rank() * rows_of_share(PARTS) } else { 0 };
        let (row, offset) = (part.first.0 + above, i64::from(part.batch) * arguments.batch_c);
        let mut chunk = 0;
        while chunk < const { chunks::<G>() } {
            let column = part.first.1 + chunk * COLUMNS;
            if row < arguments.m && column < arguments.n {
                let share = chunk_of::<G>(base, team.warpgroup(), chunk) + above * const { COLUMNS * 4 };
                let sC = Tensor::shared(Shared::from_address(share)); // (BLK_M, BLK_N)
                write_rows::<ShareOf<G::Operand, G::Sum, G::Output, PARTS>>(
                    arguments,
                    sC,
                    Place { first: (row, column), offset, thread },
                );
            }
            chunk += 1;
        }
    }
}
