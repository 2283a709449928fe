//! Queries, keys, values and results: tensors (batch, head, token, column) with strides.

use crate::kernels::Strides;
use moye_device::memory::Element;
use moye_runtime::{BufferSlice, BufferSliceMut, Error, Result};

/// The operation's name in errors.
pub(super) const OPERATION: &str = "attention";

/// The largest extent: positions and their differences are i32 in the kernels.
pub(super) const MAX_EXTENT: usize = i32::MAX as usize / 2;

/// The error for a `value` above [`MAX_EXTENT`].
pub(super) fn too_large(what: &'static str, value: usize) -> Error {
    Error::MatrixTooLarge { operation: OPERATION, what, value, limit: MAX_EXTENT as u64 }
}

/// The elements that a buffer needs for these extents, each at most [`MAX_EXTENT`], and strides.
pub(super) fn elements_needed(extents: [usize; 4], strides: [usize; 4]) -> u128 {
    if extents.contains(&0) {
        return 0;
    }
    let last = |(extent, stride)| (extent as u128 - 1) * stride as u128;
    1 + extents.into_iter().zip(strides).map(last).sum::<u128>()
}

/// The address of the first element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// The extents: batch, head, token, column.
    pub extents: [usize; 4],
    /// The strides between batches, heads and tokens, in elements; columns are contiguous.
    pub strides: [usize; 3],
}

impl Shape {
    /// Checks the shape against a buffer of `len` elements.
    fn new(extents: [usize; 4], strides: [usize; 3], len: usize) -> Result<Self> {
        if let Some(extent) = extents.into_iter().find(|&extent| extent > MAX_EXTENT) {
            return Err(too_large("an extent", extent));
        }
        let needed = elements_needed(extents, [strides[0], strides[1], strides[2], 1]);
        if needed > len as u128 {
            let detail = format!(
                "a tensor (batch, head, token, column) of {extents:?} with strides {strides:?} needs {needed} elements, and the buffer \
                 has {len}"
            );
            return Err(Error::ShapeMismatch { operation: OPERATION, detail });
        }
        Ok(Self { extents, strides })
    }

    /// In the kernels' form.
    pub fn kernel_strides(&self) -> Strides {
        let [batch, head, row] = self.strides.map(|stride| stride as i64);
        Strides { batch, row, head }
    }

    /// Whether no two elements share memory: in the order of strides, each stride exceeds the
    /// extent of all smaller ones.
    fn is_injective(&self) -> bool {
        if self.extents.contains(&0) {
            return true;
        }
        let mut modes: Vec<(usize, usize)> = self.extents[..3].iter().copied().zip(self.strides).collect();
        modes.retain(|&(extent, _)| extent > 1);
        modes.sort_by_key(|&(_, stride)| stride);
        let mut reach = self.extents[3];
        modes.into_iter().all(|(extent, stride)| {
            let above = stride >= reach;
            reach += (extent - 1) * stride;
            above
        })
    }
}

macro_rules! constructors {
    ($slice:ident) => {
        /// A contiguous tensor (batch, head, token, column), PyTorch's order.
        ///
        /// # Errors
        /// [`Error::ShapeMismatch`] if the buffer is too short, or [`Error::MatrixTooLarge`].
        pub fn head_first(elements: impl Into<$slice<'a, T>>, extents: [usize; 4]) -> Result<Self> {
            let [_, heads, tokens, columns] = extents;
            // Extents whose product overflows are refused by `strided`.
            let head = tokens.saturating_mul(columns);
            Self::strided(elements, extents, [head.saturating_mul(heads), head, columns])
        }

        /// A contiguous tensor (batch, token, head, column), given as
        /// `[batch, token, head, column]`.
        ///
        /// # Errors
        /// Same as [`head_first`](Self::head_first).
        pub fn token_first(
            elements: impl Into<$slice<'a, T>>,
            [batches, tokens, heads, columns]: [usize; 4],
        ) -> Result<Self> {
            let token = heads.saturating_mul(columns);
            let strides = [token.saturating_mul(tokens), columns, token];
            Self::strided(elements, [batches, heads, tokens, columns], strides)
        }
    };
}

