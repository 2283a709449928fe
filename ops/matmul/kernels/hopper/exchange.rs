//! Reduces the accumulators of the two blocks of a pair that split K.
//!
//! Each block has accumulators of the whole tile and writes half of it: the first block the rows of
//! warps 0 and 1 of a warpgroup, the second the rows of warps 2 and 3. So two warps of each block
//! keep their accumulators, and two send theirs:
//!
//! ```text
//! block 0   warps 0, 1: rows  0 to 31   keep  <--- st.async ---  send    block 1
//!           warps 2, 3: rows 32 to 63   send  --- st.async --->  keep
//! ```
//!
//! A thread has the same rows and columns in both blocks, and sends its accumulators to its
//! counterpart through the other block's shared memory. So the order of the words there is free: 16
//! bytes for each lane, contiguous. `st.async` completes on an mbarrier of the receiving block. The
//! receiver waits for these bytes only: the only barrier of the cluster is the one at the start,
//! which ensures that both blocks run.

use super::config::{ATOM_M, WARPGROUP, WgmmaConfig};
use crate::kernels::mma::Scalar as _;
use core::marker::PhantomData;
use moye_device::arch::{
    AsyncWord as _, Fma as _, Word as _, Word128, cluster_rank, map_shared, mbarrier_arrive_expect_tx,
    mbarrier_init, mbarrier_wait_parity_cluster, opaque,
};
use moye_device::memory::{Element as _, SharedStorage};

/// Bytes of a vector that a thread sends: four accumulators.
const WORD: u32 = size_of::<Word128>() as u32;
/// Threads of a warpgroup that receive.
const RECEIVING: u32 = WARPGROUP / 2;

/// A block's receive buffer in shared memory, with an mbarrier; empty if one block computes the
/// tile.
pub struct Exchange<G>(u32, PhantomData<G>);

impl<G> Clone for Exchange<G> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<G> Copy for Exchange<G> {}

impl<G: WgmmaConfig> SharedStorage for Exchange<G> {
    const BYTES: usize = if G::PARTS > 1 { Self::SUMS as usize + 8 } else { 0 };
    const ALIGN: usize = 16;

    type Tensors = Self;

    #[inline(always)]
    unsafe fn at(base: u32) -> Self {
        Self(base, PhantomData)
    }
}

impl<G: WgmmaConfig> Exchange<G> {
    /// Received bytes: half of the tile's accumulators.
    const SUMS: u32 = G::BLK_M * G::BLK_N / 2 * 4;

    /// The mbarrier.
    #[inline(always)]
    fn barrier(self) -> u32 {
        self.0 + Self::SUMS
    }

    /// The address of a thread's first vector; the next follows after [`STEP`](Self::STEP) bytes.
    #[inline(always)]
    fn words(self, consumer: u32, thread: u32) -> u32 {
        self.0 + consumer * const { Self::SUMS / (G::BLK_M / ATOM_M) } + WORD * (thread % RECEIVING)
    }

    /// Bytes between a thread's consecutive vectors.
    const STEP: u32 = WORD * RECEIVING;

    /// Initialises the mbarrier, for one exchange.
    ///
    /// # Safety
    /// One thread calls it once. [`fence_mbarrier_init`](moye_device::arch::fence_mbarrier_init)
    /// and a barrier of the cluster follow before either block sends.
    #[inline(always)]
    pub unsafe fn init(self) {
        // The exchange owns these bytes; no other thread arrives.
        mbarrier_init(self.barrier(), 1);
        mbarrier_arrive_expect_tx(self.barrier(), Self::SUMS);
    }

    /// Whether a thread keeps its accumulators and receives; the others send. If K is not split,
    /// all threads keep theirs.
    ///
    /// `opaque` hides that the condition was evaluated before: the compiler would emit one barrier
    /// for each outcome, and `synccheck` requires a single one.
    #[inline(always)]
    pub fn keeps(thread: u32) -> bool {
        G::PARTS == 1 || opaque(thread) / RECEIVING == cluster_rank()
    }

    /// Sends a thread's accumulators to the other block.
    ///
    /// # Safety
    /// The thread belongs to a consumer warpgroup, does not keep its accumulators, and sends once.
    /// Both blocks have initialised their mbarrier, and the other block does not exit before it has
    /// received.
    #[inline(always)]
    pub unsafe fn send(self, sums: &[G::Sum], consumer: u32, thread: u32) {
        let rank = cluster_rank();
        let to = map_shared(self.words(consumer, thread), 1 - rank);
        let barrier = map_shared(self.barrier(), 1 - rank);
        let mut i = 0;
        while i < sums.len() {
            let bits = |j: usize| sums[i + j].to_bits();
            // Each vector belongs to one thread; the receiver waits for its bytes.
            let word = Word128([bits(0), bits(1), bits(2), bits(3)]);
            Word128::store_async(to + (i / 4) as u32 * Self::STEP, word, barrier);
            i += 4;
        }
    }

    /// Waits for the other block's accumulators and adds them to the thread's.
    ///
    /// # Safety
    /// The thread belongs to a consumer warpgroup, keeps its accumulators, and receives once, after
    /// a barrier of the block that follows [`init`](Self::init).
    #[inline(always)]
    pub unsafe fn receive(self, sums: &mut [G::Sum], consumer: u32, thread: u32) {
        let from = self.words(consumer, thread);
        // The wait makes the sent values visible.
        mbarrier_wait_parity_cluster(self.barrier(), 0);
        let mut i = 0;
        while i < sums.len() {
            let word = Word128::load_shared(from + (i / 4) as u32 * Self::STEP);
            let mut j = 0;
            while j < 4 {
                let other = G::Sum::from_bits(word.0[j]);
                sums[i + j] = G::Sum::ONE.fma(sums[i + j], other);
                j += 1;
            }
            i += 4;
        }
    }
}
