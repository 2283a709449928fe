//! The registers of a thread for an operand.

use crate::arch::simulator_assert;
use crate::memory::Element;
use crate::number::{Complex64, F8E4M3, F8E5M2, Tf32};
use half::{bf16, f16};

/// The Rust type of an operand's register: `u32` for packed bits, `i32`, `f32`, `f64`; the number
/// type for [`UniversalFma`](crate::atom::mma::UniversalFma).
pub trait Register: Element + Default {}

macro_rules! register {
    ($($t:ty),*) => { $(
        impl Register for $t {}
    )* };
}
register!(u32, i32, f32, f64);
// The operands of `UniversalFma`, which are not operands of a matrix instruction.
register!(f16, bf16, Tf32, F8E4M3, F8E5M2, i8, u8, i16, i64, u64, Complex64);

/// A thread's registers of one operand: an array.
pub trait Registers: Copy + Default + Send + Sync + 'static {
    /// The register type.
    type Register: Register;

    /// The number of registers.
    const COUNT: usize;

    /// The number of 32-bit registers that they take.
    const WORDS: usize = Self::COUNT * Self::Register::BYTES.div_ceil(4);

    /// The registers `f(0)`, `f(1)`, ...
    fn from_fn(f: impl FnMut(usize) -> Self::Register) -> Self;

    /// The registers in order.
    fn as_slice(&self) -> &[Self::Register];

    /// The registers in order, mutable.
    fn as_mut_slice(&mut self) -> &mut [Self::Register];

    /// The registers whose bits are the words `f(0)`, `f(1)`, ..., lowest word of a wider register
    /// first.
    #[inline(always)]
    fn from_words(mut f: impl FnMut(usize) -> u32) -> Self {
        let per_register = Self::Register::BYTES.div_ceil(4);
        Self::from_fn(|register| {
            let word = |i| if i < per_register { f(register * per_register + i) } else { 0 };
            let words: [u32; 4] = core::array::from_fn(word);
            // SAFETY: a register has at most 16 bytes, and any bits are valid.
            unsafe { core::ptr::from_ref(&words).cast::<Self::Register>().read_unaligned() }
        })
    }

    /// Word `index` of the registers' bits.
    ///
    /// # Panics
    /// If `index` is not below [`Registers::WORDS`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn word(&self, index: usize) -> u32 {
        simulator_assert!(
            index < Self::WORDS,
            "word {index} of an operand whose registers have {} words: 0 to {} are there",
            Self::WORDS,
            Self::WORDS - 1
        );
        assert!(index < Self::WORDS, "an operand has fewer words");
        let per_register = Self::Register::BYTES.div_ceil(4);
        let mut word = 0u32;
        let bytes = Self::Register::BYTES.min(4);
        // SAFETY: within the registers: the part `index % per_register` of one of them, copied to a
        // word of sufficient size.
        unsafe {
            let from =
                self.as_slice().as_ptr().add(index / per_register).cast::<u8>().add(index % per_register * 4);
            core::ptr::copy_nonoverlapping(from, (&raw mut word).cast::<u8>(), bytes);
        }
        word
    }
}

macro_rules! registers {
    ($($n:literal),*) => { $(
        impl<T: Register> Registers for [T; $n] {
            type Register = T;
            const COUNT: usize = $n;

            #[inline(always)]
            fn from_fn(f: impl FnMut(usize) -> T) -> Self {
                core::array::from_fn(f)
            }

            #[inline(always)]
            fn as_slice(&self) -> &[T] {
                self
            }

            #[inline(always)]
            fn as_mut_slice(&mut self) -> &mut [T] {
                self
            }
        }
    )* };
}
registers!(1, 2, 4, 6, 8);
