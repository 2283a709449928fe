//! Faults of copies and products that run concurrently with their thread.

use super::{Case, Told, check_all, word};
use crate::wgmma::{S8, descriptor};
use moye_sim::Access::{
    BulkDestination, BulkSource, CpAsyncDestination, CpAsyncSource, Read, StoreAsync, WgmmaOperand, Write,
};
use moye_sim::FaultKind;
use moye_sim::RaceThreads::{Block, Cluster};
use moye_sim::intrinsics::*;

fn at(word: u32) -> u32 {
    shared_base() + 1024 + 4 * word
}

/// An mbarrier.
fn mbarrier(number: u32) -> u32 {
    shared_base() + 8 * number
}

/// Initialises mbarriers of these counts, and announces them to all threads.
fn make_mbarriers<const N: usize>(counts: [u32; N]) {
    if thread_idx().x == 0 {
        counts.into_iter().zip(0..).for_each(|(count, number)| mbarrier_init(mbarrier(number), count));
    }
    sync_threads();
}

fn copied_tile_without_barrier(right: bool, data: u64) {
    let t = thread_idx().x;
    cp_async(at(t), word(data, t), 4, 4); // copied_tile_without_barrier
    cp_async_wait_all();
    if right {
        sync_threads();
    }
    load_shared::<u32>(at((t + 32) % 64)); // copied_tile_without_barrier
}

fn wait_behind_the_barrier(right: bool, data: u64) {
    let t = thread_idx().x;
    cp_async(at(t), word(data, t), 4, 4); // wait_behind_the_barrier
    cp_async_commit();
    if right {
        cp_async_wait_group(0);
    }
    sync_threads();
    if !right {
        cp_async_wait_group(0);
    }
    load_shared::<u32>(at((t + 32) % 64)); // wait_behind_the_barrier
}

fn stage_copied_over(right: bool, data: u64) {
    let t = thread_idx().x;
    store_shared(at(t), t);
    sync_threads();
    load_shared::<u32>(at((t + 32) % 64)); // stage_copied_over
    if right {
        sync_threads();
    }
    cp_async(at(t), word(data, t), 4, 4); // stage_copied_over
    cp_async_wait_all();
}

fn one_group_too_few(right: bool, data: u64) {
    // The thread reads its own copy of the second group, but has waited only for the first.
    let t = thread_idx().x;
    for group in 0..2 {
        cp_async(at(64 * group + t), word(data, t), 4, 4);
        cp_async_commit();
    }
    cp_async_wait_group(if right { 0 } else { 1 });
    load_shared::<u32>(at(64 + t)); // one_group_too_few
}

fn source_written_meanwhile(right: bool, data: u64) {
    let t = thread_idx().x;
    store_global(word(data, t), t); // source_written_meanwhile
    if right {
        sync_threads();
    }
    cp_async(at(t), word(data, (t + 32) % 64), 4, 4); // source_written_meanwhile
    cp_async_wait_all();
}

fn full_not_awaited(right: bool, _: u64) {
    // A producer warp fills, a consumer warp reads.
    make_mbarriers([32]);
    let t = thread_idx().x;
    if t < 32 {
        store_shared(at(t), t); // full_not_awaited
        mbarrier_arrive(mbarrier(0));
    } else {
        if right {
            mbarrier_wait_parity(mbarrier(0), 0);
        }
        load_shared::<u32>(at(t - 32)); // full_not_awaited
    }
}

fn empty_not_awaited(right: bool, _: u64) {
    make_mbarriers([32, 32, 32]);
    let t = thread_idx().x;
    for turn in 0..2 {
        let full = mbarrier(2 * turn);
        if t < 32 {
            if right {
                mbarrier_wait_parity(mbarrier(1), turn ^ 1);
            }
            store_shared(at(t), t + turn); // empty_not_awaited
            mbarrier_arrive(full);
        } else {
            mbarrier_wait_parity(full, 0);
            load_shared::<u32>(at(t - 32)); // empty_not_awaited
            mbarrier_arrive(mbarrier(1));
        }
    }
}

