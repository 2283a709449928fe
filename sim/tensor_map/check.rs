//! The limits of tensor maps, as NVIDIA's "CUDA Driver API" lists them for
//! `cuTensorMapEncodeTiled`.

use super::{MAX_TENSOR_RANK, TensorFill, TensorMap};
use thiserror::Error;

/// The reason why a tensor map is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages tell all fields")]
pub enum TensorMapError {
    /// No or too many dimensions.
    #[error("a tensor map has 1 to 5 dimensions, not {rank}")]
    Rank { rank: usize },
    /// The tensor's address is not aligned.
    #[error("the tensor begins at {address:#x}; it must begin at a multiple of 16 bytes, and this is {} past one", address % 16)]
    Address { address: u64 },
    /// An extent of the tensor.
    #[error("the extent of dimension {dimension} of the tensor is {extent}; it must be 1 to 2^32")]
    Extent { dimension: usize, extent: u64 },
    /// A stride of the tensor.
    #[error(
        "the stride of dimension {dimension} of the tensor is {bytes} bytes; it must be a multiple of 16 ({} and {} are) below 2^40",
        bytes / 16 * 16, bytes.saturating_add(15) / 16 * 16
    )]
    Stride { dimension: usize, bytes: u64 },
    /// An extent of the box.
    #[error("the extent of dimension {dimension} of the box is {extent}; it must be 1 to 256")]
    Box { dimension: usize, extent: u32 },
    /// The rows of a box are not a multiple of 16 bytes.
    #[error("a row of the box is {extent} elements of {element} bytes, {} bytes; it must be a multiple of 16 bytes", u64::from(*extent) * element)]
    BoxRow { extent: u32, element: u64 },
    /// The rows of a box are longer than the swizzle's span.
    #[error(
        "a row of the box is {extent} elements of {element} bytes, {} bytes; the swizzle's span is {span} bytes, {} elements",
        u64::from(*extent) * element, span / element
    )]
    Swizzle { extent: u32, element: u64, span: u64 },
    /// The step between moved elements.
    #[error("the element stride of dimension {dimension} is {stride}; it must be 1 to 8")]
    ElementStride { dimension: usize, stride: u32 },
    /// Integers have no NaN.
    #[error("elements outside of the tensor cannot be NaNs, as they are integers")]
    Fill,
}

impl TensorMap {
    /// Whether the driver accepts the map.
    ///
    /// # Errors
    /// If the map violates a limit: the first, with the values.
    pub fn check(&self) -> Result<(), TensorMapError> {
        if !(1..=MAX_TENSOR_RANK).contains(&self.rank) {
            return Err(TensorMapError::Rank { rank: self.rank });
        }
        if !self.address.is_multiple_of(16) {
            return Err(TensorMapError::Address { address: self.address });
        }
        let element = self.element.bytes();
        for dimension in 0..self.rank {
            let extent = self.extents[dimension];
            if extent == 0 || extent > 1 << 32 {
                return Err(TensorMapError::Extent { dimension, extent });
            }
            let extent = self.box_extents[dimension];
            if extent == 0 || extent > 256 {
                return Err(TensorMapError::Box { dimension, extent });
            }
            let stride = self.element_strides[dimension];
            if stride == 0 || stride > 8 {
                return Err(TensorMapError::ElementStride { dimension, stride });
            }
            if dimension > 0 {
                let bytes = self.strides[dimension - 1];
                if !bytes.is_multiple_of(16) || bytes >= 1 << 40 {
                    return Err(TensorMapError::Stride { dimension, bytes });
                }
            }
        }
        let extent = self.box_extents[0];
        let row = u64::from(extent) * element;
        if !row.is_multiple_of(16) {
            return Err(TensorMapError::BoxRow { extent, element });
        }
        if let Some(span) = self.swizzle.span().filter(|&span| row > span) {
            return Err(TensorMapError::Swizzle { extent, element, span });
        }
        if self.fill == TensorFill::Nan && !self.element.is_float() {
            return Err(TensorMapError::Fill);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{TensorElement, TensorSwizzle};
    use super::*;

    fn map() -> TensorMap {
        TensorMap::new(TensorElement::Bf16, 0x100, &[64, 64, 4], &[128, 8192], &[64, 64, 1])
    }

    #[test]
    fn every_limit_is_an_error_with_its_numbers() {
        assert_eq!(map().with_swizzle(TensorSwizzle::B128).check(), Ok(()));
        let told = |change: fn(&mut TensorMap)| {
            let mut map = map();
            change(&mut map);
            map.check().unwrap_err().to_string()
        };
        for (change, words) in [
            ((|m| m.rank = 6) as fn(&mut TensorMap), "1 to 5 dimensions, not 6"),
            (|m| m.rank = 0, "not 0"),
            (|m| m.address = 0x108, "0x108; it must begin at a multiple of 16 bytes, and this is 8 past one"),
            (|m| m.extents[1] = 0, "dimension 1 of the tensor is 0"),
            (|m| m.extents[2] = (1 << 32) + 1, "dimension 2 of the tensor is 4294967297"),
            (
                |m| m.strides[1] = 8200,
                "dimension 2 of the tensor is 8200 bytes; it must be a multiple of 16 (8192 and 8208 are)",
            ),
            (|m| m.strides[0] = 1 << 40, "below 2^40"),
            (|m| m.box_extents[1] = 257, "dimension 1 of the box is 257; it must be 1 to 256"),
            (|m| m.box_extents[0] = 0, "dimension 0 of the box is 0"),
            (
                |m| m.box_extents[0] = 60,
                "60 elements of 2 bytes, 120 bytes; it must be a multiple of 16 bytes",
            ),
            (
                |m| m.swizzle = TensorSwizzle::B64,
                "64 elements of 2 bytes, 128 bytes; the swizzle's span is 64 bytes, 32 elements",
            ),
            (|m| m.element_strides[2] = 9, "dimension 2 is 9; it must be 1 to 8"),
        ] {
            let text = told(change);
            assert!(text.contains(words), "{text}");
        }
        let integers = TensorMap::new(TensorElement::U8, 0, &[64], &[], &[64]).with_fill(TensorFill::Nan);
        assert_eq!(integers.check(), Err(TensorMapError::Fill));
    }
}
