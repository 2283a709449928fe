//! The kernels of products: the schedule, the tile and the measured rate of each.
#![cfg_attr(not(feature = "all"), allow(unused, reason = "each operand type uses some of it"))]

use super::element::{Operand, Precision};
use crate::kernels::hopper::{self, Maps, SgemmBox, SgemmConfig, Sharing, WgmmaConfig};
use crate::kernels::mma::{self, Arguments};
use half::{bf16, f16};
use moye_device::atom::wgmma::WgmmaAtom as _;
use moye_device::kernel::Kernel;
use moye_device::layout::Major;
use moye_device::memory::TensorMap;
use moye_device::number::{F8E4M3, F8E5M2};
use std::fmt;

/// The arguments of a kernel with operands `T`.
pub type ArgumentsOf<T> = Arguments<T, <T as Operand>::Narrow, <T as Operand>::Scalar>;

/// A kernel with its parameters. Kernels with TMA exist for sm_90a only.
#[derive(Clone, Copy)]
pub enum Code<T: Operand> {
    /// Operands by address.
    Address(Kernel<(ArgumentsOf<T>,)>),
    /// FMA, operands by tensor maps with these boxes.
    SgemmTma(Kernel<(TensorMap, TensorMap, ArgumentsOf<T>)>, &'static [SgemmBox; 2]),
    /// `wgmma`, operands and C by these tensor maps.
    Wgmma(WgmmaKernel<T>),
}

/// A `wgmma` kernel with the tiles of its tensor maps.
#[derive(Clone, Copy)]
pub struct WgmmaKernel<T: Operand> {
    pub kernel: Kernel<(TensorMap, TensorMap, TensorMap, ArgumentsOf<T>, Sharing<T::Scalar>)>,
    pub maps: &'static Maps,
}

impl<T: Operand> Code<T> {
    /// The kernel's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Address(kernel) => kernel.name(),
            Self::SgemmTma(kernel, _) => kernel.name(),
            Self::Wgmma(wgmma) => wgmma.kernel.name(),
        }
    }

    /// The shared memory of a block in bytes.
    pub fn shared_bytes(&self) -> usize {
        match self {
            Self::Address(kernel) => kernel.shared_bytes(),
            Self::SgemmTma(kernel, _) => kernel.shared_bytes(),
            Self::Wgmma(wgmma) => wgmma.kernel.shared_bytes(),
        }
    }

    /// Whether it loads by TMA.
    pub fn is_tma(&self) -> bool {
        !matches!(self, Self::Address(_))
    }

    /// Whether it multiplies with `wgmma`.
    pub fn is_wgmma(&self) -> bool {
        matches!(self, Self::Wgmma(..))
    }
}

/// The division of work among a kernel's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// `mma.sync`: one tile for each block.
    MmaSync,
    /// FMA in f32: one tile for each block.
    Sgemm(Loads),
    /// `wgmma`, persistent: the blocks of a cluster compute tiles stacked along M and share B by
    /// multicast. The last tiles may be divided along K (stream-K).
    StreamK(u32),
    /// `StreamK(1)` with large tiles. It is fast only if the operands' rows start at cache lines,
    /// so other operands are rearranged.
    StreamKOfLines,
    /// `wgmma`, persistent, in clusters of two: one warpgroup for each tile, which is not divided.
    PingPong,
    /// `wgmma`: one small tile for each cluster, whose blocks each compute a slice of K.
    ClusterK(u32),
    /// `wgmma`: one large tile for each block, which then exits.
    OneTile,
}

/// An FMA kernel's loads of operands. All FMA kernels apply `alpha` only, and write an
/// M-contiguous C in 16-byte vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loads {
    /// K-contiguous operands one element at a time.
    Elements,
    /// K-contiguous operands in pairs of elements.
    Pairs,
    /// By TMA.
    Tma,
}

impl Schedule {
    /// The blocks of a cluster; 1 without clusters.
    pub const fn cluster(self) -> u32 {
        self.cluster_tiles() * self.cluster_slices()
    }

