//! Attention over arrays.

use crate::arguments::{self, Given};
use crate::device::target;
use crate::device::{self, Place};
use crate::lent::Lent;
use crate::operand::{Operand, shape_text};
use crate::tensor::{Tensor, gathered};
use crate::{error, work};
use half::{bf16, f16};
use moye::number::F8E4M3;
use moye::{Attention, AttentionElement, Buffer, Device, Heads, HeadsMut};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The options of attention, without its arrays.
struct Options {
    causal: bool,
    window: Option<(Option<u32>, Option<u32>)>,
    scale: Option<f32>,
    softcap: Option<f32>,
    longest: Option<(usize, usize)>,
    splits: Option<u32>,
    device: Option<String>,
    stream: Option<u64>,
    /// PyTorch's allocator.
    allocate: Option<Py<PyAny>>,
}

impl Options {
    fn of(options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let given = Given(options);
        Ok(Self {
            causal: given.get("causal", "True or False", |causal| causal.extract())?,
            window: given.pair(
                "window",
                "None or (left, right), each an integer of at least 0, or None or -1 for no limit",
                limit,
            )?,
            scale: given.get("scale", "None or a number", |scale| scale.extract())?,
            softcap: given.get("softcap", "None or a positive number", |cap| cap.extract())?,
            longest: given.pair(
                "longest",
                "None or (queries, keys), two integers of at least 0",
                |longest| longest.extract(),
            )?,
            splits: given.get("splits", "None or an integer of at least 1", |splits| splits.extract())?,
            device: given.get("device", arguments::DEVICE, |device| device.extract())?,
            stream: given.get("stream", arguments::STREAM, |stream| stream.extract())?,
            allocate: given.get("allocate", "None or a function", |x| x.extract().map_err(PyErr::from))?,
        })
    }
}

/// A side of a window; -1 is no limit, as in FlashAttention.
fn limit(side: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
    match side.extract::<Option<i64>>()? {
        None | Some(-1) => Ok(None),
        Some(side) => Ok(Some(u32::try_from(side).map_err(|_| error::value("it is out of range"))?)),
    }
}

/// The arrays of a call.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Arrays<'py> {
    q: PyRef<'py, Operand>,
    k: PyRef<'py, Operand>,
    v: PyRef<'py, Operand>,
    out: PyRef<'py, Operand>,
    lse: Option<PyRef<'py, Operand>>,
    bias: Option<PyRef<'py, Operand>>,
    mask: Option<PyRef<'py, Operand>>,
    alibi: Option<PyRef<'py, Operand>>,
    sinks: Option<PyRef<'py, Operand>>,
    q_scale: Option<PyRef<'py, Operand>>,
    k_scale: Option<PyRef<'py, Operand>>,
    v_scale: Option<PyRef<'py, Operand>>,
    q_offsets: Option<PyRef<'py, Operand>>,
    k_offsets: Option<PyRef<'py, Operand>>,
    key_lengths: Option<PyRef<'py, Operand>>,
    page_table: Option<PyRef<'py, Operand>>,
}

/// The shape of the result: queries' batches, heads and tokens, and the columns of values.
#[pyfunction]
pub fn attention_result(q: &Operand, v: &Operand) -> PyResult<Vec<usize>> {
    let ([batches, heads, tokens, _], [_, _, _, columns]) = (four("q", q)?, four("v", v)?);
    Ok(vec![batches, heads, tokens, columns])
}

/// Computes attention into `out`.
#[pyfunction]
pub fn attention(py: Python<'_>, arrays: Arrays<'_>, options: &Bound<'_, PyDict>) -> PyResult<()> {
    let options = Options::of(options)?;
    arrays.check()?;
    match arrays.q.dtype.name {
        "float16" => attend::<f16>(py, &arrays, &options),
        "bfloat16" => attend::<bf16>(py, &arrays, &options),
        "float8_e4m3fn" => attend::<F8E4M3>(py, &arrays, &options),
        name => Err(error::kind(format!(
            "q has elements of {name}; attention is of float16, bfloat16 and float8_e4m3fn; convert it"
        ))),
    }
}

