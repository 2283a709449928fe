//! The element types of a product, and the kernels for them.
#![cfg_attr(not(feature = "matmul"), allow(unused, reason = "each operand type uses some of it"))]

use super::factor::Factor;
use super::hopper::{LoadedProduct, TmaProduct};
use crate::kernels::hopper::{self, Boxes, SgemmBox, SgemmConfig, WgmmaConfig};
use crate::kernels::mma::{self, Arguments, Convertible, Scalar};
use half::{bf16, f16};
use moye_device::kernel::Kernel;
use moye_device::memory::Element;
use moye_device::number::{F8E4M3, F8E5M2};
use moye_sim::TensorElement;
use std::fmt;

/// An element type of the operands: `f16`, `bf16`, `f32`, `f64`, `i8`; on Hopper also `F8E4M3` and
/// `F8E5M2`.
///
/// ```compile_fail
/// fn product<T: moye::Operand>() {}
/// product::<u64>(); // no instruction multiplies these
/// ```
#[diagnostic::on_unimplemented(
    message = "matrices of `{Self}` cannot be multiplied",
    note = "operands have elements f16, bf16, f32, f64, i8, F8E4M3 or F8E5M2"
)]
pub trait Operand: Element + sealed::Sealed {
    /// The type of `alpha`, `beta` and the activation's arithmetic: `f32` for floats of up to 32
    /// bits, `f64`, and `i32` for integers.
    type Scalar: Scalar + Convertible<Self::Scalar> + Factor;
    /// The narrower of the result types: the operands' own, `i32` for integers, `bf16` for 8-bit
    /// floats.
    #[doc(hidden)]
    type Narrow: Convertible<Self::Scalar>;
    #[doc(hidden)]
    const VARIANTS: &'static [Variant<Self>];
    /// The element type of the operands' tensor maps, and the type of the arithmetic.
    #[doc(hidden)]
    const TENSOR_ELEMENT: TensorElement;
    #[doc(hidden)]
    const TENSOR_SCALAR: TensorElement;
    /// Whether activations with an exponential are defined for it.
    #[doc(hidden)]
    const SMOOTH: bool = true;
}

/// An 8-bit operand, which is used with scales: [`F8E4M3`] and [`F8E5M2`]. See
/// [`Matmul::scale_a`](crate::Matmul::scale_a).
#[diagnostic::on_unimplemented(
    message = "matrices of `{Self}` have no scales",
    note = "only 8-bit floats have scales; for other elements use `alpha`"
)]
pub trait Float8: Operand<Scalar = f32> {}
#[cfg(feature = "matmul-f8")]
impl Float8 for F8E4M3 {}
#[cfg(feature = "matmul-f8")]
impl Float8 for F8E5M2 {}

/// An element type of the result for operands `T`: the operands' own (`i32` for `i8`, `bf16` for
/// 8-bit floats), or `f32` for half precision and 8-bit floats.
#[diagnostic::on_unimplemented(
    message = "the product of matrices of `{T}` cannot be written as `{Self}`",
    note = "f16 and bf16 give their own type or f32, f32 gives f32, f64 gives f64, i8 gives i32, F8E4M3 and F8E5M2 give bf16 or f32"
)]
pub trait Output<T: Operand>: Convertible<T::Scalar> {
    /// Whether it is the accumulator's type, where the kernels write both types.
    #[doc(hidden)]
    const WIDE: bool;
    /// Its element type in tensor maps.
    #[doc(hidden)]
    const TENSOR_ELEMENT: TensorElement;
    #[doc(hidden)]
    fn finish() -> Finish<T, Self>;
}

/// A kernel that computes a product.
type Product<T> = Kernel<(Arguments<T, <T as Operand>::Narrow, <T as Operand>::Scalar>,)>;

/// A kernel that reduces the splits along K.
type Finish<T, U> = Kernel<(Arguments<<T as Operand>::Scalar, U, <T as Operand>::Scalar>,)>;

