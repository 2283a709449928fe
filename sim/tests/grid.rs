//! Grids, blocks, indices and memory as a kernel without faults sees them.

use crate::common::{Words, fault};
use moye_sim::intrinsics::*;
use moye_sim::{Dim3, GlobalMemory, Launch, LaunchError};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[test]
fn every_thread_of_a_3d_grid_runs_once_and_knows_its_place() {
    let memory = GlobalMemory::new();
    let (grid, block) = (Dim3::new(3, 2, 2), Dim3::new(5, 3, 4));
    let out = Words::new(&memory, 12 * 60, 0);
    let address = out.address();
    let report = Launch::new("places", grid, block, &memory)
        .run(&|| {
            assert_eq!((grid_dim(), block_dim()), (grid, block));
            let (b, t) = (block_idx(), thread_idx());
            let linear = (t.z * 3 + t.y) * 5 + t.x;
            assert_eq!(
                (lane_id(), warp_id()),
                (linear % 32, linear / 32),
                "warps fill with x running fastest"
            );
            let at = ((b.z * 2 + b.y) * 3 + b.x) * 60 + linear;
            atomic_add(address + 4 * u64::from(at), at + 1);
        })
        .unwrap();
    assert_eq!((report.blocks, report.threads_per_block, report.accesses), (12, 60, 12 * 60));
    assert_eq!(out.read(), (1..=12 * 60).collect::<Vec<u32>>(), "each thread added its number once");
}

#[test]
fn every_width_of_access_goes_through_global_and_shared_memory() {
    let memory = GlobalMemory::new();
    let source = memory.alloc(64, "source").unwrap();
    source.write(0, &(0..64).collect::<Vec<u8>>()).unwrap();
    let target = memory.alloc(64, "target").unwrap();
    let (from, to) = (source.address(), target.address());
    Launch::new("widths", 1, 1, &memory)
        .shared_bytes(64)
        .run(&|| {
            let base = shared_base();
            assert_eq!(dynamic_shared_bytes(), 64);
            store_shared(base, load_global::<u8>(from));
            store_shared(base + 1, load_global::<i8>(from + 1));
            store_shared(base + 2, load_global::<half::f16>(from + 2));
            store_shared(base + 4, load_global::<f32>(from + 4));
            store_shared(base + 8, load_global::<[u32; 2]>(from + 8));
            store_shared(base + 16, load_global::<u128>(from + 16));
            store_shared(base + 32, load_global::<[f32; 4]>(from + 32));
            store_shared(base + 48, load_global::<[u8; 16]>(from + 48));
            for at in (0..64).step_by(16) {
                store_global(to + u64::from(at), load_shared::<u128>(base + at));
            }
        })
        .unwrap();
    let mut bytes = [0; 64];
    target.read(0, &mut bytes).unwrap();
    assert_eq!(bytes.to_vec(), (0..64).collect::<Vec<u8>>());
}

#[test]
fn a_block_of_1024_threads_reverses_through_shared_memory_many_times() {
    let memory = GlobalMemory::new();
    let out = Words::new(&memory, 4 * 1024, 0);
    let address = out.address();
    Launch::new("reverse", 4, 1024, &memory)
        .shared_bytes(4096)
        .run(&|| {
            let (t, base) = (thread_idx().x, shared_base());
            let mut value = t;
            for _ in 0..9 {
                store_shared(base + 4 * t, value);
                sync_threads();
                value = load_shared(base + 4 * (1023 - t));
                sync_threads();
            }
            store_global(address + 4 * u64::from(block_idx().x * 1024 + t), value);
        })
        .unwrap();
    let reversed: Vec<u32> = (0..4).flat_map(|_| (0..1024).rev()).collect();
    assert_eq!(out.read(), reversed, "an odd number of reversals is one");
}

