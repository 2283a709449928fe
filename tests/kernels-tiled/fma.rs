//! `UniversalFma` alone, for all combinations of types: `d[i] = a[i] * b[i] + c[i]`, a product of
//! one value each.

use half::{bf16, f16};
use moye_device::arch::{block_dim, block_idx, thread_idx};
#[cfg(not(target_arch = "nvptx64"))]
use moye_device::atom::mma::MmaInfo;
use moye_device::atom::mma::{MmaAtom, UniversalFma};
use moye_device::kernel;
use moye_device::memory::{Global, GlobalMut};
use moye_device::number::{Complex64, F8E4M3, F8E5M2, Tf32};

macro_rules! products {
    ($($name:ident: $a:ty, $b:ty => $sum:ty;)+) => {
        /// The kernels, with what the library says of their atoms.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const ATOMS: &[(&str, MmaInfo)] =
            &[$((stringify!($name), MmaInfo::of::<UniversalFma<$sum, $a, $b>>())),+];
        $(
        #[kernel]
        pub unsafe fn $name(
            a: Global<$a>,
            b: Global<$b>,
            c: Global<$sum>,
            d: GlobalMut<$sum>,
            count: u32,
        ) {
            let i = block_idx().x * block_dim().x + thread_idx().x;
            if i < count {
                let i = i64::from(i);
                // SAFETY: the launch gives buffers of `count` elements.
                unsafe {
                    let mut sum = [c.read(i)];
                    <UniversalFma<$sum, $a, $b>>::fma(&mut sum, [a.read(i)], [b.read(i)], [c.read(i)]);
                    d.write(i, sum[0]);
                }
            }
        }
    )+
    };
}
products! {
    fma_f32: f32, f32 => f32;
    fma_f64: f64, f64 => f64;
    fma_f16: f16, f16 => f16;
    fma_bf16: bf16, bf16 => bf16;
    fma_i32: i32, i32 => i32;
    fma_u32: u32, u32 => u32;
    fma_i64: i64, i64 => i64;
    fma_u64: u64, u64 => u64;
    fma_c64: Complex64, Complex64 => Complex64;
    fma_f16_to_f32: f16, f16 => f32;
    fma_bf16_to_f32: bf16, bf16 => f32;
    fma_f32_to_f64: f32, f32 => f64;
    fma_i8_to_i32: i8, i8 => i32;
    fma_u8_to_i32: u8, u8 => i32;
    fma_i16_to_i32: i16, i16 => i32;
    fma_f16_bf16_to_f32: f16, bf16 => f32;
    fma_bf16_f16_to_f32: bf16, f16 => f32;
    fma_f16_f32_to_f32: f16, f32 => f32;
    fma_f32_f16_to_f32: f32, f16 => f32;
    fma_bf16_f32_to_f32: bf16, f32 => f32;
    fma_f32_bf16_to_f32: f32, bf16 => f32;
    fma_tf32_to_f32: Tf32, Tf32 => f32;
    fma_e4m3_to_f32: F8E4M3, F8E4M3 => f32;
    fma_e4m3_e5m2_to_f32: F8E4M3, F8E5M2 => f32;
    fma_e5m2_e4m3_to_f32: F8E5M2, F8E4M3 => f32;
    fma_e5m2_to_f32: F8E5M2, F8E5M2 => f32;
    fma_f32_f64_to_f64: f32, f64 => f64;
    fma_f64_f32_to_f64: f64, f32 => f64;
    fma_i8_u8_to_i32: i8, u8 => i32;
    fma_u8_i8_to_i32: u8, i8 => i32;
    fma_i8_i16_to_i32: i8, i16 => i32;
    fma_i16_i8_to_i32: i16, i8 => i32;
    fma_u8_i16_to_i32: u8, i16 => i32;
    fma_i16_u8_to_i32: i16, u8 => i32;
    fma_u8_to_u32: u8, u8 => u32;
    fma_i32_to_i64: i32, i32 => i64;
    fma_u32_to_u64: u32, u32 => u64;
}