/// The precision of the accumulators, where there is a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// f32 by fused multiply-adds in f32; half precision with f32 accumulators.
    #[default]
    Full,
    /// f32 on tensor cores, which read 10 bits of each fraction (tf32).
    Tf32,
    /// f16 with f16 accumulators.
    F16Accumulators,
}

/// The contiguous mode of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Major {
    /// K.
    K,
    /// M or N.
    Mn,
}

/// A kernel with its properties.
pub struct Variant<T: Operand> {
    /// The kernel.
    pub kernel: Code<T>,
    /// The contiguous modes of A and of B.
    pub majors: [Major; 2],
    /// The precision of its accumulators.
    pub precision: Precision,
    /// The block's tile (BLK_M, BLK_N, BLK_K) in the kernel's own orientation.
    pub tile: [u32; 3],
    /// Blocks that a multiprocessor has at a time.
    pub per_multiprocessor: u32,
    /// Whether its epilogue offers `alpha` only, and writes an M-contiguous C in 16-byte vectors:
    /// the `sgemm` kernels.
    pub plain: bool,
    /// For plain kernels: whether K-contiguous operands are read in pairs of elements rather than
    /// one at a time.
    pub turned: bool,
    /// Whether all of its tiles are whole: ping-pong kernels, of those with a persistent grid,
    /// share none by pieces of K.
    pub whole: bool,
    /// For kernels with large tiles: whether each block computes one tile and exits.
    pub once: bool,
    /// Whether it is fast only with operands whose rows start at cache lines, so that others are
    /// rearranged: kernels whose large tiles share no operand.
    pub lines: bool,
    /// The measured rate at full occupancy on an H200, in 10^12 operations per second.
    pub rate: f64,
    /// The overhead of a tile of a `wgmma` kernel beyond its product, in steps along K. A block
    /// with one tile pays half of it for prologue and epilogue, a plain kernel all of it. Fitted
    /// together with the rate.
    pub fill: f64,
}

/// A kernel of any kind that computes a product.
#[derive(Clone, Copy)]
pub enum Code<T: Operand> {
    /// `mma.sync` or FMA: one tile for each block, operands by address.
    Blocks(Product<T>),
    /// FMA on Hopper: one tile for each block, operands by tensor maps with these boxes.
    Loaded(LoadedProduct<T>, [SgemmBox; 2]),
    /// Hopper, mostly `wgmma`: operands by tensor maps with these boxes.
    Tma(TmaProduct<T>, [Boxes; 2], Clusters),
}

/// How the blocks of a cluster divide the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clusters {
    /// The blocks have tiles of C below each other and share B by multicast: a persistent grid.
    Rows(u32),
    /// The blocks have the same tile and a split of K each: one cluster for each tile, or one block
    /// if there is a single split.
    Parts(u32),
}

impl Clusters {
    /// The blocks of a cluster.
    pub fn blocks(self) -> u32 {
        let (Self::Rows(blocks) | Self::Parts(blocks)) = self;
        blocks
    }

    /// The splits of K in a cluster.
    pub fn parts(self) -> u32 {
        match self {
            Self::Rows(_) => 1,
            Self::Parts(blocks) => blocks,
        }
    }

    /// The tiles of a cluster, below each other.
    pub const fn tiles(self) -> u32 {
        match self {
            Self::Rows(blocks) => blocks,
            Self::Parts(_) => 1,
        }
    }
}

impl<T: Operand> Code<T> {
    /// The kernel's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Blocks(kernel) => kernel.name(),
            Self::Loaded(kernel, _) => kernel.name(),
            Self::Tma(kernel, ..) => kernel.name(),
        }
    }

    /// The shared memory of a block in bytes.
    pub fn shared_bytes(&self) -> usize {
        match self {
            Self::Blocks(kernel) => kernel.shared_bytes(),
            Self::Loaded(kernel, _) => kernel.shared_bytes(),
            Self::Tma(kernel, ..) => kernel.shared_bytes(),
        }
    }

    /// The blocks of its clusters; 1 for both if it has none.
    pub fn clusters(&self) -> Clusters {
        match self {
            Self::Blocks(_) | Self::Loaded(..) => Clusters::Rows(1),
            Self::Tma(_, _, clusters) => *clusters,
        }
    }

    /// Whether it loads by TMA and exists for sm_90a only.
    pub fn is_tma(&self) -> bool {
        matches!(self, Self::Loaded(..) | Self::Tma(..))
    }

    /// Whether its blocks loop over tiles.
    pub fn is_persistent(&self) -> bool {
        matches!(self, Self::Tma(_, _, Clusters::Rows(_)))
    }
}

