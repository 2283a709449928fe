//! Matrix products of arrays.

use crate::arguments::{self, Given};
use crate::device::Place;
use crate::device::target;
use crate::lent::Lent;
use crate::operand::{Batched, Operand, shape_text};
use crate::resident::Resident;
use crate::{error, work};
use half::{bf16, f16};
use moye::kernels::mma::Activation;
use moye::number::{F8E4M3, F8E5M2};
use moye::{Buffer, Device, Element, Matmul, Output, Stream};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The requested kernel, tile and split-K slices.
type Explained = Option<(Option<&'static str>, (u32, u32), u32)>;

/// The options of a product, without its operands.
struct Options {
    alpha: f64,
    beta: Option<f64>,
    activation: Option<String>,
    precision: Option<String>,
    tile: Option<(u32, u32)>,
    kernel: Option<String>,
    split_k: Option<u32>,
    device: Option<String>,
    stream: Option<u64>,
    /// PyTorch's allocator.
    allocate: Option<Py<PyAny>>,
    explain: bool,
}

impl Options {
    fn of(options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let given = Given(options);
        Ok(Self {
            alpha: given.get("alpha", "a number", |alpha| alpha.extract())?,
            beta: given.get("beta", "None or a number", |beta| beta.extract())?,
            activation: given.get("activation", ACTIVATIONS, |name| name.extract())?,
            precision: given.get("precision", "None, \"tf32\" or \"float16\"", |name| name.extract())?,
            tile: given
                .pair("tile", "None or (M, N), two integers of at least 1", |extent| extent.extract())?,
            kernel: given.get("kernel", "None or the name of a kernel", |name| name.extract())?,
            split_k: given.get("split_k", "None or an integer of at least 1", |slices| slices.extract())?,
            device: given.get("device", arguments::DEVICE, |device| device.extract())?,
            stream: given.get("stream", arguments::STREAM, |stream| stream.extract())?,
            allocate: given.get("allocate", "None or a function", |x| x.extract().map_err(PyErr::from))?,
            explain: given.get("explain", "True or False", |explain| explain.extract())?,
        })
    }
}

/// The valid activations, for messages.
const ACTIVATIONS: &str = "None, \"relu\", \"gelu\", \"gelu_tanh\" or \"silu\"";

/// The arrays of a product.
struct Operands<'a> {
    a: &'a Operand,
    b: &'a Operand,
    out: &'a Operand,
    c: Option<&'a Operand>,
    bias: Option<&'a Operand>,
    scales: [Option<&'a Operand>; 2],
}

/// The shape and the element type of the product of two arrays.
#[pyfunction]
#[pyo3(signature = (a, b, out_dtype=None))]
pub fn matmul_result(
    a: &Operand,
    b: &Operand,
    out_dtype: Option<&str>,
) -> PyResult<(Vec<usize>, &'static str)> {
    let [_, _, c] = shapes(a, b)?;
    let narrow = narrow(a, b)?;
    let dtype = match out_dtype {
        None => narrow,
        Some(name) if name == narrow => narrow,
        Some("float32") if matches!(narrow, "float16" | "bfloat16") => "float32",
        Some(name) => {
            let wider = if matches!(narrow, "float16" | "bfloat16") { " or float32" } else { "" };
            return Err(error::kind(format!(
                "the product of {} has elements of {narrow}{wider}, and not {name}; convert the result",
                a.dtype.name
            )));
        }
    };
    let is_batched = a.shape.len() == 3 || b.shape.len() == 3;
    Ok((c[usize::from(!is_batched)..].to_vec(), dtype))
}

/// Computes `activation(alpha * a @ b + beta * c + bias)` into `out`; with `explain` only returns
/// the kernel that would compute it.
#[pyfunction]
#[pyo3(signature = (a, b, out, c, bias, scale_a, scale_b, options))]
#[allow(clippy::too_many_arguments, reason = "they are the operands, which Python's side names")]
pub fn matmul(
    py: Python<'_>,
    a: &Operand,
    b: &Operand,
    out: &Operand,
    c: Option<PyRef<'_, Operand>>,
    bias: Option<PyRef<'_, Operand>>,
    scale_a: Option<PyRef<'_, Operand>>,
    scale_b: Option<PyRef<'_, Operand>>,
    options: &Bound<'_, PyDict>,
) -> PyResult<Explained> {
    let options = Options::of(options)?;
    let scales = [scale_a.as_deref(), scale_b.as_deref()];
    let operands = Operands { a, b, out, c: c.as_deref(), bias: bias.as_deref(), scales };
    operands.check()?;
    match (a.dtype.name, out.dtype.name) {
        ("float16", "float16") => product::<f16, f16>(py, &operands, &options),
        ("float16", "float32") => product::<f16, f32>(py, &operands, &options),
        ("bfloat16", "bfloat16") => product::<bf16, bf16>(py, &operands, &options),
        ("bfloat16", "float32") => product::<bf16, f32>(py, &operands, &options),
        ("float32", "float32") => product::<f32, f32>(py, &operands, &options),
        ("float64", "float64") => product::<f64, f64>(py, &operands, &options),
        ("int8", "int32") => product::<i8, i32>(py, &operands, &options),
        ("float8_e4m3fn", "bfloat16") => product::<F8E4M3, bf16>(py, &operands, &options),
        ("float8_e4m3fn", "float32") => product::<F8E4M3, f32>(py, &operands, &options),
        ("float8_e5m2", "bfloat16") => product::<F8E5M2, bf16>(py, &operands, &options),
        ("float8_e5m2", "float32") => product::<F8E5M2, f32>(py, &operands, &options),
        (from, to) => Err(error::kind(format!(
            "out has elements of {to}, which the product of {from} is not written as"
        ))),
    }
}

/// The default element type of a product.
fn narrow(a: &Operand, b: &Operand) -> PyResult<&'static str> {
    b.expect_dtype("b", a.dtype.name)?;
    match a.dtype.name {
        name @ ("float16" | "bfloat16" | "float32" | "float64") => Ok(name),
        "int8" => Ok("int32"),
        "float8_e4m3fn" | "float8_e5m2" => Ok("bfloat16"),
        name => Err(error::kind(format!(
            "a has elements of {name}; products are of float16, bfloat16, float32, float64, int8, float8_e4m3fn and float8_e5m2"
        ))),
    }
}

