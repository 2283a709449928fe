//! The kernel for sm_80: `mma.sync`, `ldmatrix`, `cp.async`.
//!
//! A block computes one tile of queries at a time and loops over the tiles of keys from the last to
//! the first. K and V each have one buffer in shared memory: V is loaded during `S = Q K^T`, the
//! next K during the softmax and `O += P V`. Scores, probabilities and results stay in registers;
//! the accumulators of the first product become P, the operand A of the second.
//!
//! For few query rows a block has several groups of one warp each. All groups compute the same
//! rows, each over different tiles of keys, so that no warp multiplies empty rows. The epilogue
//! reduces their results, as for splits.
//!
//! Functions without a contract have the contract of [`forward`].
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

use super::arguments::{Arguments, Strides};
use super::config::{
    ElementOf, Mma, MmaConfig, ReadK, ReadQ, ReadV, SmemK, SmemQ, SmemV, SmemVt, Storage, TileO, TileS, piece,
};
use super::results::{merge, merge_bytes, write};
use super::rows::Rows;
use super::scores::ThreadScores;
use super::sequence::Span;
use super::softmax::{OnlineSoftmax, scale_rows};
use super::tile::{Tile, Varied};
use moye_device::arch::{
    Convert, FULL_WARP, cp_async_commit, cp_async_wait, opaque, shared_base, sync_threads, sync_warp,
    thread_idx,
};
use moye_device::atom::mma::{accumulator_column, accumulator_row};
use moye_device::atom::{StaticTiledCopy, StaticTiledMma};
use moye_device::collective::TileScheduler;
use moye_device::memory::{Global, SharedArray, SharedStorage};
use moye_device::tensor::StaticLayout;

