//! Kernels with one fault each, and the same kernels without it: what the simulator says of each is
//! held beside what compute-sanitizer says on a GPU (`racecheck.py`).
//!
//! A launch has two blocks of 64 threads. A kernel does what its faulty twin leaves out where
//! `right` holds. It ends with a store of each thread to its own word, so that no load is removed.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(unused_braces, reason = "each kernel has the same form")]
#![allow(clippy::missing_safety_doc, reason = "`raced!` says what every kernel trusts")]

use moye_device::arch::{
    AtomicAdd, CpAsyncSize, FULL_WARP, Word, arrive_barrier, ballot, block_idx, cp_async, cp_async_commit,
    cp_async_wait, cp_async_wait_all, fence_gpu, ldmatrix_x4, mbarrier_arrive, mbarrier_init,
    mbarrier_test_wait_parity, shared_base, shuffle_xor, sync_barrier, sync_threads, sync_warp, thread_idx,
};
use moye_device::memory::{GlobalMut, SharedArray};
use moye_device::{kernel, layout, static_layout};

/// The threads of a block.
pub const THREADS: u32 = 64;
/// The blocks of a launch.
pub const BLOCKS: u32 = 2;
/// The words of the buffer, which hold zeros.
pub const WORDS: usize = 1024;

static_layout! {
    /// The shared memory of a block, in words.
    pub Smem = layout!((1024, 1));
}

/// A barrier of the block, or one of the warp that is not enough.
#[inline(always)]
fn barrier_if(right: bool) {
    if right { sync_threads() } else { sync_warp(FULL_WARP) }
}

#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn store(address: u32, word: u32) {
    // SAFETY: the caller's contract: within the block's shared memory.
    unsafe { u32::store_shared(address, word) }
}

#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn load(address: u32) -> u32 {
    // SAFETY: the caller's contract: within the block's shared memory.
    unsafe { u32::load_shared(address) }
}