fn released_by_one_lane(right: bool, _: u64) {
    // One lane arrives for the warp, which it has not met.
    make_mbarriers([32, 1]);
    let t = thread_idx().x;
    for turn in 0..2 {
        if t < 32 {
            mbarrier_wait_parity(mbarrier(1), turn ^ 1);
            store_shared(at(t), t + turn); // released_by_one_lane
            mbarrier_arrive(mbarrier(0));
        } else {
            mbarrier_wait_parity(mbarrier(0), turn);
            load_shared::<u32>(at(t - 32)); // released_by_one_lane
            if right {
                sync_warp(u32::MAX);
            }
            if t == 32 {
                mbarrier_arrive(mbarrier(1));
            }
        }
    }
}

fn bulk_copy_over_reads(right: bool, data: u64) {
    // A thread loads 128 bytes by bulk copies, twice; another one reads.
    make_mbarriers([1, 1, 1]);
    let t = thread_idx().x;
    for turn in 0..2 {
        let full = mbarrier(2 * turn);
        if t == 0 {
            if right {
                mbarrier_wait_parity(mbarrier(1), turn ^ 1);
            }
            mbarrier_arrive_expect_tx(full, 128);
            bulk_load(at(0), data, 128, full, None); // bulk_copy_over_reads
            if turn == 0 {
                mbarrier_wait_parity(full, 0);
            }
        } else if t == 32 {
            mbarrier_wait_parity(full, 0);
            load_shared::<u32>(at(5)); // bulk_copy_over_reads
            mbarrier_arrive(mbarrier(1));
        }
    }
}

fn bulk_copy_read_by_another_warp(right: bool, data: u64) {
    make_mbarriers([1]);
    let t = thread_idx().x;
    if t == 0 {
        mbarrier_arrive_expect_tx(mbarrier(0), 128);
        bulk_load(at(0), data, 128, mbarrier(0), None);
    }
    sync_threads();
    if t < 32 || right {
        mbarrier_wait_parity(mbarrier(0), 0);
    }
    load_shared::<u32>(at(t % 32)); // bulk_copy_read_by_another_warp
}

fn bulk_store_unfenced(right: bool, data: u64) {
    let t = thread_idx().x;
    store_shared(at(t), t);
    if right {
        fence_proxy_async();
    }
    sync_threads();
    if t == 0 {
        bulk_store(data, at(0), 256); // bulk_store_unfenced
        bulk_commit();
        bulk_wait_group(0);
    }
}

fn bulk_store_without_barrier(right: bool, data: u64) {
    let t = thread_idx().x;
    store_shared(at(t), 0_u32);
    sync_threads();
    store_shared(at(t), t + 1); // bulk_store_without_barrier
    fence_proxy_async();
    if right {
        sync_threads();
    } else {
        sync_warp(u32::MAX);
    }
    if t == 0 {
        bulk_store(data, at(0), 256); // bulk_store_without_barrier
        bulk_commit();
        bulk_wait_group(0);
    }
    if right {
        sync_threads();
    }
}

fn written_while_stored(right: bool, data: u64) {
    let t = thread_idx().x;
    store_shared(at(t), t);
    fence_proxy_async();
    sync_threads();
    if t == 0 {
        bulk_store(data, at(0), 256);
        bulk_commit();
        if right {
            bulk_wait_group_read(0);
        }
    }
    sync_threads();
    if t == 32 {
        store_shared(at(5), 9_u32); // written_while_stored
    }
    sync_threads();
    if t == 0 && !right {
        bulk_wait_group_read(0);
    }
}

fn stores_left(right: bool, data: u64) {
    let t = thread_idx().x;
    store_shared(at(t), t);
    fence_proxy_async();
    sync_threads();
    if t == 0 {
        bulk_store(data, at(0), 256);
        bulk_commit();
        if right {
            bulk_wait_group_read(0);
        }
    }
}

/// Operands of one instruction: 80 rows of 32 bytes.
fn fill_operands(value: u32) {
    let t = thread_idx().x;
    if t < 80 {
        store_shared(at(8 * t), [value; 4]);
        store_shared(at(8 * t + 4), [value; 4]);
    }
}

