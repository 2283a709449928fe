//! Tensor maps: the description of a tensor in global memory and of its boxes for tensor copies
//! (TMA).
//!
//! A [`TensorMap`] has the fields of CUDA's `cuTensorMapEncodeTiled`; [`TensorMap::check`] returns
//! a violated limit. On a GPU, the driver packs them into 128 bytes of an undocumented format; the
//! simulator packs them into 128 bytes of a different format ([`TensorMap::encode`]), which a
//! kernel also passes by address.
//!
//! Dimension 0 is the fastest and has no stride: its elements are contiguous.

mod check;
mod encode;
mod tile;

pub use check::TensorMapError;
pub use encode::{PARAMETER_SPACE, TENSOR_MAP_BYTES};
pub(crate) use tile::{Placement, Tile};

/// The most dimensions of a tensor map.
pub const MAX_TENSOR_RANK: usize = 5;

/// The element types that a tensor map distinguishes, with the driver's values
/// (`CUtensorMapDataType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "they say what they are")]
#[repr(u32)]
pub enum TensorElement {
    U8 = 0,
    U16 = 1,
    U32 = 2,
    I32 = 3,
    U64 = 4,
    I64 = 5,
    F16 = 6,
    F32 = 7,
    F64 = 8,
    Bf16 = 9,
    /// `f32` whose denormals become 0.
    F32Ftz = 10,
    /// `f32` that the copy rounds to tf32.
    Tf32 = 11,
    /// [`Tf32`](Self::Tf32) whose denormals become 0.
    Tf32Ftz = 12,
}

impl TensorElement {
    /// All types, by their values.
    pub const ALL: [Self; 13] = [
        Self::U8,
        Self::U16,
        Self::U32,
        Self::I32,
        Self::U64,
        Self::I64,
        Self::F16,
        Self::F32,
        Self::F64,
        Self::Bf16,
        Self::F32Ftz,
        Self::Tf32,
        Self::Tf32Ftz,
    ];

    /// The size of an element in bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 | Self::F32Ftz | Self::Tf32 | Self::Tf32Ftz => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Whether it is a floating-point number.
    pub const fn is_float(self) -> bool {
        !matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::I32 | Self::U64 | Self::I64)
    }
}

/// The permutation of 16-byte chunks within rows of shared memory, with the driver's values
/// (`CUtensorMapSwizzle`).
///
/// With a span of `2^(4 + b)` bytes, bits 4 to `3 + b` of the shared address are XORed with bits 7
/// to `6 + b`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "they say what they are")]
#[repr(u32)]
pub enum TensorSwizzle {
    #[default]
    None = 0,
    B32 = 1,
    B64 = 2,
    B128 = 3,
}

impl TensorSwizzle {
    /// The most bytes of a box along dimension 0, if there is a limit; the rows of a box are that
    /// many bytes apart in shared memory.
    pub const fn span(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::B32 => Some(32),
            Self::B64 => Some(64),
            Self::B128 => Some(128),
        }
    }

    /// The swizzled shared address.
    pub const fn apply(self, address: u32) -> u32 {
        let mask = (1 << self as u32) - 1;
        address ^ ((address >> 7 & mask) << 4)
    }
}

/// The value that a load returns for out-of-bounds elements, with the driver's values
/// (`CUtensorMapFloatOOBfill`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum TensorFill {
    /// Zeros.
    #[default]
    Zero = 0,
    /// A NaN that matrix instructions treat as 0.
    Nan = 1,
}

/// The granularity of fetches into L2, with the driver's values (`CUtensorMapL2promotion`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "they say what they are")]
#[repr(u32)]
pub enum TensorPromotion {
    None = 0,
    B64 = 1,
    #[default]
    B128 = 2,
    B256 = 3,
}

