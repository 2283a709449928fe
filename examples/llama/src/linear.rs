//! Products with weights: the only module that knows how weights are stored on the device.
//!
//! Weights of Q formats stay quantised: their blocks' codes and factors are packed once into the
//! order of the product's kernels. Float weights are f16.

use crate::error::Result;
use crate::format::Format;
use crate::gguf::{Gguf, Tensor};
use half::f16;
use moye::{Buffer, Device, Matmul, Matrix, MatrixMut, Stream};
use moye_products::weights::{LinearQuantized, PackedWeights};
use moye_rows::activation::{Activate, Activation};
use std::ops::Range;
use std::sync::Arc;

/// The weight of a linear layer, and its bias.
pub struct Weight {
    /// Parts stacked along rows; each has one format.
    parts: Vec<Part>,
    /// The number of columns.
    columns: usize,
    bias: Option<Buffer<f16>>,
    /// Whether eight rows of gates alternate with eight rows of ups; otherwise all gates precede
    /// all ups.
    interleaved: bool,
}

enum Part {
    Packed(PackedWeights),
    Half(Arc<Buffer<f16>>, usize),
}

/// Rows of gates, and then of ups, in a tile of the gated product.
const GATES: usize = 8;

impl Part {
    fn rows(&self) -> usize {
        match self {
            Self::Packed(packed) => packed.rows(),
            Self::Half(_, rows) => *rows,
        }
    }

    /// Rows of blocks, packed or as f16.
    fn new(device: &Device, format: Format, rows: usize, blocks: &[u8]) -> Result<Self> {
        let name = match format {
            Format::F32 | Format::F16 | Format::Bf16 => None,
            Format::Q4_0 => Some("q4_0"),
            Format::Q4_1 => Some("q4_1"),
            Format::Q8_0 => Some("q8_0"),
            Format::Q4K => Some("q4_k"),
            Format::Q5K => Some("q5_k"),
            Format::Q6K => Some("q6_k"),
        };
        Ok(match name {
            Some(name) => {
                let uploaded = device.upload(blocks)?;
                let blocks = Matrix::row_major(&uploaded, rows, blocks.len() / rows)?;
                Self::Packed(PackedWeights::blocks(name, &blocks)?)
            }
            None if format == Format::F16 => {
                let elements = device.alloc_uninit::<f16>(blocks.len() / 2)?;
                // SAFETY: the bytes of elements that no other code uses yet.
                let mut bytes = unsafe { Buffer::<u8>::from_raw_parts(elements.address(), blocks.len(), device)? };
                bytes.upload_from(blocks)?;
                Self::Half(Arc::new(elements), rows)
            }
            None => Self::Half(Arc::new(device.upload(&halves(format, blocks))?), rows),
        })
    }
}

/// Loads weights from a file to a device with several threads, through one reused staging buffer:
/// touching new memory takes longer than reading a cached file.
pub struct Loader<'a> {
    device: &'a Device,
    file: &'a Gguf,
    blocks: Vec<u8>,
}

/// The maximum number of threads that read a tensor, and the minimum number of bytes for each.
const READERS: (usize, usize) = (8, 1 << 20);

/// Calls `read` on several threads with parts of `bytes` and their offsets; parts consist of whole
/// pieces.
fn in_parts(
    bytes: &mut [u8],
    piece: usize,
    read: impl Fn(usize, &mut [u8]) -> Result<()> + Sync,
) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(READERS.0);
    let part = (bytes.len().div_ceil(threads)).max(READERS.1).next_multiple_of(piece);
    if bytes.len() <= part {
        return read(0, bytes);
    }
    std::thread::scope(|scope| {
        let (read, parts) = (&read, bytes.chunks_mut(part).enumerate());
        let threads: Vec<_> = parts.map(|(i, part_of)| scope.spawn(move || read(i * part, part_of))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a thread that reads does not panic"))
    })
}

impl<'a> Loader<'a> {
    /// A loader from a file to a device.
    pub fn new(device: &'a Device, file: &'a Gguf) -> Self {
        Self { device, file, blocks: Vec::new() }
    }

    /// Reads a tensor of this shape into the blocks at `from`; returns its format and the end of
    /// its blocks.
    fn read(&mut self, name: &str, shape: [usize; 2], from: usize) -> Result<(Format, usize)> {
        let tensor = of_shape(self.file, name, shape)?;
        let end = from + tensor.bytes();
        let file = self.file;
        in_parts(self.room(from..end), 1, |at, part| file.read_into(name, at, part))?;
        Ok((tensor.format, end))
    }

    /// A range of the blocks, which grow if necessary.
    fn room(&mut self, range: Range<usize>) -> &mut [u8] {
        self.blocks.resize(self.blocks.len().max(range.end), 0);
        &mut self.blocks[range]
    }

    /// Whether the file has a tensor.
    pub fn has(&self, name: &str) -> bool {
        self.file.has(name)
    }

    /// The elements of a tensor of one row, on the device.
    ///
    /// # Errors
    /// Same as [`Weight::load`].
    pub fn vector(&self, name: &str, elements: usize) -> Result<Buffer<f16>> {
        Ok(self.device.upload(&vector(self.file, name, elements)?)?)
    }
}

