//! Products by `mma.sync` whose stages TMA fills: the older tensor-core instruction in Hopper's
//! pipeline.
//!
//! `mma.sync` reads its operands from registers, so each warp loads fragments from shared memory by
//! `ldmatrix`. The [`mma`](crate::mma) kernels fill that memory by `cp.async`, which all threads
//! issue, with a barrier for each K tile. Here one thread issues TMA copies, and eight consumer
//! warps wait for stages and release them one by one:
//!
//! ```text
//! warpgroup 0          one thread: for each tile, for each 128 bytes of K: acquire a stage, have TMA load A's and B's part
//! warpgroups 1 and 2   eight warps, 2 x 4, of 64 x 64 sums each: ldmatrix of step k + 1 beside the 32 mma.sync of step k; then write C
//! ```
//!
//! No thread computes addresses of copies, and no warp waits for another one's product. Record 7
//! has the rates: 90 % of `mma.sync` from registers alone with zeros, and the power limit with
//! random numbers. `wgmma` is faster, and is what a product uses on sm_90a. These kernels are
//! chosen by name only, for comparison and as a start for other kernels with TMA and `mma.sync`.
//!
//! **When a stage is free.** `ldmatrix` may still be in flight when the next instruction starts,
//! and an arrival at an mbarrier may overtake it: a stage that is released right after the last
//! `ldmatrix` is occasionally overwritten before it is read (record 7: observed with a prototype on
//! an H200). So the arrival depends on the loaded values ([`Consumer::release_read`]).
//!
//! **C** is stored from registers in 16-byte vectors if the epilogue has only `alpha`
//! (`pieces.rs`). Otherwise 2 KB of shared memory for each warp, 16 rows of 32 columns at a time,
//! stage the rows for the full epilogue ([`write_rows`]). Only barriers of the warp are needed, so
//! that one warp stores while the others multiply and the next tile's stages are filled.

use super::config::{Boxes, WARPGROUP};
use super::epilogue::{Part, corner, is_wide, offset};
use super::matmul::load_boxes;
use super::pieces::{blocks_at_once, has_pieces, write_blocks};
use super::schedule::{Job, Schedule, Work};
use super::sharing::{Cut, Sharing};
use super::store::Staging;
use super::words::Corner;
use crate::mma::{Activation, Arguments, Place, Staged, k_major, write_rows};
use core::marker::PhantomData;
use moye_device::algorithm::{CopyDestination, CopySource, copy_tiled, gemm_tiled};
use moye_device::arch::{
    FULL_WARP, Word as _, block_idx, decrease_registers, elect, grid_dim, increase_registers, opaque,
    overlap_launches, prefetch_tensor_map, shuffle, sync_threads, sync_warp, thread_idx,
};
use moye_device::atom::copy::{CopyAtom, SM75_U32x4_LDSM_N};
use moye_device::atom::mma::{AddsInPlace, MmaAtom};
use moye_device::atom::{
    AccumulatorOf, PartitionS, Permutation, StaticTiledCopy, StaticTiledMma, TiledMma, make_tiled_copy_a,
    make_tiled_copy_b,
};
use moye_device::layout::{Layout, Major, Swizzle, layout};
use moye_device::memory::{Element, Shared, SharedArray, SharedStorage, TensorMap, TensorMapPointer};
use moye_device::pipeline::{Consumer, PipelineStorage, Producer, Readers};
use moye_device::tensor::{
    AllButLast, Fragment, Part as PartOfTensor, RegistersMut, SharedTensor, StaticLayout, Tensor,
};

/// Registers of a producer thread and of a consumer thread: 128 * (40 + 2 * 232) are the 64,512
/// with which the block of 384 threads starts.
const FEW: u32 = 40;
/// See [`FEW`].
const MANY: u32 = 232;

/// Rows and columns of C that a warp stages in shared memory at a time: the rows of one
/// instruction, and 32 columns, one for each lane if C is written element by element.
const STRIP: (u32, u32) = (16, 32);
/// Bytes of a strip of accumulators.
const STRIP_BYTES: u32 = STRIP.0 * STRIP.1 * 4;