/// A tensor in global memory and the boxes that tensor copies move. Dimensions from `rank` on are 1
/// and ignored.
///
/// In shared memory the rows of a box, its elements along dimension 0, are contiguous. With a
/// swizzle they start one span apart ([`TensorSwizzle::span`]), even if shorter: loads do not write
/// the rest of the span and stores do not read it, but it takes memory, and does not count in
/// [`box_bytes`](Self::box_bytes).
///
/// ```
/// use moye_sim::{TensorElement, TensorMap, TensorSwizzle};
///
/// // Boxes of 64 x 128 of a row-major matrix of bf16 with 1000 rows of 512.
/// let map = TensorMap::new(TensorElement::Bf16, 0x1000, &[512, 1000], &[1024], &[64, 128]);
/// assert_eq!(map.with_swizzle(TensorSwizzle::B128).check(), Ok(()));
/// assert_eq!(map.box_bytes(), 64 * 128 * 2);
///
/// let odd = TensorMap::new(TensorElement::Bf16, 0x1000, &[500, 1000], &[1000], &[64, 128]);
/// assert_eq!(
///     odd.check().unwrap_err().to_string(),
///     "the stride of dimension 1 of the tensor is 1000 bytes; it must be a multiple of 16 (992 and 1008 are) below 2^40"
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// The type of the elements.
    pub element: TensorElement,
    /// The number of dimensions, 1 to 5.
    pub rank: usize,
    /// The address of the tensor in global memory.
    pub address: u64,
    /// The tensor's extents, in elements.
    pub extents: [u64; MAX_TENSOR_RANK],
    /// The strides of dimensions 1 to 4, in bytes.
    pub strides: [u64; MAX_TENSOR_RANK - 1],
    /// The extents of a box.
    pub box_extents: [u32; MAX_TENSOR_RANK],
    /// The step between moved elements of a box, by dimension. The step of dimension 0 has no
    /// effect.
    pub element_strides: [u32; MAX_TENSOR_RANK],
    /// The swizzle in shared memory.
    pub swizzle: TensorSwizzle,
    /// The value that loads return for out-of-bounds elements.
    pub fill: TensorFill,
    /// The granularity of L2 fetches.
    pub promotion: TensorPromotion,
}

impl TensorMap {
    /// A map without a swizzle, of boxes without gaps. The slices have a value for each dimension,
    /// `strides` one less. Values past the fifth are ignored, and [`check`](Self::check) reports
    /// them.
    pub fn new(
        element: TensorElement,
        address: u64,
        extents: &[u64],
        strides: &[u64],
        box_extents: &[u32],
    ) -> Self {
        fn taken<T: Copy, const N: usize>(from: &[T], rest: T) -> [T; N] {
            std::array::from_fn(|i| from.get(i).copied().unwrap_or(rest))
        }
        Self {
            element,
            rank: extents.len(),
            address,
            extents: taken(extents, 1),
            strides: taken(strides, 0),
            box_extents: taken(box_extents, 1),
            element_strides: [1; MAX_TENSOR_RANK],
            swizzle: TensorSwizzle::None,
            fill: TensorFill::Zero,
            promotion: TensorPromotion::B128,
        }
    }

    /// The same map with a swizzle. Box rows shorter than its span are one span apart in shared
    /// memory.
    #[must_use]
    pub fn with_swizzle(self, swizzle: TensorSwizzle) -> Self {
        Self { swizzle, ..self }
    }

    /// The same map with another fill.
    #[must_use]
    pub fn with_fill(self, fill: TensorFill) -> Self {
        Self { fill, ..self }
    }

    /// The elements that a box moves along a dimension.
    pub fn box_count(&self, dimension: usize) -> u32 {
        let stride = if dimension == 0 { 1 } else { self.element_strides[dimension].max(1) };
        self.box_extents[dimension].div_ceil(stride)
    }

    /// The bytes that one copy moves, including out-of-bounds elements but not the gaps between
    /// rows: the number that its mbarrier expects.
    pub fn box_bytes(&self) -> u64 {
        (0..MAX_TENSOR_RANK).map(|d| u64::from(self.box_count(d))).product::<u64>() * self.element.bytes()
    }

    /// Whether a box that begins at these coordinates can be stored, or added to the tensor. Loads
    /// may begin anywhere.
    ///
    /// On an H200 (driver 580.159.04) stores and additions that start below 0 along any dimension
    /// are illegal instructions, even if most of the box is in the tensor (observed with 1 to 5
    /// dimensions, along the first and the last); stores that start at or past its end are not.
    ///
    /// ```
    /// use moye_sim::{TensorElement, TensorMap};
    ///
    /// let line = TensorMap::new(TensorElement::U32, 0x1000, &[100], &[], &[64]);
    /// assert!(line.stores_from(&[96]) && line.stores_from(&[128]));
    /// assert!(!line.stores_from(&[-4]));
    /// ```
    pub fn stores_from(&self, start: &[i32]) -> bool {
        start.iter().take(self.rank).all(|&at| at >= 0)
    }

    /// The number of bytes from the tensor's first byte to its last; `u64::MAX`, which exceeds
    /// every allocation, if it is larger: a single dimension may reach 2^72.
    pub(crate) fn span_bytes(&self) -> u64 {
        let reach = |d: usize| {
            let stride = if d == 0 { self.element.bytes() } else { self.strides[d - 1] };
            u128::from(self.extents[d].saturating_sub(1)) * u128::from(stride)
        };
        let span = (0..self.rank).map(reach).sum::<u128>() + u128::from(self.element.bytes());
        u64::try_from(span).unwrap_or(u64::MAX)
    }
}
