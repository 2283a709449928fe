//! Atomic operations on global and shared memory, one `atom` or `red` each.
//!
//! All are relaxed, and of GPU scope except [`AtomicAddOfBlock`]: each is one step for every thread
//! of the device, and orders no other accesses. The methods of the traits are for global memory (a
//! 64-bit address) and shared memory (a 32-bit address); they return the previous value (`atom`),
//! and additions also have a form without a result (`red`), which does not wait.
//!
//! Every GPU supports integers and f32; additions of f64 need sm_60, of f16 pairs sm_60 and PTX
//! 6.2, of bf16 pairs sm_90 and PTX 7.8 ("atom" in NVIDIA's "PTX ISA").
//!
//! Sums of floats depend on the order of the additions, which is not deterministic. An addition of
//! f32 in global memory flushes subnormal operands and results to zero, in shared memory it does
//! not; the hardware and the simulator agree.

use super::half2::{Bf16x2, F16x2};
use super::target::needs;
use crate::memory::Element;

/// Types with atomic addition.
pub trait AtomicAdd: Element {
    /// Adds `value` to the element in global memory and returns the previous value
    /// (`atom.global.add`).
    ///
    /// # Safety
    /// `address` is the address of an element in global memory that the kernel may write, aligned
    /// to its size.
    unsafe fn atomic_add_global(address: u64, value: Self) -> Self;

    /// Adds `value` to the element in shared memory and returns the previous value
    /// (`atom.shared.add`).
    ///
    /// # Safety
    /// `address` is the address of an element in the block's shared memory that was written,
    /// aligned to its size.
    unsafe fn atomic_add_shared(address: u32, value: Self) -> Self;

    /// Adds `value` to the element in global memory (`red.global.add`).
    ///
    /// # Safety
    /// Same contract as [`AtomicAdd::atomic_add_global`].
    unsafe fn reduce_add_global(address: u64, value: Self);

    /// Adds `value` to the element in shared memory (`red.shared.add`).
    ///
    /// # Safety
    /// Same contract as [`AtomicAdd::atomic_add_shared`].
    unsafe fn reduce_add_shared(address: u32, value: Self);
}

/// Integers with atomic addition of block scope.
pub trait AtomicAddOfBlock: Element {
    /// Adds `value` to the element in global memory and returns the previous value, atomically only
    /// for the threads of the block (`atom.cta.global.add`). No other block may access the element
    /// meanwhile, not even by an atomic operation.
    ///
    /// # Safety
    /// Same contract as [`AtomicAdd::atomic_add_global`].
    unsafe fn atomic_add_global_of_block(address: u64, value: Self) -> Self;
}

/// Integers with atomic minimum, maximum and bit operations.
pub trait AtomicInteger: Element {
    /// Stores the minimum of the element in global memory and `value`, and returns the previous
    /// value (`atom.global.min`).
    ///
    /// # Safety
    /// Same contract as [`AtomicAdd::atomic_add_global`].
    unsafe fn atomic_min_global(address: u64, value: Self) -> Self;

    /// Stores the maximum of the element in global memory and `value`, and returns the previous
    /// value (`atom.global.max`).
    ///
    /// # Safety
    /// Same contract as [`AtomicAdd::atomic_add_global`].
    unsafe fn atomic_max_global(address: u64, value: Self) -> Self;

    /// Stores the bitwise AND with `value`, and returns the previous value (`atom.global.and`).
    ///
    /// # Safety
    /// Same contract as [`AtomicAdd::atomic_add_global`].
    unsafe fn atomic_and_global(address: u64, value: Self) -> Self;

    /// Stores the bitwise OR with `value`, and returns the previous value (`atom.global.or`).
    ///
    /// # Safety
    /// Same contract as [`AtomicAdd::atomic_add_global`].
    unsafe fn atomic_or_global(address: u64, value: Self) -> Self;

    /// Stores the bitwise XOR with `value`, and returns the previous value (`atom.global.xor`).
    ///
    /// # Safety
    /// Same contract as [`AtomicAdd::atomic_add_global`].
    unsafe fn atomic_xor_global(address: u64, value: Self) -> Self;

    /// [`AtomicInteger::atomic_min_global`] in shared memory (`atom.shared.min`).
    ///
    /// # Safety
    /// Same contract as [`AtomicAdd::atomic_add_shared`].
    unsafe fn atomic_min_shared(address: u32, value: Self) -> Self;

