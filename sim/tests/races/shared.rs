//! Races of threads of a block in its shared memory.

use super::{Case, check_all};
use moye_sim::Access::{Atomic, Read, Write};
use moye_sim::RaceThreads::Block;
use moye_sim::intrinsics::*;

fn at(word: u32) -> u32 {
    shared_base() + 4 * word
}

/// The first pair that races is of one warp, others are not: only a barrier of the block orders
/// all.
fn transposed_tile(right: bool, _: u64) {
    let (row, column) = (thread_idx().x / 32, thread_idx().x % 32);
    for rows in (0..32).step_by(8) {
        store_shared(at(33 * (rows + row) + column), column); // transposed_tile
    }
    if right {
        sync_threads();
    }
    for rows in (0..32).step_by(8) {
        load_shared::<u32>(at(33 * column + rows + row)); // transposed_tile
    }
}

/// The same, but a lane of that warp has another fault before a second warp reaches the race.
fn race_before_another_fault(right: bool, _: u64) {
    let t = thread_idx().x;
    store_shared(at(t), t); // race_before_another_fault
    if right {
        sync_threads();
    }
    load_shared::<u32>(at(if t < 2 { 1 - t } else { 63 - t })); // race_before_another_fault
    if !right && t == 0 {
        load_shared::<u32>(at(1 << 20));
    }
}

/// The line races with one line of its warp, and with another of the block.
fn second_line_of_the_block(right: bool, _: u64) {
    let t = thread_idx().x;
    store_shared(at(t), t); // second_line_of_the_block
    if right {
        sync_threads();
    }
    load_shared::<u32>(at(t ^ 1));
    load_shared::<u32>(at(63 - t)); // second_line_of_the_block
}

fn wrong_named_barrier(right: bool, _: u64) {
    // Each pair of warps has its own barrier, but a warp reads what the other pair wrote.
    let t = thread_idx().x;
    store_shared(at(t), t); // wrong_named_barrier
    if right {
        sync_threads()
    } else {
        barrier_sync(1 + t / 64, 64)
    }
    load_shared::<u32>(at((t + 64) % 128)); // wrong_named_barrier
}

fn right_named_barrier_of_a_pair(right: bool, _: u64) {
    let t = thread_idx().x;
    store_shared(at(t), t); // right_named_barrier_of_a_pair
    if right {
        barrier_sync(1 + t / 64, 64);
    }
    load_shared::<u32>(at(t ^ 32)); // right_named_barrier_of_a_pair
}

fn consumer_does_not_come(right: bool, _: u64) {
    // 128 threads: a producer, which arrives alone, and a consumer that reads before its barrier.
    let t = thread_idx().x;
    if t < 32 {
        store_shared(at(t), t); // consumer_does_not_come
        barrier_arrive(1, 64);
    } else {
        if right {
            barrier_sync(1, 64);
        }
        load_shared::<u32>(at(t - 32)); // consumer_does_not_come
        if !right {
            barrier_sync(1, 64);
        }
    }
}

fn word_over_half(right: bool, _: u64) {
    // Adjacent halves belong to different threads; a whole word covers both.
    let t = thread_idx().x;
    if t == 0 {
        store_shared(at(0), 1_u16); // word_over_half
    } else if t == 32 && right {
        store_shared(at(0) + 2, 2_u16);
    } else if t == 32 {
        store_shared(at(0), 0x2_0002_u32); // word_over_half
    }
}

fn byte_of_a_vector(right: bool, _: u64) {
    let t = thread_idx().x;
    if t == 0 {
        store_shared(at(0), [1_u32; 4]); // byte_of_a_vector
    } else if t == 32 {
        store_shared(at(0) + if right { 16 } else { 13 }, 2_u8); // byte_of_a_vector
    }
}

fn counter_set_while_counted(right: bool, _: u64) {
    let t = thread_idx().x;
    store_shared(at(t), 0_u32);
    sync_threads();
    if t == 0 {
        store_shared(at(7), 100_u32); // counter_set_while_counted
    }
    if right {
        sync_threads();
    } else {
        sync_warp(u32::MAX);
    }
    if t == 33 {
        atomic_add(at(7), 1_u32); // counter_set_while_counted
    }
}

