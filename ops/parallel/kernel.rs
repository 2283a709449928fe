//! The kernels, `c = a b^T` on Hopper: A is gathered during the product; partial results are stored
//! in another rank's memory; partial results are added to those of the others; the sum over all
//! ranks, and the stores of a rank's part of it.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::arrivals::{Arrivals, FLAG_BYTES, ShardTiles, Shards};
use moye_device::arch::{Convert, Word as _, Word128, overlap_launches, prefetch_l2, wait_flag};
use moye_device::collective::*;
use moye_device::layout::{layout, tuple};
use moye_device::prelude::*;

/// An operand type with its instructions.
pub trait Half: Boxed + Paired + Convert<f32> + Element<Bits = u16> {
    /// 64 x 256 x 16.
    type Wide: WgmmaAtom<OperandA = u64, D = f32> + 'static;
    /// 64 x 128 x 16.
    type Square: WgmmaAtom<OperandA = u64, D = f32> + 'static;
    /// 64 x 64 x 16.
    type Small: WgmmaAtom<OperandA = u64, D = f32> + 'static;
}
impl Half for bf16 {
    type Wide = SM90_64x256x16_F32BF16BF16_SS;
    type Square = SM90_64x128x16_F32BF16BF16_SS;
    type Small = SM90_64x64x16_F32BF16BF16_SS;
}
impl Half for f16 {
    type Wide = SM90_64x256x16_F32F16F16_SS;
    type Square = SM90_64x128x16_F32F16F16_SS;
    type Small = SM90_64x64x16_F32F16F16_SS;
}

/// A block's tile: the stages of A and B, and the tiled MMA for elements `T`.
pub trait Tiling<T: Half>: 'static {
    /// (BLK_M, 64, PIPE)
    type SmemA: StaticLayout;
    /// (BLK_N, 64, PIPE)
    type SmemB: StaticLayout;
    /// The warpgroups, stacked along M.
    type Mma: StaticTiledMma<Atom: WgmmaAtom<OperandA = u64, D = f32>>;
}

swizzled_layout! {
    /// Rows of 128 bytes in stages.
    pub Smem<const ROWS: i64, const PIPE: i64> =
        shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(tuple!((ROWS, 64, PIPE)));
}
tiled_mma! {
    /// Two warpgroups, stacked along M.
    pub Pair<A: WgmmaAtom>: TiledMma<A> = TiledMma::new(layout!((2, 1, 1)));
}
tiled_mma! {
    /// One warpgroup.
    pub Single<A: WgmmaAtom>: TiledMma<A> = TiledMma::new(layout!((1, 1, 1)));
}
/// 128 x 256.
pub struct Wide;
impl<T: Half> Tiling<T> for Wide {
    type SmemA = Smem<128, 4>;
    type SmemB = Smem<256, 4>;
    type Mma = Pair<T::Wide>;
}
/// 128 x 128.
pub struct Square;
impl<T: Half> Tiling<T> for Square {
    type SmemA = Smem<128, 6>;
    type SmemB = Smem<128, 6>;
    type Mma = Pair<T::Square>;
}
/// 64 x 64, for few rows: many stages, because it is memory-bound.
pub struct Small;
impl<T: Half> Tiling<T> for Small {
    type SmemA = Smem<64, 12>;
    type SmemB = Smem<64, 12>;
    type Mma = Single<T::Small>;
}

/// The copy of a stage of A.
pub type CopyA<T, C> = LoadA<T, <C as Tiling<T>>::SmemA>;
/// The copy of a stage of B.
pub type CopyB<T, C> = LoadB<T, <C as Tiling<T>>::SmemB>;
/// The mainloop of a tiling, with `A` as the source of A's rows.
pub type Loop<T, C, const STAGES: u32, A = TmaTensor<CopyA<T, C>, 2>> = TmaWarpSpecialised<
    T,
    <C as Tiling<T>>::SmemA,
    <C as Tiling<T>>::SmemB,
    <C as Tiling<T>>::Mma,
    STAGES,
    1,
    2,
    A,
>;

/// The extents of a rank's product, and its order of tiles.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Extents {
    /// Rows of A and of C.
    pub m: u32,
    /// Rows of B, columns of C.
    pub n: u32,
    /// Elements of a row of A and of B.
    pub k: u32,
    /// Rows of tiles in a band.
    pub band: u32,
}

