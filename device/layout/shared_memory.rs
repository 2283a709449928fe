//! The layouts of shared memory that tensor cores and TMA read without bank conflicts.

use super::composed::ComposedLayout;
use super::error::LayoutError;
use super::fault::{Fault, LayoutErrorKind, tri};
use super::layout::Layout;
use super::make::make_col_major;
use super::text::Text;
use super::{IntTuple, Swizzle, make_row_major};

/// The mode of a tile that is contiguous in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Major {
    /// The first mode: M or N.
    Mn,
    /// The second mode: K.
    K,
}

/// The bytes of a row within which a swizzle permutes 16-byte pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SwizzleBytes {
    /// No swizzle: pieces of 16 bytes by 8 rows (CuTe's `INTER`).
    None,
    /// Rows of 32 bytes.
    B32,
    /// Rows of 64 bytes.
    B64,
    /// Rows of 128 bytes: all 32 banks.
    B128,
}

impl SwizzleBytes {
    /// The bytes of a row.
    pub const fn bytes(self) -> i64 {
        match self {
            Self::None => 16,
            Self::B32 => 32,
            Self::B64 => 64,
            Self::B128 => 128,
        }
    }

    /// The swizzle of rows of `bytes` bytes: 16 (none), 32, 64 or 128.
    pub const fn of_row(bytes: i64) -> Option<Self> {
        match bytes {
            16 => Some(Self::None),
            32 => Some(Self::B32),
            64 => Some(Self::B64),
            128 => Some(Self::B128),
            _ => None,
        }
    }

    /// The swizzle of byte addresses.
    pub const fn of_bytes(self) -> Swizzle {
        match self {
            Self::None => Swizzle::new(0, 4, 3),
            Self::B32 => Swizzle::new(1, 4, 3),
            Self::B64 => Swizzle::new(2, 4, 3),
            Self::B128 => Swizzle::new(3, 4, 3),
        }
    }
}

/// The shared-memory atom of a swizzle for elements of `bits` bits: 8 rows of
/// [`SwizzleBytes::bytes`] each, in elements. Repeat it over a tile by
/// [`ComposedLayout::tile_to_shape`]. These are CuTe's `GMMA::Layout_K_SW128_Atom` and similar
/// atoms.
///
/// ```
/// use moye_device::layout::{Major, SwizzleBytes, shared_memory_atom};
/// let atom = shared_memory_atom(Major::K, SwizzleBytes::B128, 16);
/// assert_eq!(atom.to_string(), "Sw<3,3,3> o 0 o (8,64):(64,1)");
/// let atom = shared_memory_atom(Major::Mn, SwizzleBytes::B64, 32);
/// assert_eq!(atom.to_string(), "Sw<2,2,3> o 0 o (16,8):(1,16)");
/// let atom = shared_memory_atom(Major::K, SwizzleBytes::B128, 4);
/// assert_eq!(atom.to_string(), "Sw<3,5,3> o 0 o (8,256):(256,1)");
/// ```
///
/// # Panics
/// If [`try_shared_memory_atom`] returns an error.
#[track_caller]
pub const fn shared_memory_atom(major: Major, swizzle: SwizzleBytes, bits: i64) -> ComposedLayout {
    match try_shared_memory_atom(major, swizzle, bits) {
        Ok(atom) => atom,
        Err(error) => panic!("{}", error.text()),
    }
}

/// [`shared_memory_atom()`] as a `Result`.
///
/// # Errors
/// If `bits` is not a power of two from 1 to 128.
pub const fn try_shared_memory_atom(
    major: Major,
    swizzle: SwizzleBytes,
    bits: i64,
) -> Result<ComposedLayout, LayoutError> {
    if bits < 1 || bits > 128 || !(bits as u64).is_power_of_two() {
        let mut text = Text::of_operands();
        text.str(match major {
            Major::K => "shared_memory_atom(K, a swizzle of ",
            Major::Mn => "shared_memory_atom(Mn, a swizzle of ",
        });
        text.int(swizzle.bytes());
        text.str(" bytes, ");
        text.int(bits);
        text.str(")");
        return Err(LayoutError::after(text, NOT_AN_ELEMENT));
    }
    let row = swizzle.bytes() * 8 / bits;
    let layout: Layout = match major {
        Major::K => make_row_major(IntTuple::flat(&[8, row])),
        Major::Mn => make_col_major(IntTuple::flat(&[row, 8])),
    };
    // The swizzle of bytes converted to bits, then to elements.
    let swizzle = tri!(tri!(swizzle.of_bytes().try_downcast(8)).try_upcast(bits));
    ComposedLayout::try_new(swizzle, 0, layout)
}

const NOT_AN_ELEMENT: Fault = Fault::Said {
    kind: LayoutErrorKind::Range,
    text: "the elements of a shared-memory atom have 1, 2, 4, 8, 16, 32, 64 or 128 bits",
};
