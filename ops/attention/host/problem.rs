//! The problem of a call: the kernels' arguments, checked.

use super::builder::{Attention, ScoreTensor};
use super::element::{AttentionElement, Variant};
use super::heads::{HeadsMut, MAX_EXTENT, OPERATION, Shape, elements_needed, too_large};
use super::model::MOST_SPLITS;
use super::variant::{HeadSizes, KeyTensor};
use crate::kernels::{Arguments, CHUNK, ScoreStrides, Strides};
use moye_device::memory::{Element, Global, GlobalMut};
use moye_runtime::operation::same_device;
use moye_runtime::{Arch, Device, Error, Result};
use std::hash::{Hash, Hasher};

/// The largest magnitude of a scale and of a softcap; a larger one is treated as a mistake. f16
/// scores, up to 2.2e12, times this stay far below the largest f32.
const MOST_SCALE: f32 = 1e8;

/// A checked call: everything that determines its plan.
#[derive(Clone, Copy, Debug)]
pub struct Problem<T: Element> {
    /// Without the plan's fields: `pack`, `splits`, `row_tiles`, the workspaces.
    pub arguments: Arguments<T>,
    pub sizes: HeadSizes,
    /// The extents of K and V.
    pub keys: KeyTensor,
    /// Splits that the caller requested.
    pub splits: Option<u32>,
    /// Whether bias and mask, if any, are readable by [`CHUNK`] keys at a time.
    pub chunked: bool,
    /// Whether the device has `wgmma` and TMA.
    pub hopper: bool,
}

impl<T: Element> Problem<T> {
    /// The problem at canonical addresses: keeps only the offsets within 256 bytes, and which
    /// options have memory.
    pub fn anywhere(&self) -> Self {
        let anywhere = |address: u64| if address == 0 { 0 } else { 256 + address % 256 };
        macro_rules! at {
            ($($pointer:ident $field:ident),+) => {
                Arguments {
                    $($field: $pointer::from_address(anywhere(self.arguments.$field.address())),)+
                    ..self.arguments
                }
            };
        }
        let arguments = at!(
            Global q, Global k, Global v, GlobalMut o, GlobalMut lse, Global bias, Global mask, Global slopes,
            Global sinks, Global q_offsets, Global k_offsets, Global k_lengths, Global pages
        );
        Self { arguments, ..*self }
    }
}

impl<T: Element> PartialEq for Problem<T> {
    fn eq(&self, other: &Self) -> bool {
        let of = |problem: &Self| {
            let &Self { sizes, keys, splits, chunked, hopper, .. } = problem;
            (sizes, keys, splits, chunked, hopper)
        };
        of(self) == of(other) && words(&self.arguments) == words(&other.arguments)
    }
}

impl<T: Element> Eq for Problem<T> {}

/// The words in which problems differ most: others decide by equality.
impl<T: Element> Hash for Problem<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Arguments { batches, heads, q_length, k_length, .. } = self.arguments;
        (self.sizes, [batches, heads, q_length, k_length]).hash(state);
    }
}

/// The arguments as words, for comparisons.
pub fn words<T: Element>(arguments: &Arguments<T>) -> &[u64] {
    // 18 addresses and strides of options, 4 operands, 5 times 3 and 2 times 4 strides, 14 numbers
    // of 32 bits.
    const { assert!(size_of::<Arguments<T>>() == 8 * WORDS && align_of::<Arguments<T>>() == 8) };
    // SAFETY: `Arguments` is `repr(C)` with numbers of 8 bytes and, after these, an even number of
    // 4 bytes, so that it has no padding; it is borrowed as long as the slice.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(arguments).cast(), WORDS) }
}

/// The words of [`Arguments`].
const WORDS: usize = 48;