/// The configuration of such a product: `mma.sync` of 16-bit elements with f32 accumulators, K
/// contiguous in both operands.
pub trait WarpMmaConfig: Sized + 'static {
    /// The element type of A and B, 16 bits.
    type Operand: Element<Bits = u16>;
    /// The element type of C.
    type Output: Staging<f32>;
    /// A block's tile of C, (BLK_M, BLK_N).
    type TileC: StaticLayout;
    /// A's stages in shared memory as TMA leaves them, (BLK_M, BLK_K, PIPE).
    type SmemA: StaticLayout;
    /// B's stages, (BLK_N, BLK_K, PIPE).
    type SmemB: StaticLayout;
    /// The copy of A from shared memory to fragments.
    type CopyA: StaticTiledCopy<Element = Self::Operand>;
    /// The copy of B from shared memory to fragments.
    type CopyB: StaticTiledCopy<Element = Self::Operand>;
    /// The product, by two warpgroups.
    type Mma: StaticTiledMma;

    /// BLK_M.
    const BLK_M: u32 = Self::TileC::LAYOUT.extent(0) as u32;
    /// BLK_N.
    const BLK_N: u32 = Self::TileC::LAYOUT.extent(1) as u32;
    /// BLK_K.
    const BLK_K: u32 = Self::SmemA::LAYOUT.extent(1) as u32;
    /// The boxes in which TMA loads a stage of A and of B.
    const BOXES: [Boxes; 2] = [
        Boxes::new(Self::BLK_M, Self::BLK_K, 1, Major::K),
        Boxes::new(Self::BLK_N, Self::BLK_K, 1, Major::K),
    ];
    /// Consumer warps.
    const WARPS: u32 = Self::Mma::MMA.threads() as u32 / 32;
    /// Threads of a block.
    const THREADS: u32 = WARPGROUP + 32 * Self::WARPS;
    /// Atoms of a warp along M and along N.
    const ATOMS: (u32, u32) = (Self::BLK_M / (16 * WARPS_M), Self::BLK_N / (8 * WARPS_N));
}

/// Consumer warps along M and along N.
const WARPS_M: u32 = 2;
/// See [`WARPS_M`].
const WARPS_N: u32 = 4;

/// The tile's columns in the order of warps: eight of an atom, four warps 64 apart, and eight
/// adjacent atoms of a warp. So a warp has 64 contiguous columns, and writes runs of them.
const COLUMNS_BY_WARPS: Layout = layout!((8, 4, 8):(1, 64, 8));

/// The place of a warp's atom `i` along M in the tile: its first row, and the warp's first column.
#[inline(always)]
const fn place_in_tile(warp: u32, i: u32) -> (u32, u32) {
    (16 * (warp % WARPS_M) + 16 * WARPS_M * i, 64 * (warp / WARPS_M))
}

/// All consumer warps release a stage.
pub struct WarpsOf<G>(PhantomData<G>);

impl<G: WarpMmaConfig> Readers for WarpsOf<G> {
    const WARPS: u32 = G::WARPS;
}

/// A block's shared memory: the stages of A and of B, a strip of accumulators for each consumer
/// warp, and mbarriers.
pub type WarpMmaStorage<G, const STAGES: u32> = (
    SharedArray<<G as WarpMmaConfig>::Operand, <G as WarpMmaConfig>::SmemA>,
    SharedArray<<G as WarpMmaConfig>::Operand, <G as WarpMmaConfig>::SmemB>,
    Strips<G>,
    PipelineStorage<STAGES, WarpsOf<G>>,
);

/// The strips of all warps: shared addresses.
pub struct Strips<G>(u32, PhantomData<G>);

impl<G> Clone for Strips<G> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<G> Copy for Strips<G> {}

