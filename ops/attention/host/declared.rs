//! Attention as a declared operation, from which the program's command, Python's function and the
//! test are built. A call is passed to the builder of its element type.

use super::builder::{Attention, Offsets, Pages, ScoreTensor};
use super::element::AttentionElement;
use super::heads::{Heads, HeadsMut, OPERATION};
use super::{cases, known, reference};
use half::{bf16, f16};
use moye_device::memory::Element;
use moye_device::number::F8E4M3;
use moye_runtime::operation::{
    Array, ArrayType, Call, Declaration, Dtype, MemoryLayout, OperandOf, OptionOf, Options, Role, Value,
    shape_text,
};
use moye_runtime::{Buffer, Error, Result, Stream};
use std::borrow::Cow;

/// The element types of queries, keys and values.
pub(super) const ELEMENTS: &[Dtype] = &[
    #[cfg(feature = "bf16")]
    Dtype::Bf16,
    #[cfg(feature = "f16")]
    Dtype::F16,
    #[cfg(feature = "e4m3")]
    Dtype::E4m3,
];
/// The element types of results and of a bias.
const HALVES: &[Dtype] = &[
    #[cfg(any(feature = "bf16", feature = "e4m3"))]
    Dtype::Bf16,
    #[cfg(feature = "f16")]
    Dtype::F16,
];

const fn tensor(name: &'static str, about: &'static str) -> OperandOf {
    OperandOf::new(Role::Input, name, about).of(ELEMENTS).laid_out(MemoryLayout::Rows)
}

const fn vector(name: &'static str, dtypes: &'static [Dtype], about: &'static str) -> OperandOf {
    OperandOf::new(Role::Optional, name, about).of(dtypes).laid_out(MemoryLayout::Contiguous).by_name()
}

/// The summary, and what holds for all operands and options.
const SUMMARY: &str = "\
attention, softmax(scale * q @ k.T) @ v for each head, with no score matrix in memory

All arrays are of one library, on one device. Columns are contiguous, and the other strides multiples
of 16 bytes: ``x.transpose(1, 2)`` of (batches, tokens, heads, columns) costs nothing. Heads of ``q``
may share those of ``k`` and ``v`` (GQA, MQA): their number is a multiple. The last query is at the
position of the last key. A query that attends to no key has a result of zero and a log-sum-exp of
minus infinity. Only minus infinity masks a key: every finite score counts.

D is 64, 80, 96, 128, 192 or 256, and DV is D, or 128 if D is 192. float8_e4m3fn is for Hopper, D 64,
128 or 256, with masks by ``causal`` and ``window``; factors of its ``q`` and ``k`` must be positive.

NaN and infinity in ``k`` and ``v`` reach the results of the queries that see the key, and of no
other: not past a sequence's last key or before a window, nor in unused slots of pages, tokens of no
sequence, and keys that ``causal`` or ``mask`` hides.

Sequences of variable length (``q_offsets``) follow each other along the tokens of the one batch of
``q``: a tensor (tokens, heads, D) becomes such a batch by ``x.transpose(0, 1)[None]``. Tokens of no
sequence are left unchanged in ``out``; in a new array they are zero, with a log-sum-exp of minus
infinity. Without ``k_offsets``, ``k`` and ``v`` have one batch for each sequence, or pages.
``page_table`` requires ``key_lengths``, and the number of tokens of a page is a power of two.

Offsets, lengths, page numbers and factors of arrays on the host are checked. On a GPU they are not:
wrong ones read and write other memory.";

/// Indices of [`ATTENTION`]'s operands.
mod at {
    pub const BIAS: usize = 3;
    pub const MASK: usize = 4;
    pub const ALIBI: usize = 5;
    pub const SINKS: usize = 6;
    pub const SCALES: usize = 7;
    pub const Q_OFFSETS: usize = 10;
    pub const K_OFFSETS: usize = 11;
    pub const KEY_LENGTHS: usize = 12;
    pub const PAGE_TABLE: usize = 13;
    pub const OUT: usize = 14;
    pub const LSE: usize = 15;
}

