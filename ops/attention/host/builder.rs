//! The builder of attention: operands and options.

use super::element::AttentionElement;
use super::explanation::AttentionExplanation;
use super::heads::{Heads, HeadsMut};
use super::run;
use crate::kernels::Window;
use moye_device::number::F8E4M3;
use moye_runtime::{BufferSlice, BufferSliceMut, Device, Result, Stream};

/// A tensor with an element for each score: `(batch, head, query token, key token)`, with strides.
#[derive(Clone, Debug)]
pub(super) struct ScoreTensor<'a, E: moye_device::memory::Element> {
    pub elements: BufferSlice<'a, E>,
    pub strides: [usize; 4],
}

/// Lengths in device memory.
#[derive(Clone, Debug)]
pub(super) struct Offsets<'a> {
    pub queries: BufferSlice<'a, i32>,
    /// `None`: keys have a batch or pages for each sequence.
    pub keys: Option<BufferSlice<'a, i32>>,
    /// The longest sequence of queries, and of keys where these have offsets.
    pub longest: [usize; 2],
}

/// A page table.
#[derive(Clone, Debug)]
pub(super) struct Pages<'a> {
    pub table: BufferSlice<'a, i32>,
    pub per_sequence: usize,
}

/// Attention: `o = softmax(scale q k^T + ...) v`, a softmax for each query token of each head.
///
/// Several query heads may share a KV head (GQA, MQA): the number of heads of `q` is a multiple of
/// that of `k` and `v`. Head sizes are 64, 80, 96, 128, 192 and 256, or 192 with values of 128. The
/// last query token is at the position of the last key, so that a causal mask is aligned to the
/// lower right. A query that sees no key has result 0 and log-sum-exp minus infinity.
/// Accumulators are f32, and results are deterministic. A score of any size counts as f32 rounds
/// it: only minus infinity hides a key.
///
/// NaN and infinity in K and V reach the results of the queries that see the key, and of no other:
/// not past a sequence's last key or before a window, nor in unused slots of pages, tokens of no
/// sequence, and keys that a causal mask or [`mask`](Self::mask) hides.
///
/// Columns are contiguous, as [`Heads`] has no stride of columns. Tensors begin at a multiple of 16
/// bytes, and so do rows, heads and batches: strides are multiples of 8 elements of f16 and bf16,
/// of 16 of e4m3.
///
/// On Hopper the kernels with `wgmma` and TMA serve f16 and bf16, for all head sizes: masks by
/// [`causal`](Self::causal) and [`window`](Self::window), [`sinks`](Self::sinks),
/// [`variable_length`](Self::variable_length), [`variable_queries`](Self::variable_queries),
/// [`key_lengths`](Self::key_lengths), pages of 16 tokens and more, splits,
/// [`softcap`](Self::softcap), [`alibi`](Self::alibi), and [`bias`](Self::bias) and
/// [`mask`](Self::mask) whose rows are read 8 keys at a time. The kernels with `mma.sync` serve the
/// rest: bias and mask with other strides, a scale that is not positive, smaller pages, and calls
/// whose query tokens times query heads of a KV head are at most 16, as in decoding. Among the
/// last, heads of 128 whose keys are split have a kernel with `wgmma`, unless an option changes
/// scores. [`explain`](Self::explain) names the kernel.
///
/// [`F8E4M3`] is served on Hopper, for head sizes 64, 128 and 256, with masks by
/// [`causal`](Self::causal) and [`window`](Self::window) and with [`scales`](Attention::scales);
/// results are bf16.
///
/// ```
/// use half::f16;
/// use moye::{Attention, Device, Heads, HeadsMut};
/// let device = Device::sim();
/// // One head, two tokens: the first sees itself, the second both, which are alike.
/// let q = device.upload(&[f16::ONE; 2 * 64])?;
/// let v: Vec<f16> = (0..128).map(|i| f16::from_f32(if i < 64 { 1.0 } else { 3.0 })).collect();
/// let v = device.upload(&v)?;
/// let mut o = device.alloc_uninit::<f16>(128)?;
/// let shape = [1, 1, 2, 64]; // batch, head, token, column
/// let (queries, values) = (Heads::head_first(&q, shape)?, Heads::head_first(&v, shape)?);
/// Attention::new(queries.clone(), queries, values)
///     .causal()
///     .run(&device, &mut HeadsMut::head_first(&mut o, shape)?)?;
/// let o = o.download()?;
/// assert_eq!((o[0].to_f32(), o[64].to_f32()), (1.0, 2.0));
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is computed before `run`"]
pub struct Attention<'a, T: AttentionElement> {
    pub(super) q: Heads<'a, T>,
    pub(super) k: Heads<'a, T>,
    pub(super) v: Heads<'a, T>,
    causal: bool,
    window: Window,
    pub(super) scale: Option<f32>,
    pub(super) softcap: f32,
    pub(super) bias: Option<ScoreTensor<'a, T>>,
    pub(super) mask: Option<ScoreTensor<'a, u8>>,
    pub(super) slopes: Option<BufferSlice<'a, f32>>,
    pub(super) sinks: Option<BufferSlice<'a, f32>>,
    pub(super) offsets: Option<Offsets<'a>>,
    pub(super) key_lengths: Option<BufferSlice<'a, i32>>,
    pub(super) pages: Option<Pages<'a>>,
    pub(super) lse: Option<BufferSliceMut<'a, f32>>,
    pub(super) splits: Option<u32>,
    /// The scale factors of Q, K and V.
    pub(super) scales: [Option<BufferSlice<'a, f32>>; 3],
}