/// The elements of blocks as f16.
fn halves(format: Format, blocks: &[u8]) -> Vec<f16> {
    format.dequantize(blocks).into_iter().map(f16::from_f32).collect()
}

impl Weight {
    /// The weight of stacked tensors, given by their names without `.weight` and their
    /// rows, with `columns` columns each. If `biased`, the tensors `NAME.bias` are its bias if they
    /// exist.
    ///
    /// # Errors
    /// The errors of the file and of device memory.
    pub fn load(
        loader: &mut Loader<'_>,
        tensors: &[(String, usize)],
        columns: usize,
        biased: bool,
    ) -> Result<Self> {
        let (device, file) = (loader.device, loader.file);
        // The rows and blocks of consecutive tensors of one format.
        let mut parts = Vec::<(Format, usize, Range<usize>)>::new();
        let (mut biases, mut rows_before, mut end) = (Vec::new(), 0, 0);
        for (name, rows) in tensors {
            let (start, (format, end_of)) = (end, loader.read(&format!("{name}.weight"), [*rows, columns], end)?);
            end = end_of;
            match parts.last_mut() {
                Some(last) if last.0 == format => (last.1, last.2.end) = (last.1 + rows, end),
                _ => parts.push((format, *rows, start..end)),
            }
            let bias = format!("{name}.bias");
            if file.has(&bias) {
                if !biased {
                    return Err(file.tensor_error(&bias, "supported are the biases of queries, keys and values"));
                }
                biases.resize(rows_before, f16::ZERO);
                biases.extend(vector(file, &bias, *rows)?);
            }
            rows_before += rows;
        }
        if !biases.is_empty() {
            biases.resize(rows_before, f16::ZERO);
        }
        let bias = (!biases.is_empty()).then(|| device.upload(&biases)).transpose()?;
        let part = |(format, rows, blocks)| Part::new(device, format, rows, &loader.blocks[Range::clone(&blocks)]);
        let parts = parts.into_iter().map(part).collect::<Result<_>>()?;
        Ok(Self { parts, columns, bias, interleaved: false })
    }

    /// The weight of gates and ups, `rows` rows each. If both have one Q format, the product
    /// applies the gate.
    ///
    /// # Errors
    /// Same as [`Weight::load`].
    pub fn gated(loader: &mut Loader<'_>, names: [String; 2], rows: usize, columns: usize) -> Result<Self> {
        let [gate, up] = names.each_ref().map(|name| format!("{name}.weight"));
        let format = of_shape(loader.file, &gate, [rows, columns])?.format;
        let halves = [Format::F32, Format::F16, Format::Bf16].contains(&format);
        let alike = of_shape(loader.file, &up, [rows, columns])?.format == format;
        if halves || !alike || !rows.is_multiple_of(GATES) {
            return Self::load(loader, &names.map(|name| (name, rows)), columns, false);
        }
        let file = loader.file;
        let bytes = of_shape(file, &gate, [rows, columns])?.bytes();
        let of_tile = bytes / rows * GATES;
        in_parts(loader.room(0..2 * bytes), 2 * of_tile, |at, part| {
            part.chunks_mut(of_tile).enumerate().try_for_each(|(i, tile)| {
                let name = if i % 2 == 0 { &gate } else { &up };
                file.read_into(name, at / 2 + i / 2 * of_tile, tile)
            })
        })?;
        let parts = vec![Part::new(loader.device, format, 2 * rows, &loader.blocks[..2 * bytes])?];
        Ok(Self { parts, columns, bias: None, interleaved: true })
    }

    /// The weight of an embedding, and its rows as f16, which are shared with the weight if
    /// possible.
    ///
    /// # Errors
    /// Same as [`Weight::load`].
    pub fn embedding(loader: &mut Loader<'_>, name: &str, shape: [usize; 2]) -> Result<(Self, Arc<Buffer<f16>>)> {
        let ((format, end), device) = (loader.read(name, shape, 0)?, loader.device);
        let part = Part::new(device, format, shape[0], &loader.blocks[..end])?;
        let rows = match &part {
            Part::Half(rows, _) => rows.clone(),
            Part::Packed(packed) => {
                let mut rows = device.alloc_uninit(shape[0] * shape[1])?;
                packed.unpack(device, &mut MatrixMut::row_major(&mut rows, shape[0], shape[1])?)?;
                device.default_stream().synchronize()?;
                Arc::new(rows)
            }
        };
        Ok((Self { parts: vec![part], columns: shape[1], bias: None, interleaved: false }, rows))
    }

    /// The number of rows: results for each row of `x`.
    pub fn rows(&self) -> usize {
        self.parts.iter().map(Part::rows).sum()
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Whether it is quantised, so that its product can start with the norm of the rows of `x`.
    pub fn is_packed(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Packed(_)))
    }

    /// Bytes on the device.
    pub fn bytes(&self) -> usize {
        let part = |part: &Part| match part {
            Part::Packed(packed) => packed.bytes(),
            Part::Half(elements, _) => 2 * elements.len(),
        };
        self.parts.iter().map(part).sum::<usize>() + self.bias.as_ref().map_or(0, |bias| 2 * bias.len())
    }
}