/// The prologue of the kernels and their mainloop: `a` by the rows of B.
///
/// # Safety
/// The kernel's contract. All threads of the block call it together.
#[inline(always)]
unsafe fn multiply<T: Half, C: Tiling<T>, const STAGES: u32, A, E, K>(
    a: A,
    b: &TensorMap,
    scheduler: impl TileScheduler,
    epilogue: E,
    sink: K,
) where
    A: RowsOfA<CopyA<T, C>, 2>,
    E: TileEpilogue<Loop<T, C, STAGES, A>>,
    K: Sink<Loop<T, C, STAGES, A>>,
{
    let operands = (a, CopyB::<T, C>::tensor(b));
    // SAFETY: the kernel's contract.
    unsafe { gemm_warp_specialised::<Loop<T, C, STAGES, A>, _, _, _>(operands, scheduler, epilogue, sink) };
}

/// [`multiply`] for all rows of one matrix A.
///
/// # Safety
/// Same contract as [`multiply`].
#[inline(always)]
unsafe fn multiply_all<T: Half, C: Tiling<T>, const STAGES: u32, E, K>(
    a: &TensorMap,
    b: &TensorMap,
    extents: Extents,
    epilogue: E,
    sink: K,
) where
    E: TileEpilogue<Loop<T, C, STAGES>>,
    K: Sink<Loop<T, C, STAGES>>,
{
    let Extents { m, n, k, band } = extents;
    let tiles = Loop::<T, C, STAGES>::tiles((m, n, k), 1);
    let scheduler = Persistent::new(tiles, Loop::<T, C, STAGES>::worker(), band);
    let a = CopyA::<T, C>::tensor(a);
    // SAFETY: the kernel's contract.
    unsafe { multiply::<T, C, STAGES, _, _, _>(a, b, scheduler, epilogue, sink) };
}

/// `c = a b^T` on a persistent grid, where A is this rank's shard and the shards of other ranks,
/// which arrive by copies during the kernel.
///
/// # Safety
/// The maps are of this rank's rows of A, of all shards, and of B, in device memory, built by
/// [`CopyA`] and [`CopyB`]. C's map is built by [`StoreC`], and used if `target.tensor` is set.
/// Each shard has an end and a flag. `target` has all rows, which overlap no operand.
#[kernel(
    threads = Loop::<T, C, STAGES>::THREADS,
    min_blocks = 1,
    shared = StorageOf<Loop<T, C, STAGES>, BoxesToSpans<T, Groups>>,
    instances = (
        gathered_bf16_128x256<bf16, Wide, 4>,
        gathered_bf16_128x128<bf16, Square, 6>,
        gathered_f16_128x256<f16, Wide, 4>,
        gathered_f16_128x128<f16, Square, 6>
    ),
    table = GatheredKernels
)]
pub unsafe fn gathered<T: Half, C: Tiling<T>, const STAGES: u32>(
    own: TensorMap,
    all: TensorMap,
    b: TensorMap,
    c: TensorMap,
    target: Target<T>,
    shards: Shards,
    extents: Extents,
) where
    f32: CopyAs<T>,
{
    let a = Arrivals::new(CopyA::<T, C>::tensor(&own), CopyA::<T, C>::tensor(&all), shards);
    let scheduler = ShardTiles::<Loop<T, C, STAGES>>::new(&shards, extents);
    let c = (target.tensor > 0).then(|| StoreC::<T>::tensor(&c));
    let sink = BoxesToSpans::new(c, extents.m, target, shards.rows);
    multiply::<T, C, STAGES, _, _, _>(a, &b, scheduler, (), sink);
}

/// `c = a b^T` on a persistent grid: partial results for another rank or for the sum over all.
///
/// # Safety
/// The maps are of A, B and C, built by [`CopyA`], [`CopyB`] and [`StoreC`], in memory that the
/// device can access, with extents (M, K), (N, K) and (M, N). C overlaps no operand.
#[kernel(
    threads = Loop::<T, C, STAGES>::THREADS,
    min_blocks = 1,
    shared = StorageOf<Loop<T, C, STAGES>, ThroughTma<T>>,
    instances = (
        partial_bf16_128x256<bf16, Wide, 4>,
        partial_bf16_128x128<bf16, Square, 6>,
        partial_bf16_64x64<bf16, Small, 12>,
        partial_f16_128x256<f16, Wide, 4>,
        partial_f16_128x128<f16, Square, 6>,
        partial_f16_64x64<f16, Small, 12>
    ),
    table = PartialKernels
)]
pub unsafe fn partial<T: Half, C: Tiling<T>, const STAGES: u32>(
    a: TensorMap,
    b: TensorMap,
    c: TensorMap,
    extents: Extents,
) where
    f32: CopyAs<T>,
{
    let sink = ThroughTma::new(StoreC::<T>::tensor(&c));
    multiply_all::<T, C, STAGES, _, _>(&a, &b, extents, (), sink);
}