/// The shapes of A, B and their product, with the batches of both.
fn shapes(a: &Operand, b: &Operand) -> PyResult<[[usize; 3]; 3]> {
    let (from_a, from_b) = (
        a.matrices("a", "(M, K) or (batches, M, K)")?.shape,
        b.matrices("b", "(K, N) or (batches, K, N)")?.shape,
    );
    let ([batches_a, m, k], [batches_b, rows, n]) = (from_a, from_b);
    if k != rows {
        return Err(error::value(format!(
            "matmul: a has shape {} and b {}; a must have as many columns as b has rows",
            a.shape_text(),
            b.shape_text()
        )));
    }
    let batches = match (batches_a, batches_b) {
        (1, count) | (count, 1) => count,
        (count, other) if count == other => count,
        _ => {
            return Err(error::value(format!(
                "matmul: a has shape {} and b {}; both must have as many batches, or one of them a single one",
                a.shape_text(),
                b.shape_text()
            )));
        }
    };
    Ok([[batches, m, k], [batches, k, n], [batches, m, n]])
}

impl Operands<'_> {
    /// Checks common to all element types: the arrays are on one device and fit together, and `out`
    /// may be written.
    fn check(&self) -> PyResult<()> {
        let Self { a, b, out, c, bias, scales } = self;
        let (shape, _) = matmul_result(a, b, None)?;
        for (name, array) in [("out", Some(*out)), ("c", *c)] {
            if let Some(array) = array
                && array.shape != shape
            {
                return Err(error::value(format!(
                    "matmul: the product of {} and {} has shape {}, but {name} has {}",
                    a.shape_text(),
                    b.shape_text(),
                    shape_text(&shape),
                    array.shape_text()
                )));
            }
        }
        out.expect_writable("out")?;
        let others = [
            ("b", Some(*b)),
            ("out", Some(*out)),
            ("c", *c),
            ("bias", *bias),
            ("scale_a", scales[0]),
            ("scale_b", scales[1]),
        ];
        for (name, array) in others.into_iter().filter_map(|(name, array)| Some((name, array?))) {
            array.expect_place(name, "a", a.place)?;
        }
        for (name, array) in [("c", c), ("bias", bias)] {
            if let Some(array) = array {
                array.expect_dtype(name, out.dtype.name)?;
            }
        }
        for (name, scale) in ["scale_a", "scale_b"].into_iter().zip(scales) {
            let Some(scale) = scale else { continue };
            scale.expect_dtype(name, "float32")?;
            if !a.dtype.name.starts_with("float8") {
                return Err(error::kind(format!(
                    "{name} goes with 8-bit floats, and a has elements of {}; alpha is the factor of these",
                    a.dtype.name
                )));
            }
        }
        if let Place::Gpu(_) = out.place {
            for (name, array) in [
                ("a", Some(*a)),
                ("b", Some(*b)),
                ("bias", *bias),
                ("scale_a", scales[0]),
                ("scale_b", scales[1]),
            ] {
                if let Some(array) = array {
                    out.expect_apart("out", name, array)?;
                }
            }
            if let Some(c) = c.filter(|c| !c.is_same(out)) {
                out.expect_apart("out", "c", c)?;
            }
        }
        Ok(())
    }
}