/// Computes attention for the tiles of queries that `tiles` returns, each over one split of the
/// keys: row tile `m` of query head `n`, and split `k`. `ROWS` is the number of rows per thread: 2
/// for each block of 16 rows of its warp.
///
/// # Safety
/// All elements that `arguments` address are inside their buffers, and `o` and the workspaces
/// overlap nothing else. The head modes of `q`, `k`, `v` and `o` are contiguous, and their
/// addresses and other strides multiples of 16 bytes. The kernel declares `Storage<C>` and is
/// launched with `C::THREADS` threads. Together the blocks compute the tiles of [`Arguments::grid`]
/// for `C::BLK_M` rows.
#[inline(always)]
pub unsafe fn forward<C: MmaConfig, const ROWS: usize>(
    arguments: &Arguments<ElementOf<C>>,
    mut tiles: impl TileScheduler,
) where
    f32: Convert<ElementOf<C>>,
{
    const { assert!(ROWS == 2 * C::BLOCKS) };
    let thread = thread_idx().x;
    // (BLK_M, D), (BLK_N, D, GROUPS), (BLK_N, DV, GROUPS) and where they are
    // The kernel declares the storage.
    let (sQ, sK, sV, s_softmax) = Storage::<C>::take();
    let at_q = shared_base();
    let at_k = place::<SharedArray<ElementOf<C>, SmemQ<C>>, SharedArray<ElementOf<C>, SmemK<C>>>(at_q);
    let at_v = place::<SharedArray<ElementOf<C>, SmemK<C>>, SharedArray<ElementOf<C>, SmemV<C>>>(at_k);
    let (group, in_group) = if C::GROUPS == 1 { (0, thread) } else { (thread / 32, thread % 32) };
    // Computed for each tile: kept, these would occupy registers through the loop.
    let own = || if C::GROUPS == 1 { 0 } else { opaque(thread) / 32 };
    let sK = || sK.at((.., .., own())); // (BLK_N, D)
    let sVt = || sV.with_layout::<SmemVt<C>>().at((.., .., own())); // (DV, BLK_N)
    let at_k_tile = || at_k + own() * const { stage_bytes::<SmemK<C>>() };
    let at_v_tile = || at_v + own() * const { stage_bytes::<SmemV<C>>() };

    let mma = Mma::<C>::get_slice(in_group);
    // Each step loads its part before its product.
    let (mut tSrQ, mut tSrK, mut tOrV) = (
        mma.partition_fragment_a(&sQ),    // (MMA, MMA_M, MMA_K)
        mma.partition_fragment_b(&sK()),  // (MMA, MMA_N, MMA_K)
        mma.partition_fragment_b(&sVt()), // (MMA, MMA_N, MMA_K)
    );
    let keys = C::BLK_N;
    let unit = if C::GENERAL { arguments.unit() } else { arguments.scale };
    let scale_log2 = unit * core::f32::consts::LOG2_E;
    let sync = || if C::GROUPS == 1 { sync_threads() } else { sync_warp(FULL_WARP) };

    let Some(mut of_scheduler) = tiles.next_tile() else { return };
    loop {
        let tile_of_q = Tile::<C, _>::of(arguments, Varied, &tiles.place(of_scheduler));
        if !tile_of_q.exists() {
            let Some(next) = tiles.next_tile() else { return };
            of_scheduler = next;
            continue;
        }
        let (clear, Span { begin, end }) = (tile_of_q.seen_by_all(), tile_of_q.keys);
        let load_q = Rows::new(C::BLK_M, C::D as u32, piece(C::D), C::THREADS, thread);
        let load_k = KeyRows::of(
            &tile_of_q,
            C::D as u32,
            in_group,
            arguments.k.offset(tile_of_q.head(&arguments.stride_k)),
        );
        let load_v = KeyRows::of(
            &tile_of_q,
            C::DV as u32,
            in_group,
            arguments.v.offset(tile_of_q.head(&arguments.stride_v)),
        );
        let mut results = mma.accumulator::<TileO<C>>(); // (MMA, MMA_M, MMA_N)
        let mut softmax = OnlineSoftmax::<ROWS>::new(C::GENERAL, scale_log2);
        // The thread's place for its softmax.
        let at_softmax = || s_softmax.pointer().address() + 16 * opaque(thread_idx().x);
        let further = 16 * C::THREADS;
        if C::SPARE {
            softmax.store(at_softmax(), further);
        }
        // Elements in bounds are readable, by the caller's contract; all threads have arrived here.
        let first_row = tile_of_q.first;
        load_q.load(at_q, |row| (tile_of_q.row_of_q(first_row + row), first_row + row < tile_of_q.rows()));
        // The group's tiles: the last, and every `GROUPS`-th before it.
        let count = (end.saturating_sub(begin) + (C::GROUPS as u32 - 1 - group)) / C::GROUPS as u32;
        let mut tile = end.wrapping_sub(1 + group);
        if count > 0 {
            // No thread uses the buffer of K yet.
            load_k.load(arguments, &arguments.stride_k, at_k_tile(), tile);
        }
        cp_async_commit();
        // With several groups, each reads the queries that all threads have loaded.
        if C::GROUPS > 1 || count == 0 {
            cp_async_wait::<0>();
            sync_threads();
        }
        for left in (0..count).rev() {
            cp_async_wait::<0>();
            sync();
            // All threads of the group have multiplied by the previous V.
            load_v.load(arguments, &arguments.stride_v, at_v_tile(), tile);
            cp_async_commit();

            let mut scores = mma.accumulator::<TileS<C>>(); // (MMA, MMA_M, MMA_N)
            let steps = const { (C::D / 16) as u32 };
            // Computed for each tile: kept, the addresses would take registers through the softmax.
            // The kernels for all options have smaller tiles, and keep them below 256 columns.
            let of_tile = |keep, thread| if keep { thread } else { opaque(thread) };
            let keep = C::GENERAL && C::GROUPS == 1 && C::D < 256;
            let read_q = ReadQ::<C>::get_slice(of_tile(keep, in_group));
            let read_k = ReadK::<C>::get_slice(of_tile(keep, in_group));
            // (CPY, MMA_M, MMA_K), (CPY, MMA_N, MMA_K)
            let (tSsQ, tSsK) = (read_q.partition_s(sQ), read_k.partition_s(sK()));
            // Q and K have arrived for all threads of the group.
            for step in 0..steps {
                read_q.copy(tSsQ.at((.., .., step)), read_q.retile_d(&mut tSrQ).at_mut((.., .., step)));
                read_k.copy(tSsK.at((.., .., step)), read_k.retile_d(&mut tSrK).at_mut((.., .., step)));
                mma.gemm(&mut scores, tSrQ.at((.., .., step)), tSrK.at((.., .., step)));
            }
            let first_key = (tile * keys) as i32;
            let place = || ThreadScores::<C, ROWS> {
                options: tile_of_q.scores(),
                rows: rows_of_thread::<C, ROWS>(opaque(thread)).map(|row| first_row + row),
                key: tile * keys + accumulator_column(opaque(thread)),
            };
            if C::GENERAL {
                place().apply(&mut scores);
            }
            if first_key < clear.begin || first_key + keys as i32 > clear.end {
                place().hide(&mut scores);
            }

            cp_async_wait::<0>();
            sync();
            if left > 0 {
                // All threads of the group have multiplied by this K.
                load_k.load(arguments, &arguments.stride_k, at_k_tile(), tile - C::GROUPS as u32);
                cp_async_commit();
            }

            // V has arrived for all threads of the group.
            if C::SPARE {
                softmax = OnlineSoftmax::load(at_softmax(), further);
            }
            let (factors, _) = softmax.online_softmax::<_, 1, true>(&mut scores, C::SOFTMAX, scale_log2);
            if C::SPARE {
                softmax.store(at_softmax(), further);
            }
            scale_rows(&mut results, factors);
            let read_v = ReadV::<C>::get_slice(of_tile(keep, in_group));
            let tOsV = read_v.partition_s(sVt()); // (CPY, MMA_N, MMA_K)
            let tOrP = mma.as_a(&scores).convert::<ElementOf<C>>(); // (MMA, MMA_M, MMA_K)
            for step in 0..const { C::BLK_N / 16 } {
                read_v.copy(tOsV.at((.., .., step)), read_v.retile_d(&mut tOrV).at_mut((.., .., step)));
                mma.gemm(&mut results, tOrP.at((.., .., step)), tOrV.at((.., .., step)));
            }
            tile = tile.wrapping_sub(C::GROUPS as u32);
        }

        if C::SPARE {
            softmax = OnlineSoftmax::load(at_softmax(), further);
        }
        // Wait until all threads have read the queries, which the results overwrite.
        sync_threads();
        // Recomputed, so that it occupies no registers in the loop.
        let tile_of_q = Tile::of(arguments, Varied, &tiles.place(of_scheduler));
        let rows = rows_of_thread::<C, ROWS>(opaque(thread));
        if C::GROUPS == 1 {
            write(&tile_of_q, thread, rows, (at_q, sQ), &mut results, &softmax);
        } else {
            const { assert!(C::GROUPS == 1 || merge_bytes::<C>() <= buffer_bytes::<C>()) };
            merge(&tile_of_q, thread, rows, at_k, &results, &softmax);
        }
        let Some(next) = tiles.next_tile() else { return };
        // All threads have read the results in shared memory, which the next queries overwrite.
        sync_threads();
        of_scheduler = next;
    }
}