/// Multiplies, and waits if `waits`.
fn multiply(product: impl Fn(&mut [u32], WgmmaA, u64), waits: bool) -> [u32; 8] {
    let mut d = [0; 8];
    wgmma_fence();
    product(&mut d, WgmmaA::Shared(descriptor(at(0))), descriptor(at(512)));
    wgmma_commit_group();
    if waits {
        wgmma_wait_group(0);
    }
    d
}

fn operands_unfenced(right: bool, _: u64) {
    fill_operands(1);
    if right {
        fence_proxy_async();
    }
    sync_threads();
    multiply(
        |d, a, b| wgmma(&S8, d, a, b, false), // operands_unfenced
        true,
    );
}

fn operands_without_barrier(right: bool, _: u64) {
    fill_operands(0);
    fence_proxy_async();
    sync_threads();
    if thread_idx().x == 70 {
        store_shared(at(8), 1_u32); // operands_without_barrier
    }
    fence_proxy_async();
    if right {
        sync_threads();
    }
    multiply(
        |d, a, b| wgmma(&S8, d, a, b, false), // operands_without_barrier
        true,
    );
}

fn operands_overwritten(right: bool, _: u64) {
    fill_operands(1);
    fence_proxy_async();
    sync_threads();
    let product = |d: &mut [u32], a, b| wgmma(&S8, d, a, b, false);
    multiply(product, right);
    sync_threads();
    if thread_idx().x == 0 {
        store_shared(at(0), 5_u32); // operands_overwritten
    }
    sync_threads();
    if !right {
        wgmma_wait_group(0);
    }
}

fn no_wgmma_fence(right: bool, _: u64) {
    fill_operands(1);
    fence_proxy_async();
    sync_threads();
    let mut d = [0; 8];
    if right {
        wgmma_fence();
    }
    wgmma(&S8, &mut d, WgmmaA::Shared(descriptor(at(0))), descriptor(at(512)), false); // no_wgmma_fence
    wgmma_commit_group();
    wgmma_wait_group(0);
}

fn peer_read_without_barrier(right: bool, _: u64) {
    let t = thread_idx().x;
    store_shared(at(t), t); // peer_read_without_barrier
    let meet = || {
        cluster_arrive();
        cluster_wait();
    };
    if right {
        meet();
    } else {
        sync_threads();
    }
    load_shared_cluster::<u32>(map_shared(at(t), 1 - cluster_rank())); // peer_read_without_barrier
    meet();
}

fn relaxed_arrival(right: bool, _: u64) {
    let t = thread_idx().x;
    store_shared(at(t), t); // relaxed_arrival
    if right {
        cluster_arrive();
    } else {
        cluster_arrive_relaxed();
    }
    cluster_wait();
    load_shared_cluster::<u32>(map_shared(at(t), 1 - cluster_rank())); // relaxed_arrival
    cluster_arrive();
    cluster_wait();
}

fn peer_written_while_it_reads(right: bool, _: u64) {
    let t = thread_idx().x;
    let meet = || {
        cluster_arrive();
        cluster_wait();
    };
    store_shared(at(t), t);
    meet();
    load_shared::<u32>(at(t)); // peer_written_while_it_reads
    if right {
        meet();
    }
    store_shared_cluster(map_shared(at(t), 1 - cluster_rank()), t + 1); // peer_written_while_it_reads
    meet();
}

fn sent_over_reads(right: bool, _: u64) {
    // Each block stores words into memory that the other still reads.
    make_mbarriers([1]);
    let t = thread_idx().x;
    let meet = || {
        cluster_arrive();
        cluster_wait();
    };
    store_shared(at(t), t);
    if t == 0 {
        mbarrier_arrive_expect_tx(mbarrier(0), 4);
    }
    meet();
    if t == 40 {
        load_shared::<u32>(at(3)); // sent_over_reads
    }
    if right {
        meet();
    }
    if t == 0 {
        let other = 1 - cluster_rank();
        store_async(map_shared(at(3), other), 9_u32, map_shared(mbarrier(0), other)); // sent_over_reads
    }
    mbarrier_wait_parity(mbarrier(0), 0);
    meet();
}