/// The tensor, checked to have this shape.
fn of_shape<'a>(file: &'a Gguf, name: &str, shape: [usize; 2]) -> Result<&'a Tensor> {
    let tensor = file.tensor(name)?;
    if tensor.shape != shape {
        let detail = format!("its shape is {:?}, and by the metadata {shape:?}", tensor.shape);
        return Err(file.tensor_error(name, detail));
    }
    Ok(tensor)
}

/// The elements of a tensor with one row.
fn vector(file: &Gguf, name: &str, elements: usize) -> Result<Vec<f16>> {
    let format = of_shape(file, name, [1, elements])?.format;
    Ok(halves(format, &file.read(name)?))
}

/// The input rows of a product.
pub struct Input<'a> {
    /// The rows.
    pub x: Matrix<'a, f16>,
    /// The weights and the epsilon of a norm of the rows before the product, only for quantised
    /// weights.
    pub norm: Option<(Matrix<'a, f16>, f32)>,
}

impl<'a> From<Matrix<'a, f16>> for Input<'a> {
    fn from(x: Matrix<'a, f16>) -> Self {
        Self { x, norm: None }
    }
}

impl<'a> Input<'a> {
    /// The product with quantised weights.
    fn times(&self, weights: &'a PackedWeights) -> LinearQuantized<'a, f16> {
        let product = LinearQuantized::new(self.x.clone(), weights);
        match self.norm.clone() {
            Some((weight, eps)) => product.rms_norm(weight, eps),
            None => product,
        }
    }
}

/// The output rows of a product: the first element, and the stride between rows.
pub struct Rows<'a> {
    /// The memory.
    pub buffer: &'a mut Buffer<f16>,
    /// The first element.
    pub start: usize,
    /// The stride between rows, in elements.
    pub stride: usize,
}

impl<'a> Rows<'a> {
    /// All rows of a buffer, with `columns` columns.
    pub fn all(buffer: &'a mut Buffer<f16>, columns: usize) -> Self {
        Self { buffer, start: 0, stride: columns }
    }
}

/// `y = x w^T + bias`, one row for each token; with `adds` the result is added to `y`.
///
/// # Errors
/// Shapes that do not match, and the errors of the launch.
///
/// # Safety
/// Until the work is complete, no other stream writes `x`, or reads or writes `y`.
pub unsafe fn linear(
    stream: &Stream,
    weight: &Weight,
    input: &Input<'_>,
    y: Rows<'_>,
    adds: bool,
) -> moye::Result<()> {
    let (mut from, x) = (0, &input.x);
    let m = x.rows();
    // The product reads each element of the residual before it writes that element.
    let old = Buffer::<f16>::from_raw_parts(y.buffer.address(), y.buffer.len(), y.buffer.device())?;
    for part in &weight.parts {
        let (rows, start) = (part.rows(), y.start + from);
        let mut to = MatrixMut::new(y.buffer.slice_mut(start..)?, m, rows, (y.stride, 1))?;
        let bias = weight.bias.as_ref().map(|bias| bias.slice(from..from + rows)).transpose()?;
        match part {
            Part::Packed(packed) => {
                let mut product = input.times(packed);
                if adds {
                    product = product.residual(Matrix::new(old.slice(start..)?, m, rows, (y.stride, 1))?);
                } else if let Some(bias) = bias {
                    // The bias is one row for all tokens.
                    product = product.residual(Matrix::new(bias, m, rows, (0, 1))?);
                }
                product.run_on(stream, &mut to)?;
            }
            Part::Half(elements, _) => {
                let weight = Matrix::row_major(&**elements, rows, weight.columns)?;
                let mut product = Matmul::new(x.clone(), weight.t()).beta(if adds { 1.0 } else { 0.0 });
                if let Some(bias) = bias {
                    product = product.bias(bias);
                }
                product.run_on(stream, &mut to)?;
            }
        }
        from += rows;
    }
    Ok(())
}

/// `y = silu(x gate^T) * (x up^T)`, through `both` if the product does not apply the gate.
///
/// # Errors
/// Same as [`linear`].
///
/// # Safety
/// Same contract as [`linear`], also for `both`.
pub unsafe fn gated(
    stream: &Stream,
    weight: &Weight,
    input: &Input<'_>,
    both: &mut Buffer<f16>,
    y: &mut MatrixMut<'_, f16>,
) -> moye::Result<()> {
    let (m, rows) = (input.x.rows(), weight.rows());
    if let (true, [Part::Packed(packed)]) = (weight.interleaved, &weight.parts[..]) {
        return input.times(packed).gated().run_on(stream, y);
    }
    linear(stream, weight, input, Rows::all(both, rows), false)?;
    let both = Matrix::row_major(&*both, m, rows)?;
    Activate::new(Activation::Silu, both).gated().run_on(stream, y)
}
