//! NumPy files: headers are read as NumPy reads them, and whole files are written.
//!
//! - `literal`: Python literals, the language of the header
//! - `descriptor`: `descr`, the type of the elements
//! - `header`: the rest: version, keywords, shape, order
//! - `write`: files of matrices and tensors
//!
//! The format is that of `numpy.lib.format`. NumPy evaluates the header as a Python literal, so it
//! reads more than it writes: the `3L` of Python 2, comments, names of types. Other writers use all
//! of these. `ndarray-npy` 0.10 and `npyz` 0.8, both on `py_literal` 0.4, refuse `3L`, `u'<f4'`,
//! comments, newlines between keys, and names of types, so this module parses headers itself.

mod descriptor;
mod header;
mod literal;
mod write;

pub use descriptor::Kind;
pub use header::{Header, MAGIC};