/// An operand (batch, head, token, column) with contiguous columns; the other strides are multiples
/// of 16 bytes.
/// Variable-length sequences are packed along the tokens of a single batch.
///
/// ```
/// use moye::{Device, Heads};
/// let device = Device::sim();
/// // Queries, keys and values of 2 heads of 64 columns side by side in each of 10 tokens.
/// let qkv = device.upload(&vec![half::f16::ONE; 10 * 3 * 128])?;
/// let k = Heads::strided(qkv.slice(128..)?, [1, 2, 10, 64], [3840, 64, 384])?;
/// assert!(Heads::strided(qkv.slice(256..)?, [1, 2, 11, 64], [3840, 64, 384]).is_err());
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Heads<'a, T: Element> {
    pub(super) elements: BufferSlice<'a, T>,
    pub(super) shape: Shape,
}

impl<'a, T: Element> Heads<'a, T> {
    constructors!(BufferSlice);

    /// A tensor of `extents` (batch, head, token, column) with strides between batches, heads and
    /// tokens, in elements. A stride of 0 broadcasts.
    ///
    /// # Errors
    /// Same as [`head_first`](Self::head_first).
    pub fn strided(
        elements: impl Into<BufferSlice<'a, T>>,
        extents: [usize; 4],
        strides: [usize; 3],
    ) -> Result<Self> {
        let elements = elements.into();
        let shape = Shape::new(extents, strides, elements.len())?;
        Ok(Self { elements, shape })
    }
}

/// A result tensor in the layouts of [`Heads`]; no two elements share memory.
#[derive(Debug)]
pub struct HeadsMut<'a, T: Element> {
    pub(super) elements: BufferSliceMut<'a, T>,
    pub(super) shape: Shape,
}

impl<'a, T: Element> HeadsMut<'a, T> {
    constructors!(BufferSliceMut);

    /// Same as [`Heads::strided`].
    ///
    /// # Errors
    /// Same as [`Heads::strided`]; also [`Error::ShapeMismatch`] if elements may share memory.
    pub fn strided(
        elements: impl Into<BufferSliceMut<'a, T>>,
        extents: [usize; 4],
        strides: [usize; 3],
    ) -> Result<Self> {
        let elements = elements.into();
        let shape = Shape::new(extents, strides, elements.len())?;
        if !shape.is_injective() {
            let detail = format!(
                "a result (batch, head, token, column) of {extents:?} with strides {strides:?} has overlapping elements, or \
                 interleaved rows; a stride must exceed the offsets that modes with smaller strides reach"
            );
            return Err(Error::ShapeMismatch { operation: OPERATION, detail });
        }
        Ok(Self { elements, shape })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_whose_rows_share_elements_are_detected() {
        let shape = |extents, strides| Shape { extents, strides };
        assert!(shape([2, 3, 5, 64], [960, 320, 64]).is_injective());
        assert!(shape([2, 3, 5, 64], [960, 64, 192]).is_injective());
        assert!(shape([1, 1, 1, 64], [0, 0, 0]).is_injective(), "a single row");
        assert!(!shape([2, 3, 5, 64], [0, 64, 192]).is_injective(), "the same batch twice");
        assert!(!shape([1, 1, 5, 64], [0, 0, 63]).is_injective(), "rows that overlap");
    }

    #[test]
    fn extents_and_strides_beyond_memory_are_refused_without_overflow() {
        const MAX: usize = usize::MAX;
        for extents in [[MAX; 4], [0, MAX, MAX, 64], [MAX_EXTENT + 1, 0, 1, 64]] {
            assert!(matches!(Shape::new(extents, [MAX; 3], 100), Err(Error::MatrixTooLarge { .. })));
        }
        let shape = Shape::new([MAX_EXTENT, MAX_EXTENT, MAX_EXTENT, 64], [MAX; 3], 100);
        assert!(matches!(shape, Err(Error::ShapeMismatch { .. })));
        let empty = Shape::new([0, MAX_EXTENT, MAX_EXTENT, 64], [MAX; 3], 0).unwrap();
        assert!(empty.is_injective());
    }
}
