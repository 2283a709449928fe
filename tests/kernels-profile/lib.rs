//! Kernels of known accesses, good and bad. What the simulator's profile says of each is compared
//! with the counters of a GPU.
//!
//! Each block has 128 threads. A kernel of loads ends with one store of each thread to its own
//! word, so that the loads are not removed; a kernel of shared memory writes all of it first,
//! without conflicts.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(unused_braces, reason = "each kernel has the same form")]
#![allow(clippy::missing_safety_doc, reason = "`profiled!` says what every kernel trusts")]

use moye_device::arch::{
    AtomicAdd, CpAsyncSize, Word, Word64x2, Word128, block_idx, cp_async, cp_async_commit, cp_async_wait,
    cp_async_wait_all, ldmatrix_x1, ldmatrix_x4, shared_base, sync_threads, thread_idx,
};
use moye_device::memory::{Global, GlobalMut, SharedArray};
use moye_device::{kernel, layout, static_layout};

/// The threads of a block.
pub const THREADS: u32 = 128;
/// The blocks of a launch.
pub const BLOCKS: u32 = 4;
/// The words that both buffers have.
pub const WORDS: usize = 1 << 20;

static_layout! {
    /// The shared memory of a block, in words.
    pub Smem = layout!((8192, 1));
}

/// Writes all of the shared memory without conflicts.
#[inline(always)]
fn fill(thread: u32) {
    let mut at = thread;
    while at < 8192 {
        // SAFETY: within the block's shared memory.
        unsafe { u32::store_shared(shared_base() + 4 * at, at) };
        at += THREADS;
    }
    sync_threads();
}

/// Where the block's 64 KiB begin in a buffer of which `word` is the thread's own word.
#[inline(always)]
fn own_part(word: u64, thread: u32) -> u64 {
    let block = block_idx().x;
    word - 4 * u64::from(block * THREADS + thread) + 65536 * u64::from(block)
}

#[inline(always)]
fn sum2(word: Word64x2) -> u32 {
    word.0[0] ^ word.0[1]
}

#[inline(always)]
fn xor4(word: Word128) -> u32 {
    word.0[0] ^ word.0[1] ^ word.0[2] ^ word.0[3]
}

#[inline(always)]
fn sum4(word: Word128) -> u32 {
    word.0[0] + word.0[1] + word.0[2] + word.0[3]
}