/// Partial results of other ranks: matrices one after another.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Slots<T: Element> {
    /// The first.
    pub first: Global<T>,
    /// The stride between them in elements.
    pub apart: i64,
    /// Their number.
    pub count: u32,
    /// Rows of each.
    pub rows: u32,
    /// Elements of a row in memory, a multiple of 8.
    pub columns: u32,
}

/// Adds the [`Slots`] to the accumulators in order, so the sum is the same in each run.
#[derive(Clone, Copy, Debug)]
pub struct AddSlots<T: Element>(pub Slots<T>);

impl<M: Mainloop<Accumulator = f32>, T: Half> TileEpilogue<M> for AddSlots<T> {
    type Loaded = ();

    /// Prefetches the tile into L2.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn load(&self, tile: &WorkTile, team: &Team) {
        let Slots { first, apart, count, rows, columns } = self.0;
        let (row, column) = (tile.m * M::TILE.0, tile.n * M::TILE.1);
        for slot in 0..count {
            let mut line = team.thread;
            while line < const { M::TILE.0 * lines_of_row::<M>() } {
                let (below, right) = (line / lines_of_row::<M>(), line % lines_of_row::<M>());
                let (row, column) = (row + below, column + 64 * right);
                if row < rows && column < columns {
                    let at =
                        i64::from(slot) * apart + i64::from(row) * i64::from(columns) + i64::from(column);
                    prefetch_l2(first.offset(at).address());
                }
                line += team.threads;
            }
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn apply(&self, tCrC: &mut Accumulators<M>, (): (), tile: &WorkTile, team: &Team) {
        let Slots { first, apart, count, rows, columns } = self.0;
        let start = (tile.m * M::TILE.0, tile.n * M::TILE.1);
        let at = M::Mma::get_slice(team.thread).coordinates(tCrC, start); // (MMA, MMA_M, MMA_N)
        for slot in 0..count {
            let slot = first.offset(i64::from(slot) * apart);
            // Accumulators are pairs of adjacent elements of a row.
            for i in 0..Accumulators::<M>::SIZE / 2 {
                let (row, column) = at.coordinate(2 * i);
                let place = slot.offset(i64::from(row) * i64::from(columns) + i64::from(column));
                // SAFETY: the slot contains the pair: its rows are multiples of 8 elements.
                let pair = unsafe { u32::load_global_if(row < rows && column < columns, place.address()) };
                tCrC[2 * i] += value::<T>(pair);
                tCrC[2 * i + 1] += value::<T>(pair >> 16);
            }
        }
    }
}

/// The number of cache lines of a tile's row.
const fn lines_of_row<M: Mainloop>() -> u32 {
    M::TILE.1 / 64
}

/// The element in the lower half of a word.
#[inline(always)]
fn value<T: Half>(word: u32) -> f32 {
    Convert::<f32>::convert(T::from_bits(word as u16))
}

/// `c = a b^T` plus the partial results of other ranks, on a persistent grid.
///
/// # Safety
/// The maps are of A and B, as for [`partial`]. C's map is built by [`StoreC`], and used if
/// `target.tensor` is set. `target` has M rows, which overlap no operand. The slots are readable,
/// and no other work writes them meanwhile.
#[kernel(
    threads = Loop::<T, C, STAGES>::THREADS,
    min_blocks = 1,
    shared = StorageOf<Loop<T, C, STAGES>, BoxesToSpans<T, Groups>>,
    instances = (
        reduced_bf16_128x256<bf16, Wide, 4>,
        reduced_bf16_128x128<bf16, Square, 6>,
        reduced_f16_128x256<f16, Wide, 4>,
        reduced_f16_128x128<f16, Square, 6>
    ),
    table = ReducedKernels
)]
pub unsafe fn reduced<T: Half, C: Tiling<T>, const STAGES: u32>(
    a: TensorMap,
    b: TensorMap,
    c: TensorMap,
    target: Target<T>,
    slots: Slots<T>,
    extents: Extents,
) where
    f32: CopyAs<T>,
{
    let c = (target.tensor > 0).then(|| StoreC::<T>::tensor(&c));
    let sink = BoxesToSpans::new(c, extents.m, target, Groups::one(extents.m));
    multiply_all::<T, C, STAGES, _, _>(&a, &b, extents, AddSlots(slots), sink);
}

/// The maximum number of ranks of a group.
pub const MOST_RANKS: usize = 8;

/// An address for each rank.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Addresses {
    /// The address for rank 0.
    pub p0: u64,
    /// See `p0`.
    pub p1: u64,
    /// See `p0`.
    pub p2: u64,
    /// See `p0`.
    pub p3: u64,
    /// See `p0`.
    pub p4: u64,
    /// See `p0`.
    pub p5: u64,
    /// See `p0`.
    pub p6: u64,
    /// See `p0`.
    pub p7: u64,
}

