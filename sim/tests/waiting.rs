//! Barriers and warp operations that cannot complete, endless loops, and panics.

use crate::common::{Words, fault};
use moye_sim::intrinsics::*;
use moye_sim::{Dim3, FaultKind, GlobalMemory, Launch, RaceThreads, WaitPlace};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn launch<'a>(memory: &GlobalMemory, threads: u32) -> Launch<'a> {
    Launch::new("k", 1, threads, memory).shared_bytes(256)
}

#[test]
fn a_deadlock_lists_threads_by_barrier_and_warp_operation() {
    let memory = GlobalMemory::new();
    let error = fault(launch(&memory, 96), &|| match thread_idx().x {
        0..32 => sync_threads(),
        32..64 => barrier_sync(1, 96),
        64 => sync_warp(3),
        _ => {}
    });
    let FaultKind::BarrierIncomplete { barrier: 0, arrived: 32, expected: 96, waiting, exited } = error.kind
    else {
        panic!("{error}")
    };
    let places: Vec<_> = waiting.iter().map(|group| (group.place, group.threads.count())).collect();
    assert_eq!(places, [(WaitPlace::Barrier { id: 0 }, 32), (WaitPlace::Barrier { id: 1 }, 32)]);
    assert_eq!(exited.count(), 32, "lane 0 of warp 2 continues without lane 1, which exited");
}

#[test]
fn barriers_with_wrong_numbers_or_counts_fault() {
    let memory = GlobalMemory::new();
    let told = |id: u32, count: u32| fault(launch(&memory, 64), &|| barrier_sync(id, count)).to_string();
    assert!(told(16, 64).contains("barrier 16 does not exist"));
    assert!(told(1, 33).contains("33, which is not a positive multiple of 32"));
    assert!(told(1, 0).contains("a thread count of 0"));
    assert!(told(1, 96).contains("96, which is more than the block's 64 threads"));
}

#[test]
fn a_lane_that_is_not_in_its_own_mask_faults() {
    let error = fault(launch(&GlobalMemory::new(), 32), &|| sync_warp(0xFFFF_FFFE));
    let text = error.to_string();
    assert!(
        text.ends_with("bar.warp.sync with mask 0xfffffffe, which does not include the calling lane 0"),
        "{text}"
    );
}

#[test]
fn operations_that_need_every_lane_fault_when_one_has_exited_before_or_after() {
    let memory = GlobalMemory::new();
    let mma = || warp_collective("mma.sync", u32::MAX, ExitedLanes::Fault, (), |_| [(); 32]);
    for leaver in [0, 31] {
        let error = fault(launch(&memory, 32), &|| {
            if lane_id() != leaver {
                mma()
            }
        });
        let FaultKind::WarpLaneExited { operation: "mma.sync", missing, .. } = error.kind else {
            panic!("{error}")
        };
        assert_eq!(missing, 1 << leaver, "{error}");
        assert!(error.location.is_some());
    }
    let error = fault(launch(&memory, 40), &|| {
        if warp_id() == 1 {
            mma()
        }
    });
    assert!(
        matches!(error.kind, FaultKind::WarpLaneExited { missing: 0xFFFF_FF00, .. }),
        "the last warp has 8 lanes: {error}"
    );
}

#[test]
fn a_wait_for_a_condition_that_no_thread_fulfils_is_a_fault_at_once() {
    let error = fault(launch(&GlobalMemory::new(), 4), &|| wait_until("phase 1 of the mbarrier", || false));
    let text = error.to_string();
    assert!(
        text.contains("waits for phase 1 of the mbarrier, which no thread of the block can make happen"),
        "{text}"
    );
    assert!(text.contains("4 threads (0,0,0) to (3,0,0) wait for phase 1 of the mbarrier"), "{text}");
}

#[test]
fn endless_polling_and_endless_barriers_end_in_a_fault() {
    let memory = GlobalMemory::new();
    let flag = Words::new(&memory, 1, 0);
    let address = flag.address();
    let polling = || {
        if thread_idx().x > 0 {
            sync_threads();
        }
        while load_global::<u32>(address) == 0 {}
    };
    let error = fault(launch(&memory, 4).access_budget(1 << 20), &polling);
    assert!(matches!(error.kind, FaultKind::NoProgress { steps, .. } if steps >= 1 << 20), "{error}");
    assert!(error.to_string().contains("3 threads (1,0,0) to (3,0,0) wait at barrier 0"), "{error}");

    let barriers = || {
        loop {
            sync_threads();
        }
    };
    let error = fault(launch(&memory, 4).rendezvous_budget(1000), &barriers);
    assert!(matches!(error.kind, FaultKind::NoProgress { steps: 1001, .. }), "{error}");
}