/// The kernels for these elements and this precision; those by TMA only if the device has `wgmma`.
pub(super) fn variants<T: Operand>(
    precision: Precision,
    wgmma: bool,
) -> impl Iterator<Item = &'static Variant<T>> {
    T::VARIANTS
        .iter()
        .filter(move |variant| variant.precision == precision && (wgmma || !variant.kernel.is_tma()))
}

/// The names of these kernels.
pub(super) fn kernels<T: Operand>(precision: Precision, wgmma: bool) -> Vec<&'static str> {
    variants::<T>(precision, wgmma).map(|variant| variant.kernel.name()).collect()
}

/// Their tiles of C, M x N.
pub(super) fn tiles<T: Operand>(precision: Precision, wgmma: bool) -> Vec<(u32, u32)> {
    let mut tiles: Vec<_> =
        variants::<T>(precision, wgmma).map(|variant| (variant.tile[0], variant.tile[1])).collect();
    tiles.sort_unstable();
    tiles.dedup();
    tiles
}

impl<T: Operand> Variant<T> {
    /// The contiguous modes of A and of B. Plain kernels compute the transposed product, so that
    /// their `a` is B.
    pub fn majors_of_operands(&self) -> [Major; 2] {
        let [first, second] = self.majors;
        if self.plain { [second, first] } else { [first, second] }
    }

    /// The extent of a block's tile along A's rows and B's columns.
    pub fn tile_of_operands(&self) -> (u32, u32) {
        let [first, second, _] = self.tile;
        if self.plain { (second, first) } else { (first, second) }
    }
}

impl<T: Operand> fmt::Debug for Variant<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kernel.name())
    }
}

const K: Major = Major::K;
const MN: Major = Major::Mn;

/// The boxes of A and of B for a kernel's configuration, which must agree with the table.
const fn boxes<G: WgmmaConfig>(tile: [u32; 3], majors: [Major; 2], clusters: Clusters) -> [Boxes; 2] {
    let boxes = [G::BOXES_A, G::BOXES_B];
    assert!(G::BLK_M == tile[0] && G::BLK_N == tile[1] && G::BLK_K == tile[2], "the tile of the kernel");
    assert!(G::CLUSTER == clusters.tiles(), "the blocks of the kernel's clusters");
    let mut i = 0;
    while i < 2 {
        let k = matches!(boxes[i].major, moye_device::layout::Major::K);
        assert!(k == matches!(majors[i], Major::K), "the contiguous modes of the kernel's operands");
        i += 1;
    }
    boxes
}

/// The same of a kernel of f32 by FMA.
const fn boxes_of_sgemm<G: SgemmConfig>(tile: [u32; 3], majors: [Major; 2]) -> [SgemmBox; 2] {
    let [a, b] = G::BOXES;
    assert!(a.extent == tile[0] && b.extent == tile[1] && a.k == tile[2], "the tile of the kernel");
    assert!(
        G::GRANULES[0] == 4 && G::GRANULES[1] == if matches!(majors[1], Major::K) { 1 } else { 4 },
        "the plan rounds extents up to these (`whole_words`)"
    );
    let mut i = 0;
    while i < 2 {
        let k = matches!(G::BOXES[i].major, moye_device::layout::Major::K);
        assert!(k == matches!(majors[i], Major::K), "the contiguous modes of the kernel's operands");
        i += 1;
    }
    G::BOXES
}

/// The [`Variant::fill`] of most kernels.
const FILL_OF_PERSISTENT: f64 = 2.0;

