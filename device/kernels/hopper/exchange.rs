//! How the two blocks of a pair, each with sums over its part of K, come to the sums over all of K.
//!
//! Each block has sums of the whole tile, and writes half of it: of a warpgroup's 64 rows the first has those of warps 0 and 1, the
//! second those of warps 2 and 3. So two warps of each block keep their sums, and two send theirs:
//!
//! ```text
//! block 0   warps 0, 1: rows  0 to 31   keep  <--- st.async ---  send    block 1
//!           warps 2, 3: rows 32 to 63   send  --- st.async --->  keep
//! ```
//!
//! A thread has the same rows and columns in both blocks. So it sends to its own counterpart, from registers to registers by way of the other
//! block's shared memory, and the order of the words there is theirs alone: 16 bytes a lane, side by side. `st.async` counts its bytes
//! at an mbarrier of the block that receives them. That block waits for these and for nothing else: there is no barrier of the cluster
//! but the one at the beginning, which tells that both blocks have begun.

use super::config::{ATOM_M, AccumulatorsOf, WARPGROUP, WgmmaConfig};
use crate::mma::{Convertible as _, Scalar as _};
use core::marker::PhantomData;
use moye_device::arch::wgmma::Accumulators as _;
use moye_device::arch::{
    AsyncWord as _, Fma as _, Word as _, Word128, map_shared, mbarrier_arrive_expect_tx, mbarrier_init,
    mbarrier_wait_parity_cluster,
};
use moye_device::memory::Element as _;

/// Bytes of a word, as a thread sends it: four sums.
const WORD: u32 = size_of::<Word128>() as u32;
/// Threads of a warpgroup that receive.
const RECEIVING: u32 = WARPGROUP / 2;

/// Where a block of a pair receives the other one's sums: shared memory of its own, which nothing else uses, and an mbarrier.
pub struct Exchange<G>(u32, PhantomData<G>);

impl<G> Clone for Exchange<G> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<G> Copy for Exchange<G> {}

impl<G: WgmmaConfig> Exchange<G> {
    /// Bytes that are received: half of the tile's sums.
    const SUMS: u32 = G::BLK_M * G::BLK_N / 2 * 4;
    /// Bytes in all, with the mbarrier.
    pub const BYTES: u32 = Self::SUMS + 8;

    /// The exchange from `base` on.
    ///
    /// # Safety
    /// `base` is a multiple of 16 bytes in shared memory, and nobody uses the [`BYTES`](Self::BYTES) from there on for anything else.
    #[inline(always)]
    pub const unsafe fn at(base: u32) -> Self {
        Self(base, PhantomData)
    }

    /// The mbarrier.
    #[inline(always)]
    fn barrier(self) -> u32 {
        self.0 + Self::SUMS
    }

    /// Where the words for a thread begin; the next one of it is [`STEP`](Self::STEP) bytes further.
    #[inline(always)]
    fn words(self, consumer: u32, thread: u32) -> u32 {
        self.0 + consumer * const { Self::SUMS / (G::BLK_M / ATOM_M) } + WORD * (thread % RECEIVING)
    }

    /// Bytes from a word of a thread to its next.
    const STEP: u32 = WORD * RECEIVING;

    /// Makes the mbarrier, which waits for one exchange.
    ///
    /// # Safety
    /// One thread calls it once; [`fence_mbarrier_init`](moye_device::arch::fence_mbarrier_init) and a barrier of the cluster come behind it,
    /// before either block sends.
    #[inline(always)]
    pub unsafe fn init(self) {
        // SAFETY: the exchange's own bytes; nobody else arrives.
        unsafe {
            mbarrier_init(self.barrier(), 1);
            mbarrier_arrive_expect_tx(self.barrier(), Self::SUMS);
        }
    }

    /// Whether a thread of block `rank` keeps its sums, and receives; the others send.
    #[inline(always)]
    pub fn keeps(rank: u32, thread: u32) -> bool {
        thread / RECEIVING == rank
    }

    /// Sends a thread's sums to the other block.
    ///
    /// # Safety
    /// The thread is one of a consuming warpgroup that does not keep its sums, and sends once. Both blocks have made their mbarrier,
    /// and the other one does not end before it has received.
    #[inline(always)]
    pub unsafe fn send(self, sums: &AccumulatorsOf<G>, rank: u32, consumer: u32, thread: u32) {
        let sums = sums.as_slice();
        let to = map_shared(self.words(consumer, thread), 1 - rank);
        let barrier = map_shared(self.barrier(), 1 - rank);
        let mut i = 0;
        while i < sums.len() {
            let bits = |j: usize| sums[i + j].to_bits();
            // SAFETY: the caller's contract; each word belongs to one thread, and its bytes are waited for.
            unsafe {
                let word = Word128([bits(0), bits(1), bits(2), bits(3)]);
                Word128::store_async(to + (i / 4) as u32 * Self::STEP, word, barrier);
            }
            i += 4;
        }
    }

    /// Waits for the other block's sums, and adds those of the thread.
    ///
    /// # Safety
    /// The thread is one of a consuming warpgroup that keeps its sums, and receives once, behind a barrier of the block after
    /// [`init`](Self::init).
    #[inline(always)]
    pub unsafe fn receive(self, sums: &mut AccumulatorsOf<G>, consumer: u32, thread: u32) {
        let sums = sums.as_mut_slice();
        let from = self.words(consumer, thread);
        // SAFETY: the caller's contract; what was sent is seen behind the wait.
        unsafe { mbarrier_wait_parity_cluster(self.barrier(), 0) };
        let mut i = 0;
        while i < sums.len() {
            // SAFETY: as above.
            let word = unsafe { Word128::load_shared(from + (i / 4) as u32 * Self::STEP) };
            let mut j = 0;
            while j < 4 {
                let other = G::Sum::from_bits(word.0[j]).widen();
                sums[i + j] = G::Sum::narrow(G::Scalar::ONE.fma(sums[i + j].widen(), other));
                j += 1;
            }
            i += 4;
        }
    }
}
