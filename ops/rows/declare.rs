//! Helpers of declarations: operands, options, checks, and the functions of a folder.

use moye_runtime::operation::{ArrayType, Dtype, OperandOf, OptionOf, Options, Role, Value};
use moye_runtime::{Error, Result};

/// The first operand of most operations.
pub const X: OperandOf =
    OperandOf::new(Role::Input, "x", "float32, float16 or bfloat16, of any shape and strides");
/// A result like x.
pub const OUT: OperandOf = OperandOf::new(Role::Result, "out", "the result, of the shape and type of x");

/// The option of results that are floats of any type.
pub const TO_FLOATS: OptionOf =
    option("dtype", "the type of the result: float32, float16 or bfloat16", Value::Dtype(Dtype::F32));

/// An option: its name, what it changes, and its default.
pub const fn option(name: &'static str, about: &'static str, default: Value) -> OptionOf {
    OptionOf::new(name, about, default)
}

/// Writes [`RowKernel::plans`](crate::rows::RowKernel::plans) of a kernel by its table.
macro_rules! plans {
    ($table:path) => {
        fn plans(
            problem: &moye_runtime::operation::RowProblem,
            card: &moye_runtime::Rates,
        ) -> Vec<moye_runtime::operation::RowPlan> {
            let entry = |instance: usize| match problem.dtype {
                moye_runtime::operation::Dtype::F32 => <f32 as $table>::KERNELS[instance].name(),
                moye_runtime::operation::Dtype::F16 => <half::f16 as $table>::KERNELS[instance].name(),
                _ => <half::bf16 as $table>::KERNELS[instance].name(),
            };
            moye_runtime::operation::RowPlan::candidates(Self::SHAPES, entry, problem, card)
        }
    };
}
pub(crate) use plans;

/// Refuses a call that no kernel computes: the detail has the values and the way out.
pub fn unsupported<T>(operation: &'static str, detail: String) -> Result<T> {
    Err(Error::Unsupported { operation, detail })
}

/// Refuses operands whose shapes or element types do not match.
pub fn mismatch<T>(operation: &'static str, detail: String) -> Result<T> {
    Err(Error::ShapeMismatch { operation, detail })
}

/// The type of an input that is not optional.
pub fn given(inputs: &[Option<ArrayType>], index: usize) -> &ArrayType {
    inputs[index].as_ref().expect("checked: it is not optional")
}

/// The bits of a float option, for the key of a launch.
pub fn bits(options: &Options, name: &str) -> u32 {
    (options.float(name) as f32).to_bits()
}

/// The value of an option that is an element type of floats.
pub fn float_option(operation: &'static str, options: &Options, name: &str) -> Result<Dtype> {
    let dtype = options.dtype(name);
    if Dtype::FLOATS.contains(&dtype) {
        return Ok(dtype);
    }
    unsupported(operation, format!("{name} is {dtype}, and may be float32, float16 or bfloat16"))
}

/// The value of the option `dtype` that is an element type of 8 bits.
pub fn byte_option(operation: &'static str, options: &Options) -> Result<Dtype> {
    let dtype = options.dtype("dtype");
    if Dtype::BYTES.contains(&dtype) {
        return Ok(dtype);
    }
    unsupported(operation, format!("dtype is {dtype}, and may be int8, float8_e4m3fn or float8_e5m2"))
}

/// The type of x, the first input, and that of a vector with an element for each of its columns.
pub fn last_axis<'a>(
    operation: &'static str,
    inputs: &'a [Option<ArrayType>],
) -> Result<(&'a ArrayType, ArrayType)> {
    let x = given(inputs, 0);
    let Some(&columns) = x.shape.last() else {
        return mismatch(operation, "x has no modes; give an array of one or more".to_owned());
    };
    Ok((x, ArrayType { dtype: x.dtype, shape: vec![columns] }))
}

/// Refuses an input whose type or shape does not match x.
pub fn expect(
    operation: &'static str,
    name: &str,
    input: &Option<ArrayType>,
    wanted: &ArrayType,
) -> Result<()> {
    match input {
        Some(is) if is != wanted => mismatch(
            operation,
            format!(
                "{name} has shape {:?} of {}, and must have {:?} of {}",
                is.shape, is.dtype, wanted.shape, wanted.dtype
            ),
        ),
        _ => Ok(()),
    }
}

/// Refuses scales for an x without elements.
pub fn expect_elements(operation: &'static str, x: &[usize], scales: &[usize]) -> Result<()> {
    if x.contains(&0) && !scales.contains(&0) {
        let detail = format!("x has shape {x:?}, no elements for its scales of shape {scales:?}");
        return unsupported(operation, detail);
    }
    Ok(())
}
