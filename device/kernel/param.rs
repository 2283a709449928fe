//! The types that may be passed to a kernel.

use crate::memory::{Element, Global, GlobalMut};
use half::{bf16, f16};

/// A type that a kernel may take as a parameter.
///
/// # Safety
/// The type is passed by value, has the size and alignment (at most 8 bytes) of the PTX parameter,
/// and has the same meaning on host and device.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed to a kernel",
    label = "not a kernel parameter type",
    note = "a kernel takes integers (i8..i64, u8..u64, usize, isize), bool, floats (f32, f64), half::f16, half::bf16, pointers to global memory (Global<T> for what it reads, GlobalMut<T> for what it writes), and tensor maps (TensorMap)",
    note = "pass a slice as a pointer and a length, and a custom struct with `#[derive(KernelParam)]` and `#[repr(C)]`"
)]
pub unsafe trait KernelParam: Copy + Send + Sync + 'static {
    /// The kind of parameter, for messages and checks.
    const TYPE: ParamType;

    /// The value that the kernel's body sees for a parameter of type [`ParamType::Constant`] on a
    /// GPU, given the generic address of the parameter in the constant bank. `#[kernel]` generates
    /// a call of it.
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    fn at(self, _address: u64) -> Self {
        self
    }
}

/// A kernel parameter's type as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamType {
    /// A number passed by value.
    Scalar(Scalar),
    /// A pointer to global memory.
    Global {
        /// The element's name, for example `f32`.
        element: &'static str,
        /// Whether the kernel may write through it.
        written: bool,
    },
    /// A value that instructions take by the address of the parameter, aligned to 64 bytes: a
    /// `__grid_constant__` in CUDA C++.
    Constant {
        /// The name.
        name: &'static str,
        /// The size in bytes.
        size: usize,
    },
    /// Several parameters as the fields of a `repr(C)` struct.
    Struct {
        /// The name.
        name: &'static str,
        /// The size in bytes.
        size: usize,
    },
}

/// The name and size of a number type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar {
    /// `f32`, `u64`, ...
    pub name: &'static str,
    /// The size in bytes.
    pub size: usize,
}

impl core::fmt::Display for ParamType {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Scalar(s) => f.write_str(s.name),
            Self::Global { element, written: false } => write!(f, "Global<{element}>"),
            Self::Global { element, written: true } => write!(f, "GlobalMut<{element}>"),
            Self::Struct { name, .. } | Self::Constant { name, .. } => f.write_str(name),
        }
    }
}

impl ParamType {
    /// Whether it is a [`Self::Constant`].
    #[must_use]
    pub const fn is_constant(self) -> bool {
        matches!(self, Self::Constant { .. })
    }
}

macro_rules! scalar {
    ($($t:ty),*) => { $(
        // SAFETY: a number of at most 8 bytes, passed by value, identical on both sides.
        unsafe impl KernelParam for $t {
            const TYPE: ParamType = ParamType::Scalar(Scalar { name: stringify!($t), size: size_of::<$t>() });
        }
    )* };
}
scalar!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64, f16, bf16);
// A byte that is 0 or 1, which `#[kernel]` receives as a `u8`.
scalar!(bool);

// SAFETY: `repr(transparent)` over a 64-bit pointer.
unsafe impl<T: Element> KernelParam for Global<T> {
    const TYPE: ParamType = ParamType::Global { element: T::NAME, written: false };
}

// SAFETY: `repr(transparent)` over a 64-bit pointer.
unsafe impl<T: Element> KernelParam for GlobalMut<T> {
    const TYPE: ParamType = ParamType::Global { element: T::NAME, written: true };
}
