//! Threads of two blocks, in global memory.

use crate::{BLOCKS, THREADS, WORDS, raced};
use moye_device::arch::*;

raced! {
    KERNELS, THREADS, 1;
    /// A load behind the end of the buffer.
    row_behind_the_end(t, _s, data, right) {
        u32::load_global(data + 4 * u64::from(WORDS as u32 - 64 + t + u32::from(!right))) // row_behind_the_end
    }
    /// Two blocks write one word of global memory.
    blocks_write_one_word(t, _s, data, right) {
        if t == 0 {
            let block = block_idx().x;
            u32::store_global(data + if right { 4 * u64::from(block) } else { 0 }, 1 + block); // blocks_write_one_word
        }
        t
    }
    /// A flag in global memory without fences.
    flag_without_fences(t, _s, data, right) {
        let mut value = 0;
        if t == 0 {
            u32::store_global(data + 4 + 4 * u64::from(block_idx().x), 7); // flag_without_fences
            if right {
                fence_gpu();
            }
            let before = u32::atomic_add_global(data, 1);
            if right {
                fence_gpu();
            }
            if before == BLOCKS - 1 {
                value = u32::load_global(data + 4) + u32::load_global(data + 8); // flag_without_fences
            }
        }
        value
    }
    /// The same with fences of the block's scope.
    fences_of_the_block(t, _s, data, right) {
        let mut value = 0;
        if t == 0 {
            u32::store_global(data + 4 + 4 * u64::from(block_idx().x), 7); // fences_of_the_block
            if right { fence_gpu() } else { fence_block() }
            let before = u32::atomic_add_global(data, 1);
            if right { fence_gpu() } else { fence_block() }
            if before == BLOCKS - 1 {
                value = u32::load_global(data + 4) + u32::load_global(data + 8); // fences_of_the_block
            }
        }
        value
    }
    /// Both blocks count in one word by atomic operations of the block's scope.
    atomic_of_the_block(t, _s, data, right) {
        if t == 0 {
            let counter = data + if right { 4 * u64::from(block_idx().x) } else { 0 };
            u32::atomic_add_global_of_block(counter, 1); // atomic_of_the_block
        }
        t
    }
    /// The first block to count clears the counter, in place of the last.
    counter_reset_too_early(t, _s, data, right) {
        if t == 0 {
            let before = u32::atomic_add_global(data, 1); // counter_reset_too_early
            if before == if right { BLOCKS - 1 } else { 0 } {
                u32::store_global(data, 0); // counter_reset_too_early
            }
        }
        t
    }
    /// All threads of a block leave a word, and one counts for them without waiting.
    count_without_barrier(t, _s, data, right) {
        u32::store_global(data + 256 + 4 * u64::from(64 * block_idx().x + t), t + 1); // count_without_barrier
        if right {
            sync_threads();
        }
        let mut value = 0;
        if t == 0 {
            fence_gpu();
            let before = u32::atomic_add_global(data, 1);
            fence_gpu();
            if before == BLOCKS - 1 {
                value = u32::load_global(data + 256 + 4 * u64::from(64 * (1 - block_idx().x) + 40)); // count_without_barrier
            }
        }
        value
    }
    /// Tiles of 64 words, 60 words apart.
    tiles_overlap(t, _s, data, right) {
        let step = if right { 64 } else { 60 };
        u32::store_global(data + 4 * u64::from(block_idx().x * step + t), 1 + 64 * block_idx().x + t); // tiles_overlap
        t
    }
    /// A thread reads what the first thread of the next block writes.
    stencil_in_place(t, _s, data, right) {
        let at = 64 * block_idx().x + t;
        let mut value = 0;
        if t == 63 && block_idx().x == 0 {
            value = u32::load_global(data + 4 * u64::from(at + 1)); // stencil_in_place
        }
        u32::store_global(data + if right { 1024 } else { 0 } + 4 * u64::from(at), at + 1); // stencil_in_place
        value
    }
    /// A block reads the counter by a plain load while the other counts.
    counter_read_plainly(t, _s, data, right) {
        let mut value = 0;
        if t == 0 {
            if block_idx().x == 0 {
                u32::atomic_add_global(data, 1); // counter_read_plainly
            } else if right {
                value = u32::atomic_add_global(data, 0);
            } else {
                value = u32::load_global(data); // counter_read_plainly
            }
        }
        value
    }
}
