//! Races in global memory, within a block and between blocks.

use super::{Case, Told, check_all, word};
use moye_sim::Access::{Atomic, BulkDestination, Read, Write};
use moye_sim::RaceThreads::{Block, Grid};
use moye_sim::intrinsics::*;
use moye_sim::{FaultKind, GlobalMemory, Launch, RaceThreads};

/// The thread's index in the grid.
fn number() -> u32 {
    block_idx().x * block_dim().x + thread_idx().x
}

fn neighbour_of_the_block(right: bool, data: u64) {
    let t = thread_idx().x;
    store_global(word(data, t), t); // neighbour_of_the_block
    if right {
        sync_threads();
    }
    load_global::<u32>(word(data, (t + 32) % 64)); // neighbour_of_the_block
}

/// The first racing pair is in one warp, others are not.
fn one_thread_for_all_global(right: bool, data: u64) {
    if thread_idx().x == 5 {
        store_global(word(data, 0), 9_u32); // one_thread_for_all_global
    }
    if right {
        sync_threads();
    }
    load_global::<u32>(word(data, 0)); // one_thread_for_all_global
}

/// Lanes, warps and blocks race: no barrier orders all of them.
fn all_threads_write_one_word(right: bool, data: u64) {
    let i = number();
    store_global(word(data, if right { i } else { 0 }), i); // all_threads_write_one_word
}

/// Each block races within its own words, and the last block also with the first.
fn last_block_reads_the_first(right: bool, data: u64) {
    let (t, block) = (thread_idx().x, block_idx().x);
    store_global(word(data, number()), t); // last_block_reads_the_first
    if right {
        sync_threads();
    }
    let block = if !right && block == grid_dim().x - 1 && t == 9 { 0 } else { block };
    load_global::<u32>(word(data, 64 * block + 63 - t)); // last_block_reads_the_first
}

/// The last block to arrive sums what all blocks have stored.
fn last_block(data: u64, releases: impl Fn(), acquires: impl Fn(), store: impl Fn(u64), load: impl Fn(u64)) {
    if thread_idx().x != 0 {
        return;
    }
    store(word(data, 1 + block_idx().x));
    releases();
    let before = atomic_add(data, 1_u32);
    acquires();
    if before == grid_dim().x - 1 {
        (0..grid_dim().x).for_each(|block| load(word(data, 1 + block)));
    }
}

fn last_block_without_release(right: bool, data: u64) {
    last_block(
        data,
        || {
            if right {
                fence()
            }
        },
        fence,
        |to| store_global(to, 1_u32),        // last_block_without_release
        |from| _ = load_global::<u32>(from), // last_block_without_release
    );
}

fn last_block_without_acquire(right: bool, data: u64) {
    last_block(
        data,
        fence,
        || {
            if right {
                fence()
            }
        },
        |to| store_global(to, 1_u32),        // last_block_without_acquire
        |from| _ = load_global::<u32>(from), // last_block_without_acquire
    );
}

fn fence_of_the_cluster(right: bool, data: u64) {
    let scoped = || if right { fence() } else { fence_cluster() };
    last_block(
        data,
        scoped,
        scoped,
        |to| store_global(to, 1_u32),        // fence_of_the_cluster
        |from| _ = load_global::<u32>(from), // fence_of_the_cluster
    );
}

fn acquire_of_the_block(right: bool, data: u64) {
    last_block(
        data,
        fence,
        || if right { fence() } else { fence_block() },
        |to| store_global(to, 1_u32),        // acquire_of_the_block
        |from| _ = load_global::<u32>(from), // acquire_of_the_block
    );
}

fn atomics_of_two_scopes(right: bool, data: u64) {
    if thread_idx().x != 0 {
        return;
    }
    if right || block_idx().x == 0 {
        atomic_add(data, 1_u32); // atomics_of_two_scopes
    } else {
        atomic_update_of_block(data, |count: u32| count + 1); // atomics_of_two_scopes
    }
}

fn threads_of_a_block_by_its_scope(right: bool, data: u64) {
    // The later of two warps reads what the other has stored.
    let t = thread_idx().x;
    if !t.is_multiple_of(32) {
        return;
    }
    let release = || {
        if right {
            fence_block()
        }
    };
    store_global(word(data, 1 + t), t); // threads_of_a_block_by_its_scope
    release();
    let before = atomic_update_of_block(data, |count: u32| count + 1);
    release();
    if before == 1 {
        load_global::<u32>(word(data, 1 + (t ^ 32))); // threads_of_a_block_by_its_scope
    }
}