impl<T: AttentionElement> Problem<T> {
    /// Checks `call` with its results in `o`.
    pub fn of(call: &Attention<'_, T>, device: &Device, o: &HeadsMut<'_, T::Output>) -> Result<Self> {
        let [q, k, v] = [call.q.shape, call.k.shape, call.v.shape];
        let [q_batches, heads, q_tokens, d] = q.extents;
        let [k_batches, kv_heads, k_tokens, _] = k.extents;
        let dv = v.extents[3];
        let shapes =
            format!("q {:?}, k {:?}, v {:?}, o {:?}", q.extents, k.extents, v.extents, o.shape.extents);
        let mismatch = |why: String| Err(Error::ShapeMismatch { operation: OPERATION, detail: why });
        if k.extents[3] != d
            || v.extents[..3] != k.extents[..3]
            || o.shape.extents != [q_batches, heads, q_tokens, dv]
        {
            return mismatch(format!(
                "the tensors (batch, head, token, column) are {shapes}: k has q's columns and v's other extents, o has q's extents and \
                 v's columns"
            ));
        }
        if heads > 0 && (kv_heads == 0 || heads % kv_heads != 0) {
            return mismatch(format!(
                "{heads} query heads and {kv_heads} KV heads: the first must be a multiple of the second"
            ));
        }
        let wanted = HeadSizes { d, dv };
        let variant = T::VARIANTS.iter().find(|variant| variant.sizes() == wanted);
        let mut of_hopper = T::HOPPER.iter().map(|variant| variant.sizes);
        if variant.is_none() && (!T::VARIANTS.is_empty() || of_hopper.all(|sizes| sizes != wanted)) {
            let of_hopper = T::HOPPER.iter().map(|variant| variant.sizes);
            let mut sizes: Vec<_> = T::VARIANTS.iter().map(Variant::sizes).chain(of_hopper).collect();
            sizes.sort_unstable();
            sizes.dedup();
            let sizes: Vec<_> = sizes.iter().map(|HeadSizes { d, dv }| format!("{d}/{dv}")).collect();
            let detail = format!(
                "heads of {d} columns with values of {dv} have no kernel; there are {}: pad the columns with zeros",
                sizes.join(", ")
            );
            return Err(Error::Unsupported { operation: OPERATION, detail });
        }
        let scale = call.scale.unwrap_or_else(|| 1.0 / (d as f32).sqrt());
        for (name, value, least) in [("scale", scale, -MOST_SCALE), ("softcap", call.softcap, 0.0)] {
            if !(least..=MOST_SCALE).contains(&value) {
                let detail = format!("the {name} is {value}: it must be from {least} to {MOST_SCALE}");
                return Err(Error::Unsupported { operation: OPERATION, detail });
            }
        }

        // The number of sequences, and the most tokens of one.
        let (mut batches, mut queries, mut keys) = (q_batches, q_tokens, k_tokens);
        let of_keys = call.offsets.as_ref().and_then(|offsets| offsets.keys.as_ref());
        if call.pages.is_some() && of_keys.is_some() {
            return mismatch(
                "pages and offsets of keys exclude each other: give `variable_queries` and `key_lengths` with pages".into(),
            );
        }
        if let Some(offsets) = &call.offsets {
            if q_batches != 1 || of_keys.is_some() && k_batches != 1 {
                return mismatch(format!(
                    "variable length with {q_batches} and {k_batches} batches: sequences follow each other in one batch ({shapes})"
                ));
            }
            batches = offsets.queries.len().saturating_sub(1);
            queries = offsets.longest[0];
            if let Some(of_keys) = of_keys {
                let needed = offsets.queries.len();
                expect("the offsets of keys", of_keys.len(), "as many as those of queries", needed)?;
                keys = offsets.longest[1];
            }
            if queries > q_tokens || keys > k_tokens {
                return mismatch(format!(
                    "the longest sequences have {queries} queries and {keys} keys, and the tensors {q_tokens} and {k_tokens}"
                ));
            }
        }
        let mut page = 0;
        if let Some(pages) = &call.pages {
            page = k_tokens;
            if !page.is_power_of_two() {
                return mismatch(format!(
                    "pages of {page} tokens: the tokens of a page must be a power of two"
                ));
            }
            keys = pages.per_sequence.saturating_mul(page);
            expect(
                "the page table",
                pages.table.len(),
                "batches times pages of a sequence",
                batches.saturating_mul(pages.per_sequence),
            )?;
        } else if of_keys.is_none() && k_batches != batches {
            return mismatch(format!("{batches} batches of queries and {k_batches} of keys ({shapes})"));
        }
        for (what, value) in [("sequences", batches), ("keys of a sequence", keys)] {
            if value > MAX_EXTENT {
                return Err(too_large(what, value));
            }
        }
        if let Some(lengths) = &call.key_lengths {
            expect("the lengths of keys", lengths.len(), "the batches", batches)?;
        }
        if let Some(sinks) = &call.sinks {
            expect("the sinks", sinks.len(), "the query heads", heads)?;
        }
        let slopes_batch = match &call.slopes {
            Some(slopes) if slopes.len() == batches * heads && batches > 1 => heads,
            Some(slopes) => {
                expect("the slopes", slopes.len(), "the query heads, or those of all batches", heads)?;
                0
            }
            None => 0,
        };
        let lse_rows = q_batches * heads * q_tokens;
        if let Some(lse) = &call.lse {
            expect("the log-sum-exp", lse.len(), "batches times heads times tokens", lse_rows)?;
        }
        let extents = [batches, heads, queries, keys];
        let (bias, stride_bias) = score_tensor("bias", call.bias.as_ref(), extents)?;
        let (mask, stride_mask) = score_tensor("mask", call.mask.as_ref(), extents)?;
        let chunked = call.bias.as_ref().is_none_or(|bias| is_chunked(bias, extents))
            && call.mask.as_ref().is_none_or(|mask| is_chunked(mask, extents));

        same_device(OPERATION, 0, call.q.elements.device(), device)?;
        same_device(OPERATION, 1, call.k.elements.device(), device)?;
        same_device(OPERATION, 2, call.v.elements.device(), device)?;
        same_device(OPERATION, 3, o.elements.device(), device)?;
        macro_rules! on_device {
            ($($option:expr),+) => { $(
                if let Some(slice) = &$option {
                    same_device(OPERATION, 4, slice.device(), device)?;
                }
            )+ };
        }
        on_device!(
            call.sinks,
            call.slopes,
            call.key_lengths,
            call.lse,
            call.bias.as_ref().map(|bias| &bias.elements),
            call.mask.as_ref().map(|mask| &mask.elements),
            call.offsets.as_ref().map(|offsets| &offsets.queries),
            of_keys,
            call.pages.as_ref().map(|pages| &pages.table),
            call.scales[0].as_ref(),
            call.scales[1].as_ref(),
            call.scales[2].as_ref()
        );
        for (name, address, shape, bytes) in [
            ("q", call.q.elements.address(), q, T::BYTES),
            ("k", call.k.elements.address(), k, T::BYTES),
            ("v", call.v.elements.address(), v, T::BYTES),
            ("o", o.elements.address(), o.shape, <T::Output as Element>::BYTES),
        ] {
            aligned(name, address, shape, bytes)?;
        }
        for (name, shape) in [("k", k), ("v", v)] {
            token_stride_fits(name, shape)?;
        }

        macro_rules! address {
            ($option:expr) => {
                $option.map_or(0, |slice| slice.address())
            };
        }
        let (o_strides, lse_row) = (o.shape.kernel_strides(), q_tokens as i64);
        let without_batch = |variable: bool, strides: Strides| {
            if variable { Strides { batch: 0, ..strides } } else { strides }
        };
        let of_queries = |strides| without_batch(call.offsets.is_some(), strides);
        let of_kv = |strides| without_batch(of_keys.is_some(), strides);
        let arguments = Arguments {
            q: Global::from_address(call.q.elements.address()),
            k: Global::from_address(call.k.elements.address()),
            v: Global::from_address(call.v.elements.address()),
            o: GlobalMut::from_address(o.elements.address()),
            stride_q: of_queries(q.kernel_strides()),
            stride_k: of_kv(k.kernel_strides()),
            stride_v: of_kv(v.kernel_strides()),
            stride_o: of_queries(o_strides),
            lse: GlobalMut::from_address(address!(call.lse.as_ref())),
            stride_lse: of_queries(Strides { batch: heads as i64 * lse_row, row: 1, head: lse_row }),
            bias: Global::from_address(bias),
            stride_bias,
            mask: Global::from_address(mask),
            stride_mask,
            slopes: Global::from_address(address!(call.slopes.as_ref())),
            stride_slopes: slopes_batch as i64,
            sinks: Global::from_address(address!(call.sinks.as_ref())),
            q_offsets: Global::from_address(address!(call.offsets.as_ref().map(|offsets| &offsets.queries))),
            k_offsets: Global::from_address(address!(of_keys)),
            k_lengths: Global::from_address(address!(call.key_lengths.as_ref())),
            pages: Global::from_address(address!(call.pages.as_ref().map(|pages| &pages.table))),
            stride_pages: call.pages.as_ref().map_or(0, |pages| pages.per_sequence as i64),
            window: call.visible(),
            page: page as u32,
            scale,
            softcap: call.softcap,
            batches: batches as u32,
            heads: heads as u32,
            group: heads.checked_div(kv_heads).unwrap_or(0).max(1) as u32,
            q_length: queries as u32,
            k_length: keys as u32,
            ..Arguments::none()
        };
        let keys = KeyTensor { rows: k_tokens as u32, batches: k_batches as u32 };
        if call.splits.is_some_and(|splits| splits == 0 || splits > MOST_SPLITS) {
            let detail = format!("{:?} splits: there are 1 to {MOST_SPLITS}", call.splits.unwrap_or(0));
            return Err(Error::Unsupported { operation: OPERATION, detail });
        }
        let hopper = device.arch() == Arch::new(9, 0);
        Ok(Self { arguments, sizes: wanted, keys, splits: call.splits, chunked, hopper })
    }
}