/// Attention.
pub static ATTENTION: Declaration = Declaration {
    name: OPERATION,
    summary: SUMMARY,
    operands: &[
        tensor("q", "(batches, heads, queries, D) of bfloat16 or float16, on Hopper also of float8_e4m3fn"),
        tensor("k", "(batches, KV heads, keys, D), of the type of q; heads are a multiple of KV heads"),
        tensor("v", "(batches, KV heads, keys, DV), of the type of q"),
        OperandOf::new(
            Role::Optional,
            "bias",
            "added to the scores, of the type of q, broadcast to (batches, heads, queries, keys)",
        )
        .of(HALVES)
        .by_name(),
        OperandOf::new(Role::Optional, "mask", "bool, broadcast like bias: False hides a key from a query")
            .of(&[Dtype::Bool])
            .by_name(),
        vector("alibi", &[Dtype::F32], "(heads,) or (batches, heads) of float32: the slopes of ALiBi"),
        vector("sinks", &[Dtype::F32], "(heads,) of float32: a score without a value, part of the softmax"),
        vector(
            "q_scale",
            &[Dtype::F32],
            "factors of float8_e4m3fn: (1,), (heads,) or (batches, heads) of float32",
        )
        .known(known::scales),
        vector("k_scale", &[Dtype::F32], "as q_scale, by the KV heads").known(known::scales),
        vector("v_scale", &[Dtype::F32], "as k_scale"),
        vector(
            "q_offsets",
            &[Dtype::I32],
            "(sequences + 1,) of int32: where each sequence begins and ends in the tokens of q, of one batch",
        )
        .known(known::offsets),
        vector("k_offsets", &[Dtype::I32], "as q_offsets, in the tokens of k and v").known(known::offsets),
        vector(
            "key_lengths",
            &[Dtype::I32],
            "(sequences,) of int32: the keys of each sequence, of a partly filled cache",
        )
        .known(known::lengths),
        vector(
            "page_table",
            &[Dtype::I32],
            "(sequences, pages) of int32: k and v are (pages, KV heads, tokens of a page, columns)",
        )
        .known(known::pages),
        OperandOf::new(
            Role::Result,
            "out",
            "(batches, heads, queries, DV), of the type of q; bfloat16 for 8 bits",
        )
        .of(HALVES)
        .laid_out(MemoryLayout::Rows)
        .partial("q_offsets", 0.0),
        OperandOf::new(
            Role::OptionalResult,
            "lse",
            "(batches, heads, queries) of float32: the natural logarithm of each row's sum of exponentials",
        )
        .of(&[Dtype::F32])
        .laid_out(MemoryLayout::Contiguous)
        .partial("q_offsets", f64::NEG_INFINITY)
        .returned_if("return_lse"),
    ],
    options: &[
        OptionOf::new(
            "causal",
            "hide the keys after a query's position; the last query is at the position of the last key",
            Value::Bool(false),
        ),
        OptionOf::new(
            "window",
            "hide the keys more than L before or R after a query's position; with causal both hold",
            Value::Unset(&Value::Pair([None; 2])),
        )
        .takes("None or (left, right), each an integer of at least 0, or None or -1 for no limit"),
        OptionOf::new(
            "scale",
            "the factor of the scores, 1 / sqrt(D) by default",
            Value::Unset(&Value::Float(1.0)),
        )
        .takes("None or a number"),
        OptionOf::new(
            "softcap",
            "a score s becomes softcap * tanh(s / softcap)",
            Value::Unset(&Value::Float(1.0)),
        )
        .takes("None or a positive number"),
        OptionOf::new(
            "longest",
            "the most queries and keys of a sequence, for offsets on a GPU (default: all tokens)",
            Value::Unset(&Value::Pair([Some(0); 2])),
        )
        .takes("None or (queries, keys), two integers of at least 0"),
        OptionOf::new(
            "splits",
            "the number of splits of the keys, chosen by shape and device by default",
            Value::Unset(&Value::Int(1)),
        )
        .takes("None or an integer of at least 1"),
    ],
    results,
    // SAFETY: the contract of `Declaration::run`.
    run: |stream, call| unsafe { by_type(stream, call, false).map(drop) },
    // SAFETY: nothing is launched.
    explain: |stream, call| unsafe { by_type(stream, call, true) },
    reference: reference::reference,
    tolerance: |dtype| if dtype == Dtype::Bf16 { 8e-3 } else { 1e-3 },
    cases: cases::CASES,
    bench: cases::BENCH,
};

