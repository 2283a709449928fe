//! Elementwise operations: broadcasting of shapes, and the launches of `map` for arrays.

use crate::array::{Array, ArrayType};
use crate::{Error, Result};
use moye_device::algorithm::{MapLaunch, MapModes, MapOperand};

/// The shape to which operands are broadcast, as in NumPy: modes are aligned at the last one, and
/// their extents must be equal or 1.
///
/// # Errors
/// [`Error::ShapeMismatch`] with the two shapes that differ.
pub fn broadcast_shape(operation: &'static str, operands: &[&ArrayType]) -> Result<Vec<usize>> {
    let mut shape: Vec<usize> = Vec::new();
    for operand in operands {
        let with = shape.clone();
        let missing = operand.shape.len().saturating_sub(shape.len());
        shape.splice(0..0, std::iter::repeat_n(1, missing));
        for (extent, &own) in shape.iter_mut().rev().zip(operand.shape.iter().rev()) {
            *extent = match (*extent, own) {
                (extent, own) if extent == own || own == 1 => extent,
                (1, own) => own,
                _ => {
                    let detail = format!("shape {:?} is not broadcast with {with:?}", operand.shape);
                    return Err(Error::ShapeMismatch { operation, detail });
                }
            };
        }
    }
    Ok(shape)
}

impl Array {
    /// The strides of the array broadcast to a shape: 0 along modes that are missing or have extent
    /// 1.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] if it cannot be broadcast to the shape.
    pub fn strides_as(&self, operation: &'static str, shape: &[usize]) -> Result<Vec<i64>> {
        let missing = shape.len().checked_sub(self.shape.len());
        let strides = missing.and_then(|missing| {
            let own = self.shape.iter().zip(&self.strides).zip(&shape[missing..]);
            let own = own.map(|((&extent, &stride), &to)| match extent {
                _ if extent == to => Some(stride),
                1 => Some(0),
                _ => None,
            });
            std::iter::repeat_n(Some(0), missing).chain(own).collect()
        });
        strides.ok_or_else(|| {
            let detail = format!("shape {:?} is not broadcast to {shape:?}", self.shape);
            Error::ShapeMismatch { operation, detail }
        })
    }
}

/// The launches of a kernel with [`map`](moye_device::algorithm::map()) that compute all elements
/// of `out` from inputs that are broadcast to its shape; an omitted input has address 0.
///
/// # Errors
/// [`Error::ShapeMismatch`] if an input cannot be broadcast to the shape of `out`, and
/// [`Error::Unsupported`] if elements of `out` share an offset.
pub fn map_launches<const N: usize>(
    operation: &'static str,
    inputs: [Option<&Array>; N],
    out: &Array,
) -> Result<Vec<MapLaunch<N>>> {
    out.check_distinct(operation)?;
    let none = vec![0; out.shape.len()];
    let mut strides = Vec::with_capacity(N);
    for input in inputs {
        strides.push(input.map_or(Ok(none.clone()), |input| input.strides_as(operation, &out.shape))?);
    }
    let operand = |k: usize| MapOperand {
        address: inputs[k].map_or(0, |input| input.address),
        bytes: inputs[k].map_or(1, |input| input.dtype.bytes()),
        strides: &strides[k],
    };
    let to = MapOperand { address: out.address, bytes: out.dtype.bytes(), strides: &out.strides };
    Ok(MapModes::launches(&out.shape, std::array::from_fn(operand), to))
}

/// The grid of a launch.
pub fn map_grid<const N: usize>(launch: &MapLaunch<N>) -> crate::Grid {
    crate::Grid::new(launch.modes.blocks(), moye_device::algorithm::MAP_THREADS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Dtype;

    fn ty(shape: &[usize]) -> ArrayType {
        ArrayType { dtype: Dtype::F32, shape: shape.to_vec() }
    }

    #[test]
    fn shapes_are_broadcast_as_in_numpy() {
        let shape = |shapes: &[&[usize]]| {
            let types: Vec<_> = shapes.iter().map(|shape| ty(shape)).collect();
            broadcast_shape("test", &types.iter().collect::<Vec<_>>())
        };
        assert_eq!(shape(&[&[3, 1], &[2, 1, 4], &[]]).unwrap(), [2, 3, 4]);
        assert_eq!(shape(&[&[0, 3], &[1, 3]]).unwrap(), [0, 3]);
        let error = shape(&[&[3, 2], &[3]]).unwrap_err().to_string();
        assert!(error.contains("shape [3] is not broadcast with [3, 2]"), "{error}");
        let row = Array::row_major(&ty(&[1, 4]), 0);
        assert_eq!(row.strides_as("test", &[2, 3, 4]).unwrap(), [0, 0, 1]);
        assert!(row.strides_as("test", &[4]).is_err());
    }
}
