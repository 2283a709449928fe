//! Configurations in short: what a product is tiled by, and its kernel.

/// A [`Config`](crate::product::Config) and the kernel `$name` of it.
macro_rules! product {
    ($(
        $(#[$doc:meta])*
        $name:ident = $body:ident($operand:ty => $sum:ty, threads = $threads:literal) {
            block: $m:literal x $n:literal x $k:literal,
            smem: $smem:ident! { $smem_a:expr, $smem_b:expr },
            load: $load:ty = $load_copy:expr,
            copy: ($copy_a:ty, $copy_b:ty $(, $copy_c:ty)?),
            mma: $atom:ty = $mma:expr,
        }
    )+) => { $(
        #[allow(non_camel_case_types, reason = "named as the kernel")]
        pub mod $name {
            use super::*;
            use moye_device::atom::{StaticTiledMma, make_tiled_copy_a, make_tiled_copy_b, make_tiled_copy_c};

            moye_device::static_layout! {
                pub TileA = layout!(($m, $k));
                pub TileB = layout!(($n, $k));
                pub TileC = layout!(($m, $n));
            }
            moye_device::$smem! {
                pub SmemA = $smem_a;
                pub SmemB = $smem_b;
            }
            moye_device::tiled_mma! {
                pub Mma: TiledMma<$atom> = $mma;
            }
            moye_device::tiled_copy! {
                pub Load: TiledCopy<$load, $operand> = $load_copy;
                pub CopyA: TiledCopy<$copy_a, $operand> = make_tiled_copy_a(&Mma::MMA);
                pub CopyB: TiledCopy<$copy_b, $operand> = make_tiled_copy_b(&Mma::MMA);
                pub CopyC: TiledCopy<product!(@ copy_c $($copy_c)?), $sum> = make_tiled_copy_c(&Mma::MMA);
            }

            /// The configuration.
            pub struct Tiling;

            impl crate::product::Config for Tiling {
                type Operand = $operand;
                type Sum = $sum;
                type TileA = TileA;
                type TileB = TileB;
                type TileC = TileC;
                type SmemA = SmemA;
                type SmemB = SmemB;
                type Load = Load;
                type CopyA = CopyA;
                type CopyB = CopyB;
                type CopyC = CopyC;
                type Mma = Mma;
            }

            $(#[$doc])*
            #[moye_device::kernel(threads = $threads, shared = crate::product::Storage<Tiling>)]
            pub unsafe fn $name(
                a: moye_device::memory::Global<<$operand as crate::operand::Operand>::Stored>,
                b: moye_device::memory::Global<<$operand as crate::operand::Operand>::Stored>,
                c: moye_device::memory::GlobalMut<$sum>,
                m: u32,
                n: u32,
                k: u32,
                lda: i64,
                ldb: i64,
                ldc: i64,
            ) {
                let problem = crate::product::Problem::<Tiling> { a, b, c, shape: (m, n, k), lda, ldb, ldc };
                // SAFETY: the caller's contract.
                unsafe { crate::product::$body::<Tiling>(problem) }
            }
        }
    )+ };
    // Element by element, where a kernel says nothing.
    (@ copy_c) => { moye_device::atom::copy::DefaultCopy };
    (@ copy_c $copy_c:ty) => { $copy_c };
}
pub(crate) use product;
