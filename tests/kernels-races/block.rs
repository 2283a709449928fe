//! Threads of two warps of a block, in shared memory.

use crate::{THREADS, barrier_if, load, raced, store};
use moye_device::arch::*;

raced! {
    KERNELS, THREADS, 1;
    /// Words of the other warp are read with no barrier of the block between.
    reversal(t, s, _data, right) {
        store(s + 4 * t, t); // reversal
        barrier_if(right);
        load(s + 4 * (63 - t)) // reversal
    }
    /// A tile is written over while the other warp still reads it.
    tile_refilled(t, s, _data, right) {
        store(s + 4 * t, t);
        sync_threads();
        let value = load(s + 4 * (63 - t)); // tile_refilled
        barrier_if(right);
        store(s + 4 * t, value + 1); // tile_refilled
        value
    }
    /// The result takes the place of the operand that other warps still multiply by.
    result_over_operand(t, s, _data, right) {
        store(s + 4 * t, t);
        sync_threads();
        let mut sum = 0;
        for i in 0..64 {
            sum += load(s + 4 * i); // result_over_operand
        }
        barrier_if(right);
        store(s + 4 * t, sum); // result_over_operand
        sum
    }
    /// A loop over a tile with one barrier a pass.
    loop_without_second_barrier(t, s, _data, right) {
        let mut sum = 0;
        for turn in 0..3 {
            store(s + 4 * t, turn + t); // loop_without_second_barrier
            sync_threads();
            sum += load(s + 4 * ((t + 32) % 64)); // loop_without_second_barrier
            barrier_if(right);
        }
        sum
    }
    /// Two warps write one word.
    two_warps_write_one_word(t, s, _data, right) {
        if t.is_multiple_of(32) {
            store(s + if right { 4 * t } else { 0 }, t); // two_warps_write_one_word
        }
        t
    }
    /// A tree whose last steps have no barrier of the block.
    tree_without_barrier(t, s, _data, right) {
        store(s + 4 * t, t);
        sync_threads();
        let mut half = 32;
        while half > 0 {
            if t < half {
                store(s + 4 * t, load(s + 4 * t) + load(s + 4 * (t + half))); // tree_without_barrier
            }
            barrier_if(right || half == 32);
            half /= 2;
        }
        barrier_if(right);
        load(s) // tree_without_barrier
    }
    /// A named barrier at which the reader does not wait: it arrives alone.
    arrival_does_not_wait(t, s, _data, right) {
        if t < 32 {
            store(s + 4 * t, t); // arrival_does_not_wait
            sync_barrier(1, 64);
            t
        } else if right {
            sync_barrier(1, 64);
            load(s + 4 * (t - 32))
        } else {
            arrive_barrier(1, 64);
            load(s + 4 * (t - 32)) // arrival_does_not_wait
        }
    }
    /// One buffer in place of two.
    double_buffer_of_one(t, s, _data, right) {
        let mut sum = 0;
        for turn in 0..4 {
            let buffer = s + if right { turn % 2 * 256 } else { 0 };
            store(buffer + 4 * t, turn + t); // double_buffer_of_one
            sync_threads();
            sum += load(buffer + 4 * ((t + 32) % 64)); // double_buffer_of_one
        }
        sum
    }
    /// A histogram by loads and stores.
    histogram_without_atomics(t, s, _data, right) {
        store(s + 4 * t, 0);
        sync_threads();
        if t.is_multiple_of(32) {
            if right {
                u32::atomic_add_shared(s + 20, 1);
            } else {
                store(s + 20, load(s + 20) + 1 + t); // histogram_without_atomics
            }
        }
        t
    }
    /// A counter is read while others still count.
    atomic_and_plain_read(t, s, _data, right) {
        if t == 0 {
            store(s, 0);
        }
        sync_threads();
        if t < 32 {
            u32::atomic_add_shared(s, 1); // atomic_and_plain_read
        }
        barrier_if(right);
        if t == 40 { load(s) } else { 0 } // atomic_and_plain_read
    }
    /// A consumer does not wait at the mbarrier at which the producer arrives.
    full_not_awaited(t, s, _data, right) {
        if t == 0 {
            mbarrier_init(s, 32);
        }
        sync_threads();
        if t < 32 {
            store(s + 256 + 4 * t, t); // full_not_awaited
            mbarrier_arrive(s);
            t
        } else {
            if right {
                while !mbarrier_test_wait_parity(s, 0) {}
            }
            load(s + 256 + 4 * (t - 32)) // full_not_awaited
        }
    }
    /// Shared memory is read that was never written.
    tile_never_filled(t, s, _data, right) {
        if right || t != 7 {
            store(s + 4 * t, t);
        }
        sync_threads();
        load(s + 4 * (t ^ 1)) // tile_never_filled
    }
    /// A barrier that half of the block comes to.
    barrier_of_half_a_block(t, _s, _data, right) {
        if right || t < 32 {
            sync_threads(); // barrier_of_half_a_block
        }
        t
    }
    /// One thread writes a sum that all read, and the next barrier comes behind the reads.
    sum_read_by_all(t, s, _data, right) {
        if t == 0 {
            store(s + 128, 5); // sum_read_by_all
        }
        barrier_if(right);
        let sum = load(s + 128); // sum_read_by_all
        sync_threads();
        sum + t
    }
    /// One thread writes where the block's results begin. All threads read it before the barrier,
    /// for an offset that is not used in the end, and again behind the barrier. The compiler
    /// removes the first read, so that racecheck sees a program without the race
    /// (ORNL/HeCBench issue 254).
    offset_read_before_the_barrier(t, s, data, right) {
        if t == 63 {
            let begin = u32::atomic_add_global(data, 64);
            store(s + 124, begin); // offset_read_before_the_barrier
        }
        barrier_if(right);
        let _offset = load(s + 124) + t; // offset_read_before_the_barrier
        store(s + 256 + 4 * t, 3 * t);
        sync_threads();
        load(s + 124) + load(s + 256 + 4 * (t ^ 32))
    }
    /// The scratch of one reduction is that of the next, too (NVIDIA/cutlass issue 3597).
    scratch_of_two_reductions(t, s, _data, right) {
        let warp = t / 32;
        if t.is_multiple_of(32) {
            store(s + 4 * warp, t);
        }
        sync_threads();
        let first = load(s) + load(s + 4); // scratch_of_two_reductions
        barrier_if(right);
        if t.is_multiple_of(32) {
            store(s + 4 * warp, first + t); // scratch_of_two_reductions
        }
        sync_threads();
        first + load(s) + load(s + 4)
    }
    /// Partial sums are cleared by lanes of the first warp, and stored by one lane of each warp
    /// (karpathy/llm.c pull request 847).
    cleared_by_other_threads(t, s, _data, right) {
        if t < 32 {
            store(s + 4 * t, 0); // cleared_by_other_threads
        }
        barrier_if(right);
        if t.is_multiple_of(32) {
            store(s + 4 * (t / 32), t + 7); // cleared_by_other_threads
        }
        sync_threads();
        load(s) + load(s + 4)
    }
    /// A scan in place with one barrier a step.
    scan_without_second_barrier(t, s, _data, right) {
        let mut value = t;
        store(s + 4 * t, value);
        sync_threads();
        let mut step = 1;
        while step < 64 {
            let other = if t >= step { load(s + 4 * (t - step)) } else { 0 }; // scan_without_second_barrier
            barrier_if(right);
            value += other;
            store(s + 4 * t, value); // scan_without_second_barrier
            sync_threads();
            step *= 2;
        }
        value
    }
    /// A tile is transposed in place.
    transpose_in_place(t, s, _data, right) {
        store(s + 4 * t, t);
        sync_threads();
        let value = load(s + 4 * (8 * (t % 8) + t / 8)); // transpose_in_place
        barrier_if(right);
        store(s + 4 * t, value); // transpose_in_place
        value
    }
    /// A queue between two warps: the consumer polls how many items there are. With fences it is
    /// right, and racecheck reports it nevertheless, as it did in libcudf (rapidsai/cudf issue
    /// 6244): it does not see what orders the two.
    queue_of_two_warps(t, s, _data, right) {
        if t == 0 {
            store(s, 0);
        }
        sync_threads();
        let mut sum = 0;
        if t == 0 {
            let mut item = 0;
            while item < 4 {
                store(s + 128 + 4 * item, item + 7); // queue_of_two_warps
                if right {
                    fence_block();
                }
                u32::atomic_add_shared(s, 1);
                item += 1;
            }
        } else if t == 32 {
            let mut item = 0;
            while item < 4 {
                while u32::atomic_add_shared(s, 0) <= item {}
                if right {
                    fence_block();
                }
                sum += load(s + 128 + 4 * item); // queue_of_two_warps
                item += 1;
            }
        }
        sum
    }
    /// A start that one warp moves on while others read it (rapidsai/cudf pull request 6766, for
    /// issue 6244).
    start_moved_while_read(t, s, _data, right) {
        if t == 0 {
            store(s, 3);
        }
        sync_threads();
        let start = load(s); // start_moved_while_read
        barrier_if(right);
        if t == 32 {
            store(s, start + 64); // start_moved_while_read
        }
        start + t
    }
}
