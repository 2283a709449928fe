//! Conversions and arithmetic of 16-bit floats.

use crate::support::{binary, ternary, unary};
use half::{bf16, f16};
use moye_device::arch::*;

unary! {
    cvt_f16: f32 => f16 = f32_to_f16;
    cvt_bf16: f32 => bf16 = f32_to_bf16;
    cvt_f16_relu: f32 => f16 = f32_to_f16_relu;
    cvt_bf16_relu: f32 => bf16 = f32_to_bf16_relu;
    cvt_tf32: f32 => f32 = f32_to_tf32;
    cvt_f32_of_f16: f16 => f32 = f16_to_f32;
    cvt_f32_of_bf16: bf16 => f32 = bf16_to_f32;
    cvt_s8: f32 => i8 = f32_to_i8_saturating;
    cvt_u8: f32 => u8 = f32_to_u8_saturating;
    cvt_s32: f32 => i32 = f32_to_i32_saturating;
    cvt_u32: f32 => u32 = f32_to_u32_saturating;
}
binary! {
    cvt_f16x2: f32 => F16x2 = f32x2_to_f16x2;
    cvt_bf16x2: f32 => Bf16x2 = f32x2_to_bf16x2;
    cvt_f16x2_relu: f32 => F16x2 = f32x2_to_f16x2_relu;
    cvt_bf16x2_relu: f32 => Bf16x2 = f32x2_to_bf16x2_relu;
    add_f16x2: F16x2 => F16x2 = |a, b| a + b;
    sub_f16x2: F16x2 => F16x2 = |a, b| a - b;
    mul_f16x2: F16x2 => F16x2 = |a, b| a * b;
    min_f16x2: F16x2 => F16x2 = F16x2::min;
    max_f16x2: F16x2 => F16x2 = F16x2::max;
    add_bf16x2: Bf16x2 => Bf16x2 = |a, b| a + b;
    sub_bf16x2: Bf16x2 => Bf16x2 = |a, b| a - b;
    mul_bf16x2: Bf16x2 => Bf16x2 = |a, b| a * b;
    min_bf16x2: Bf16x2 => Bf16x2 = Bf16x2::min;
    max_bf16x2: Bf16x2 => Bf16x2 = Bf16x2::max;
}
ternary! {
    fma_f16: f16 = Fma::fma;
    fma_bf16: bf16 = Fma::fma;
    fma_f16x2: F16x2 = F16x2::fma;
    fma_bf16x2: Bf16x2 = Bf16x2::fma;
    fma_f16x2_relu: F16x2 = F16x2::fma_relu;
    fma_bf16x2_relu: Bf16x2 = Bf16x2::fma_relu;
}