/// An operand type with the features that only some types have.
trait Special: moye::Operand {
    /// The product with this precision and these scales, if the type has them.
    fn special<'a, U: Output<Self>>(
        product: Matmul<'a, Self, U>,
        precision: Option<&str>,
        _scales: [Option<&'a Buffer<f32>>; 2],
    ) -> PyResult<Matmul<'a, Self, U>> {
        match precision {
            None => Ok(product),
            Some(name) => Err(no_precision::<Self>(name)),
        }
    }
}

fn no_precision<T: Element>(name: &str) -> PyErr {
    error::value(format!(
        "products of {} have no precision {name:?}; float32 has \"tf32\", float16 has \"float16\" (accumulators of 16 bits)",
        T::NAME
    ))
}

impl Special for f64 {}
impl Special for i8 {}
impl Special for bf16 {}

impl Special for f32 {
    fn special<'a, U: Output<Self>>(
        product: Matmul<'a, Self, U>,
        precision: Option<&str>,
        _: [Option<&'a Buffer<f32>>; 2],
    ) -> PyResult<Matmul<'a, Self, U>> {
        match precision {
            None => Ok(product),
            Some("tf32") => Ok(product.tf32()),
            Some(name) => Err(no_precision::<Self>(name)),
        }
    }
}

impl Special for f16 {
    fn special<'a, U: Output<Self>>(
        product: Matmul<'a, Self, U>,
        precision: Option<&str>,
        _: [Option<&'a Buffer<f32>>; 2],
    ) -> PyResult<Matmul<'a, Self, U>> {
        match precision {
            None => Ok(product),
            Some("float16") => Ok(product.f16_accumulators()),
            Some(name) => Err(no_precision::<Self>(name)),
        }
    }
}

macro_rules! scaled {
    ($($ty:ty)+) => {$(
        impl Special for $ty {
            fn special<'a, U: Output<Self>>(
                mut product: Matmul<'a, Self, U>,
                precision: Option<&str>,
                [a, b]: [Option<&'a Buffer<f32>>; 2],
            ) -> PyResult<Matmul<'a, Self, U>> {
                if let Some(name) = precision {
                    return Err(no_precision::<Self>(name));
                }
                if let Some(scale) = a {
                    product = product.scale_a(scale);
                }
                if let Some(scale) = b {
                    product = product.scale_b(scale);
                }
                Ok(product)
            }
        }
    )+};
}
scaled!(F8E4M3 F8E5M2);

fn activation(name: Option<&str>) -> PyResult<Activation> {
    match name {
        None => Ok(Activation::None),
        Some("relu") => Ok(Activation::Relu),
        Some("gelu") => Ok(Activation::Gelu),
        Some("gelu_tanh") => Ok(Activation::GeluTanh),
        Some("silu") => Ok(Activation::Silu),
        Some(name) => Err(error::value(format!("there is no activation {name:?}; it is {ACTIVATIONS}"))),
    }
}