    /// The tiles of a cluster, stacked along M.
    pub const fn cluster_tiles(self) -> u32 {
        match self {
            Self::StreamK(blocks) => blocks,
            Self::PingPong => 2,
            _ => 1,
        }
    }

    /// The slices of K in a cluster.
    pub const fn cluster_slices(self) -> u32 {
        if let Self::ClusterK(blocks) = self { blocks } else { 1 }
    }

    /// Whether only the blocks of a cluster can split K.
    pub const fn fixes_slices(self) -> bool {
        matches!(self, Self::ClusterK(_) | Self::OneTile)
    }

    /// Whether it is FMA in f32.
    pub const fn is_sgemm(self) -> bool {
        matches!(self, Self::Sgemm(_))
    }
}

/// The rate of a kernel on an H100 or H200 with 132 SMs.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// At full occupancy, in 10^12 operations per second: measured for large tiles, fitted for
    /// small ones, which are limited by loads.
    pub tera: f64,
    /// The overhead of a tile (the pipeline's prologue and the epilogue) as a multiple of the
    /// arithmetic of one step along K: fitted.
    pub fill: f64,
    /// The number of blocks that are resident on an SM at a time.
    pub residents: u32,
}

/// A kernel with its properties.
pub struct Variant<T: Operand> {
    /// The kernel.
    pub kernel: Code<T>,
    /// The division of work among its blocks.
    pub schedule: Schedule,
    /// The contiguous modes of A and of B.
    pub majors: [Major; 2],
    /// The block's tile (BLK_M, BLK_N, BLK_K) in the kernel's orientation.
    pub tile: [u32; 3],
    /// The precision of its accumulators.
    pub precision: Precision,
    /// Its measured rate.
    pub rate: Rate,
    /// Whether tensor cores accumulate all of K; for 8-bit floats they keep about 14 bits of the
    /// accumulators.
    pub is_short: bool,
}

impl<T: Operand> Variant<T> {
    /// The contiguous modes of A and of B. FMA kernels compute the transposed product, so their `a`
    /// is B.
    pub fn majors_of_operands(&self) -> [Major; 2] {
        let [first, second] = self.majors;
        if self.schedule.is_sgemm() { [second, first] } else { [first, second] }
    }

    /// The extent of a block's tile along A's rows and B's columns.
    pub fn tile_of_operands(&self) -> (u32, u32) {
        let [first, second, _] = self.tile;
        if self.schedule.is_sgemm() { (second, first) } else { (first, second) }
    }

    /// The number of tiles of C, in rows of tiles and in columns.
    pub fn tiles(&self, m: u32, n: u32) -> [u32; 2] {
        let (tile_m, tile_n) = self.tile_of_operands();
        [m.div_ceil(tile_m), n.div_ceil(tile_n)]
    }

    /// A kernel with `mma.sync` or FMA, with operands by address.
    const fn new(
        kernel: Kernel<(ArgumentsOf<T>,)>,
        schedule: Schedule,
        majors: [Major; 2],
        tile: [u32; 3],
        precision: Precision,
        rate: Rate,
    ) -> Self {
        Self { kernel: Code::Address(kernel), schedule, majors, tile, precision, rate, is_short: false }
    }

    /// A `wgmma` kernel with a configuration.
    const fn wgmma<G: WgmmaConfig>(
        kernel: Kernel<(TensorMap, TensorMap, TensorMap, ArgumentsOf<T>, Sharing<T::Scalar>)>,
        maps: &'static Maps,
        schedule: Schedule,
        precision: Precision,
        rate: Rate,
    ) -> Self {
        assert!(G::CLUSTER == schedule.cluster_tiles(), "the blocks of the kernel's clusters");
        assert!(G::PARTS == schedule.cluster_slices(), "the slices of K in the kernel's clusters");
        let fitted = schedule.fixes_slices();
        assert!(G::ONE_TILE == fitted && maps.c.is_none() == fitted, "the kernel's tensor maps");
        let majors = [G::Atom::MAJOR_A, G::Atom::MAJOR_B];
        let (kernel, tile) = (Code::Wgmma(WgmmaKernel { kernel, maps }), [G::BLK_M, G::BLK_N, G::BLK_K]);
        // Operands with scales are 8-bit floats.
        let is_short = G::SCALED && !G::PROMOTED;
        Self { kernel, schedule, majors, tile, precision, rate, is_short }
    }