fn mismatch<T>(detail: String) -> Result<T> {
    Err(Error::ShapeMismatch { operation: OPERATION, detail })
}

fn unsupported<T>(detail: String) -> Result<T> {
    Err(Error::Unsupported { operation: OPERATION, detail })
}

/// The extents of a tensor (batch, head, token, column).
fn four(name: &str, shape: &[usize]) -> Result<[usize; 4]> {
    shape.try_into().or_else(|_| {
        mismatch(format!(
            "{name} has shape {}, and must be (batches, heads, tokens, columns); reshape it",
            shape_text(shape)
        ))
    })
}

/// The types of `out` and `lse`.
fn results(inputs: &[Option<ArrayType>], _: &Options) -> Result<Vec<ArrayType>> {
    let [Some(q), Some(k), Some(v), ..] = inputs else { return mismatch("q, k and v are needed".to_owned()) };
    let [batches, heads, tokens, _] = four("q", &q.shape)?;
    let ([..], [.., columns]) = (four("k", &k.shape)?, four("v", &v.shape)?);
    let of_q = [("k", 1), ("v", 2), ("bias", at::BIAS)];
    for (name, input) in of_q.into_iter().filter_map(|(name, index)| Some((name, inputs[index].as_ref()?))) {
        if input.dtype != q.dtype {
            let detail =
                format!("{name} has elements of {}, and must have {}; convert it", input.dtype, q.dtype);
            return Err(Error::ElementType { operation: OPERATION, detail });
        }
    }
    let dtype = if q.dtype == Dtype::E4m3 { Dtype::Bf16 } else { q.dtype };
    Ok(vec![
        ArrayType { dtype, shape: vec![batches, heads, tokens, columns] },
        ArrayType { dtype: Dtype::F32, shape: vec![batches, heads, tokens] },
    ])
}

