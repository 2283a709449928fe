//! The kernel: a producer warpgroup that loads, consumer warpgroups that multiply and store.

use super::config::{ArgumentsOf, Boxes, Parts, Sums as _, WARPGROUP, WgmmaConfig, WgmmaStorage};
use super::epilogue::Writer;
use super::gather::gather;
use super::pieces::has_pieces;
use super::ping_pong::take_turns;
use super::scale::{load_factors, scale};
use super::schedule::{Job, Schedule, Turn};
use super::sharing::{Cut, Sharing};
use super::store::{OWN_GROUPS, meet};
use moye_device::arch::wgmma::{wgmma_commit_group, wgmma_fence, wgmma_fence_registers, wgmma_wait_group};
use moye_device::arch::{
    CachePolicy, FULL_WARP, block_idx, cluster_arrive_relaxed, cluster_rank, cluster_wait,
    decrease_registers, elect, grid_dim, increase_registers, launch_dependents, opaque, overlap_launches,
    prefetch_tensor_map, shuffle, sync_threads, tensor_load, thread_idx, wait_for_prior_kernels,
};
use moye_device::atom::wgmma::WgmmaAtom;
use moye_device::collective::Epilogue;
use moye_device::layout::Major;
use moye_device::memory::{SharedStorage, TensorMap, TensorMapPointer};
use moye_device::pipeline::{Consumer, Full, Producer};

/// Registers of a producer thread and of a consumer thread, for blocks of a cluster. With two
/// consumer warpgroups, 128 * (40 + 2 * 232) are the 64,512 registers with which a block of 384
/// threads starts.
const FEW: u32 = 40;
/// See [`FEW`].
const MANY: u32 = 232;
/// As [`FEW`], for a block without a cluster. It computes its tile's coordinates before it waits,
/// so that the producer keeps more values: 128 * (56 + 2 * 224).
const FEW_ALONE: u32 = 56;
/// See [`FEW_ALONE`].
const MANY_ALONE: u32 = 224;

/// `c = activation(alpha * a * b + beta * c + bias)` by a persistent grid; `a * b` times the
/// scales, if there are any.
///
/// # Safety
/// All threads of the block call it together, and the kernel declares [`WgmmaStorage<G>`] and
/// `G::THREADS` threads. The launch has clusters of `CLUSTER` blocks, which is `G::CLUSTER`. `a`
/// and `b` are maps with the boxes [`WgmmaConfig::BOXES_A`] and `BOXES_B`; `c`, if
/// `arguments.tensor_c` is set, has boxes of 64 rows of 128 bytes. The matrices are in memory of
/// the device, and `c` overlaps no other. [`Sharing`] has memory of this launch only.
#[inline(always)]
pub unsafe fn matmul<G: WgmmaConfig, const CLUSTER: u32, const STAGES: u32>(
    maps: (&TensorMap, &TensorMap, &TensorMap),
    arguments: &ArgumentsOf<G>,
    sharing: &Sharing<G::Sum>,
) {
    // SAFETY: the caller's contract.
    unsafe { matmul_with::<G, (), CLUSTER, STAGES>(maps, arguments, sharing, ()) }
}

