//! Products along the rows of groups on Hopper: the mainloop is [`Filled`] with M- and N-contiguous
//! operands, whose K tiles are a group's rows.
//!
//! TMA would load the next group's rows into a group's last K tile. That tile is therefore loaded
//! from a copy of the group's last rows, with zeros after them.
#![allow(non_snake_case, reason = "CuTe's names")]

use core::marker::PhantomData;
use moye_device::algorithm::CopyAs;
use moye_device::arch::{Word as _, Word128, overlap_launches, wait_for_prior_kernels};
use moye_device::collective::*;
use moye_device::layout::{layout, tuple};
use moye_device::pipeline::Filling;
use moye_device::prelude::*;

/// Rows of a K tile.
pub const ROWS: u32 = 64;
/// Stages of the mainloop.
pub const STAGES: u32 = 4;
/// Threads of a block that copies last rows.
pub const TAIL_THREADS: u32 = 256;
/// Elements of a vector of 16 bytes.
const VECTOR: u32 = 8;

/// An operand type, with its instruction.
pub trait Outer: Boxed + Paired {
    /// 64 x 256 x 16, of M- and N-contiguous operands.
    type Atom: WgmmaAtom<OperandA = u64, D = f32> + 'static;
}
impl Outer for bf16 {
    type Atom = SM90_64x256x16_F32BF16BF16_SS<MN_MAJOR, MN_MAJOR>;
}
impl Outer for f16 {
    type Atom = SM90_64x256x16_F32F16F16_SS<MN_MAJOR, MN_MAJOR>;
}

swizzled_layout! {
    /// Stages of `EXTENT` x 64 elements in blocks of 64 x 64.
    pub Smem<const EXTENT: i64> = shared_memory_atom(Major::Mn, SwizzleBytes::B128, 16)
        .tile_to_shape_ordered(tuple!((EXTENT, ROWS as i64, STAGES as i64)), tuple!((2, 1, 3)));
}
tiled_mma! {
    /// Two warpgroups, stacked along M.
    pub Mma<T: Outer>: TiledMma<T::Atom> = TiledMma::new(layout!((2, 1, 1)));
}

/// The copy of a stage of A, of a tensor (M, K).
pub type CopyA<T> = LoadA<T, Smem<128>>;
/// The copy of a stage of B, of a tensor (N, K).
pub type CopyB<T> = LoadB<T, Smem<256>>;
/// The mainloop.
pub type Loop<T> = Filled<FillRows<T>, Mma<T>, STAGES>;

/// The tensors of A and B.
type Operands<T> = (TmaTensor<CopyA<T>, 2>, TmaTensor<CopyB<T>, 2>);

/// Loads both operands from the rows of a tile's group, and its last rows from their copies.
#[derive(Clone, Copy)]
pub struct FillRows<T: Outer> {
    rows: Operands<T>,
    /// 64 rows of each group.
    tails: Operands<T>,
    groups: Groups,
}

/// The rows of a tile's group.
#[derive(Clone, Copy)]
pub struct GroupRows {
    /// The first row.
    first: u32,
    /// The K tiles that are full.
    whole: u32,
}

impl<T: Outer> Fill<STAGES, 1> for FillRows<T> {
    type Operands = Self;
    type A = T;
    type B = T;
    type StagesA = Smem<128>;
    type StagesB = Smem<256>;
    type Tile = GroupRows;
    const BYTES: u32 = CopyA::<T>::BYTES + CopyB::<T>::BYTES;