fn product<T: Special, U: Output<T>>(
    py: Python<'_>,
    operands: &Operands<'_>,
    options: &Options,
) -> PyResult<Explained> {
    let Operands { a, b, out, c, bias, scales } = *operands;
    let (device, stream) = target(a.place, options.device.as_deref(), options.stream)?;
    let lent = Lent::default();
    let stream = lent.on(stream, options.allocate.as_ref().map(|allocate| allocate.clone_ref(py)));
    let [shape_a, shape_b, _] = shapes(a, b)?;
    let batched =
        |operand: &Operand, name, shape| operand.matrices(name, "").map(|view| Batched { shape, ..view });
    let (view_a, view_b) = (batched(a, "a", shape_a)?, batched(b, "b", shape_b)?);
    let view_out = out.matrices("out", "")?;
    let in_a = Resident::<T>::read(&device, a, view_a, "a")?;
    let in_b = Resident::<T>::read(&device, b, view_b, "b")?;
    let in_bias = bias
        .map(|bias| {
            let is_by_rows = matches!(bias.shape[..], [rows, 1] if rows > 1);
            let view = bias.line("bias", "(N,) or (M, 1)")?;
            Ok::<_, PyErr>((Resident::<U>::read(&device, bias, view, "bias")?, is_by_rows))
        })
        .transpose()?;
    let mut in_scales = [None, None];
    for ((scale, read), name) in scales.into_iter().zip(&mut in_scales).zip(["scale_a", "scale_b"]) {
        let Some(scale) = scale else { continue };
        let view = scale.line(name, "a number, or one for each row or column")?;
        *read = Some(Resident::<f32>::read(&device, scale, view, name)?);
    }
    let mut result = Resident::<U>::written(&device, out, view_out, "out")?;
    let beta = options.beta.unwrap_or(if c.is_some() { 1.0 } else { 0.0 });
    match c {
        None if beta != 0.0 => {
            return Err(error::value(format!(
                "beta is {beta}, and there is no c; give c, or leave beta out"
            )));
        }
        Some(c) if beta != 0.0 && !options.explain => start_from(&mut result, c, out, &device, &stream)?,
        _ => {}
    }

    let batches = view_out.shape[0];
    if batches == 0 {
        return Ok(options.explain.then_some((None, (0, 0), 0)));
    }
    let strides = [in_a.batch().1, in_b.batch().1, result.batch().1];
    let mut product =
        Matmul::<T, U>::new(in_a.matrix(0).map_err(error::raised)?, in_b.matrix(0).map_err(error::raised)?)
            .activation(activation(options.activation.as_deref())?)
            .try_alpha(options.alpha)
            .and_then(|product| product.try_beta(beta))
            .map_err(error::raised)?;
    if out.shape.len() == 3 {
        product = product.batch(batches, strides);
    }
    if let Some((bias, is_by_rows)) = &in_bias {
        product = if *is_by_rows { product.bias_rows(&bias.buffer) } else { product.bias(&bias.buffer) };
    }
    product = T::special(
        product,
        options.precision.as_deref(),
        in_scales.each_ref().map(|scale| scale.as_ref().map(|scale| &scale.buffer)),
    )?;
    if let Some((m, n)) = options.tile {
        product = product.tile(m, n);
    }
    if let Some(splits) = options.split_k {
        product = product.split_k(splits);
    }
    if let Some(name) = &options.kernel {
        product = named(product, name, &device)?;
    }
    let explained = {
        let mut c = result.matrix_mut(0).map_err(error::raised)?;
        match options.explain {
            true => {
                let explanation = product.explain(&device, &mut c).map_err(error::raised)?;
                Some((explanation.kernel, explanation.tile, explanation.splits))
            }
            false => {
                // SAFETY: `out` shares no memory with inputs. On a GPU the arrays' library launches
                // what uses them on this stream; from the host the default stream orders its work.
                let ran = work::run(py, &device, || unsafe { product.run_on(&stream, &mut c) });
                ran.map_err(|error| lent.error().unwrap_or(error))?;
                None
            }
        }
    };
    if explained.is_none() {
        result.give_back(out, view_out)?;
    }
    Ok(explained)
}

/// Selects a kernel by its name.
fn named<'a, T: Special, U: Output<T>>(
    product: Matmul<'a, T, U>,
    name: &str,
    device: &Device,
) -> PyResult<Matmul<'a, T, U>> {
    let kernels = product.kernels(device);
    match kernels.iter().find(|kernel| **kernel == name) {
        Some(kernel) => Ok(product.kernel(kernel)),
        None => Err(error::value(format!(
            "there is no kernel {name:?} for {} on {}; there are {}",
            T::NAME,
            device.name(),
            kernels.join(", ")
        ))),
    }
}

/// Copies `c` to the place of the result, unless it is there.
fn start_from<U: Element>(
    result: &mut Resident<U>,
    c: &Operand,
    out: &Operand,
    device: &Device,
    stream: &Stream,
) -> PyResult<()> {
    let view = c.matrices("c", "")?;
    if out.place == Place::Host {
        return result.fill_from(c, view);
    }
    if c.is_same(out) {
        return Ok(());
    }
    let from = Resident::<U>::read(device, c, view, "c")?;
    for batch in 0..view.shape[0] {
        let copied = from.matrix(batch).and_then(|from| {
            // SAFETY: as for the product: `out` shares no memory with `c`.
            unsafe { moye::copy_on(stream, &from, &mut result.matrix_mut(batch)?) }
        });
        copied.map_err(error::raised)?;
    }
    Ok(())
}
