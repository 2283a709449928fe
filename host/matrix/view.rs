//! Matrices to read and to write.

use super::Shape;
use crate::Result;
use crate::device::Device;
use crate::memory::{BufferSlice, BufferSliceMut};
use moye_device::memory::Element;

/// A matrix to be read: a range of a buffer with extents and strides.
///
/// ```
/// use moye::{Device, Matrix};
/// let device = Device::sim();
/// let elements = device.upload(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let a = Matrix::row_major(&elements, 2, 3)?; // 1 2 3 / 4 5 6
/// let b = a.t(); // 3x2 over the same elements
/// assert_eq!((b.rows(), b.strides()), (3, (1, 3)));
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Matrix<'a, T: Element> {
    data: BufferSlice<'a, T>,
    shape: Shape,
}

/// A matrix to be written: a range of a buffer with extents and strides, without two elements at
/// one offset.
#[derive(Debug)]
pub struct MatrixMut<'a, T: Element> {
    data: BufferSliceMut<'a, T>,
    shape: Shape,
}

impl<'a, T: Element> Matrix<'a, T> {
    /// A matrix whose element `(i, j)` is element `i * strides.0 + j * strides.1` of `data`. A
    /// stride may be 0.
    ///
    /// # Errors
    /// [`Error::MatrixBounds`](crate::Error::MatrixBounds) if it extends past the end of `data`.
    pub fn new(
        data: impl Into<BufferSlice<'a, T>>,
        rows: usize,
        cols: usize,
        strides: (usize, usize),
    ) -> Result<Self> {
        let data = data.into();
        let shape = Shape { rows, cols, row_stride: strides.0, col_stride: strides.1 };
        shape.check_bounds(data.len())?;
        Ok(Self { data, shape })
    }

    /// A row-major matrix without padding (NumPy's and C's order).
    ///
    /// # Errors
    /// Same as [`Matrix::new`].
    pub fn row_major(data: impl Into<BufferSlice<'a, T>>, rows: usize, cols: usize) -> Result<Self> {
        Self::new(data, rows, cols, (cols, 1))
    }

    /// A column-major matrix without padding (Fortran's order).
    ///
    /// # Errors
    /// Same as [`Matrix::new`].
    pub fn col_major(data: impl Into<BufferSlice<'a, T>>, rows: usize, cols: usize) -> Result<Self> {
        Self::new(data, rows, cols, (1, rows))
    }

    /// The elements, from the matrix's first one on.
    pub fn data(&self) -> &BufferSlice<'a, T> {
        &self.data
    }
}

impl<'a, T: Element> MatrixMut<'a, T> {
    /// A matrix whose element `(i, j)` is element `i * strides.0 + j * strides.1` of `data`.
    ///
    /// # Errors
    /// [`Error::MatrixBounds`](crate::Error::MatrixBounds) if it extends past the end of `data`,
    /// [`Error::MatrixOverlap`](crate::Error::MatrixOverlap) if two elements share an offset.
    pub fn new(
        data: impl Into<BufferSliceMut<'a, T>>,
        rows: usize,
        cols: usize,
        strides: (usize, usize),
    ) -> Result<Self> {
        let data = data.into();
        let shape = Shape { rows, cols, row_stride: strides.0, col_stride: strides.1 };
        shape.check_bounds(data.len())?;
        shape.check_distinct()?;
        Ok(Self { data, shape })
    }

    /// A row-major matrix without padding (NumPy's and C's order).
    ///
    /// # Errors
    /// Same as [`MatrixMut::new`].
    pub fn row_major(data: impl Into<BufferSliceMut<'a, T>>, rows: usize, cols: usize) -> Result<Self> {
        Self::new(data, rows, cols, (cols, 1))
    }

    /// A column-major matrix without padding (Fortran's order).
    ///
    /// # Errors
    /// Same as [`MatrixMut::new`].
    pub fn col_major(data: impl Into<BufferSliceMut<'a, T>>, rows: usize, cols: usize) -> Result<Self> {
        Self::new(data, rows, cols, (1, rows))
    }

    /// The same matrix, to be read.
    pub fn as_matrix(&self) -> Matrix<'_, T> {
        Matrix { data: self.data.as_slice(), shape: self.shape }
    }

    /// The elements, from the matrix's first one on.
    pub fn data_mut(&mut self) -> &mut BufferSliceMut<'a, T> {
        &mut self.data
    }
}

macro_rules! shaped {
    ($name:ident) => {
        impl<T: Element> $name<'_, T> {
            /// The number of rows.
            pub fn rows(&self) -> usize {
                self.shape.rows
            }

            /// The number of columns.
            pub fn cols(&self) -> usize {
                self.shape.cols
            }

            /// The distances in elements between two rows and between two columns.
            pub fn strides(&self) -> (usize, usize) {
                (self.shape.row_stride, self.shape.col_stride)
            }

            /// The transposed matrix over the same elements, without a copy.
            #[must_use]
            pub fn t(self) -> Self {
                Self { shape: self.shape.t(), ..self }
            }

            /// The device that owns the elements.
            pub fn device(&self) -> &Device {
                self.data.device()
            }

            /// Its extents and strides.
            pub fn shape(&self) -> Shape {
                self.shape
            }
        }
    };
}
shaped!(Matrix);
shaped!(MatrixMut);