    /// [`AtomicInteger::atomic_max_global`] in shared memory (`atom.shared.max`).
    ///
    /// # Safety
    /// Same contract as [`AtomicAdd::atomic_add_shared`].
    unsafe fn atomic_max_shared(address: u32, value: Self) -> Self;

    /// [`AtomicInteger::atomic_and_global`] in shared memory (`atom.shared.and`).
    ///
    /// # Safety
    /// Same contract as [`AtomicAdd::atomic_add_shared`].
    unsafe fn atomic_and_shared(address: u32, value: Self) -> Self;

    /// [`AtomicInteger::atomic_or_global`] in shared memory (`atom.shared.or`).
    ///
    /// # Safety
    /// Same contract as [`AtomicAdd::atomic_add_shared`].
    unsafe fn atomic_or_shared(address: u32, value: Self) -> Self;

    /// [`AtomicInteger::atomic_xor_global`] in shared memory (`atom.shared.xor`).
    ///
    /// # Safety
    /// Same contract as [`AtomicAdd::atomic_add_shared`].
    unsafe fn atomic_xor_shared(address: u32, value: Self) -> Self;
}

/// Values of 32 or 64 bits that can be exchanged atomically.
pub trait AtomicExchange: Element {
    /// Stores `value` in global memory and returns the previous value (`atom.global.exch`).
    ///
    /// # Safety
    /// Same contract as [`AtomicAdd::atomic_add_global`].
    unsafe fn atomic_exchange_global(address: u64, value: Self) -> Self;

    /// Stores `value` in shared memory and returns the previous value (`atom.shared.exch`).
    ///
    /// # Safety
    /// Same contract as [`AtomicAdd::atomic_add_shared`].
    unsafe fn atomic_exchange_shared(address: u32, value: Self) -> Self;

    /// Stores `value` in global memory if it holds `expected`, bit for bit, and returns the
    /// previous value (`atom.global.cas`).
    ///
    /// # Safety
    /// Same contract as [`AtomicAdd::atomic_add_global`].
    unsafe fn atomic_compare_exchange_global(address: u64, expected: Self, value: Self) -> Self;

    /// Stores `value` in shared memory if it holds `expected`, bit for bit, and returns the
    /// previous value (`atom.shared.cas`).
    ///
    /// # Safety
    /// Same contract as [`AtomicAdd::atomic_add_shared`].
    unsafe fn atomic_compare_exchange_shared(address: u32, expected: Self, value: Self) -> Self;
}

/// A method that returns the previous value: `atom` with the given operation, its requirements if
/// any, and the simulator's expression.
macro_rules! atom {
    (
        $name:ident($address:ident: $address_class:ident $address_ty:ty, $($operand:ident),+),
        $ptx:expr, $class:ident $register:ty, [$($sm:literal $version:literal)?], $sim:expr
    ) => {
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        unsafe fn $name($address: $address_ty, $($operand: Self),+) -> Self {
            $(needs!($ptx, $sm $version);)?
            #[cfg(target_arch = "nvptx64")]
            {
                let old: $register;
                // SAFETY: an aligned address of accessible memory.
                unsafe {
                    core::arch::asm!(
                        concat!($ptx, " {old}, [{address}]" $(, ", {", stringify!($operand), "}")+, ";"),
                        old = out($class) old, address = in($address_class) $address,
                        $($operand = in($class) Element::to_bits($operand),)+
                        options(nostack)
                    )
                };
                Element::from_bits(old)
            }
            #[cfg(not(target_arch = "nvptx64"))]
            $sim
        }
    };
}

/// A method without a result: `red`.
macro_rules! red {
    (
        $name:ident($address:ident: $address_class:ident $address_ty:ty, $value:ident),
        $ptx:expr, $class:ident, [$($sm:literal $version:literal)?], $sim:expr
    ) => {
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        unsafe fn $name($address: $address_ty, $value: Self) {
            $(needs!($ptx, $sm $version);)?
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: an aligned address of accessible memory.
            unsafe {
                core::arch::asm!(
                    concat!($ptx, " [{address}], {value};"),
                    address = in($address_class) $address, value = in($class) Element::to_bits($value),
                    options(nostack)
                )
            }
            #[cfg(not(target_arch = "nvptx64"))]
            $sim
        }
    };
}