/// A table of variants.
macro_rules! variants {
    (@fill) => { FILL_OF_PERSISTENT };
    (@fill $fill:literal) => { $fill };
    (@is plain plain) => { true };
    (@is plain turned) => { true };
    (@is plain loaded) => { true };
    (@is turned turned) => { true };
    (@is whole wgmma_ping_pong) => { true };
    (@is lines wgmma_alone) => { true };
    (@is once wgmma_once) => { true };
    (@is $what:ident $other:ident) => { false };
    (@code $kernel:ident [$a:ident $b:ident] $m:literal $n:literal $k:literal wgmma) => {
        variants!(@code $kernel [$a $b] $m $n $k Rows 1)
    };
    (@code $kernel:ident [$a:ident $b:ident] $m:literal $n:literal $k:literal wgmma_alone) => {
        variants!(@code $kernel [$a $b] $m $n $k Rows 1)
    };
    (@code $kernel:ident [$a:ident $b:ident] $m:literal $n:literal $k:literal wgmma_pairs) => {
        variants!(@code $kernel [$a $b] $m $n $k Rows 2)
    };
    (@code $kernel:ident [$a:ident $b:ident] $m:literal $n:literal $k:literal wgmma_ping_pong) => {
        variants!(@code $kernel [$a $b] $m $n $k Rows 2)
    };
    (@code $kernel:ident [$a:ident $b:ident] $m:literal $n:literal $k:literal wgmma_small) => {
        variants!(@code $kernel [$a $b] $m $n $k Parts 1)
    };
    (@code $kernel:ident [$a:ident $b:ident] $m:literal $n:literal $k:literal wgmma_once) => {
        variants!(@code $kernel [$a $b] $m $n $k Parts 1)
    };
    (@code $kernel:ident [$a:ident $b:ident] $m:literal $n:literal $k:literal wgmma_halves) => {
        variants!(@code $kernel [$a $b] $m $n $k Parts 2)
    };
    (@code $kernel:ident [$a:ident $b:ident] $m:literal $n:literal $k:literal loaded) => {
        Code::Loaded(hopper::$kernel, boxes_of_sgemm::<hopper::$kernel::Tiling>([$m, $n, $k], [$a, $b]))
    };
    (@code $kernel:ident [$a:ident $b:ident] $m:literal $n:literal $k:literal $clusters:ident $blocks:expr) => {
        Code::Tma(hopper::$kernel, boxes::<hopper::$kernel::Tiling>([$m, $n, $k], [$a, $b], Clusters::$clusters($blocks)), Clusters::$clusters($blocks))
    };
    (@code $kernel:ident [$a:ident $b:ident] $m:literal $n:literal $k:literal $(plain)? $(turned)?) => {
        Code::Blocks(mma::$kernel)
    };
    ($($kernel:ident [$a:ident $b:ident] $precision:ident $m:literal x $n:literal x $k:literal, $per:literal, $rate:literal $(fill $fill:literal)? $(, $plain:ident)?;)+) => {
        &[$(Variant {
            kernel: variants!(@code $kernel [$a $b] $m $n $k $($plain)?),
            majors: [$a, $b],
            precision: Precision::$precision,
            tile: [$m, $n, $k],
            per_multiprocessor: $per,
            plain: false $(|| variants!(@is plain $plain))?,
            turned: false $(|| variants!(@is turned $plain))?,
            whole: false $(|| variants!(@is whole $plain))?,
            lines: false $(|| variants!(@is lines $plain))?,
            once: false $(|| variants!(@is once $plain))?,
            rate: $rate,
            fill: variants!(@fill $($fill)?),
        }),+]
    };
}

