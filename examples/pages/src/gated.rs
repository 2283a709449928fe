//! A product with a custom epilogue, `c = gelu_tanh(a b + bias) * gate`, on the mainloop with
//! `cp.async` and `mma.sync`. [`gated_tma`](crate::gated_tma) has the same epilogue on the mainloop
//! with TMA and `wgmma`.

use moye_device::prelude::*;
use moye_matmul::kernels::mma::{Arguments, MmaConfig, Storage, ThroughShared, Tiled, k_major, matmul_with};

/// The epilogue: `gelu_tanh(accumulator + bias) * gate`.
#[repr(C)]
#[derive(Clone, Copy, KernelParam)]
pub struct Gated {
    /// One element for each column of C.
    pub bias: Global<f16>,
    /// `(M, N)`, N contiguous.
    pub gate: Global<f16>,
    /// The row stride of the gate, in elements.
    pub ld_gate: i64,
}

impl Epilogue for Gated {
    #[inline(always)]
    unsafe fn element(&self, value: f32, at: Coordinate) -> f32 {
        let (row, column) = (i64::from(at.row), i64::from(at.column));
        // SAFETY: the element is inside C, so bias and gate have one for it.
        let (bias, gate) = unsafe { (self.bias.read(column), self.gate.read(row * self.ld_gate + column)) };
        let (bias, gate): (f32, f32) = (bias.convert(), gate.convert());
        math::fast::gelu_tanh(value + bias) * gate
    }
}

swizzled_layout! {
    Smem = k_major::<f16>(64, 64, 3); // (BLK_M, BLK_K, PIPE)
}
tiled_mma! {
    Mma: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::tiled(layout!((2, 2, 1)), [32, 32, 16]);
}
tiled_copy! {
    Load: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>, f16> = TiledCopy::new(layout!((16, 8):(8, 1)), layout!((1, 8)));
    ReadA: TiledCopy<SM75_U32x4_LDSM_N, f16> = make_tiled_copy_a(&Mma::MMA);
    ReadB: TiledCopy<SM75_U32x4_LDSM_N, f16> = make_tiled_copy_b(&Mma::MMA);
}

struct Config;
impl Tiled for Config {
    type Operand = f16;
    type Sum = f32;
    type Scalar = f32;
    type Output = f16;
    type SmemA = Smem;
    type SmemB = Smem;
    type ReadA = ReadA;
    type ReadB = ReadB;
    type Mma = Mma;
}
impl MmaConfig for Config {
    type StridesA = Aligned<UnitStride<1>, 16>;
    type StridesB = Aligned<UnitStride<1>, 16>;
    type LoadA = Load;
    type LoadB = Load;
    type Sink = ThroughShared;
}

/// One block for each 64 x 64 tile of C, all along x.
///
/// # Safety
/// Same contract as [`matmul_with`]; bias has an element for each column of C, gate for each
/// element.
#[kernel(threads = Mma::THREADS, shared = Storage<Config>)]
pub unsafe fn gated(arguments: Arguments<f16, f16, f32>, epilogue: Gated) {
    matmul_with::<Config, _>(&arguments, epilogue)
}