macro_rules! add {
    ($t:ty, $suffix:literal, $class:ident $register:ty, $needs:tt, |$old:ident, $value:ident| $global:expr, $shared:expr) => {
        impl AtomicAdd for $t {
            atom!(atomic_add_global(address: reg64 u64, value), concat!("atom.global.add.", $suffix),
                $class $register, $needs, sim_update(address, |$old: Self| { let $value = value; $global }));
            atom!(atomic_add_shared(address: reg32 u32, value), concat!("atom.shared.add.", $suffix),
                $class $register, $needs, sim_update(address, |$old: Self| { let $value = value; $shared }));
            red!(reduce_add_global(address: reg64 u64, value), concat!("red.global.add.", $suffix),
                $class, $needs, sim_reduce(address, |$old: Self| { let $value = value; $global }));
            red!(reduce_add_shared(address: reg32 u32, value), concat!("red.shared.add.", $suffix),
                $class, $needs, sim_reduce(address, |$old: Self| { let $value = value; $shared }));
        }
    };
}
add!(u32, "u32", reg32 u32, [], |old, value| old.wrapping_add(value), old.wrapping_add(value));
add!(i32, "s32", reg32 u32, [], |old, value| old.wrapping_add(value), old.wrapping_add(value));
add!(u64, "u64", reg64 u64, [], |old, value| old.wrapping_add(value), old.wrapping_add(value));
add!(i64, "u64", reg64 u64, [], |old, value| old.wrapping_add(value), old.wrapping_add(value));
add!(f32, "f32", reg32 u32, [], |old, value| flushed(flushed(old) + flushed(value)), old + value);
add!(f64, "f64", reg64 u64, [60 5.0], |old, value| old + value, old + value);
add!(F16x2, "noftz.f16x2", reg32 u32, [60 6.2], |old, value| old + value, old + value);
add!(Bf16x2, "noftz.bf16x2", reg32 u32, [90 7.8], |old, value| old + value, old + value);

macro_rules! add_of_block {
    ($($t:ty, $suffix:literal, $class:ident $register:ty;)*) => { $(
        impl AtomicAddOfBlock for $t {
            atom!(atomic_add_global_of_block(address: reg64 u64, value), concat!("atom.cta.global.add.", $suffix),
                $class $register, [60 5.0], sim_update_of_block(address, |old: Self| old.wrapping_add(value)));
        }
    )* };
}
add_of_block! {
    u32, "u32", reg32 u32;
    i32, "s32", reg32 u32;
    u64, "u64", reg64 u64;
    i64, "u64", reg64 u64;
}

/// For a subnormal value, zero of the same sign.
#[cfg(not(target_arch = "nvptx64"))]
fn flushed(value: f32) -> f32 {
    if value.is_subnormal() { f32::from_bits(value.to_bits() & (1 << 31)) } else { value }
}

/// [`sim_update`] without a result.
#[cfg(not(target_arch = "nvptx64"))]
#[track_caller]
fn sim_reduce<T: AtomicBits>(address: impl moye_sim::intrinsics::AtomicSpace, update: impl Fn(T) -> T) {
    moye_sim::intrinsics::reduce_update(address, |bits: T::Word| T::to_word(update(T::from_word(bits))));
}

/// The simulator's update of an element, by its bits, which the simulator's memory holds.
#[cfg(not(target_arch = "nvptx64"))]
#[track_caller]
fn sim_update<T: AtomicBits>(address: impl moye_sim::intrinsics::AtomicSpace, update: impl Fn(T) -> T) -> T {
    let update = |bits: T::Word| T::to_word(update(T::from_word(bits)));
    T::from_word(moye_sim::intrinsics::atomic_update(address, update))
}

/// [`sim_update`] of block scope.
#[cfg(not(target_arch = "nvptx64"))]
#[track_caller]
fn sim_update_of_block<T: AtomicBits>(address: u64, update: impl Fn(T) -> T) -> T {
    let update = |bits: T::Word| T::to_word(update(T::from_word(bits)));
    T::from_word(moye_sim::intrinsics::atomic_update_of_block(address, update))
}

