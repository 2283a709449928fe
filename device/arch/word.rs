//! Loads and stores of 8 to 128 bits, global and shared: one instruction each.

use core::fmt::Debug;

/// The word of a load or store instruction: 1, 2, 4, 8 or 16 bytes, aligned to its size.
///
/// # Safety
/// Plain bits: every pattern is valid, there is no padding, and `size_of` is the access's size.
pub unsafe trait Word: Copy + Debug + Send + Sync + 'static {
    /// All bits clear.
    const ZERO: Self;

    /// `ld.global`.
    ///
    /// # Safety
    /// `address` is a global address of readable memory, aligned to the word's size.
    unsafe fn load_global(address: u64) -> Self;

    /// `@valid ld.global`; zero if not `valid`.
    ///
    /// # Safety
    /// Same contract as [`Word::load_global`], if `valid`.
    unsafe fn load_global_if(valid: bool, address: u64) -> Self;

    /// `st.global`.
    ///
    /// # Safety
    /// `address` is a global address of writable memory, aligned to the word's size.
    unsafe fn store_global(address: u64, value: Self);

    /// `@valid st.global`.
    ///
    /// # Safety
    /// Same contract as [`Word::store_global`], if `valid`.
    unsafe fn store_global_if(valid: bool, address: u64, value: Self);

    /// `ld.shared`.
    ///
    /// # Safety
    /// `address` is in the block's shared memory, aligned to the word's size.
    unsafe fn load_shared(address: u32) -> Self;

    /// `st.shared`.
    ///
    /// # Safety
    /// Same contract as [`Word::load_shared`].
    unsafe fn store_shared(address: u32, value: Self);
}

/// 64 bits as two registers of 32, the `.v2.b32` of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Word64x2(pub [u32; 2]);

/// 128 bits as four registers of 32, the `.v4.b32` of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Word128(pub [u32; 4]);