/// Like split-K with many slices: the last block to arrive clears the counter, and reduces the
/// slices.
fn last_of_many(data: u64, releases: impl Fn(u32) -> bool, store: impl Fn(u64), load: impl Fn(u64)) {
    if thread_idx().x != 0 {
        return;
    }
    let (block, blocks) = (block_idx().x, grid_dim().x);
    store(word(data, 1 + block));
    if releases(block) {
        fence();
    }
    let before = atomic_add(data, 1_u32);
    fence();
    if before == blocks - 1 {
        store_global(data, 0_u32);
        (0..blocks).for_each(|block| load(word(data, 1 + block)));
    }
}

fn last_of_65_blocks(right: bool, data: u64) {
    last_of_many(
        data,
        |block| right || block % 2 == 1,
        |to| store_global(to, 1_u32),        // last_of_65_blocks
        |from| _ = load_global::<u32>(from), // last_of_65_blocks
    );
}

fn last_of_200_blocks(right: bool, data: u64) {
    last_of_many(
        data,
        |block| right || block < 100,
        |to| store_global(to, 1_u32),        // last_of_200_blocks
        |from| _ = load_global::<u32>(from), // last_of_200_blocks
    );
}

fn counter_of_200_reset_too_early(right: bool, data: u64) {
    if thread_idx().x == 0 {
        let before = atomic_add(data, 1_u32); // counter_of_200_reset_too_early
        if before == if right { grid_dim().x - 1 } else { 100 } {
            store_global(data, 0_u32); // counter_of_200_reset_too_early
        }
    }
}

fn counter_of_200_read_by_one_more(right: bool, data: u64) {
    // Each block counts; the faulty kernel reads the count before all are done.
    if thread_idx().x != 0 {
        return;
    }
    atomic_add(data, 1_u32); // counter_of_200_read_by_one_more
    fence();
    let done = atomic_add(word(data, 1), 1_u32);
    fence();
    if right && done == grid_dim().x - 1 || !right && done == 100 {
        load_global::<u32>(data); // counter_of_200_read_by_one_more
    }
}

fn written_before_200_have_read(right: bool, data: u64) {
    // The last block changes what all have read. Half of them have not released their reads.
    if thread_idx().x != 0 {
        return;
    }
    load_global::<u32>(word(data, 1)); // written_before_200_have_read
    if right || block_idx().x < 100 {
        fence();
    }
    let before = atomic_add(data, 1_u32);
    fence();
    if before == grid_dim().x - 1 {
        store_global(word(data, 1), 1_u32); // written_before_200_have_read
    }
}

fn same_value_of_200_blocks(right: bool, data: u64) {
    // All write the same value, and each reads it back; the faulty kernel lets a block read what it
    // has not written.
    let t = thread_idx().x;
    if t == 0 && (right || block_idx().x != 150) {
        store_global(data, 7_u32); // same_value_of_200_blocks
    }
    if t == 0 {
        load_global::<u32>(data); // same_value_of_200_blocks
    }
}

fn fence_before_the_store(right: bool, data: u64) {
    if thread_idx().x != 0 {
        return;
    }
    let to = word(data, 1 + block_idx().x);
    if !right {
        fence();
    }
    store_global(to, 1_u32); // fence_before_the_store
    if right {
        fence();
    }
    let before = atomic_add(data, 1_u32);
    fence();
    if before == grid_dim().x - 1 {
        (0..grid_dim().x).for_each(|block| _ = load_global::<u32>(word(data, 1 + block))); // fence_before_the_store
    }
}

fn half_and_word_of_blocks(right: bool, data: u64) {
    if thread_idx().x == 0 {
        if block_idx().x == 0 {
            store_global(data + 2, 1_u16); // half_and_word_of_blocks
        } else if right {
            store_global(data, 2_u16);
        } else {
            store_global(data, 0x3_0003_u32); // half_and_word_of_blocks
        }
    }
}

fn bulk_sum_and_plain_read(right: bool, data: u64) {
    let t = thread_idx().x;
    store_shared(shared_base() + 4 * t, t + 1);
    fence_proxy_async();
    sync_threads();
    if t == 0 && block_idx().x == 0 {
        bulk_reduce_add(data, shared_base(), 256, TensorElement::U32); // bulk_sum_and_plain_read
        bulk_commit();
        bulk_wait_group(0);
    }
    if block_idx().x == 1 && t == 32 && !right {
        load_global::<u32>(data); // bulk_sum_and_plain_read
    }
}

/// Loads 64 words of the data into shared memory by a bulk copy, and waits for them.
#[track_caller]
fn load_by_bulk_copy(data: u64) {
    let mbarrier = shared_base() + 1024;
    mbarrier_init(mbarrier, 1);
    mbarrier_arrive_expect_tx(mbarrier, 256);
    bulk_load(shared_base(), data, 256, mbarrier, None);
    mbarrier_wait_parity(mbarrier, 0);
}