impl<'a, T: AttentionElement> Attention<'a, T> {
    /// Attention of queries `q` to keys `k` with values `v`.
    pub fn new(q: Heads<'a, T>, k: Heads<'a, T>, v: Heads<'a, T>) -> Self {
        Self {
            q,
            k,
            v,
            causal: false,
            window: Window::ALL,
            scale: None,
            softcap: 0.0,
            bias: None,
            mask: None,
            slopes: None,
            sinks: None,
            offsets: None,
            key_lengths: None,
            pages: None,
            lse: None,
            splits: None,
            scales: [None, None, None],
        }
    }

    /// A query sees no key after its own position. A [`window`](Self::window) limits it further.
    pub fn causal(self) -> Self {
        Self { causal: true, ..self }
    }

    /// A query sees the keys from `left` before its position to `right` after it; `None` means no
    /// limit. With [`causal`](Self::causal) it sees none after it.
    pub fn window(self, left: Option<u32>, right: Option<u32>) -> Self {
        let limit = |limit: Option<u32>| limit.map_or(i32::MAX, |limit| limit.min(i32::MAX as u32) as i32);
        Self { window: Window { left: limit(left), right: limit(right) }, ..self }
    }

    /// The keys that a query sees, by [`causal`](Self::causal) and [`window`](Self::window).
    pub(super) fn visible(&self) -> Window {
        let right = if self.causal { self.window.right.min(0) } else { self.window.right };
        Window { right, ..self.window }
    }

    /// The factor of the scores, from -1e8 to 1e8; one over the square root of the head size by
    /// default.
    pub fn scale(self, scale: f32) -> Self {
        Self { scale: Some(scale), ..self }
    }

    /// Replaces each scaled score `s` by `cap * tanh(s / cap)`, with `cap` above 0 and at most 1e8.
    /// On Hopper the hyperbolic tangent is `tanh.approx`, within 2^-11 of its value.
    pub fn softcap(self, cap: f32) -> Self {
        Self { softcap: cap, ..self }
    }

    /// Adds a bias to each score: a tensor (batch, head, query token, key token) with these
    /// strides, in elements. A stride of 0 broadcasts. It is read 8 keys at a time if the keys
    /// have stride 1, the other strides and the address are multiples of 8 elements, and the buffer
    /// has the last row up to a multiple of 8 keys; otherwise an element at a time, which is
    /// slower.
    pub fn bias(self, elements: impl Into<BufferSlice<'a, T>>, strides: [usize; 4]) -> Self {
        Self { bias: Some(ScoreTensor { elements: elements.into(), strides }), ..self }
    }

    /// Hides a key from a query if the byte of the score is 0: a tensor as for
    /// [`bias`](Self::bias).
    pub fn mask(self, bytes: impl Into<BufferSlice<'a, u8>>, strides: [usize; 4]) -> Self {
        Self { mask: Some(ScoreTensor { elements: bytes.into(), strides }), ..self }
    }

