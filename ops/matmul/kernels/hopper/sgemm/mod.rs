//! SGEMM by fused multiply-adds on Hopper, warp-specialised.
//!
//! An f32 product leaves few issue slots beside its multiply-adds: a thread with 16 x 8
//! accumulators loads six 16-byte vectors for 128 multiply-adds, and every other instruction takes
//! the slot of one. The [`mma`](crate::kernels::mma) kernels issue copies and transpose operands
//! between multiply-adds. Here separate producer warps do so:
//!
//! ```text
//! warps 0 to 7    16 x 16 threads: fragments of step k + 1 from shared memory beside the 128 multiply-adds of step k; then C
//! warps 8 to 11   issue TMA copies, and transpose K-contiguous operands
//! ```
//!
//! The consumer warps are an instance of the language's [`gemm`], with their mainloop [`Loop`] and
//! the scheduler and sink of the [`mma`](crate::kernels::mma) kernels. The code of the producer
//! warps is `fill.rs`. The producer of
//! [`gemm_warp_specialised`](moye_device::collective::gemm_warp_specialised) does not suit: it is
//! one thread of the first warpgroup, with a fixed number of registers.
//!
//! **M-contiguous (or N-contiguous) operands** are loaded into their stage by TMA directly: boxes
//! of (BLK, BLK_K), column after column.
//!
//! **K-contiguous operands are transposed**: a stage is M-contiguous, so that a thread reads four
//! adjacent elements at a time. TMA loads the tile into a *landing*, in rows along K, and 128
//! threads transpose it from there into the stage (`transpose.rs`). The consumer threads lose only
//! some shared memory bandwidth. Rows must start at multiples of 16 bytes; others are repacked
//! first.
//!
//! **The producer warps have the higher indices.** If several warps are ready, an SM prefers the
//! one with the highest index, and consumer warps nearly always are ready. In the opposite order
//! the producer warps, though ready, waited some 24 cycles for each instruction, and the consumers
//! for them (record 14).
//!
//! **Tiles are whole.** A tile that would cross C's edge is moved inside. If C is smaller than one
//! tile, or its extents are not [multiples](SgemmConfig::GRANULES) of a vector, the caller passes a
//! workspace. A predicated second loop doubled the code and made the first one slower (record 14).
//!
//! **Registers.** `ptxas` assigns accumulator registers so that no multiply-add reads three from
//! the same bank, as long as the producer warps' registers suffice. If they do not, it reassigns
//! all registers and ignores banks, which costs 10 to 17 % (record 14). So the register split of a
//! configuration is measured.

mod family;
mod fill;
mod mainloop;
mod transpose;

pub use family::*;
pub use mainloop::Loop;

use super::config::WARPGROUP;
use crate::kernels::mma::{ArgumentsOf, Schedule, TileSink, Tiled, moved};
use core::marker::PhantomData;
use moye_device::arch::{
    FULL_WARP, decrease_registers, increase_registers, overlap_launches, prefetch_tensor_map, shuffle,
    sync_threads, thread_idx,
};
use moye_device::atom::StaticTiledMma;
use moye_device::atom::tma::TmaTile;
use moye_device::collective::{Sink, StorageOf, TileScheduler as _, WorkTile, gemm};
use moye_device::layout::{ComposedLayout, IntTuple, Layout, Major, Swizzle};
use moye_device::memory::{SharedStorage, TensorMap};
use moye_device::pipeline::Readers;
use moye_device::tensor::{OneStage, StaticLayout};
use transpose::Landing;

/// Consumer warps.
const MULTIPLY: u32 = 8;
/// Producer warps.
const LOAD: u32 = WARPGROUP / 32;
/// Tiles that are in flight, or being transposed, at the same time.
const LANDINGS: u32 = 2;

