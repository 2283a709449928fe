//! Lanes of a warp, in shared memory: what brings lanes together orders no memory, but `sync_warp`.

use crate::{THREADS, load, raced, store};
use moye_device::arch::*;

raced! {
    KERNELS, THREADS, 1;
    /// Lanes of a warp exchange words by shared memory, with a shuffle in place of a barrier.
    shuffle_is_no_barrier(t, s, _data, right) {
        store(s + 4 * t, t); // shuffle_is_no_barrier
        let other = shuffle_xor(FULL_WARP, t, 1);
        if right {
            sync_warp(FULL_WARP);
        }
        other + load(s + 4 * (t ^ 1)) // shuffle_is_no_barrier
    }
    /// Lanes of a warp exchange words by shared memory, with a vote in place of a barrier.
    vote_is_no_barrier(t, s, _data, right) {
        store(s + 4 * t, t); // vote_is_no_barrier
        let votes = ballot(FULL_WARP, t % 32 > 3);
        if right {
            sync_warp(FULL_WARP);
        }
        votes ^ load(s + 4 * (t ^ 1)) // vote_is_no_barrier
    }
    /// `ldmatrix` of rows that other lanes have just written.
    ldmatrix_without_barrier(t, s, _data, right) {
        let row = s + 16 * t;
        for word in 0..4 {
            store(row + 4 * word, t); // ldmatrix_without_barrier
        }
        if right {
            sync_warp(FULL_WARP);
        }
        let [a, b, c, d] = ldmatrix_x4(row); // ldmatrix_without_barrier
        a + b + c + d
    }
    /// The same with `redux`.
    reduction_is_no_barrier(t, s, _data, right) {
        store(s + 4 * t, t); // reduction_is_no_barrier
        let most = reduce_max(FULL_WARP, t);
        if right {
            sync_warp(FULL_WARP);
        }
        most + load(s + 4 * (t ^ 9)) // reduction_is_no_barrier
    }
    /// A list is written in one loop and read back in the next by other lanes, a sum of shuffles
    /// between (ikawrakow/ik_llama.cpp pull request 2502).
    list_read_back_behind_a_sum(t, s, _data, right) {
        let mut at = t;
        while at < 128 {
            store(s + 4 * at, at); // list_read_back_behind_a_sum
            at += 64;
        }
        let (mut sum, mut mask) = (t, 16);
        while mask > 0 {
            sum += shuffle_xor(FULL_WARP, sum, mask);
            mask /= 2;
        }
        if right {
            sync_warp(FULL_WARP);
        }
        sum + load(s + 4 * (t ^ 5)) // list_read_back_behind_a_sum
    }
    /// A warp's accumulators are stored as their instruction spreads them over the lanes, and read
    /// in rows (JustVugg/colibri issue 1099).
    accumulators_read_in_rows(t, s, _data, right) {
        let (lane, tile) = (t % 32, s + 256 * (t / 32));
        let own = tile + 4 * (8 * (lane / 4) + 2 * (lane % 4));
        store(own, t); // accumulators_read_in_rows
        store(own + 4, t + 1); // accumulators_read_in_rows
        if right {
            sync_warp(FULL_WARP);
        }
        load(tile + 4 * lane) + load(tile + 4 * (lane + 32)) // accumulators_read_in_rows
    }
    /// The levels of a tree in one warp (tpruvot/ccminer pull request 75).
    levels_of_a_tree(t, s, _data, right) {
        store(s + 4 * t, t); // levels_of_a_tree
        let mut half = 16;
        while half > 0 {
            if right {
                sync_warp(FULL_WARP);
            }
            if t % 32 < half {
                store(s + 4 * t, load(s + 4 * t) + load(s + 4 * (t + half))); // levels_of_a_tree
            }
            half /= 2;
        }
        t
    }
    /// A lane resets the warp's counter, and a vote stands where a barrier is needed
    /// (NVIDIA/cuCollections pull request 337).
    counter_reset_before_a_vote(t, s, _data, right) {
        let counter = s + 4 * (t / 32);
        if t.is_multiple_of(32) {
            store(counter, 0); // counter_reset_before_a_vote
        }
        let votes = ballot(FULL_WARP, t % 3 == 0);
        if right {
            sync_warp(FULL_WARP);
        }
        if votes >> (t % 32) & 1 != 0 {
            u32::atomic_add_shared(counter, 1); // counter_reset_before_a_vote
        }
        votes
    }
}
