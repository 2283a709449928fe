//! Products as a declared operation, from which `moye run matmul`, Python's function and the test
//! are built. A call is passed to the [`Matmul`] of its element types.
#![cfg_attr(not(feature = "all"), allow(unused, reason = "each element type uses some of it"))]

use super::builder::Matmul;
use super::element::{Factor as _, Operand, Output, Precision};
use super::plan::Explanation;
use super::{cases, descriptor, reference};
use crate::kernels::mma::Activation;
use half::{bf16, f16};
use moye_device::memory::Element;
use moye_device::number::{F8E4M3, F8E5M2};
use moye_movement::COPY;
use moye_runtime::operation::{
    Array, ArrayType, Call, Declaration, Dtype, MemoryLayout, OperandOf, OptionOf, Options, Role, Value,
    shape_text,
};
use moye_runtime::{Buffer, Error, Matrix, MatrixMut, Result, Stream};

/// The operation's name.
const OPERATION: &str = descriptor::OPERATION;

/// The element types of factors.
pub(super) const ELEMENTS: &[Dtype] = &[
    #[cfg(feature = "f32")]
    Dtype::F32,
    #[cfg(feature = "f16")]
    Dtype::F16,
    #[cfg(feature = "bf16")]
    Dtype::Bf16,
    #[cfg(feature = "f64")]
    Dtype::F64,
    #[cfg(feature = "i8")]
    Dtype::I8,
    #[cfg(feature = "f8")]
    Dtype::E4m3,
    #[cfg(feature = "f8")]
    Dtype::E5m2,
];
/// The element types of results: those of the factors that have their own come first.
const RESULTS: &[Dtype] = &[
    #[cfg(feature = "f32")]
    Dtype::F32,
    #[cfg(feature = "f16")]
    Dtype::F16,
    #[cfg(feature = "bf16")]
    Dtype::Bf16,
    #[cfg(feature = "f64")]
    Dtype::F64,
    #[cfg(feature = "i8")]
    Dtype::I32,
    #[cfg(all(feature = "f8", not(feature = "bf16")))]
    Dtype::Bf16,
];

/// The names of activations.
const ACTIVATIONS: &[&str] = &["relu", "gelu", "gelu_tanh", "silu"];
/// The precisions besides the default.
const PRECISIONS: &[&str] = &["tf32", "float16"];

const fn factor(name: &'static str, about: &'static str) -> OperandOf {
    OperandOf::new(Role::Input, name, about).of(ELEMENTS)
}

const fn scale(name: &'static str, about: &'static str) -> OperandOf {
    OperandOf::new(Role::Optional, name, about).of(&[Dtype::F32]).laid_out(MemoryLayout::Contiguous).by_name()
}

/// The summary, and what holds for all operands and options.
const SUMMARY: &str = "\
the matrix product activation(alpha * a @ b + beta * c + bias)

All arrays are of one library, on one device. Any strides are accepted, so ``a.T`` costs nothing;
operands in a layout that no kernel reads are rearranged first.

The activation \"gelu\" is ``x / 2 * (1 + erf(x / sqrt(2)))``, PyTorch's default; \"gelu_tanh\" is its form
with a hyperbolic tangent, PyTorch's ``approximate=\"tanh\"`` and cuBLASLt's GELU. The precision \"tf32\"
drops all but 10 bits of each fraction: products of positive elements are about 6.5e-4 too small.";

/// Indices of [`MATMUL`]'s operands.
mod at {
    pub const C: usize = 2;
    pub const BIAS: usize = 3;
    pub const SCALE_A: usize = 4;
    pub const SCALE_B: usize = 5;
    pub const OUT: usize = 6;
}

