//! NumPy's element types, and their properties that the commands use.

#[cfg(feature = "operations")]
mod products;

#[cfg(feature = "operations")]
pub use products::{CheckedElement, PRODUCTS, Tolerance};

use clap::ValueEnum;
use half::{bf16, f16};
use moye::Element;
use moye::number::{F8E4M3, F8E5M2, Scalar};
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