fn fence_of_shared_memory_alone(right: bool, data: u64) {
    let t = thread_idx().x;
    store_global(word(data, t), t);
    if right {
        fence_proxy_async()
    } else {
        fence_proxy_async_shared()
    }
    sync_threads();
    if t == 0 {
        load_by_bulk_copy(data); // fence_of_shared_memory_alone
    }
}

fn proxy_fence_before_the_write(right: bool, data: u64) {
    let t = thread_idx().x;
    if !right {
        fence_proxy_async_global();
    }
    store_global(word(data, t), t);
    if right {
        fence_proxy_async_global();
    }
    sync_threads();
    if t == 0 {
        load_by_bulk_copy(data); // proxy_fence_before_the_write
    }
}

fn proxy_fence_of_the_reading_block(right: bool, data: u64) {
    // The second block loads what the first has stored; it fences itself, after the atomic
    // operation.
    if thread_idx().x != 0 {
        return;
    }
    let words = |block: u32| word(data, 64 + 64 * block);
    (0..64).for_each(|at| store_global(words(block_idx().x) + 4 * at, 1_u32));
    fence();
    let before = atomic_add(data, 1_u32);
    fence();
    if before == 1 {
        if right {
            fence_proxy_async_global();
        }
        load_by_bulk_copy(words(1 - block_idx().x)); // proxy_fence_of_the_reading_block
    }
}

fn bulk_load_of_what_a_bulk_copy_stored(right: bool, data: u64) {
    // Both are in one proxy: only the thread that overwrites a word has to fence.
    let t = thread_idx().x;
    store_shared(shared_base() + 4 * t, t);
    fence_proxy_async_shared();
    sync_threads();
    if t == 0 {
        bulk_store(data, shared_base(), 256);
        bulk_commit();
        bulk_wait_group(0);
        if !right {
            store_global(word(data, 3), 7_u32);
        }
        load_by_bulk_copy(data); // bulk_load_of_what_a_bulk_copy_stored
    }
}

fn read_only_load_of_a_result(right: bool, data: u64) {
    let t = thread_idx().x;
    store_global(word(data, t), t);
    sync_threads();
    let from = word(data, t ^ 32);
    if right {
        load_global::<u32>(from);
    } else {
        load_global_read_only::<u32>(from); // read_only_load_of_a_result
    }
    load_global_read_only::<u32>(word(data, 64 + t));
}

/// A bulk load of threads' writes, without a proxy fence.
const fn unfenced(name: &'static str, kernel: fn(bool, u64)) -> Case {
    Case::new(name, kernel, Told::Fault(|kind| matches!(kind, FaultKind::GlobalUnfenced { .. })))
}

pub const CASES: &[Case] = &[
    Case::race("neighbour_of_the_block", neighbour_of_the_block, Block, [Write, Read]),
    Case::race("one_thread_for_all_global", one_thread_for_all_global, Block, [Write, Read]),
    Case::race("all_threads_write_one_word", all_threads_write_one_word, Grid, [Write, Write]).blocks(4),
    Case::race("last_block_reads_the_first", last_block_reads_the_first, Grid, [Write, Read]).blocks(3),
    Case::race("last_block_without_release", last_block_without_release, Grid, [Write, Read]).blocks(4),
    Case::race("last_block_without_acquire", last_block_without_acquire, Grid, [Write, Read]).blocks(4),
    Case::race("fence_of_the_cluster", fence_of_the_cluster, Grid, [Write, Read]).blocks(4),
    Case::race("acquire_of_the_block", acquire_of_the_block, Grid, [Write, Read]).blocks(4),
    Case::race("atomics_of_two_scopes", atomics_of_two_scopes, Grid, [Atomic, Atomic]).blocks(2),
    Case::race("threads_of_a_block_by_its_scope", threads_of_a_block_by_its_scope, Block, [Write, Read]),
    Case::race("last_of_65_blocks", last_of_65_blocks, Grid, [Write, Read]).blocks(65),
    Case::race("last_of_200_blocks", last_of_200_blocks, Grid, [Write, Read]).blocks(200),
    Case::race("counter_of_200_reset_too_early", counter_of_200_reset_too_early, Grid, [Atomic, Write])
        .blocks(200),
    Case::race("counter_of_200_read_by_one_more", counter_of_200_read_by_one_more, Grid, [Atomic, Read])
        .blocks(200),
    Case::race("written_before_200_have_read", written_before_200_have_read, Grid, [Read, Write]).blocks(200),
    Case::race("same_value_of_200_blocks", same_value_of_200_blocks, Grid, [Write, Read]).blocks(200),
    Case::race("fence_before_the_store", fence_before_the_store, Grid, [Write, Read]).blocks(4),
    Case::race("half_and_word_of_blocks", half_and_word_of_blocks, Grid, [Write, Write]).blocks(2),
    Case::new(
        "read_only_load_of_a_result",
        read_only_load_of_a_result,
        Told::Fault(|kind| matches!(kind, FaultKind::StaleReadOnly { .. })),
    ),
    unfenced("fence_of_shared_memory_alone", fence_of_shared_memory_alone),
    unfenced("proxy_fence_before_the_write", proxy_fence_before_the_write),
    unfenced("proxy_fence_of_the_reading_block", proxy_fence_of_the_reading_block).blocks(2),
    unfenced("bulk_load_of_what_a_bulk_copy_stored", bulk_load_of_what_a_bulk_copy_stored),
    Case::race("bulk_sum_and_plain_read", bulk_sum_and_plain_read, Grid, [BulkDestination, Read]).blocks(2),
];

