//! The kernels: tiles of 256 x 128, for all pairs of majors but one. If only A is K-contiguous, the
//! [`mma`](crate::kernels::mma) kernels are as fast (record 14).

use super::{SgemmConfig, SgemmStorage, sgemm};
use crate::kernels::mma::{ArgumentsOf, ByParts, ReadA, ReadB, Tiled, large};
use moye_device::layout::{Major, layout};
use moye_device::memory::TensorMap;
use moye_device::static_layout;

static_layout! {
    /// A's stages as TMA fills them, (BLK_M, BLK_K, PIPE).
    pub DirectA = layout!((256, 16, 4));
    /// B's stages as TMA fills them, (BLK_N, BLK_K, PIPE).
    pub DirectB = layout!((128, 16, 4));
    /// A's stages if A is transposed: columns are padded by four banks, see `transpose.rs`.
    pub TransposedA = layout!((256, 16, 4):(1, 260, 4160));
    /// B's stages if B is transposed, with the same padding.
    pub TransposedB = layout!((128, 16, 4):(1, 132, 2112));
}

/// The kernel and the configuration of each entry.
macro_rules! sgemm_tma {
    ($($name:ident [$a:ident $b:ident]: $smem_a:ident, $smem_b:ident, registers = [$few:literal, $many:literal], $sink:ty, $doc:literal;)+) => { $(
        /// The kernel of this name, and its configuration.
        pub mod $name {
            use super::*;

            /// The configuration.
            pub struct Tiling;

            impl Tiled for Tiling {
                type Operand = f32;
                type Sum = f32;
                type Scalar = f32;
                type Output = f32;
                type SmemA = $smem_a;
                type SmemB = $smem_b;
                type ReadA = ReadA<large::Mma>;
                type ReadB = ReadB<large::Mma>;
                type Mma = large::Mma;
            }

            impl SgemmConfig for Tiling {
                const MAJORS: [Major; 2] = [Major::$a, Major::$b];
                const REGISTERS: [u32; 2] = [$few, $many];
                type Sink = $sink;
            }

            #[cfg(feature = "f32")]
            #[doc = concat!("`c = alpha * a * b` in f32 by multiply-adds in tiles of 256 x 128 that TMA loads, with ", $doc, ", and M contiguous in `c`: `ldc` is between its columns.")]
            ///
            /// One block of 384 threads for each tile of `c` along x, and for each slice of each
            /// batch along y.
            ///
            /// # Safety
            /// The tensor maps are of matrices in memory of the device, with the boxes of
            /// [`SgemmConfig::BOXES`]. `c` overlaps neither, and its columns start at multiples of
            /// 16 bytes. `m` is at least 256 and `n` at least 128, multiples of
            /// [`SgemmConfig::GRANULES`]; the maps may end earlier. Every slice has at least one
            /// element of K. Each extent is at most 2^31 - 256. Slices of K except the last are
            /// multiples of 16 long, and the maps end along K where K does. If all batches use the
            /// same matrix, its map has one batch. `reserved` is 0. `beta`, the bias and the
            /// activation are ignored; so are the addresses of `a` and `b`, which the maps replace.
            #[moye_device::kernel(threads = 384, min_blocks = 1, shared = SgemmStorage<Tiling, 4>)]
            pub unsafe fn $name(a: TensorMap, b: TensorMap, arguments: ArgumentsOf<Tiling>) {
                sgemm::<Tiling, 4>(&a, &b, &arguments)
            }
        }
        #[cfg(feature = "f32")]
        pub use $name::$name;
    )+ };
}
sgemm_tma! {
    sgemm_nt_tma [Mn Mn]: DirectA, DirectB, registers = [56, 224], ByParts<1, 4, 16>, "M contiguous in `a` and N in `b`";
    sgemm_nn_tma [Mn K]: DirectA, TransposedB, registers = [72, 216], ByParts<1, 4>, "M contiguous in `a` and K in `b`";
    sgemm_tn_tma [K K]: TransposedA, TransposedB, registers = [72, 216], ByParts<1, 4>, "K contiguous in both";
}
