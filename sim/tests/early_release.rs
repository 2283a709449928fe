//! Writes to the operands of asynchronous reads: allowed to threads that know that the reads are
//! over, whatever the simulator's order.
//!
//! The simulator runs one warp until it waits, then the next, and a thread that waits for an
//! mbarrier is resumed when no other thread can run. So a release right before the wait for the
//! product is followed by that wait, and only then by a copy into the stage: at the time of the
//! copy nothing reads the stage, in this order. On a GPU the copy may come first.

use crate::common::{Words, fault};
use crate::wgmma::{S8, descriptor};
use moye_sim::intrinsics::*;
use moye_sim::{
    Access, AsyncRead, Dim3, Fault, FaultKind, GlobalMemory, Launch, LaunchError, ReadWait, TensorElement,
    TensorMap,
};

const STAGES: u32 = 2;
const TURNS: u32 = 7;
/// A and B of one instruction of 64 x 16 x 32 bytes.
const BYTES: u32 = (64 + 16) * 32;
/// The warpgroup that multiplies; another warp loads.
const CONSUMERS: u32 = 128;

fn full(stage: u32) -> u32 {
    shared_base() + 8 * stage
}

fn empty(stage: u32) -> u32 {
    shared_base() + 8 * (STAGES + stage)
}

fn stage_at(stage: u32) -> u32 {
    shared_base() + 1024 + BYTES * stage
}

/// The time of the release of a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Release {
    /// After the wait for all products.
    Behind,
    /// One product later, after the wait for all but that.
    OneLater,
    /// Same as [`Self::Behind`], by one thread for the warpgroup: a group belongs to all its warps.
    ByOneThread,
    /// Same as [`Self::Behind`], by one thread that the others meet at a named barrier.
    BehindBarrier,
    /// Same as [`Self::Behind`], by incrementing a word of shared memory.
    ByAtomic,
    /// Between the product and the wait for it.
    Early,
    /// After the wait for all products except the one that reads the stage.
    OneTooEarly,
    /// By a warp other than the consumers, which has not synchronised with the end of the product.
    ByAnother,
}

const RELEASE_LINE: u32 = line!() + 2;
fn release(stage: u32) {
    mbarrier_arrive(empty(stage));
}

fn counter() -> u32 {
    shared_base() + 8 * 2 * STAGES
}

/// A ring of two stages: a thread loads, a warpgroup multiplies.
fn ring(source: u64, how: Release) {
    let t = thread_idx().x;
    if t == 0 {
        let releases = match how {
            Release::ByOneThread | Release::BehindBarrier | Release::ByAnother => 1,
            _ => CONSUMERS / 32,
        };
        for stage in 0..STAGES {
            mbarrier_init(full(stage), 1);
            mbarrier_init(empty(stage), releases);
        }
        store_shared(counter(), 0_u32);
    }
    sync_threads();
    if t == CONSUMERS {
        for turn in 0..TURNS {
            let stage = turn % STAGES;
            if how == Release::ByAtomic {
                let wanted = (turn + 1).saturating_sub(STAGES) * CONSUMERS / 32;
                while atomic_add(counter(), 0_u32) < wanted {}
            } else {
                mbarrier_wait_parity(empty(stage), (turn / STAGES % 2) ^ 1);
            }
            mbarrier_arrive_expect_tx(full(stage), BYTES);
            bulk_load(stage_at(stage), source, BYTES, full(stage), None);
        }
    } else if t == CONSUMERS + 32 && how == Release::ByAnother {
        for turn in 0..TURNS {
            mbarrier_wait_parity(full(turn % STAGES), turn / STAGES % 2);
            release(turn % STAGES);
        }
    } else if t < CONSUMERS {
        let mut d = [0; 8];
        for turn in 0..TURNS {
            let stage = turn % STAGES;
            mbarrier_wait_parity(full(stage), turn / STAGES % 2);
            let at = stage_at(stage);
            wgmma_fence();
            wgmma(&S8, &mut d, WgmmaA::Shared(descriptor(at)), descriptor(at + 64 * 32), turn > 0);
            wgmma_commit_group();
            let one = t.is_multiple_of(32);
            if how == Release::Early && one {
                release(stage);
            }
            wgmma_wait_group(u32::from(matches!(how, Release::OneLater | Release::OneTooEarly)));
            match how {
                Release::Behind | Release::OneTooEarly if one => release(stage),
                Release::ByOneThread if t == 64 => release(stage),
                Release::BehindBarrier => {
                    barrier_sync(1, CONSUMERS);
                    if t == 5 {
                        release(stage);
                    }
                }
                Release::OneLater if one && turn > 0 => release((turn - 1) % STAGES),
                Release::ByAtomic if one => {
                    atomic_add(counter(), 1_u32);
                }
                _ => {}
            }
        }
        wgmma_wait_group(0);
        wgmma_take_results(&mut d);
    }
}