impl<G: WarpMmaConfig> SharedStorage for Strips<G> {
    const BYTES: usize = (G::WARPS * STRIP_BYTES) as usize;
    /// The swizzle's period of a strip.
    const ALIGN: usize = 512;

    type Tensors = Self;

    #[inline(always)]
    unsafe fn at(base: u32) -> Self {
        Self(base, PhantomData)
    }
}

moye_device::static_layout! {
    /// A strip of C.
    pub Strip = layout!((16, 32));
}

/// Its accumulators in shared memory, N-contiguous. Threads write pairs of neighbours in four rows
/// at a time; groups of eight are permuted by the row's number modulo 4, so that there are no bank
/// conflicts.
#[derive(Clone, Copy)]
pub struct StripSums;

impl StaticLayout for StripSums {
    const LAYOUT: Layout = layout!((16, 32):(32, 1));
    const SWIZZLE: Swizzle = Swizzle::new(2, 3, 2);
}

/// A warp's strip as [`Staged`] accumulators.
struct StripOf<G>(PhantomData<G>);

impl<G: WarpMmaConfig> Staged for StripOf<G> {
    type Operand = G::Operand;
    type Sum = f32;
    type Scalar = f32;
    type Output = G::Output;
    type TileC = Strip;
    type Sums = StripSums;
    const THREADS: u32 = 32;
}

/// The arguments of a configuration's kernel. `a` and `b` are not read: the tensor maps replace
/// them.
type ArgumentsOf<G> = Arguments<<G as WarpMmaConfig>::Operand, <G as WarpMmaConfig>::Output, f32>;
/// The part of an operand in shared memory for one step along K.
type PartOf<G, L, C> = PartOfTensor<<G as WarpMmaConfig>::Operand, AllButLast<PartitionS<L, C>>>;
type SourceOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Source;
type DestinationOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Destination;
/// The stages of A and of B, (BLK_M, BLK_K, PIPE) and (BLK_N, BLK_K, PIPE).
type StagesOf<G> = (
    SharedTensor<<G as WarpMmaConfig>::Operand, <G as WarpMmaConfig>::SmemA>,
    SharedTensor<<G as WarpMmaConfig>::Operand, <G as WarpMmaConfig>::SmemB>,
);
/// A thread's accumulators, (MMA, MMA_M, MMA_N).
type SumsOf<G> = Fragment<f32, AccumulatorOf<<G as WarpMmaConfig>::TileC, <G as WarpMmaConfig>::Mma>>;

