//! f32 by fused multiply-adds on Hopper: the warps that multiply do nothing else.
//!
//! The multiply-adds of a product of f32 leave little room beside them: a thread with 16 x 8 sums reads six words of 16 bytes for 128 of them, and
//! every instruction else takes the place of one. The kernels of [`mma`](crate::mma) start copies and turn operands round between
//! multiply-adds. Here other warps do:
//!
//! ```text
//! warps 0 to 7    16 x 16 threads: fragments of step k + 1 from shared memory beside the 128 multiply-adds of step k; then C
//! warps 8 to 11   have TMA load, and turn round what has K contiguous
//! ```
//!
//! **What has M (or N) contiguous** TMA brings into its stage as it is: boxes of (BLK, BLK_K), columns that follow each other.
//!
//! **What has K contiguous lies across**: a stage has M contiguous, so that a thread reads four neighbours at a time. TMA brings it into a
//! *landing*, in rows along K, and 128 threads turn it round from there into the stage (`turn.rs`). That costs the threads that multiply
//! nothing but a little of shared memory's time. Rows begin at multiples of 16 bytes; others are rearranged first.
//!
//! **The warps that load have the higher numbers.** A multiprocessor prefers the warp of the higher number where several can go on, and those that
//! multiply nearly always can: with the numbers the other way round the loading warps, ready, waited some 24 cycles for each instruction,
//! and the others for them (record 14).
//!
//! **Tiles are whole.** Those that would hang over C's edge begin before it, and a C that has no whole tile, or whose extents are no
//! [multiples](SgemmConfig::GRANULES) of words, is a workspace of the caller's. A second loop with checks made twice as much code, and the first one slower (record 14).
//!
//! **Registers.** `ptxas` gives the sums registers so that a multiply-add reads no three from the same bank, as long as those of the loading warps
//! suffice; where they do not, it lays all out anew and looks at banks no more, at a cost of a tenth to a sixth (record 14). So how a
//! configuration shares the block's registers out is measured.

mod family;
mod fill;
mod multiply;
mod turn;

pub use family::*;

use super::config::WARPGROUP;
use crate::mma::{ArgumentsOf, Epilogue, Place, Tiled, columns_of_group, first, tile_of};
use core::marker::PhantomData;
use moye_device::arch::{
    FULL_WARP, block_idx, overlap_launches, prefetch_tensor_map, shuffle, sync_threads, thread_idx,
};
use moye_device::atom::StaticTiledMma;
use moye_device::atom::mma::{AddsInPlace, MmaAtom};
use moye_device::layout::Major;
use moye_device::memory::{SharedArray, SharedStorage, TensorMap};
use moye_device::pipeline::{PipelineStorage, Readers, Warps};
use moye_device::tensor::StaticLayout;

/// Warps that multiply.
const MULTIPLY: u32 = 8;
/// Warps that load.
const LOAD: u32 = WARPGROUP / 32;
/// Tiles of what has K contiguous that are on their way, or turned round, at the same time.
const LANDINGS: u32 = 2;

/// How such a product is tiled. C has M contiguous.
pub trait SgemmConfig: Tiled<Operand = f32, Sum = f32, Scalar = f32, Output = f32> {
    /// Which mode of A and of B is contiguous.
    const MAJORS: [Major; 2];
    /// Registers of a thread that loads, and of one that multiplies: of all 384 together no more than the 64,512 that the block starts with.
    const REGISTERS: [u32; 2];
    /// How C is written, by what multiplies the last tile along K.
    type Epilogue: Epilogue<Self, Parameters = ()>;

    /// Rows of A, or of B, that a block has.
    const EXTENTS: [u32; 2] = [Self::TileC::LAYOUT.extent(0) as u32, Self::TileC::LAYOUT.extent(1) as u32];
    /// What a stage has of K.
    const BLK_K: u32 = Self::TileA::LAYOUT.extent(1) as u32;
    /// Whether A and B are turned round.
    const TURNED: [bool; 2] = [matches!(Self::MAJORS[0], Major::K), matches!(Self::MAJORS[1], Major::K)];
    /// What M and N are multiples of: words of 16 bytes, which C is written by along M, and at which TMA's boxes begin along a contiguous mode (any other place is an
    /// illegal instruction to an H200: seen, and refused by the simulator).
    const GRANULES: [u32; 2] = [4, if Self::TURNED[1] { 1 } else { 4 }];
    /// Bytes of an operand's tile, as TMA counts them.
    const BYTES: [u32; 2] = [4 * Self::EXTENTS[0] * Self::BLK_K, 4 * Self::EXTENTS[1] * Self::BLK_K];
    /// Of those the ones that go straight into a stage.
    const DIRECT: u32 = Self::BYTES[0] * !Self::TURNED[0] as u32 + Self::BYTES[1] * !Self::TURNED[1] as u32;
    /// What TMA loads at a time of A and of B, for the host.
    const BOXES: [SgemmBox; 2] = [
        SgemmBox { major: Self::MAJORS[0], extent: Self::EXTENTS[0], k: Self::BLK_K },
        SgemmBox { major: Self::MAJORS[1], extent: Self::EXTENTS[1], k: Self::BLK_K },
    ];
}