fn run_ring(how: Release) -> Result<(), Fault> {
    let memory = GlobalMemory::new();
    let source = Words::new(&memory, BYTES as usize / 4, 0x0102_0304);
    let address = source.address();
    let launch =
        Launch::new("ring", 2, CONSUMERS + 64, &memory).shared_bytes(1024 + (BYTES * STAGES) as usize);
    told(launch.access_budget(1 << 24).run(&|| ring(address, how)).map(|_| ()))
}

fn told(result: Result<(), LaunchError>) -> Result<(), Fault> {
    result.map_err(|error| error.fault().unwrap_or_else(|| panic!("{error}")).clone())
}

#[test]
fn stages_that_are_released_behind_the_wait_are_filled_again() {
    for how in
        [Release::Behind, Release::OneLater, Release::ByOneThread, Release::BehindBarrier, Release::ByAtomic]
    {
        run_ring(how).unwrap_or_else(|fault| panic!("{how:?}: {fault}"));
    }
}

#[test]
fn a_release_before_the_wait_is_a_fault_even_if_the_wait_precedes_the_copy() {
    for how in [Release::Early, Release::OneTooEarly, Release::ByAnother] {
        let fault = run_ring(how).unwrap_err();
        let FaultKind::SharedBeingRead { access, bytes: 16, offset: 1024, read } = &fault.kind else {
            panic!("{how:?}: {fault}")
        };
        assert_eq!((*access, fault.thread), (Access::BulkDestination, Dim3::new(CONSUMERS, 0, 0)));
        let AsyncRead { operation, thread, block, wait, is_complete, released, .. } = **read;
        assert_eq!((operation, thread, block), ("wgmma.s8", Dim3::new(0, 0, 0), None));
        assert_eq!(wait, ReadWait::WgmmaGroup);
        let text = fault.to_string();
        if how == Release::ByAnother {
            assert_eq!(released, None, "none of those who read has: {text}");
        } else {
            let (thread, line) = released.unwrap();
            assert_eq!((thread.x % 32, line.line()), (0, RELEASE_LINE), "{text}");
            assert!(thread.x < CONSUMERS, "{text}");
        }
        if how == Release::Early {
            assert!(is_complete, "the order of this run hides it: {text}");
            assert!(
                text.contains("bulk copy's write of 16 bytes of shared memory at offset 1024, which wgmma.s8 of the warpgroup of thread (0,0,0) at ")
                    && text.contains("reads, and the writing thread has not synchronised with the thread that waited for it (thread (")
                    && text.ends_with("\nrelease the stage after `wgmma_wait_group`"),
                "{text}"
            );
        }
    }
}

