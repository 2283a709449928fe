//! The strides of a tensor in global memory: values known at run time, and their properties known
//! at compile time.

use super::at::{MAX_PLACES, PlaceKinds};
use super::rank::{Rank, TensorRank};
use crate::layout::Text;
use core::marker::PhantomData;

/// The strides of a tensor in global memory, and their compile-time part.
pub trait Strides: Copy {
    /// The tensor's rank, `Rank<2>` for a matrix.
    type Rank: TensorRank;

    /// The contiguous mode, if known.
    const UNIT: Option<usize>;

    /// A number of bytes of which the base address and all other strides are known to be multiples;
    /// 0 if unknown, which for elements smaller than a byte includes that a row starts at a byte.
    const ALIGN: usize;

    /// Whether every tile is in bounds, so that no predicates are needed.
    const WHOLE: bool = false;

    /// The stride along `axis`, in elements. A tensor of one mode has a second mode of extent 1.
    fn along(self, axis: usize) -> i64;
}

/// Strides without known properties.
#[derive(Clone, Copy)]
pub struct Dense<const R: usize = 2>(pub [i64; R]);

impl<const R: usize> Strides for Dense<R>
where
    Rank<R>: TensorRank,
{
    type Rank = Rank<R>;
    const UNIT: Option<usize> = None;
    const ALIGN: usize = 0;

    #[inline(always)]
    fn along(self, axis: usize) -> i64 {
        if const { R > 1 } {
            return self.0[axis];
        }
        if axis == 0 { self.0[0] } else { 0 }
    }
}

/// Stride 1 along mode `AXIS`. The field holds the strides of the other modes, in order: for a
/// matrix the leading dimension, for `R` modes `[i64; R - 1]`.
///
/// ```
/// use moye_device::tensor::{Strides, UnitStride};
/// let matrix = UnitStride::<1>(64); // (M, K), K contiguous
/// let batches = UnitStride::<1, [i64; 2]>([64, 4096]); // (M, K, L)
/// assert_eq!((matrix.along(0), matrix.along(1)), (64, 1));
/// assert_eq!((batches.along(0), batches.along(1), batches.along(2)), (64, 1, 4096));
/// ```
#[derive(Clone, Copy)]
pub struct UnitStride<const AXIS: usize, O = i64>(pub O);

impl<const AXIS: usize> Strides for UnitStride<AXIS> {
    type Rank = Rank<2>;
    const UNIT: Option<usize> = unit(AXIS, 2);
    const ALIGN: usize = 0;

    #[inline(always)]
    fn along(self, axis: usize) -> i64 {
        if axis == AXIS { 1 } else { self.0 }
    }
}

impl Strides for UnitStride<0, [i64; 0]> {
    type Rank = Rank<1>;
    const UNIT: Option<usize> = Some(0);
    const ALIGN: usize = 0;

    #[inline(always)]
    fn along(self, _: usize) -> i64 {
        1
    }
}

macro_rules! unit_stride {
    ($($others:literal: $rank:literal),+) => { $(
        impl<const AXIS: usize> Strides for UnitStride<AXIS, [i64; $others]> {
            type Rank = Rank<$rank>;
            const UNIT: Option<usize> = unit(AXIS, $rank);
            const ALIGN: usize = 0;

            #[inline(always)]
            fn along(self, axis: usize) -> i64 {
                if axis == AXIS { 1 } else { self.0[if axis < AXIS { axis } else { axis - 1 }] }
            }
        }
    )+ };
}
unit_stride!(2: 3, 3: 4, 4: 5);

/// The contiguous mode is a mode of the tensor, or it does not compile.
const fn unit(axis: usize, rank: usize) -> Option<usize> {
    if axis >= rank {
        let mut text = Text::<200>::new();
        text.str("UnitStride: mode ");
        text.int(axis as i64);
        text.str(" of a tensor of ");
        text.int(rank as i64);
        text.str(" modes");
        panic!("{}", text.as_str());
    }
    Some(axis)
}

/// Strides with the promise that the base address and every stride other than 1 are multiples of
/// `BYTES` bytes, so that accesses may be that wide. The host ensures this when it chooses the
/// kernel; otherwise accesses are misaligned, which the GPU and the simulator both report.
#[derive(Clone, Copy)]
pub struct Aligned<S, const BYTES: usize>(pub S);

impl<S: Strides, const BYTES: usize> Strides for Aligned<S, BYTES> {
    type Rank = S::Rank;
    const UNIT: Option<usize> = S::UNIT;
    const WHOLE: bool = S::WHOLE;
    const ALIGN: usize = {
        if !BYTES.is_power_of_two() {
            let mut text = Text::<200>::new();
            text.str("Aligned: the alignment is a power of two of bytes, 4, 8 or 16 say; this is ");
            text.int(BYTES as i64);
            panic!("{}", text.as_str());
        }
        BYTES
    };

    #[inline(always)]
    fn along(self, axis: usize) -> i64 {
        self.0.along(axis)
    }
}

/// Strides with the promise that every tile is in bounds: the extents are multiples of the tile's.
/// Accesses are then not predicated. The host ensures this when it chooses the kernel; a violation
/// is an out of bounds access, which the simulator reports.
#[derive(Clone, Copy)]
pub struct WholeTiles<S>(pub S);

impl<S: Strides> Strides for WholeTiles<S> {
    type Rank = S::Rank;
    const UNIT: Option<usize> = S::UNIT;
    const ALIGN: usize = S::ALIGN;
    const WHOLE: bool = true;

    #[inline(always)]
    fn along(self, axis: usize) -> i64 {
        self.0.along(axis)
    }
}

/// The strides `S` of the modes that a slice keeps, according to `K`.
#[derive(Clone, Copy)]
pub struct KeptStrides<S, K> {
    all: S,
    kinds: PhantomData<fn() -> K>,
}

impl<S: Strides, K: PlaceKinds> KeptStrides<S, K> {
    /// The original mode of each kept mode.
    pub(super) const MODES: [usize; MAX_PLACES] = {
        let mut modes = [0; MAX_PLACES];
        let (mut mode, mut kept) = (0, 0);
        while mode < K::COUNT {
            if !K::FIXED[mode] {
                modes[kept] = mode;
                kept += 1;
            }
            mode += 1;
        }
        modes
    };

    #[inline(always)]
    pub(super) const fn new(all: S) -> Self {
        Self { all, kinds: PhantomData }
    }
}

impl<S: Strides, K: PlaceKinds> Strides for KeptStrides<S, K> {
    type Rank = K::Kept;

    const UNIT: Option<usize> = {
        let (mut unit, mut kept) = (None, 0);
        while kept < <K::Kept as TensorRank>::RANK {
            if let Some(axis) = S::UNIT
                && Self::MODES[kept] == axis
            {
                unit = Some(kept);
            }
            kept += 1;
        }
        unit
    };

    // Fixing the contiguous mode moves the base address by single elements.
    const ALIGN: usize = if S::UNIT.is_some() && Self::UNIT.is_none() { 0 } else { S::ALIGN };

    const WHOLE: bool = S::WHOLE;

    #[inline(always)]
    fn along(self, axis: usize) -> i64 {
        self.all.along(Self::MODES[axis])
    }
}