/// The extents of a tensor (batch, head, token, column).
fn four(name: &str, operand: &Operand) -> PyResult<[usize; 4]> {
    <[usize; 4]>::try_from(operand.shape.as_slice()).map_err(|_| {
        error::value(format!(
            "{name} has shape {}, and must be (batches, heads, tokens, columns); reshape it",
            operand.shape_text()
        ))
    })
}

impl Arrays<'_> {
    /// The arrays that are read, with their names.
    fn read(&self) -> impl Iterator<Item = (&'static str, &Operand)> {
        let options = [
            ("bias", &self.bias),
            ("mask", &self.mask),
            ("alibi", &self.alibi),
            ("sinks", &self.sinks),
            ("q_scale", &self.q_scale),
            ("k_scale", &self.k_scale),
            ("v_scale", &self.v_scale),
            ("q_offsets", &self.q_offsets),
            ("k_offsets", &self.k_offsets),
            ("key_lengths", &self.key_lengths),
            ("page_table", &self.page_table),
        ];
        let options = options.into_iter().filter_map(|(name, array)| Some((name, &**array.as_ref()?)));
        [("q", &*self.q), ("k", &*self.k), ("v", &*self.v)].into_iter().chain(options)
    }

    /// Checks that all arrays are on one device, have elements of the right types, and that the
    /// outputs share no memory with the other arrays.
    fn check(&self) -> PyResult<()> {
        let element = self.q.dtype.name;
        for (name, array) in self.read() {
            array.expect_place(name, "q", self.q.place)?;
            let wanted = match name {
                "q" | "k" | "v" | "bias" => element,
                "mask" => "bool",
                "alibi" | "sinks" | "q_scale" | "k_scale" | "v_scale" => "float32",
                _ => "int32",
            };
            array.expect_dtype(name, wanted)?;
        }
        let results = if element == "float8_e4m3fn" { "bfloat16" } else { element };
        let written = [("out", Some(&self.out), results), ("lse", self.lse.as_ref(), "float32")];
        for (name, array, wanted) in written {
            let Some(array) = array else { continue };
            array.expect_place(name, "q", self.q.place)?;
            array.expect_dtype(name, wanted)?;
            array.expect_writable(name)?;
            if let Place::Gpu(_) = array.place {
                for (other_name, other) in self.read() {
                    array.expect_apart(name, other_name, other)?;
                }
            }
        }
        if let Some(lse) = &self.lse
            && let Place::Gpu(_) = lse.place
        {
            self.out.expect_apart("out", "lse", lse)?;
        }
        if self.k_offsets.is_some() && self.q_offsets.is_none() {
            return Err(error::value(
                "k_offsets are given without q_offsets: variable length needs where the sequences of both begin",
            ));
        }
        self.check_numbers()
    }

    /// Checks that indices on the host point into the tensors. On a GPU the caller guarantees it,
    /// as reading them would wait for the device.
    fn check_numbers(&self) -> PyResult<()> {
        if self.q.place != Place::Host {
            return Ok(());
        }
        for (name, scales) in [("q_scale", &self.q_scale), ("k_scale", &self.k_scale)] {
            let Some(scales) = scales else { continue };
            let (factors, _) = gathered::<f32>(scales);
            if let Some(factor) = factors.iter().find(|&&factor| !(factor > 0.0 && factor.is_finite())) {
                return Err(error::value(format!("{name} has {factor}, and its factors must be positive")));
            }
        }
        let tokens = |name: &str, array: &Operand| four(name, array).map(|[_, _, tokens, _]| tokens);
        for (name, offsets, (of, tensor)) in
            [("q_offsets", &self.q_offsets, ("q", &self.q)), ("k_offsets", &self.k_offsets, ("k", &self.k))]
        {
            let Some(offsets) = offsets else { continue };
            let (numbers, all) = (integers(name, offsets)?, tokens(of, tensor)?);
            let ascends = numbers.windows(2).all(|pair| pair[0] <= pair[1]);
            let fits = numbers.first().is_none_or(|&first| first >= 0)
                && numbers.last().is_none_or(|&last| last as usize <= all);
            if !ascends || !fits {
                return Err(error::value(format!(
                    "{name} is {numbers:?}: it must ascend from 0 to at most the {all} tokens of {of}"
                )));
            }
        }
        let (Some(lengths), table) = (&self.key_lengths, &self.page_table) else {
            return match &self.page_table {
                Some(table) => self.check_pages(&integers("page_table", table)?),
                None => Ok(()),
            };
        };
        let numbers = integers("key_lengths", lengths)?;
        let page = tokens("k", &self.k)?;
        let per_sequence = table.as_ref().map(|table| pages_of_a_sequence(table)).transpose()?;
        let room = page * per_sequence.unwrap_or(1);
        if let Some(wrong) = numbers.iter().find(|&&length| length < 0 || length as usize > room) {
            return Err(error::value(format!(
                "key_lengths has {wrong}, and there is room for 0 to {room} keys"
            )));
        }
        if let (Some(table), Some(per_sequence)) = (table, per_sequence) {
            let all = integers("page_table", table)?;
            let used = all.chunks(per_sequence.max(1)).zip(&numbers).flat_map(|(pages, &length)| {
                &pages[..(length as usize).div_ceil(page.max(1)).min(pages.len())]
            });
            let used: Vec<i32> = used.copied().collect();
            self.check_pages(&used)?;
        }
        Ok(())
    }

    /// Checks that the pages that hold keys exist.
    fn check_pages(&self, numbers: &[i32]) -> PyResult<()> {
        let [pages, ..] = four("k", &self.k)?;
        match numbers.iter().find(|&&page| page < 0 || page as usize >= pages) {
            Some(page) => {
                Err(error::value(format!("page_table has page {page}, and k has pages 0 to {pages} - 1")))
            }
            None => Ok(()),
        }
    }

    /// The longest sequences: those given, else from the offsets on the host, else all tokens.
    fn longest(&self, options: &Options) -> PyResult<[usize; 2]> {
        let mut longest = [0; 2];
        let of = [("q", &self.q, &self.q_offsets), ("k", &self.k, &self.k_offsets)];
        for (longest, (name, tensor, offsets)) in longest.iter_mut().zip(of) {
            let [_, _, tokens, _] = four(name, tensor)?;
            *longest = match offsets {
                Some(offsets) if offsets.place == Place::Host => integers(name, offsets)?
                    .windows(2)
                    .map(|pair| (pair[1] - pair[0]) as usize)
                    .max()
                    .unwrap_or(0),
                _ => tokens,
            };
        }
        if let Some((queries, keys)) = options.longest {
            if self.q.place == Place::Host && (queries < longest[0] || keys < longest[1]) {
                return Err(error::value(format!(
                    "longest is ({queries}, {keys}), and the longest sequences have {} queries and {} keys",
                    longest[0], longest[1]
                )));
            }
            return Ok([queries, keys]);
        }
        Ok(longest)
    }
}