/// The product of two matrices.
pub static MATMUL: Declaration = Declaration {
    name: OPERATION,
    summary: SUMMARY,
    operands: &[
        factor(
            "a",
            "(M, K) or (batches, M, K) of float16, bfloat16, float32, float64, int8, float8_e4m3fn or float8_e5m2",
        ),
        factor(
            "b",
            "(K, N) or (batches, K, N), of the type of a; one of a and b may have a single batch, or none",
        ),
        OperandOf::new(
            Role::Optional,
            "c",
            "(M, N) or (batches, M, N), of the type of the result; it may be out",
        )
        .of(RESULTS)
        .by_name(),
        OperandOf::new(
            Role::Optional,
            "bias",
            "(N,), added to each row, or (M, 1), added to each column; of the type of the result",
        )
        .of(RESULTS)
        .laid_out(MemoryLayout::Contiguous)
        .by_name(),
        scale("scale_a", "float32 factors of 8-bit floats: one, one for each row of a, or (batches, M)"),
        scale("scale_b", "one, one for each column of b, or (batches, N)"),
        OperandOf::new(
            Role::Result,
            "out",
            "(M, N) or (batches, M, N), of out_dtype; it shares no memory with what is read, c excepted",
        )
        .of(RESULTS),
    ],
    options: &[
        OptionOf::new(
            "alpha",
            "the factor of the product; with 0 neither a nor b is read",
            Value::Float(1.0),
        )
        .takes("a number"),
        OptionOf::new("beta", "the factor of c, by default 1", Value::Unset(&Value::Float(1.0)))
            .takes("None or a number"),
        OptionOf::new(
            "activation",
            "applied to the result, by default none",
            Value::Unset(&Value::Choice("relu", ACTIVATIONS)),
        )
        .takes("None, \"relu\", \"gelu\", \"gelu_tanh\" or \"silu\""),
        OptionOf::new(
            "precision",
            "tf32 for float32 (tensor cores, 10 bits of each fraction), float16 for float16 (accumulators)",
            Value::Unset(&Value::Choice("tf32", PRECISIONS)),
        )
        .takes("None, \"tf32\" or \"float16\""),
        OptionOf::new(
            "out_dtype",
            "the type of out: by default that of a, int32 for int8, bfloat16 for 8-bit floats; float32 for types of \
             16 and 8 bits",
            Value::Unset(&Value::Dtype(Dtype::F32)),
        ),
        OptionOf::new(
            "tile",
            "(M, N) of the tile of a thread block, chosen automatically by default",
            Value::Unset(&Value::Pair([Some(0); 2])),
        )
        .takes("None or (M, N), two integers of at least 1"),
        OptionOf::new("kernel", "the name of the kernel", Value::Unset(&Value::Text("")))
            .takes("None or the name of a kernel"),
        OptionOf::new(
            "split_k",
            "the number of split-K slices, chosen automatically by default",
            Value::Unset(&Value::Int(1)),
        )
        .takes("None or an integer of at least 1"),
    ],
    results,
    // SAFETY: the contract of `Declaration::run`.
    run: |stream, call| unsafe { by_type(stream, call, false).map(drop) },
    explain: |stream, call| Ok(explain_matmul(stream, call)?.to_string().into()),
    reference: reference::reference,
    tolerance: |dtype| match dtype {
        Dtype::Bf16 => 8e-3,
        Dtype::F16 => 1e-3,
        Dtype::F64 => 1e-13,
        Dtype::I32 => 0.0,
        _ => 1e-5,
    },
    cases: cases::CASES,
    bench: cases::BENCH,
};

/// The plan of a declared call: the kernel, its tile and slices. Nothing is computed.
///
/// # Errors
/// Same as [`Matmul::explain`].
pub fn explain_matmul(stream: &Stream, call: &Call<'_>) -> Result<Explanation> {
    // SAFETY: nothing is launched.
    unsafe { by_type(stream, call, true) }
}

fn mismatch<T>(detail: String) -> Result<T> {
    Err(Error::ShapeMismatch { operation: OPERATION, detail })
}

fn unsupported<T>(detail: String) -> Result<T> {
    Err(Error::Unsupported { operation: OPERATION, detail })
}

fn of_type<T>(detail: String) -> Result<T> {
    Err(Error::ElementType { operation: OPERATION, detail })
}

/// The batches, rows and columns of matrices; without batches one.
fn matrices(name: &str, shape: &[usize], wanted: &str) -> Result<[usize; 3]> {
    match *shape {
        [rows, columns] => Ok([1, rows, columns]),
        [batches, rows, columns] => Ok([batches, rows, columns]),
        _ => mismatch(format!("{name} has shape {}, and must be {wanted}; reshape it", shape_text(shape))),
    }
}

/// The batches, M, N and K.
fn extents(a: &[usize], b: &[usize]) -> Result<[usize; 4]> {
    let [batches_a, m, k] = matrices("a", a, "(M, K) or (batches, M, K)")?;
    let [batches_b, rows, n] = matrices("b", b, "(K, N) or (batches, K, N)")?;
    let given = || format!("a has shape {} and b {}", shape_text(a), shape_text(b));
    if k != rows {
        return mismatch(format!("{}; a must have as many columns as b has rows", given()));
    }
    match (batches_a, batches_b) {
        (1, count) | (count, 1) => Ok([count, m, n, k]),
        (count, other) if count == other => Ok([count, m, n, k]),
        _ => mismatch(format!("{}; both must have as many batches, or one of them a single one", given())),
    }
}

