//! The gradients of RMSNorm and LayerNorm: a kernel for the gradient of x, which also sums columns
//! for the gradients of weight and bias if its blocks hold the sums, and a kernel of these sums for
//! other rows. The plan determines the order of the sums.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::moments::moments;
use crate::thread;
use moye_device::algorithm::*;
use moye_device::arch::overlap_launches;
use moye_device::prelude::*;

/// The mean of a row in two parts, rounded and rest; one over its deviation; and 0.
pub type Stats = [f32; 4];

/// The strides of the arrays.
#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Strides {
    /// Strides of x.
    pub x: RowStride,
    /// Strides of the gradient of y.
    pub dy: RowStride,
    /// Strides of the weight.
    pub weight: RowStride,
    /// Strides of the gradient that is added.
    pub dsum: RowStride,
    /// Strides of the result.
    pub dx: RowStride,
}

/// `dx` for `y = normed(x) * weight`, by LayerNorm if `center`, else by RMSNorm; plus `dsum`.
/// A block computes `C::ROWS` rows, or a cluster one row. The address of an absent `weight` or
/// `dsum` is 0.
///
/// Shapes that hold [`RowSums`] also write the sums of `dy normed(x)` to `dweight` and of `dy` to
/// `dbias`, a row for each block, or cluster, which steps over the rows; the address of a sum that
/// is not wanted is 0. Other shapes write `stats`, unless its address is 0.
///
/// # Safety
/// `x`, `dy`, `dx` and `dsum` hold `m` rows of `n` elements, `weight` `n`, with the strides `ld`;
/// `stats` holds `m`, `dweight` and `dbias` `n` for each block or cluster. Rows and `weight` are
/// aligned to `C::ALIGN` bytes, and `n` is at most `C::COLUMNS`, times the blocks of a cluster.
/// `dx` is the same as, or disjoint from, each of the others.
#[kernel(
    threads = C::BLOCK,
    // 64 registers a thread with half of the elements, or 128; unaligned rows and chunks may use
    // more.
    min_blocks = if C::ALIGN == 1 || <<C as RowShape>::Blocks as RowBlocks>::CHUNKS { 1 } else { 16_384 / (C::BLOCK * C::ELEMENTS) },
    shared = (
        scratch: SharedArray<f32, RowScratch>,
        of_x: RowStage<T, C, 2>,
        of_dy: RowStage<T, C, 2>,
        sums: RowSums<T, C, 2>
    ),
    instances = norm_backward<
        f32 | f16 | bf16,
        Half8 | Lanes8 | Warp | Block128 | Block256 | Block512 | AnyWarp | AnyBlock512
            | Chunked | AnyChunked
            | #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))] HalfCluster
            | #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))] Cluster512
            | #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))] AnyCluster
    >,
    table = NormBackwardKernels
)]
pub unsafe fn norm_backward<T: Element + Convert<f32>, C: RowShape>(
    x: Global<T>,
    dy: Global<T>,
    weight: Global<T>,
    dsum: Global<T>,
    dx: GlobalMut<T>,
    stats: GlobalMut<Stats>,
    dweight: GlobalMut<f32>,
    dbias: GlobalMut<f32>,
    m: u32,
    n: u32,
    ld: Strides,
    eps: f32,
    center: bool,
) where
    f32: Convert<T>,
{
    overlap_launches();
    let mut team = RowTeam::<C>::new(scratch);
    let load = RowCopy::<T, C>::get_slice(thread_idx().x);
    let next = |team: &RowTeam<C>, tile| {
        of_x.start(&load.partition_s(team.rows_at(x, (m, n), ld.x, tile)));
        of_dy.start(&load.partition_s(team.rows_at(dy, (m, n), ld.dy, tile)));
    };
    next(&team, team.tile());
    let (group, rank) = team.tile();
    let holds = const { RowSums::<T, C, 2>::HOLDS };
    let sums_columns = holds && (dweight.address() != 0 || dbias.address() != 0);
    if sums_columns {
        sums.clear();
    }
    loop {
        let load = RowCopy::<T, C>::get_slice(thread::<C>());
        let (gX, gG) = (team.rows(x, (m, n), ld.x), team.rows(dy, (m, n), ld.dy)); // (BLK_M, BLK_N)
        let tXgX = load.partition_s(gX); // (CPY, CPY_M, CPY_N)
        let mut tXrX = of_x.take(&team, &tXgX); // (CPY, CPY_M, CPY_N)
        let mut tXrG = of_dy.take(&team, &load.partition_s(gG)); // (CPY, CPY_M, CPY_N)
        next(&team, team.next_tile());
        // As in the forward pass. The blocks of a row exchange values once here and once below.
        let (means, squares) = moments(&mut team, &mut tXrX, &tXgX, n, center);
        let scale = math::fast::rsqrt(squares / n as f32 + eps);
        tXrX.apply(|x| x * scale);
        if let Some(row) = team.leader()
            && row < m
            && stats.address() != 0
        {
            stats.write(row, [means[0], means[1], scale, 0.0]);
        }
        if holds && dweight.address() != 0 {
            sums.add(&team, m, 0, &tXrX.zip(&tXrG, f32::mul));
        }
        if holds && dbias.address() != 0 {
            sums.add(&team, m, 1, &tXrG);
        }
        if weight.address() != 0 {
            let gW = team.rows(weight, (m, n), ld.weight); // (BLK_M, BLK_N), of equal rows
            team.apply_loaded(&mut tXrG, &load.partition_s(gW), |g, w| g * w);
        }
        // dx = scale (g - mean(g) - x mean(g x)), for normed x; RMSNorm has no mean(g).
        let products = tXrX.zip(&tXrG, f32::mul).reduce_rows(f32::add)[0];
        let sum = if center { tXrG.reduce_rows(f32::add)[0] } else { 0.0 };
        let [products, sum] = team.sum_in_block([products, sum]);
        let sums_of_row = team.combine_blocks([products, sum], |a, b| [a[0] + b[0], a[1] + b[1]]);
        let [along, mean] = sums_of_row.map(|sum| sum / n as f32);
        tXrG.apply_with(&tXrX, |g, x| scale * (g - mean - x * along));
        if dsum.address() != 0 {
            let gS = team.rows(dsum, (m, n), ld.dsum); // (BLK_M, BLK_N)
            team.apply_loaded(&mut tXrG, &load.partition_s(gS), f32::add);
        }
        let gD = team.rows(dx, (m, n), ld.dx); // (BLK_M, BLK_N)
        team.store(&tXrG, &load.partition_d(gD));
        if !team.step_over(m) {
            break;
        }
    }
    if sums_columns {
        let (sums_of_group, first) = (i64::from(group) * i64::from(n), rank * C::COLUMNS);
        sums.each(|column, both| {
            let column = first + column;
            for (to, sum) in [dweight, dbias].into_iter().zip(both) {
                if to.address() != 0 && column < n {
                    to.write(sums_of_group + i64::from(column), sum);
                }
            }
        });
    }
}