    #[inline(always)]
    fn new(operands: Self) -> Self {
        operands
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn tile(&mut self, tile: &WorkTile) -> Self::Tile {
        // SAFETY: the ends of the groups are readable.
        let (first, end) = unsafe { self.groups.of(tile.batch) };
        GroupRows { first, whole: (end - first) / ROWS }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn load(
        &self,
        &GroupRows { first, whole }: &GroupRows,
        tile: &WorkTile,
        k: u32,
        stages: (SharedTensor<T, Smem<128>>, SharedTensor<T, Smem<256>>),
        filling: &Filling,
    ) {
        let ((gA, gB), row) =
            if k < whole { (self.rows, first + ROWS * k) } else { (self.tails, ROWS * tile.batch) };
        let (sA, sB) = filling.of(stages); // (128, 64), (256, 64)
        // SAFETY: the stage is free and expects the bytes of both tiles, whose maps are those of
        // the kernel's contract.
        unsafe {
            CopyA::<T>::get_slice().copy(gA.offset([0, row]).at([tile.m, 0]), sA, filling);
            CopyB::<T>::get_slice().copy(gB.offset([0, row]).at([tile.n, 0]), sB, filling);
        }
    }
}

/// The tiles of all results, group by group: each has the K tiles of its group's rows, at least
/// one.
#[derive(Clone, Copy)]
pub struct RowTiles<T> {
    groups: Groups,
    bands: Bands,
    next: u32,
    elements: PhantomData<T>,
}

impl<T: Outer> RowTiles<T> {
    /// The tiles of this block's worker for a result of M x N for each group, in bands of `rows`
    /// rows of tiles.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn new(groups: Groups, (m, n): (u32, u32), rows: u32) -> Self {
        wait_for_prior_kernels();
        let bands = Bands::new(Loop::<T>::tiles((m, n, ROWS), groups.count), rows);
        Self { groups, bands, next: Loop::<T>::worker().number, elements: PhantomData }
    }
}

impl<T: Outer> TileScheduler for RowTiles<T> {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    fn next_tile(&mut self) -> Option<WorkTile> {
        if self.next >= self.bands.tiles().count() {
            return None;
        }
        let tile = self.bands.work(Loop::<T>::worker(), self.next, (0, 1));
        self.next += Loop::<T>::worker().count;
        // SAFETY: the kernel's contract: the ends are readable.
        let (first, end) = unsafe { self.groups.of(tile.batch) };
        Some(WorkTile { k_end: (end - first).div_ceil(ROWS).max(1), ..tile })
    }
}

/// Results of this many rows, stacked.
#[derive(Clone, Copy)]
pub struct Results(u32);

impl RowSpans for Results {
    #[inline(always)]
    unsafe fn of_tile(&self, tile: &WorkTile, block: u32) -> (u32, u32) {
        let row = tile.m * block;
        (tile.batch * self.0 + row, self.0.saturating_sub(row))
    }

    #[inline(always)]
    fn end(&self, group: u32) -> u32 {
        (group + 1) * self.0
    }
}

/// Copies the rows of a group's last K tile to 64 rows of `padded` elements for each group, with
/// zeros after them, unless the tile is full. Grid: `(64, groups)`.
///
/// # Safety
/// `x` has the groups' rows, `row` elements apart, from a multiple of 16 bytes on, `row` a multiple
/// of 8, and `tails` has room; they are disjoint. There is an end for each group, in nondecreasing
/// order.
#[kernel(threads = TAIL_THREADS)]
pub unsafe fn grouped_k_tails(
    x: Global<u16>,
    row: i64,
    columns: u32,
    tails: GlobalMut<u16>,
    padded: u32,
    groups: Groups,
) {
    overlap_launches();
    let (at, group) = (block_idx().x, block_idx().y);
    let (first, end) = groups.of(group);
    let count = (end - first) % ROWS;
    if count == 0 && end > first {
        return;
    }
    let from = x.offset(i64::from(end - count + at) * row);
    let to = tails.offset(i64::from(group * ROWS + at) * i64::from(padded));
    let mut column = VECTOR * thread_idx().x;
    while column < padded {
        let (from, to) = (from.offset(column), to.offset(column));
        let vector = if column + VECTOR <= columns {
            Word128::load_global_if(at < count, from.address())
        } else {
            from.read_part(if at < count { columns - column } else { 0 })
        };
        Word128::store_global(to.address(), vector);
        column += VECTOR * TAIL_THREADS;
    }
}

/// `c[g] = a[rows of g]^T b[rows of g]` for each group g, by a persistent grid.
///
/// # Safety
/// The maps are of (M, K) and (N, K) in memory of the device, built by [`CopyA`] and [`CopyB`], and
/// those of the [last rows](grouped_k_tails) of both, which an earlier kernel has written. There is
/// an end for each group, in nondecreasing order. The map of C is by [`StoreC`], of all rows of
/// the results, and needed if `target.tensor` is set. `target` has the results, which overlap no
/// operand.
#[kernel(
    threads = Loop::<T>::THREADS,
    min_blocks = 1,
    shared = StorageOf<Loop<T>, BoxesToSpans<T, Results>>,
    instances = (grouped_k_bf16<bf16>, grouped_k_f16<f16>),
    table = GroupedKKernels
)]
pub unsafe fn grouped_k<T: Outer>(
    a: TensorMap,
    b: TensorMap,
    tails_a: TensorMap,
    tails_b: TensorMap,
    c: TensorMap,
    target: Target<T>,
    groups: Groups,
    m: u32,
    n: u32,
    band: u32,
) where
    f32: CopyAs<T>,
{
    let rows = (CopyA::<T>::tensor(&a), CopyB::<T>::tensor(&b));
    let tails = (CopyA::<T>::tensor(&tails_a), CopyB::<T>::tensor(&tails_b));
    let scheduler = RowTiles::<T>::new(groups, (m, n), band);
    let c = (target.tensor > 0).then(|| StoreC::<T>::tensor(&c));
    let sink = BoxesToSpans::new(c, groups.count * m, target, Results(m));
    let fill = FillRows { rows, tails, groups };
    gemm_warp_specialised::<Loop<T>, _, _, _>(fill, scheduler, (), sink);
}
