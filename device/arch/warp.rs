//! Operations of the 32 lanes of a warp: shuffles and votes.
//!
//! A mask names the participating lanes. Each of them must call the function with the same mask.

use super::half2::{Bf16x2, F16x2};
use half::{bf16, f16};

/// All 32 lanes.
pub const FULL_WARP: u32 = u32::MAX;

/// A value that lanes can exchange: a number of 16, 32, 64 or 128 bits, a pair of 16-bit floats, or
/// a tuple or array of such values. Each 32 bits take one instruction.
///
/// A custom type, such as the state of a reduction, implements it by its fields:
///
/// ```
/// use moye_device::algorithm::warp_reduce;
/// use moye_device::arch::{Shuffle, ShuffleValue, lane_id};
/// # use moye_sim::{GlobalMemory, Launch};
///
/// #[derive(Clone, Copy)]
/// struct Best {
///     value: f32,
///     index: u32,
/// }
///
/// impl ShuffleValue for Best {
///     fn shuffled<S: Shuffle>(self, mask: u32, argument: u32) -> Self {
///         Self {
///             value: self.value.shuffled::<S>(mask, argument),
///             index: self.index.shuffled::<S>(mask, argument),
///         }
///     }
/// }
///
/// # Launch::new("warp", 1, 32, &GlobalMemory::new()).run(&|| {
/// // The greatest value of the warp and its lane, the lower lane of equal ones.
/// let own = Best { value: (lane_id() / 2 % 8) as f32, index: lane_id() };
/// let best = warp_reduce(own, |a, b| {
///     if a.value > b.value || a.value == b.value && a.index < b.index { a } else { b }
/// });
/// assert_eq!((best.value, best.index), (7.0, 14));
/// # }).unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "lanes do not hand `{Self}` to each other",
    label = "not a number, nor a tuple or array of numbers",
    note = "numbers of 16 to 128 bits are shuffled, tuples and arrays of them, and types that implement `ShuffleValue`"
)]
pub trait ShuffleValue: Copy {
    /// The value, with all its parts from the lane that `S` and `argument` select.
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn shuffled<S: Shuffle>(self, mask: u32, argument: u32) -> Self;
}

/// One of the four shuffles, as a type: for [`ShuffleValue::shuffled`].
pub trait Shuffle {
    /// The 32 bits of the selected lane.
    #[doc(hidden)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn register(mask: u32, bits: u32, argument: u32) -> u32;
}

macro_rules! shuffle_value {
    ($($t:ty: |$value:ident| $bits:expr, |$back:ident| $from:expr;)+) => { $(
        impl ShuffleValue for $t {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn shuffled<S: Shuffle>(self, mask: u32, argument: u32) -> Self {
                let $value = self;
                let $back = $bits.shuffled::<S>(mask, argument);
                $from
            }
        }
    )+ };
}
shuffle_value! {
    i32: |value| value as u32, |bits| bits as i32;
    f32: |value| value.to_bits(), |bits| f32::from_bits(bits);
    u16: |value| u32::from(value), |bits| bits as u16;
    i16: |value| u32::from(value as u16), |bits| bits as i16;
    f16: |value| value.to_bits(), |bits| f16::from_bits(bits);
    bf16: |value| value.to_bits(), |bits| bf16::from_bits(bits);
    F16x2: |value| value.to_bits(), |bits| F16x2::from_bits(bits);
    Bf16x2: |value| value.to_bits(), |bits| Bf16x2::from_bits(bits);
    u64: |value| (value as u32, (value >> 32) as u32), |words| u64::from(words.1) << 32 | u64::from(words.0);
    i64: |value| value as u64, |bits| bits as i64;
    f64: |value| value.to_bits(), |bits| f64::from_bits(bits);
    u128: |value| (value as u64, (value >> 64) as u64), |words| u128::from(words.1) << 64 | u128::from(words.0);
}