#[test]
fn thousands_of_blocks_each_start_with_unwritten_shared_memory() {
    let memory = GlobalMemory::new();
    let kernel = || store_shared(shared_base(), block_idx().x);
    Launch::new("write", 3000, 64, &memory).shared_bytes(4).run(&kernel).unwrap();
    let peek = || {
        if block_idx().x > 0 {
            load_shared::<u32>(shared_base());
        }
        store_shared(shared_base(), 1u32);
    };
    let error = fault(Launch::new("peek", 3000, 1, &memory).shared_bytes(4), &peek);
    assert_eq!(error.block, Dim3::new(1, 0, 0), "what block 0 wrote is gone in block 1: {error}");
}

#[test]
fn named_barriers_let_a_part_of_the_block_go_on() {
    let memory = GlobalMemory::new();
    let out = Words::new(&memory, 1, 0);
    let address = out.address();
    Launch::new("named", 1, 96, &memory)
        .shared_bytes(4)
        .run(&|| {
            // Warp 0 waits for warp 1, which does not wait for it; warp 2 does not take part.
            match warp_id() {
                0 => {
                    barrier_sync(3, 64);
                    if lane_id() == 0 {
                        store_global(address, load_shared::<u32>(shared_base()));
                    }
                }
                1 => {
                    if lane_id() == 31 {
                        store_shared(shared_base(), 77u32);
                    }
                    barrier_arrive(3, 64);
                }
                _ => {}
            }
        })
        .unwrap();
    assert_eq!(out.read(), [77]);
}

#[test]
fn a_last_warp_with_fewer_lanes_counts_whole_at_a_named_barrier() {
    let memory = GlobalMemory::new();
    let kernel = || {
        if warp_id() == 1 {
            barrier_sync(1, 32);
        }
        barrier_sync(2, 64);
    };
    Launch::new("partial", 1, 40, &memory).run(&kernel).unwrap();
}

#[test]
fn a_thread_may_poll_for_what_another_writes_later() {
    let memory = GlobalMemory::new();
    let flag = Words::new(&memory, 1, 0);
    let address = flag.address();
    Launch::new("poll", 1, 64, &memory)
        .run(&|| {
            if thread_idx().x == 63 {
                atomic_exchange(address, 1u32);
            }
            while atomic_or(address, 0u32) == 0 {}
        })
        .unwrap();
}

#[test]
fn waiting_for_a_condition_ends_when_another_thread_fulfils_it() {
    let memory = GlobalMemory::new();
    Launch::new("relay", 1, 40, &memory)
        .shared_bytes(4)
        .run(&|| {
            let (t, turn) = (thread_idx().x, shared_base());
            if t == 0 {
                store_shared(turn, 39u32);
            }
            sync_threads();
            // Threads take turns from the last to the first, against the order in which they run.
            wait_until("its turn", || load_shared::<u32>(turn) == t);
            store_shared(turn, t.wrapping_sub(1));
        })
        .unwrap();
}

#[test]
fn atomics_of_all_blocks_and_threads_add_up() {
    let memory = GlobalMemory::new();
    let sums = memory.alloc(64, "sums").unwrap();
    sums.fill(0, 64, 0).unwrap();
    let address = sums.address();
    Launch::new("sums", 50, 64, &memory)
        .shared_bytes(8)
        .run(&|| {
            let (t, shared) = (thread_idx().x, shared_base());
            if t == 0 {
                store_shared(shared, 0u64);
            }
            sync_threads();
            atomic_add(shared, f64::from(t));
            atomic_add(address, 1u32);
            atomic_add(address + 4, 0.5f32);
            atomic_add(address + 8, 0.25f64);
            atomic_max(address + 16, t);
            atomic_min(address + 20, -(t as i32));
            atomic_or(address + 24, 1u64 << t);
            atomic_xor(address + 32, t);
            atomic_compare_exchange(address + 36, block_idx().x, block_idx().x);
            sync_threads();
            assert_eq!(atomic_exchange::<f64>(shared, 2016.0), 2016.0, "0 + ... + 63");
        })
        .unwrap();
    let mut bytes = [0; 64];
    sums.read(0, &mut bytes).unwrap();
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!((word(0), f32::from_bits(word(4))), (3200, 1600.0));
    assert_eq!(f64::from_ne_bytes(bytes[8..16].try_into().unwrap()), 800.0);
    assert_eq!((word(16), word(20) as i32, word(32), word(36)), (63, -63, 0, 0));
    assert_eq!(u64::from_ne_bytes(bytes[24..32].try_into().unwrap()), u64::MAX);
}