/// An element's representation in the simulator.
#[cfg(not(target_arch = "nvptx64"))]
trait AtomicBits: Copy {
    type Word: moye_sim::Pod;
    fn to_word(self) -> Self::Word;
    fn from_word(word: Self::Word) -> Self;
}

#[cfg(not(target_arch = "nvptx64"))]
macro_rules! bits {
    ($($t:ty: $word:ty),*) => { $(
        impl AtomicBits for $t {
            type Word = $word;
            fn to_word(self) -> $word {
                Element::to_bits(self)
            }
            fn from_word(word: $word) -> Self {
                Element::from_bits(word)
            }
        }
    )* };
}
#[cfg(not(target_arch = "nvptx64"))]
bits!(u32: u32, i32: u32, f32: u32, F16x2: u32, Bf16x2: u32, u64: u64, i64: u64, f64: u64);

macro_rules! integer {
    ($($t:ty, $suffix:literal, $bits:literal, $class:ident $register:ty;)*) => { $(
        impl AtomicInteger for $t {
            atom!(atomic_min_global(address: reg64 u64, value), concat!("atom.global.min.", $suffix),
                $class $register, [], sim_update(address, |old: Self| old.min(value)));
            atom!(atomic_max_global(address: reg64 u64, value), concat!("atom.global.max.", $suffix),
                $class $register, [], sim_update(address, |old: Self| old.max(value)));
            atom!(atomic_and_global(address: reg64 u64, value), concat!("atom.global.and.", $bits),
                $class $register, [], sim_update(address, |old: Self| old & value));
            atom!(atomic_or_global(address: reg64 u64, value), concat!("atom.global.or.", $bits),
                $class $register, [], sim_update(address, |old: Self| old | value));
            atom!(atomic_xor_global(address: reg64 u64, value), concat!("atom.global.xor.", $bits),
                $class $register, [], sim_update(address, |old: Self| old ^ value));
            atom!(atomic_min_shared(address: reg32 u32, value), concat!("atom.shared.min.", $suffix),
                $class $register, [], sim_update(address, |old: Self| old.min(value)));
            atom!(atomic_max_shared(address: reg32 u32, value), concat!("atom.shared.max.", $suffix),
                $class $register, [], sim_update(address, |old: Self| old.max(value)));
            atom!(atomic_and_shared(address: reg32 u32, value), concat!("atom.shared.and.", $bits),
                $class $register, [], sim_update(address, |old: Self| old & value));
            atom!(atomic_or_shared(address: reg32 u32, value), concat!("atom.shared.or.", $bits),
                $class $register, [], sim_update(address, |old: Self| old | value));
            atom!(atomic_xor_shared(address: reg32 u32, value), concat!("atom.shared.xor.", $bits),
                $class $register, [], sim_update(address, |old: Self| old ^ value));
        }
    )* };
}
integer! {
    u32, "u32", "b32", reg32 u32;
    i32, "s32", "b32", reg32 u32;
    u64, "u64", "b64", reg64 u64;
    i64, "s64", "b64", reg64 u64;
}

macro_rules! exchange {
    ($($t:ty, $bits:literal, $class:ident $register:ty;)*) => { $(
        impl AtomicExchange for $t {
            atom!(atomic_exchange_global(address: reg64 u64, value), concat!("atom.global.exch.", $bits),
                $class $register, [], sim_update(address, |_: Self| value));
            atom!(atomic_exchange_shared(address: reg32 u32, value), concat!("atom.shared.exch.", $bits),
                $class $register, [], sim_update(address, |_: Self| value));
            atom!(atomic_compare_exchange_global(address: reg64 u64, expected, value),
                concat!("atom.global.cas.", $bits), $class $register, [],
                sim_update(address, |old: Self| if old.to_word() == expected.to_word() { value } else { old }));
            atom!(atomic_compare_exchange_shared(address: reg32 u32, expected, value),
                concat!("atom.shared.cas.", $bits), $class $register, [],
                sim_update(address, |old: Self| if old.to_word() == expected.to_word() { value } else { old }));
        }
    )* };
}
exchange! {
    u32, "b32", reg32 u32;
    i32, "b32", reg32 u32;
    f32, "b32", reg32 u32;
    u64, "b64", reg64 u64;
    i64, "b64", reg64 u64;
    f64, "b64", reg64 u64;
}