/// The table of f16 or bf16: for each order of the operands the kernels by `wgmma` with tiles of
/// 128 x 256 and 128 x 128, and by `mma.sync` with 256 x 128 and 64 x 64, with the rates of the
/// first and the third; `tn`: with K contiguous in both, a block of 128 x 256 or 256 x 128 alone,
/// with their rates, 128 x 192, 128 x 128 and 128 x 192 in pairs that share K, 64 x 128, and in
/// pairs, and 128 x 128, 128 x 192 and 192 x 192 with a block for each; `few`: 64 x 64, and in
/// pairs; and what a type has besides.
macro_rules! half_precision {
    ($($t:ident: $element:ident {
        $([$a:ident $b:ident] $wide:ident $rate_wide:literal, $square:ident, $blocks:ident $rate_blocks:literal, $small:ident;)+
        tn $alone:ident $rate_alone:literal, $tall:ident $rate_tall:literal, $between:ident, $pair:ident, $pair_between:ident, $half:ident, $half_pair:ident,
            $once_square:ident, $once_between:ident, $once_large:ident;
        $(few [$few_a:ident $few_b:ident] $one:ident, $halves:ident;)+
        $(+ $($more:tt)+)?
    })+) => { $(
        impl Operand for $t {
            type Scalar = f32;
            type Narrow = Self;
            const TENSOR_ELEMENT: TensorElement = TensorElement::$element;
            const TENSOR_SCALAR: TensorElement = TensorElement::F32;
            const VARIANTS: &'static [Variant<Self>] = variants! {
                $(
                    $wide [$a $b] Full 128 x 256 x 64, 1, $rate_wide, wgmma_pairs;
                    $square [$a $b] Full 128 x 128 x 64, 1, 616.0, wgmma;
                    $blocks [$a $b] Full 256 x 128 x 64, 1, $rate_blocks;
                    $small [$a $b] Full 64 x 64 x 64, 3, 220.0;
                )+
                $alone [K K] Full 128 x 256 x 64, 1, $rate_alone, wgmma_alone;
                $tall [K K] Full 256 x 128 x 64, 1, $rate_tall, wgmma_alone;
                $between [K K] Full 128 x 192 x 64, 1, 640.0, wgmma_pairs;
                $pair [K K] Full 128 x 128 x 64, 1, 520.0, wgmma_halves;
                $pair_between [K K] Full 128 x 192 x 64, 1, 560.0, wgmma_halves;
                $half [K K] Full 64 x 128 x 64, 1, 560.0, wgmma_small;
                $half_pair [K K] Full 64 x 128 x 64, 1, 560.0, wgmma_halves;
                $once_square [K K] Full 128 x 128 x 64, 1, 616.0, wgmma_once;
                $once_between [K K] Full 128 x 192 x 64, 1, 640.0, wgmma_once;
                $once_large [K K] Full 192 x 192 x 64, 1, 600.0, wgmma_once;
                $(
                    $one [$few_a $few_b] Full 64 x 64 x 128, 1, 400.0, wgmma_small;
                    $halves [$few_a $few_b] Full 64 x 64 x 128, 1, 400.0, wgmma_halves;
                )+
                $($($more)+)?
            };
        }
    )+ };
}
#[cfg(feature = "matmul-f16")]
half_precision! {
    f16: F16 {
        [K K] wgmma_f16_tn 670.0, wgmma_f16_tn_128x128, matmul_f16_tn 370.0, matmul_f16_tn_64x64;
        [MN MN] wgmma_f16_nt 670.0, wgmma_f16_nt_128x128, matmul_f16_nt 360.0, matmul_f16_nt_64x64;
        [MN K] wgmma_f16_nn 670.0, wgmma_f16_nn_128x128, matmul_f16_nn 360.0, matmul_f16_nn_64x64;
        [K MN] wgmma_f16_tt 670.0, wgmma_f16_tt_128x128, matmul_f16_tt 360.0, matmul_f16_tt_64x64;
        tn wgmma_f16_tn_alone 666.0, wgmma_f16_tn_256x128 659.0, wgmma_f16_tn_128x192, wgmma_f16_tn_128x128_k2, wgmma_f16_tn_128x192_k2,
            wgmma_f16_tn_64x128, wgmma_f16_tn_64x128_k2,
            wgmma_f16_tn_128x128_once, wgmma_f16_tn_128x192_once, wgmma_f16_tn_192x192_once;
        few [K K] wgmma_f16_tn_64x64, wgmma_f16_tn_64x64_k2;
        few [MN K] wgmma_f16_nn_64x64, wgmma_f16_nn_64x64_k2;
        few [K MN] wgmma_f16_tt_64x64, wgmma_f16_tt_64x64_k2;
        + matmul_f16_acc_tn [K K] F16Accumulators 256 x 128 x 64, 1, 400.0;
        matmul_f16_acc_tn_64x64 [K K] F16Accumulators 64 x 64 x 64, 3, 240.0;
    }
}
#[cfg(feature = "matmul-bf16")]
half_precision! {
    bf16: Bf16 {
        [K K] wgmma_bf16_tn 690.0, wgmma_bf16_tn_128x128, matmul_bf16_tn 370.0, matmul_bf16_tn_64x64;
        [MN MN] wgmma_bf16_nt 690.0, wgmma_bf16_nt_128x128, matmul_bf16_nt 360.0, matmul_bf16_nt_64x64;
        [MN K] wgmma_bf16_nn 690.0, wgmma_bf16_nn_128x128, matmul_bf16_nn 360.0, matmul_bf16_nn_64x64;
        [K MN] wgmma_bf16_tt 690.0, wgmma_bf16_tt_128x128, matmul_bf16_tt 360.0, matmul_bf16_tt_64x64;
        tn wgmma_bf16_tn_alone 686.0, wgmma_bf16_tn_256x128 679.0, wgmma_bf16_tn_128x192, wgmma_bf16_tn_128x128_k2, wgmma_bf16_tn_128x192_k2,
            wgmma_bf16_tn_64x128, wgmma_bf16_tn_64x128_k2,
            wgmma_bf16_tn_128x128_once, wgmma_bf16_tn_128x192_once, wgmma_bf16_tn_192x192_once;
        few [K K] wgmma_bf16_tn_64x64, wgmma_bf16_tn_64x64_k2;
        few [MN K] wgmma_bf16_nn_64x64, wgmma_bf16_nn_64x64_k2;
        few [K MN] wgmma_bf16_tt_64x64, wgmma_bf16_tt_64x64_k2;
    }
}

