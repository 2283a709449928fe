//! The layout algebra by name: expressions, and requests as JSON. This implements `moye eval`.
//!
//! # Expressions
//! [`evaluate`] parses layouts in their printed notation, and nested operations on them:
//!
//! - integers, shapes, strides and coordinates: `4`, `(4,(2,2))`, `(1@0,(1@0@1,1@1@1))`, with the
//!   wildcard `_`,
//! - layouts: `(4,(2,2)):(2,(1,8))`; an operation that takes a layout also accepts a shape, which
//!   stands for its compact column-major layout,
//! - tilers: a layout, a shape (each integer `n` is `n:1`), or a tuple of tilers and `_`,
//!   `(4:2,_,8)`, which may also be written `<4:2,_,8>`,
//! - swizzles and composed layouts: `Sw<3,4,3>`, `Sw<3,3,3> o 0 o (8,64):(64,1)`; a swizzle may
//!   also be written `Swizzle<3,4,3>`, `Swizzle(3,4,3)` and, in the Python DSL's notation,
//!   `S<3,4,3>`,
//! - CuTe's output around a layout: `gmem_ptr[32b](0x7f..) o (_32,_4):(_1,32)` is the layout,
//!   `Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)` swizzles bytes and is `Sw<3,3,3> o 0 o
//!   (8,64):(64,1)`, and `ArithTuple(0,_0) o L`, `tensor<ptr<f16, gmem> o L>` and
//!   `tensor(raw_ptr(...) o L, data=...` are `L`,
//! - operations: `composition((6,2):(8,2), (4,3):(3,1))`; `A o B` is `composition(A, B)`,
//! - calls: `(4,3):(3,1)(2,1)`, the index of a coordinate, `crd2idx`, and with `_` the slice; a
//!   layout of coordinates, `make_identity_layout((4,3))(2,1)`, returns a coordinate. A call
//!   applies to everything before it: `(6,2):(8,2) o (4,3):(3,1)(2,1)` is `((6,2):(8,2) o
//!   (4,3):(3,1))(2,1)`.
//!
//! [`help`] lists the operations.
//!
//! # Requests
//! [`serve`] reads one request a line, `{"op": "composition", "args": [L, L]}`, and writes one
//! answer a line, `{"result": ...}` or `{"error": "..."}`. In both
//!
//! - a layout is `{"shape": S, "stride": D}` with integers or nested lists (without a stride it is
//!   compact),
//! - `null` in a coordinate, a profile or a tiler is `_`; a tiler is a list of layouts, shapes and
//!   `null`,
//! - a stride along a basis vector is a string, `"1@0"`, or within element 1 `"1@0@1"`,
//! - a swizzle is `{"swizzle": [bits, base, shift]}`, and a composed layout also has `"offset"` and
//!   `"layout"`; requests also accept `[bits, base, shift]` and `[swizzle, offset, layout]`,
//! - every value of a request may also be a string with an expression.
#![deny(missing_docs)]

mod error;
mod json;
mod operand;
mod operations;
mod parse;
mod printed;
mod serve;
mod value;

pub use error::EvalError;
pub use json::answer;
pub use operations::{Arity, GROUPS, Group, Operation, Parameter, all, help};
pub use parse::evaluate;
pub use serve::serve;
pub use value::Value;

/// The crate's page in a registry.
#[cfg(doctest)]
#[doc = include_str!("README.md")]
mod readme {}