/// Two blocks, each of which loads one of the two operands for both.
fn cluster_ring(source: u64, early: bool) {
    let (t, rank) = (thread_idx().x, cluster_rank());
    if t == 0 {
        for stage in 0..STAGES {
            mbarrier_init(full(stage), 1);
            mbarrier_init(empty(stage), 2 * CONSUMERS / 32);
        }
    }
    cluster_arrive();
    cluster_wait();
    if t == CONSUMERS {
        let part = [(0, 64 * 32), (64 * 32, 16 * 32)][rank as usize];
        for turn in 0..TURNS + STAGES {
            let stage = turn % STAGES;
            mbarrier_wait_parity(empty(stage), (turn / STAGES % 2) ^ 1);
            if turn < TURNS {
                mbarrier_arrive_expect_tx(full(stage), BYTES);
                let (from, bytes) = part;
                bulk_load(stage_at(stage) + from, source, bytes, full(stage), Some(0b11));
            }
        }
    } else if t < CONSUMERS {
        let mut d = [0; 8];
        for turn in 0..TURNS {
            let stage = turn % STAGES;
            mbarrier_wait_parity(full(stage), turn / STAGES % 2);
            let at = stage_at(stage);
            wgmma_fence();
            wgmma(&S8, &mut d, WgmmaA::Shared(descriptor(at)), descriptor(at + 64 * 32), turn > 0);
            wgmma_commit_group();
            // The other block is released first, or at the end.
            let release = |rank| mbarrier_arrive_cluster(map_shared(empty(stage), rank), 0);
            if early && t.is_multiple_of(32) {
                release(1 - rank);
            }
            wgmma_wait_group(0);
            if t.is_multiple_of(32) {
                release(rank);
                if !early {
                    release(1 - rank);
                }
            }
        }
    }
    cluster_arrive();
    cluster_wait();
}

#[test]
fn an_early_release_to_the_other_block_of_a_cluster_is_a_fault() {
    let memory = GlobalMemory::new();
    let source = Words::new(&memory, BYTES as usize / 4, 0x0102_0304);
    let address = source.address();
    let run = |early| {
        let launch = Launch::new("ring", 4, CONSUMERS + 32, &memory).cluster(2);
        let launch = launch.shared_bytes(1024 + (BYTES * STAGES) as usize);
        told(launch.access_budget(1 << 24).run(&|| cluster_ring(address, early)).map(|_| ()))
    };
    run(false).unwrap();
    // Each block's own producer is released in time, but the multicast also writes to the other
    // block.
    let fault = run(true).unwrap_err();
    let FaultKind::SharedBeingRead { access: Access::BulkDestination, read, .. } = &fault.kind else {
        panic!("{fault}")
    };
    let other = 1 - fault.block.x % 2;
    assert_eq!((read.block, read.wait), (Some(other), ReadWait::WgmmaGroup), "{fault}");
    assert!(read.released.is_some(), "{fault}");
    assert!(fault.to_string().contains(&format!("(0,0,0) of block {other} of the cluster at ")), "{fault}");
}

/// The thread that waits for a store, and the synchronisation with the others.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Boxes {
    /// The storing thread waits, then all meet.
    WaitThenMeet,
    /// The storing thread waits, then all meet at an mbarrier.
    WaitThenArrive,
    /// All meet, then the storing thread waits.
    MeetThenWait,
    /// The thread arrives at the mbarrier, then waits.
    ArriveThenWait,
}

/// Boxes of C that TMA stores, in two rounds, from the same shared memory.
///
/// The last thread stores: it arrives at the barrier last, and continues at once. So its wait
/// precedes the others' writes in the simulator's order, whether or not a thread waited for it.
fn store_twice(map: u64, how: Boxes) {
    let (t, last) = (thread_idx().x, block_dim().x - 1);
    let (barrier, tile) = (shared_base(), shared_base() + 1024);
    if t == 0 {
        mbarrier_init(barrier, 1);
    }
    sync_threads();
    for round in 0..2 {
        store_shared(tile + 4 * t, round * 100 + t);
        fence_proxy_async();
        sync_threads();
        if t == last {
            tensor_store(map, [0, round as i32], tile);
            bulk_commit();
        }
        if how == Boxes::MeetThenWait {
            sync_threads();
        }
        if t == last {
            if how == Boxes::ArriveThenWait {
                mbarrier_arrive(barrier);
            }
            bulk_wait_group_read(0);
            if how == Boxes::WaitThenArrive {
                mbarrier_arrive(barrier);
            }
        }
        match how {
            Boxes::WaitThenMeet => sync_threads(),
            Boxes::MeetThenWait => {}
            Boxes::WaitThenArrive | Boxes::ArriveThenWait => mbarrier_wait_parity(barrier, round % 2),
        }
    }
}