/// `c = activation(alpha * a * b + beta * c + bias)` by a persistent grid.
///
/// # Safety
/// All threads of the block call it together, and the kernel declares [`WarpMmaStorage<G, STAGES>`]
/// and `G::THREADS` threads. `a` and `b` are maps with [`WarpMmaConfig::BOXES`]. The matrices and
/// the bias are in memory of the device, and `c` overlaps no other. Every split has at least one
/// element of K, `arguments.reserved` is 0, and each extent is at most 2^31 - 256.
#[inline(always)]
pub unsafe fn matmul_by_warps<G: WarpMmaConfig, const STAGES: u32>(
    (a, b): (&TensorMap, &TensorMap),
    arguments: &ArgumentsOf<G>,
) where
    <G::Mma as StaticTiledMma>::Atom: MmaAtom<C = f32> + AddsInPlace,
    PartOf<G, G::SmemA, G::CopyA>: CopySource<SourceOf<G::CopyA>>,
    PartOf<G, G::SmemB, G::CopyB>: CopySource<SourceOf<G::CopyB>>,
    for<'a> RegistersMut<'a, G::Operand>:
        CopyDestination<DestinationOf<G::CopyA>> + CopyDestination<DestinationOf<G::CopyB>>,
{
    const {
        assert!(G::WARPS == WARPS_M * WARPS_N, "warps that multiply, as they have the tile");
        assert!(G::BLK_N == 64 * WARPS_N, "a warp has 64 columns");
        assert!(G::BLK_M.is_multiple_of(16 * WARPS_M), "a warp has whole atoms along M");
        assert!(STAGES > 1, "the next stage is waited for before one is released");
        let (a, b) = (G::SmemA::LAYOUT, G::SmemB::LAYOUT);
        assert!(a.extent(2) == STAGES as i64 && b.extent(2) == STAGES as i64, "the configuration's stages");
        let bytes = G::Operand::BYTES as u32;
        assert!(
            G::BOXES[0].bytes() == G::BLK_M * G::BLK_K * bytes
                && G::BOXES[1].bytes() == G::BLK_N * G::BLK_K * bytes,
            "stages are contiguous, as boxes fill them"
        );
        assert!(
            G::Mma::MMA.partition_a(AllButLast::<G::SmemA>::LAYOUT).extent(2) > 1,
            "a stage's first step is loaded while another one is multiplied"
        );
    };
    let thread = thread_idx().x;
    // `warpgroup` is uniform across the warp; the shuffle tells the compiler so.
    let warpgroup = shuffle(FULL_WARP, thread / WARPGROUP, 0);
    // SAFETY: the kernel declares the storage.
    let (s_a, s_b, strips, pipeline) = unsafe { WarpMmaStorage::<G, STAGES>::take() }; // (BLK_M, BLK_K, PIPE), (BLK_N, BLK_K, PIPE)
    if thread == 0 {
        // SAFETY: one thread, and a barrier follows.
        unsafe { pipeline.init() };
    }
    sync_threads();
    // After this wait the kernel may read what earlier kernels wrote; the next kernel may start.
    overlap_launches();
    // SAFETY: each warpgroup takes one branch as a whole; the caller's contract.
    unsafe {
        if warpgroup == 0 {
            decrease_registers::<FEW>();
            if thread < 32 && elect(FULL_WARP) {
                let stages = (s_a.pointer(), s_b.pointer());
                load::<G, STAGES>(pipeline.producer(), stages, (a.pointer(), b.pointer()), arguments);
            }
        } else {
            increase_registers::<MANY>();
            let thread = thread - WARPGROUP;
            let mut consumer = pipeline.consumer();
            let mut schedule = Schedule::new(&job::<G>(arguments));
            while let Some(turn) = schedule.take_next(&job::<G>(arguments)) {
                let sums =
                    multiply::<G, STAGES>(&mut consumer, (s_a, s_b), turn.stages, thread, arguments.reserved);
                write::<G>(&sums, arguments, strips, job::<G>(arguments).work(turn), opaque(thread));
            }
        }
    }
}

/// The block's work, recomputed here so that the compiler does not keep it in registers beside the
/// accumulators.
#[inline(always)]
fn job<G: WarpMmaConfig>(arguments: &ArgumentsOf<G>) -> Job {
    let k = opaque(arguments.k);
    Job {
        cluster: block_idx().x,
        clusters: grid_dim().x,
        extents: (opaque(arguments.m), opaque(arguments.n)),
        tile: (G::BLK_M, G::BLK_N),
        stages: (k.div_ceil(G::BLK_K), opaque(arguments.k_chunk).div_ceil(G::BLK_K)),
        splits: opaque(arguments.splits),
        batches: opaque(arguments.batches),
        cut: Cut::NONE,
    }
}