/// An option of `len` elements that needs `needed`.
fn expect(what: &str, len: usize, of: &str, needed: usize) -> Result<()> {
    if len == needed {
        return Ok(());
    }
    let detail = format!("{what}: {len} elements instead of {needed}, {of}");
    Err(Error::ShapeMismatch { operation: OPERATION, detail })
}

/// Address and strides of a tensor of scores with these extents.
fn score_tensor<E: Element>(
    what: &str,
    tensor: Option<&ScoreTensor<'_, E>>,
    extents: [usize; 4],
) -> Result<(u64, ScoreStrides)> {
    let Some(ScoreTensor { elements, strides }) = tensor else { return Ok((0, ScoreStrides::default())) };
    let needed = elements_needed(extents, *strides);
    if needed > elements.len() as u128 {
        let detail = format!(
            "the {what} of (batch, head, query, key) {extents:?} with strides {strides:?} needs {needed} elements, and the buffer has {}",
            elements.len()
        );
        return Err(Error::ShapeMismatch { operation: OPERATION, detail });
    }
    let [batch, head, row, column] = strides.map(|stride| stride as i64);
    Ok((elements.address(), ScoreStrides { batch, head, row, column }))
}

/// Whether a tensor of scores with these extents is readable by [`CHUNK`] keys at a time: keys are
/// contiguous, rows begin at multiples of [`CHUNK`] elements, and the last one has whole chunks.
fn is_chunked<E: Element>(tensor: &ScoreTensor<'_, E>, extents: [usize; 4]) -> bool {
    let ScoreTensor { elements, strides } = tensor;
    let [batches, heads, queries, keys] = extents;
    let chunk = CHUNK as usize;
    let whole = [batches, heads, queries, keys.next_multiple_of(chunk)];
    strides[3] == 1
        && elements.address().is_multiple_of((chunk * E::BYTES) as u64)
        && extents
            .iter()
            .zip(strides)
            .take(3)
            .all(|(&extent, stride)| extent <= 1 || stride.is_multiple_of(chunk))
        && elements_needed(whole, *strides) <= elements.len() as u128
}