#[test]
fn boxes_are_written_again_by_who_knows_that_they_were_stored() {
    let memory = GlobalMemory::new();
    let words = Words::new(&memory, 128, 0);
    let map = TensorMap::new(TensorElement::U32, words.address(), &[64, 2], &[256], &[64, 1]);
    let bytes: Vec<u8> = map.encode().iter().flat_map(|word| word.to_le_bytes()).collect();
    let place = memory.alloc(bytes.len(), "tensor map").unwrap();
    place.write(0, &bytes).unwrap();
    let map = place.address();
    let run = |how| {
        let launch = Launch::new("boxes", 1, 64, &memory).shared_bytes(2048);
        told(launch.access_budget(1 << 24).run(&|| store_twice(map, how)).map(|_| ()))
    };
    for how in [Boxes::WaitThenMeet, Boxes::WaitThenArrive] {
        run(how).unwrap_or_else(|fault| panic!("{how:?}: {fault}"));
        assert_eq!(words.read()[62..66], [62, 63, 100, 101]);
    }
    for how in [Boxes::MeetThenWait, Boxes::ArriveThenWait] {
        let fault = run(how).unwrap_err();
        let FaultKind::SharedBeingRead { access: Access::Write, bytes: 4, read, .. } = &fault.kind else {
            panic!("{how:?}: {fault}")
        };
        assert!(read.is_complete, "the order of this run hides it: {fault}");
        assert_eq!((read.wait, read.thread), (ReadWait::BulkGroup, Dim3::new(63, 0, 0)), "{fault}");
        assert_eq!(read.released.is_some(), how == Boxes::ArriveThenWait, "{fault}");
        let advice = "let the storing thread call `bulk_wait_group_read`, then a barrier, and write after that barrier";
        assert!(fault.to_string().ends_with(advice), "{fault}");
    }
}

#[test]
fn what_another_block_copies_is_written_by_who_knows_of_its_arrival() {
    let run = |waits: bool, arrive: fn()| {
        let kernel = || {
            let (barrier, tile) = (shared_base(), shared_base() + 1024);
            let rank = cluster_rank();
            if rank == 1 {
                mbarrier_init(barrier, 1);
                mbarrier_arrive_expect_tx(barrier, 64);
            }
            for i in 0..16 {
                store_shared(tile + 4 * i, i);
            }
            fence_proxy_async();
            cluster_arrive();
            cluster_wait();
            if rank == 0 {
                bulk_copy_to_cluster(map_shared(tile, 1), tile, 64, map_shared(barrier, 1));
            } else if waits {
                mbarrier_wait_parity(barrier, 0);
            }
            arrive();
            if rank == 1 {
                mbarrier_wait_parity(barrier, 0);
            }
            cluster_wait();
            if rank == 0 {
                store_shared(tile, 7_u32);
            }
        };
        let launch = Launch::new("k", 2, 1, &GlobalMemory::new()).cluster(2).shared_bytes(2048);
        told(launch.access_budget(1 << 24).run(&kernel).map(|_| ()))
    };
    run(true, cluster_arrive).unwrap();
    // A relaxed arrival does not pass on a wait.
    for (waits, arrive) in [(false, cluster_arrive as fn()), (true, cluster_arrive_relaxed)] {
        let fault = run(waits, arrive).unwrap_err();
        assert!(
            matches!(&fault.kind, FaultKind::SharedBeingRead { read, .. } if read.wait == ReadWait::Mbarrier),
            "{fault}"
        );
        assert!(fault.to_string().contains("the mbarrier at which the copy completes"), "{fault}");
    }
}