/// The producer: loads all stages of all tiles.
///
/// # Safety
/// One thread calls it; the kernel's contract.
#[inline(always)]
unsafe fn load<G: WarpMmaConfig, const STAGES: u32>(
    mut producer: Producer<STAGES, 1>,
    (s_a, s_b): (Shared<G::Operand>, Shared<G::Operand>),
    (a, b): (TensorMapPointer, TensorMapPointer),
    arguments: &ArgumentsOf<G>,
) {
    let [boxes_a, boxes_b] = const { G::BOXES };
    let (bytes_a, bytes_b) = const { (G::BOXES[0].bytes(), G::BOXES[1].bytes()) };
    // SAFETY: the maps are as the caller promises. Each stage receives the announced bytes; out of
    // bounds elements are zeros.
    unsafe {
        prefetch_tensor_map(a);
        prefetch_tensor_map(b);
        let mut schedule = Schedule::new(&job::<G>(arguments));
        while let Some(turn) = schedule.take_next(&job::<G>(arguments)) {
            let work = job::<G>(arguments).work(turn);
            let (row, column) = ((work.m * G::BLK_M) as i32, (work.n * G::BLK_N) as i32);
            // A batch stride of 0 means one matrix for all batches.
            let batch_a = if arguments.batch_a == 0 { 0 } else { work.batch as i32 };
            let batch_b = if arguments.batch_b == 0 { 0 } else { work.batch as i32 };
            let mut stage = turn.first;
            while stage < turn.first + turn.stages {
                let k = (stage * G::BLK_K) as i32;
                let filling = producer.acquire(bytes_a + bytes_b);
                let (to_a, to_b) =
                    (s_a.address() + filling.index() * bytes_a, s_b.address() + filling.index() * bytes_b);
                let barrier = filling.barrier();
                load_boxes(boxes_a, a, [row, k, batch_a], (to_a, barrier), None, None);
                load_boxes(boxes_b, b, [column, k, batch_b], (to_b, barrier), None, None);
                stage += 1;
            }
        }
    }
}

/// Multiplies the stages of a tile.
///
/// # Safety
/// All consumer threads call it, each with its number among them; `zero` is 0, as
/// [`Consumer::release_read`] requires; the kernel's contract.
#[inline(always)]
unsafe fn multiply<G: WarpMmaConfig, const STAGES: u32>(
    consumer: &mut Consumer<STAGES, 1>,
    (s_a, s_b): StagesOf<G>,
    stages: u32,
    thread: u32,
    zero: u32,
) -> SumsOf<G>
where
    <G::Mma as StaticTiledMma>::Atom: MmaAtom<C = f32> + AddsInPlace,
    PartOf<G, G::SmemA, G::CopyA>: CopySource<SourceOf<G::CopyA>>,
    PartOf<G, G::SmemB, G::CopyB>: CopySource<SourceOf<G::CopyB>>,
    for<'a> RegistersMut<'a, G::Operand>:
        CopyDestination<DestinationOf<G::CopyA>> + CopyDestination<DestinationOf<G::CopyB>>,
{
    let mma = G::Mma::get_slice(thread);
    let mut t_r_c = mma.accumulator::<G::TileC>(); // (MMA, MMA_M, MMA_N)
    // SAFETY: each step's fragments are loaded before its product.
    let (mut t_r_a, mut t_r_b) = unsafe {
        (
            // (MMA, MMA_M, MMA_K)
            mma.partition_fragment_a(&s_a.slice_last(0)),
            // (MMA, MMA_N, MMA_K)
            mma.partition_fragment_b(&s_b.slice_last(0)),
        )
    };
    let (copy_a, copy_b) = (G::CopyA::get_slice(thread), G::CopyB::get_slice(thread));
    let t_s_r_a = copy_a.partition_s(s_a); // (CPY, MMA_M, MMA_K, PIPE)
    let t_s_r_b = copy_b.partition_s(s_b); // (CPY, MMA_N, MMA_K, PIPE)
    let steps = const { G::Mma::MMA.partition_a(AllButLast::<G::SmemA>::LAYOUT).extent(2) as u32 };
    // Loads the fragments of one step of a stage.
    macro_rules! read {
        ($stage:expr, $step:expr) => {
            // SAFETY: the stage is full.
            unsafe {
                let (stage, step): (u32, u32) = ($stage, $step);
                let (a, b) =
                    (t_s_r_a.slice_last(stage).part_last(step), t_s_r_b.slice_last(stage).part_last(step));
                copy_tiled(G::CopyA::default(), &a, &mut copy_a.retile_d(&mut t_r_a).slice_last(step));
                copy_tiled(G::CopyB::default(), &b, &mut copy_b.retile_d(&mut t_r_b).slice_last(step));
            }
        };
    }
    macro_rules! multiply {
        ($step:expr) => {
            // SAFETY: the step's fragments have been read.
            unsafe { gemm_tiled(G::Mma::default(), &t_r_a.at_last($step), &t_r_b.at_last($step), &mut t_r_c) }
        };
    }
    // All steps of a stage except the last one's product; returns the fragments that were loaded
    // last.
    macro_rules! steps_of {
        ($full:expr) => {{
            let mut step = 0;
            while step < steps - 1 {
                read!($full.index(), step + 1);
                multiply!(step);
                step += 1;
            }
            last_read::<G, _, _>(&t_r_a, &t_r_b, steps - 1)
        }};
    }
    if stages == 0 {
        return t_r_c;
    }
    let mut full = consumer.wait();
    read!(full.index(), 0);
    let mut stage = 1;
    while stage < stages {
        let read = steps_of!(full);
        // The next stage's first fragments are loaded during this one's last product.
        let next = consumer.wait();
        read!(next.index(), 0);
        multiply!(steps - 1);
        // SAFETY: all lanes of a warp, after their last loads.
        unsafe { consumer.release_read(full, read, zero) };
        full = next;
        stage += 1;
    }
    let read = steps_of!(full);
    multiply!(steps - 1);
    // SAFETY: as above.
    unsafe { consumer.release_read(full, read, zero) };
    t_r_c
}