/// The integers of a vector or table on the host.
fn integers(name: &str, array: &Operand) -> PyResult<Vec<i32>> {
    array.expect_dtype(name, "int32")?;
    let (numbers, strides) = gathered::<i32>(array);
    // A repeated integer is stored once; tables are read as they are laid out.
    if array.shape.iter().zip(strides).any(|(&extent, stride)| extent > 1 && stride == 0) {
        return Err(error::value(format!("{name} repeats its elements by a stride of 0; copy it")));
    }
    Ok(numbers)
}

fn pages_of_a_sequence(table: &Operand) -> PyResult<usize> {
    match table.shape[..] {
        [_, pages] => Ok(pages),
        _ => Err(error::value(format!(
            "page_table has shape {}, and must be (batches, pages of a sequence)",
            table.shape_text()
        ))),
    }
}

/// A contiguous array as a buffer.
fn contiguous<T: moye::Element>(
    device: &Device,
    operand: &Operand,
    name: &str,
    shapes: &[&[usize]],
) -> PyResult<Buffer<T>> {
    if !shapes.contains(&operand.shape.as_slice()) {
        let wanted: Vec<String> = shapes.iter().map(|shape| shape_text(shape)).collect();
        return Err(error::value(format!(
            "{name} has shape {}, and must have {}",
            operand.shape_text(),
            wanted.join(" or ")
        )));
    }
    let compact = moye_python_support::dlpack::compact(&operand.shape);
    let strides = operand.shape.iter().zip(&operand.strides).zip(compact.iter().flatten());
    let is_compact = strides.into_iter().all(|((&extent, own), compact)| extent <= 1 || own == compact);
    if operand.place != Place::Host && !is_compact {
        return Err(error::value(format!(
            "{name} has strides {:?}, and must be contiguous; copy it",
            operand.strides
        )));
    }
    if operand.place == Place::Host && operand.strides.contains(&0) && !is_compact {
        return Err(error::value(format!("{name} repeats its elements by a stride of 0; copy it")));
    }
    Ok(Tensor::read(device, operand, name)?.buffer)
}