#[test]
fn a_race_that_is_kept_at_a_limit_says_what_orders_the_threads_that_were_not_watched() {
    let memory = GlobalMemory::new();
    let flag = Words::new(&memory, 1, 0);
    let address = flag.address();
    // Two lanes of a warp race. The other warp, whose threads might race too, polls forever.
    let kernel = || {
        while warp_id() == 1 && load_global::<u32>(address) == 0 {}
        let t = thread_idx().x;
        store_shared(shared_base() + t / 2 * 4, t);
    };
    let error = fault(launch(&memory, 64).access_budget(1 << 16), &kernel);
    let FaultKind::Race(race) = &error.kind else { panic!("{error}") };
    assert_eq!((race.threads, race.unseen), (RaceThreads::Warp, Some(RaceThreads::Block)), "{error}");
    let text = error.to_string();
    let (first, second) = (text.find("put `sync_warp` between them"), text.find("`sync_threads`"));
    assert!(first.is_some() && first < second, "{text}");
    assert!(text.contains("the launch ended at a limit before all threads had run"), "{text}");
}

#[test]
fn a_race_says_what_was_not_watched_also_where_another_block_comes_to_the_limit() {
    let memory = GlobalMemory::new();
    let (flag, words) = (Words::new(&memory, 1, 0), Words::new(&memory, 16, 0));
    let (flag, to) = (flag.address(), words.address());
    // Two lanes of one block race. The others poll forever; once one faults, no more start.
    for (grid, cluster, racing) in [(2, 1, 0), (64, 1, 0), (2, 2, 0), (2, 2, 1), (64, 2, 1)] {
        let polls = std::sync::Mutex::new(std::collections::HashSet::new());
        let kernel = || {
            let block = block_idx().x;
            while block != racing && load_global::<u32>(flag) == 0 {
                polls.lock().unwrap().insert(block);
            }
            let t = u64::from(thread_idx().x);
            store_global(to + t / 2 * 4, t as u32);
        };
        let launch = Launch::new("k", grid, 32, &memory).cluster(cluster).access_budget(1 << 16);
        let error = fault(launch, &kernel);
        let what = format!("{grid} blocks in clusters of {cluster}: {error}");
        let FaultKind::Race(race) = &error.kind else { panic!("{what}") };
        let unseen = if grid > cluster { RaceThreads::Grid } else { RaceThreads::Cluster };
        assert_eq!((race.threads, race.unseen), (RaceThreads::Warp, Some(unseen)), "{what}");
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        assert!(polls.lock().unwrap().len() <= (cluster as usize) * (workers + 1), "{what}");
    }
}

#[test]
fn a_warp_that_polls_by_warp_operations_lets_the_others_run() {
    let memory = GlobalMemory::new();
    let flag = Words::new(&memory, 1, 0);
    let address = flag.address();
    let kernel = || {
        if warp_id() == 1 {
            atomic_exchange(address, 1u32);
        }
        while !vote_any(u32::MAX, lane_id() == 0 && atomic_or(address, 0u32) == 1) {}
    };
    launch(&memory, 64).rendezvous_budget(100_000).run(&kernel).expect("warp 1 gets its turn");
}

#[test]
fn a_panic_is_a_fault_with_message_and_line_and_the_next_launch_works() {
    let memory = GlobalMemory::new();
    let value = 3;
    let error = fault(launch(&memory, 64), &|| {
        sync_threads();
        if thread_idx().x == 40 {
            panic!("value {value} is odd");
        }
        sync_threads();
    });
    assert_eq!((error.thread, error.location.map(|l| l.line())), (Dim3::new(40, 0, 0), Some(line!() - 4)));
    assert!(error.to_string().ends_with("the kernel panicked: value 3 is odd"), "{error}");
    let error = fault(launch(&memory, 1), &|| std::panic::panic_any(7));
    assert!(error.to_string().ends_with("the kernel panicked: with a payload that is not text"), "{error}");
    launch(&memory, 64).run(&sync_threads).expect("a fault leaves nothing behind");
}

#[test]
fn a_faulted_block_drops_what_lives_on_the_stacks_of_all_its_threads() {
    struct Counted<'a>(&'a AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
            // Destructors of an unwinding thread may call anything.
            sync_threads();
            sync_warp(u32::MAX);
            store_shared(0, load_shared::<u32>(0));
            assert_eq!(load_global::<u32>(1), u32::MAX);
            wait_until("never", || false);
        }
    }
    let (made, dropped) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let memory = GlobalMemory::new();
    for wait in [|| sync_threads(), || sync_warp(u32::MAX), || wait_until("never", || false)] {
        fault(launch(&memory, 100), &|| {
            made.fetch_add(1, Relaxed);
            let _counted = Counted(&dropped);
            if thread_idx().x == 99 {
                panic!("the last thread");
            }
            wait();
        });
        assert_eq!(made.load(Relaxed), dropped.load(Relaxed), "every thread that started was unwound");
    }
    assert_eq!(made.into_inner(), 300);
}

#[test]
fn a_kernel_that_catches_the_unwinding_is_ended_nevertheless() {
    let memory = GlobalMemory::new();
    let error = fault(launch(&memory, 2), &|| {
        if thread_idx().x == 1 {
            load_shared::<u32>(0);
        }
        for _ in 0..3 {
            let _ = std::panic::catch_unwind(sync_threads);
        }
    });
    assert_eq!(error.thread, Dim3::new(1, 0, 0), "{error}");
}

