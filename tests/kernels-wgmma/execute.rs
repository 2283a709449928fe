//! What every kernel does.

use moye_device::arch::wgmma::{
    Accumulators, wgmma_commit_group, wgmma_fence, wgmma_fence_registers, wgmma_wait_group,
};
use moye_device::arch::{Word, block_idx, fence_proxy_async_shared, shared_base, sync_threads, thread_idx};
use moye_device::atom::wgmma::{OperandA, SharedOperand, WgmmaAtom};
use moye_device::layout::{ComposedLayout, IntTuple, Major, SwizzleBytes, shared_memory_atom};
use moye_device::memory::{Global, GlobalMut, SharedArray};
use moye_device::number::Number;
use moye_device::static_layout;

/// Where B begins in shared memory, in bytes.
pub const B_OFFSET: u32 = 16 * 1024;

static_layout! {
    /// A of up to 16 KiB, and B of up to 32 KiB.
    pub Bytes = moye_device::layout!({ 48 * 256 });
}

/// What every kernel has.
pub type Storage = SharedArray<u32, Bytes>;

/// The tile (`rows`, K) of an atom without a swizzle, K-major, in elements (of one bit: in bytes).
pub const fn k_major_tile<T: Number>(rows: i64) -> ComposedLayout {
    let bits = if T::WIDTH < 8 { 8 } else { T::WIDTH as i64 };
    shared_memory_atom(Major::K, SwizzleBytes::None, bits).tile_to_shape(IntTuple::flat(&[rows, 256 / bits]))
}

/// A from shared memory or from registers.
pub trait Fetch: OperandA {
    /// # Safety
    /// Where A is in registers, `a` leads to four words for each thread.
    unsafe fn fetch<M: WgmmaAtom<OperandA = Self>>(a: Global<u32>) -> Self;
}

impl Fetch for u64 {
    #[inline(always)]
    unsafe fn fetch<M: WgmmaAtom<OperandA = Self>>(_: Global<u32>) -> Self {
        const { SharedOperand::a::<M>(k_major_tile::<M::A>(64)) }.descriptor(shared_base(), 0, 0)
    }
}

impl Fetch for [u32; 4] {
    #[inline(always)]
    unsafe fn fetch<M: WgmmaAtom<OperandA = Self>>(a: Global<u32>) -> Self {
        let first = i64::from(4 * (128 * block_idx().x + thread_idx().x));
        // SAFETY: the caller's contract.
        core::array::from_fn(|i| unsafe { a.read(first + i as i64) })
    }
}

/// Copies `bytes` bytes of the block's part of `source` to a shared address, all threads together.
///
/// # Safety
/// `source` has as many for each block, and they fit.
#[inline(always)]
pub unsafe fn fill(address: u32, source: Global<u32>, bytes: u32) {
    let mut at = 16 * thread_idx().x;
    while at < bytes {
        let from = source.address() + u64::from(block_idx().x * bytes + at);
        // SAFETY: the caller's contract; a load of 16 bytes is one of 4 words.
        unsafe {
            let word = moye_device::arch::Word128::load_global(from);
            moye_device::arch::Word128::store_shared(address + at, word);
        }
        at += 128 * 16;
    }
}

/// The accumulators from `c`, those after one product to `d`: for each block and thread its
/// registers.
///
/// # Safety
/// Both have as many words; shared memory holds the operands of the descriptors, fenced.
#[inline(always)]
pub unsafe fn multiply<M: WgmmaAtom>(a: M::OperandA, b: u64, c: Global<u32>, d: GlobalMut<u32>) {
    let first = i64::from((128 * block_idx().x + thread_idx().x) * M::Accumulators::COUNT as u32);
    let mut sums = M::Accumulators::ZERO;
    // SAFETY: the caller's contract; all threads are here.
    unsafe {
        for (i, sum) in sums.as_mut_slice().iter_mut().enumerate() {
            *sum = c.cast().read(first + i as i64);
        }
        wgmma_fence();
        M::mma(&mut sums, a, b, true);
        wgmma_commit_group();
        wgmma_wait_group::<0>();
        wgmma_fence_registers(&mut sums);
        for (i, sum) in sums.as_slice().iter().enumerate() {
            d.cast().write(first + i as i64, *sum);
        }
    }
}

/// Each block takes its operands from memory as they are to lie in shared memory, K-major without a
/// swizzle (or A in registers), executes the atom once, and writes the registers of D.
///
/// # Safety
/// The pointers lead to as much for each block, of 128 threads: `a` to the tile or four registers
/// for each thread, `c` and `d` to the registers of each thread.
#[inline(always)]
pub unsafe fn execute<M: WgmmaAtom<OperandA: Fetch>>(
    a: Global<u32>,
    b: Global<u32>,
    c: Global<u32>,
    d: GlobalMut<u32>,
) {
    let b_operand = const { SharedOperand::b::<M>(k_major_tile::<M::B>(M::SHAPE_MNK[1])) };
    // SAFETY: the caller's contract.
    unsafe {
        if !M::OperandA::IN_REGISTERS {
            fill(shared_base(), a, 64 * 32);
        }
        fill(shared_base() + B_OFFSET, b, M::SHAPE_MNK[1] as u32 * 32);
        fence_proxy_async_shared();
        sync_threads();
        let a = M::OperandA::fetch::<M>(a);
        multiply::<M>(a, b_operand.descriptor(shared_base() + B_OFFSET, 0, 0), c, d);
    }
}