/// Strides of a tensor of scores: shorter shapes and extents of 1 repeat, as in NumPy's
/// broadcasting.
fn broadcast(name: &str, operand: &Operand, strides: &[usize], extents: [usize; 4]) -> PyResult<[usize; 4]> {
    let rank = operand.shape.len();
    let fits = rank <= 4
        && operand.shape.iter().zip(&extents[4 - rank.min(4)..]).all(|(&own, &all)| own == all || own == 1);
    if !fits {
        return Err(error::value(format!(
            "{name} has shape {}, which does not go with the scores' {}",
            operand.shape_text(),
            shape_text(&extents)
        )));
    }
    let mut all = [0; 4];
    for mode in 0..rank {
        let extent = operand.shape[mode];
        all[4 - rank + mode] = if extent == 1 { 0 } else { strides[mode] };
    }
    Ok(all)
}

/// The strides of batches, heads and tokens of a tensor whose columns are contiguous.
fn of_heads(name: &str, operand: &Operand, strides: &[usize]) -> PyResult<[usize; 3]> {
    let [.., columns] = four(name, operand)?;
    if columns > 1 && strides[3] != 1 {
        return Err(error::value(format!(
            "the columns of {name} have a stride of {}, and must be contiguous; copy it",
            strides[3]
        )));
    }
    Ok([strides[0], strides[1], strides[2]])
}