    /// ALiBi: subtracts a head's slope times the distance of key and query from each score. One
    /// slope for each query head, or for each query head of each batch.
    pub fn alibi(self, slopes: impl Into<BufferSlice<'a, f32>>) -> Self {
        Self { slopes: Some(slopes.into()), ..self }
    }

    /// An attention sink: a score without a value for each query head, which takes its share of the
    /// softmax.
    pub fn sinks(self, sinks: impl Into<BufferSlice<'a, f32>>) -> Self {
        Self { sinks: Some(sinks.into()), ..self }
    }

    /// Also writes the log-sum-exp of each row, in natural logarithms, contiguous (batch, head,
    /// token).
    pub fn lse(self, lse: impl Into<BufferSliceMut<'a, f32>>) -> Self {
        Self { lse: Some(lse.into()), ..self }
    }

    /// Variable-length sequences, packed along the tokens of a single batch: their offsets in
    /// tokens, one more than there are sequences, the last one being the end; and the longest
    /// sequence. Tokens of no sequence are left as they are in the results and the log-sum-exp.
    ///
    /// # Safety
    /// The offsets ascend from 0 or more to at most the tensors' tokens, and no sequence is longer
    /// than that.
    pub unsafe fn variable_length(
        self,
        queries: impl Into<BufferSlice<'a, i32>>,
        keys: impl Into<BufferSlice<'a, i32>>,
        longest: [usize; 2],
    ) -> Self {
        Self { offsets: Some(Offsets { queries: queries.into(), keys: Some(keys.into()), longest }), ..self }
    }

    /// Same as [`variable_length`](Self::variable_length), but for the queries only: `k` and `v`
    /// have a batch for each sequence, or [`pages`](Self::pages), and
    /// [`key_lengths`](Self::key_lengths) has the lengths. One call then serves chunks of prompts
    /// and single tokens on the same cache.
    ///
    /// ```
    /// use half::f16;
    /// use moye::{Attention, Device, Heads, HeadsMut};
    /// let device = Device::sim();
    /// // Two sequences, with 3 and with 1 query tokens, and 5 and 64 keys in pages of 16 tokens.
    /// let q = device.upload(&[f16::ONE; 4 * 64])?;
    /// let cache = device.upload(&[f16::ONE; 5 * 16 * 64])?;
    /// let mut o = device.alloc_uninit::<f16>(4 * 64)?;
    /// let offsets = device.upload(&[0, 3, 4])?;
    /// let lengths = device.upload(&[5, 64])?;
    /// let table = device.upload(&[4, 0, 0, 0, 0, 1, 2, 3])?;
    /// let queries = Heads::head_first(&q, [1, 1, 4, 64])?;
    /// let pages = || Heads::head_first(&cache, [5, 1, 16, 64]);
    /// let call = Attention::new(queries, pages()?, pages()?).causal();
    /// // SAFETY: the offsets, lengths and page numbers are within the tensors.
    /// let call = unsafe { call.variable_queries(&offsets, 3).pages(&table, 4).key_lengths(&lengths) };
    /// call.run(&device, &mut HeadsMut::head_first(&mut o, [1, 1, 4, 64])?)?;
    /// assert!(o.download()?.iter().all(|o| o.to_f32() == 1.0));
    /// # Ok::<(), moye::Error>(())
    /// ```
    ///
    /// # Safety
    /// The offsets ascend from 0 or more to at most the tokens of `q`, and no sequence of queries
    /// is longer than `longest`.
    pub unsafe fn variable_queries(self, queries: impl Into<BufferSlice<'a, i32>>, longest: usize) -> Self {
        Self { offsets: Some(Offsets { queries: queries.into(), keys: None, longest: [longest, 0] }), ..self }
    }

    /// The number of keys of each batch, for a partly filled cache.
    ///
    /// # Safety
    /// The numbers are from 0 to the tensor's number of keys.
    pub unsafe fn key_lengths(self, lengths: impl Into<BufferSlice<'a, i32>>) -> Self {
        Self { key_lengths: Some(lengths.into()), ..self }
    }