/// Calls itself until the stack ends, without an intrinsic.
#[inline(never)]
fn recurses(depth: u64) -> u64 {
    let here = std::hint::black_box([depth; 16]);
    if std::hint::black_box(depth) == u64::MAX { depth } else { 1 + recurses(depth + 1) + here[15] }
}

/// The same, with an intrinsic in each call.
#[inline(never)]
fn recurses_through_intrinsics(depth: u32) -> u32 {
    let here = std::hint::black_box([depth; 16]);
    if thread_idx().x == u32::MAX { depth } else { 1 + recurses_through_intrinsics(depth + 1) + here[15] }
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn a_thread_that_overruns_its_stack_is_a_fault_and_the_process_goes_on() {
    let memory = GlobalMemory::new();
    for _ in 0..3 {
        let error = fault(launch(&memory, 64).stack_bytes(64 * 1024), &|| {
            sync_threads();
            if thread_idx().x == 40 {
                std::hint::black_box(recurses(0));
            }
            sync_threads();
        });
        assert_eq!(error.kind, FaultKind::StackOverrun { bytes: 64 * 1024 }, "{error}");
        assert_eq!(error.thread, Dim3::new(40, 0, 0));
        assert!(error.to_string().contains("stack of 65536 bytes overflowed"), "{error}");
    }
    // An array that exceeds the guard page in one step.
    let error = fault(launch(&memory, 32), &|| {
        std::hint::black_box([0u8; 1 << 20]);
    });
    assert!(matches!(error.kind, FaultKind::StackOverrun { .. }), "{error}");
    launch(&memory, 64).run(&sync_threads).unwrap();
}

/// Threads of a program in another language have no signal stack.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn an_overrun_is_a_fault_also_on_threads_without_a_signal_stack() {
    let without = |_| {
        let none = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: no handler runs on the thread's signal stack.
        assert_eq!(unsafe { libc::sigaltstack(&raw const none, std::ptr::null_mut()) }, 0);
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).start_handler(without).build().unwrap();
    let memory = GlobalMemory::new();
    let error = pool.install(|| {
        fault(launch(&memory, 32).stack_bytes(64 * 1024), &|| {
            std::hint::black_box(recurses(0));
        })
    });
    assert_eq!(error.kind, FaultKind::StackOverrun { bytes: 64 * 1024 }, "{error}");
}

#[test]
fn a_stack_that_the_host_has_no_memory_for_is_a_fault() {
    let memory = GlobalMemory::new();
    // More than a process's address space.
    let error = fault(launch(&memory, 32).stack_bytes(1 << 47), &|| {});
    assert!(matches!(error.kind, FaultKind::NoStack { .. }), "{error}");
    assert_eq!((error.block, error.thread), (Dim3::new(0, 0, 0), Dim3::new(0, 0, 0)));
    let text = error.to_string();
    assert!(text.contains("no memory for the stack of the simulated thread: "), "{text}");
    launch(&memory, 64).run(&sync_threads).unwrap();
}

#[test]
fn intrinsics_fault_before_the_stack_ends() {
    let memory = GlobalMemory::new();
    let error = fault(launch(&memory, 64), &|| {
        if thread_idx().x == 3 {
            std::hint::black_box(recurses_through_intrinsics(0));
        }
        sync_threads();
    });
    assert_eq!(error.kind, FaultKind::StackOverrun { bytes: 256 * 1024 }, "{error}");
    assert!(error.location.is_some(), "the line of the intrinsic: {error}");
}

#[test]
fn a_loop_that_only_asks_for_its_index_is_noticed() {
    let memory = GlobalMemory::new();
    let error = fault(launch(&memory, 32).access_budget(1 << 20), &|| while thread_idx().x == 0 {});
    assert!(matches!(error.kind, FaultKind::NoProgress { .. }), "{error}");
}

/// The same, with a warp vote, a warp barrier and a group of copies, none of which is an access.
#[inline(never)]
fn recurses_through_votes(depth: u32) -> u32 {
    let here = std::hint::black_box([depth; 16]);
    sync_warp(u32::MAX);
    cp_async_commit();
    if vote_all(u32::MAX, depth == u32::MAX) {
        depth
    } else {
        1 + recurses_through_votes(depth + 1) + here[15]
    }
}

#[test]
fn operations_of_warps_fault_before_the_stack_ends() {
    let memory = GlobalMemory::new();
    for _ in 0..2 {
        let error = fault(launch(&memory, 64).stack_bytes(64 * 1024), &|| {
            std::hint::black_box(recurses_through_votes(0));
        });
        assert_eq!(error.kind, FaultKind::StackOverrun { bytes: 64 * 1024 }, "{error}");
    }
    launch(&memory, 64).run(&sync_threads).unwrap();
}