#[test]
fn races_in_global_memory_are_found_in_every_order() {
    check_all(CASES, include_str!("global.rs"));
}

#[test]
fn launches_are_ordered_one_after_the_other() {
    let memory = GlobalMemory::new();
    let data = memory.alloc(256, "data").unwrap();
    let address = data.address();
    for turn in 0..3_u32 {
        let launch = Launch::new("turn", 4, 32, &memory).races(true).order(turn.into());
        // Each block reads what another wrote in the previous launch.
        let kernel = || {
            let (block, t) = (block_idx().x, thread_idx().x);
            let word = |block| address + 4 * u64::from(8 * (block % 4) + t);
            if t < 8 && turn % 2 == 0 {
                store_global(word(block), turn + block);
            } else if t < 8 {
                assert_eq!(load_global::<u32>(word(block + 1)), turn - 1 + (block + 1) % 4);
            }
        };
        launch.run(&kernel).unwrap();
    }
}

/// Whether the second launch overlaps the first, whether it waits, and in which thread: the report.
#[test]
fn a_launch_that_overlaps_the_one_before_waits_before_it_touches_the_same_memory() {
    let memory = GlobalMemory::new();
    let data = memory.alloc(256, "data").unwrap();
    let address = data.address();
    let run = |overlaps: bool, wait: fn(u32), touch: fn(u64)| {
        let first = Launch::new("first", 2, 32, &memory).races(true);
        first.run(&|| store_global(word(address, number() % 32), thread_idx().x)).unwrap();
        let second = Launch::new("second", 1, 64, &memory).races(true).overlapping(overlaps);
        let ran = second.run(&|| {
            wait(thread_idx().x);
            touch(word(address, thread_idx().x % 32));
        });
        ran.map_err(|error| error.fault().unwrap().clone())
    };
    let read = |at| _ = load_global::<u32>(at);
    let beside = |at: u64| store_global(at + 128, 1_u32);
    run(false, |_| (), read).unwrap();
    run(true, |_| wait_for_prior_launch(), read).unwrap();
    run(true, |_| (), beside).unwrap();
    let by_one = |thread| {
        if thread == 0 {
            wait_for_prior_launch();
        }
        sync_threads();
    };
    run(true, by_one, read).unwrap();
    for wait in [
        |_| (),
        |thread| {
            if thread == 0 {
                wait_for_prior_launch()
            }
        },
    ] {
        let fault = run(true, wait, read).unwrap_err();
        let FaultKind::Race(race) = &fault.kind else { panic!("{fault}") };
        assert_eq!((race.threads, race.other.access), (RaceThreads::Launches, Write), "{fault}");
    }
    // The host has waited in between.
    let first = Launch::new("first", 1, 32, &memory).races(true);
    first.run(&|| store_global(word(address, thread_idx().x), 1_u32)).unwrap();
    data.fill(0, 256, 0).unwrap();
    let second = Launch::new("second", 1, 32, &memory).races(true).overlapping(true);
    second.run(&|| read(word(address, thread_idx().x))).unwrap();
}

#[test]
fn a_race_names_kernel_block_both_threads_both_lines_and_the_way_out() {
    let memory = GlobalMemory::new();
    let data = memory.alloc(256, "sums").unwrap();
    let address = data.address();
    let kernel = || {
        if block_idx().x == 0 {
            store_global(address + 8, 1_u32);
        } else if thread_idx().x == 5 {
            load_global::<u32>(address + 8);
        }
    };
    let line = line!() - 5;
    let fault = Launch::new("k", 2, 32, &memory).races(true).run(&kernel).unwrap_err().to_string();
    let (store, load) = (format!("{}:{line}", file!()), format!("{}:{}", file!(), line + 2));
    for part in ["kernel `k`, block (", "byte 8 of `sums`", &store, &load, "thread (5,0,0)", "fence_gpu"] {
        assert!(fault.contains(part), "{part}: {fault}");
    }
}