/// The bodies for one word type: its PTX suffix, the registers of the instruction, how they form
/// the word.
macro_rules! word {
    (
        $word:ty, zero = $zero:expr, sim = $sim:ty, ptx = $ptx:literal, list = $list:literal, clear = $clear:literal,
        $(($reg:ident: $class:ident $ty:ty = $part:expr)),+ => $join:expr, |$value:ident|, |$bits:ident| $from:expr, $to:expr
    ) => {
        // SAFETY: plain bits; the implementation below moves exactly `size_of::<Self>()` bytes.
        unsafe impl Word for $word {
            const ZERO: Self = $zero;

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn load_global(address: u64) -> Self {
                #[cfg(target_arch = "nvptx64")]
                {
                    $(let $reg: $ty;)+
                    // SAFETY: an aligned global address of readable memory.
                    unsafe {
                        core::arch::asm!(
                            concat!("ld.global.", $ptx, " ", $list, ", [{address}];"),
                            $($reg = out($class) $reg,)+ address = in(reg64) address,
                            options(pure, readonly, nostack)
                        )
                    };
                    $join
                }
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    let $bits: $sim = moye_sim::intrinsics::load_global(address);
                    $from
                }
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn load_global_if(valid: bool, address: u64) -> Self {
                #[cfg(target_arch = "nvptx64")]
                {
                    $(let $reg: $ty;)+
                    // SAFETY: if `valid`, the word is readable; the registers are cleared first, so
                    // they are always set.
                    unsafe {
                        core::arch::asm!(
                            "{{ .reg .pred p; setp.ne.b32 p, {valid}, 0;",
                            $clear,
                            concat!("@p ld.global.", $ptx, " ", $list, ", [{address}]; }}"),
                            $($reg = out($class) $reg,)+ address = in(reg64) address, valid = in(reg32) valid as u32,
                            options(pure, readonly, nostack)
                        )
                    };
                    $join
                }
                #[cfg(not(target_arch = "nvptx64"))]
                // SAFETY: an aligned global address of readable memory.
                if valid { unsafe { Self::load_global(address) } } else { Self::ZERO }
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn store_global(address: u64, $value: Self) {
                #[cfg(target_arch = "nvptx64")]
                // SAFETY: an aligned global address of writable memory.
                unsafe {
                    core::arch::asm!(
                        concat!("st.global.", $ptx, " [{address}], ", $list, ";"),
                        $($reg = in($class) $part,)+ address = in(reg64) address,
                        options(nostack)
                    )
                }
                #[cfg(not(target_arch = "nvptx64"))]
                moye_sim::intrinsics::store_global::<$sim>(address, $to)
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn store_global_if(valid: bool, address: u64, $value: Self) {
                #[cfg(target_arch = "nvptx64")]
                // SAFETY: an aligned global address, writable if `valid`.
                unsafe {
                    core::arch::asm!(
                        "{{ .reg .pred p; setp.ne.b32 p, {valid}, 0;",
                        concat!("@p st.global.", $ptx, " [{address}], ", $list, "; }}"),
                        $($reg = in($class) $part,)+ address = in(reg64) address, valid = in(reg32) valid as u32,
                        options(nostack)
                    )
                }
                #[cfg(not(target_arch = "nvptx64"))]
                if valid {
                    // SAFETY: an aligned global address of writable memory.
                    unsafe { Self::store_global(address, $value) }
                }
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn load_shared(address: u32) -> Self {
                #[cfg(target_arch = "nvptx64")]
                {
                    $(let $reg: $ty;)+
                    // SAFETY: an aligned address in the block's shared memory.
                    unsafe {
                        core::arch::asm!(
                            concat!("ld.shared.", $ptx, " ", $list, ", [{address}];"),
                            $($reg = out($class) $reg,)+ address = in(reg32) address,
                            options(pure, readonly, nostack)
                        )
                    };
                    $join
                }
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    let $bits: $sim = moye_sim::intrinsics::load_shared(address);
                    $from
                }
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn store_shared(address: u32, $value: Self) {
                #[cfg(target_arch = "nvptx64")]
                // SAFETY: an aligned address in the block's shared memory.
                unsafe {
                    core::arch::asm!(
                        concat!("st.shared.", $ptx, " [{address}], ", $list, ";"),
                        $($reg = in($class) $part,)+ address = in(reg32) address,
                        options(nostack)
                    )
                }
                #[cfg(not(target_arch = "nvptx64"))]
                moye_sim::intrinsics::store_shared::<$sim>(address, $to)
            }
        }
    };
}

// PTX has no 8-bit registers; an 8-bit access uses a 32-bit one.
word!(u8, zero = 0, sim = u8, ptx = "u8", list = "{a}", clear = "mov.b32 {a}, 0;",
    (a: reg32 u32 = value as u32) => a as u8, |value|, |bits| bits, value);
word!(u16, zero = 0, sim = u16, ptx = "b16", list = "{a}", clear = "mov.b16 {a}, 0;",
    (a: reg16 u16 = value) => a, |value|, |bits| bits, value);
word!(u32, zero = 0, sim = u32, ptx = "b32", list = "{a}", clear = "mov.b32 {a}, 0;",
    (a: reg32 u32 = value) => a, |value|, |bits| bits, value);
word!(u64, zero = 0, sim = u64, ptx = "b64", list = "{a}", clear = "mov.b64 {a}, 0;",
    (a: reg64 u64 = value) => a, |value|, |bits| bits, value);
word!(Word64x2, zero = Word64x2([0; 2]), sim = [u32; 2], ptx = "v2.b32", list = "{{{a}, {b}}}",
    clear = "mov.b32 {a}, 0; mov.b32 {b}, 0;",
    (a: reg32 u32 = value.0[0]), (b: reg32 u32 = value.0[1]) => Word64x2([a, b]), |value|, |bits| Word64x2(bits), value.0);
word!(Word128, zero = Word128([0; 4]), sim = [u32; 4], ptx = "v4.b32", list = "{{{a}, {b}, {c}, {d}}}",
    clear = "mov.b32 {a}, 0; mov.b32 {b}, 0; mov.b32 {c}, 0; mov.b32 {d}, 0;",
    (a: reg32 u32 = value.0[0]), (b: reg32 u32 = value.0[1]), (c: reg32 u32 = value.0[2]), (d: reg32 u32 = value.0[3])
    => Word128([a, b, c, d]), |value|, |bits| Word128(bits), value.0);
