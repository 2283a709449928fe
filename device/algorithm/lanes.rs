//! Reductions and scans across the lanes of a quad or a warp, and across the warps of a warpgroup
//! or a block.
//!
//! The operation is any function of two values; all lanes have the same result if it is commutative
//! and associative, like the maximum. Sums of floats depend on the order, which is the same in
//! every run: lanes at distance 16 are added first, adjacent lanes last.

use crate::arch::{
    FULL_WARP, ShuffleValue, lane_id, prmt, shuffle_up, shuffle_xor, simulator_assert, sync_threads,
    thread_idx,
};
use crate::memory::Element;
use crate::tensor::{AcrossLanes, Fragment, SharedTensor, StaticLayout};

/// Reduces by `f` over the lanes whose indices differ in the bits of `LANES`; all of them have the
/// result.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn lanes_reduce<const LANES: u32, T: ShuffleValue>(value: T, f: impl Fn(T, T) -> T) -> T {
    let mut value = value;
    // Written out: a loop over the masks might not be unrolled.
    macro_rules! step {
        ($($mask:literal)+) => { $(
            if LANES & $mask != 0 {
                value = f(value, shuffle_xor(FULL_WARP, value, $mask));
            }
        )+ };
    }
    step!(16 8 4 2 1);
    value
}

/// `f` over the four lanes of a quad, `4 i` to `4 i + 3`, which share the rows of an accumulator.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn quad_reduce<T: ShuffleValue>(value: T, f: impl Fn(T, T) -> T) -> T {
    lanes_reduce::<3, T>(value, f)
}

/// Transposes the 4 x 4 halves of words of a quad: lane `l` holds four halves, the first in the low
/// bits of the first word, and gets half `l` of each lane, in the order of the lanes.
///
/// ```
/// use moye_device::algorithm::quad_transpose;
/// use moye_device::arch::lane_id;
/// # use moye_sim::{GlobalMemory, Launch};
/// # Launch::new("quad", 1, 32, &GlobalMemory::new()).run(&|| {
/// let lane = lane_id();
/// // Half `i` of lane `l` is `16 l + i`.
/// let word = |first: u32| 16 * lane + first | (16 * lane + first + 1) << 16;
/// let [low, high] = quad_transpose([word(0), word(2)]);
/// let wanted = |of: u32| 16 * (lane / 4 * 4 + of) + lane % 4;
/// assert_eq!(low, wanted(0) | wanted(1) << 16);
/// assert_eq!(high, wanted(2) | wanted(3) << 16);
/// # }).unwrap();
/// ```
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn quad_transpose([first, second]: [u32; 2]) -> [u32; 2] {
    let (odd, high) = (lane_id() % 2 == 1, lane_id() % 4 >= 2);
    // Exchanges words with the lane two further, then halves with the adjacent lane.
    let got = shuffle_xor(FULL_WARP, if high { first } else { second }, 2);
    let (a, b) = if high { (got, second) } else { (first, got) };
    let got = shuffle_xor(FULL_WARP, prmt(a, b, if odd { 0x5410 } else { 0x7632 }), 1);
    [prmt(a, got, if odd { 0x3254 } else { 0x5410 }), prmt(b, got, if odd { 0x3276 } else { 0x7610 })]
}

/// `f` over the 32 lanes of a warp.
///
/// ```
/// use moye_device::algorithm::warp_reduce;
/// use moye_device::arch::lane_id;
/// # use moye_sim::{GlobalMemory, Launch};
/// # Launch::new("warp", 1, 32, &GlobalMemory::new()).run(&|| {
/// assert_eq!(warp_reduce(lane_id() as f32, f32::max), 31.0);
/// assert_eq!(warp_reduce(lane_id() as f32, |a, b| a + b), 496.0);
/// # }).unwrap();
/// ```
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn warp_reduce<T: ShuffleValue>(value: T, f: impl Fn(T, T) -> T) -> T {
    lanes_reduce::<31, T>(value, f)
}

/// `f` over the lanes up to the calling one: an inclusive scan of the warp.
///
/// ```
/// use moye_device::algorithm::warp_scan;
/// use moye_device::arch::lane_id;
/// # use moye_sim::{GlobalMemory, Launch};
/// # Launch::new("warp", 1, 32, &GlobalMemory::new()).run(&|| {
/// let lane = lane_id();
/// assert_eq!(warp_scan(lane, |a, b| a + b), lane * (lane + 1) / 2);
/// # }).unwrap();
/// ```
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn warp_scan<T: ShuffleValue>(value: T, f: impl Fn(T, T) -> T) -> T {
    let (mut value, lane) = (value, lane_id());
    macro_rules! step {
        ($($distance:literal)+) => { $(
            let below = shuffle_up(FULL_WARP, value, $distance);
            if lane >= $distance {
                value = f(below, value);
            }
        )+ };
    }
    step!(1 2 4 8 16);
    value
}

