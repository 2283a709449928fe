//! Reductions and matches over the lanes of a warp, one instruction each: reductions from sm_80 on
//! (PTX 7.0), matches from sm_70 on (PTX 6.0).
//!
//! As in [`shuffle`](super::shuffle), a mask names the participating lanes; each of them must call
//! the function with the same mask.

use super::target::needs;

/// A 32-bit integer that `redux.sync` supports.
pub trait ReduceInteger: Copy + 'static {
    /// The sum over the lanes, wrapping.
    fn reduce_add(mask: u32, value: Self) -> Self;
    /// The least value of the lanes.
    fn reduce_min(mask: u32, value: Self) -> Self;
    /// The greatest value of the lanes.
    fn reduce_max(mask: u32, value: Self) -> Self;
}

/// The body of a reduction: the intrinsic, or the simulator's operation.
macro_rules! redux {
    ($mask:ident, $value:ident as $t:ty, $intrinsic:literal, $sim:ident) => {{
        needs!("redux.sync", 80 7.0);
        #[cfg(target_arch = "nvptx64")]
        {
            unsafe extern "C" {
                #[link_name = $intrinsic]
                fn redux(value: i32, mask: i32) -> i32;
            }
            // SAFETY: a convergent intrinsic on registers.
            (unsafe { redux($value as i32, $mask as i32) }) as $t
        }
        #[cfg(not(target_arch = "nvptx64"))]
        moye_sim::intrinsics::$sim($mask, $value)
    }};
}

macro_rules! integer {
    ($t:ty, $min:literal, $max:literal) => {
        impl ReduceInteger for $t {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn reduce_add(mask: u32, value: Self) -> Self {
                redux!(mask, value as $t, "llvm.nvvm.redux.sync.add", reduce_add)
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn reduce_min(mask: u32, value: Self) -> Self {
                redux!(mask, value as $t, $min, reduce_min)
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn reduce_max(mask: u32, value: Self) -> Self {
                redux!(mask, value as $t, $max, reduce_max)
            }
        }
    };
}
integer!(u32, "llvm.nvvm.redux.sync.umin", "llvm.nvvm.redux.sync.umax");
integer!(i32, "llvm.nvvm.redux.sync.min", "llvm.nvvm.redux.sync.max");

/// The sum over the lanes of `mask`, wrapping (`redux.sync.add`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn reduce_add<T: ReduceInteger>(mask: u32, value: T) -> T {
    T::reduce_add(mask, value)
}

/// The least value of the lanes of `mask` (`redux.sync.min`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn reduce_min<T: ReduceInteger>(mask: u32, value: T) -> T {
    T::reduce_min(mask, value)
}

/// The greatest value of the lanes of `mask` (`redux.sync.max`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn reduce_max<T: ReduceInteger>(mask: u32, value: T) -> T {
    T::reduce_max(mask, value)
}

macro_rules! bits {
    ($($(#[$doc:meta])* $name:ident $intrinsic:literal;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name(mask: u32, value: u32) -> u32 {
            redux!(mask, value as u32, $intrinsic, $name)
        }
    )* };
}
bits! {
    /// The bits that are set in all lanes of `mask` (`redux.sync.and`).
    reduce_and "llvm.nvvm.redux.sync.and";
    /// The bits that are set in some lane of `mask` (`redux.sync.or`).
    reduce_or "llvm.nvvm.redux.sync.or";
    /// The bits that are set in an odd number of lanes of `mask` (`redux.sync.xor`).
    reduce_xor "llvm.nvvm.redux.sync.xor";
}

/// The lanes of `mask` that have the same value as the calling lane (`match.any.sync.b32`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn match_any(mask: u32, value: u32) -> u32 {
    needs!("match.any.sync", 70 6.0);
    #[cfg(target_arch = "nvptx64")]
    {
        unsafe extern "C" {
            #[link_name = "llvm.nvvm.match.any.sync.i32"]
            fn match_any(mask: i32, value: i32) -> i32;
        }
        // SAFETY: a convergent intrinsic on registers.
        (unsafe { match_any(mask as i32, value as i32) }) as u32
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::match_any(mask, value)
}

/// [`match_any`] for 64-bit values (`match.any.sync.b64`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn match_any_u64(mask: u32, value: u64) -> u32 {
    needs!("match.any.sync", 70 6.0);
    #[cfg(target_arch = "nvptx64")]
    {
        unsafe extern "C" {
            #[link_name = "llvm.nvvm.match.any.sync.i64"]
            fn match_any(mask: i32, value: i64) -> i32;
        }
        // SAFETY: a convergent intrinsic on registers.
        (unsafe { match_any(mask as i32, value as i64) }) as u32
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::match_any_u64(mask, value)
}

/// Whether all lanes of `mask` have the same value (`match.all.sync.b32`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn match_all(mask: u32, value: u32) -> bool {
    needs!("match.all.sync", 70 6.0);
    #[cfg(target_arch = "nvptx64")]
    {
        #[allow(improper_ctypes, reason = "the pair is what the intrinsic returns")]
        unsafe extern "unadjusted" {
            #[link_name = "llvm.nvvm.match.all.sync.i32p"]
            fn match_all(mask: i32, value: i32) -> (i32, bool);
        }
        // SAFETY: a convergent intrinsic on registers.
        (unsafe { match_all(mask as i32, value as i32) }).1
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::match_all(mask, value)
}