fn flag_without_acquire(right: bool, _: u64) {
    let t = thread_idx().x;
    if t == 0 {
        store_shared(at(0), 0_u32);
    }
    sync_threads();
    if t == 0 {
        store_shared(at(1), 7_u32); // flag_without_acquire
        fence();
        atomic_exchange(at(0), 1_u32);
    } else if t == 32 {
        while atomic_or(at(0), 0_u32) == 0 {}
        if right {
            fence();
        }
        load_shared::<u32>(at(1)); // flag_without_acquire
    }
}

pub const CASES: &[Case] = &[
    Case::race("transposed_tile", transposed_tile, Block, [Write, Read]).threads(256),
    Case::race("race_before_another_fault", race_before_another_fault, Block, [Write, Read]),
    Case::race("second_line_of_the_block", second_line_of_the_block, Block, [Write, Read]),
    Case::race("wrong_named_barrier", wrong_named_barrier, Block, [Write, Read]).threads(128),
    Case::race("right_named_barrier_of_a_pair", right_named_barrier_of_a_pair, Block, [Write, Read])
        .threads(128),
    Case::race("consumer_does_not_come", consumer_does_not_come, Block, [Write, Read]),
    Case::race("word_over_half", word_over_half, Block, [Write, Write]),
    Case::race("byte_of_a_vector", byte_of_a_vector, Block, [Write, Write]),
    Case::race("counter_set_while_counted", counter_set_while_counted, Block, [Write, Atomic]),
    Case::race("flag_without_acquire", flag_without_acquire, Block, [Write, Read]),
];

#[test]
fn races_of_a_blocks_threads_are_found_in_every_order() {
    check_all(CASES, include_str!("shared.rs"));
}

/// They are reported on request: two threads, two lines, no fault.
#[test]
fn writes_of_the_same_value_are_printed_once_for_two_lines_if_requested() {
    let memory = moye_sim::GlobalMemory::new();
    let data = memory.upload(&[0_u32; 64], "flags").unwrap();
    let address = data.address();
    let told = std::sync::Mutex::new(Vec::new());
    let tell = |fault: &moye_sim::Fault| told.lock().unwrap().push(fault.clone());
    let run = |value: fn(u32) -> u32| {
        let kernel = || {
            store_shared(at(thread_idx().x % 2), 5_u32); // of two words
            store_global(address, value(block_idx().x)); // of all blocks
        };
        moye_sim::Launch::new("same", 3, 64, &memory).shared_bytes(64).same_values(&tell).run(&kernel)
    };
    run(|_| 5).unwrap();
    let mut lines: Vec<u32> = Vec::new();
    for fault in told.lock().unwrap().drain(..) {
        let moye_sim::FaultKind::Race(race) = &fault.kind else { panic!("{fault}") };
        assert_eq!((race.access, race.other.access), (Write, Write), "{fault}");
        assert_eq!(fault.location, Some(race.other.location), "{fault}");
        lines.push(fault.location.unwrap().line());
    }
    lines.sort_unstable();
    let source = include_str!("shared.rs").lines().zip(1..);
    let marked: Vec<u32> = source
        .filter(|(line, _)| line.ends_with("; // of two words") || line.ends_with("; // of all blocks"))
        .map(|(_, line)| line)
        .collect();
    assert_eq!(lines, marked);
    run(|block| block).unwrap_err();
}

/// The same value by several threads: no run can tell which of them came last.
#[test]
fn writes_of_the_same_value_are_no_race() {
    let same = |_, data| {
        store_shared(at(0), 5_u32);
        store_global(data, 5_u32);
        assert_eq!((load_shared::<u32>(at(0)), load_global::<u32>(data)), (5, 5), "everyone's own");
    };
    let case = Case::race("same_value", same, Block, [Write, Write]).blocks(3);
    for order in (0..10).map(Some) {
        case.run(true, order).unwrap();
    }
}
