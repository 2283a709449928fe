//! Kinds of products, and majors of operands.

use clap::ValueEnum;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// An element type with a precision of the accumulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// float32 by fused multiply-adds
    F32,
    /// float32 on tensor cores in tf32, which has 10 fraction bits
    Tf32,
    /// float16 with float32 accumulators
    F16,
    /// float16 with float16 accumulators
    F16Accumulators,
    /// bfloat16 with float32 accumulators
    Bf16,
    /// float64
    F64,
    /// int8 with int32 accumulators
    I8,
    /// float8_e4m3fn to bfloat16, with a scale for each operand and the tensor cores' accumulators,
    /// in cuBLASLt too (FAST_ACCUM)
    E4m3,
}

impl Kind {
    /// The name on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::F16 => "f16",
            Self::F16Accumulators => "f16-accumulators",
            Self::Bf16 => "bf16",
            Self::F64 => "f64",
            Self::I8 => "i8",
            Self::E4m3 => "e4m3",
        }
    }

    /// The unit for 10^12 operations per second.
    pub const fn unit(self) -> &'static str {
        if matches!(self, Self::I8) { "TOP/s" } else { "TFLOP/s" }
    }

    /// A relative error bound for products of random values: the rounding of the result or, if
    /// larger, of the accumulators. That is a random walk of K roundings in f32, or the truncation
    /// of tensor cores at each step, which accumulates (1.2e-4 for f16 was observed at K =
    /// 100,003). For 8-bit floats tensor cores keep about 14 bits of an accumulator: nearly 2 %
    /// were reported at K = 4096 (DeepSeek-V3 Technical Report, arXiv:2412.19437, section 3.3.2)
    /// for single elements.
    pub fn tolerance(self, k: usize) -> f64 {
        match self {
            Self::F32 => 1e-5 + 5e-8 * (k as f64).sqrt(),
            Self::Tf32 => 2e-3 + 4e-9 * k as f64,
            Self::F16 => 1e-3 + 4e-9 * k as f64,
            Self::F16Accumulators => 1e-3 + 5e-4 * (k as f64).sqrt(),
            Self::Bf16 => 5e-3 + 4e-9 * k as f64,
            Self::F64 => 1e-13 + 1e-16 * (k as f64).sqrt(),
            Self::I8 => 0.0,
            // Tensor cores truncate the accumulators at each step of 32: an H200 had an error of
            // 0.065 at 8192, 2^-12 for each step.
            Self::E4m3 => 5e-3 + 2f64.powi(-11) * (k as f64 / 32.0),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The majors of A and B, as in BLAS: whether each is transposed; otherwise it is column-major. C
/// is column-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Majors {
    /// Whether A is K-contiguous; otherwise it is M-contiguous.
    pub a: bool,
    /// Whether B is N-contiguous; otherwise it is K-contiguous.
    pub b: bool,
}

impl Majors {
    /// K is contiguous in both operands.
    pub const TN: Self = Self { a: true, b: false };
    /// M of A and N of B are contiguous.
    pub const NT: Self = Self { a: false, b: true };
    /// M of A and K of B are contiguous.
    pub const NN: Self = Self { a: false, b: false };
    /// K of A and N of B are contiguous.
    pub const TT: Self = Self { a: true, b: true };
    /// All pairs.
    pub const ALL: [Self; 4] = [Self::TN, Self::NT, Self::NN, Self::TT];
}

impl fmt::Display for Majors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |transposed| if transposed { 't' } else { 'n' };
        write!(f, "{}{}", letter(self.a), letter(self.b))
    }
}

impl FromStr for Majors {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|majors| majors.to_string() == text).ok_or_else(|| {
            format!("`{text}` is not a pair of majors: expected tn, nt, nn or tt (t: K of A, N of B is contiguous)")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for majors in Majors::ALL {
            assert_eq!(majors.to_string().parse(), Ok(majors));
        }
        assert!("TN".parse::<Majors>().unwrap_err().contains("tn, nt, nn or tt"));
        for kind in Kind::value_variants() {
            assert_eq!(Kind::from_str(kind.name(), false), Ok(*kind), "clap's name is ours");
        }
    }
}
