//! Accesses to memory that several host threads may use concurrently.
//!
//! Blocks of a grid run in parallel, and a wrong kernel may race. Every access is therefore a
//! relaxed atomic of the same width (16 bytes as two of 8), so that a race yields some value
//! instead of undefined behaviour on the host.

use crate::pod::{Pod, access_size, from_bits};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

macro_rules! atomic {
    ($atomic:ty, $address:expr) => {
        // SAFETY: the caller of the enclosing function guarantees the address.
        unsafe { <$atomic>::from_ptr(std::ptr::with_exposed_provenance_mut($address as usize)) }
    };
}
pub(crate) use atomic;

/// Loads a `T`.
///
/// # Safety
/// `address` is that of `size_of::<T>()` allocated bytes, aligned to their number.
#[inline(always)]
pub(crate) unsafe fn load<T: Pod>(address: u64) -> T {
    from_bits(match access_size::<T>() {
        1 => u128::from(atomic!(AtomicU8, address).load(Relaxed)),
        2 => u128::from(atomic!(AtomicU16, address).load(Relaxed)),
        4 => u128::from(atomic!(AtomicU32, address).load(Relaxed)),
        8 => u128::from(atomic!(AtomicU64, address).load(Relaxed)),
        _ => {
            let low = u128::from(atomic!(AtomicU64, address).load(Relaxed));
            let high = u128::from(atomic!(AtomicU64, address + 8).load(Relaxed));
            low | high << 64
        }
    })
}

/// Stores a `T`.
///
/// # Safety
/// Same contract as [`load`].
#[inline(always)]
pub(crate) unsafe fn store<T: Pod>(address: u64, value: T) {
    let bits = to_bits(value);
    match access_size::<T>() {
        1 => atomic!(AtomicU8, address).store(bits as u8, Relaxed),
        2 => atomic!(AtomicU16, address).store(bits as u16, Relaxed),
        4 => atomic!(AtomicU32, address).store(bits as u32, Relaxed),
        8 => atomic!(AtomicU64, address).store(bits as u64, Relaxed),
        _ => {
            atomic!(AtomicU64, address).store(bits as u64, Relaxed);
            atomic!(AtomicU64, address + 8).store((bits >> 64) as u64, Relaxed);
        }
    }
}

/// Loads `bytes` bytes and stores the lowest bytes of `bits`, in two accesses.
///
/// # Safety
/// Same contract as [`load`], with `bytes` one of 1, 2, 4, 8 and 16.
#[inline(always)]
pub(crate) unsafe fn exchange_bits(address: u64, bits: u128, bytes: usize) -> u128 {
    macro_rules! exchange {
        ($($bytes:literal $ty:ty;)*) => {
            match bytes {
                $($bytes => {
                    // SAFETY: `bytes` bytes are allocated at `address`, aligned to their number.
                    let before = unsafe { load::<$ty>(address) };
                    // SAFETY: `bytes` aligned bytes are allocated at `address`.
                    unsafe { store(address, from_bits::<$ty>(bits)) };
                    to_bits(before)
                })*
                other => unreachable!("an access of {other} bytes"),
            }
        };
    }
    exchange! { 1 u8; 2 u16; 4 u32; 8 u64; 16 [u64; 2]; }
}

/// The bytes of `value`, zero-extended.
#[inline(always)]
pub(crate) fn to_bits<T: Pod>(value: T) -> u128 {
    let mut bytes = [0u8; 16];
    let _ = access_size::<T>();
    // SAFETY: `T` is at most 16 bytes and has no padding.
    unsafe { bytes.as_mut_ptr().cast::<T>().write_unaligned(value) };
    u128::from_le_bytes(bytes)
}

/// Splits `bytes` bytes at `address` into single bytes before the first multiple of 8, words of 8,
/// and the rest.
fn parts(address: u64, bytes: usize) -> (usize, usize) {
    let head = (address.next_multiple_of(8) - address).min(bytes as u64) as usize;
    (head, head + (bytes - head) / 8 * 8)
}

/// Copies from simulated memory.
///
/// # Safety
/// `address` is that of `destination.len()` allocated bytes.
pub(crate) unsafe fn copy_out(address: u64, destination: &mut [u8]) {
    let (head, tail) = parts(address, destination.len());
    for (i, byte) in destination[..head].iter_mut().enumerate() {
        *byte = atomic!(AtomicU8, address + i as u64).load(Relaxed);
    }
    for (i, word) in destination[head..tail].chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(
            &atomic!(AtomicU64, address + (head + 8 * i) as u64).load(Relaxed).to_ne_bytes(),
        );
    }
    for (i, byte) in destination[tail..].iter_mut().enumerate() {
        *byte = atomic!(AtomicU8, address + (tail + i) as u64).load(Relaxed);
    }
}

/// Copies to simulated memory.
///
/// # Safety
/// `address` is that of `source.len()` allocated bytes.
pub(crate) unsafe fn copy_in(address: u64, source: &[u8]) {
    let (head, tail) = parts(address, source.len());
    for (i, &byte) in source[..head].iter().enumerate() {
        atomic!(AtomicU8, address + i as u64).store(byte, Relaxed);
    }
    for (i, word) in source[head..tail].chunks_exact(8).enumerate() {
        let word = u64::from_ne_bytes(word.try_into().expect("chunks of 8 bytes"));
        atomic!(AtomicU64, address + (head + 8 * i) as u64).store(word, Relaxed);
    }
    for (i, &byte) in source[tail..].iter().enumerate() {
        atomic!(AtomicU8, address + (tail + i) as u64).store(byte, Relaxed);
    }
}

/// Sets simulated memory to one byte value.
///
/// # Safety
/// `address` is that of `bytes` allocated bytes.
pub(crate) unsafe fn fill(address: u64, bytes: usize, value: u8) {
    let (head, tail) = parts(address, bytes);
    for i in (0..head).chain(tail..bytes) {
        atomic!(AtomicU8, address + i as u64).store(value, Relaxed);
    }
    for i in (head..tail).step_by(8) {
        atomic!(AtomicU64, address + i as u64).store(u64::from_ne_bytes([value; 8]), Relaxed);
    }
}