/// The configuration of such a product; C is M-contiguous.
pub trait SgemmConfig: Tiled<Operand = f32, Sum = f32, Scalar = f32, Output = f32> {
    /// The contiguous modes of A and of B.
    const MAJORS: [Major; 2];
    /// Registers of a producer thread and of a consumer thread; all 384 threads together take at
    /// most the 64,512 registers with which the block starts.
    const REGISTERS: [u32; 2];
    /// The sink of [`Loop`]: it multiplies the last K tile and stores C.
    type Sink: TileSink + Default;

    /// BLK_M or BLK_N.
    const EXTENTS: [u32; 2] = [Self::TILE.0, Self::TILE.1];
    /// BLK_K.
    const BLK_K: u32 = Self::TILE.2;
    /// Whether A and B are transposed.
    const TRANSPOSED: [bool; 2] = [matches!(Self::MAJORS[0], Major::K), matches!(Self::MAJORS[1], Major::K)];
    /// M and N are multiples of these. Along M, C is stored in 16-byte vectors; along a contiguous
    /// mode, TMA boxes start at 16-byte multiples (any other start is an illegal instruction on an
    /// H200: observed, and refused by the simulator).
    const GRANULES: [u32; 2] = [4, if Self::TRANSPOSED[1] { 1 } else { 4 }];
    /// Bytes of an operand's tile, as TMA counts them.
    const BYTES: [u32; 2] = [4 * Self::EXTENTS[0] * Self::BLK_K, 4 * Self::EXTENTS[1] * Self::BLK_K];
    /// The bytes that TMA loads directly into a stage.
    const DIRECT: u32 =
        Self::BYTES[0] * !Self::TRANSPOSED[0] as u32 + Self::BYTES[1] * !Self::TRANSPOSED[1] as u32;
    /// The boxes of A and of B, from which the host builds the tensor maps.
    const BOXES: [SgemmBox; 2] = [
        SgemmBox::new::<Self::SmemA>(Self::MAJORS[0], Self::BYTES[0]),
        SgemmBox::new::<Self::SmemB>(Self::MAJORS[1], Self::BYTES[1]),
    ];
}

/// The box in which TMA loads a K tile of an operand, (MN, K, batch): into its stage, or into a
/// landing if K is contiguous. If all batches use one matrix, the map has one batch. A map that is
/// built from `tile` also needs `swizzle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SgemmBox {
    /// The contiguous mode.
    pub major: Major,
    /// The box, without its swizzle. Rows of a landing are shorter than the swizzle's span, which
    /// [`TmaCopy`](moye_device::atom::tma::TmaCopy) does not support.
    pub tile: TmaTile,
    /// The swizzle, of the stage or of the landing.
    pub swizzle: Swizzle,
}

impl SgemmBox {
    /// The box of an operand with stages `Smem`, (BLK_MN, BLK_K, PIPE), and tiles of `bytes`.
    const fn new<Smem: StaticLayout>(major: Major, bytes: u32) -> Self {
        let stage = OneStage::<Smem>::LAYOUT; // (BLK_MN, BLK_K)
        let (extent, k) = (stage.extent(0), stage.extent(1));
        let (strides, swizzle) = match major {
            Major::Mn => ([stage.mode(0).at(1), stage.mode(1).at(1), 0], Smem::SWIZZLE),
            Major::K => ([k, 1, 0], Landing::SWIZZLE),
        };
        let shape = IntTuple::flat(&[extent, k, 1]);
        let tile = Layout::new(shape, IntTuple::flat(&strides));
        let tile = TmaTile::new(ComposedLayout::new(Swizzle::NONE, 0, tile), 32);
        assert!(tile.copies() == 1 && tile.bytes() == bytes, "one copy loads a K tile of an operand");
        Self { major, tile, swizzle }
    }
}

/// The readers of a stage are all consumer warps; its fillers the thread that issues TMA copies and
/// the warps that transpose, if there is a transpose.
pub struct ReadersOf<G>(PhantomData<G>);

