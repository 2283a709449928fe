//! The kernel: a producer that loads, consumers that multiply and write.

use super::config::{ATOM_M, ArgumentsOf, Boxes, Parts, STAGES, WARPGROUP, WgmmaConfig, WgmmaStorage};
use super::epilogue::Writer;
use super::scale::scale;
use super::schedule::{Schedule, Work};
use crate::arch::wgmma::{
    Accumulators, wgmma_commit_group, wgmma_fence, wgmma_fence_registers, wgmma_wait_group,
};
use crate::arch::{
    FULL_WARP, block_idx, decrease_registers, elect, grid_dim, increase_registers, launch_dependents,
    prefetch_tensor_map, shuffle, sync_threads, tensor_load, thread_idx, wait_for_prior_kernels,
};
use crate::atom::wgmma::WgmmaAtom;
use crate::layout::Major;
use crate::memory::{SharedStorage, TensorMap, TensorMapPointer};
use crate::pipeline::{Consumer, Producer};

/// Registers of a thread that loads, and of one that multiplies: with two consuming warpgroups, 128 (40 + 2 * 232) are the 64,512
/// that the block of 384 threads starts with.
const FEW: u32 = 40;
/// See [`FEW`].
const MANY: u32 = 232;

/// `c = activation(alpha * a * b + beta * c + bias)`, a persistent grid; `a * b` times the scales, where there are any.
///
/// # Safety
/// All threads of the block come by together, and the kernel declares [`WgmmaStorage<G>`] and `G::THREADS` threads. `a` and `b` are
/// maps of boxes [`WgmmaConfig::BOXES_A`] and `BOXES_B`; `c`, where `arguments.tensor_c` is set, is one of 64 rows of 128 bytes. The
/// matrices lie in memory of the device; `c` overlaps none of the others.
#[inline(always)]
pub unsafe fn matmul<G: WgmmaConfig>(
    (a, b, c): (&TensorMap, &TensorMap, &TensorMap),
    arguments: &ArgumentsOf<G>,
) {
    let thread = thread_idx().x;
    // The same in all lanes, and the compiler is to know it.
    let warpgroup = shuffle(FULL_WARP, thread / WARPGROUP, 0);
    // SAFETY: the kernel declares the storage.
    let parts = unsafe { WgmmaStorage::<G>::take() };
    let pipeline = parts.pipeline();
    if thread == 0 {
        // SAFETY: one thread, and a barrier follows.
        unsafe { pipeline.init(G::CONSUMERS * WARPGROUP / 32) };
    }
    sync_threads();
    // Whatever the kernel in front writes may be read from here on; what comes behind may prepare itself.
    launch_dependents();
    wait_for_prior_kernels();

    let tiles = Schedule::new(
        (block_idx().x, grid_dim().x),
        (arguments.m, arguments.n),
        (G::BLK_M, G::BLK_N),
        (arguments.splits, arguments.batches),
    );
    // SAFETY: each warpgroup goes one way as a whole; the caller's contract.
    unsafe {
        if warpgroup == 0 {
            if const { G::CONSUMERS == 2 } {
                decrease_registers::<FEW>();
            }
            if thread < 32 && elect(FULL_WARP) {
                load::<G>(pipeline.producer(), parts, (a.pointer(), b.pointer()), arguments, tiles);
            }
        } else {
            if const { G::CONSUMERS == 2 } {
                increase_registers::<MANY>();
            }
            let writer =
                Writer { parts, map: c.pointer(), consumer: warpgroup - 1, thread: thread % WARPGROUP };
            multiply::<G>(pipeline.consumer(), &writer, arguments, tiles);
        }
    }
}

/// The part of K that a tile sums over, in stages: the first one, and how many.
#[inline(always)]
fn stages_of<G: WgmmaConfig>(arguments: &ArgumentsOf<G>, work: Work) -> (u32, u32) {
    let first = work.split * arguments.k_chunk;
    let left = arguments.k - first;
    let k = if left < arguments.k_chunk { left } else { arguments.k_chunk };
    (first / G::BLK_K, k.div_ceil(G::BLK_K))
}