/// A thread's rows of a tile.
#[inline(always)]
fn rows_of_thread<C: MmaConfig, const ROWS: usize>(thread: u32) -> [u32; ROWS] {
    let (warp, lane) = (if C::GROUPS == 1 { thread / 32 } else { 0 }, thread % 32);
    let mut rows = [0; ROWS];
    for row in 0..ROWS {
        rows[row] =
            (row as u32 / 2 * C::WARPS as u32 + warp) * 16 + row as u32 % 2 * 8 + accumulator_row(lane);
    }
    rows
}

/// Rows of a tile for which a thread reads one page number, unless pages are smaller.
const ROWS_OF_PAGE: u32 = 16;

/// The rows of K or of V of one KV head, tile by tile.
struct KeyRows<C: MmaConfig> {
    rows: Rows,
    first: Global<ElementOf<C>>,
    batch: u32,
    keys: u32,
}

impl<C: MmaConfig> KeyRows<C> {
    /// The part of `thread` of rows of `columns` columns; `first` is the first row of the KV head.
    #[inline(always)]
    fn of(tile: &Tile<'_, C, Varied>, columns: u32, thread: u32, first: Global<ElementOf<C>>) -> Self {
        let rows = Rows::new(C::BLK_N, columns, piece(columns.into()), C::GROUP_THREADS, thread);
        Self { rows, first, batch: tile.work.batch, keys: tile.sequence.visible.keys }
    }