/// A value that depends on every register which `ldmatrix` wrote in a step.
#[inline(always)]
fn last_read<G: WarpMmaConfig, A: StaticLayout, B: StaticLayout>(
    t_r_a: &Fragment<G::Operand, A>, // (MMA, MMA_M, MMA_K)
    t_r_b: &Fragment<G::Operand, B>, // (MMA, MMA_N, MMA_K)
    step: u32,
) -> u32 {
    let (a, b) = (t_r_a.at_last(step), t_r_b.at_last(step));
    let (m, n) = const { G::ATOMS };
    let mut read = 0;
    // SAFETY: the step was loaded. An atom has 8 elements of A and 4 of B in a thread; one element
    // of each depends on its registers.
    unsafe {
        let mut i = 0;
        while i < m {
            read ^= u32::from(a.get(8 * i as usize).to_bits());
            i += 1;
        }
        let mut j = 0;
        while j < n {
            read ^= u32::from(b.get(4 * j as usize).to_bits());
            j += 1;
        }
    }
    read
}

/// Stores the warp's part of a tile.
///
/// # Safety
/// All lanes of the warp call it together; `thread` is the number among the consumer threads; the
/// kernel's contract.
#[inline(always)]
unsafe fn write<G: WarpMmaConfig>(
    sums: &SumsOf<G>, // (MMA, MMA_M, MMA_N)
    arguments: &ArgumentsOf<G>,
    strips: Strips<G>,
    work: Work,
    thread: u32,
) {
    let (warp, lane) = (thread / 32, thread % 32);
    let m = const { G::ATOMS.0 };
    let place = |i: u32| {
        let in_tile = place_in_tile(warp, i);
        (work.m * G::BLK_M + in_tile.0, work.n * G::BLK_N + in_tile.1)
    };
    // Columns out of bounds: the tile's last warps may have no others.
    if place(0).1 >= arguments.n {
        return;
    }
    let part = Part { first: place(0), batch: work.batch, split: work.split };
    let is_plain = arguments.bias.address() == 0 && arguments.activation == Activation::None as u32;
    if is_plain && has_pieces::<(), _, _, _>(arguments) {
        // SAFETY: the caller's contract; the element types match.
        unsafe {
            if is_wide(arguments) {
                write_plain::<G, f32>(sums, arguments.alpha, &corner(arguments, part, true), lane);
            } else {
                write_plain::<G, G::Output>(sums, arguments.alpha, &corner(arguments, part, false), lane);
            }
        }
        return;
    }
    let (base, offset) = (strips.0 + warp * STRIP_BYTES, offset(arguments, part));
    let across = const { 8 * G::ATOMS.1 / STRIP.1 };
    // The bound is known only at run time, so that this stays a loop: its body is long and rarely
    // runs.
    let mut strip = 0;
    while strip < opaque(m * across) {
        let (i, columns) = (strip / across, strip % across * STRIP.1);
        let (row, column) = place(i);
        let first = (row, column + columns);
        if first.0 < arguments.m && first.1 < arguments.n {
            // SAFETY: the strip's memory belongs to the warp, whose lanes synchronise before it is
            // written again and before it is read; each pair belongs to one thread; the caller's
            // contract.
            unsafe {
                sync_warp(FULL_WARP);
                let mut this = 0;
                while this < m * across {
                    // Registers have constant names, so each strip's registers are in a branch of
                    // their own.
                    if this == strip {
                        leave::<G>(sums, (this / across, this % across * (STRIP.1 / 8)), base, lane);
                    }
                    this += 1;
                }
                sync_warp(FULL_WARP);
                let s_c = Tensor::shared(Shared::from_address(base)); // (16, 32)
                write_rows::<StripOf<G>>(arguments, s_c, Place { first, offset, thread: opaque(lane) });
            }
        }
        strip += 1;
    }
}