/// An element type of attention.
trait Attended: AttentionElement {
    /// The call with the scale factors of Q, K and V; `None` if the type has none.
    fn scaled<'a>(call: Attention<'a, Self>, scales: [&'a Buffer<f32>; 3]) -> Option<Attention<'a, Self>>;
}

macro_rules! without_scales {
    ($($t:ty)+) => { $(
        impl Attended for $t {
            fn scaled<'a>(_: Attention<'a, Self>, _: [&'a Buffer<f32>; 3]) -> Option<Attention<'a, Self>> {
                None
            }
        }
    )+ };
}
without_scales!(f16 bf16);

impl Attended for F8E4M3 {
    fn scaled<'a>(call: Attention<'a, Self>, [q, k, v]: [&'a Buffer<f32>; 3]) -> Option<Attention<'a, Self>> {
        Some(call.scales(q, k, v))
    }
}

fn attend<T: Attended>(py: Python<'_>, arrays: &Arrays<'_>, options: &Options) -> PyResult<()> {
    let (q, k, v, out) = (&*arrays.q, &*arrays.k, &*arrays.v, &*arrays.out);
    let (shape_q, shape_k) = (four("q", q)?, four("k", k)?);
    let wanted = attention_result(q, v)?;
    if out.shape != wanted {
        return Err(error::value(format!(
            "out has shape {}, and the result {}",
            out.shape_text(),
            shape_text(&wanted)
        )));
    }
    let (device, stream) = target(q.place, options.device.as_deref(), options.stream)?;
    let lent = Lent::default();
    let stream = lent.on(stream, options.allocate.as_ref().map(|allocate| allocate.clone_ref(py)));
    let [batches, heads, tokens, _] = shape_q;
    let (in_q, in_k, in_v) = (
        Tensor::<T>::read(&device, q, "q")?,
        Tensor::<T>::read(&device, k, "k")?,
        Tensor::<T>::read(&device, v, "v")?,
    );
    // Tokens of no sequence keep the elements of the caller's arrays.
    let is_partial = arrays.q_offsets.is_some();
    let mut result = match is_partial {
        true => Tensor::<T::Output>::read(&device, out, "out")?,
        false => Tensor::<T::Output>::written(&device, out, "out")?,
    };
    let view = |name, operand: &Operand, tensor: &'_ Tensor<T>| {
        Ok::<_, PyErr>((four(name, operand)?, of_heads(name, operand, &tensor.strides)?))
    };
    let heads_of =
        |tensor, (extents, strides)| Heads::strided(tensor, extents, strides).map_err(error::raised);
    let mut call = Attention::<T>::new(
        heads_of(&in_q.buffer, view("q", q, &in_q)?)?,
        heads_of(&in_k.buffer, view("k", k, &in_k)?)?,
        heads_of(&in_v.buffer, view("v", v, &in_v)?)?,
    );
    if options.causal {
        call = call.causal();
    }
    if let Some((left, right)) = options.window {
        call = call.window(left, right);
    }
    if let Some(scale) = options.scale {
        call = call.scale(scale);
    }
    if let Some(cap) = options.softcap {
        if cap.is_nan() || cap <= 0.0 {
            return Err(error::value(format!(
                "softcap is {cap}, and must be positive; leave it out for none"
            )));
        }
        call = call.softcap(cap);
    }
    if let Some(splits) = options.splits {
        call = call.splits(splits);
    }

    let sequences = arrays
        .q_offsets
        .as_ref()
        .map_or(batches, |offsets| offsets.shape.iter().product::<usize>().saturating_sub(1));
    let longest = arrays.longest(options)?;
    let per_sequence = arrays.page_table.as_deref().map(pages_of_a_sequence).transpose()?;
    let keys = per_sequence.map_or(shape_k[2], |pages| pages * shape_k[2]);
    let of_longest = |offsets: bool, longest: usize, all: usize| if offsets { longest } else { all };
    let extents = [
        sequences,
        heads,
        of_longest(arrays.q_offsets.is_some(), longest[0], tokens),
        of_longest(arrays.k_offsets.is_some(), longest[1], keys),
    ];
    // The call borrows this until it has been launched.
    let bias =
        arrays.bias.as_deref().map(|bias| Ok::<_, PyErr>((bias, Tensor::<T>::read(&device, bias, "bias")?)));
    let bias = bias.transpose()?;
    if let Some((operand, tensor)) = &bias {
        call = call.bias(&tensor.buffer, broadcast("bias", operand, &tensor.strides, extents)?);
    }
    let mask =
        arrays.mask.as_deref().map(|mask| Ok::<_, PyErr>((mask, Tensor::<u8>::read(&device, mask, "mask")?)));
    let mask = mask.transpose()?;
    if let Some((operand, tensor)) = &mask {
        call = call.mask(&tensor.buffer, broadcast("mask", operand, &tensor.strides, extents)?);
    }
    macro_rules! vector {
        ($field:ident: $t:ty, $($shape:expr),+) => {
            arrays.$field.as_deref().map(|array| {
                contiguous::<$t>(&device, array, stringify!($field), &[$(&$shape),+])
            }).transpose()?
        };
    }
    let alibi = vector!(alibi: f32, [heads], [sequences, heads]);
    if let Some(slopes) = &alibi {
        call = call.alibi(slopes);
    }
    let sinks = vector!(sinks: f32, [heads]);
    if let Some(sinks) = &sinks {
        call = call.sinks(sinks);
    }
    let kv_heads = shape_k[1];
    let scales = [
        vector!(q_scale: f32, [1], [heads], [batches, heads]),
        vector!(k_scale: f32, [1], [kv_heads], [batches, kv_heads]),
        vector!(v_scale: f32, [1], [kv_heads], [batches, kv_heads]),
    ];
    // Factors that are not given while others are count as 1.
    let given = scales.iter().filter(|scale| scale.is_some()).count();
    let one = if given.is_multiple_of(3) { None } else { Some(device::one(&device)?) };
    if let [Some(q_scale), Some(k_scale), Some(v_scale)] =
        scales.each_ref().map(|scale| scale.as_ref().or(one.as_deref()))
    {
        let scales = [q_scale, k_scale, v_scale];
        call = T::scaled(call, scales).ok_or_else(|| {
            error::value(format!(
                "q_scale, k_scale and v_scale are for float8_e4m3fn, and q has elements of {}; use scale",
                q.dtype.name
            ))
        })?;
    }
    let (q_offsets, k_offsets) =
        (vector!(q_offsets: i32, [sequences + 1]), vector!(k_offsets: i32, [sequences + 1]));
    if let Some(queries) = &q_offsets {
        // SAFETY: indices on the host were checked; the caller guarantees those on a GPU.
        call = unsafe {
            match &k_offsets {
                Some(keys) => call.variable_length(queries, keys, longest),
                None => call.variable_queries(queries, longest[0]),
            }
        };
    }
    let key_lengths = vector!(key_lengths: i32, [sequences]);
    if let Some(lengths) = &key_lengths {
        // SAFETY: as above.
        call = unsafe { call.key_lengths(lengths) };
    }
    let page_table = vector!(page_table: i32, [sequences, per_sequence.unwrap_or(0)]);
    if let (Some(table), Some(per_sequence)) = (&page_table, per_sequence) {
        // SAFETY: as above.
        call = unsafe { call.pages(table, per_sequence) };
    }
    let mut lse = arrays
        .lse
        .as_deref()
        .map(|lse| {
            // The layout is checked like that of an input; a new buffer receives the results of the
            // host.
            if lse.place != Place::Host || lse.shape != [batches, heads, tokens] {
                contiguous::<f32>(&device, lse, "lse", &[&[batches, heads, tokens]])?;
            }
            match is_partial {
                true => Tensor::<f32>::read(&device, lse, "lse"),
                false => Tensor::<f32>::written(&device, lse, "lse"),
            }
        })
        .transpose()?;
    if let Some(lse) = &mut lse {
        call = call.lse(&mut lse.buffer);
    }
    {
        let strides = of_heads("out", out, &result.strides)?;
        let extents = four("out", out)?;
        let mut o = HeadsMut::strided(&mut result.buffer, extents, strides).map_err(error::raised)?;
        // SAFETY: outputs share no memory with inputs. On a GPU the arrays' library launches what
        // uses them on this stream; from the host the default stream orders its work.
        let ran = work::run(py, &device, || unsafe { call.run_on(&stream, &mut o) });
        ran.map_err(|error| lent.error().unwrap_or(error))?;
    }
    drop(call);
    result.give_back(out)?;
    if let (Some(tensor), Some(operand)) = (&lse, arrays.lse.as_deref()) {
        tensor.give_back(operand)?;
    }
    Ok(())
}
