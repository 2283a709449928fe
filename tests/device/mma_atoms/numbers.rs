//! Random elements, and their values.

use half::{bf16, f16};
use moye_device::number::{B1, Complex64, F8E4M3, F8E5M2, GaussComplex, Number, S4, Scalar, Tf32, U4};
use rand::rngs::StdRng;
use rand::{Rng, RngExt};

/// The distribution of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// Small integers: products and all their sums are exact in every accumulator, so results have
    /// no error.
    Small,
    /// Floats from -1 to 1, and arbitrary bits for integers.
    Uniform,
    /// Floats of both signs over nine powers of two, and integers at the limits of their range, so
    /// that sums overflow.
    Wide,
}

/// A number type of the tests.
pub trait TestNumber: Number {
    /// A random element of A or B.
    fn factor(inputs: Inputs, rng: &mut StdRng) -> Self;

    /// A random element of C.
    fn addend(inputs: Inputs, rng: &mut StdRng) -> Self {
        Self::factor(inputs, rng)
    }

    /// The bits, 32 to a word, the lowest first.
    fn to_words(self) -> Vec<u32>;

    /// The element with these bits.
    fn from_words(words: &[u32]) -> Self;

    /// The value.
    fn value(self) -> Complex64;

    /// The factor by which the product of two magnitudes bounds what one product adds to an
    /// accumulator of this type: 1 for real values, and for complex ones, because each part is two
    /// of the four real products in the product of the magnitudes.
    const ADDENDS: f64 = 1.0;

    /// An upper bound on the magnitude of all terms of the value.
    fn magnitude(self) -> f64 {
        self.value().re.abs() + self.value().im.abs()
    }
}

fn float(inputs: Inputs, rng: &mut StdRng) -> f64 {
    match inputs {
        Inputs::Small => f64::from(rng.random_range(-3..=3_i32)),
        Inputs::Uniform => rng.random_range(-1.0..=1.0),
        Inputs::Wide => {
            let magnitude = 2_f64.powi(rng.random_range(-6..=2)) * rng.random_range(1.0..2.0);
            if rng.random() { magnitude } else { -magnitude }
        }
    }
}

fn words(bits: u64, width: usize) -> Vec<u32> {
    if width > 32 { vec![bits as u32, (bits >> 32) as u32] } else { vec![bits as u32] }
}

fn bits(words: &[u32]) -> u64 {
    words.iter().rev().fold(0, |bits, &word| bits << 32 | u64::from(word))
}

macro_rules! scalar {
    ($($t:ty: |$inputs:ident, $rng:ident| $factor:expr $(, $addend:expr)?;)*) => { $(
        impl TestNumber for $t {
            fn factor($inputs: Inputs, $rng: &mut StdRng) -> Self {
                $factor
            }
            $(fn addend($inputs: Inputs, $rng: &mut StdRng) -> Self {
                $addend
            })?
            fn to_words(self) -> Vec<u32> {
                words(self.low_bits(), Self::WIDTH)
            }
            fn from_words(words: &[u32]) -> Self {
                Self::from_low_bits(bits(words))
            }
            fn value(self) -> Complex64 {
                Complex64::new(self.to_f64(), 0.0)
            }
        }
    )* };
}
scalar! {
    f16: |inputs, rng| Self::nearest(float(inputs, rng));
    bf16: |inputs, rng| Self::nearest(float(inputs, rng));
    f32: |inputs, rng| Self::nearest(float(inputs, rng));
    f64: |inputs, rng| float(inputs, rng);
    // The lower 13 bits are random, because they must not matter.
    Tf32: |inputs, rng| {
        let low = rng.next_u32() & 0x1fff;
        Self::from_bits(Self::nearest(float(inputs, rng)).to_bits() | low)
    };
    F8E4M3: |inputs, rng| Self::nearest(float(inputs, rng));
    F8E5M2: |inputs, rng| Self::nearest(float(inputs, rng));
    i8: |inputs, rng| integer(inputs, rng);
    u8: |inputs, rng| integer(inputs, rng);
    i16: |inputs, rng| integer(inputs, rng);
    S4: |inputs, rng| integer(inputs, rng);
    U4: |inputs, rng| integer(inputs, rng);
    B1: |inputs, rng| integer(inputs, rng);
    i32: |inputs, rng| integer(inputs, rng), match inputs {
        Inputs::Small => rng.random_range(-8..=8),
        Inputs::Uniform => rng.random(),
        Inputs::Wide if rng.random() => i32::MAX - rng.random_range(0..100_000),
        Inputs::Wide => i32::MIN + rng.random_range(0..100_000),
    };
}

fn integer<T: Scalar>(inputs: Inputs, rng: &mut StdRng) -> T {
    match inputs {
        Inputs::Small => T::nearest(f64::from(rng.random_range(-3..=3_i32))),
        Inputs::Uniform => T::from_low_bits(rng.next_u64()),
        // Mostly one limit, so that many sums exceed 32 bits.
        Inputs::Wide => T::nearest(if rng.random_range(0..4) == 0 { f64::MIN } else { f64::MAX }),
    }
}

fn double(words: &[u32]) -> f64 {
    f64::from_bits(bits(words))
}

impl TestNumber for Complex64 {
    fn factor(inputs: Inputs, rng: &mut StdRng) -> Self {
        Self::new(float(inputs, rng), float(inputs, rng))
    }
    fn to_words(self) -> Vec<u32> {
        [self.re, self.im].into_iter().flat_map(|part| words(part.to_bits(), 64)).collect()
    }
    fn from_words(words: &[u32]) -> Self {
        Self::new(double(&words[..2]), double(&words[2..]))
    }
    fn value(self) -> Complex64 {
        self
    }
}

impl TestNumber for GaussComplex {
    // The imaginary part is a difference of three sums: of (re + im) (re' + im'), with the product
    // of the magnitudes, and of re re' and im im', which together have at most that.
    const ADDENDS: f64 = 2.0;
    fn factor(inputs: Inputs, rng: &mut StdRng) -> Self {
        Self { t0: float(inputs, rng), t1: float(inputs, rng), t2: float(inputs, rng) }
    }
    fn to_words(self) -> Vec<u32> {
        [self.t0, self.t1, self.t2].into_iter().flat_map(|part| words(part.to_bits(), 64)).collect()
    }
    fn from_words(words: &[u32]) -> Self {
        Self { t0: double(&words[..2]), t1: double(&words[2..4]), t2: double(&words[4..]) }
    }
    fn value(self) -> Complex64 {
        self.into()
    }
    fn magnitude(self) -> f64 {
        self.t0.abs() + self.t1.abs() + self.t2.abs()
    }
}