impl<G: SgemmConfig> Readers for ReadersOf<G> {
    const WARPS: u32 = MULTIPLY;
    const FILLERS: u32 = (G::DIRECT > 0) as u32 + if G::TRANSPOSED[0] || G::TRANSPOSED[1] { LOAD } else { 0 };
}

/// The shared address of the first landing.
pub struct Landings<G>(u32, PhantomData<G>);

impl<G> Clone for Landings<G> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<G> Copy for Landings<G> {}

impl<G: SgemmConfig> Landings<G> {
    /// Bytes of a landing, and of A's part, its start.
    const PARTS: [u32; 2] = [
        G::TRANSPOSED[0] as u32 * transpose::bytes(G::EXTENTS[0])
            + G::TRANSPOSED[1] as u32 * transpose::bytes(G::EXTENTS[1]),
        G::TRANSPOSED[0] as u32 * transpose::bytes(G::EXTENTS[0]),
    ];
}

impl<G: SgemmConfig> SharedStorage for Landings<G> {
    const BYTES: usize = (LANDINGS * Self::PARTS[0]) as usize;
    /// The swizzle's period.
    const ALIGN: usize = 1024;

    type Tensors = Self;

    #[inline(always)]
    unsafe fn at(base: u32) -> Self {
        Self(base, PhantomData)
    }
}

/// A block's shared memory: the stages of A and of B, landings, and the mbarriers of both.
pub type SgemmStorage<G, const STAGES: u32> = StorageOf<Loop<'static, G, STAGES>, <G as SgemmConfig>::Sink>;

/// `c = alpha * a * b`, with one block for each tile of each slice of each batch.
///
/// # Safety
/// All 384 threads of the block call it together, and the kernel declares
/// [`SgemmStorage<G, STAGES>`]. `a` and `b` are maps with [`SgemmConfig::BOXES`]. C is in memory of
/// the device, and overlaps neither; its columns start at multiples of 16 bytes. It has at least
/// one whole tile, 256 x 128, and its extents are multiples of [`SgemmConfig::GRANULES`]: if A and
/// B are smaller, the rest is zeros. Every slice has at least one element of K,
/// `arguments.reserved` is 0, and each extent is at most 2^31 - 256.
#[inline(always)]
pub unsafe fn sgemm<'a, G: SgemmConfig, const STAGES: u32>(
    a: &TensorMap,
    b: &TensorMap,
    arguments: &'a ArgumentsOf<G>,
) where
    G::Sink: Sink<Loop<'a, G, STAGES>, Storage = ()>,
{
    const {
        let (a, b) = (G::SmemA::LAYOUT, G::SmemB::LAYOUT);
        assert!(a.extent(2) == STAGES as i64 && b.extent(2) == STAGES as i64, "the configuration's stages");
        assert!(G::Mma::MMA.threads() as u32 == 32 * MULTIPLY, "the MMA's threads are the consumer warps");
        assert!(G::GRANULES[0].is_multiple_of(4), "tiles must start at vectors of the sink");
        assert!(G::BLK_K == 16, "a landing has 16 elements of a row");
        assert!(
            G::Sink::TAKES_LAST_TILE && G::Sink::ALONG_M,
            "the mainloop leaves the last K tile to the sink"
        );
        let mut i = 0;
        while i < 2 {
            let (stage, extent) = ([a, b][i], G::EXTENTS[i] as i64);
            let column = if G::TRANSPOSED[i] { extent + 4 } else { extent };
            assert!(
                stage.mode(0).at(1) == 1
                    && stage.mode(1).at(1) == column
                    && stage.mode(2).at(1) == 16 * column,
                "stages as TMA and `transpose.rs` fill them"
            );
            i += 1;
        }
        assert!(
            G::EXTENTS[0] == 256 && G::EXTENTS[1] == 128,
            "columns of `RowsOfA` and `RowsOfB`, and 128 rows of B to be transposed"
        );
        assert!(
            128 * G::REGISTERS[0] + 256 * G::REGISTERS[1] <= 64_512,
            "the block's registers: 168 for each of 384 threads"
        );
        assert!(matches!(G::REGISTERS, [72, 216] | [56, 224]), "register counts that `setmaxnreg` supports");
    };
    let thread = thread_idx().x;
    // `warpgroup` is uniform across the warp; the shuffle tells the compiler so.
    let loads = shuffle(FULL_WARP, thread / WARPGROUP, 0) == 32 * MULTIPLY / WARPGROUP;
    let (storage, (), _) = StorageOf::<Loop<'a, G, STAGES>, G::Sink>::take();
    let (sA, sB, landings, stages, landed) = storage; // (BLK_M, BLK_K, PIPE), (BLK_N, BLK_K, PIPE)
    if thread == 0 {
        prefetch_tensor_map(a.pointer());
        prefetch_tensor_map(b.pointer());
        stages.init();
        landed.init();
    }
    sync_threads();
    let mut scheduler = Schedule::new::<G>(arguments);
    if loads {
        match const { G::REGISTERS[0] } {
            72 => decrease_registers::<72>(),
            _ => decrease_registers::<56>(),
        }
        if let Some(tile) = scheduler.next_tile() {
            // This kernel may now read what earlier kernels wrote; the next kernel may start.
            overlap_launches();
            let to = fill::Stages { a: sA.pointer(), b: sB.pointer(), landings };
            fill::fill::<G, STAGES>(to, stages, landed, [a.pointer(), b.pointer()], arguments, &tile);
        }
    } else {
        match const { G::REGISTERS[1] } {
            216 => increase_registers::<216>(),
            _ => increase_registers::<224>(),
        }
        gemm::<Loop<'a, G, STAGES>, _, _, _>(arguments, scheduler, (), G::Sink::default());
    }
}

