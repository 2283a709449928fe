//! The ladder, step 7: a ring of stages in shared memory, swizzled, and C through shared memory
//! (`device/collective/multistage.rs`; the configurations are `f16.rs` and `other.rs` of
//! `device/kernels/mma`).

mod support;

use half::f16;
use moye::kernels::mma::{Arguments, matmul_f16_tn, matmul_tf32_tn};
use moye::layout::layout;
use moye::{Device, Global, GlobalMut, Grid, Kernel, Result};
use moye_device::atom::copy::SM75_U32x4_LDSM_N;
use moye_device::atom::mma::SM80_16x8x16_F32F16F16F32_TN;
use moye_device::atom::{TiledCopy, TiledMma, make_tiled_copy_a};
use moye_device::layout::{ComposedLayout, Swizzle, tuple};
use support::{Fast, Number, Problem, run_by};

fn main() -> Result<()> {
    // Eight warps, 4 x 2, each with 64 x 64 of the tile of C.
    const MMA: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::tiled(layout!((4, 2, 1)), [64, 32, 16]);
    println!("a thread's part of C, (MMA, MMA_M, MMA_N): {}", MMA.partition_c(layout!((256, 128))).shape());

    // Rows of 64 elements of f16 fill all banks once, so that eight of them begin in one bank.
    const READ: TiledCopy<SM75_U32x4_LDSM_N, f16> = make_tiled_copy_a(&MMA);
    let rows = ComposedLayout::plain(layout!((256, 64):(64, 1)));
    let swizzled = ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((8, 64):(64, 1)))
        .tile_to_shape(tuple!((256, 64)));
    for (name, tile) in [("plain", rows), ("swizzled", swizzled)] {
        println!("{name} rows: `ldmatrix` reads {} words of a bank", READ.access_s(tile).conflict_degree());
    }

    run_by(matmul_f16_tn.name(), Fast::K, Fast::K, |device, problem: &mut Problem<f16>| {
        launch(device, &matmul_f16_tn, problem)
    })?;
    run_by(matmul_tf32_tn.name(), Fast::K, Fast::K, |device, problem: &mut Problem<f32>| {
        launch(device, &matmul_tf32_tn, problem)
    })
}

/// The kernels have N as C's fast axis, and these examples M: so they compute C's transpose,
/// `b * a` with the operands exchanged.
fn launch<T: Number>(
    device: &Device,
    kernel: &Kernel<(Arguments<T, T, f32>,)>,
    problem: &mut Problem<T>,
) -> Result<()> {
    let ((m, n, k), (lda, ldb)) = (problem.shape, problem.leading);
    let pointers = (
        Global::from_address(problem.b.address()),
        Global::from_address(problem.a.address()),
        GlobalMut::from_address(problem.c.address()),
    );
    let arguments = Arguments::product(pointers, (n as u32, m as u32, k as u32), (ldb, lda, m as i64));
    // A block of 256 threads for each tile of 256 x 128, all along x.
    let grid = Grid::new((n.div_ceil(256) * m.div_ceil(128)) as u32, 256);
    // SAFETY: the buffers hold the matrices with these leading dimensions, which are multiples of
    // 16 bytes for A and B.
    unsafe { device.launch(kernel, grid, (arguments,)) }
}