macro_rules! shapes {
    ($($(#[$doc:meta])* $name:ident: ($threads:literal, $block:literal, $elements:literal, $align:literal, $of:ident);)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;
        impl RowShape for $name {
            const THREADS: u32 = $threads;
            const ALIGN: usize = $align;
            type Blocks = $of;
            const ELEMENTS: u32 = $elements;
            const BLOCK: u32 = $block;
        }
    )+ };
}
// Threads of a row and of a block, elements of a thread, alignment, the blocks of a row. A thread
// with half of the elements of moye_device's shapes takes 64 registers for two rows, so that an SM
// runs 1,024 threads.
shapes! {
    /// Eight lanes share a row of at most 128 elements.
    Half8: (8, 128, 16, 16, OneBlock);
    /// A cluster shares a row of at most 8,192 elements a block.
    HalfCluster: (512, 512, 16, 16, ClusterBlocks);
    /// A warp for each row: 256 columns of 8 rows.
    Columns: (32, 256, 8, 16, OneBlock);
    /// [`Columns`] for unaligned rows.
    AnyColumns: (32, 256, 8, 1, OneBlock);
    /// A warp for each row: 128 columns of 32 rows.
    PartialColumns: (32, 1024, 4, 1, OneBlock);
}

static_layout! {
    /// An element for each element of a block's tile: (BLK_N, BLK_M).
    pub Sums<C: RowShape> = layout!((C::COLUMNS as i64, C::ROWS as i64));
}

/// Sums the block's rows for each column, and calls `write` with the column and the sum. Groups of
/// `vector` values of a thread are in neighbouring columns.
///
/// # Safety
/// All threads of the block call it together.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn sum_rows<C: RowShape, L: StaticLayout>(
    values: &Fragment<f32, L>,
    sums: SharedTensor<f32, Sums<C>>,
    vector: u32,
    mut write: impl FnMut(u32, f32),
) {
    let (thread, sums) = (thread_idx().x, sums.pointer());
    let (row, lane) = (thread / C::THREADS, thread % C::THREADS);
    for i in 0..Fragment::<f32, L>::SIZE {
        let column = i as u32 / vector * (C::THREADS * vector) + lane * vector + i as u32 % vector;
        // SAFETY: the threads write disjoint places.
        unsafe { sums.write(row * C::COLUMNS + column, values[i]) };
    }
    sync_threads();
    let mut column = thread;
    while column < C::COLUMNS {
        let mut sum = 0.0;
        for row in 0..C::ROWS {
            // SAFETY: all sums were written before the barrier.
            sum += unsafe { sums.read(row * C::COLUMNS + column) };
        }
        write(column, sum);
        column += C::BLOCK;
    }
    sync_threads();
}

