//! `cp.async`: asynchronous copies of one thread from global to shared memory.

use super::atom::{CopyAtom, GlobalMemory, SharedMemory};
use super::universal::one_thread;
use crate::arch::{CpAsyncKind, L2Prefetch, cp_async_plain, cp_async_zfill};
use crate::layout::{Layout, layout};
use core::marker::PhantomData;

/// The words of `cp.async`: 4, 8 or 16 bytes.
#[diagnostic::on_unimplemented(
    message = "`cp.async` moves 4, 8 or 16 bytes at once, and `{Self}` is none of `u32`, `u64` and `u128`",
    label = "no `cp.async` moves this"
)]
pub trait CpAsyncBits: Copy + Send + Sync + 'static {
    /// The name in the atom's parameter.
    const NAME: &'static str;
    /// The variant that caches in L1 too.
    const ALWAYS: CpAsyncKind;
}

/// The word of a `cp.async` that caches in L2 only: 16 bytes.
#[diagnostic::on_unimplemented(
    message = "`cp.async.cg` (CACHEGLOBAL) moves 16 bytes at once, and `{Self}` has not as many",
    label = "no `cp.async.cg` moves this",
    note = "take `SM80_CP_ASYNC_CACHEGLOBAL<u128>`, or `SM80_CP_ASYNC_CACHEALWAYS` of this type, which `cp.async.ca` moves \
            (`u32`, `u64` or `u128`)"
)]
pub trait CpAsyncGlobalBits: CpAsyncBits {
    /// The variant that caches only in L2.
    const GLOBAL: CpAsyncKind;
}

impl CpAsyncBits for u32 {
    const NAME: &'static str = "u32";
    const ALWAYS: CpAsyncKind = CpAsyncKind::Ca4;
}
impl CpAsyncBits for u64 {
    const NAME: &'static str = "u64";
    const ALWAYS: CpAsyncKind = CpAsyncKind::Ca8;
}
impl CpAsyncBits for u128 {
    const NAME: &'static str = "u128";
    const ALWAYS: CpAsyncKind = CpAsyncKind::Ca16;
}
impl CpAsyncGlobalBits for u128 {
    const GLOBAL: CpAsyncKind = CpAsyncKind::Cg16;
}

macro_rules! atom {
    ($(#[$doc:meta])* $name:ident, $bits:ident, $kind:expr, $ptx:literal, zero_fill = $zero_fill:literal) => {
        $(#[$doc])*
        #[allow(non_camel_case_types)]
        pub struct $name<T>(PhantomData<T>);

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T> Copy for $name<T> {}
        impl<T> Default for $name<T> {
            fn default() -> Self {
                Self(PhantomData)
            }
        }

        impl<T: $bits> CopyAtom for $name<T> {
            const NAME: &'static str = stringify!($name);
            const PARAMETER: Option<&'static str> = Some(T::NAME);
            const ARCH: u32 = 80;
            const PTX: Option<&'static str> = Some($ptx);
            type Source = GlobalMemory;
            type Destination = SharedMemory;
            const THR_ID: Layout = layout!(1:0);
            const SRC: Layout = one_thread(8 * size_of::<T>());
            const DST: Layout = Self::SRC;
            const REF: Layout = Self::SRC;
            const ZERO_FILLS: bool = $zero_fill;

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn call_partial(bytes: u32, source: u64, destination: u32) {
                // SAFETY: aligned addresses; `bytes` bytes of the source are readable.
                unsafe { cp_async_zfill(const { $kind }, L2Prefetch::None, destination, source, bytes) };
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn call(source: u64, destination: u32) {
                // SAFETY: aligned addresses; the source is readable.
                unsafe {
                    if $zero_fill {
                        cp_async_zfill(const { $kind }, L2Prefetch::None, destination, source, size_of::<T>() as u32);
                    } else {
                        cp_async_plain(const { $kind }, L2Prefetch::None, destination, source);
                    }
                }
            }
        }
    };
}

atom! {
    /// `cp.async.ca`: a copy of 4, 8 or 16 bytes (`u32`, `u64`, `u128`), cached in L1 and L2. With
    /// a predicate, excluded elements keep their values.
    ///
    /// In MoYe: `CPOP_ASYNC_CACHEALWAYS`.
    #[doc(alias = "CPOP_ASYNC_CACHEALWAYS")]
    SM80_CP_ASYNC_CACHEALWAYS, CpAsyncBits, T::ALWAYS, "cp.async.ca.shared.global", zero_fill = false
}
atom! {
    /// `cp.async.cg`: a copy of 16 bytes (`u128`), cached in L2 only. With a predicate, excluded
    /// elements keep their values.
    ///
    /// CuTe has layouts for 4 and 8 bytes too, but no such instruction exists, so there are no
    /// atoms here. In MoYe: `CPOP_ASYNC_CACHEGLOBAL`.
    #[doc(alias = "CPOP_ASYNC_CACHEGLOBAL")]
    SM80_CP_ASYNC_CACHEGLOBAL, CpAsyncGlobalBits, T::GLOBAL, "cp.async.cg.shared.global", zero_fill = false
}
atom! {
    /// [`SM80_CP_ASYNC_CACHEALWAYS`] with zeros for excluded elements.
    SM80_CP_ASYNC_CACHEALWAYS_ZFILL, CpAsyncBits, T::ALWAYS, "cp.async.ca.shared.global", zero_fill = true
}
atom! {
    /// [`SM80_CP_ASYNC_CACHEGLOBAL`] with zeros for excluded elements.
    SM80_CP_ASYNC_CACHEGLOBAL_ZFILL, CpAsyncGlobalBits, T::GLOBAL, "cp.async.cg.shared.global", zero_fill = true
}