/// Rows are loaded and stored 16 bytes at a time.
fn aligned(name: &str, address: u64, shape: Shape, bytes: usize) -> Result<()> {
    if shape.extents.contains(&0) {
        return Ok(());
    }
    let counts = shape.extents[..3].iter().zip(shape.strides);
    let strides_fit =
        counts.into_iter().all(|(&extent, stride)| extent <= 1 || stride.is_multiple_of(16 / bytes));
    if address.is_multiple_of(16) && strides_fit {
        return Ok(());
    }
    let detail = format!(
        "{name} begins at an address that is {} bytes past a multiple of 16, with strides {:?} in elements of {bytes} bytes: both must be \
         multiples of 16 bytes; copy the tensor to a contiguous buffer",
        address % 16,
        shape.strides
    );
    Err(Error::Unsupported { operation: OPERATION, detail })
}

/// The kernels read the token strides of keys and values as u32.
fn token_stride_fits(name: &str, shape: Shape) -> Result<()> {
    let stride = shape.strides[2];
    if shape.extents[2] <= 1 || shape.extents.contains(&0) || u32::try_from(stride).is_ok() {
        return Ok(());
    }
    let detail = format!(
        "the tokens of {name} are {stride} elements apart: their stride must be below {}; copy the tensor to a contiguous buffer",
        1u64 << 32
    );
    Err(Error::Unsupported { operation: OPERATION, detail })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_strides_that_a_u32_cannot_hold_are_refused() {
        let shape = |tokens, stride| Shape { extents: [1, 1, tokens, 64], strides: [0, 0, stride] };
        let above = 1 << 32;
        assert!(token_stride_fits("k", shape(2, above - 8)).is_ok());
        assert!(token_stride_fits("k", shape(1, above)).is_ok(), "a single token has no stride");
        let error = token_stride_fits("v", shape(2, above)).unwrap_err().to_string();
        assert!(error.contains("the tokens of v are 4294967296 elements apart"), "{error}");
    }

    #[test]
    fn strides_in_which_rows_begin_between_16_bytes_are_refused() {
        let shape = |stride| Shape { extents: [1, 1, 2, 64], strides: [usize::MAX, 3, stride] };
        assert!(aligned("q", 32, shape(72), 2).is_ok(), "strides of one batch and head do not count");
        assert!(aligned("q", 32, shape(68), 2).is_err());
        assert!(aligned("q", 8, shape(72), 2).is_err());
        let empty = Shape { extents: [3, 0, 2, 64], strides: [1, 2, 3] };
        assert!(aligned("q", 8, empty, 2).is_ok(), "nothing of an empty tensor is loaded");
    }
}