/// The type of `out`.
fn results(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let [Some(a), Some(b), c, bias, scales @ ..] = inputs else {
        return mismatch("a and b are needed".to_owned());
    };
    let [batches, m, n, _] = extents(&a.shape, &b.shape)?;
    if b.dtype != a.dtype {
        return of_type(format!("b has elements of {}, and must have {}; convert it", b.dtype, a.dtype));
    }
    let narrow = match a.dtype {
        Dtype::I8 => Dtype::I32,
        Dtype::E4m3 | Dtype::E5m2 => Dtype::Bf16,
        dtype => dtype,
    };
    let may_widen = matches!(narrow, Dtype::F16 | Dtype::Bf16);
    let dtype = match options.is_set("out_dtype").then(|| options.dtype("out_dtype")) {
        None => narrow,
        Some(given) if given == narrow || given == Dtype::F32 && may_widen => given,
        Some(other) => {
            let wider = if may_widen { " or float32" } else { "" };
            return of_type(format!(
                "the product of {} has elements of {narrow}{wider}, and not {other}; convert the result",
                a.dtype
            ));
        }
    };
    let is_batched = a.shape.len() == 3 || b.shape.len() == 3;
    let shape = [batches, m, n][usize::from(!is_batched)..].to_vec();
    for (name, array) in [("c", c), ("bias", bias)] {
        if let Some(array) = array
            && array.dtype != dtype
        {
            return of_type(format!(
                "{name} has elements of {}, and must have {dtype}; convert it",
                array.dtype
            ));
        }
    }
    if let Some(c) = c
        && c.shape != shape
    {
        return mismatch(format!(
            "c has shape {}, and the product {}",
            shape_text(&c.shape),
            shape_text(&shape)
        ));
    }
    for (name, scale) in ["scale_a", "scale_b"].into_iter().zip(scales) {
        if scale.is_some() && !matches!(a.dtype, Dtype::E4m3 | Dtype::E5m2) {
            return of_type(format!(
                "{name} goes with 8-bit floats, and a has elements of {}; alpha is the factor of these",
                a.dtype
            ));
        }
    }
    Ok(vec![ArrayType { dtype, shape }])
}

/// Computes or explains a call, by the types of its elements.
///
/// # Safety
/// Same contract as [`Declaration::run`], if it is computed.
unsafe fn by_type(stream: &Stream, call: &Call<'_>, explains: bool) -> Result<Explanation> {
    let types = (call.operand(0).dtype, call.operand(at::OUT).dtype);
    macro_rules! typed {
        ($($feature:literal $from:ident $t:ty => $to:ident $u:ty;)+) => {
            match types {
                $(#[cfg(feature = $feature)]
                // SAFETY: the call's arrays stay valid until the work is complete.
                (Dtype::$from, Dtype::$to) => unsafe { typed::<$t, $u>(stream, call, explains) },)+
                (from, to) => of_type(format!(
                    "out has elements of {to}, which the product of {from} is not written as; convert it"
                )),
            }
        };
    }
    typed! {
        "f32" F32 f32 => F32 f32;
        "f16" F16 f16 => F16 f16;
        "f16" F16 f16 => F32 f32;
        "bf16" Bf16 bf16 => Bf16 bf16;
        "bf16" Bf16 bf16 => F32 f32;
        "f64" F64 f64 => F64 f64;
        "i8" I8 i8 => I32 i32;
        "f8" E4m3 F8E4M3 => Bf16 bf16;
        "f8" E4m3 F8E4M3 => F32 f32;
        "f8" E5m2 F8E5M2 => Bf16 bf16;
        "f8" E5m2 F8E5M2 => F32 f32;
    }
}

/// The strides of batches, rows and columns of an array of two or three modes: 0 along extents of
/// 1.
fn strides(name: &str, array: &Array, batches: usize) -> Result<[usize; 3]> {
    let mut all = [0; 3];
    let modes = array.shape.iter().zip(&array.strides).rev();
    for (own, (&extent, &stride)) in all.iter_mut().rev().zip(modes) {
        let Ok(stride) = usize::try_from(if extent > 1 { stride } else { 0 }) else {
            return unsupported(format!(
                "{name} has a stride of {stride}, and must have none below 0; copy it"
            ));
        };
        *own = stride;
    }
    if batches <= 1 {
        all[0] = 0;
    }
    Ok(all)
}

/// The precision of an option, for elements `T`.
fn precision<T: Element>(options: &Options) -> Result<Precision> {
    if !options.is_set("precision") {
        return Ok(Precision::Full);
    }
    match (options.choice("precision"), T::NAME) {
        ("tf32", "f32") => Ok(Precision::Tf32),
        ("float16", "f16") => Ok(Precision::F16Accumulators),
        (name, _) => unsupported(format!(
            "products of {} have no precision {name:?}; float32 has \"tf32\", float16 has \"float16\" (accumulators of 16 bits)",
            T::NAME
        )),
    }
}