macro_rules! profiled {
    ($list:ident: $($(#[$doc:meta])* $name:ident($x:ident, $y:ident, $t:ident, $s:ident) $body:block)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// Both buffers have [`WORDS`](crate::WORDS) words, and the grid has
            /// [`BLOCKS`](crate::BLOCKS) blocks of [`THREADS`](crate::THREADS) threads.
            #[kernel(threads = THREADS, shared = SharedArray<u32, Smem>)]
            pub unsafe fn $name(x: Global<u32>, y: GlobalMut<u32>) {
                let $t = thread_idx().x;
                let thread = u64::from(block_idx().x * THREADS + $t);
                // The buffers, and the shared memory. Each block has 64 KiB of both.
                let $x = x.address() + 65536 * u64::from(block_idx().x);
                let $y = y.address() + 4 * thread;
                let $s = shared_base();
                // SAFETY: all addresses are within 64 KiB of the block's part, or within the shared
                // memory.
                unsafe { $body }
            }
        )*

        /// These kernels by name.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const $list: &[&$crate::Profiled] = &[$(&$name),*];
    };
}

mod compute;
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
mod hopper;

pub use compute::*;
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub use hopper::*;

/// What each of them takes.
#[cfg(not(target_arch = "nvptx64"))]
pub type Profiled = moye_device::kernel::Kernel<(Global<u32>, GlobalMut<u32>)>;

/// All kernels of two buffers, each with the blocks of its clusters.
#[cfg(not(target_arch = "nvptx64"))]
pub fn kernels() -> impl Iterator<Item = (&'static Profiled, u32)> {
    let lists = [(ACCESSES, 1), (COMPUTATIONS, 1), (HOPPER, 1), (CLUSTERS, 2)];
    lists.into_iter().flat_map(|(kernels, cluster)| kernels.iter().map(move |kernel| (*kernel, cluster)))
}

profiled! {
    ACCESSES:
    /// Neighbours load neighbouring words.
    load_neighbours(x, y, t, _s) { u32::store_global(y, u32::load_global(x + 4 * u64::from(t))) }
    /// Neighbours load neighbouring 8 bytes.
    load_b64(x, y, t, _s) { let Word64x2([a, b]) = Word64x2::load_global(x + 8 * u64::from(t)); u32::store_global(y, a + b) }
    /// Neighbours load neighbouring 16 bytes.
    load_b128(x, y, t, _s) { u32::store_global(y, sum4(Word128::load_global(x + 16 * u64::from(t)))) }
    /// Every other word.
    load_every_other(x, y, t, _s) { u32::store_global(y, u32::load_global(x + 8 * u64::from(t))) }
    /// A column of a matrix whose rows are 128 bytes: a sector for each lane.
    load_column(x, y, t, _s) { u32::store_global(y, u32::load_global(x + 128 * u64::from(t))) }
    /// Neighbours, shifted by one word: five sectors for four.
    load_shifted(x, y, t, _s) { u32::store_global(y, u32::load_global(x + 4 + 4 * u64::from(t))) }
    /// One word for all lanes.
    load_broadcast(x, y, _t, _s) { u32::store_global(y, u32::load_global(x)) }
    /// The lower half of each warp loads.
    load_half_of_warp(x, y, t, _s) {
        u32::store_global(y, u32::load_global_if(t % 32 < 16, x + 4 * u64::from(t)))
    }
    /// A column of stores.
    store_column(_x, y, t, _s) { u32::store_global(own_part(y, t) + 128 * u64::from(t), t) }
    /// Stores of 16 bytes.
    store_b128(_x, y, t, _s) { Word128::store_global(own_part(y, t) + 16 * u64::from(t), Word128([t; 4])) }
    /// Shared memory: neighbours.
    shared_row(_x, y, t, s) { fill(t); u32::store_global(y, u32::load_shared(s + 4 * t)) }
    /// Shared memory: every other word, two lanes a bank.
    shared_two_way(_x, y, t, s) { fill(t); u32::store_global(y, u32::load_shared(s + 8 * t)) }
    /// Shared memory: a column, all lanes one bank.
    shared_column(_x, y, t, s) { fill(t); u32::store_global(y, u32::load_shared(s + 128 * (t % 32))) }
    /// Shared memory: a column of rows that are one word longer.
    shared_padded(_x, y, t, s) { fill(t); u32::store_global(y, u32::load_shared(s + 132 * (t % 32))) }
    /// Shared memory: neighbouring 16 bytes.
    shared_b128(_x, y, t, s) { fill(t); u32::store_global(y, sum4(Word128::load_shared(s + 16 * t))) }
    /// Shared memory: 16 bytes of rows of 128 bytes.
    shared_b128_column(_x, y, t, s) { fill(t); u32::store_global(y, sum4(Word128::load_shared(s + 128 * t))) }
    /// Shared memory: stores to a column.
    shared_store_column(_x, y, t, s) {
        u32::store_shared(s + 128 * t, t);
        sync_threads();
        u32::store_global(y, u32::load_shared(s + 128 * t))
    }
    /// `ldmatrix` of rows of 128 bytes: eight rows in four banks.
    ldmatrix_column(_x, y, t, s) {
        fill(t);
        let [a, b, c, d] = ldmatrix_x4(s + 128 * (t % 32));
        u32::store_global(y, a + b + c + d)
    }
    /// `ldmatrix` of rows of 144 bytes.
    ldmatrix_padded(_x, y, t, s) {
        fill(t);
        let [a, b, c, d] = ldmatrix_x4(s + 144 * (t % 32));
        u32::store_global(y, a + b + c + d)
    }
    /// `ldmatrix` of one matrix.
    ldmatrix_one(_x, y, t, s) { fill(t); let [a] = ldmatrix_x1(s + 16 * (t % 8)); u32::store_global(y, a) }
    /// `cp.async` of neighbouring 16 bytes.
    copy_asynchronous(x, y, t, s) {
        cp_async(CpAsyncSize::B16, s + 16 * t, x + 16 * u64::from(t), 16);
        cp_async_wait_all();
        sync_threads();
        u32::store_global(y, u32::load_shared(s + 4 * t))
    }
    /// Atomic additions to one word of the block's.
    atomic_one(x, y, _t, _s) { u32::store_global(y, u32::atomic_add_global(x, 1)) }
    /// Atomic additions to shared memory, a word for each lane.
    atomic_shared(_x, y, t, s) { fill(t); u32::store_global(y, u32::atomic_add_shared(s + 4 * t, 1)) }
    /// Shared memory: four lanes a bank.
    shared_four_way(_x, y, t, s) { fill(t); u32::store_global(y, u32::load_shared(s + 16 * t)) }
    /// Shared memory: a column of rows whose words are exchanged by the row's number.
    shared_swizzled(_x, y, t, s) {
        fill(t);
        let row = t % 32;
        u32::store_global(y, u32::load_shared(s + 128 * row + 4 * (5 ^ row)))
    }
    /// Shared memory: one word of 8 bytes for all lanes.
    shared_b64_broadcast(_x, y, t, s) { fill(t); u32::store_global(y, sum2(Word64x2::load_shared(s))) }
    /// Shared memory: 8 bytes for two lanes each.
    shared_b64_pairs(_x, y, t, s) {
        fill(t);
        u32::store_global(y, sum2(Word64x2::load_shared(s + 8 * (t / 2))))
    }
    /// Shared memory: 8 bytes for lanes 0 and 2, 1 and 3, ...
    shared_b64_every_other(_x, y, t, s) {
        fill(t);
        u32::store_global(y, sum2(Word64x2::load_shared(s + 8 * (t & !2))))
    }
    /// Shared memory: 8 bytes for four lanes each.
    shared_b64_quads(_x, y, t, s) {
        fill(t);
        u32::store_global(y, sum2(Word64x2::load_shared(s + 8 * (t / 4))))
    }
    /// Shared memory: the same 8 bytes in both halves of the warp.
    shared_b64_halves(_x, y, t, s) {
        fill(t);
        u32::store_global(y, sum2(Word64x2::load_shared(s + 8 * (t % 16))))
    }
    /// Shared memory: the even lanes load 8 bytes.
    shared_b64_even(_x, y, t, s) {
        fill(t);
        if t.is_multiple_of(2) {
            u32::store_global(y, sum2(Word64x2::load_shared(s + 8 * t)))
        }
    }
    /// Shared memory: one word of 16 bytes for all lanes.
    shared_b128_broadcast(_x, y, t, s) { fill(t); u32::store_global(y, xor4(Word128::load_shared(s))) }
    /// Shared memory: 16 bytes for two lanes each.
    shared_b128_pairs(_x, y, t, s) {
        fill(t);
        u32::store_global(y, xor4(Word128::load_shared(s + 16 * (t / 2))))
    }
    /// Shared memory: 16 bytes for lanes 0 and 2, 1 and 3, ...
    shared_b128_every_other(_x, y, t, s) {
        fill(t);
        u32::store_global(y, xor4(Word128::load_shared(s + 16 * (t & !2))))
    }
    /// Shared memory: 16 bytes for eight lanes each.
    shared_b128_eights(_x, y, t, s) {
        fill(t);
        u32::store_global(y, xor4(Word128::load_shared(s + 16 * (t / 8))))
    }
    /// Shared memory: the even lanes load 16 bytes.
    shared_b128_even(_x, y, t, s) {
        fill(t);
        if t.is_multiple_of(2) {
            u32::store_global(y, xor4(Word128::load_shared(s + 16 * t)))
        }
    }
    /// Shared memory: the even lanes store 8 and 16 bytes.
    shared_store_even(_x, y, t, s) {
        if t.is_multiple_of(2) {
            Word64x2::store_shared(s + 8 * t, Word64x2([t; 2]));
            Word128::store_shared(s + 8192 + 16 * t, Word128([t; 4]));
        }
        sync_threads();
        u32::store_global(y, u32::load_shared(s + 8 * (t & !1)))
    }
    /// `cp.async` of neighbouring 4 bytes.
    copy_words(x, y, t, s) {
        cp_async(CpAsyncSize::B4, s + 4 * t, x + 4 * u64::from(t), 4);
        cp_async_wait_all();
        sync_threads();
        u32::store_global(y, u32::load_shared(s + 4 * t))
    }
    /// As many loads as each lane's number modulo 4 says.
    load_uneven(x, y, t, _s) {
        let mut sum = 0;
        let mut pass = 0;
        while pass <= t % 4 {
            sum ^= u32::load_global(x + 4 * u64::from(t) + 512 * u64::from(pass));
            pass += 1;
        }
        u32::store_global(y, sum)
    }
    /// The lower half of each warp stores 4 bytes a lane, the upper half 16.
    store_by_halves(_x, y, t, _s) {
        if t % 32 < 16 {
            u32::store_global(y, t)
        } else {
            Word128::store_global(own_part(y, t) + 32768 + 16 * u64::from(t), Word128([t; 4]))
        }
    }
    /// Three groups of `cp.async`, of which the first wait leaves one.
    copy_in_groups(x, y, t, s) {
        for group in 0..3 {
            cp_async(CpAsyncSize::B16, s + 2048 * group + 16 * t, x + u64::from(2048 * group + 16 * t), 16);
            cp_async_commit();
        }
        cp_async_wait::<1>();
        sync_threads();
        let first = u32::load_shared(s + 4 * t);
        cp_async_wait::<0>();
        sync_threads();
        u32::store_global(y, first ^ u32::load_shared(s + 4096 + 4 * t))
    }
    /// `cp.async` to rows of 128 bytes: eight lanes in four banks.
    copy_to_column(x, y, t, s) {
        cp_async(CpAsyncSize::B16, s + 128 * t, x + 16 * u64::from(t), 16);
        cp_async_wait_all();
        sync_threads();
        u32::store_global(y, u32::load_shared(s + 128 * t))
    }
    /// Additions without a result to one word of the block's.
    reduce_one(x, y, t, _s) { u32::reduce_add_global(x, 1); u32::store_global(y, t) }
    /// Atomic additions to one word of shared memory.
    atomic_shared_one(_x, y, t, s) { fill(t); u32::store_global(y, u32::atomic_add_shared(s, 1)) }
}
