//! `y = x W^T` of quantised weights for many rows of x, on Hopper: the mainloop is [`Unpacked`],
//! and the sink transposes tiles of y.
#![allow(non_snake_case, reason = "CuTe's names")]

use super::codes::{Code, CodeAs, E4m3, Rows, Weights};
use super::kernel::Finish;
use super::unpacked::{BLK_M, CopyCodes, CopyX, InOrder, Operands, Unpacked, Weight};
use core::marker::PhantomData;
use moye_device::algorithm::{load_vector_if, store_vector_if};
use moye_device::arch::opaque;
use moye_device::atom::mma::{accumulator_column, accumulator_row};
use moye_device::collective::*;
use moye_device::layout::layout;
use moye_device::number::U4;
use moye_device::prelude::*;

/// Rows of W and of x of a box of y.
const BOX: u32 = 64;

swizzled_layout! {
    /// Boxes of the transpose of y, contiguous along rows of W: (64, 64, COUNT).
    pub Boxes<const COUNT: i64> =
        shared_memory_atom(Major::Mn, SwizzleBytes::B128, 16).tile_to_shape(moye_device::tuple!((64, 64, COUNT)));
}
tiled_mma! {
    /// A warpgroup's accumulators in boxes: the same registers.
    pub OfBoxes<T: Boxed>: TiledMma<T::Box> = TiledMma::new(layout!((1, 1, 1)));
}
tiled_copy! {
    /// A box to shared memory.
    pub ToBox<T: Boxed>: TiledCopy<SM90_U16x8_STSM_T, T> = make_tiled_copy_c(&OfBoxes::<T>::MMA);
}
/// The store of a box to the transpose of y, (n, m).
pub type StoreY<T> = TmaCopy<T, OneStage<Boxes<1>>, 2>;

/// A type of activations.
pub trait Activation: Weight<64> + Weight<256> + Boxed {}
impl<T: Weight<64> + Weight<256> + Boxed> Activation for T {}

/// y, and the norm, gate and residual of the product.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Target {
    /// The address of y, of the type of x.
    pub y: u64,
    /// Its rows: there is a tensor map if they are aligned.
    pub rows: Rows,
    /// Rows of x and y.
    pub m: u32,
    /// Rows of W.
    pub n: u32,
    /// Norm, gate and residual; [`linear_gate`] gates.
    pub finish: Finish,
}

/// The split-K slices, and memory for their partial accumulators.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Slices {
    /// The number.
    pub count: u32,
    /// Partial accumulators: [`SplitK::partials`] elements, if there are several slices.
    pub partials: GlobalMut<u32>,
    /// A counter for each tile of a block: 0 before the launch, and 0 after it.
    pub counters: GlobalMut<u32>,
}

/// Adds the residual to the accumulators.
#[derive(Clone, Copy)]
struct Residual<T>(Target, PhantomData<T>);

/// The element of a residual at a row of x and a column.
///
/// # Safety
/// The residual is readable.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
unsafe fn residual<T: Half>(finish: &Finish, row: u32, column: u32, exists: bool) -> f32 {
    let at = i64::from(row) * finish.rows.row + i64::from(column) * finish.rows.element;
    // SAFETY: elements out of bounds are not read.
    unsafe { Global::<T>::from_address(finish.residual).offset(at).read_if(exists) }.convert()
}

/// The rows of W of a thread's accumulators: the first, and 8 more.
#[inline(always)]
fn row_of(tile: &WorkTile, team: &Team) -> u32 {
    tile.m * BLK_M + 16 * (team.thread / 32) + accumulator_row(team.thread % 32)
}

impl<T: Half, M: Mainloop<Accumulator = f32>> TileEpilogue<M> for Residual<T> {
    type Loaded = ();

    #[inline(always)]
    unsafe fn load(&self, _: &WorkTile, _: &Team) {}

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn apply(&self, tCrC: &mut Accumulators<M>, (): (), tile: &WorkTile, team: &Team) {
        let Target { m, n, finish, .. } = self.0;
        if finish.residual == 0 {
            return;
        }
        let first = tile.n * M::TILE.1 + accumulator_column(team.thread % 32);
        for i in 0..Accumulators::<M>::SIZE {
            let of_w = row_of(tile, team) + 8 * (i as u32 / 2 % 2);
            if i % 16 == 0 {
                // Otherwise all elements are loaded first, which takes too many registers.
                sync_warp(FULL_WARP);
            }
            let of_x = opaque(first) + 8 * (i as u32 / 4) + i as u32 % 2;
            // SAFETY: the residual has m rows of n elements.
            tCrC[i] += unsafe { residual::<T>(&finish, of_x, of_w, of_x < m && of_w < n) };
        }
    }
}

/// Stores tiles of the transpose of y by TMA, or element by element.
#[derive(Clone, Copy)]
struct StoreTransposed<T: Boxed> {
    y: TmaTensor<StoreY<T>, 2>,
    target: Target,
}

