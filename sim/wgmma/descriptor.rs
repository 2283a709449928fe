//! Matrix descriptors: the location of a matrix in shared memory for `wgmma`.
//!
//! Shared memory is counted in pieces of 16 bytes. A matrix consists of core matrices, 8 rows of
//! one piece each. *K-major*, a piece holds 16 bytes along k of one row m (or n), and an
//! instruction reads two pieces of each row. *MN-major*, a piece holds 8 elements of 2 bytes along
//! m, and an instruction reads 16 rows along k. With a swizzle of `W` pieces per row (1 without,
//! then 2, 4, 8), the piece is at
//!
//! ```text
//! K-major,  swizzled:   (m % 8) W + (m / 8) SBO + piece of k            (PTX ISA, "Strides"; CuTe's canonical layouts)
//! K-major,  plain:      (m % 8)   + (m / 8) SBO + (piece of k) LBO
//! MN-major, swizzled:   p % W + (p / W) LBO + (k % 8) W + (k / 8) SBO   where p = m / 8
//! MN-major, plain:      p SBO + k % 8 + (k / 8) LBO
//! ```
//!
//! from the start address on; then the swizzle permutes bits 4 to 6 of the address:
//! [`TensorSwizzle`].

use crate::tensor_map::TensorSwizzle;
use std::fmt;

/// The swizzle of a matrix, with the descriptor's values, which differ from those of tensor maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they say what they are")]
#[repr(u8)]
pub enum DescriptorSwizzle {
    None = 0,
    B128 = 1,
    B64 = 2,
    B32 = 3,
}

impl DescriptorSwizzle {
    /// Pieces of 16 bytes per row.
    pub const fn pieces(self) -> u32 {
        match self {
            Self::None => 1,
            Self::B32 => 2,
            Self::B64 => 4,
            Self::B128 => 8,
        }
    }

    /// The permutation of pieces.
    pub const fn of_addresses(self) -> TensorSwizzle {
        match self {
            Self::None => TensorSwizzle::None,
            Self::B32 => TensorSwizzle::B32,
            Self::B64 => TensorSwizzle::B64,
            Self::B128 => TensorSwizzle::B128,
        }
    }
}

/// A decoded matrix descriptor. Offsets are in bytes and multiples of 16.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MatrixDescriptor {
    /// The shared address of the first element.
    pub start: u32,
    /// The leading dimension's byte offset, LBO.
    pub leading: u32,
    /// The stride dimension's byte offset, SBO.
    pub stride: u32,
    /// The row of the swizzle's 8 at which the matrix starts, if its start is not aligned to the
    /// size of the 8 rows.
    pub base_offset: u32,
    /// The swizzle.
    pub swizzle: DescriptorSwizzle,
}

impl MatrixDescriptor {
    /// The descriptor with these bits: 14 each for the start, LBO and SBO in pieces at bits 0, 16
    /// and 32, 3 for the base offset at 49, 2 for the swizzle at 62.
    pub const fn of(bits: u64) -> Self {
        let swizzle = match bits >> 62 {
            0 => DescriptorSwizzle::None,
            1 => DescriptorSwizzle::B128,
            2 => DescriptorSwizzle::B64,
            _ => DescriptorSwizzle::B32,
        };
        Self {
            start: ((bits as u32) & 0x3FFF) << 4,
            leading: ((bits >> 16) as u32 & 0x3FFF) << 4,
            stride: ((bits >> 32) as u32 & 0x3FFF) << 4,
            base_offset: (bits >> 49) as u32 & 7,
            swizzle,
        }
    }

    /// The shared address of the 16 bytes that hold an element of a K-major matrix: row `row`,
    /// piece `piece` of k.
    pub const fn k_major(&self, row: u32, piece: u32) -> u32 {
        let (core, row) = (row / 8, row % 8);
        let across = match self.swizzle {
            DescriptorSwizzle::None => piece * self.leading,
            _ => piece * 16,
        };
        self.swizzled(row * 16 * self.swizzle.pieces() + core * self.stride + across)
    }

    /// The shared address of the 16 bytes that hold an element of an MN-major matrix: piece `piece`
    /// of m (or n), row `k`.
    pub const fn mn_major(&self, piece: u32, k: u32) -> u32 {
        let width = self.swizzle.pieces();
        let (core, row) = (k / 8, k % 8);
        self.swizzled(match self.swizzle {
            DescriptorSwizzle::None => piece * self.stride + row * 16 + core * self.leading,
            _ => piece % width * 16 + piece / width * self.leading + row * 16 * width + core * self.stride,
        })
    }

    const fn swizzled(&self, offset: u32) -> u32 {
        // Descriptor addresses have 18 bits.
        self.swizzle.of_addresses().apply((self.start + offset) & 0x3_FFFF)
    }
}

impl fmt::Debug for MatrixDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, leading, stride, base_offset, swizzle } = self;
        write!(
            f,
            "start {start:#x}, leading {leading}, stride {stride} bytes, swizzle {swizzle:?}, base offset {base_offset}"
        )
    }
}
