//! Launches in a forked process. A harness with a thread for each test would fork its threads too,
//! so the tests are parts of one.
#![cfg(target_os = "linux")]

use moye_sim::intrinsics::*;
use moye_sim::{GlobalMemory, Launch, LaunchError};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Numbers the threads of eight blocks, and returns the last number.
fn last_number() -> Result<u32, LaunchError> {
    let memory = GlobalMemory::new();
    let numbers = memory.alloc(4 * 256, "numbers").unwrap();
    let address = numbers.address();
    Launch::new("numbers", 8, 32, &memory).run(&|| {
        let i = block_idx().x * 32 + thread_idx().x;
        store_global(address + 4 * u64::from(i), i);
    })?;
    let mut last = [0; 4];
    numbers.read(4 * 255, &mut last).unwrap();
    Ok(u32::from_ne_bytes(last))
}

/// Whether `child`, called in a forked process, returns true within ten seconds.
fn in_a_child(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls `child` and exits; the allocator works after a fork.
    let id = unsafe { libc::fork() };
    if id == 0 {
        let code = i32::from(!child());
        // SAFETY: it ends the child without the harness's exit handlers.
        unsafe { libc::_exit(code) };
    }
    let begun = Instant::now();
    let mut status = 0;
    // SAFETY: the pointer is writable.
    while unsafe { libc::waitpid(id, &mut status, libc::WNOHANG) } == 0 {
        if begun.elapsed() > Duration::from_secs(10) {
            // SAFETY: it is the child's id, which `waitpid` has not freed.
            unsafe { libc::kill(id, libc::SIGKILL) };
            panic!("the child hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

#[test]
fn a_forked_process_launches_on_threads_of_its_own_and_refuses_where_locks_are_lost() {
    // Asking for the number of threads starts them before the fork.
    assert!(moye_sim::blocks_at_once(32) >= 1);
    assert!(in_a_child(|| matches!(last_number(), Ok(255))), "before any launch");
    assert_eq!(last_number().unwrap(), 255);
    let grandchild = || in_a_child(|| matches!(last_number(), Ok(255)));
    assert!(in_a_child(|| matches!(last_number(), Ok(255)) && grandchild()), "after a launch");

    // While another thread launches.
    let (running, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            Launch::new("waits", 1, 1, &GlobalMemory::new())
                .run(&|| {
                    running.store(true, Relaxed);
                    while !over.load(Relaxed) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                })
                .unwrap();
        });
        while !running.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let refused = in_a_child(|| {
            let text = last_number().unwrap_err().to_string();
            text.contains("forked while another thread ran a launch") && last_number().is_err()
        });
        over.store(true, Relaxed);
        assert!(refused);
    });
    assert_eq!(last_number().unwrap(), 255, "the parent continues");
}