/// Stores `alpha` times a warp's accumulators from registers, in 16-byte vectors (`pieces.rs`).
///
/// # Safety
/// All lanes of the warp call it together; C [has whole vectors](has_pieces) of elements `O`, and
/// is writable.
#[inline(always)]
unsafe fn write_plain<G: WarpMmaConfig, O: Staging<f32>>(
    sums: &SumsOf<G>, // (MMA, MMA_M, MMA_N)
    alpha: f32,
    corner: &Corner,
    lane: u32,
) {
    let (m, n) = const {
        assert!(G::ATOMS.1.is_multiple_of(blocks_at_once::<O>()), "lanes have pieces of all blocks");
        G::ATOMS
    };
    let mut i = 0;
    while i < m {
        let pair = |block: u32, below: u32| {
            let at = (4 * (i + m * block) + 2 * below) as usize;
            // SAFETY: inside the accumulators.
            let of = |at| unsafe { alpha * sums.get(at) };
            O::pair(of(at), of(at + 1))
        };
        // SAFETY: the caller's contract.
        unsafe { write_blocks::<O>(pair, n, corner, (16 * WARPS_M * i, lane)) };
        i += 1;
    }
}

/// Stores a strip of accumulators in shared memory, as [`StripSums`] arranges them: of atom `i`
/// along M those from atom `j` along N on.
///
/// # Safety
/// The memory from `base` on belongs to the warp, all lanes of which call it.
#[inline(always)]
unsafe fn leave<G: WarpMmaConfig>(sums: &SumsOf<G>, (i, j): (u32, u32), base: u32, lane: u32) {
    let mut block = 0;
    while block < STRIP.1 / 8 {
        let at = 4 * (i + const { G::ATOMS.0 } * (j + block)) as usize;
        let column = 8 * block + 2 * (lane % 4);
        let address = |row: u32| base + 4 * StripSums::SWIZZLE.apply((row * STRIP.1 + column) as i64) as u32;
        // SAFETY: inside the accumulators; the caller's contract; each pair belongs to one thread.
        unsafe {
            u64::store_shared(address(lane / 4), f32::pair(sums.get(at), sums.get(at + 1)));
            u64::store_shared(address(lane / 4 + 8), f32::pair(sums.get(at + 2), sums.get(at + 3)));
        }
        block += 1;
    }
}

