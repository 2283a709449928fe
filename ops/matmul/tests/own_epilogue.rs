//! A product with a sink of another crate: `c = gelu(alpha * a * b) * gate`, with the gate as a
//! parameter of the sink.
#![allow(non_snake_case, reason = "tensors have CuTe's names")]
#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "the body of an `unsafe fn` is under the contract that its documentation states"
)]

use half::f16;
use moye_device::atom::copy::{SM75_U32x4_LDSM_N, SM80_CP_ASYNC_CACHEGLOBAL_ZFILL};
use moye_device::atom::mma::SM80_16x8x16_F32F16F16F32_TN;
use moye_device::atom::{StaticTiledMma, TiledCopy, TiledMma, make_tiled_copy_a, make_tiled_copy_b};
use moye_device::collective::{Accumulators, Sink, Team, WorkTile, gemm};
use moye_device::kernel::KernelParam;
use moye_device::math;
use moye_device::memory::{Global, GlobalMut};
use moye_device::tensor::{Aligned, Matrix, UnitStride};
use moye_device::{kernel, layout, swizzled_layout, tiled_copy, tiled_mma};
use moye_matmul::kernels::mma::{
    Arguments, Loop, MmaConfig, Schedule, Storage, TileC, TileSink, Tiled, TiledLoop as _, k_major,
};
use moye_sim::GlobalMemory;

/// `gelu(alpha * sum) * gate`, from registers.
#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
struct Gate {
    /// `(M, N)`, N contiguous.
    gate: Global<f16>,
    /// The distance between rows.
    leading: i64,
}

impl TileSink for Gate {}

impl Sink<Loop<Config>> for Gate {
    type Storage = ();

    unsafe fn store(
        &self,
        tCrC: &Accumulators<Loop<Config>>, // (MMA, MMA_M, MMA_N)
        (): &(),
        tile: &WorkTile,
        team: &Team,
        mainloop: &mut Loop<Config>,
    ) {
        let (arguments, place) = (mainloop.arguments(), mainloop.place(tile));
        let (row, column) = place.first;
        let shape = (arguments.m - row, arguments.n - column);
        let from = |leading: i64| i64::from(row) * leading + i64::from(column);
        let c = arguments.c.offset(place.offset + from(arguments.ldc));
        let mC = Matrix::new(c, shape, UnitStride::<1>(arguments.ldc)); // (M, N), from the tile on
        let mG = Matrix::new(self.gate.offset(from(self.leading)), shape, UnitStride::<1>(self.leading));
        let mma = Mma::get_slice(team.thread);
        let mut tCgC = mma.partition_c(mC.local_tile::<TileC<Config>, _>((0, 0))); // (MMA, MMA_M, MMA_N)
        let tCgG = mma.partition_c(mG.local_tile::<TileC<Config>, _>((0, 0))); // (MMA, MMA_M, MMA_N)
        for i in 0..Accumulators::<Loop<Config>>::SIZE {
            // SAFETY: the accumulators are complete, and each element of C belongs to one thread.
            unsafe {
                let value = math::fast::gelu(arguments.alpha * tCrC.get(i)) * tCgG.get(i).to_f32();
                tCgC.set(i, f16::from_f32(value));
            }
        }
    }
}

swizzled_layout! {
    Smem = k_major::<f16>(64, 64, 3);
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
    type Sink = Gate;
}

/// # Safety
/// Same contract as [`matmul`](moye_matmul::kernels::mma::matmul); the gate has an element for each
/// of C.
#[kernel(threads = 128, shared = Storage<Config>)]
unsafe fn gated(arguments: Arguments<f16, f16, f32>, gate: Gate) {
    // SAFETY: `arguments` are as `matmul` requires; the gate has an element for each of C.
    unsafe { gemm::<Loop<Config>, _, _, _>(arguments, Schedule::new::<Config>(&arguments), (), gate) }
}

/// The tanh form of GELU, in double precision.
fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}

/// The relative error of a product of these extents.
fn relative_error((m, n, k): (usize, usize, usize)) -> f64 {
    let number = |i: usize, seed: u64| {
        let mixed = (i as u64 + 1).wrapping_mul(6_364_136_223_846_793_005 ^ seed) >> 40;
        f16::from_f32((mixed % 2001) as f32 / 1000.0 - 1.0)
    };
    let numbers = |count: usize, seed: u64| (0..count).map(|i| number(i, seed)).collect::<Vec<_>>();
    let (a, b, gate) = (numbers(m * k, 1), numbers(n * k, 2), numbers(m * n, 3));
    let memory = GlobalMemory::new();
    let (on_a, on_b) = (memory.upload(&a, "a").unwrap(), memory.upload(&b, "b").unwrap());
    let on_gate = memory.upload(&gate, "gate").unwrap();
    let on_c = memory.upload(&vec![f16::NAN; m * n], "c").unwrap();
    let pointers = (
        Global::from_address(on_a.address()),
        Global::from_address(on_b.address()),
        GlobalMut::from_address(on_c.address()),
    );
    let mut arguments =
        Arguments::product(pointers, (m as u32, n as u32, k as u32), (k as i64, k as i64, n as i64));
    arguments.alpha = 0.5;
    let parameters = Gate { gate: Global::from_address(on_gate.address()), leading: n as i64 };
    let blocks = m.div_ceil(64) * n.div_ceil(64);
    // SAFETY: the matrices are in their allocations, and rows of A and B start at multiples of 16
    // bytes.
    unsafe { gated.simulate(&memory, blocks as u32, 128, (arguments, parameters)) }.unwrap();
    let (mut error, mut norm) = (0.0, 0.0);
    for (i, c) in on_c.download::<f16>().into_iter().enumerate() {
        let (row, column) = (i / n, i % n);
        let products = (0..k).map(|k_| a[row * k + k_].to_f64() * b[column * k + k_].to_f64());
        let expected = gelu(0.5 * products.sum::<f64>()) * gate[i].to_f64();
        error += (c.to_f64() - expected).powi(2);
        norm += expected.powi(2);
    }
    (error / norm).sqrt()
}

#[test]
fn a_sink_of_another_crate_has_parameters_of_its_own() {
    // Whole tiles, and extents that end within a tile.
    for extents in [(128, 64, 64), (60, 51, 88)] {
        let error = relative_error(extents);
        assert!(error < 5e-4, "{extents:?}: relative error {error}, more than the error of rounding to f16");
    }
}