/// `f` over the lanes below the calling one: an exclusive scan of the warp. The lowest lane gets
/// `first`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn warp_scan_exclusive<T: ShuffleValue>(value: T, first: T, f: impl Fn(T, T) -> T) -> T {
    let below = shuffle_up(FULL_WARP, warp_scan(value, f), 1);
    if lane_id() == 0 { first } else { below }
}

/// `f` over all threads of the block, each of which gets the result: across the lanes of each warp,
/// then over the warps in order through `scratch`, which has an element for each warp.
///
/// All threads of the block call it. It has two barriers: the elements are written before the
/// first, and `scratch` is free again after the second.
///
/// # Safety
/// `scratch` belongs to this call while it runs, and has an element for each of the block's warps.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn block_reduce<T: ShuffleValue + Element, L: StaticLayout>(
    value: T,
    mut scratch: SharedTensor<T, L>,
    f: impl Fn(T, T) -> T,
) -> T {
    let value = warp_reduce(value, &f);
    // SAFETY: `scratch` belongs to this call: a warp writes one element, and all are read between
    // the barriers.
    unsafe {
        publish(value, &mut scratch);
        let mut result = scratch.get(0usize);
        for warp in 1..SharedTensor::<T, L>::SIZE {
            result = f(result, scratch.get(warp));
        }
        sync_threads();
        result
    }
}

/// Stores the warp's value in its element of `scratch`, followed by a barrier.
///
/// # Safety
/// Same contract as [`block_reduce`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn publish<T: Element, L: StaticLayout>(value: T, scratch: &mut SharedTensor<T, L>) {
    simulator_assert!(
        warps() == SharedTensor::<T, L>::SIZE,
        "a block of {} warps reduces through an array of {}: use one with an element for each warp",
        warps(),
        L::LAYOUT
    );
    let thread = thread_idx().x;
    if thread.is_multiple_of(32) {
        // SAFETY: all threads of the block are here, and `scratch` has an element for each warp.
        unsafe { scratch.set((thread / 32) as usize, value) };
    }
    sync_threads();
}

/// The number of warps of the block, whose threads are all along `x`.
#[inline(always)]
fn warps() -> usize {
    crate::arch::block_dim().x.div_ceil(32) as usize
}

/// Reduces by `f` over the four warps of a warpgroup; each of its threads gets the result. Like
/// [`block_reduce`], through four elements of `scratch`, with `sync` as the barrier of the
/// warpgroup's 128 threads (see [`named_barriers!`](crate::named_barriers)).
///
/// # Safety
/// Same contract as [`block_reduce`], for the warpgroup; `sync` waits for all of its threads.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warpgroup_reduce<T: ShuffleValue + Element, L: StaticLayout>(
    value: T,
    mut scratch: SharedTensor<T, L>,
    sync: impl Fn(),
    f: impl Fn(T, T) -> T,
) -> T {
    simulator_assert!(
        SharedTensor::<T, L>::SIZE == 4,
        "a warpgroup reduces through four elements, and {} has others",
        L::LAYOUT
    );
    let value = warp_reduce(value, &f);
    let thread = thread_idx().x;
    // SAFETY: `scratch` belongs to this call: a warp writes one element, and all are read between
    // the barriers.
    unsafe {
        if thread.is_multiple_of(32) {
            scratch.set((thread / 32 % 4) as usize, value);
        }
        sync();
        let mut result = scratch.get(0usize);
        for warp in 1..4usize {
            result = f(result, scratch.get(warp));
        }
        sync();
        result
    }
}

/// `f` over the threads of the block up to the calling one, counted along `x`: an inclusive scan.
/// Barriers and `scratch` as for [`block_reduce`].
///
/// # Safety
/// Same contract as [`block_reduce`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn block_scan<T: ShuffleValue + Element, L: StaticLayout>(
    value: T,
    mut scratch: SharedTensor<T, L>,
    f: impl Fn(T, T) -> T,
) -> T {
    let own = warp_scan(value, &f);
    let thread = thread_idx().x;
    // The last lane holds the warp's sum.
    let whole = crate::arch::shuffle(FULL_WARP, own, 31);
    // SAFETY: as in `block_reduce`.
    unsafe {
        publish(whole, &mut scratch);
        let mut before = scratch.get(0usize);
        for warp in 1..SharedTensor::<T, L>::SIZE {
            if warp < (thread / 32) as usize {
                before = f(before, scratch.get(warp));
            }
        }
        sync_threads();
        if thread < 32 { own } else { f(before, own) }
    }
}