/// Computes or explains a call of elements `T` with results `U`.
///
/// # Safety
/// Same contract as [`Declaration::run`], if it is computed.
unsafe fn typed<T: Operand, U: Output<T>>(
    stream: &Stream,
    call: &Call<'_>,
    explains: bool,
) -> Result<Explanation> {
    let (device, options) = (stream.device(), call.options);
    let given = |index: usize| call.operands[index].as_ref();
    call.check_apart(OPERATION, &MATMUL, at::OUT, &[at::C])?;
    let (a, b, out) = (call.operand(0), call.operand(1), call.operand(at::OUT));
    let [batches, m, n, k] = extents(&a.shape, &b.shape)?;
    let beta = match (options.is_set("beta").then(|| options.float("beta")), given(at::C)) {
        (Some(beta), None) if beta != 0.0 => {
            return unsupported(format!("beta is {beta}, and there is no c; give c, or leave beta out"));
        }
        (beta, c) => beta.unwrap_or(if c.is_some() { 1.0 } else { 0.0 }),
    };
    if batches == 0 {
        return Ok(Explanation::default());
    }
    macro_rules! buffer {
        ($index:expr, $t:ty) => {
            // SAFETY: the arrays stay valid until the work is complete.
            given($index)
                .map(|array| unsafe { array.buffer::<$t>(OPERATION, MATMUL.operands[$index].name, device) })
                .transpose()?
        };
    }
    // SAFETY: the arrays stay valid until the work is complete.
    let (of_a, of_b, mut of_out) = unsafe {
        (
            a.buffer::<T>(OPERATION, "a", device)?,
            b.buffer::<T>(OPERATION, "b", device)?,
            out.buffer::<U>(OPERATION, "out", device)?,
        )
    };
    let (bias, scale_a, scale_b) =
        (buffer!(at::BIAS, U), buffer!(at::SCALE_A, T::Scalar), buffer!(at::SCALE_B, T::Scalar));
    let (in_a, in_b, in_out) =
        (strides("a", a, batches)?, strides("b", b, batches)?, strides("out", out, batches)?);
    let mut product = Matmul::<T, U>::new(
        Matrix::new(of_a.as_slice(), m, k, (in_a[1], in_a[2]))?,
        Matrix::new(of_b.as_slice(), k, n, (in_b[1], in_b[2]))?,
    )
    .alpha(T::Scalar::checked("alpha", options.float("alpha"), T::NAME)?)
    .beta(T::Scalar::checked("beta", beta, T::NAME)?)
    .batch(batches, [in_a[0], in_b[0], in_out[0]]);
    product.precision = precision::<T>(options)?;
    if options.is_set("activation") {
        product = product.activation(match options.choice("activation") {
            "relu" => Activation::Relu,
            "gelu" => Activation::Gelu,
            "gelu_tanh" => Activation::GeluTanh,
            _ => Activation::Silu,
        });
    }
    if let (Some(bias), Some(array)) = (&bias, given(at::BIAS)) {
        let by_rows = matches!(array.shape[..], [rows, 1] if rows > 1);
        product = if by_rows { product.bias_rows(bias) } else { product.bias(bias) };
    }
    product.scales = [scale_a.as_ref(), scale_b.as_ref()].map(|scale| scale.map(Buffer::as_slice));
    if options.is_set("tile") {
        let tile = options.pair("tile").map(|extent| u32::try_from(extent.unwrap_or(0)).unwrap_or(u32::MAX));
        product = product.tile(tile[0], tile[1]);
    }
    if options.is_set("kernel") {
        product = product.kernel(options.text("kernel"));
    }
    if options.is_set("split_k") {
        let slices = options.int("split_k");
        let Ok(slices) = u32::try_from(slices) else {
            return unsupported(format!("split_k is {slices}, and must be None or an integer of at least 1"));
        };
        product = product.split_k(slices);
    }
    let [_, row, column] = in_out;
    let mut c = MatrixMut::new(of_out.as_slice_mut(), m, n, (row, column))?;
    if explains {
        return product.explain(device, &mut c);
    }
    if let Some(array) = given(at::C).filter(|_| beta != 0.0)
        && !(array.address == out.address && array.strides == out.strides)
    {
        let operands = [Some(array.clone()), Some(out.clone())];
        let copy = Call { operands: &operands, options: &Options::of(&COPY) };
        // SAFETY: both are in memory of the stream's device.
        unsafe { (COPY.run)(stream, &copy)? };
    }
    // SAFETY: the caller orders other streams.
    unsafe { product.run_on(stream, &mut c)? };
    Ok(Explanation::default())
}