/// What the tensor map of an operand says.
///
/// The map has three dimensions: the operand's contiguous mode, the other one, and batches (1 of them where all batches have the same operand).
/// Where K is contiguous it is swizzled by 128 bytes, and else not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SgemmBox {
    /// Which mode is contiguous.
    pub major: Major,
    /// Elements along M or N.
    pub extent: u32,
    /// Elements along K.
    pub k: u32,
}

/// Who reads and fills a stage: all warps that multiply; the thread that has TMA load, and the warps that turn, as far as there is something to do for them.
pub struct StagesOf<G>(PhantomData<G>);

impl<G: SgemmConfig> Readers for StagesOf<G> {
    const WARPS: u32 = MULTIPLY;
    const FILLERS: u32 = (G::DIRECT > 0) as u32 + if G::TURNED[0] || G::TURNED[1] { LOAD } else { 0 };
}

/// Where what is turned round lands: the shared address of the first landing.
pub struct Landings<G>(u32, PhantomData<G>);

impl<G> Clone for Landings<G> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<G> Copy for Landings<G> {}

impl<G: SgemmConfig> Landings<G> {
    /// Bytes of a landing, and of A's part, which comes first.
    const PARTS: [u32; 2] = [
        G::TURNED[0] as u32 * turn::bytes(G::EXTENTS[0]) + G::TURNED[1] as u32 * turn::bytes(G::EXTENTS[1]),
        G::TURNED[0] as u32 * turn::bytes(G::EXTENTS[0]),
    ];
}

impl<G: SgemmConfig> SharedStorage for Landings<G> {
    const BYTES: usize = (LANDINGS * Self::PARTS[0]) as usize;
    /// What the swizzle repeats after.
    const ALIGN: usize = 1024;

    type Tensors = Self;

    #[inline(always)]
    unsafe fn at(base: u32) -> Self {
        Self(base, PhantomData)
    }
}

/// What a block keeps in shared memory: the stages of A and of B, landings, and mbarriers of both.
pub type SgemmStorage<G, const STAGES: u32> = (
    SharedArray<f32, <G as Tiled>::SmemA>,
    SharedArray<f32, <G as Tiled>::SmemB>,
    Landings<G>,
    PipelineStorage<STAGES, StagesOf<G>>,
    PipelineStorage<LANDINGS, Warps<LOAD>>,
);

/// A block's tile, and its part of K.
#[derive(Clone, Copy)]
struct Job {
    /// Its first row and column.
    first: (u32, u32),
    /// Its batch, and the number of its part of K.
    batch: u32,
    split: u32,
    /// Where its part of K begins.
    from_k: u32,
    /// Tiles along K.
    tiles: u32,
}