/// Computes or explains a call, by the type of its elements.
///
/// # Safety
/// Same contract as [`Declaration::run`], if it is computed.
unsafe fn by_type(stream: &Stream, call: &Call<'_>, explains: bool) -> Result<Cow<'static, str>> {
    // SAFETY: the call's arrays stay valid until the work is complete.
    unsafe {
        match call.operand(0).dtype {
            #[cfg(feature = "f16")]
            Dtype::F16 => typed::<f16>(stream, call, explains),
            #[cfg(feature = "bf16")]
            Dtype::Bf16 => typed::<bf16>(stream, call, explains),
            #[cfg(feature = "e4m3")]
            Dtype::E4m3 => typed::<F8E4M3>(stream, call, explains),
            other => {
                unsupported(format!("q has elements of {other}, for which there are no kernels; convert it"))
            }
        }
    }
}

/// An option's value as f32; an error if f32 rounds it to infinity or to 0.
fn single(options: &Options, name: &str) -> Result<Option<f32>> {
    if !options.is_set(name) {
        return Ok(None);
    }
    let given = options.float(name);
    let nearest = given as f32;
    if nearest.is_infinite() != given.is_infinite() || (nearest == 0.0) != (given == 0.0) {
        return unsupported(format!(
            "{name} is {given:e}, which float32 does not hold; give one from 1e-38 to 1e8"
        ));
    }
    Ok(Some(nearest))
}

/// The strides of a tensor of scores, broadcast to these extents.
fn broadcast(name: &str, array: &Array, extents: [usize; 4]) -> Result<[usize; 4]> {
    let wrong = |_| {
        let [of, to] = [&array.shape[..], &extents].map(shape_text);
        let detail = format!("{name} has shape {of}, which does not broadcast to the scores' {to}");
        Error::ShapeMismatch { operation: OPERATION, detail }
    };
    let strides = array.strides_as(OPERATION, &extents).map_err(wrong)?;
    let mut all = [0; 4];
    for (own, (stride, extent)) in all.iter_mut().zip(strides.into_iter().zip(extents)) {
        *own = if extent > 1 { usize::try_from(stride).or_else(|_| negative(name, stride))? } else { 0 };
    }
    Ok(all)
}

fn negative<T>(name: &str, stride: i64) -> Result<T> {
    unsupported(format!("{name} has a stride of {stride}, and must have none below 0; copy it"))
}

/// The strides of batches, heads and tokens.
fn strides(name: &str, array: &Array) -> Result<[usize; 3]> {
    let mut strides = [0; 3];
    for (own, (&stride, &extent)) in strides.iter_mut().zip(array.strides.iter().zip(&array.shape)) {
        *own = if extent > 1 { usize::try_from(stride).or_else(|_| negative(name, stride))? } else { 0 };
    }
    Ok(strides)
}

/// Refuses a vector or table of a different shape.
fn expect(name: &str, array: Option<&Array>, shapes: &[&[usize]]) -> Result<()> {
    let Some(array) = array.filter(|array| !shapes.contains(&&array.shape[..])) else { return Ok(()) };
    let wanted: Vec<_> = shapes.iter().map(|shape| shape_text(shape)).collect();
    let own = shape_text(&array.shape);
    mismatch(format!("{name} has shape {own}, and must have {}", wanted.join(" or ")))
}

/// Computes or explains a call of elements `T`.
///
/// # Safety
/// Same contract as [`Declaration::run`], if it is computed.
unsafe fn typed<T: AttentionElement>(
    stream: &Stream,
    call: &Call<'_>,
    explains: bool,
) -> Result<Cow<'static, str>> {
    let (device, options) = (stream.device(), call.options);
    let given = |index: usize| call.operands[index].as_ref();
    // SAFETY: the arrays stay valid until the work is complete.
    let tensor = |name, index| unsafe { call.operand(index).buffer::<T>(OPERATION, name, device) };
    macro_rules! optional {
        ($index:expr, $t:ty) => {
            // SAFETY: the array stays valid until the work is complete.
            given($index)
                .map(|array| unsafe {
                    array.buffer::<$t>(OPERATION, ATTENTION.operands[$index].name, device)
                })
                .transpose()?
        };
    }
    let [q, k, v, out] = [0, 1, 2, at::OUT].map(|index| call.operand(index));
    call.check_apart(OPERATION, &ATTENTION, at::OUT, &[])?;
    let [in_q, in_k, in_v] = [tensor("q", 0)?, tensor("k", 1)?, tensor("v", 2)?];
    let heads = |name, buffer, array: &Array| {
        Heads::<T>::strided(buffer, four(name, &array.shape)?, strides(name, array)?)
    };
    let ([batches, query_heads, q_tokens, _], [k_batches, kv_heads, k_tokens, _]) =
        (four("q", &q.shape)?, four("k", &k.shape)?);
    let mut attention = Attention::new(heads("q", &in_q, q)?, heads("k", &in_k, k)?, heads("v", &in_v, v)?);
    if options.bool("causal") {
        attention = attention.causal();
    }
    if options.is_set("window") {
        let [left, right] = options.pair("window").map(|side| side.and_then(|side| u32::try_from(side).ok()));
        attention = attention.window(left, right);
    }
    attention.scale = single(options, "scale")?;
    if let Some(cap) = single(options, "softcap")? {
        if cap.is_nan() || cap <= 0.0 {
            return unsupported(format!("softcap is {cap}, and must be positive; leave it out for none"));
        }
        attention = attention.softcap(cap);
    }
    if options.is_set("splits") {
        let splits = options.int("splits");
        let Ok(splits) = u32::try_from(splits) else {
            return unsupported(format!("splits is {splits}, and must be None or an integer of at least 1"));
        };
        attention = attention.splits(splits);
    }

    let (q_offsets, k_offsets) = (given(at::Q_OFFSETS), given(at::K_OFFSETS));
    if k_offsets.is_some() && q_offsets.is_none() {
        return mismatch(
            "k_offsets are given without q_offsets: variable length needs where the sequences of both begin"
                .into(),
        );
    }
    let sequences = q_offsets.map_or(batches, |offsets| offsets.elements().saturating_sub(1));
    let longest = match options.is_set("longest") {
        true => options.pair("longest").map(|longest| longest.unwrap_or(0) as usize),
        false => [q_tokens, k_tokens],
    };
    let per_sequence = match given(at::PAGE_TABLE).map(|table| &table.shape[..]) {
        None => None,
        Some(&[_, pages]) => Some(pages),
        Some(shape) => {
            let own = shape_text(shape);
            return mismatch(format!(
                "page_table has shape {own}, and must be (sequences, pages of a sequence)"
            ));
        }
    };
    let extents = [
        sequences,
        query_heads,
        if q_offsets.is_some() { longest[0] } else { q_tokens },
        match (k_offsets, per_sequence) {
            (Some(_), _) => longest[1],
            (None, Some(pages)) => pages.saturating_mul(k_tokens),
            (None, None) => k_tokens,
        },
    ];
    let each = |name, index, heads: usize| {
        expect(
            name,
            given(index),
            &[&[1], &[heads], &[if index == at::SCALES { batches } else { k_batches }, heads]],
        )
    };
    expect("alibi", given(at::ALIBI), &[&[query_heads], &[sequences, query_heads]])?;
    expect("sinks", given(at::SINKS), &[&[query_heads]])?;
    each("q_scale", at::SCALES, query_heads)?;
    each("k_scale", at::SCALES + 1, kv_heads)?;
    each("v_scale", at::SCALES + 2, kv_heads)?;
    expect("q_offsets", q_offsets, &[&[sequences + 1]])?;
    expect("k_offsets", k_offsets, &[&[sequences + 1]])?;
    expect("key_lengths", given(at::KEY_LENGTHS), &[&[sequences]])?;
    expect("page_table", given(at::PAGE_TABLE), &[&[sequences, per_sequence.unwrap_or(0)]])?;

    let bias = optional!(at::BIAS, T);
    attention.bias = scores("bias", given(at::BIAS), bias.as_ref(), extents)?;
    let mask = optional!(at::MASK, u8);
    attention.mask = scores("mask", given(at::MASK), mask.as_ref(), extents)?;
    let (slopes, sinks) = (optional!(at::ALIBI, f32), optional!(at::SINKS, f32));
    attention.slopes = slopes.as_ref().map(Buffer::as_slice);
    attention.sinks = sinks.as_ref().map(Buffer::as_slice);
    let scales = [optional!(at::SCALES, f32), optional!(at::SCALES + 1, f32), optional!(at::SCALES + 2, f32)];
    attention.scales = scales.each_ref().map(|scale| scale.as_ref().map(Buffer::as_slice));
    if q.dtype != Dtype::E4m3 && scales.iter().any(Option::is_some) {
        return unsupported(format!(
            "q_scale, k_scale and v_scale are for float8_e4m3fn, and q has elements of {}; use scale",
            q.dtype
        ));
    }
    let (of_q, of_k) = (optional!(at::Q_OFFSETS, i32), optional!(at::K_OFFSETS, i32));
    attention.offsets = of_q.as_ref().map(|queries| Offsets {
        queries: queries.as_slice(),
        keys: of_k.as_ref().map(Buffer::as_slice),
        longest: if of_k.is_some() { longest } else { [longest[0], 0] },
    });
    let lengths = optional!(at::KEY_LENGTHS, i32);
    attention.key_lengths = lengths.as_ref().map(Buffer::as_slice);
    let table = optional!(at::PAGE_TABLE, i32);
    attention.pages = table
        .as_ref()
        .zip(per_sequence)
        .map(|(table, per_sequence)| Pages { table: table.as_slice(), per_sequence });
    let mut lse = optional!(at::LSE, f32);
    attention.lse = lse.as_mut().map(Buffer::as_slice_mut);
    // SAFETY: the array stays valid until the work is complete.
    let mut o = unsafe { out.buffer::<T::Output>(OPERATION, "out", device)? };
    let mut o = HeadsMut::strided(&mut o, four("out", &out.shape)?, strides("out", out)?)?;
    if explains {
        let explanation = attention.explain(device, &o)?;
        let Some(kernel) = explanation.kernel else { return Ok("none".into()) };
        return Ok(format!("{kernel}, splits {}", explanation.splits).into());
    }
    // SAFETY: the caller orders other streams, and guarantees indices in the device's memory.
    unsafe { attention.run_on(stream, &mut o)? };
    Ok("".into())
}

/// A tensor of scores in memory, broadcast to these extents.
fn scores<'a, E: Element>(
    name: &str,
    array: Option<&Array>,
    buffer: Option<&'a Buffer<E>>,
    extents: [usize; 4],
) -> Result<Option<ScoreTensor<'a, E>>> {
    let Some((array, buffer)) = array.zip(buffer) else { return Ok(None) };
    Ok(Some(ScoreTensor { elements: buffer.as_slice(), strides: broadcast(name, array, extents)? }))
}
