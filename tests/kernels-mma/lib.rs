//! Kernels of the tests of matrix instructions: for each atom one, under the atom's name, that
//! executes it once.
//!
//! Kernels for sm_89 have a separate PTX, which the feature `sm_89` selects.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(non_upper_case_globals, non_snake_case, reason = "kernels have the names of atoms")]
#![allow(clippy::missing_safety_doc, reason = "`execute` says what every kernel trusts")]

use moye_device::arch::mma::Registers;
use moye_device::arch::{Word, block_idx, thread_idx};
use moye_device::atom::mma::{self, MmaAtom};
use moye_device::kernel;
use moye_device::memory::{Global, GlobalMut};

/// The PTX of all kernels but those of sm_89, by architecture.
#[cfg(not(target_arch = "nvptx64"))]
pub const PTX_SM_80: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sm_80/moye_kernels_mma.rs"));

/// The PTX of the kernels of sm_89, by architecture.
#[cfg(not(target_arch = "nvptx64"))]
pub const PTX_SM_89: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sm_89/moye_kernels_mma.rs"));

/// Each warp, one to a block, takes its lanes' registers of A, B and C from memory, lane by lane,
/// executes the atom once, and writes those of D.
///
/// # Safety
/// The pointers lead to the registers of as many warps as there are blocks, of 32 threads.
#[inline(always)]
unsafe fn execute<M: MmaAtom>(a: Global<u32>, b: Global<u32>, c: Global<u32>, d: GlobalMut<u32>) {
    let lane = u64::from(block_idx().x * 32 + thread_idx().x);
    let address = |origin: u64, words: usize, word: usize| origin + 4 * (lane * words as u64 + word as u64);
    let mut result = M::RegistersD::default();
    // SAFETY: the caller's contract; the whole warp is here.
    unsafe {
        let a = M::RegistersA::from_words(|word| {
            u32::load_global(address(a.address(), M::RegistersA::WORDS, word))
        });
        let b = M::RegistersB::from_words(|word| {
            u32::load_global(address(b.address(), M::RegistersB::WORDS, word))
        });
        let c = M::RegistersC::from_words(|word| {
            u32::load_global(address(c.address(), M::RegistersC::WORDS, word))
        });
        M::fma(&mut result, a, b, c);
        for word in 0..M::RegistersD::WORDS {
            u32::store_global(address(d.address(), M::RegistersD::WORDS, word), result.word(word));
        }
    }
}

macro_rules! kernels {
    (
        $(sync { $sync:ident; $function:ident; $text:literal; moye $moye:tt; arch $arch:tt; $($rest:tt)* })*
        $(same { $same:ident; $first:ident; arch $same_arch:tt })*
        $(own { $own:ident })*
    ) => {
        $(one!($arch $sync);)*
        $(one!($same_arch $same);)*
        $(one!(0 $own);)*
    };
}

macro_rules! one {
    (89 $atom:ident) => {
        #[cfg(any(not(target_arch = "nvptx64"), feature = "sm_89"))]
        one!(@ $atom);
    };
    ($arch:literal $atom:ident) => {
        #[cfg(not(all(target_arch = "nvptx64", feature = "sm_89")))]
        one!(@ $atom);
    };
    (@ $atom:ident) => {
        #[kernel(threads = 32)]
        pub unsafe fn $atom(a: Global<u32>, b: Global<u32>, c: Global<u32>, d: GlobalMut<u32>) {
            // SAFETY: passed on.
            unsafe { execute::<mma::$atom>(a, b, c, d) };
        }
    };
}
moye_device::for_each_mma!(kernels);