    /// Starts copying tile `tile` to the shared address `to`; keys that do not exist become zeros.
    /// The tile's first key exists.
    ///
    /// # Safety
    /// The keys may be read. Until the wait only this copy accesses the destination.
    #[inline(always)]
    unsafe fn load(&self, arguments: &Arguments<ElementOf<C>>, strides: &Strides, to: u32, tile: u32) {
        let key = tile * C::BLK_N;
        // Large tiles, and large heads of one warp, leave no registers to keep the thread's
        // positions between two tiles.
        let part = match C::GENERAL {
            true if C::GROUPS > 1 && C::D >= 192 => self.rows.of(opaque(thread_idx().x) % 32),
            true => self.rows,
            false => self.rows.of(opaque(thread_idx().x)),
        };
        // Read from the parameters each time: kept, it would take registers.
        let stride = i64::from(opaque(strides.row as u32));
        let (mut first, mut row) = (self.first, key);
        if C::GENERAL && arguments.pages.address() != 0 {
            let page_bits = arguments.page.trailing_zeros();
            let pages = arguments.pages.offset(i64::from(self.batch) * arguments.stride_pages);
            let in_page = |key: u32| key & (arguments.page - 1);
            if arguments.page < C::BLK_N {
                // A thread's rows among 16 are in one page, unless pages are smaller. Pages of keys
                // that do not exist are not looked up.
                let (mut loaded, at_once) = (0, part.rows_at_once());
                part.load(to, |row| {
                    let key = key + row;
                    let exists = key < self.keys;
                    if loaded % ROWS_OF_PAGE == 0 || arguments.page < ROWS_OF_PAGE {
                        let page = if exists { pages.read(key >> page_bits) } else { 0 };
                        let offset = i64::from(page) * strides.batch + i64::from(in_page(key)) * stride;
                        first = self.first.offset(offset);
                    }
                    loaded += at_once;
                    let this = first;
                    first = first.offset(i64::from(at_once) * stride);
                    (this.address(), exists)
                });
                return;
            }
            // The tile is in one page: both are powers of two.
            const { assert!(!C::GENERAL || C::BLK_N & (C::BLK_N - 1) == 0) };
            first = first.offset(i64::from(pages.read(key >> page_bits)) * strides.batch);
            row = in_page(key);
        }
        let mut next = first.offset(i64::from(row + part.row) * stride);
        let step = i64::from(part.rows_at_once()) * stride;
        let left = self.keys - key;
        // Counted from the thread's first row, so that the others are compared with constants.
        let of_thread = left as i32 - part.row as i32;
        part.load(to, |row| {
            let this = next;
            next = next.offset(step);
            let exists = if C::GENERAL { row < left } else { of_thread > (row - part.row) as i32 };
            (this.address(), exists)
        });
    }
}

/// The address of the storage `B` that follows the storage `A` at `first`.
#[inline(always)]
fn place<A: SharedStorage, B: SharedStorage>(first: u32) -> u32 {
    (first + A::BYTES as u32).next_multiple_of(B::ALIGN as u32)
}

/// The distance between the tiles of two consecutive groups, in bytes.
const fn stage_bytes<L: StaticLayout>() -> u32 {
    let groups = L::LAYOUT.mode(2);
    if groups.size() > 1 { groups.at(1) as u32 * 2 } else { 0 }
}

/// The bytes of the tiles of keys and values.
const fn buffer_bytes<C: MmaConfig>() -> i64 {
    (SmemK::<C>::LAYOUT.cosize() + SmemV::<C>::LAYOUT.cosize()) * 2
}