/// `c = alpha * a * b`, a block for each tile of each split of each batch.
///
/// # Safety
/// All threads of the block come by together, 384 of them, and the kernel declares [`SgemmStorage<G, STAGES>`]. `a` and `b` are maps of
/// [`SgemmConfig::BOXES`]. C lies in memory of the device, and overlaps neither; its columns begin at multiples of 16 bytes. It has a whole tile at least, of
/// 256 x 128, and its extents are multiples of [`SgemmConfig::GRANULES`]: where A and B have less than that, the rest is zeros. Every split has
/// something of K, `arguments.reserved` is 0, and each extent is at most 2^31 - 256.
#[inline(always)]
pub unsafe fn sgemm<G: SgemmConfig, const STAGES: u32>(
    maps: (&TensorMap, &TensorMap),
    arguments: &ArgumentsOf<G>,
) where
    G::Mma: StaticTiledMma<Atom: MmaAtom<C = f32> + AddsInPlace>,
{
    const {
        let (a, b) = (G::SmemA::LAYOUT, G::SmemB::LAYOUT);
        assert!(a.extent(2) == STAGES as i64 && b.extent(2) == STAGES as i64, "the configuration's stages");
        assert!(
            G::Mma::MMA.threads() as u32 == 32 * MULTIPLY,
            "the warps that multiply, as the block has them"
        );
        assert!(
            <G::Epilogue as Epilogue<G>>::TAKES_LAST_TILE,
            "the epilogue multiplies the last tile along K"
        );
        assert!(
            (G::GRANULES[0] as usize).is_multiple_of(<G::Epilogue as Epilogue<G>>::GRANULE),
            "tiles begin where the epilogue writes words"
        );
        assert!(G::BLK_K == 16, "a landing has 16 numbers of a row");
        let mut i = 0;
        while i < 2 {
            let (stage, extent) = ([a, b][i], G::EXTENTS[i] as i64);
            let column = if G::TURNED[i] { extent + 4 } else { extent };
            assert!(
                stage.mode(0).at(1) == 1
                    && stage.mode(1).at(1) == column
                    && stage.mode(2).at(1) == 16 * column,
                "stages as TMA and `turn.rs` fill them"
            );
            i += 1;
        }
        assert!(
            G::EXTENTS[0] == 256 && G::EXTENTS[1] == 128,
            "columns of `RowsOfA` and `RowsOfB`, and 128 rows of B to be turned round"
        );
        assert!(
            128 * G::REGISTERS[0] + 256 * G::REGISTERS[1] <= 64_512,
            "registers that the block has: 168 for each of 384 threads"
        );
        assert!(
            matches!(G::REGISTERS, [72, 216] | [56, 224]),
            "pairs of numbers of registers that there are instructions for"
        );
    };
    let thread = thread_idx().x;
    // The same in all lanes, and the compiler is to know it.
    let loads = shuffle(FULL_WARP, thread / WARPGROUP, 0) == 32 * MULTIPLY / WARPGROUP;
    // SAFETY: the kernel declares the storage.
    let (s_a, s_b, landings, stages, landed) = unsafe { SgemmStorage::<G, STAGES>::take() }; // (BLK_M, BLK_K, PIPE), (BLK_N, BLK_K, PIPE)
    if thread == 0 {
        // SAFETY: one thread, and a barrier follows; the maps are the kernel's own, and no other kernel writes them.
        unsafe {
            prefetch_tensor_map(maps.0.pointer());
            prefetch_tensor_map(maps.1.pointer());
            stages.init();
            landed.init();
        }
    }
    sync_threads();
    let job = job::<G>(arguments);
    // Whatever the kernel in front writes may be read from here on; what comes behind may prepare itself.
    overlap_launches();
    // SAFETY: each warpgroup goes one way as a whole; the caller's contract.
    unsafe {
        if loads {
            fill::registers::<G>();
            let to = fill::Stages { a: s_a.pointer(), b: s_b.pointer(), landings };
            fill::fill::<G, STAGES>(to, (stages, landed), maps, arguments, job);
        } else {
            multiply::registers::<G>();
            multiply::multiply::<G, STAGES>(stages.consumer(), (s_a, s_b), arguments, job, thread);
        }
    }
}

/// What the block has to do.
#[inline(always)]
fn job<G: SgemmConfig>(arguments: &ArgumentsOf<G>) -> Job {
    let (block, of_grid) = (block_idx().x, block_idx().y);
    // Divisions take longer than all else that is computed here, and the block waits for it: most products need one alone.
    let tiles_n = arguments.n.div_ceil(const { G::EXTENTS[1] });
    let (tile_m, tile_n) = if tiles_n <= const { columns_of_group::<G>() } {
        (block / tiles_n, block % tiles_n)
    } else {
        tile_of::<G>(block, arguments.m, arguments.n)
    };
    let (batch, split) = if arguments.splits == 1 {
        (of_grid, 0)
    } else {
        (of_grid / arguments.splits, of_grid % arguments.splits)
    };
    let from_k = split * arguments.k_chunk;
    let k = (arguments.k - from_k).min(arguments.k_chunk);
    // Blocks at an edge take the last whole tile: C is not read, and what two blocks write is the same.
    let [granule_m, granule_n] = const { G::GRANULES };
    let first = (
        first::<G::TileC, 0>(tile_m, arguments.m, false, granule_m),
        first::<G::TileC, 1>(tile_n, arguments.n, false, granule_n),
    );
    #[cfg(not(target_arch = "nvptx64"))]
    assert!(
        first.0 + G::EXTENTS[0] <= arguments.m && first.1 + G::EXTENTS[1] <= arguments.n,
        "tiles are whole: C has {} x {}, of words of {granule_m} and {granule_n}, a tile {:?}",
        arguments.m,
        arguments.n,
        G::EXTENTS
    );
    Job { first, batch, split, from_k, tiles: k.div_ceil(const { G::BLK_K }) }
}

impl Job {
    /// Where the tile of C is written by a thread.
    #[inline(always)]
    fn place<G: SgemmConfig>(&self, arguments: &ArgumentsOf<G>, thread: u32) -> Place {
        let offset = i64::from(self.batch) * arguments.batch_c + i64::from(self.split) * arguments.split_c;
        Place { first: self.first, batch: self.batch, offset, thread }
    }
}