/// [`matmul`] with an [`Epilogue`] of your own: alpha, beta, bias and activation of the arguments
/// are left out.
///
/// # Safety
/// As [`matmul`]; what the epilogue points to may be read. K is in one part: `arguments.splits`
/// is 1.
#[inline(always)]
pub unsafe fn matmul_with<G: WgmmaConfig, E: Epilogue<G::Scalar>, const CLUSTER: u32, const STAGES: u32>(
    (a, b, c): (&TensorMap, &TensorMap, &TensorMap),
    arguments: &ArgumentsOf<G>,
    sharing: &Sharing<G::Sum>,
    epilogue: E,
) {
    const { assert!(CLUSTER == G::CLUSTER, "the configuration's blocks of a cluster") };
    const {
        assert!(
            CLUSTER > 1 || !G::PING_PONG,
            "ping-pong warpgroups wait for earlier kernels together, as clusters do"
        )
    };
    let thread = thread_idx().x;
    // `warpgroup` is uniform across the warp; the shuffle tells the compiler so.
    let warpgroup = shuffle(FULL_WARP, thread / WARPGROUP, 0);
    // SAFETY: the kernel declares the storage.
    let parts = unsafe { WgmmaStorage::<G>::take() };
    // SAFETY: no other code uses them.
    let pipeline = unsafe { parts.pipeline::<STAGES, CLUSTER>() };
    let rank = if CLUSTER > 1 { cluster_rank() } else { 0 };
    if thread == 0 {
        // SAFETY: one thread, and a barrier follows.
        unsafe { pipeline.init() };
    }
    if CLUSTER > 1 {
        // SAFETY: all threads of the cluster call it. Only the mbarriers were written, and they
        // have their own fence.
        unsafe {
            cluster_arrive_relaxed();
            cluster_wait();
        }
    } else {
        sync_threads();
    }
    // After this wait the kernel may read what earlier kernels wrote; the next kernel may start.
    // Blocks without clusters, most of which have one tile, wait after they have computed its
    // coordinates. Clusters, which have many tiles, gained nothing from that (record 11).
    if CLUSTER > 1 {
        overlap_launches();
    } else {
        launch_dependents();
    }

    // SAFETY: each warpgroup takes one branch as a whole; the caller's contract.
    unsafe {
        if warpgroup == 0 {
            if const { G::CONSUMERS == 2 } {
                if CLUSTER > 1 {
                    decrease_registers::<FEW>();
                } else {
                    decrease_registers::<FEW_ALONE>();
                }
            }
            if thread < 32 && elect(FULL_WARP) {
                load::<G, CLUSTER, STAGES>(
                    pipeline.producer(),
                    (parts, rank),
                    (a.pointer(), b.pointer()),
                    arguments,
                    sharing,
                );
            }
        } else {
            if const { G::CONSUMERS == 2 } {
                if CLUSTER > 1 {
                    increase_registers::<MANY>();
                } else {
                    increase_registers::<MANY_ALONE>();
                }
            }
            let writer = Writer {
                parts,
                map: c.pointer(),
                consumer: warpgroup - 1,
                thread: thread % WARPGROUP,
                rank,
                epilogue,
            };
            if const { G::PING_PONG } {
                take_turns::<G, E, CLUSTER, STAGES>(pipeline.consumer(), &writer, arguments, sharing);
            } else {
                multiply::<G, E, CLUSTER, STAGES>(pipeline.consumer(), &writer, arguments, sharing);
            }
        }
    }
}

/// The cluster's work, recomputed here so that the compiler does not keep it in registers beside
/// the accumulators. Ping-pong warpgroups share no tiles along K.
#[inline(always)]
pub(super) fn job<G: WgmmaConfig>(arguments: &ArgumentsOf<G>, sharing: &Sharing<G::Sum>) -> Job {
    let k = opaque(arguments.k);
    Job {
        cluster: block_idx().x / G::CLUSTER,
        clusters: grid_dim().x / G::CLUSTER,
        extents: (opaque(arguments.m), opaque(arguments.n)),
        tile: (G::CLUSTER * G::BLK_M, G::BLK_N),
        stages: (k.div_ceil(G::BLK_K), opaque(arguments.k_chunk).div_ceil(G::BLK_K)),
        splits: opaque(arguments.splits),
        batches: opaque(arguments.batches),
        cut: if G::PING_PONG {
            Cut::NONE
        } else {
            let Cut { tiles, even, stages, run } = sharing.cut;
            Cut { tiles: opaque(tiles), even: opaque(even), stages: opaque(stages), run: opaque(run) }
        },
    }
}

/// The producer: loads all stages of all tiles.
///
/// # Safety
/// One thread calls it; the kernel's contract.
#[inline(always)]
unsafe fn load<G: WgmmaConfig, const CLUSTER: u32, const STAGES: u32>(
    mut producer: Producer<STAGES, CLUSTER>,
    (parts, rank): (Parts<G>, u32),
    (a, b): (TensorMapPointer, TensorMapPointer),
    arguments: &ArgumentsOf<G>,
    sharing: &Sharing<G::Sum>,
) {
    // The block's share of B along N, and the mask of all blocks of the cluster.
    let (from, bytes) = const { (G::BLK_N / CLUSTER, G::BYTES_B / CLUSTER) };
    let all = const { if CLUSTER > 1 { Some((1 << CLUSTER) - 1) } else { None } };
    // SAFETY: the maps are as the caller promises. Each stage receives the announced bytes; out of
    // bounds elements are zeros. B arrives from all blocks of the cluster, each of which multicasts
    // its share.
    unsafe {
        prefetch_tensor_map(a);
        prefetch_tensor_map(b);
        let mut schedule = Schedule::new(&job::<G>(arguments, sharing));
        // A tile: its first row and column, and its batches of A and B.
        let place = |turn: Turn| {
            let work = job::<G>(arguments, sharing).work(turn);
            let row = (work.m * CLUSTER + rank) * G::BLK_M;
            let column = work.n * G::BLK_N + rank * from;
            // A batch stride of 0 means one matrix for all batches.
            let batch_a = if arguments.batch_a == 0 { 0 } else { work.batch as i32 };
            let batch_b = if arguments.batch_b == 0 { 0 } else { work.batch as i32 };
            (turn, [row as i32, column as i32], [batch_a, batch_b])
        };
        let mut load_turn = |(turn, [row, column], [batch_a, batch_b]): (Turn, [i32; 2], [i32; 2])| {
            let mut stage = turn.first;
            while stage < turn.first + turn.stages {
                let k = (stage * G::BLK_K) as i32;
                let filling = producer.acquire(G::BYTES_A + G::BYTES_B);
                let (to_a, to_b) = (parts.a(filling.index()), parts.b(filling.index()) + rank * bytes);
                let barrier = filling.barrier();
                load_boxes(const { G::BOXES_A }, a, [row, k, batch_a], (to_a, barrier), None, None);
                load_boxes(const { G::BOXES_B }, b, [column, k, batch_b], (to_b, barrier), all, None);
                stage += 1;
            }
        };
        if CLUSTER > 1 {
            // Blocks of a cluster have already waited.
            while let Some(turn) = schedule.take_next(&job::<G>(arguments, sharing)) {
                load_turn(place(turn));
            }
        } else {
            let mut next = schedule.take_next(&job::<G>(arguments, sharing)).map(place);
            wait_for_prior_kernels();
            while let Some(placed) = next {
                load_turn(placed);
                next = schedule.take_next(&job::<G>(arguments, sharing)).map(place);
            }
        }
        if CLUSTER > 1 {
            // The other blocks still write to this block's memory and arrive at its mbarriers.
            producer.drain();
        }
    }
}

