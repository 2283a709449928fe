//! The types that a kernel may keep in global or shared memory.

use half::{bf16, f16};

/// A type that device memory can hold: fixed size, no padding, valid for every bit pattern.
///
/// # Safety
/// Every bit pattern of `size_of::<Self>()` bytes is a valid value, there is no padding, the size is a power of two
/// between 1 and 16 bytes, and the type has no drop glue and no references in it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot live in device memory",
    label = "not an element type",
    note = "element types are i8..i64, u8..u64, u128, f32, f64, half::f16 and half::bf16"
)]
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The name that messages and tables print: `f32`, `bf16`, ...
    const NAME: &'static str;
}

macro_rules! element {
    ($($t:ty),*) => { $(
        // SAFETY: a plain number; all bit patterns are values.
        unsafe impl Element for $t { const NAME: &'static str = stringify!($t); }
    )* };
}
element!(i8, i16, i32, i64, u8, u16, u32, u64, u128, f32, f64, f16, bf16);