#[test]
fn progress_is_reported_after_every_block() {
    let (calls, last) = (AtomicU64::new(0), AtomicU64::new(0));
    let progress = |done, total| {
        assert_eq!(total, 20);
        calls.fetch_add(1, Relaxed);
        last.fetch_max(done, Relaxed);
    };
    Launch::new("idle", 20, 1, &GlobalMemory::new()).progress(&progress).run(&|| ()).unwrap();
    assert_eq!((calls.into_inner(), last.into_inner()), (20, 20));
}

#[test]
fn launches_from_several_os_threads_do_not_disturb_each_other() {
    std::thread::scope(|scope| {
        for number in 0..6u32 {
            scope.spawn(move || {
                let memory = GlobalMemory::new();
                let out = Words::new(&memory, 8 * 64, 0);
                let address = out.address();
                for _ in 0..10 {
                    Launch::new("own", 8, 64, &memory)
                        .shared_bytes(256)
                        .run(&|| {
                            let (t, b) = (thread_idx().x, block_idx().x);
                            store_shared(shared_base() + 4 * t, number);
                            sync_threads();
                            let value = load_shared::<u32>(shared_base() + 4 * (63 - t));
                            store_global(address + 4 * u64::from(b * 64 + t), value);
                        })
                        .unwrap();
                    assert_eq!(out.read(), vec![number; 8 * 64]);
                }
            });
        }
    });
}

#[test]
fn launches_that_no_gpu_could_run_are_refused_with_the_values() {
    let memory = GlobalMemory::new();
    let refused = |grid: Dim3, block: Dim3, shared: usize| {
        let error = Launch::new("k", grid, block, &memory).shared_bytes(shared).run(&|| ()).unwrap_err();
        assert!(matches!(error, LaunchError::Invalid { .. }), "{error}");
        error.to_string()
    };
    let one = Dim3::from(1);
    assert!(refused(Dim3::from(0), one, 0).contains("grid (0,1,1)"));
    assert!(refused(one, Dim3::new(32, 0, 1), 0).contains("(32,0,1)"));
    assert!(refused(one, Dim3::from((32, 33)), 0).contains("1056 threads"));
    assert!(refused(one, Dim3::new(1, 1, 65), 0).contains("64 along z"));
    assert!(refused(one, Dim3::new(u32::MAX, u32::MAX, u32::MAX), 0).contains("1024"));
    assert!(refused(Dim3::new(1, 65_536, 1), one, 0).contains("65536"));
    assert!(refused(one, one, 232_449).contains("232449"));
}

#[test]
fn intrinsics_outside_a_launch_and_launches_inside_one_say_so() {
    let panic = std::panic::catch_unwind(|| thread_idx()).unwrap_err();
    let message = panic.downcast_ref::<&str>().expect("a literal message");
    assert!(message.contains("outside a launch"), "{message}");

    let memory = GlobalMemory::new();
    let inner = || {
        let error = Launch::new("inner", 1, 1, &memory).run(&|| ()).unwrap_err();
        assert!(error.to_string().contains("simulated thread cannot launch"), "{error}");
    };
    Launch::new("outer", 1, 1, &memory).run(&inner).unwrap();
}

#[test]
fn two_blocks_that_wait_for_each_other_meet() {
    let memory = GlobalMemory::new();
    let out = Words::new(&memory, 2, 0);
    let address = out.address();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let met = pool.install(|| {
        assert_eq!(moye_sim::blocks_at_once(1), 2);
        // Each announces itself, then waits for the other; run one after another, they would exceed
        // the budget.
        Launch::new("meet", 2, 1, &memory).access_budget(1 << 28).run(&|| {
            let (mine, other) = (u64::from(block_idx().x), u64::from(1 - block_idx().x));
            atomic_add(address + 4 * mine, 1_u32);
            while atomic_add(address + 4 * other, 0_u32) == 0 {}
        })
    });
    met.unwrap();
    assert_eq!(out.read(), [1, 1]);
}