    /// An FMA kernel with TMA loads and a configuration.
    const fn sgemm_tma<G: SgemmConfig>(
        kernel: Kernel<(TensorMap, TensorMap, ArgumentsOf<T>)>,
        rate: Rate,
    ) -> Self {
        let vectors = if matches!(G::MAJORS[1], Major::K) { 1 } else { 4 };
        assert!(
            G::GRANULES[0] == 4 && G::GRANULES[1] == vectors,
            "the plan rounds extents up to these (`padded_extents`)"
        );
        let kernel = Code::SgemmTma(kernel, const { &G::BOXES });
        let (schedule, precision) = (Schedule::Sgemm(Loads::Tma), Precision::Full);
        let (m, n, k) = G::TILE;
        Self { kernel, schedule, majors: G::MAJORS, tile: [m, n, k], precision, rate, is_short: false }
    }
}

impl<T: Operand> fmt::Debug for Variant<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kernel.name())
    }
}

/// The kernels for these elements and this precision; those with TMA only if the device has
/// `wgmma`.
pub(super) fn variants<T: Operand>(
    precision: Precision,
    wgmma: bool,
) -> impl Iterator<Item = &'static Variant<T>> {
    let has = move |variant: &&Variant<T>| wgmma || !variant.kernel.is_tma();
    T::VARIANTS.iter().filter(move |variant| variant.precision == precision).filter(has)
}

/// The names of these kernels.
pub(super) fn kernels<T: Operand>(precision: Precision, wgmma: bool) -> Vec<&'static str> {
    variants::<T>(precision, wgmma).map(|variant| variant.kernel.name()).collect()
}

/// Their tiles of C, M x N.
pub(super) fn tiles<T: Operand>(precision: Precision, wgmma: bool) -> Vec<(u32, u32)> {
    let tile = |variant: &Variant<T>| (variant.tile[0], variant.tile[1]);
    let mut tiles: Vec<_> = variants::<T>(precision, wgmma).map(tile).collect();
    tiles.sort_unstable();
    tiles.dedup();
    tiles
}

use Loads::{Elements, Pairs};
use Precision::{F16Accumulators, Full, Tf32};
use Schedule::{ClusterK, MmaSync, OneTile, PingPong, Sgemm, StreamK, StreamKOfLines};

// The contiguous modes of A and B.
const TN: [Major; 2] = [Major::K, Major::K];
const NT: [Major; 2] = [Major::Mn, Major::Mn];
const NN: [Major; 2] = [Major::Mn, Major::K];
const TT: [Major; 2] = [Major::K, Major::Mn];

/// A row of the tables: the kernel, its schedule, and its rate as (10^12 operations per second,
/// overhead of a tile in steps along K, resident blocks of an SM). A configuration determines its
/// kernel's tile and contiguous modes.
macro_rules! variant {
    ($kernel:ident, $schedule:expr, $precision:expr, ($tera:expr, $fill:expr)) => {
        Variant::wgmma::<hopper::$kernel::Tiling>(
            hopper::$kernel,
            &hopper::$kernel::MAPS,
            $schedule,
            $precision,
            Rate { tera: $tera, fill: $fill, residents: 1 },
        )
    };
    ($kernel:ident, ($tera:expr, $fill:expr)) => {
        Variant::sgemm_tma::<hopper::$kernel::Tiling>(
            hopper::$kernel,
            Rate { tera: $tera, fill: $fill, residents: 1 },
        )
    };
    ($kernel:ident, $schedule:expr, $majors:expr, $tile:expr, $precision:expr, ($tera:expr, $fill:expr, $residents:expr)) => {
        Variant::new(
            mma::$kernel,
            $schedule,
            $majors,
            $tile,
            $precision,
            Rate { tera: $tera, fill: $fill, residents: $residents },
        )
    };
}