impl<T, M> Sink<M> for StoreTransposed<T>
where
    T: Boxed + Half,
    f32: Convert<T>,
    M: Mainloop<Accumulator = f32, Mma: StaticTiledMma<Atom: WgmmaAtom>> + 'static,
{
    type Storage = SharedArray<T, Boxes<4>>;

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn store(
        &self,
        tCrC: &Accumulators<M>,
        sY: &StagingOf<Self, M>, // (64, 64, boxes)
        tile: &WorkTile,
        team: &Team,
        _: &mut M,
    ) {
        if !self.target.rows.aligned {
            // SAFETY: y is writable, and one thread stores each element.
            return unsafe { self.store_elements::<M>(tCrC, tile, team) };
        }
        let (thread, warpgroup, barrier) =
            (team.within_warpgroup(), team.warpgroup(), team.warpgroup_barrier());
        let to_box = ToBox::<T>::get_slice(thread);
        let rounded = pack_fragment::<T, _>(tCrC);
        // (CPY, CPY_M, boxes)
        let tBrY = rounded.view_as::<RetileOf<AccumulatorOf<RowOfBoxes<M>, OfBoxes<T>>, ToBox<T>>>();
        for b in 0..const { M::TILE.1 / BOX } {
            let sY = sY.at((.., .., 2 * warpgroup + b % 2)); // (64, 64)
            let numbers =
                (tile.m * const { BLK_M / BOX } + warpgroup, tile.n * const { M::TILE.1 / BOX } + b);
            // SAFETY: a box is overwritten only after TMA has read it for its last store.
            unsafe {
                if b == 0 && const { M::TILE.1 / BOX % 2 == 1 } {
                    reuse_tile::<0>(thread, barrier);
                } else {
                    reuse_tile::<1>(thread, barrier);
                }
                to_box.copy(tBrY.at((.., .., b)), to_box.partition_d(sY));
                store_tile(sY, self.y.at(numbers), thread, barrier);
            }
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn finish(&self, _team: &Team) {
        bulk_wait_group_read::<0>();
    }
}

impl<T: Boxed + Half> StoreTransposed<T>
where
    f32: Convert<T>,
{
    /// Stores a thread's elements.
    ///
    /// # Safety
    /// y is writable, and one thread stores each element.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn store_elements<M: Mainloop<Accumulator = f32>>(
        &self,
        tCrC: &Accumulators<M>,
        tile: &WorkTile,
        team: &Team,
    ) {
        let Target { y, rows, m, n, .. } = self.target;
        let y = GlobalMut::<T>::from_address(y);
        let first = tile.n * M::TILE.1 + accumulator_column(team.thread % 32);
        for i in 0..Accumulators::<M>::SIZE {
            let of_x = opaque(first) + 8 * (i as u32 / 4) + i as u32 % 2;
            let of_w = row_of(tile, team) + 8 * (i as u32 / 2 % 2);
            let at = i64::from(of_x) * rows.row + i64::from(of_w) * rows.element;
            // SAFETY: the element is in bounds, and only this thread writes it.
            unsafe { y.offset(at).write_if(of_x < m && of_w < n, tCrC[i].convert()) };
        }
    }
}

/// `y = x W^T` by a persistent grid of clusters of `CLUSTER` blocks: `N` rows of x and 128 rows of
/// W a block.
///
/// # Safety
/// The maps are of codes (tiles, words), of x (m, k) and, if y's rows are aligned, of the transpose
/// of y (n, m), built by [`CopyCodes`], [`CopyX`] and [`StoreY`], in memory of the device;
/// `weights` has the factors. y and the residual have m rows of n elements; y overlaps no operand
/// but may be the residual. m, n and k are at least 1.
#[kernel(
    threads = Unpacked::<T, Q, N, STAGES, CLUSTER>::THREADS,
    min_blocks = Unpacked::<T, Q, N, STAGES, CLUSTER>::BLOCKS_OF_SM,
    shared = StorageOf<Unpacked<T, Q, N, STAGES, CLUSTER>, StoreTransposed<T>>,
    instances = (
        linear_many_f16_u4_64<f16, U4, 64, 6, 2>,
        linear_many_f16_u4_256<f16, U4, 256, 4, 2>,
        linear_many_f16_u8_64<f16, u8, 64, 10, 2>,
        linear_many_f16_u8_256<f16, u8, 256, 4, 2>,
        linear_many_f16_e4m3_64<f16, E4m3, 64, 10, 2>,
        linear_many_f16_e4m3_256<f16, E4m3, 256, 4, 2>,
        linear_many_bf16_u4_64<bf16, U4, 64, 6, 2>,
        linear_many_bf16_u4_256<bf16, U4, 256, 4, 2>,
        linear_many_bf16_u8_64<bf16, u8, 64, 10, 2>,
        linear_many_bf16_u8_256<bf16, u8, 256, 4, 2>,
        linear_many_bf16_e4m3_64<bf16, E4m3, 64, 10, 2>,
        linear_many_bf16_e4m3_256<bf16, E4m3, 256, 4, 2>
    ),
    table = ManyKernels
)]
pub unsafe fn linear_many<T, Q, const N: i64, const STAGES: u32, const CLUSTER: u32>(
    codes: TensorMap,
    x: TensorMap,
    y: TensorMap,
    weights: Weights,
    target: Target,
    slices: Slices,
) where
    T: Weight<N> + Boxed,
    Q: CodeAs<T> + InOrder,
    f32: Convert<T>,
{
    let operands = Operands {
        codes: CopyCodes::<Q, STAGES>::tensor(&codes),
        x: CopyX::<T, N, STAGES, CLUSTER>::tensor(&x),
        weights,
    };
    let tiles = Unpacked::<T, Q, N, STAGES, CLUSTER>::tiles((target.n, target.m, weights.k), 1);
    let worker = Unpacked::<T, Q, N, STAGES, CLUSTER>::worker();
    let workspace = Workspace { partials: slices.partials, counters: slices.counters };
    let rows = const { 2048 / (BLK_M * CLUSTER) };
    let epilogue = Residual::<T>(target, PhantomData);
    let sink = StoreTransposed { y: StoreY::<T>::tensor(&y), target };
    if const { is_sliced::<Q>(N) } {
        let scheduler = SplitK::new(tiles, worker, rows, slices.count, workspace);
        gemm_warp_specialised::<Unpacked<T, Q, N, STAGES, CLUSTER>, _, _, _>(
            operands, scheduler, epilogue, sink,
        );
    } else {
        let scheduler = Persistent::new(tiles, worker, rows);
        gemm_warp_specialised::<Unpacked<T, Q, N, STAGES, CLUSTER>, _, _, _>(
            operands, scheduler, epilogue, sink,
        );
    }
}

