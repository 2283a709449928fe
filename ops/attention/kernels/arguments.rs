//! The parameter of every attention kernel: operands, strides, lengths and options.

use super::schedule::Work;
use super::sequence::Query;
use super::softmax::RowSum;
use moye_device::arch::{Word, Word64x2};
use moye_device::kernel::KernelParam;
use moye_device::memory::{Element, Global, GlobalMut};

/// No limit of a [`Window`].
pub const UNLIMITED: i32 = i32::MAX;

/// The keys that a query sees: a query at key position `p` sees keys `p - left` to `p + right`. The
/// last query token is at the position of the last key (lower right).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct Window {
    /// Keys before the query's position; [`UNLIMITED`] for no limit.
    pub left: i32,
    /// Keys after the query's position; [`UNLIMITED`] for no limit.
    pub right: i32,
}

impl Window {
    /// All keys.
    pub const ALL: Self = Self { left: UNLIMITED, right: UNLIMITED };
    /// The keys up to the query's position.
    pub const CAUSAL: Self = Self { left: UNLIMITED, right: 0 };
}

macro_rules! arguments {
    ($($(#[$doc:meta])+ $name:ident: $type:ty = $none:expr,)+) => {
        /// The arguments of `o = softmax(scale q k^T + ...) v`, one softmax per query token and
        /// query head.
        ///
        /// Strides are in elements. The pointer of an unused option has address 0.
        #[repr(C)]
        #[derive(Clone, Copy, Debug, KernelParam)]
        pub struct Arguments<T: Element> {
            $($(#[$doc])+ pub $name: $type,)+
        }

        impl<T: Element> Arguments<T> {
            /// No operands, and every option off.
            #[must_use]
            pub fn none() -> Self {
                Self { $($name: $none,)+ }
            }
        }
    };
}
arguments! {
    /// Queries, `(batch, token, head, D)`.
    q: Global<T> = Global::from_address(0),
    /// Keys, `(batch, token, KV head, D)`; with pages `(page, token of the page, KV head, D)`.
    k: Global<T> = Global::from_address(0),
    /// Values, with the modes of `k` and `DV` columns.
    v: Global<T> = Global::from_address(0),
    /// Results, `(batch, token, head, DV)`.
    o: GlobalMut<T> = GlobalMut::from_address(0),
    /// The strides of `q`.
    stride_q: Strides = Strides::default(),
    /// The strides of `k`; with pages, `batch` is the stride between pages.
    stride_k: Strides = Strides::default(),
    /// The strides of `v`, as `stride_k`.
    stride_v: Strides = Strides::default(),
    /// The strides of `o`.
    stride_o: Strides = Strides::default(),
    /// The natural logarithm of each row's sum of exponentials (option).
    lse: GlobalMut<f32> = GlobalMut::from_address(0),
    /// The strides of `lse`.
    stride_lse: Strides = Strides::default(),
    /// Added to the scores before the softmax, `(batch, head, query token, key token)` (option).
    bias: Global<T> = Global::from_address(0),
    /// The strides of `bias`; 0 broadcasts.
    stride_bias: ScoreStrides = ScoreStrides::default(),
    /// One byte per score, with the modes of `bias`: 0 hides the key from the query (option).
    mask: Global<u8> = Global::from_address(0),
    /// The strides of `mask`; 0 broadcasts.
    stride_mask: ScoreStrides = ScoreStrides::default(),
    /// ALiBi: `slope` times the distance of key and query is subtracted from the score; one slope
    /// per query head (option).
    slopes: Global<f32> = Global::from_address(0),
    /// Stride between the slopes of batches; 0 broadcasts.
    stride_slopes: i64 = 0,
    /// One score without a value per query head, included in the softmax's sum (option).
    sinks: Global<f32> = Global::from_address(0),
    /// Variable length: `batches + 1` row indices into `q` and `o`: where each sequence begins and
    /// ends (option).
    q_offsets: Global<i32> = Global::from_address(0),
    /// Variable length: `batches + 1` row indices into `k` and `v` (option; not with pages).
    k_offsets: Global<i32> = Global::from_address(0),
    /// Number of keys of each batch, at most its capacity (option).
    k_lengths: Global<i32> = Global::from_address(0),
    /// Page numbers, `(batch, page of the sequence)` (option).
    pages: Global<i32> = Global::from_address(0),
    /// Stride between the page numbers of batches.
    stride_pages: i64 = 0,
    /// Workspace: normalised results of each split, f32, `(split, batch, head, token, DV)`,
    /// contiguous.
    partial_o: GlobalMut<f32> = GlobalMut::from_address(0),
    /// Workspace: maximum and sum of each split's row, `(split, batch, head, token, 2)`,
    /// contiguous.
    partial_sums: GlobalMut<f32> = GlobalMut::from_address(0),
    /// Counters for the tiles of one split, 0 before and after the launch: the block of a tile that
    /// arrives last reduces the splits. Address 0: [`combine`](super::combine()) reduces them. Only
    /// the `wgmma` kernels for few rows have this option.
    counters: GlobalMut<u32> = GlobalMut::from_address(0),
    /// Number of sequences.
    batches: u32 = 0,
    /// Number of query heads.
    heads: u32 = 0,
    /// Query heads per KV head.
    group: u32 = 1,
    /// Query heads in a tile: row `r` of a tile is token `r / pack` of head `r % pack`. 1, or
    /// `group`.
    pack: u32 = 1,
    /// Query tokens of a sequence; of the longest if `q_offsets` are given.
    q_length: u32 = 0,
    /// Key tokens of a sequence; of the longest if `k_offsets` or `k_lengths` are given.
    k_length: u32 = 0,
    /// The keys that a query sees.
    window: Window = Window::ALL,
    /// Tokens of a page, a power of two; used with `pages`.
    page: u32 = 0,
    /// Number of splits of the keys, each computed by a separate thread block; more than 1 needs
    /// the workspace.
    splits: u32 = 1,
    /// Row tiles of one head (of `pack` heads), `ceil(pack q_length / BLK_M)`.
    row_tiles: u32 = 0,
    /// The factor of the scores. Kernels without score options require it to be positive.
    scale: f32 = 1.0,
    /// `c` of `c tanh(score / c)`; 0 is off.
    softcap: f32 = 0.0,
    /// Reserved; must be 0.
    reserved: u32 = 0,
}

/// The strides of a tensor whose last mode is contiguous.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, KernelParam)]
pub struct Strides {
    /// Stride between sequences.
    pub batch: i64,
    /// Between tokens.
    pub row: i64,
    /// Between heads.
    pub head: i64,
}

/// The strides of a tensor with an element for each score.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, KernelParam)]
pub struct ScoreStrides {
    /// Stride between sequences.
    pub batch: i64,
    /// Between query heads.
    pub head: i64,
    /// Between query tokens.
    pub row: i64,
    /// Between key tokens.
    pub column: i64,
}

impl ScoreStrides {
    /// The element of key 0 in a row: the query head `head` heads after the first one of a tile.
    #[inline(always)]
    #[must_use]
    pub fn row(&self, work: &Work, Query { token, head }: Query) -> i64 {
        i64::from(work.batch) * self.batch
            + i64::from(work.head + head) * self.head
            + i64::from(token) * self.row
    }
}

impl<T: Element> Arguments<T> {
    /// The number of thread blocks of a launch of a kernel with tiles of `rows` rows; sets
    /// [`row_tiles`](Self::row_tiles).
    #[must_use]
    pub fn grid(&mut self, rows: u32) -> u32 {
        self.row_tiles = (self.q_length * self.pack).div_ceil(rows);
        self.row_tiles * (self.heads / self.pack) * self.splits * self.batches
    }

    /// The workspace row of a split for a query token of a head.
    #[inline(always)]
    #[must_use]
    pub fn partial_row(&self, work: &Work, head: u32, token: u32) -> i64 {
        let sequence = i64::from(work.split) * i64::from(self.batches) + i64::from(work.batch);
        (sequence * i64::from(self.heads) + i64::from(head)) * i64::from(self.q_length) + i64::from(token)
    }

    /// The unit of the scores passed to the softmax: the scale, or 1 where the scores are already
    /// scaled (an option needs it, or the scale is not positive).
    #[inline(always)]
    #[must_use]
    pub fn unit(&self) -> f32 {
        let scaled = self.softcap != 0.0
            || self.bias.address() != 0
            || self.slopes.address() != 0
            || self.scale <= 0.0;
        if scaled { 1.0 } else { self.scale }
    }

    /// Writes the maximum and the sum of a split's row.
    ///
    /// # Safety
    /// The workspace has the row, and no other thread touches it.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub unsafe fn write_partial_sum(&self, row: i64, sum: RowSum) {
        let address = self.partial_sums.offset(2 * row).address();
        Word64x2::store_global(address, Word64x2([sum.max, sum.sum].map(f32::to_bits)));
    }

    /// Whether an option changes individual scores.
    #[must_use]
    #[allow(clippy::neg_cmp_op_on_partial_ord, reason = "NaN is not positive")]
    pub fn changes_scores(&self) -> bool {
        self.bias.address() != 0
            || self.mask.address() != 0
            || self.slopes.address() != 0
            || self.softcap != 0.0
            || !(self.scale > 0.0)
    }

    /// Whether an option needs the kernel that changes individual scores, or loads keys by pages.
    #[must_use]
    pub fn is_general(&self) -> bool {
        self.changes_scores() || self.pages.address() != 0
    }
}