/// 8-bit floats: only `wgmma` multiplies them, with K contiguous in both.
macro_rules! float8 {
    ($($t:ident $wide:ident, $square:ident;)+) => { $(
        impl Operand for $t {
            type Scalar = f32;
            type Narrow = bf16;
            // Tensor maps have no 8-bit floats; the copies move bytes.
            const TENSOR_ELEMENT: TensorElement = TensorElement::U8;
            const TENSOR_SCALAR: TensorElement = TensorElement::F32;
            const VARIANTS: &'static [Variant<Self>] = variants! {
                $wide [K K] Full 128 x 256 x 128, 1, 1387.0 fill 3.2, wgmma_pairs;
                $square [K K] Full 128 x 128 x 128, 1, 1345.0 fill 2.8, wgmma_ping_pong;
            };
        }
    )+ };
}
#[cfg(feature = "matmul-f8")]
float8! {
    F8E4M3 wgmma_e4m3_tn, wgmma_e4m3_tn_128x128;
    F8E5M2 wgmma_e5m2_tn, wgmma_e5m2_tn_128x128;
}

#[cfg(feature = "matmul-f32")]
impl Operand for f32 {
    type Scalar = Self;
    type Narrow = Self;
    const TENSOR_ELEMENT: TensorElement = TensorElement::Tf32;
    const TENSOR_SCALAR: TensorElement = TensorElement::F32;
    const VARIANTS: &'static [Variant<Self>] = variants! {
        wgmma_tf32_tn [K K] Tf32 128 x 256 x 32, 1, 350.0, wgmma_pairs;
        sgemm_nt_tma [MN MN] Full 256 x 128 x 16, 1, 57.9 fill 0.6, loaded;
        sgemm_nn_tma [MN K] Full 256 x 128 x 16, 1, 56.4 fill 0.6, loaded;
        sgemm_tn_tma [K K] Full 256 x 128 x 16, 1, 54.4 fill 0.4, loaded;
        sgemm_nt [MN MN] Full 256 x 128 x 16, 1, 57.4 fill 0.6, plain;
        sgemm_nn [MN K] Full 256 x 128 x 16, 1, 56.8 fill 1.1, turned;
        sgemm_tt [K MN] Full 128 x 256 x 16, 1, 55.7 fill 0.7, turned;
        sgemm_nt_128x128 [MN MN] Full 128 x 128 x 16, 2, 54.5 fill 1.1, plain;
        sgemm_nn_128x128 [MN K] Full 128 x 128 x 16, 2, 52.3 fill 1.2, plain;
        sgemm_tt_128x128 [K MN] Full 128 x 128 x 16, 2, 52.5 fill 1.2, plain;
        sgemm_tn_128x128 [K K] Full 128 x 128 x 16, 2, 49.0 fill 0.9, plain;
        matmul_tf32_tn [K K] Tf32 256 x 128 x 32, 1, 180.0;
        matmul_tf32_tn_64x64 [K K] Tf32 64 x 64 x 32, 3, 110.0;
    };
}