    /// Paged keys and values: `k` and `v` are (page, head, token of the page, column), pages have a
    /// power of two of tokens, and `table` has the page numbers of each sequence, `per_sequence` of
    /// them. [`key_lengths`](Self::key_lengths) has the lengths of the sequences, and queries of
    /// several lengths are given by [`variable_queries`](Self::variable_queries).
    ///
    /// # Safety
    /// All page numbers of pages with keys are below the number of pages.
    pub unsafe fn pages(self, table: impl Into<BufferSlice<'a, i32>>, per_sequence: usize) -> Self {
        Self { pages: Some(Pages { table: table.into(), per_sequence }), ..self }
    }

    /// Number of splits of the keys (default: chosen by shape and device).
    pub fn splits(self, splits: u32) -> Self {
        Self { splits: Some(splits), ..self }
    }

    /// Computes attention on the default stream of a device.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`](moye_runtime::Error::ShapeMismatch) if shapes and options do not
    /// match, [`Error::Unsupported`](moye_runtime::Error::Unsupported) for a head size without a
    /// kernel, a scale or softcap beyond its range, or addresses and strides that are not multiples
    /// of 16 bytes, [`Error::WrongDevice`](moye_runtime::Error::WrongDevice),
    /// [`Error::OutOfMemory`](moye_runtime::Error::OutOfMemory), and the errors of
    /// [`Device::launch`].
    pub fn run(&self, device: &Device, o: &mut HeadsMut<'_, T::Output>) -> Result<()> {
        // SAFETY: as for `matmul`: the default stream runs its work in order.
        unsafe { self.run_on(&device.default_stream(), o) }
    }

    /// [`Attention::run`] on a stream.
    ///
    /// # Errors
    /// Same as [`Attention::run`].
    ///
    /// # Safety
    /// Until the work is complete, no other stream writes the operands, or touches `o` and the
    /// log-sum-exp.
    pub unsafe fn run_on(&self, stream: &Stream, o: &mut HeadsMut<'_, T::Output>) -> Result<()> {
        // SAFETY: no other stream writes the operands or touches the results meanwhile.
        unsafe { run::run(self, stream, o) }
    }

    /// The plan of the call: the kernel and its configuration.
    ///
    /// # Errors
    /// Same as [`Attention::run`], except for the errors of the launch itself.
    pub fn explain(&self, device: &Device, o: &HeadsMut<'_, T::Output>) -> Result<AttentionExplanation> {
        run::explain(self, device, o)
    }
}

#[cfg(feature = "e4m3")]
impl<'a> Attention<'a, F8E4M3> {
    /// Scale factors: the value of an element is its stored value times the factor of its head.
    /// Each of the three has one factor, or one for each head (query heads for `q`, KV heads for
    /// `k` and `v`), or one for each head of each batch. Those of `q` and `k` are positive, and
    /// their product with the [`scale`](Attention::scale) is at most 1e8.
    ///
    /// ```
    /// use moye::number::F8E4M3;
    /// use moye::{Attention, Device, Heads, HeadsMut};
    /// let device = Device::sim();
    /// let ones = device.upload(&[F8E4M3::from_f32(1.0); 2 * 64])?;
    /// let mut o = device.alloc_uninit::<half::bf16>(2 * 64)?;
    /// let shape = [1, 1, 2, 64]; // batch, head, token, column
    /// let heads = || Heads::head_first(&ones, shape);
    /// let (one, half) = (device.upload(&[1.0])?, device.upload(&[0.5])?);
    /// Attention::new(heads()?, heads()?, heads()?)
    ///     .scales(&one, &one, &half)
    ///     .run(&device, &mut HeadsMut::head_first(&mut o, shape)?)?;
    /// assert_eq!(o.download()?[0].to_f32(), 0.5);
    /// # Ok::<(), moye::Error>(())
    /// ```
    pub fn scales(
        self,
        q: impl Into<BufferSlice<'a, f32>>,
        k: impl Into<BufferSlice<'a, f32>>,
        v: impl Into<BufferSlice<'a, f32>>,
    ) -> Self {
        Self { scales: [Some(q.into()), Some(k.into()), Some(v.into())], ..self }
    }
}
