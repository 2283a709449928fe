//! The element types of products: factors and tolerances.

use super::{Dtype, Stored};
use anyhow::Result;
use moye::{Factor, Precision};

/// The operand types of products, for messages.
pub const PRODUCTS: &str = "float16, bfloat16, float32, float64, int8, float8_e4m3fn or float8_e5m2";

impl Dtype {
    /// A factor of products of this type, rounded to the kernels' type: float32 for floats of up to
    /// 32 bits.
    pub fn factor(self, value: f64) -> f64 {
        match self {
            Self::F64 | Self::I8 | Self::U8 | Self::I32 | Self::I64 => value,
            _ => f64::from(value as f32),
        }
    }
}

/// Bounds on the rounding errors of a product.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// The bound on an element of C, relative to the element.
    pub result: f64,
    /// The bound on an accumulator, relative to its largest intermediate value.
    pub sums: f64,
}

/// An element type of products.
pub trait CheckedElement: moye_bench::Member + Stored {
    /// `alpha` or `beta`, called `name` in messages; an error if its type cannot represent it.
    fn factor(name: &'static str, value: f64) -> Result<Self::Scalar> {
        Ok(<Self::Scalar as Factor>::checked(name, value, Self::DTYPE.name())?)
    }

    /// An error bound for products of random matrices with this precision and results of type
    /// `result`.
    fn tolerance(precision: Precision, result: Dtype) -> Tolerance {
        let sums = match (precision, Self::DTYPE) {
            (Precision::F16Accumulators, _) => 1e-2,
            (Precision::Tf32, _) => 2e-3,
            (_, Dtype::F16 | Dtype::Bf16 | Dtype::F32) => 1e-5,
            (_, Dtype::F64) => 1e-13,
            // Tensor cores keep about 14 bits of an accumulator, and truncate at each step.
            (_, Dtype::E4m3 | Dtype::E5m2) => 5e-3,
            (_, Dtype::I8 | Dtype::U8 | Dtype::I32 | Dtype::I64) => 0.0,
        };
        let rounding = match result {
            Dtype::F16 => 1e-3,
            Dtype::Bf16 => 5e-3,
            _ => 0.0,
        };
        Tolerance { result: f64::max(sums, rounding), sums }
    }
}

impl<T: moye_bench::Member + Stored> CheckedElement for T {}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};
    use moye::number::{F8E4M3, F8E5M2};

    #[test]
    fn factors_that_their_type_cannot_represent_are_refused_with_the_value_and_the_range() {
        fn refused<T: CheckedElement>(values: &[f64], takes: &str) {
            for &value in values {
                let said = T::factor("beta", value).map(|_| ()).unwrap_err().to_string();
                let start = format!("beta is {value:?}, and products of {} take {takes}", T::DTYPE);
                assert!(said.starts_with(&start) && said.contains("; "), "{said}");
            }
        }
        assert_eq!(i8::factor("alpha", -3.0).unwrap(), -3);
        refused::<i8>(&[0.5, 1e10, f64::NAN, f64::INFINITY], "a whole number of 32 bits");
        let float = "a float of 32 bits, which is 0 or from 1.4e-45 to 3.4e38 in magnitude";
        refused::<f16>(&[1e39, -1e39, 1e-50], float);
        refused::<bf16>(&[1e39, 1e-50], float);
        refused::<f32>(&[1e39, 1e-50], float);
        refused::<F8E4M3>(&[1e39, 1e-50], float);
        refused::<F8E5M2>(&[1e39, 1e-50], float);
        assert_eq!(f16::factor("alpha", 0.5).unwrap(), 0.5);
        assert_eq!(f64::factor("alpha", 1e300).unwrap(), 1e300);
        assert_eq!(f32::factor("alpha", f64::INFINITY).unwrap(), f32::INFINITY, "there is one");
    }
}