impl<T: ShuffleValue + Element, L: StaticLayout> Fragment<T, L> {
    /// Each element, combined across the four lanes of the quad: see [`quad_reduce`].
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn across_quad(self, f: impl Fn(T, T) -> T) -> Self {
        self.across::<3>(f)
    }

    /// Each element, combined across the warp: see [`warp_reduce`].
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn across_warp(self, f: impl Fn(T, T) -> T) -> Self {
        self.across::<31>(f)
    }

    /// Each element, combined across the lanes that have parts of the same row (or column): it
    /// completes a [`reduce`](crate::tensor::Tensor::reduce) of a partitioned tile. The partition
    /// determines the lanes.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn across_lanes(self, f: impl Fn(T, T) -> T) -> Self
    where
        L: AcrossLanes,
    {
        let mut result = self;
        for i in 0..Self::SIZE {
            let mut value = result[i];
            macro_rules! step {
                ($($mask:literal)+) => { $(
                    if const { L::LANES & $mask != 0 } {
                        value = f(value, shuffle_xor(FULL_WARP, value, $mask));
                    }
                )+ };
            }
            step!(16 8 4 2 1);
            result[i] = value;
        }
        result
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn across<const LANES: u32>(self, f: impl Fn(T, T) -> T) -> Self {
        let mut result = self;
        for i in 0..Self::SIZE {
            result[i] = lanes_reduce::<LANES, T>(result[i], &f);
        }
        result
    }

    /// Each element, combined across the four warps of the warpgroup, with `sync` as its barrier:
    /// see [`warpgroup_reduce`].
    ///
    /// ```
    /// use moye_device::prelude::*;
    ///
    /// static_layout! {
    ///     Warps = layout!(4);
    ///     Rows = layout!(2);
    /// }
    /// named_barriers! { enum Barrier { Warpgroup[2] = 128 } }
    ///
    /// /// The sums of two rows over each of two warpgroups.
    /// ///
    /// /// # Safety
    /// /// `y` holds four elements.
    /// #[kernel(threads = 256, shared = (first: SharedArray<f32, Warps>, second: SharedArray<f32, Warps>))]
    /// pub unsafe fn sums(y: GlobalMut<f32>) {
    ///     let (warpgroup, thread) = (thread_idx().x / 128, thread_idx().x % 128);
    ///     let mut rows = Fragment::<f32, Rows>::filled(1.0); // (row)
    ///     rows[1] = thread as f32;
    ///     let scratch = if warpgroup == 0 { first } else { second };
    ///     let rows = rows.across_warpgroup(scratch, || Barrier::Warpgroup.of(warpgroup).sync(), f32::add);
    ///     if thread == 0 {
    ///         y.write(2 * warpgroup, rows[0]);
    ///         y.write(2 * warpgroup + 1, rows[1]);
    ///     }
    /// }
    /// # let memory = moye_sim::GlobalMemory::new();
    /// # let y = memory.upload(&[0f32; 4], "y").unwrap();
    /// // SAFETY: `y` holds four elements.
    /// unsafe { sums.simulate(&memory, 1, 256, (GlobalMut::from_address(y.address()),)) }.unwrap();
    /// assert_eq!(y.download::<f32>(), [128.0, 8128.0, 128.0, 8128.0]);
    /// ```
    ///
    /// # Safety
    /// Same contract as [`warpgroup_reduce`].
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn across_warpgroup<LS: StaticLayout>(
        self,
        scratch: SharedTensor<T, LS>,
        sync: impl Fn(),
        f: impl Fn(T, T) -> T,
    ) -> Self {
        let mut result = self;
        for i in 0..Self::SIZE {
            // SAFETY: all threads of the warpgroup are here, and `scratch` belongs to it.
            result[i] = unsafe { warpgroup_reduce(result[i], scratch, &sync, &f) };
        }
        result
    }

    /// Each element, combined across all threads of the block: see [`block_reduce`].
    ///
    /// # Safety
    /// Same contract as [`block_reduce`].
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn across_block<LS: StaticLayout>(
        self,
        scratch: SharedTensor<T, LS>,
        f: impl Fn(T, T) -> T,
    ) -> Self {
        let mut result = self;
        for i in 0..Self::SIZE {
            // SAFETY: all threads of the block are here, and `scratch` has an element for each
            // warp.
            result[i] = unsafe { block_reduce(result[i], scratch, &f) };
        }
        result
    }
}