#[cfg(feature = "f16")]
pub const F16: &[Variant<f16>] = &[
    variant!(wgmma_f16_tn, StreamK(2), Full, (670.0, 2.0)),
    variant!(wgmma_f16_tn_128x128, StreamK(1), Full, (616.0, 2.0)),
    variant!(matmul_f16_tn, MmaSync, TN, [256, 128, 64], Full, (370.0, 6.0, 1)),
    variant!(matmul_f16_tn_64x64, MmaSync, TN, [64, 64, 64], Full, (220.0, 6.0, 3)),
    variant!(wgmma_f16_nt, StreamK(2), Full, (670.0, 2.0)),
    variant!(wgmma_f16_nt_128x128, StreamK(1), Full, (616.0, 2.0)),
    variant!(matmul_f16_nt, MmaSync, NT, [256, 128, 64], Full, (360.0, 6.0, 1)),
    variant!(matmul_f16_nt_64x64, MmaSync, NT, [64, 64, 64], Full, (220.0, 6.0, 3)),
    variant!(wgmma_f16_nn, StreamK(2), Full, (670.0, 2.0)),
    variant!(wgmma_f16_nn_128x128, StreamK(1), Full, (616.0, 2.0)),
    variant!(matmul_f16_nn, MmaSync, NN, [256, 128, 64], Full, (360.0, 6.0, 1)),
    variant!(matmul_f16_nn_64x64, MmaSync, NN, [64, 64, 64], Full, (220.0, 6.0, 3)),
    variant!(wgmma_f16_tt, StreamK(2), Full, (670.0, 2.0)),
    variant!(wgmma_f16_tt_128x128, StreamK(1), Full, (616.0, 2.0)),
    variant!(matmul_f16_tt, MmaSync, TT, [256, 128, 64], Full, (360.0, 6.0, 1)),
    variant!(matmul_f16_tt_64x64, MmaSync, TT, [64, 64, 64], Full, (220.0, 6.0, 3)),
    variant!(wgmma_f16_tn_alone, StreamKOfLines, Full, (666.0, 1.8)),
    variant!(wgmma_f16_tn_256x128, StreamKOfLines, Full, (659.0, 1.8)),
    variant!(wgmma_f16_tn_128x192, StreamK(2), Full, (640.0, 2.0)),
    variant!(wgmma_f16_tn_128x128_k2, ClusterK(2), Full, (660.0, 9.0)),
    variant!(wgmma_f16_tn_128x192_k2, ClusterK(2), Full, (650.0, 8.0)),
    variant!(wgmma_f16_tn_64x128, ClusterK(1), Full, (560.0, 12.5)),
    variant!(wgmma_f16_tn_64x128_k2, ClusterK(2), Full, (560.0, 13.8)),
    variant!(wgmma_f16_tn_128x128_once, OneTile, Full, (616.0, 3.4)),
    variant!(wgmma_f16_tn_128x192_once, OneTile, Full, (640.0, 3.4)),
    variant!(wgmma_f16_tn_192x192_once, OneTile, Full, (600.0, 3.4)),
    variant!(wgmma_f16_tn_64x64, ClusterK(1), Full, (560.0, 10.0)),
    variant!(wgmma_f16_tn_64x64_k2, ClusterK(2), Full, (560.0, 11.0)),
    variant!(wgmma_f16_nn_64x64, ClusterK(1), Full, (560.0, 10.0)),
    variant!(wgmma_f16_nn_64x64_k2, ClusterK(2), Full, (560.0, 11.0)),
    variant!(wgmma_f16_tt_64x64, ClusterK(1), Full, (560.0, 10.0)),
    variant!(wgmma_f16_tt_64x64_k2, ClusterK(2), Full, (560.0, 11.0)),
    variant!(matmul_f16_acc_tn, MmaSync, TN, [256, 128, 64], F16Accumulators, (400.0, 6.0, 1)),
    variant!(matmul_f16_acc_tn_64x64, MmaSync, TN, [64, 64, 64], F16Accumulators, (240.0, 6.0, 3)),
];