impl ShuffleValue for u32 {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn shuffled<S: Shuffle>(self, mask: u32, argument: u32) -> Self {
        S::register(mask, self, argument)
    }
}

macro_rules! tuple {
    ($($name:ident $field:tt)+) => {
        impl<$($name: ShuffleValue),+> ShuffleValue for ($($name,)+) {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn shuffled<S: Shuffle>(self, mask: u32, argument: u32) -> Self {
                ($(self.$field.shuffled::<S>(mask, argument),)+)
            }
        }
    };
}
tuple!(A 0 B 1);
tuple!(A 0 B 1 C 2);
tuple!(A 0 B 1 C 2 D 3);

impl<T: ShuffleValue, const N: usize> ShuffleValue for [T; N] {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn shuffled<S: Shuffle>(self, mask: u32, argument: u32) -> Self {
        let mut values = self;
        // No `map`: faults would name its closure instead of the kernel's line.
        for value in &mut values {
            *value = value.shuffled::<S>(mask, argument);
        }
        values
    }
}

/// `shfl.sync` takes a clamp lane and a segment mask in one operand: for the whole warp the clamp
/// is 31, or 0 for `up`, whose source lane is lower.
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
            struct $mode;
            impl Shuffle for $mode {
                #[inline(always)]
                #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
                fn register(mask: u32, bits: u32, argument: u32) -> u32 {
                    #[cfg(target_arch = "nvptx64")]
                    {
                        unsafe extern "C" {
                            #[link_name = $intrinsic]
                            fn shfl(mask: i32, value: i32, argument: i32, clamp: i32) -> i32;
                        }
                        // SAFETY: a convergent intrinsic on registers.
                        (unsafe { shfl(mask as i32, bits as i32, argument as i32, $clamp) }) as u32
                    }
                    #[cfg(not(target_arch = "nvptx64"))]
                    {
                        let mode = moye_sim::intrinsics::ShuffleMode::$mode;
                        moye_sim::intrinsics::shfl(mode, mask, bits, argument, 32).0
                    }
                }
            }
            value.shuffled::<$mode>(mask, $argument)
        }
    };
}

shuffle! {
    /// The value of lane `lane` (`shfl.sync.idx`).
    shuffle, lane, "llvm.nvvm.shfl.sync.idx.i32", CLAMP_HIGH, Idx
}
shuffle! {
    /// The value of the lane `delta` below; the lowest `delta` lanes return their own
    /// (`shfl.sync.up`).
    shuffle_up, delta, "llvm.nvvm.shfl.sync.up.i32", CLAMP_LOW, Up
}
shuffle! {
    /// The value of the lane `delta` above; the highest `delta` lanes return their own
    /// (`shfl.sync.down`).
    shuffle_down, delta, "llvm.nvvm.shfl.sync.down.i32", CLAMP_HIGH, Down
}
shuffle! {
    /// The value of the lane whose index differs in the bits of `lane_mask` (`shfl.sync.bfly`).
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
    /// The lanes of `mask` on which the predicate holds, one bit each (`vote.sync.ballot`).
    ballot -> u32, "llvm.nvvm.vote.ballot.sync", i32, vote_ballot
}

/// Transposes four words over the four lanes of a quad: lane `i` of the quad receives word `i` of
/// each lane, in the order of the lanes.
///
/// A thread of `mma.sync` or `wgmma` holds two adjacent columns of each eight: four such pairs
/// become eight adjacent columns, a 16-byte vector of 16-bit elements.
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

/// Exchanges `high` of the lanes whose `bit` is 0 with `low` of the lanes whose `bit` is 1; `own`
/// is this lane's bit. A function, since a closure would hide the caller's line.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn exchange(low: u32, high: u32, own: u32, bit: u32) -> (u32, u32) {
    let upper = own != 0;
    let other = shuffle_xor(FULL_WARP, if upper { low } else { high }, bit);
    if upper { (other, high) } else { (low, other) }
}