#[test]
fn fences_and_conditions_hand_on_what_threads_know() {
    let memory = GlobalMemory::new();
    let flag = Words::new(&memory, 1, 0);
    let source = Words::new(&memory, 4, 0);
    let (flag, source) = (flag.address(), source.address());
    let run = |hands_on: &(dyn Fn(bool) + Sync), by_copy: bool| {
        let kernel = || {
            let (t, a, b) = (thread_idx().x, shared_base() + 1024, shared_base() + 1024 + 64 * 32);
            // Thread 128 writes to A at the end.
            for at in 0..BYTES / 160 / 4 {
                store_shared(a + 4 * (160 * at + t), 0_u32);
            }
            if t == 0 {
                store_global(flag, 0_u32);
            }
            fence_proxy_async();
            sync_threads();
            if t < 128 {
                let mut d = [0; 8];
                wgmma_fence();
                wgmma(&S8, &mut d, WgmmaA::Shared(descriptor(a)), descriptor(b), false);
                wgmma_commit_group();
                wgmma_wait_group(0);
                if t == 127 {
                    hands_on(true);
                }
            }
            if t >= 128 {
                hands_on(false);
                if t == 128 && by_copy {
                    cp_async(a, source, 16, 16);
                    cp_async_wait_all();
                } else if t == 128 {
                    store_shared(a, 1_u32);
                }
            }
        };
        let launch = Launch::new("k", 1, 160, &memory).shared_bytes(1024 + BYTES as usize);
        told(launch.access_budget(1 << 24).run(&kernel).map(|_| ()))
    };
    let by_fence = |from: bool| {
        if from {
            fence();
            atomic_exchange(flag, 1_u32);
        } else if thread_idx().x == 128 {
            while atomic_or(flag, 0_u32) == 0 {}
            fence();
        }
    };
    let by_condition = |from| {
        if from {
            store_global(flag, 1_u32);
        } else {
            wait_until("the flag", || load_global::<u32>(flag) == 1);
        }
    };
    for by_copy in [false, true] {
        run(&by_fence, by_copy).unwrap();
        run(&by_condition, by_copy).unwrap();
        // Much later in this order, but without synchronisation.
        let late = |from: bool| {
            if !from {
                (0..100_000).for_each(|_| _ = load_shared::<u32>(shared_base() + 1024));
            }
        };
        let fault = run(&late, by_copy).unwrap_err();
        let access = if by_copy { Access::CpAsyncDestination } else { Access::Write };
        assert!(
            matches!(&fault.kind, FaultKind::SharedBeingRead { access: told, .. } if *told == access),
            "{fault}"
        );
    }
}

#[test]
fn lanes_that_meet_know_what_each_of_them_does_and_other_warps_do_not() {
    let memory = GlobalMemory::new();
    let target = Words::new(&memory, 4, 0);
    let to = target.address();
    let run = |writer: u32| {
        let kernel = || {
            let (t, at) = (thread_idx().x, shared_base());
            if t == 63 {
                store_shared(at, 0_u128);
                fence_proxy_async();
            }
            sync_threads();
            if t == 63 {
                bulk_store(to, at, 16);
                bulk_commit();
                bulk_wait_group_read(0);
            }
            sync_warp(u32::MAX);
            if t == writer {
                store_shared(at + 4, 1_u32);
            }
        };
        told(Launch::new("k", 1, 64, &memory).shared_bytes(64).run(&kernel).map(|_| ()))
    };
    run(35).unwrap();
    let fault = run(3).unwrap_err();
    assert!(
        matches!(&fault.kind, FaultKind::SharedBeingRead { offset: 4, read, .. } if read.is_complete),
        "{fault}"
    );
}

#[test]
fn a_fault_says_that_no_thread_has_waited_for_the_read() {
    let memory = GlobalMemory::new();
    let target = Words::new(&memory, 4, 0);
    let to = target.address();
    let fault = fault(Launch::new("k", 1, 1, &memory).shared_bytes(64), &|| {
        store_shared(shared_base(), 1_u128);
        fence_proxy_async();
        bulk_store(to, shared_base(), 16);
        bulk_commit();
        store_shared(shared_base(), 2_u32);
    });
    let FaultKind::SharedBeingRead { read, .. } = &fault.kind else { panic!("{fault}") };
    assert!(!read.is_complete && read.released.is_none());
    assert!(fault.to_string().contains("of thread (0,0,0) at "), "{fault}");
    assert!(
        fault.to_string().contains("reads, and no thread has waited for it\nlet the storing thread"),
        "{fault}"
    );
}