/// Loads an operand's part of a stage, from element `mn` along M or N and `k` along K.
///
/// # Safety
/// As [`tensor_load`].
#[inline(always)]
pub(super) unsafe fn load_boxes(
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
        // SAFETY: the caller's contract.
        unsafe { tensor_load(to + i * rows * super::config::ROW, map, start, barrier, multicast, policy) };
        i += 1;
    }
}

/// A cooperative consumer: multiplies all stages of all tiles, and writes C.
///
/// # Safety
/// All threads of a consumer warpgroup call it; the kernel's contract.
#[inline(always)]
unsafe fn multiply<G: WgmmaConfig, E: Epilogue<G::Scalar>, const CLUSTER: u32, const STAGES: u32>(
    mut consumer: Consumer<STAGES, CLUSTER>,
    writer: &Writer<G, E>,
    arguments: &ArgumentsOf<G>,
    sharing: &Sharing<G::Sum>,
) {
    let parts = writer.parts;
    let mut sums = G::Sums::ZERO;
    let mut schedule = Schedule::new(&job::<G>(arguments, sharing));
    let mut next = schedule.take_next(&job::<G>(arguments, sharing));
    if CLUSTER == 1 {
        wait_for_prior_kernels();
    }
    // The last stage of the previous tile, in which boxes of C may still be read.
    let mut held = None;
    // SAFETY: the caller's contract. The stages are the tile's, and are released when the warp's
    // stores have read them.
    unsafe {
        while let Some(turn) = next {
            let steps = steps_of_last::<G>(arguments, turn);
            held = issue::<G, E, CLUSTER, STAGES>(&mut sums, &mut consumer, writer, held, turn.stages, steps);
            // While the last instructions run, there is time for what comes behind them.
            let job = job::<G>(arguments, sharing);
            next = schedule.take_next(&job);
            let part = writer.part(job.work(turn));
            let factors = load_factors::<G>(arguments, part, writer.thread);
            writer.make_room();
            complete::<G>(&mut sums);
            // Of two warpgroups that share a tile, one may store its piece and go on, while the
            // other is last to arrive and writes C: then the first would not meet it there. So both
            // meet here, if they have to.
            let met = job.is_piece(turn);
            if met {
                meet::<G>(writer.place().barrier);
                let share = self::job::<G>(arguments, sharing).share(turn);
                if !gather::<G>(&mut sums, sharing, share, parts, writer.place()) {
                    continue;
                }
            }
            scale::<G>(&mut sums, arguments, factors, part, writer.thread);
            // A C that is stored from registers needs no room in the last stage.
            if const { G::PIECES }
                && has_pieces::<E, _, _, _>(arguments)
                && let Some(last) = held.take()
            {
                consumer.release(last);
            }
            writer.write(&mut sums, arguments, part, (held.as_ref(), met));
        }
        writer.wait_for_stores::<0>();
        if let Some(held) = held {
            consumer.release(held);
        }
    }
}

/// Instructions of a stage along K: a stage has 128 bytes of each row.
const STEPS: usize = 4;

