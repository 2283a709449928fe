//! The tensor map of a tile, on the host.

use super::tile::{MAX_RANK, TmaTile};
use crate::layout::Layout;
use crate::memory::Element;
use crate::number::{F8E4M3, F8E5M2, Tf32};
use core::fmt;
use half::{bf16, f16};
use moye_sim::{TensorElement, TensorMap, TensorMapError, TensorSwizzle};

/// The reason why a tensor has no map for a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TmaMapError {
    /// If the tensor and the tile have different numbers of modes.
    Rank {
        /// The modes of the tensor.
        tensor: usize,
        /// The modes of the tile.
        tile: usize,
    },
    /// The element's size differs from the tile's.
    Element {
        /// The bits of the element.
        element: i64,
        /// The bits of the tile's elements.
        tile: i64,
    },
    /// The mode that is contiguous in the tile is not contiguous in the tensor, or a mode nests.
    Contiguous {
        /// The mode.
        mode: usize,
        /// Its stride in the tensor.
        stride: i64,
    },
    /// A mode of the tensor is not one extent with one stride.
    Nested {
        /// The mode.
        mode: usize,
    },
    /// A mode of the tensor has a negative stride.
    Descending {
        /// The mode.
        mode: usize,
        /// Its stride in the tensor, below 0.
        stride: i64,
    },
    /// The tensor's layout maps to coordinates, not to elements in memory.
    Coordinates,
    /// A limit of tensor maps.
    Limit(TensorMapError),
}

impl fmt::Display for TmaMapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank { tensor, tile } => {
                write!(f, "a tensor of {tensor} modes, and a tile of {tile}: they must be as many")
            }
            Self::Element { element, tile } => {
                write!(f, "elements of {element} bits, and a tile of elements of {tile} bits")
            }
            Self::Contiguous { mode, stride } => write!(
                f,
                "mode {mode} is contiguous in the tile and has the stride {stride} in the tensor, where it must be 1: TMA does \
                 not transpose"
            ),
            Self::Nested { mode } => {
                write!(f, "mode {mode} of the tensor nests; a dimension has one extent and one stride")
            }
            Self::Descending { mode, stride } => write!(
                f,
                "mode {mode} of the tensor has the stride {stride}; TMA takes none below 0: begin at the mode's last element with \
                 the stride {}, and count its coordinates from there",
                stride.unsigned_abs()
            ),
            Self::Coordinates => f.write_str(
                "the tensor's strides are along basis vectors; give the layout of its elements in memory, with strides that are \
                 numbers of elements",
            ),
            Self::Limit(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for TmaMapError {}

impl From<TensorMapError> for TmaMapError {
    fn from(limit: TensorMapError) -> Self {
        Self::Limit(limit)
    }
}

/// An element type and its type in tensor maps. Types without one are moved as bits.
pub trait TmaElement: Element {
    /// The type in tensor maps.
    const ELEMENT: TensorElement;
}

macro_rules! elements {
    ($($t:ty = $element:ident),*) => { $(
        impl TmaElement for $t {
            const ELEMENT: TensorElement = TensorElement::$element;
        }
    )* };
}
elements! {
    u8 = U8, i8 = U8, F8E4M3 = U8, F8E5M2 = U8, u16 = U16, i16 = U16, f16 = F16, bf16 = Bf16, u32 = U32, i32 = I32,
    f32 = F32, Tf32 = F32, u64 = U64, i64 = I64, f64 = F64
}

impl TmaTile {
    /// The tensor map that moves the tile to and from a tensor at `address`, whose layout is in
    /// elements and has the tile's modes. Further settings (the fill value out of bounds, L2) are
    /// fields of the map.
    ///
    /// # Errors
    /// If TMA does not support the tensor; the error has the values.
    pub fn tensor_map(
        &self,
        element: TensorElement,
        address: u64,
        tensor: &Layout,
    ) -> Result<TensorMap, TmaMapError> {
        if tensor.rank() != self.rank {
            return Err(TmaMapError::Rank { tensor: tensor.rank(), tile: self.rank });
        }
        if tensor.is_coordinate() {
            return Err(TmaMapError::Coordinates);
        }
        let bits = 8 * element.bytes() as i64;
        if bits != self.bits {
            return Err(TmaMapError::Element { element: bits, tile: self.bits });
        }
        let mut extents = [1; MAX_RANK];
        let mut strides = [0; MAX_RANK];
        for (dimension, &mode) in self.modes[..self.rank].iter().enumerate() {
            let layout = tensor.mode(mode).flatten();
            if layout.leaves() != 1 {
                return Err(TmaMapError::Nested { mode });
            }
            let stride = if layout.size() > 1 { layout.at(1) } else { 1 };
            if stride < 0 {
                return Err(TmaMapError::Descending { mode, stride });
            }
            if dimension == 0 && stride != 1 {
                return Err(TmaMapError::Contiguous { mode, stride });
            }
            extents[dimension] = layout.size() as u64;
            // A mode of one element may have any stride that is a multiple of 16 bytes. A stride
            // past 64 bits is past the map's limit.
            strides[dimension] =
                if layout.size() > 1 { stride.unsigned_abs().saturating_mul(element.bytes()) } else { 16 };
        }
        let swizzle = [TensorSwizzle::None, TensorSwizzle::B32, TensorSwizzle::B64, TensorSwizzle::B128];
        let map = TensorMap::new(
            element,
            address,
            &extents[..self.rank],
            &strides[1..self.rank],
            &self.box_extents[..self.rank],
        )
        .with_swizzle(swizzle[self.swizzle as usize]);
        map.check().map_err(TmaMapError::Limit)?;
        Ok(map)
    }
}