pub const CASES: &[Case] = &[
    Case::race("copied_tile_without_barrier", copied_tile_without_barrier, Block, [CpAsyncDestination, Read]),
    Case::race("wait_behind_the_barrier", wait_behind_the_barrier, Block, [CpAsyncDestination, Read]),
    Case::race("stage_copied_over", stage_copied_over, Block, [CpAsyncDestination, Read]),
    Case::new(
        "one_group_too_few",
        one_group_too_few,
        Told::Fault(|kind| matches!(kind, FaultKind::SharedInFlight { what: "cp.async", .. })),
    ),
    Case::race("source_written_meanwhile", source_written_meanwhile, Block, [CpAsyncSource, Write]),
    Case::race("full_not_awaited", full_not_awaited, Block, [Write, Read]),
    Case::race("empty_not_awaited", empty_not_awaited, Block, [Write, Read]),
    Case::race("released_by_one_lane", released_by_one_lane, Block, [Write, Read]),
    Case::race("bulk_copy_over_reads", bulk_copy_over_reads, Block, [BulkDestination, Read]),
    Case::new(
        "bulk_copy_read_by_another_warp",
        bulk_copy_read_by_another_warp,
        Told::Fault(|kind| matches!(kind, FaultKind::SharedNotAwaited { .. })),
    ),
    Case::new(
        "bulk_store_unfenced",
        bulk_store_unfenced,
        Told::Fault(|kind| matches!(kind, FaultKind::SharedUnfenced { access: BulkSource, .. })),
    ),
    Case::race("bulk_store_without_barrier", bulk_store_without_barrier, Block, [BulkSource, Write]),
    Case::new(
        "written_while_stored",
        written_while_stored,
        Told::Fault(|kind| matches!(kind, FaultKind::SharedBeingRead { .. })),
    ),
    Case::new(
        "stores_left",
        stores_left,
        Told::Nowhere(|kind| matches!(kind, FaultKind::BulkCopiesLeft { copies: 1 })),
    ),
    Case::new(
        "operands_unfenced",
        operands_unfenced,
        Told::Fault(|kind| matches!(kind, FaultKind::SharedUnfenced { access: WgmmaOperand, .. })),
    )
    .threads(128),
    Case::new(
        "operands_without_barrier",
        operands_without_barrier,
        // Whichever comes first.
        Told::Fault(|kind| matches!(kind, FaultKind::Race(_) | FaultKind::SharedBeingRead { .. })),
    )
    .threads(128),
    Case::new(
        "operands_overwritten",
        operands_overwritten,
        Told::Fault(|kind| matches!(kind, FaultKind::SharedBeingRead { .. })),
    )
    .threads(128),
    Case::new(
        "no_wgmma_fence",
        no_wgmma_fence,
        Told::Fault(|kind| matches!(kind, FaultKind::InvalidOperand { .. })),
    )
    .threads(128),
    Case::race("peer_read_without_barrier", peer_read_without_barrier, Cluster, [Write, Read]).cluster(2),
    Case::race("relaxed_arrival", relaxed_arrival, Cluster, [Write, Read]).cluster(2),
    Case::race("peer_written_while_it_reads", peer_written_while_it_reads, Cluster, [Write, Read]).cluster(2),
    Case::new(
        "sent_over_reads",
        sent_over_reads,
        // After the arrival of the word, the fault is `SharedNotAwaited`.
        Told::Fault(|kind| match kind {
            FaultKind::Race(race) => [race.access, race.other.access].contains(&StoreAsync),
            kind => matches!(kind, FaultKind::SharedNotAwaited { what: "st.async", .. }),
        }),
    )
    .cluster(2),
];

#[test]
fn faults_of_asynchronous_operations_are_found_in_every_order() {
    check_all(CASES, include_str!("asynchronous.rs"));
}