#[cfg(feature = "bf16")]
pub const BF16: &[Variant<bf16>] = &[
    variant!(wgmma_bf16_tn, StreamK(2), Full, (690.0, 2.0)),
    variant!(wgmma_bf16_tn_128x128, StreamK(1), Full, (616.0, 2.0)),
    variant!(matmul_bf16_tn, MmaSync, TN, [256, 128, 64], Full, (370.0, 6.0, 1)),
    variant!(matmul_bf16_tn_64x64, MmaSync, TN, [64, 64, 64], Full, (220.0, 6.0, 3)),
    variant!(wgmma_bf16_nt, StreamK(2), Full, (690.0, 2.0)),
    variant!(wgmma_bf16_nt_128x128, StreamK(1), Full, (616.0, 2.0)),
    variant!(matmul_bf16_nt, MmaSync, NT, [256, 128, 64], Full, (360.0, 6.0, 1)),
    variant!(matmul_bf16_nt_64x64, MmaSync, NT, [64, 64, 64], Full, (220.0, 6.0, 3)),
    variant!(wgmma_bf16_nn, StreamK(2), Full, (690.0, 2.0)),
    variant!(wgmma_bf16_nn_128x128, StreamK(1), Full, (616.0, 2.0)),
    variant!(matmul_bf16_nn, MmaSync, NN, [256, 128, 64], Full, (360.0, 6.0, 1)),
    variant!(matmul_bf16_nn_64x64, MmaSync, NN, [64, 64, 64], Full, (220.0, 6.0, 3)),
    variant!(wgmma_bf16_tt, StreamK(2), Full, (690.0, 2.0)),
    variant!(wgmma_bf16_tt_128x128, StreamK(1), Full, (616.0, 2.0)),
    variant!(matmul_bf16_tt, MmaSync, TT, [256, 128, 64], Full, (360.0, 6.0, 1)),
    variant!(matmul_bf16_tt_64x64, MmaSync, TT, [64, 64, 64], Full, (220.0, 6.0, 3)),
    variant!(wgmma_bf16_tn_alone, StreamKOfLines, Full, (686.0, 1.8)),
    variant!(wgmma_bf16_tn_256x128, StreamKOfLines, Full, (679.0, 1.8)),
    variant!(wgmma_bf16_tn_128x128_k2, ClusterK(2), Full, (660.0, 9.0)),
    variant!(wgmma_bf16_tn_128x192_k2, ClusterK(2), Full, (650.0, 8.0)),
    variant!(wgmma_bf16_tn_64x128, ClusterK(1), Full, (560.0, 12.5)),
    variant!(wgmma_bf16_tn_64x128_k2, ClusterK(2), Full, (560.0, 13.8)),
    variant!(wgmma_bf16_tn_128x128_once, OneTile, Full, (616.0, 3.4)),
    variant!(wgmma_bf16_tn_128x192_once, OneTile, Full, (640.0, 3.4)),
    variant!(wgmma_bf16_tn_192x192_once, OneTile, Full, (600.0, 3.4)),
    variant!(wgmma_bf16_tn_64x64, ClusterK(1), Full, (560.0, 10.0)),
    variant!(wgmma_bf16_tn_64x64_k2, ClusterK(2), Full, (560.0, 11.0)),
    variant!(wgmma_bf16_nn_64x64, ClusterK(1), Full, (560.0, 10.0)),
    variant!(wgmma_bf16_nn_64x64_k2, ClusterK(2), Full, (560.0, 11.0)),
    variant!(wgmma_bf16_tt_64x64, ClusterK(1), Full, (560.0, 10.0)),
    variant!(wgmma_bf16_tt_64x64_k2, ClusterK(2), Full, (560.0, 11.0)),
];