macro_rules! raced {
    ($($(#[$doc:meta])* $name:ident($t:ident, $s:ident, $data:ident, $right:ident) $body:block)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// The buffer has [`WORDS`] words, and the grid has [`BLOCKS`] blocks of [`THREADS`]
            /// threads.
            #[kernel(threads = THREADS, shared = SharedArray<u32, Smem>)]
            pub unsafe fn $name(data: GlobalMut<u32>, right: bool) {
                let ($t, $s, $data, $right) = (thread_idx().x, shared_base(), data.address(), right);
                // SAFETY: all addresses of the right kernel are within the buffer, or within the
                // shared memory; what the other one does is for the tools to say.
                unsafe {
                    let value: u32 = $body;
                    u32::store_global($data + 2048 + 4 * u64::from(block_idx().x * THREADS + $t), value)
                }
            }
        )*

        /// All kernels by name.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const KERNELS: &[&moye_device::kernel::Kernel<(GlobalMut<u32>, bool)>] = &[$(&$name),*];
    };
}

raced! {
    /// Words of the other warp are read with no barrier of the block between.
    reversal(t, s, _data, right) {
        store(s + 4 * t, t);
        barrier_if(right);
        load(s + 4 * (63 - t))
    }
    /// A tile is written over while the other warp still reads it.
    tile_refilled(t, s, _data, right) {
        store(s + 4 * t, t);
        sync_threads();
        let value = load(s + 4 * (63 - t));
        barrier_if(right);
        store(s + 4 * t, value + 1);
        value
    }
    /// The result takes the place of the operand that other warps still multiply by.
    result_over_operand(t, s, _data, right) {
        store(s + 4 * t, t);
        sync_threads();
        let mut sum = 0;
        for i in 0..64 {
            sum += load(s + 4 * i);
        }
        barrier_if(right);
        store(s + 4 * t, sum);
        sum
    }
    /// A loop over a tile with one barrier a pass.
    loop_without_second_barrier(t, s, _data, right) {
        let mut sum = 0;
        for turn in 0..3 {
            store(s + 4 * t, turn + t);
            sync_threads();
            sum += load(s + 4 * ((t + 32) % 64));
            barrier_if(right);
        }
        sum
    }
    /// Two warps write one word.
    two_warps_write_one_word(t, s, _data, right) {
        if t.is_multiple_of(32) {
            store(s + if right { 4 * t } else { 0 }, t);
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
                store(s + 4 * t, load(s + 4 * t) + load(s + 4 * (t + half)));
            }
            if right || half == 32 {
                sync_threads();
            }
            half /= 2;
        }
        barrier_if(right);
        load(s)
    }
    /// A named barrier at which the reader does not wait: it arrives alone.
    arrival_does_not_wait(t, s, _data, right) {
        if t < 32 {
            store(s + 4 * t, t);
            sync_barrier(1, 64);
            t
        } else if right {
            sync_barrier(1, 64);
            load(s + 4 * (t - 32))
        } else {
            arrive_barrier(1, 64);
            load(s + 4 * (t - 32))
        }
    }
    /// One buffer in place of two.
    double_buffer_of_one(t, s, _data, right) {
        let mut sum = 0;
        for turn in 0..4 {
            let buffer = s + if right { turn % 2 * 256 } else { 0 };
            store(buffer + 4 * t, turn + t);
            sync_threads();
            sum += load(buffer + 4 * ((t + 32) % 64));
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
                store(s + 20, load(s + 20) + 1 + t);
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
            u32::atomic_add_shared(s, 1);
        }
        barrier_if(right);
        if t == 40 { load(s) } else { 0 }
    }
    /// Lanes of a warp exchange words by shared memory, with a shuffle in place of a barrier.
    shuffle_is_no_barrier(t, s, _data, right) {
        store(s + 4 * t, t);
        let other = shuffle_xor(FULL_WARP, t, 1);
        if right {
            sync_warp(FULL_WARP);
        }
        other + load(s + 4 * (t ^ 1))
    }
    /// The same with a vote.
    vote_is_no_barrier(t, s, _data, right) {
        store(s + 4 * t, t);
        let votes = ballot(FULL_WARP, t % 32 > 3);
        if right {
            sync_warp(FULL_WARP);
        }
        votes ^ load(s + 4 * (t ^ 1))
    }
    /// `ldmatrix` of rows that other lanes have just written.
    ldmatrix_without_barrier(t, s, _data, right) {
        let row = s + 16 * t;
        for word in 0..4 {
            store(row + 4 * word, t);
        }
        if right {
            sync_warp(FULL_WARP);
        }
        let [a, b, c, d] = ldmatrix_x4(row);
        a + b + c + d
    }
    /// Words that `cp.async` of other threads has brought are read with no barrier.
    copied_tile_without_barrier(t, s, data, right) {
        cp_async(CpAsyncSize::B4, s + 4 * t, data + 4 * u64::from(t), 4);
        cp_async_wait_all();
        barrier_if(right);
        load(s + 4 * ((t + 32) % 64))
    }
    /// A stage is filled again while the other warp reads it.
    stage_copied_over(t, s, data, right) {
        store(s + 4 * t, t);
        sync_threads();
        let value = load(s + 4 * ((t + 32) % 64));
        barrier_if(right);
        cp_async(CpAsyncSize::B4, s + 4 * t, data + 4 * u64::from(t), 4);
        cp_async_wait_all();
        value
    }
    /// The thread's own copy of the second group is read behind a wait for the first.
    one_group_too_few(t, s, data, right) {
        for group in 0..2 {
            cp_async(CpAsyncSize::B4, s + 256 * group + 4 * t, data + 4 * u64::from(t), 4);
            cp_async_commit();
        }
        if right { cp_async_wait::<0>() } else { cp_async_wait::<1>() }
        load(s + 256 + 4 * t)
    }
    /// A consumer does not wait at the mbarrier at which the producer arrives.
    full_not_awaited(t, s, _data, right) {
        if t == 0 {
            mbarrier_init(s, 32);
        }
        sync_threads();
        if t < 32 {
            store(s + 256 + 4 * t, t);
            mbarrier_arrive(s);
            t
        } else {
            if right {
                while !mbarrier_test_wait_parity(s, 0) {}
            }
            load(s + 256 + 4 * (t - 32))
        }
    }
    /// Shared memory is read that was never written.
    tile_never_filled(t, s, _data, right) {
        if right || t != 7 {
            store(s + 4 * t, t);
        }
        sync_threads();
        load(s + 4 * (t ^ 1))
    }
    /// A barrier that half of the block comes to.
    barrier_of_half_a_block(t, _s, _data, right) {
        if right || t < 32 {
            sync_threads();
        }
        t
    }
    /// A load behind the end of the buffer.
    row_behind_the_end(t, _s, data, right) {
        u32::load_global(data + 4 * u64::from(WORDS as u32 - 64 + t + u32::from(!right)))
    }
    /// Two blocks write one word of global memory.
    blocks_write_one_word(t, _s, data, right) {
        if t == 0 {
            let block = block_idx().x;
            u32::store_global(data + if right { 4 * u64::from(block) } else { 0 }, 1 + block);
        }
        t
    }
    /// A flag in global memory without fences.
    flag_without_fences(t, _s, data, right) {
        let mut value = 0;
        if t == 0 {
            u32::store_global(data + 4 + 4 * u64::from(block_idx().x), 7);
            if right {
                fence_gpu();
            }
            let before = u32::atomic_add_global(data, 1);
            if right {
                fence_gpu();
            }
            if before == BLOCKS - 1 {
                value = u32::load_global(data + 4) + u32::load_global(data + 8);
            }
        }
        value
    }
}
