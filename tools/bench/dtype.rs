//! NumPy's element types, and their properties that the commands use.

use anyhow::{Result, bail};
use clap::ValueEnum;
use half::{bf16, f16};
use moye::number::{F8E4M3, F8E5M2, Scalar};
use moye::{Buffer, Element, Factor, Matmul, Operand, Output, Precision};
use std::fmt;

/// An element type of a .npy file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Dtype {
    /// float16
    F16,
    /// bfloat16
    Bf16,
    /// float32
    F32,
    /// float64
    F64,
    /// int8, with int32 products
    I8,
    /// float8_e4m3fn, with bfloat16 products: on GPUs of sm_90 (Hopper) only
    E4m3,
    /// float8_e5m2, with bfloat16 products: on GPUs of sm_90 (Hopper) only
    E5m2,
    /// int32: for results of products, and indices.
    #[value(skip)]
    I32,
    /// int64: for indices only.
    #[value(skip)]
    I64,
    /// uint8: for bytes whose bits an operation interprets.
    #[value(skip)]
    U8,
}

/// The operand types of products, for messages.
pub const PRODUCTS: &str = "float16, bfloat16, float32, float64, int8, float8_e4m3fn or float8_e5m2";

impl Dtype {
    /// NumPy's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::I8 => "int8",
            Self::E4m3 => "float8_e4m3fn",
            Self::E5m2 => "float8_e5m2",
            Self::I32 => "int32",
            Self::I64 => "int64",
            Self::U8 => "uint8",
        }
    }

    /// NumPy's type descriptor; for bfloat16 and 8-bit floats, that of `ml_dtypes`.
    pub const fn descriptor(self) -> &'static str {
        match self {
            Self::F16 => "<f2",
            Self::Bf16 => "<V2",
            Self::F32 => "<f4",
            Self::F64 => "<f8",
            Self::I8 => "|i1",
            Self::E4m3 => "<V1",
            Self::E5m2 => "<f1",
            Self::I32 => "<i4",
            Self::I64 => "<i8",
            Self::U8 => "|u1",
        }
    }

    /// Whether the elements are integers.
    pub const fn is_whole(self) -> bool {
        matches!(self, Self::I8 | Self::U8 | Self::I32 | Self::I64)
    }

    /// Whether the elements are 8-bit floats, whose products have scales.
    pub const fn is_float8(self) -> bool {
        matches!(self, Self::E4m3 | Self::E5m2)
    }

    /// A factor of products of this type, rounded to the kernels' type: float32 for floats of up to
    /// 32 bits.
    pub fn factor(self, value: f64) -> f64 {
        match self {
            Self::F64 | Self::I8 | Self::U8 | Self::I32 | Self::I64 => value,
            _ => f64::from(value as f32),
        }
    }

    /// The NumPy call that converts an array to this type, with `ml_dtypes` for the types that
    /// NumPy lacks.
    pub fn as_type(self) -> String {
        if self.is_of_ml_dtypes() {
            format!(".astype(ml_dtypes.{self})")
        } else {
            format!(".astype('{self}')")
        }
    }

    /// The expression for an array `a` of this type after `numpy.load`, which drops the types of
    /// `ml_dtypes`.
    pub fn viewed(self) -> String {
        if self.is_of_ml_dtypes() { format!("a.view(ml_dtypes.{self})") } else { "a".to_owned() }
    }

    /// Whether NumPy needs `ml_dtypes` for the type.
    pub const fn is_of_ml_dtypes(self) -> bool {
        matches!(self, Self::Bf16 | Self::E4m3 | Self::E5m2)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An element type of .npy files.
pub trait InFile: Element {
    /// Its NumPy type.
    const DTYPE: Dtype;

    /// The element's bits, in the low bits of the result.
    fn stored_bits(self) -> u64;
}

/// An element type of .npy files whose values are exact in float64.
pub trait Stored: InFile + Scalar {}

impl<T: InFile + Scalar> Stored for T {}

macro_rules! stored {
    ($($t:ty: $dtype:ident),*) => { $(
        impl InFile for $t {
            const DTYPE: Dtype = Dtype::$dtype;

            fn stored_bits(self) -> u64 {
                self.low_bits()
            }
        }
    )* };
}
stored!(f16: F16, bf16: Bf16, f32: F32, f64: F64, i8: I8, i32: I32, F8E4M3: E4m3, F8E5M2: E5m2);

impl InFile for u8 {
    const DTYPE: Dtype = Dtype::U8;

    fn stored_bits(self) -> u64 {
        self.into()
    }
}

impl InFile for i64 {
    const DTYPE: Dtype = Dtype::I64;

    fn stored_bits(self) -> u64 {
        self.cast_unsigned()
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
pub trait Member: Operand + Stored {
    /// A random element: from `[-1, 1)`, or any integer.
    fn draw(random: &mut fastrand::Rng) -> Self;

    /// `alpha` or `beta`, called `name` in messages; an error if its type cannot represent it.
    fn factor(name: &'static str, value: f64) -> Result<Self::Scalar> {
        Ok(<Self::Scalar as Factor>::checked(name, value, Self::DTYPE.name())?)
    }

    /// Sets this precision on the product.
    fn precise<'a, U: Output<Self>>(
        product: Matmul<'a, Self, U>,
        precision: Precision,
    ) -> Result<Matmul<'a, Self, U>> {
        match precision {
            Precision::Full => Ok(product),
            Precision::Tf32 => {
                bail!("--tf32 is for float32, and these matrices are {}", Self::DTYPE)
            }
            Precision::F16Accumulators => {
                bail!("--f16-accumulators is for float16, and these matrices are {}", Self::DTYPE)
            }
        }
    }

    /// Sets scales of A's rows and B's columns on the product.
    fn scaled<'a, U: Output<Self>>(
        product: Matmul<'a, Self, U>,
        scales: [Option<&'a Buffer<f32>>; 2],
    ) -> Result<Matmul<'a, Self, U>> {
        if scales.iter().any(Option::is_some) {
            bail!("--scale-a and --scale-b are for 8-bit floats, and these matrices are {}", Self::DTYPE);
        }
        Ok(product)
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

macro_rules! floats {
    ($($t:ty $(, $own:item)*;)*) => { $(
        impl Member for $t {
            fn draw(random: &mut fastrand::Rng) -> Self {
                Self::nearest(f64::from(2.0 * random.f32() - 1.0))
            }
            $($own)*
        }
    )* };
}
floats! {
    f16, fn precise<'a, U: Output<Self>>(product: Matmul<'a, Self, U>, precision: Precision) -> Result<Matmul<'a, Self, U>> {
        Ok(match precision {
            Precision::Full => product,
            Precision::F16Accumulators => product.f16_accumulators(),
            Precision::Tf32 => bail!("--tf32 is for float32, and these matrices are float16"),
        })
    };
    bf16;
    f32, fn precise<'a, U: Output<Self>>(product: Matmul<'a, Self, U>, precision: Precision) -> Result<Matmul<'a, Self, U>> {
        Ok(match precision {
            Precision::Full => product,
            Precision::Tf32 => product.tf32(),
            Precision::F16Accumulators => bail!("--f16-accumulators is for float16, and these matrices are float32"),
        })
    };
    f64;
}

macro_rules! floats_of_8_bits {
    ($($t:ty),*) => { floats! { $(
        $t,
        fn scaled<'a, U: Output<Self>>(
            product: Matmul<'a, Self, U>,
            [a, b]: [Option<&'a Buffer<f32>>; 2],
        ) -> Result<Matmul<'a, Self, U>> {
            let product = match a {
                Some(a) => product.scale_a(a),
                None => product,
            };
            Ok(match b {
                Some(b) => product.scale_b(b),
                None => product,
            })
        };
    )* } };
}
floats_of_8_bits!(F8E4M3, F8E5M2);

impl Member for i8 {
    fn draw(random: &mut fastrand::Rng) -> Self {
        random.i8(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_that_their_type_cannot_represent_are_refused_with_the_value_and_the_range() {
        fn refused<T: Member>(values: &[f64], takes: &str) {
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

    #[test]
    fn draws_are_of_the_interval() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut far = 0.0f64;
        for _ in 0..1000 {
            let number = f16::draw(&mut random).to_f64();
            assert!((-1.0..=1.0).contains(&number), "{number}");
            far = far.max(number.abs());
        }
        assert!(far > 0.95, "{far}");
    }
}
