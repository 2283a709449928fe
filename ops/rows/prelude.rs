//! The imports of the host half of an operation.

pub(crate) use crate::declare::plans;
pub use crate::declare::{
    OUT, TO_FLOATS, X, bits, byte_option, expect, expect_elements, float_option, given, last_axis, mismatch,
    option, unsupported,
};
pub use crate::groups::{
    Along, Mode, Placed, elements_of_word, groups_and_rows, is_of_words, joined, stride_in_words,
};
pub use crate::place::Place;
pub(crate) use crate::plan;
pub use crate::reference::{Inputs, Values, broadcast, each_row, elements, input, rounding};
pub use crate::rows::{Operand, RowArray, RowKernel, RowLaunch, RowsOf};
pub use moye_device::memory::{Global, GlobalMut};
pub use moye_runtime::operation::{
    Array, ArrayType, Axes, Call, Declaration, Dtype, Launch, On, OperandOf, OptionOf, Options, Role,
    RowInstance, RowPlan, RowProblem, To, TypedCall, Value, Workspace, broadcast_shape, check_device,
    declare, map_grid, map_launches, of_floats, runs, setters,
};
pub use moye_runtime::{Device, Element, Grid, MAX_BLOCKS, Matrix, MatrixMut, Ptx, Rates, Result, Stream};