/// The configuration and the kernel of each entry.
macro_rules! by_warps {
    ($($(#[$doc:meta])* $name:ident = $t:ty, $atom:ty;)+) => { $(
        /// The kernel of this name, and its configuration.
        pub mod $name {
            use super::*;

            moye_device::static_layout! {
                /// (BLK_M, BLK_N)
                pub TileC = layout!((128, 256));
            }
            moye_device::swizzled_layout! {
                /// A's stages.
                pub SmemA = k_major::<$t>(128, 64, 4);
                /// B's stages.
                pub SmemB = k_major::<$t>(256, 64, 4);
            }
            moye_device::tiled_mma! {
                /// Eight warps of 64 x 64.
                pub Mma: TiledMma<$atom> = TiledMma::permuted(
                    layout!((2, 4, 1)),
                    [Permutation::Tile(32), Permutation::Layout(COLUMNS_BY_WARPS), Permutation::Tile(16)],
                );
            }
            moye_device::tiled_copy! {
                /// A's fragments.
                pub CopyA: TiledCopy<SM75_U32x4_LDSM_N, $t> = make_tiled_copy_a(&Mma::MMA);
                /// B's fragments.
                pub CopyB: TiledCopy<SM75_U32x4_LDSM_N, $t> = make_tiled_copy_b(&Mma::MMA);
            }

            /// The configuration.
            pub struct Tiling;

            impl WarpMmaConfig for Tiling {
                type Operand = $t;
                type Output = $t;
                type TileC = TileC;
                type SmemA = SmemA;
                type SmemB = SmemB;
                type CopyA = CopyA;
                type CopyB = CopyB;
                type Mma = Mma;
            }

            $(#[$doc])*
            ///
            /// A persistent grid of at most one block for each multiprocessor.
            ///
            /// # Safety
            /// The tensor maps are of matrices in memory of the device, with the boxes that
            /// [`WarpMmaConfig::BOXES`] gives for A and B; the map of C and `sharing` are not used.
            /// `c` overlaps no other. Every split has at least one element of K. Each extent is at
            /// most 2^31 - 256.
            #[moye_device::kernel(threads = 384, min_blocks = 1, shared = WarpMmaStorage<Tiling, 4>)]
            pub unsafe fn $name(
                a: TensorMap,
                b: TensorMap,
                _c: TensorMap,
                arguments: Arguments<$t, $t, f32>,
                _sharing: Sharing<f32>,
            ) {
                // SAFETY: the caller's contract.
                unsafe { matmul_by_warps::<Tiling, 4>((&a, &b), &arguments) }
            }
        }
        pub use $name::$name;
    )+ };
}
#[cfg(feature = "matmul-f16")]
by_warps! {
    /// `c = a * b` in f16 with K contiguous in both, f32 accumulators, by `mma.sync` in tiles of
    /// 128 x 256 that TMA loads.
    matmul_f16_tn_tma = half::f16, moye_device::atom::mma::SM80_16x8x16_F32F16F16F32_TN;
}
#[cfg(feature = "matmul-bf16")]
by_warps! {
    /// `c = a * b` in bf16 with K contiguous in both, f32 accumulators, by `mma.sync` in tiles of
    /// 128 x 256 that TMA loads.
    matmul_bf16_tn_tma = half::bf16, moye_device::atom::mma::SM80_16x8x16_F32BF16BF16F32_TN;
}

#[cfg(all(test, feature = "matmul-f16"))]
mod tests {
    use super::matmul_f16_tn_tma::Mma;
    use super::*;
    use moye_device::atom::Operand;

    #[test]
    fn warps_have_the_elements_of_c_that_they_write() {
        let layout = Mma::MMA.layout_tv(Operand::C); // (thread, value) to the index in 32 x 256
        for thread in 0..256u32 {
            for value in 0..32u32 {
                let index = layout.at(i64::from(thread + 256 * value)) as u32;
                let (warp, lane, atom, of_atom) = (thread / 32, thread % 32, value / 4, value % 4);
                let (row, column) = place_in_tile(warp, 0);
                let row = row + lane / 4 + 8 * (of_atom / 2);
                let column = column + 8 * atom + 2 * (lane % 4) + of_atom % 2;
                assert_eq!((index % 32, index / 32), (row, column), "thread {thread}, value {value}");
            }
        }
    }
}