#[cfg(feature = "f8")]
pub const E4M3: &[Variant<F8E4M3>] = &[
    variant!(wgmma_e4m3_tn, StreamK(2), Full, (1387.0, 3.2)),
    variant!(wgmma_e4m3_tn_128x128, PingPong, Full, (1345.0, 2.8)),
    variant!(wgmma_e4m3_tn_256x128_promoted, StreamK(2), Full, (1160.0, 3.2)),
    variant!(wgmma_e4m3_tn_128x128_promoted, StreamK(2), Full, (1040.0, 3.2)),
];

#[cfg(feature = "f8")]
pub const E5M2: &[Variant<F8E5M2>] = &[
    variant!(wgmma_e5m2_tn, StreamK(2), Full, (1387.0, 3.2)),
    variant!(wgmma_e5m2_tn_128x128, PingPong, Full, (1345.0, 2.8)),
    variant!(wgmma_e5m2_tn_256x128_promoted, StreamK(2), Full, (1160.0, 3.2)),
    variant!(wgmma_e5m2_tn_128x128_promoted, StreamK(2), Full, (1040.0, 3.2)),
];

#[cfg(feature = "f32")]
pub const F32: &[Variant<f32>] = &[
    variant!(wgmma_tf32_tn, StreamK(2), Tf32, (350.0, 2.0)),
    variant!(sgemm_nt_tma, (57.9, 0.6)),
    variant!(sgemm_nn_tma, (56.4, 0.6)),
    variant!(sgemm_tn_tma, (54.4, 0.4)),
    variant!(sgemm_nt, Sgemm(Elements), NT, [256, 128, 16], Full, (57.4, 0.6, 1)),
    variant!(sgemm_nn, Sgemm(Pairs), NN, [256, 128, 16], Full, (56.8, 1.1, 1)),
    variant!(sgemm_tt, Sgemm(Pairs), TT, [128, 256, 16], Full, (55.7, 0.7, 1)),
    variant!(sgemm_nt_128x128, Sgemm(Elements), NT, [128, 128, 16], Full, (54.5, 1.1, 2)),
    variant!(sgemm_nn_128x128, Sgemm(Elements), NN, [128, 128, 16], Full, (52.3, 1.2, 2)),
    variant!(sgemm_tt_128x128, Sgemm(Elements), TT, [128, 128, 16], Full, (52.5, 1.2, 2)),
    variant!(sgemm_tn_128x128, Sgemm(Elements), TN, [128, 128, 16], Full, (49.0, 1.2, 2)),
    variant!(matmul_tf32_tn, MmaSync, TN, [256, 128, 32], Tf32, (180.0, 6.0, 1)),
    variant!(matmul_tf32_tn_64x64, MmaSync, TN, [64, 64, 32], Tf32, (110.0, 6.0, 3)),
];

#[cfg(feature = "f64")]
pub const F64: &[Variant<f64>] = &[variant!(matmul_f64_tn, MmaSync, TN, [64, 64, 16], Full, (30.0, 6.0, 3))];

#[cfg(feature = "i8")]
pub const I8: &[Variant<i8>] = &[
    variant!(wgmma_s8_tn, StreamK(2), Full, (1331.0, 3.2)),
    variant!(wgmma_s8_tn_128x128, PingPong, Full, (1275.0, 2.8)),
    variant!(matmul_s8_tn, MmaSync, TN, [256, 128, 128], Full, (800.0, 6.0, 1)),
    variant!(matmul_s8_tn_64x64, MmaSync, TN, [64, 64, 128], Full, (520.0, 6.0, 3)),
];