/// The instructions along K of a tile's last stage: fewer than a stage has if K ends in it.
///
/// Always all for 8-bit elements and tf32: code for partial stages made e4m3 8192^3, which has
/// none, 1 % slower (record 11).
#[inline(always)]
pub(super) fn steps_of_last<G: WgmmaConfig>(arguments: &ArgumentsOf<G>, turn: Turn) -> u32 {
    const { assert!(G::A.blocks_k() == STEPS, "a stage has 128 bytes of each row") };
    if const { size_of::<G::Operand>() != 2 } {
        return STEPS as u32;
    }
    let (k, end) = (opaque(arguments.k), (turn.first + turn.stages) * G::BLK_K);
    STEPS as u32 - end.saturating_sub(k) / const { G::BLK_K / STEPS as u32 }
}

/// Waits for the next `stages` stages and issues their instructions; of the last stage the first
/// `steps` along K. Each stage is released after it was read. So is `before`, the previous tile's
/// last stage, once the stores of C have read it. The last stage is not released: its instructions
/// may still run.
///
/// # Safety
/// All threads of the writer's warpgroup call it. The stages are one tile's, from its first stage
/// on, at least one, and `steps` is at least 1. [`complete`] follows, and then a release of the
/// returned stage.
#[inline(always)]
pub(super) unsafe fn issue<G: WgmmaConfig, E: Epilogue<G::Scalar>, const CLUSTER: u32, const STAGES: u32>(
    sums: &mut G::Sums,
    consumer: &mut Consumer<STAGES, CLUSTER>,
    writer: &Writer<G, E>,
    mut before: Option<Full>,
    stages: u32,
    steps: u32,
) -> Option<Full> {
    let whole = if steps < STEPS as u32 { stages - 1 } else { stages };
    let mut stage = 0;
    // SAFETY: the caller's contract.
    unsafe {
        while stage < whole {
            issue_stage::<G, E, STEPS, CLUSTER, STAGES>(sums, consumer, writer, &mut before, stage);
            stage += 1;
        }
        // Instructions past the end of K would multiply zeros. Each count is a stage with straight
        // code: with a branch in between, `ptxas` makes every instruction of the kernel wait for
        // the previous one.
        if whole < stages {
            match steps {
                1 => issue_stage::<G, E, 1, CLUSTER, STAGES>(sums, consumer, writer, &mut before, whole),
                2 => issue_stage::<G, E, 2, CLUSTER, STAGES>(sums, consumer, writer, &mut before, whole),
                _ => issue_stage::<G, E, 3, CLUSTER, STAGES>(sums, consumer, writer, &mut before, whole),
            }
        }
    }
    before
}

/// Waits for stage `stage` of the tile and issues its first `COUNT` instructions along K.
///
/// # Safety
/// As for [`issue`].
#[inline(always)]
unsafe fn issue_stage<
    G: WgmmaConfig,
    E: Epilogue<G::Scalar>,
    const COUNT: usize,
    const CLUSTER: u32,
    const STAGES: u32,
>(
    sums: &mut G::Sums,
    consumer: &mut Consumer<STAGES, CLUSTER>,
    writer: &Writer<G, E>,
    before: &mut Option<Full>,
    stage: u32,
) {
    // SAFETY: the stages arrive full. An instruction's operands are released when only the next
    // group is in flight.
    unsafe {
        let full = consumer.wait();
        // The warpgroup's rows of A.
        let a = writer.parts.a(full.index()) + G::row(writer.consumer) * super::config::ROW;
        let b = writer.parts.b(full.index());
        wgmma_fence();
        let mut k = 0;
        while k < COUNT {
            // The first instruction of a tile overwrites the accumulators.
            let adds = stage > 0 || k > 0;
            let b = const { G::B }.descriptor(b, 0, k);
            sums.each_mut(
                #[inline(always)]
                |m, sums| G::Atom::mma(sums, const { G::A }.descriptor(a, m as usize, k), b, adds),
            );
            k += 1;
        }
        wgmma_commit_group();
        wgmma_wait_group::<1>();
        if let Some(before) = before.replace(full) {
            if stage == 0 {
                writer.wait_for_stores::<OWN_GROUPS>();
            }
            consumer.release(before);
        }
    }
}

/// Waits until the instructions of all stages have completed, so that the accumulators may be read.
///
/// # Safety
/// All threads of a consumer warpgroup call it, after [`issue`].
#[inline(always)]
pub(super) unsafe fn complete<G: WgmmaConfig>(sums: &mut G::Sums) {
    // SAFETY: accumulators are read when no instruction is in flight.
    unsafe {
        wgmma_wait_group::<0>();
        sums.each_mut(
            #[inline(always)]
            |_, sums| wgmma_fence_registers(sums),
        );
    }
}
