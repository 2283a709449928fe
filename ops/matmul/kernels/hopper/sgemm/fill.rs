//! The producer warps: TMA loads tiles, and the warps transpose K-contiguous ones.

use super::transpose::{ROWS, RowsOfA, RowsOfB, Transposer, bytes};
use super::{LANDINGS, Landings, MULTIPLY, SgemmConfig, first};
use crate::kernels::mma::ArgumentsOf;
use moye_device::arch::{FULL_WARP, sync_warp, tensor_load, thread_idx};
use moye_device::collective::WorkTile;
use moye_device::layout::Major;
use moye_device::memory::{Shared, TensorMapPointer};
use moye_device::pipeline::{Pipeline, Warps};
use moye_device::tensor::{StaticLayout, Tensor};

/// The destinations of a tile.
pub(super) struct Stages<G> {
    /// The stages of A.
    pub a: Shared<f32>,
    /// The stages of B.
    pub b: Shared<f32>,
    /// The buffer in which tiles to transpose arrive.
    pub landings: Landings<G>,
}

/// Fills a stage for each K tile.
///
/// # Safety
/// All threads of the producer warps call it; the kernel's contract.
#[inline(always)]
pub(super) unsafe fn fill<G: SgemmConfig, const STAGES: u32>(
    to: Stages<G>,
    stages: Pipeline<STAGES, super::ReadersOf<G>>,
    landed: Pipeline<LANDINGS, Warps<{ super::LOAD }>>,
    maps: [TensorMapPointer; 2],
    arguments: &ArgumentsOf<G>,
    work: &WorkTile,
) {
    let (row, column) = first::<G>(arguments, work);
    let (batch, tiles) = (work.batch / arguments.splits, work.k_tiles());
    let thread = thread_idx().x - 32 * MULTIPLY;
    let transposes = const { G::TRANSPOSED[0] || G::TRANSPOSED[1] };
    let from = |tile: u32| {
        // A batch stride of 0 means one matrix for all batches.
        let batch = |distance: i64| if distance == 0 { 0 } else { batch as i32 };
        Corner {
            k: ((work.k + tile) * G::BLK_K) as i32,
            mn: [row as i32, column as i32],
            batches: [batch(arguments.batch_a), batch(arguments.batch_b)],
        }
    };
    let (mut producer, mut writer) = stages.fillers();
    let (mut landing, mut arrived) = landed.both_sides();
    // Issues the TMA copies of the tiles to transpose.
    let mut land = |tile: u32| {
        let [whole, of_a] = const { Landings::<G>::PARTS };
        let bytes = const { G::BYTES[0] + G::BYTES[1] - G::DIRECT };
        let filling = landing.acquire(bytes);
        let at = to.landings.0 + filling.index() * whole;
        let at = [at, at + of_a];
        let mut i = 0;
        while i < 2 {
            if G::TRANSPOSED[i] {
                load::<G>(i, maps, &from(tile), at[i], filling.barrier());
            }
            i += 1;
        }
    };
    if transposes && thread == 0 {
        let mut tile = 0;
        while tile < LANDINGS && tile < tiles {
            land(tile);
            tile += 1;
        }
    }
    let transposer = Transposer::new(to.landings.0, thread);
    let mut tile = 0;
    while tile < tiles {
        if G::DIRECT > 0 && thread == 0 {
            let filling = producer.acquire(G::DIRECT);
            let stage = filling.index();
            let at = [
                to.a.address() + 4 * stage * const { G::SmemA::LAYOUT.mode(2).at(1) as u32 },
                to.b.address() + 4 * stage * const { G::SmemB::LAYOUT.mode(2).at(1) as u32 },
            ];
            let mut i = 0;
            while i < 2 {
                if !G::TRANSPOSED[i] {
                    load::<G>(i, maps, &from(tile), at[i], filling.barrier());
                }
                i += 1;
            }
        }
        if transposes {
            let full = arrived.wait();
            let [whole, of_a] = const { Landings::<G>::PARTS };
            let landed = full.index() * whole;
            let writing = writer.acquire();
            let stage = writing.index();
            if G::TRANSPOSED[0] {
                let to = to.a.address() + 4 * stage * const { G::SmemA::LAYOUT.mode(2).at(1) as u32 };
                let mut row = 0;
                while row < G::EXTENTS[0] {
                    let columns = Tensor::<_, RowsOfA>::shared(Shared::<f32>::from_address(to + 4 * row));
                    transposer.transpose(landed + bytes(row), columns);
                    row += ROWS;
                }
            }
            if G::TRANSPOSED[1] {
                let to = to.b.address() + 4 * stage * const { G::SmemB::LAYOUT.mode(2).at(1) as u32 };
                transposer
                    .transpose(landed + of_a, Tensor::<_, RowsOfB>::shared(Shared::<f32>::from_address(to)));
            }
            sync_warp(FULL_WARP);
            writer.fill(writing);
            // The stage holds the tile now, so the landing is free.
            arrived.release(full);
            if thread == 0 && tile + LANDINGS < tiles {
                land(tile + LANDINGS);
            }
        }
        tile += 1;
    }
}

/// The coordinates of a K tile of both operands.
struct Corner {
    k: i32,
    mn: [i32; 2],
    batches: [i32; 2],
}

/// Issues the TMA copies of an operand's tile.
///
/// # Safety
/// Same contract as [`tensor_load`].
#[inline(always)]
unsafe fn load<G: SgemmConfig>(
    operand: usize,
    maps: [TensorMapPointer; 2],
    from: &Corner,
    to: u32,
    barrier: u32,
) {
    let (mn, k) = (from.mn[operand], from.k);
    let start = match G::MAJORS[operand] {
        Major::K => [k, mn, from.batches[operand]],
        Major::Mn => [mn, k, from.batches[operand]],
    };
    tensor_load(to, maps[operand], start, barrier, None, None);
}
