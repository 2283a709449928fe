//! Matrices over a buffer's elements, with any strides.

mod shape;
mod view;

pub(crate) use shape::Shape;
pub use view::{Matrix, MatrixMut};
