//! The imports of the host half of an operation.

pub(crate) use crate::builder::{runs, setters};
pub use crate::declare::{
    OUT, TO_FLOATS, X, bits, byte_option, expect, expect_elements, float_option, given, last_axis, mismatch,
    option, unsupported,
};
pub(crate) use crate::declare::{declare, of_floats, plans};
pub use crate::groups::{
    Along, Mode, Placed, elements_of_word, groups_and_rows, is_of_words, joined, stride_in_words,
};
pub use crate::launch::{Launch, On, To};
pub use crate::place::Place;
pub(crate) use crate::plan;
pub use crate::reference::{Inputs, Values, broadcast, each_row, elements, input, rounding};
pub use crate::rows::{Operand, RowArray, RowKernel, RowLaunch, RowsOf};
pub use moye_device::memory::{Global, GlobalMut};
pub use moye_runtime::operation::{
    Array, ArrayType, Axes, Call, Declaration, Dtype, OperandOf, OptionOf, Options, Role, RowInstance,
    RowPlan, RowProblem, TypedCall, Value, Workspace, broadcast_shape, check_device, map_grid, map_launches,
};
pub use moye_runtime::{Device, Element, Grid, MAX_BLOCKS, Matrix, MatrixMut, Rates, Result, Stream};
