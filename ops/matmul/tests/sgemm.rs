//! The f32 products whose operands TMA loads, on the simulator against float64: tiles that are
//! moved inside, a K that ends within a tile, and slices of K.

use moye_device::kernel::Kernel;
use moye_device::layout::Major;
use moye_device::memory::{Global, GlobalMut, TensorMap};
use moye_matmul::kernels::hopper::{
    OperandBatches, SgemmBox, SgemmConfig, operand, sgemm_nn_tma, sgemm_nt_tma, sgemm_tn_tma,
};
use moye_matmul::kernels::mma::Arguments;
use moye_sim::{GlobalMemory, Launch, TensorElement, TensorSwizzle};

/// Values from -1 to 1 that differ from place to place.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + seed * 101 + i / 64 * 13) % 129) as f32 / 64.0 - 1.0).collect()
}

/// The map of an operand as the kernel loads it.
fn map(of: &SgemmBox, address: u64, (extent, k): (usize, usize), ld: usize) -> TensorMap {
    let batches = OperandBatches { count: 1, stride: 0 };
    let tensor = operand(of.major, (extent as u32, k as u32), ld as i64, batches);
    let swizzle = if of.swizzle.bits() == 3 { TensorSwizzle::B128 } else { TensorSwizzle::None };
    let fields = of.tile.tensor_map(TensorElement::F32, address, &tensor).unwrap();
    TensorMap::from_words(fields.with_swizzle(swizzle).encode())
}

/// Runs the kernel of the configuration `G`, and compares the sum of all slices with float64.
fn check<G: SgemmConfig>(
    kernel: Kernel<(TensorMap, TensorMap, Arguments<f32, f32, f32>)>,
    (m, n, k): (usize, usize, usize),
    splits: usize,
) {
    let what = kernel.name();
    let [box_a, box_b] = &G::BOXES;
    let ld = |of: &SgemmBox, extent: usize| if of.major == Major::K { k.next_multiple_of(4) } else { extent };
    let (ld_a, ld_b) = (ld(box_a, m), ld(box_b, n));
    let lines = |of: &SgemmBox, extent: usize| if of.major == Major::K { extent } else { k };
    let (a, b) = (numbers(lines(box_a, m) * ld_a, 1), numbers(lines(box_b, n) * ld_b, 2));
    let memory = GlobalMemory::new();
    let (da, db) = (memory.upload(&a, "a").unwrap(), memory.upload(&b, "b").unwrap());
    let dc = memory.upload(&vec![f32::NAN; splits * m * n], "c").unwrap();
    let pointers = (
        Global::from_address(da.address()),
        Global::from_address(db.address()),
        GlobalMut::from_address(dc.address()),
    );
    let leading = (ld_a as i64, ld_b as i64, m as i64);
    let arguments = Arguments::<f32, f32, f32> {
        alpha: 0.5,
        splits: splits as u32,
        k_chunk: k.div_ceil(splits).next_multiple_of(16) as u32,
        split_c: (m * n) as i64,
        ..Arguments::product(pointers, (m as u32, n as u32, k as u32), leading)
    };
    let maps = (map(box_a, da.address(), (m, k), ld_a), map(box_b, db.address(), (n, k), ld_b));
    let tiles = (m.div_ceil(256) * n.div_ceil(128)) as u32;
    Launch::new(what, (tiles, splits as u32), 384, &memory)
        .shared_bytes(kernel.shared_bytes())
        .run(&|| unsafe { kernel.call((maps.0, maps.1, arguments)) })
        .unwrap_or_else(|fault| panic!("{what}: {fault}"));

    let at = |of: &SgemmBox, values: &[f32], mn: usize, l: usize, ld: usize| {
        f64::from(values[if of.major == Major::K { mn * ld + l } else { l * ld + mn }])
    };
    let c = dc.download::<f32>();
    let (mut error, mut norm) = (0.0, 0.0);
    for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
        let got: f64 = (0..splits).map(|split| f64::from(c[(split * n + column) * m + row])).sum();
        let want: f64 =
            (0..k).map(|l| 0.5 * at(box_a, &a, row, l, ld_a) * at(box_b, &b, column, l, ld_b)).sum();
        error += (got - want).powi(2);
        norm += want.powi(2);
    }
    let error = (error / norm).sqrt();
    assert!(error < 1e-6, "{what}, {m} x {n} x {k} in {splits} splits: relative error {error:.1e}");
}

#[test]
fn tiles_at_edges_are_moved_inside_and_k_ends_anywhere() {
    // One tile along K, more than the pipeline's stages, and two tiles along M and N.
    for (shape, splits) in
        [((256, 128, 16), 1), ((256, 128, 88), 1), ((260, 132, 40), 1), ((256, 128, 100), 2)]
    {
        check::<sgemm_nt_tma::Tiling>(sgemm_nt_tma, shape, splits);
        check::<sgemm_nn_tma::Tiling>(sgemm_nn_tma, shape, splits);
        check::<sgemm_tn_tma::Tiling>(sgemm_tn_tma, shape, splits);
    }
}