impl Addresses {
    /// The addresses by rank.
    #[inline(always)]
    #[must_use]
    pub const fn all(self) -> [u64; MOST_RANKS] {
        let Self { p0, p1, p2, p3, p4, p5, p6, p7 } = self;
        [p0, p1, p2, p3, p4, p5, p6, p7]
    }
}

impl From<[u64; MOST_RANKS]> for Addresses {
    fn from([p0, p1, p2, p3, p4, p5, p6, p7]: [u64; MOST_RANKS]) -> Self {
        Self { p0, p1, p2, p3, p4, p5, p6, p7 }
    }
}

/// The partial results that [`summed`] adds.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Parts {
    /// The partial results of each rank.
    pub addresses: Addresses,
    /// Their number.
    pub count: u32,
    /// Rows of each.
    pub rows: u32,
    /// Elements of a row in memory, a multiple of 8.
    pub columns: u32,
}

/// The flags of other ranks that a kernel waits for.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Awaited {
    /// The flag of rank 0; those of others follow, [`FLAG_BYTES`] apart.
    pub flags: Global<u32>,
    /// The value that the flags reach.
    pub epoch: u32,
    /// The number of ranks; with 0 the kernel waits for none.
    pub ranks: u32,
    /// This rank, whose flag is not raised.
    pub rank: u32,
}

/// Threads of a block of [`summed`] and of [`pushed`].
pub const SUM_THREADS: u32 = 128;

/// The sum of all ranks' partial results, in rank order: the same bits on all ranks. Each thread
/// sums vectors of eight elements.
///
/// # Safety
/// The parts are readable, and no other work writes them after their ranks' flags. `target` has
/// their rows, in other memory or in that of a part with the same strides. There is a flag for each
/// rank.
#[kernel(
    threads = SUM_THREADS,
    instances = (summed_bf16<bf16>, summed_f16<f16>),
    table = SummedKernels
)]
pub unsafe fn summed<T: Half>(parts: Parts, awaited: Awaited, target: Target<T>) {
    let Parts { addresses, count, rows, columns } = parts;
    let addresses = addresses.all();
    let vectors = columns / 8;
    let mut next = block_idx().x * SUM_THREADS + thread_idx().x;
    overlap_launches();
    for rank in 0..awaited.ranks {
        if rank != awaited.rank {
            wait_flag(awaited.flags.address() + u64::from(rank * FLAG_BYTES), awaited.epoch);
        }
    }
    while next < rows * vectors {
        let (row, column) = (next / vectors, next % vectors * 8);
        let mut loaded = [Word128([0; 4]); MOST_RANKS];
        for rank in 0..MOST_RANKS {
            let address = addresses[rank] + 16 * u64::from(next);
            loaded[rank] = Word128::load_global_if((rank as u32) < count, address);
        }
        let mut sums = [0.0f32; 8];
        for vector in &loaded {
            for i in 0..4 {
                sums[2 * i] += value::<T>(vector.0[i]);
                sums[2 * i + 1] += value::<T>(vector.0[i] >> 16);
            }
        }
        let first = target.c.offset(i64::from(row) * target.row + i64::from(column) * target.column);
        if target.aligned > 0 {
            let mut words = [0; 4];
            for i in 0..4 {
                words[i] = T::pair(sums[2 * i], sums[2 * i + 1]) as u32;
            }
            Word128::store_global_if(column < target.columns, first.address(), Word128(words));
        } else {
            for (i, &sum) in sums.iter().enumerate() {
                if column + (i as u32) < target.columns {
                    let bits = T::pair(sum, 0.0) as u16;
                    first.offset(i as i64 * target.column).write(0, T::from_bits(bits));
                }
            }
        }
        next += grid_dim().x * SUM_THREADS;
    }
}

/// Stores a rank's part of a sum in the memory of the others: `vectors` of 16 bytes from `from` at
/// each address that is not 0.
///
/// # Safety
/// The vectors are readable at `from`, and writable at the addresses, where no other work accesses
/// them meanwhile.
#[kernel(threads = SUM_THREADS)]
pub unsafe fn pushed(from: u64, to: Addresses, vectors: u32) {
    let to = to.all();
    let mut next = block_idx().x * SUM_THREADS + thread_idx().x;
    overlap_launches();
    while next < vectors {
        let at = 16 * u64::from(next);
        let vector = Word128::load_global(from + at);
        #[allow(clippy::needless_range_loop, reason = "loops over arrays of the kernel unroll")]
        for rank in 0..MOST_RANKS {
            Word128::store_global_if(to[rank] > 0, to[rank] + at, vector);
        }
        next += grid_dim().x * SUM_THREADS;
    }
}
