//! The environment variables for races, orders and stacks, each in a separate process: this test
//! program, called again.

use moye_sim::intrinsics::*;
use moye_sim::{GlobalMemory, Launch};
use std::process::Command;

/// Calls [`a_race`] with these variables, and returns its output.
fn said(variables: &[(&str, &str)]) -> String {
    said_by("variables::a_race", variables)
}

fn said_by(test: &str, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    command.env_remove("MOYE_SIM_RACES").env_remove("MOYE_SIM_ORDER").env_remove("MOYE_SIM_STACK");
    let done = command.envs(variables.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{text}{}", String::from_utf8_lossy(&done.stderr));
    let (_, result) = text.lines().find_map(|line| line.split_once("result: ")).expect("a result");
    result.to_owned()
}

/// Four warps write one word: a race between whichever two come first.
#[test]
#[ignore = "the tests of this file call it"]
fn a_race() {
    let launch = Launch::new("race", 1, 128, &GlobalMemory::new());
    let ran = launch.shared_bytes(64).run(&|| store_shared(shared_base(), warp_id()));
    match ran {
        Ok(_) => println!("result: silent"),
        Err(error) => println!("result: {}", error.fault().unwrap()),
    }
}

#[test]
fn the_variable_of_races_turns_the_search_on_and_off() {
    assert_eq!(said(&[("MOYE_SIM_RACES", "0")]), "silent");
    for on in ["1", "values"] {
        assert!(said(&[("MOYE_SIM_RACES", on)]).contains("race: write of 4 bytes"));
    }
    assert_eq!(said(&[]) == "silent", !cfg!(debug_assertions));
}

#[test]
fn the_variable_of_the_order_draws_one_order_for_each_number() {
    let of = |seed: &str| said(&[("MOYE_SIM_RACES", "1"), ("MOYE_SIM_ORDER", seed)]);
    let drawn: Vec<String> = (0..6).map(|seed| of(&seed.to_string())).collect();
    for seed in [0, 3, 5] {
        assert_eq!(drawn[seed], of(&seed.to_string()), "the same number, the same order");
    }
    assert!(drawn.iter().any(|other| *other != drawn[0]), "{drawn:?}");
}

/// Has an array of 512 KiB on the stack.
#[test]
#[ignore = "the tests of this file call it"]
fn a_large_array() {
    let ran = Launch::new("large", 1, 1, &GlobalMemory::new()).run(&|| {
        std::hint::black_box([0u8; 512 << 10]);
    });
    match ran {
        Ok(_) => println!("result: silent"),
        Err(error) => println!("result: {}", error.fault().unwrap()),
    }
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn the_variable_of_the_stack_has_room_for_what_overruns_the_default() {
    let of = |variables| said_by("variables::a_large_array", variables);
    assert!(of(&[]).contains("stack of 262144 bytes overflowed"));
    assert_eq!(of(&[("MOYE_SIM_STACK", "2097152")]), "silent");
    assert!(of(&[("MOYE_SIM_STACK", "1")]).contains("stack of 32768 bytes overflowed"));
}

/// The order in which the warps of a block and the blocks of a grid run.
fn order_of(seed: u64) -> Vec<(u32, u32)> {
    let order = std::sync::Mutex::new(Vec::new());
    let launch = Launch::new("order", 6, 96, &GlobalMemory::new()).order(seed);
    let kernel = || order.lock().unwrap().push((block_idx().x, thread_idx().x));
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    one.install(|| launch.run(&kernel)).unwrap();
    order.into_inner().unwrap()
}

#[test]
fn a_number_draws_the_same_order_of_blocks_and_threads_each_time() {
    let first = order_of(7);
    assert_eq!(first.len(), 6 * 96);
    for _ in 0..3 {
        assert_eq!(order_of(7), first);
    }
    assert_ne!(order_of(8), first);
}