#[cfg(feature = "matmul-f64")]
impl Operand for f64 {
    type Scalar = Self;
    type Narrow = Self;
    const TENSOR_ELEMENT: TensorElement = TensorElement::F64;
    const TENSOR_SCALAR: TensorElement = TensorElement::F64;
    const VARIANTS: &'static [Variant<Self>] = variants! {
        matmul_f64_tn [K K] Full 64 x 64 x 16, 3, 30.0;
    };
}

#[cfg(feature = "matmul-i8")]
impl Operand for i8 {
    type Scalar = i32;
    type Narrow = i32;
    const SMOOTH: bool = false;
    const TENSOR_ELEMENT: TensorElement = TensorElement::U8;
    const TENSOR_SCALAR: TensorElement = TensorElement::I32;
    const VARIANTS: &'static [Variant<Self>] = variants! {
        wgmma_s8_tn [K K] Full 128 x 256 x 128, 1, 1331.0 fill 3.2, wgmma_pairs;
        wgmma_s8_tn_128x128 [K K] Full 128 x 128 x 128, 1, 1275.0 fill 2.8, wgmma_ping_pong;
        matmul_s8_tn [K K] Full 256 x 128 x 128, 1, 800.0;
        matmul_s8_tn_64x64 [K K] Full 64 x 64 x 128, 3, 520.0;
    };
}

macro_rules! output {
    ($($feature:literal $operand:ty => $output:ty, $wide:literal, $element:ident, $finish:ident;)+) => { $(
        #[cfg(feature = $feature)]
        impl Output<$operand> for $output {
            const WIDE: bool = $wide;
            const TENSOR_ELEMENT: TensorElement = TensorElement::$element;
            fn finish() -> Finish<$operand, Self> {
                mma::$finish
            }
        }
    )+ };
}
output! {
    "matmul-f16" f16 => f16, false, F16, finish_f16;
    "matmul-f16" f16 => f32, true, F32, finish_f32;
    "matmul-bf16" bf16 => bf16, false, Bf16, finish_bf16;
    "matmul-bf16" bf16 => f32, true, F32, finish_f32;
    "matmul-f32" f32 => f32, false, F32, finish_f32;
    "matmul-f64" f64 => f64, false, F64, finish_f64;
    "matmul-i8" i8 => i32, false, I32, finish_i32;
    "matmul-f8" F8E4M3 => bf16, false, Bf16, finish_bf16;
    "matmul-f8" F8E4M3 => f32, true, F32, finish_f32;
    "matmul-f8" F8E5M2 => bf16, false, Bf16, finish_bf16;
    "matmul-f8" F8E5M2 => f32, true, F32, finish_f32;
}

mod sealed {
    /// The kernels are compiled with this crate, so that other crates cannot implement the trait.
    pub trait Sealed {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for i8 {}
    impl Sealed for moye_device::number::F8E4M3 {}
    impl Sealed for moye_device::number::F8E5M2 {}
}
