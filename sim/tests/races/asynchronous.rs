//! Faults of copies and products that run concurrently with their thread.

use super::{Case, Told, check_all, word};
use crate::wgmma::{S8, descriptor};
use moye_sim::Access::{
    BulkDestination, BulkSource, CpAsyncDestination, CpAsyncSource, Read, StoreAsync, Write,
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

fn source_written_meanwhile(right: bool, data: u64) {
    let t = thread_idx().x;
    store_global(word(data, t), t); // source_written_meanwhile
    if right {
        sync_threads();
    }
    cp_async(at(t), word(data, (t + 32) % 64), 4, 4); // source_written_meanwhile
    cp_async_wait_all();
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

fn operands_without_barrier(right: bool, _: u64) {
    // 80 rows of 32 bytes: the operands of one instruction.
    let t = thread_idx().x;
    if t < 80 {
        store_shared(at(8 * t), [0_u32; 4]);
        store_shared(at(8 * t + 4), [0_u32; 4]);
    }
    fence_proxy_async();
    sync_threads();
    if t == 70 {
        store_shared(at(8), 1_u32); // operands_without_barrier
    }
    fence_proxy_async();
    if right {
        sync_threads();
    }
    wgmma_fence();
    wgmma(&S8, &mut [0; 8], WgmmaA::Shared(descriptor(at(0))), descriptor(at(512)), false); // operands_without_barrier
    wgmma_commit_group();
    wgmma_wait_group(0);
}

fn meet() {
    cluster_arrive();
    cluster_wait();
}

fn peer_written_while_it_reads(right: bool, _: u64) {
    let t = thread_idx().x;
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
    Case::race("wait_behind_the_barrier", wait_behind_the_barrier, Block, [CpAsyncDestination, Read]),
    Case::race("source_written_meanwhile", source_written_meanwhile, Block, [CpAsyncSource, Write]),
    Case::race("empty_not_awaited", empty_not_awaited, Block, [Write, Read]),
    Case::race("released_by_one_lane", released_by_one_lane, Block, [Write, Read]),
    Case::race("bulk_copy_over_reads", bulk_copy_over_reads, Block, [BulkDestination, Read]),
    Case::new(
        "bulk_copy_read_by_another_warp",
        bulk_copy_read_by_another_warp,
        Told::Fault(|kind| matches!(kind, FaultKind::SharedNotAwaited { .. })),
    ),
    Case::race("bulk_store_without_barrier", bulk_store_without_barrier, Block, [BulkSource, Write]),
    Case::new(
        "operands_without_barrier",
        operands_without_barrier,
        // Whichever comes first.
        Told::Fault(|kind| matches!(kind, FaultKind::Race(_) | FaultKind::SharedBeingRead { .. })),
    )
    .threads(128),
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