/// Loads all stages of all tiles.
///
/// # Safety
/// One thread; the kernel's contract.
#[inline(always)]
unsafe fn load<G: WgmmaConfig>(
    mut producer: Producer<STAGES, 1>,
    parts: Parts<G>,
    (a, b): (TensorMapPointer, TensorMapPointer),
    arguments: &ArgumentsOf<G>,
    mut tiles: Schedule,
) {
    // SAFETY: the maps are as the caller says; each stage gets as many bytes as are announced, what lies outside of the
    // matrices as zeros.
    unsafe {
        prefetch_tensor_map(a);
        prefetch_tensor_map(b);
        while let Some(work) = tiles.take_next() {
            let (row, column) = ((work.m * G::BLK_M) as i32, (work.n * G::BLK_N) as i32);
            // One batch is the same for all where they have no distance.
            let batch_a = if arguments.batch_a == 0 { 0 } else { work.batch as i32 };
            let batch_b = if arguments.batch_b == 0 { 0 } else { work.batch as i32 };
            let (first, count) = stages_of::<G>(arguments, work);
            let mut stage = first;
            while stage < first + count {
                let k = (stage * G::BLK_K) as i32;
                let filling = producer.acquire(G::BYTES_A + G::BYTES_B);
                let (index, barrier) = (filling.index(), filling.barrier());
                load_boxes(const { G::BOXES_A }, a, [row, k, batch_a], parts.a(index), barrier);
                load_boxes(const { G::BOXES_B }, b, [column, k, batch_b], parts.b(index), barrier);
                stage += 1;
            }
        }
    }
}

/// Loads an operand's part of a stage, from element `mn` along M or N and `k` on.
///
/// # Safety
/// As [`tensor_load`].
#[inline(always)]
unsafe fn load_boxes(boxes: Boxes, map: TensorMapPointer, [mn, k, batch]: [i32; 3], to: u32, barrier: u32) {
    let rows = boxes.extents[1];
    let mut i = 0;
    while i < boxes.count {
        let mn = mn + (i * boxes.step()) as i32;
        let start = match boxes.major {
            Major::K => [k, mn, batch],
            Major::Mn => [mn, k, batch],
        };
        // SAFETY: the caller's contract.
        unsafe { tensor_load(to + i * rows * super::config::ROW, map, start, barrier, None, None) };
        i += 1;
    }
}

/// Multiplies all stages of all tiles, and writes C.
///
/// # Safety
/// All threads of a consuming warpgroup; the kernel's contract.
#[inline(always)]
unsafe fn multiply<G: WgmmaConfig>(
    mut consumer: Consumer<STAGES, 1>,
    writer: &Writer<G>,
    arguments: &ArgumentsOf<G>,
    mut tiles: Schedule,
) {
    let parts = writer.parts;
    let mut sums = <<G::Atom as WgmmaAtom>::Accumulators as Accumulators>::ZERO;
    while let Some(work) = tiles.take_next() {
        let (_, count) = stages_of::<G>(arguments, work);
        let mut before = None;
        let mut stage = 0;
        while stage < count {
            // SAFETY: the stages come full; an instruction's operands are released when the group behind it is the only
            // one that runs, and its accumulators read when none does.
            unsafe {
                let full = consumer.wait();
                // This warpgroup's rows of A.
                let a = parts.a(full.index()) + writer.consumer * ATOM_M * super::config::ROW;
                let b = parts.b(full.index());
                wgmma_fence();
                let mut k = 0;
                while k < const { G::A.blocks_k() } {
                    // The first instruction of a tile does not add.
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
            }
            stage += 1;
        }
        // SAFETY: as above.
        unsafe {
            wgmma_wait_group::<0>();
            if let Some(before) = before {
                consumer.release(before);
            }
            wgmma_fence_registers(&mut sums);
            if const { G::SCALED } {
                scale::<G>(&mut sums, arguments, work, (writer.consumer, writer.thread));
            }
            writer.write(&sums, arguments, work);
        }
    }
    writer.finish();
}