/// Whether the kernel of `rows` rows of x may split K: the fix-up takes registers, which the e4m3
/// kernel of many rows lacks.
pub const fn is_sliced<Q: Code>(rows: i64) -> bool {
    !Q::IS_FLOAT || rows < 256
}

/// Sets counters to 0. Grid: `ceil(count / 256)`.
///
/// # Safety
/// There are `count` counters.
#[kernel(threads = 256)]
pub unsafe fn linear_clear(counters: GlobalMut<u32>, count: u32) {
    let i = block_idx().x * 256 + thread_idx().x;
    counters.offset(i).write_if(i < count, 0);
}

static_layout! {
    /// Gates or ups of a thread: (vector, 1).
    Eight = layout!((8, 1));
}

/// `y = silu(gate) * up + residual` of rows of alternately eight gates and eight ups: a thread
/// computes eight elements. Grid: `(ceil(n / 16 / 256), min(m, 65535))`.
///
/// # Safety
/// `both` has `m` rows of `n` elements, a multiple of 16, at a multiple of 16 bytes; y and the
/// residual have `m` rows of half as many, and do not overlap `both`.
#[kernel(threads = 256, instances = linear_gate<f16 | bf16>, table = GateKernels)]
pub unsafe fn linear_gate<T: Half>(both: Global<T>, target: Target)
where
    f32: Convert<T>,
{
    let Target { y, rows, m, n, finish } = target;
    let (block, y) = (block_idx(), GlobalMut::<T>::from_address(y));
    let (tile, mut row) = (block.x * 256 + thread_idx().x, block.y);
    while tile < n / 16 && row < m {
        let from = both.offset(i64::from(row) * i64::from(n) + i64::from(16 * tile));
        let (mut gates, mut ups) = (Fragment::<T, Eight>::zeros(), Fragment::<T, Eight>::zeros()); // (vector, 1)
        load_vector_if(true, from, &mut gates, 0);
        load_vector_if(true, from.offset(8), &mut ups, 0);
        let (mut gated, ups) = (gates.convert::<f32>(), ups.convert::<f32>());
        for i in 0..8 {
            gated[i] = math::fast::silu(gated[i]) * ups[i];
            // SAFETY: a residual that exists has the element.
            gated[i] += unsafe { residual::<T>(&finish, row, 8 * tile + i as u32, finish.residual != 0) };
        }
        let gated = gated.convert::<T>(); // (vector, 1)
        let at = i64::from(row) * rows.row + i64::from(8 * tile) * rows.element;
        if rows.aligned {
            store_vector_if(true, y.offset(at), &gated, 0);
        } else {
            for i in 0..8 {
                y.offset(at + i as i64 * rows.element).write(0, gated[i]);
            }
        }
        row += grid_dim().y;
    }
}