/// Sums of columns over slices of rows: of `dy normed(x)` to `dweight`, of `dy` to `dbias`, `n`
/// for each slice. A block computes `C::COLUMNS` columns of a slice of `tiles` times `C::ROWS`
/// rows; columns vary fastest over blocks. The address of a sum that is not wanted is 0.
///
/// # Safety
/// `x` and `dy` hold `m` rows of `n` elements, `ldx` and `ldg` apart, aligned to `C::ALIGN` bytes;
/// `stats` holds `m`, `dweight` and `dbias` `n` for each slice.
#[kernel(
    threads = C::BLOCK,
    shared = (scratch: SharedArray<f32, RowScratch>, sums: SharedArray<f32, Sums<C>>),
    instances = norm_backward_columns<f32 | f16 | bf16, Columns | AnyColumns>,
    table = ColumnsKernels
)]
pub unsafe fn norm_backward_columns<T: Element + Convert<f32>, C: RowShape>(
    x: Global<T>,
    dy: Global<T>,
    stats: Global<Stats>,
    dweight: GlobalMut<f32>,
    dbias: GlobalMut<f32>,
    m: u32,
    n: u32,
    ldx: RowStride,
    ldg: RowStride,
    tiles: u32,
) {
    overlap_launches();
    let team = RowTeam::<C>::new(scratch);
    let load = RowCopy::<T, C>::get_slice(thread_idx().x);
    let blocks = n.div_ceil(C::COLUMNS);
    let (slice, block) = (block_idx().x / blocks, block_idx().x % blocks);
    let loaded = |tile: u32| {
        let (gX, gG) =
            (team.rows_at(x, (m, n), ldx, (tile, block)), team.rows_at(dy, (m, n), ldg, (tile, block)));
        let mut tXrX = team.load(&load.partition_s(gX)); // (CPY, CPY_M, CPY_N)
        let tXrG = team.load(&load.partition_s(gG)); // (CPY, CPY_M, CPY_N)
        let row = tile * C::ROWS + thread_idx().x / C::THREADS;
        let [mean, rest, scale, _] = if row < m { stats.read(row) } else { [0.0; 4] };
        tXrX.apply(|x| (x - mean - rest) * scale);
        tXrX.apply_with(&tXrG, |x, g| x * g);
        (tXrX, tXrG)
    };
    let (mut tXrW, mut tXrB) = loaded(slice * tiles); // (CPY, CPY_M, CPY_N)
    for tile in 1..tiles {
        let (tXrX, tXrG) = loaded(slice * tiles + tile); // (CPY, CPY_M, CPY_N)
        tXrW.apply_with(&tXrX, f32::add);
        tXrB.apply_with(&tXrG, f32::add);
    }
    let vector = if C::ALIGN == 16 { 16 / T::BYTES as u32 } else { 1 };
    let (first, sums_of_slice) = (block * C::COLUMNS, i64::from(slice) * i64::from(n));
    // Not a loop over both, which would index the fragments at run time.
    sum_rows::<C, _>(&tXrW, sums, vector, |column, sum| {
        if dweight.address() != 0 && first + column < n {
            dweight.write(sums_of_slice + i64::from(first + column), sum);
        }
    });
    sum_rows::<C, _>(&tXrB, sums, vector, |column, sum| {
        if dbias.address() != 0 && first + column < n {
            dbias.write(sums_of_slice + i64::from(first + column), sum);
        }
    });
}

/// The column sums of `m` contiguous rows of partial sums; a block computes 128 columns.
///
/// # Safety
/// `partials` holds `m` rows of `n` elements, and `to` `n`, `ld` apart.
#[kernel(
    threads = PartialColumns::BLOCK,
    shared = (scratch: SharedArray<f32, RowScratch>, sums: SharedArray<f32, Sums<PartialColumns>>),
    instances = norm_backward_sum<f32 | f16 | bf16>,
    table = SumKernels
)]
pub unsafe fn norm_backward_sum<T: Element>(
    partials: Global<f32>,
    to: GlobalMut<T>,
    m: u32,
    n: u32,
    ld: RowStride,
) where
    f32: Convert<T>,
{
    overlap_launches();
    let team = RowTeam::<PartialColumns>::new(scratch);
    let load = RowCopy::<f32, PartialColumns>::get_slice(thread_idx().x);
    let block = block_idx().x;
    let loaded = |tile: u32| {
        let stride = RowStride { row: i64::from(n), element: 1 };
        let gX = team.rows_at(partials, (m, n), stride, (tile, block)); // (BLK_M, BLK_N)
        team.load(&load.partition_s(gX)) // (CPY, CPY_M, CPY_N)
    };
    let mut tXrX = loaded(0); // (CPY, CPY_M, CPY_N)
    // Four tiles in flight; rows out of bounds are 0.
    let mut tile = 1;
    while tile < m.div_ceil(PartialColumns::ROWS) {
        let tXrY = [loaded(tile), loaded(tile + 1), loaded(tile + 2), loaded(tile + 3)];
        for tXrY in tXrY {
            tXrX.apply_with(&tXrY, f32::add);
        }
        tile += 4;
    }
    sum_rows::<PartialColumns, _>(&tXrX, sums, 1, |column, sum| {
        let column = block * PartialColumns::COLUMNS + column;
        if column < n {
            to.write(i64::from(column) * ld.element, sum.convert());
        }
    });
}
