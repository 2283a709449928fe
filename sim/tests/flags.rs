//! Flags: words that streams raise, and that streams and threads wait for.

use crate::common::Words;
use moye_sim::intrinsics::*;
use moye_sim::{FaultKind, GlobalMemory, Launch};

#[test]
fn a_stream_that_waits_for_a_flag_is_ordered_after_the_work_before_it() {
    let memory = GlobalMemory::new();
    let (data, flag) = (Words::new(&memory, 32, 0), Words::new(&memory, 1, 0));
    let (address, flag) = (data.address(), flag.address());
    let launch = Launch::new("fill", 1, 32, &memory).races(true);
    let fill = || store_global(address + 4 * u64::from(thread_idx().x), thread_idx().x);
    for waits in [true, false] {
        let (first, second) = (memory.new_stream(), memory.new_stream());
        launch.clone().stream(&first).run(&fill).unwrap();
        first.raise(flag, 1).unwrap();
        if waits {
            second.wait_flag(flag, 1).unwrap();
        }
        assert_eq!(launch.clone().stream(&second).run(&fill).is_ok(), waits);
        memory.synchronize();
    }
}

#[test]
fn a_thread_that_waits_for_a_flag_sees_the_work_before_it_and_the_others_do_not() {
    let memory = GlobalMemory::new();
    let (data, flag) = (Words::new(&memory, 1, 0), Words::new(&memory, 1, u32::MAX));
    let (address, flag) = (data.address(), flag.address());
    let (first, second) = (memory.new_stream(), memory.new_stream());
    let launch = Launch::new("k", 1, 32, &memory).races(true);
    launch.clone().stream(&first).run(&|| store_global(address, 7_u32)).unwrap();
    // Counters wrap: 1 is after the largest value.
    first.raise(flag, 1).unwrap();
    let reader = |waits: u32| {
        let kernel = move || {
            if thread_idx().x == waits {
                wait_flag(flag, u32::MAX);
            }
            if thread_idx().x == 3 {
                assert_eq!(load_global::<u32>(address), 7);
            }
        };
        launch.clone().stream(&second).run(&kernel)
    };
    let error = reader(4).unwrap_err().to_string();
    assert!(error.contains("thread (3,0,0)") && error.contains("race: read"), "{error}");
    reader(3).unwrap();
}

#[test]
fn a_flag_that_is_not_raised_is_a_fault_of_the_stream_and_of_the_thread() {
    let memory = GlobalMemory::new();
    let flag = Words::new(&memory, 1, 4);
    let address = flag.address();
    let stream = memory.new_stream();
    let expected = FaultKind::FlagNotRaised { address, found: 4, value: 5 };
    let error = stream.wait_flag(address, 5).unwrap_err();
    assert_eq!(error.fault().unwrap().kind, expected);
    let error = Launch::new("k", 1, 1, &memory).run(&|| wait_flag(address, 5)).unwrap_err();
    assert_eq!(error.fault().unwrap().kind, expected);
    assert!(stream.raise(address + 2, 1).unwrap_err().to_string().contains("not a multiple of 4"));
    assert!(stream.raise(address + 4096, 1).unwrap_err().to_string().contains("write of 4 bytes"));
}