/// The first row and column of a tile. Blocks at an edge take the last whole tile; the overlap is
/// written twice with the same values, and C is not read.
#[inline(always)]
fn first<G: SgemmConfig>(arguments: &ArgumentsOf<G>, tile: &WorkTile) -> (u32, u32) {
    let [granule_m, granule_n] = const { G::GRANULES };
    let first = (
        moved(tile.m * G::TILE.0, arguments.m, G::TILE.0, true, granule_m),
        moved(tile.n * G::TILE.1, arguments.n, G::TILE.1, true, granule_n),
    );
    #[cfg(not(target_arch = "nvptx64"))]
    assert!(
        first.0 + G::EXTENTS[0] <= arguments.m && first.1 + G::EXTENTS[1] <= arguments.n,
        "tiles are whole: C is {} x {}, with multiples of {granule_m} and {granule_n}, a tile {:?}",
        arguments.m,
        arguments.n,
        G::EXTENTS
    );
    first
}

#[cfg(test)]
mod tests {
    use super::super::{OperandBatches, operand};
    use super::*;
    use moye_sim::TensorElement;

    #[test]
    fn boxes_are_the_stage_or_the_rows_of_a_landing() {
        let boxes = |of: SgemmBox, extent| {
            let tensor = operand(of.major, (extent, 64), 1024, OperandBatches { count: 1, stride: 0 });
            let map = of.tile.tensor_map(TensorElement::F32, 0x1000, &tensor).unwrap();
            (map.box_extents, of.swizzle.bits())
        };
        let [a, b] = sgemm_nn_tma::Tiling::BOXES;
        assert_eq!((boxes(a, 512), boxes(b, 512)), (([256, 16, 1, 1, 1], 0), ([16, 128, 1, 1, 1], 3)));
        let [a, b] = sgemm_tn_tma::Tiling::BOXES;
        assert_eq!((boxes(a, 512), boxes(b, 512)), (([16, 256, 1, 1, 1], 3), ([16, 128, 1, 1, 1], 3)));
    }
}
