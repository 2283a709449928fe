//! Operations of the 32 lanes of a warp: shuffles and votes.
//!
//! Every function names the lanes that take part by a mask. Each of them must call it, with the
//! same mask.

/// All 32 lanes.
pub const FULL_WARP: u32 = u32::MAX;

/// A 32-bit value that lanes can hand to each other.
pub trait ShuffleValue: Copy {
    /// The value's bits.
    fn to_lane(self) -> u32;
    /// The value with these bits.
    fn from_lane(bits: u32) -> Self;
}

impl ShuffleValue for u32 {
    #[inline(always)]
    fn to_lane(self) -> u32 {
        self
    }
    #[inline(always)]
    fn from_lane(bits: u32) -> Self {
        bits
    }
}
impl ShuffleValue for i32 {
    #[inline(always)]
    fn to_lane(self) -> u32 {
        self as u32
    }
    #[inline(always)]
    fn from_lane(bits: u32) -> Self {
        bits as i32
    }
}
impl ShuffleValue for f32 {
    #[inline(always)]
    fn to_lane(self) -> u32 {
        self.to_bits()
    }
    #[inline(always)]
    fn from_lane(bits: u32) -> Self {
        f32::from_bits(bits)
    }
}

/// `shfl.sync` takes a clamp lane and a segment mask in one operand: over the whole warp the clamp
/// is 31, or 0 for `up`, whose source lane counts downwards.
#[cfg(target_arch = "nvptx64")]
const CLAMP_HIGH: i32 = 31;
#[cfg(target_arch = "nvptx64")]
const CLAMP_LOW: i32 = 0;

macro_rules! shuffle {
    ($(#[$doc:meta])* $name:ident, $argument:ident, $intrinsic:literal, $clamp:ident, $mode:ident) => {
        $(#[$doc])*
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name<T: ShuffleValue>(mask: u32, value: T, $argument: u32) -> T {
            #[cfg(target_arch = "nvptx64")]
            {
                unsafe extern "C" {
                    #[link_name = $intrinsic]
                    fn shfl(mask: i32, value: i32, argument: i32, clamp: i32) -> i32;
                }
                // SAFETY: a convergent intrinsic on registers.
                T::from_lane(unsafe { shfl(mask as i32, value.to_lane() as i32, $argument as i32, $clamp) } as u32)
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                let mode = moye_sim::intrinsics::ShuffleMode::$mode;
                T::from_lane(moye_sim::intrinsics::shfl(mode, mask, value.to_lane(), $argument, 32).0)
            }
        }
    };
}

shuffle! {
    /// The value that lane `lane` holds (`shfl.sync.idx`).
    shuffle, lane, "llvm.nvvm.shfl.sync.idx.i32", CLAMP_HIGH, Idx
}
shuffle! {
    /// The value of the lane `delta` below; the lowest `delta` lanes keep their own
    /// (`shfl.sync.up`).
    shuffle_up, delta, "llvm.nvvm.shfl.sync.up.i32", CLAMP_LOW, Up
}
shuffle! {
    /// The value of the lane `delta` above; the highest `delta` lanes keep their own
    /// (`shfl.sync.down`).
    shuffle_down, delta, "llvm.nvvm.shfl.sync.down.i32", CLAMP_HIGH, Down
}
shuffle! {
    /// The value of the lane whose index differs by the bits of `lane_mask` (`shfl.sync.bfly`).
    shuffle_xor, lane_mask, "llvm.nvvm.shfl.sync.bfly.i32", CLAMP_HIGH, Xor
}

macro_rules! vote {
    ($(#[$doc:meta])* $name:ident -> $result:ty, $intrinsic:literal, $raw:ty, $sim:ident) => {
        $(#[$doc])*
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name(mask: u32, predicate: bool) -> $result {
            #[cfg(target_arch = "nvptx64")]
            {
                unsafe extern "C" {
                    #[link_name = $intrinsic]
                    fn vote(mask: i32, predicate: bool) -> $raw;
                }
                // SAFETY: a convergent intrinsic on registers.
                (unsafe { vote(mask as i32, predicate) }) as $result
            }
            #[cfg(not(target_arch = "nvptx64"))]
            moye_sim::intrinsics::$sim(mask, predicate)
        }
    };
}

vote! {
    /// Whether the predicate holds on every lane of `mask` (`vote.sync.all`).
    vote_all -> bool, "llvm.nvvm.vote.all.sync", bool, vote_all
}
vote! {
    /// Whether the predicate holds on some lane of `mask` (`vote.sync.any`).
    vote_any -> bool, "llvm.nvvm.vote.any.sync", bool, vote_any
}
vote! {
    /// The lanes of `mask` on which the predicate holds, a bit each (`vote.sync.ballot`).
    ballot -> u32, "llvm.nvvm.vote.ballot.sync", i32, vote_ballot
}

/// Transposes four words over the four lanes of a quad: lane `i` of the quad gets word `i` of each
/// lane, in the order of the lanes.
///
/// A thread of `mma.sync` or `wgmma` has two neighbouring columns of each eight: with four such
/// pairs in, eight neighbouring columns come out, a vector of 16 bytes of 16-bit elements.
///
/// All lanes of the warp execute this call together.
///
/// ```
/// use moye_device::arch::{lane_id, transpose_quad};
/// # fn kernel() {
/// let lane = lane_id();
/// let words = transpose_quad([0, 1, 2, 3].map(|word| 10 * lane + word));
/// assert_eq!(words, [0, 1, 2, 3].map(|of| 10 * (lane / 4 * 4 + of) + lane % 4));
/// # }
/// # moye_sim::Launch::new("kernel", 1, 32, &moye_sim::GlobalMemory::new()).run(&kernel).unwrap();
/// ```
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn transpose_quad([a, b, c, d]: [u32; 4]) -> [u32; 4] {
    let lane = super::lane_id();
    let ((a, b), (c, d)) = (exchange(a, b, lane & 1, 1), exchange(c, d, lane & 1, 1));
    let ((a, c), (b, d)) = (exchange(a, c, lane & 2, 2), exchange(b, d, lane & 2, 2));
    [a, b, c, d]
}

/// Exchanges `high` of the lanes whose `bit` is 0 with `low` of those whose `bit` is 1; `own` is
/// that bit of this lane. A function, as a closure would hide the caller's line.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn exchange(low: u32, high: u32, own: u32, bit: u32) -> (u32, u32) {
    let upper = own != 0;
    let other = shuffle_xor(FULL_WARP, if upper { low } else { high }, bit);
    if upper { (other, high) } else { (low, other) }
}
