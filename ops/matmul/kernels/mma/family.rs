//! The macro that builds a kernel from an element type, an atom and a tile.

/// The configuration `$name::Tiling` and the kernel `$name` of each entry.
///
/// `a` and `b` name the contiguous mode (`k`, or `mn` for M and N) and the atom that loads the
/// fragments.
macro_rules! tensor_core {
    ($(
        $(#[$doc:meta])*
        $name:ident = $operand:ty => $sum:ty, $output:ty {
            tile: $m:literal x $n:literal x $k:literal in $stages:literal, threads = $threads:literal, min_blocks = $blocks:literal,
            mma: $atom:ty = $mma:expr,
            a: $major_a:ident by $copy_a:ty,
            b: $major_b:ident by $copy_b:ty,
        }
    )+) => { $(
        mod $name {
            #[allow(unused_imports, reason = "each entry needs some of them")]
            use super::*;
            use moye_device::atom::{StaticTiledMma, TiledCopy, TiledMma, make_tiled_copy_a, make_tiled_copy_b};
            use moye_device::atom::copy::SM80_CP_ASYNC_CACHEGLOBAL_ZFILL;
            use crate::kernels::mma::{ArgumentsOf, MmaConfig, Storage, ThroughShared, Tiled};
            use moye_device::layout::layout;
            use moye_device::tensor::{Aligned, UnitStride};

            moye_device::swizzled_layout! {
                pub SmemA = crate::kernels::mma::family::tensor_core!(@smem $major_a $operand, $m, $k, $stages);
                pub SmemB = crate::kernels::mma::family::tensor_core!(@smem $major_b $operand, $n, $k, $stages);
            }
            moye_device::tiled_mma! {
                pub Mma: TiledMma<$atom> = $mma;
            }
            moye_device::tiled_copy! {
                pub LoadA: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>, $operand>
                    = crate::kernels::mma::family::tensor_core!(@load $major_a $operand, $m, $threads);
                pub LoadB: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>, $operand>
                    = crate::kernels::mma::family::tensor_core!(@load $major_b $operand, $n, $threads);
                pub ReadA: TiledCopy<$copy_a, $operand> = make_tiled_copy_a(&Mma::MMA);
                pub ReadB: TiledCopy<$copy_b, $operand> = make_tiled_copy_b(&Mma::MMA);
            }

            /// The configuration.
            pub struct Tiling;

            impl Tiled for Tiling {
                type Operand = $operand;
                type Sum = $sum;
                type Scalar = crate::kernels::mma::family::ScalarOf<$sum>;
                type Output = $output;
                type SmemA = SmemA;
                type SmemB = SmemB;
                type ReadA = ReadA;
                type ReadB = ReadB;
                type Mma = Mma;
            }

            impl MmaConfig for Tiling {
                type StridesA = crate::kernels::mma::family::tensor_core!(@strides $major_a);
                type StridesB = crate::kernels::mma::family::tensor_core!(@strides $major_b);
                type LoadA = LoadA;
                type LoadB = LoadB;
                type Sink = ThroughShared;
            }

            $(#[$doc])*
            ///
            /// One block for each tile of `c` along x, and for each slice of each batch along y.
            ///
            /// # Safety
            /// The matrices are in memory of the device, inside the buffers that the pointers
            /// belong to; `c` overlaps no other matrix. Addresses, leading dimensions and batch
            /// strides of `a` and `b` are multiples of 16 bytes; every slice has at least one
            /// element of K. Each extent is at most 2^31 - 256.
            #[moye_device::kernel(threads = $threads, min_blocks = $blocks, shared = Storage<Tiling>)]
            pub unsafe fn $name(arguments: ArgumentsOf<Tiling>) {
                crate::kernels::mma::matmul::<Tiling>(&arguments)
            }
        }
        pub use $name::$name;
    )+ };

    (@smem k $t:ty, $extent:expr, $k:expr, $stages:expr) => {
        crate::kernels::mma::smem::k_major::<$t>($extent, $k, $stages)
    };
    (@smem mn $t:ty, $extent:expr, $k:expr, $stages:expr) => {
        crate::kernels::mma::smem::mn_major($extent, $k, $stages)
    };
    // Eight threads load a row of 128 bytes.
    (@load k $t:ty, $extent:literal, $threads:literal) => {
        TiledCopy::new(
            crate::kernels::mma::family::rows_of($threads / 8, 8),
            crate::kernels::mma::family::one_row((16 / size_of::<$t>()) as i64),
        )
    };
    // A thread loads 16 bytes along the contiguous mode.
    (@load mn $t:ty, $extent:literal, $threads:literal) => {
        TiledCopy::new(
            crate::kernels::mma::family::columns_of($extent / (16 / size_of::<$t>()) as i64, $threads),
            crate::kernels::mma::family::one_column((16 / size_of::<$t>()) as i64),
        )
    };
    (@strides k) => { Aligned<UnitStride<1>, 16> };
    (@strides mn) => { Aligned<UnitStride<0>, 16> };
}
pub(crate) use tensor_core;

use moye_device::layout::{IntTuple, Layout};

/// The type of the epilogue's arithmetic for an accumulator type.
pub trait Summed {
    /// The type.
    type Scalar;
}
/// See [`Summed`].
pub type ScalarOf<T> = <T as Summed>::Scalar;

macro_rules! summed {
    ($($sum:ty: $scalar:ty),+) => { $(
        impl Summed for $sum {
            type Scalar = $scalar;
        }
    )+ };
}
summed!(half::f16: f32, f32: f32, i32: i32, f64: f64);

/// `(rows, across)` threads, contiguous along the second mode.
pub const fn rows_of(rows: i64, across: i64) -> Layout {
    Layout::new(IntTuple::flat(&[rows, across]), IntTuple::flat(&[across, 1]))
}

/// `(along, threads / along)` threads, contiguous along the first mode.
pub const fn columns_of(along: i64, threads: i64) -> Layout {
    Layout::new(IntTuple::flat(&[along, threads / along]), IntTuple::flat(&[1, along]))
}

/// `(1, count)` values.
pub const fn one_row(count: i64) -> Layout {
    Layout::new(IntTuple::flat(&[1, count]), IntTuple::flat(&[0, 1]))
}

/// `(count, 1)` values.
pub const fn one_column(count: i64) -> Layout {
    Layout::new(IntTuple::flat(&[count, 1]), IntTuple::flat(&[1, 0]))
}
