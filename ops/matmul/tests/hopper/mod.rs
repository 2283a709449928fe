//! The shipped products on Hopper, on the simulator against float64, with ragged extents: each way
//! in which a tile is scheduled, loaded and stored.

#[path = "../../../../tests/fixtures/common/lines.rs"]
mod lines;

use half::bf16;
use moye_device::atom::tma::TmaTile;
use moye_device::kernel::Kernel;
use moye_device::layout::{IntTuple, Layout, Major, layout};
use moye_device::memory::{Element, Global, GlobalMut, TensorMap};
use moye_device::number::F8E4M3;
use moye_matmul::kernels::hopper::{
    Cut, Maps, OperandBatches, OperandMap, Sharing, WgmmaConfig, operand, wgmma_bf16_nt, wgmma_bf16_tn,
    wgmma_bf16_tn_64x64, wgmma_bf16_tn_64x128_k2, wgmma_bf16_tn_128x128, wgmma_bf16_tn_128x128_once,
    wgmma_bf16_tn_256x128, wgmma_bf16_tn_alone, wgmma_e4m3_tn_128x128,
};
use moye_matmul::kernels::mma::{Activation, Arguments, Scales};
use moye_sim::profile::Profiler;
use moye_sim::{GlobalMemory, Launch, Pod, TensorElement, TensorSwizzle};

/// Elements of A, B and C.
trait Number: Element {
    const TENSOR: TensorElement;
    fn of(value: f64) -> Self;
    fn value(self) -> f64;
}

impl Number for bf16 {
    const TENSOR: TensorElement = TensorElement::Bf16;
    fn of(value: f64) -> Self {
        Self::from_f64(value)
    }
    fn value(self) -> f64 {
        self.to_f64()
    }
}

impl Number for F8E4M3 {
    const TENSOR: TensorElement = TensorElement::U8;
    fn of(value: f64) -> Self {
        Self::from_f32(value as f32)
    }
    fn value(self) -> f64 {
        self.to_f32().into()
    }
}

/// Values from -1 to 1 that differ from place to place.
fn numbers<T: Number>(count: usize, seed: usize) -> Vec<T> {
    (0..count).map(|i| T::of(((i * 37 + seed * 101 + i / 64 * 13) % 129) as f64 / 64.0 - 1.0)).collect()
}

/// The map for a kernel's tile, as a parameter.
fn map<T: Number>(tile: &TmaTile, address: u64, tensor: &Layout) -> TensorMap {
    TensorMap::from_words(tile.tensor_map(T::TENSOR, address, tensor).unwrap().encode())
}

/// The map of an operand of `extent` rows or columns as a kernel loads it, with K or the other mode
/// contiguous and lines `ld` elements apart.
fn map_of_operand<T: Number>(
    loaded: OperandMap,
    address: u64,
    (extent, k): (usize, usize),
    k_major: bool,
    ld: usize,
) -> TensorMap {
    let (extents, batches) = ((extent as u32, k as u32), OperandBatches { count: 1, stride: 0 });
    match loaded {
        OperandMap::Tile(tile) => {
            let major = if k_major { Major::K } else { Major::Mn };
            map::<T>(tile, address, &operand(major, extents, ld as i64, batches))
        }
        OperandMap::Fitted(boxes) => {
            let boxes = boxes.fitted(extents.0, extents.1);
            map::<T>(&boxes.tile::<T>(), address, &boxes.tensor(extents, ld as i64, batches))
        }
    }
}

/// The parameters of a launch.
#[derive(Clone, Copy)]
struct Case {
    shape: (usize, usize, usize),
    /// The distance between rows of C.
    ldc: usize,
    clusters: u32,
    /// Whether TMA may write C.
    mapped: bool,
    /// Whether K is contiguous in A and in B.
    k_major: bool,
    beta: f64,
    bias: bool,
    scaled: bool,
    cut: Cut,
    parts: u32,
}

impl Case {
    fn new(shape: (usize, usize, usize), clusters: u32) -> Self {
        Self {
            shape,
            ldc: shape.1.next_multiple_of(8),
            clusters,
            mapped: false,
            k_major: true,
            beta: 0.0,
            bias: false,
            scaled: false,
            cut: Cut::NONE,
            parts: 1,
        }
    }
}

type Product<T> = Kernel<(TensorMap, TensorMap, TensorMap, Arguments<T, bf16, f32>, Sharing<f32>)>;

/// Runs the kernel of the configuration `G`, and compares with float64.
fn check<G: WgmmaConfig<Operand = T, Output = bf16, Sum = f32>, T: Number<Bits: Pod>>(
    kernel: Product<T>,
    maps: &Maps,
    case: Case,
) {
    let (what, (m, n, k), ldc) = (kernel.name(), case.shape, case.ldc);
    let (ld_a, ld_b) = if case.k_major {
        (k.next_multiple_of(16), k.next_multiple_of(16))
    } else {
        (m.next_multiple_of(8), n.next_multiple_of(8))
    };
    let (lines_a, lines_b) = if case.k_major { (m, n) } else { (k, k) };
    let (a, b) = (numbers::<T>(lines_a * ld_a, 1), numbers::<T>(lines_b * ld_b, 2));
    let (bias, before) = (numbers::<bf16>(n, 3), numbers::<bf16>(m * ldc, 4));
    let scales: Vec<f32> = (0..m + n).map(|i| 0.5 + (i % 7) as f32).collect();

    let memory = GlobalMemory::new();
    let bits =
        |values: &[T]| -> Vec<T::Bits> { values.iter().map(|value| Element::to_bits(*value)).collect() };
    let (da, db) = (memory.upload(&bits(&a), "a").unwrap(), memory.upload(&bits(&b), "b").unwrap());
    let (dc, dbias) = (memory.upload(&before, "c").unwrap(), memory.upload(&bias, "bias").unwrap());
    let dscales = memory.upload(&scales, "scales").unwrap();
    let tiles = case.cut.tiles as usize * case.cut.most_pieces(k.div_ceil(G::BLK_K as usize) as u32) as usize;
    let of_cluster = (G::CLUSTER * G::BLK_M * G::BLK_N) as usize;
    let partials = memory.upload(&vec![f32::NAN; (tiles * of_cluster).max(4)], "partials").unwrap();
    let counters = memory.upload(&vec![0u32; 256], "counters").unwrap();

    let pointers = (
        Global::from_address(da.address()),
        Global::from_address(db.address()),
        GlobalMut::from_address(dc.address()),
    );
    let leading = (ld_a as i64, ld_b as i64, ldc as i64);
    let mut arguments = Arguments::<T, bf16, f32>::product(pointers, (m as u32, n as u32, k as u32), leading);
    arguments.alpha = 0.5;
    arguments.beta = case.beta as f32;
    arguments.tensor_c = case.mapped.into();
    if case.bias {
        (arguments.bias, arguments.bias_n) = (Global::from_address(dbias.address()), 1);
        arguments.activation = Activation::Relu as u32;
    }
    if case.scaled {
        let of = |first: usize| Global::from_address(dscales.address() + 4 * first as u64);
        arguments.scales = Scales { a: of(0), b: of(m), a_m: 1, b_n: 1, batch_a: 0, batch_b: 0 };
    }
    let shape_c = [m, n, 1].map(|extent| extent as i64);
    let ld_c = ldc.next_multiple_of(8) as i64;
    let tensor_c = Layout::new(IntTuple::flat(&shape_c), IntTuple::flat(&[ld_c, 1, 0]));
    let map_c = maps.c.map(|[tile, _]| map::<bf16>(tile, dc.address(), &tensor_c));
    let maps = (
        map_of_operand::<T>(maps.a, da.address(), (m, k), case.k_major, ld_a),
        map_of_operand::<T>(maps.b, db.address(), (n, k), case.k_major, ld_b),
        map_c.unwrap_or(TensorMap::from_words([0; 16])),
    );
    let sharing = Sharing {
        sums: GlobalMut::from_address(partials.address()),
        counters: GlobalMut::from_address(counters.address()),
        cut: case.cut,
    };
    let cluster = G::CLUSTER * case.parts;
    let profiler = Profiler::new();
    Launch::new(what, case.clusters * cluster, G::THREADS, &memory)
        .cluster(cluster)
        .profiler(&profiler)
        .shared_bytes(kernel.shared_bytes())
        .run(&|| unsafe { kernel.call((maps.0, maps.1, maps.2, arguments, sharing)) })
        .unwrap_or_else(|fault| panic!("{what}: {fault}"));
    lines::are_of_kernels(&profiler.take());

    let at = |of: &[T], row: usize, k: usize, ld: usize| {
        of[if case.k_major { row * ld + k } else { k * ld + row }].value()
    };
    let (mut error, mut norm) = (0.0, 0.0);
    for (i, got) in dc.download::<bf16>().into_iter().enumerate() {
        let (row, column) = (i / ldc, i % ldc);
        if column >= n {
            // TMA writes the 16 bytes in which a row ends.
            if case.mapped && column < n.next_multiple_of(8) {
                continue;
            }
            assert_eq!(got.to_bits(), before[i].to_bits(), "{what}: past the end of row {row}, {column}");
            continue;
        }
        let sum: f64 = (0..k).map(|k| at(&a, row, k, ld_a) * at(&b, column, k, ld_b)).sum();
        let scale = if case.scaled { f64::from(scales[row] * scales[m + column]) } else { 1.0 };
        let mut want = 0.5 * scale * sum + case.beta * before[i].to_f64();
        if case.bias {
            want = (want + bias[column].to_f64()).max(0.0);
        }
        error += (got.to_f64() - want).powi(2);
        norm += want.powi(2);
    }
    let error = (error / norm).sqrt();
    assert!(error < 0.003, "{what}, {:?}, {ldc}: relative error {error:.1e}", case.shape);
    assert!(counters.download::<u32>().iter().all(|&counter| counter == 0), "{what}: counters return to 0");
}

/// [`check`] for a kernel's name.
macro_rules! check {
    ($kernel:ident, $case:expr) => {
        check::<$kernel::Tiling, _>($kernel, &$kernel::MAPS, $case)
    };
}

#[test]
fn tensor_maps_have_the_boxes_of_the_kernels_own_copies() {
    /// The box of an operand of 4096 x 512 elements.
    fn boxes<T: Number>(loaded: OperandMap, major: Major, extent: u32) -> Vec<u32> {
        let batches = OperandBatches { count: 3, stride: 1 << 24 };
        let map = match loaded {
            OperandMap::Tile(tile) => {
                tile.tensor_map(T::TENSOR, 0x1000, &operand(major, (extent, 512), 4096, batches))
            }
            OperandMap::Fitted(boxes) => {
                let boxes = boxes.fitted(extent, 512);
                let tensor = boxes.tensor((extent, 512), 4096, batches);
                boxes.tile::<T>().tensor_map(T::TENSOR, 0x1000, &tensor)
            }
        }
        .unwrap();
        assert_eq!(
            (map.swizzle, map.extents[map.rank - 1]),
            (TensorSwizzle::B128, 3),
            "batches are outermost"
        );
        map.box_extents[..map.rank].to_vec()
    }
    macro_rules! boxes {
        ($kernel:ident, $t:ty, $major:expr, $extent:expr) => {
            [$kernel::MAPS.a, $kernel::MAPS.b].map(|loaded| boxes::<$t>(loaded, $major, $extent))
        };
    }
    // The two blocks of a cluster load half of B each.
    assert_eq!(boxes!(wgmma_bf16_tn, bf16, Major::K, 4096), [[64, 128, 1], [64, 128, 1]]);
    assert_eq!(boxes!(wgmma_bf16_nt, bf16, Major::Mn, 4096), [[64, 64, 1], [64, 64, 1]]);
    assert_eq!(boxes!(wgmma_bf16_tn_256x128, bf16, Major::K, 4096), [[64, 256, 1], [64, 128, 1]]);
    assert_eq!(boxes!(wgmma_e4m3_tn_128x128, F8E4M3, Major::K, 4096), [[128, 128, 1], [128, 64, 1]]);
    // Fitted to 20 rows.
    assert_eq!(boxes!(wgmma_bf16_tn_64x128_k2, bf16, Major::K, 4096), [[64, 64, 1], [64, 128, 1]]);
    assert_eq!(boxes!(wgmma_bf16_tn_64x128_k2, bf16, Major::K, 20), [[64, 24, 1], [64, 24, 1]]);
    // A stage has two blocks along K, which one copy loads if the tile has all its rows.
    assert_eq!(boxes!(wgmma_bf16_tn_64x64, bf16, Major::K, 4096), [[64, 64, 2, 1], [64, 64, 2, 1]]);
    assert_eq!(boxes!(wgmma_bf16_tn_64x64, bf16, Major::K, 20), [[64, 24, 1, 1], [64, 24, 1, 1]]);

    let [narrow, wide] = wgmma_bf16_tn::MAPS.c.unwrap();
    let c = layout!((4096, 512, 3):(512, 1, { 1 << 24 }));
    let narrow = narrow.tensor_map(TensorElement::Bf16, 0x1000, &c).unwrap();
    let wide = wide.tensor_map(TensorElement::F32, 0x1000, &c).unwrap();
    assert_eq!((&narrow.box_extents[..3], narrow.swizzle), (&[64, 64, 1][..], TensorSwizzle::B128));
    assert_eq!((&wide.box_extents[..3], wide.swizzle), (&[32, 64, 1][..], TensorSwizzle::B128));
    assert!(wgmma_bf16_tn_64x64::MAPS.c.is_none(), "its blocks store from registers");
}

#[test]
fn clusters_store_c_by_tma_from_their_own_boxes_and_from_the_last_stage() {
    // Several tiles for a cluster; K ends in a stage after each possible number of instructions.
    for k in [16, 104, 168, 320] {
        let case = Case { mapped: true, ..Case::new((300, 520, k), 1) };
        check!(wgmma_bf16_tn, case);
    }
}

#[test]
fn operands_with_m_and_n_contiguous_are_loaded_in_boxes_of_64() {
    let case = Case { k_major: false, mapped: true, bias: true, ..Case::new((264, 264, 136), 2) };
    check!(wgmma_bf16_nt, case);
}

#[test]
fn rows_of_c_at_any_address_are_stored_by_warps() {
    let case = Case { ldc: 271, ..Case::new((300, 270, 72), 1) };
    check!(wgmma_bf16_tn_128x128, case);
    check!(wgmma_bf16_tn_256x128, case);
    check!(wgmma_bf16_tn_alone, case);
}

#[test]
fn c_is_stored_from_registers_where_its_rows_are_whole_vectors() {
    for bias in [false, true] {
        let case = Case { bias, ..Case::new((300, 264, 72), 2) };
        check!(wgmma_bf16_tn_256x128, case);
        check!(wgmma_bf16_tn_alone, case);
    }
}

#[test]
fn a_c_that_is_read_is_stored_by_rows() {
    let case = Case { beta: 0.75, bias: true, ..Case::new((270, 136, 72), 1) };
    check!(wgmma_bf16_tn_128x128, case);
    check!(wgmma_bf16_tn_256x128, case);
}

#[test]
fn warpgroups_in_turn_scale_by_rows_and_columns() {
    for (shape, clusters) in [((256, 128, 128), 1), ((300, 390, 272), 1), ((600, 264, 144), 2)] {
        let case = Case { scaled: true, mapped: true, ..Case::new(shape, clusters) };
        check!(wgmma_e4m3_tn_128x128, case);
    }
}

#[test]
fn tiles_that_clusters_share_along_k_are_reduced_once() {
    // One tile in two even pieces; two tiles in three pieces each; two tiles in an even piece each
    // and a run of tails.
    let cuts = [
        (1, 2, Cut { tiles: 1, even: 2, stages: 2, run: 0 }),
        (2, 6, Cut { tiles: 2, even: 3, stages: 2, run: 0 }),
        (2, 3, Cut { tiles: 2, even: 1, stages: 3, run: 4 }),
    ];
    for (tiles, clusters, cut) in cuts {
        let stages = if cut.even == 2 {
            4
        } else if cut.run > 0 {
            5
        } else {
            6
        };
        for mapped in [false, true] {
            let case = Case { cut, mapped, ..Case::new((250, 256 * tiles - 8, 64 * stages - 24), clusters) };
            check!(wgmma_bf16_tn, case);
        }
        let case = Case { cut, ..Case::new((120, 256 * tiles - 8, 64 * stages - 24), clusters) };
        check!(wgmma_bf16_tn_alone, case);
        let case = Case { cut, ..Case::new((250, 128 * tiles - 8, 64 * stages - 24), clusters) };
        check!(wgmma_bf16_tn_256x128, case);
    }
}

#[test]
fn blocks_with_one_tile_split_k_between_two() {
    for (ldc, beta) in [(200, 0.0), (201, 0.0), (200, 0.5)] {
        let case = Case { ldc, beta, bias: true, ..Case::new((70, 200, 200), 4) };
        check!(wgmma_bf16_tn_64x128_k2, Case { parts: 2, ..case });
        let case = Case { ldc, beta, ..Case::new((130, 200, 200), 4) };
        check!(wgmma_bf16_tn_128x128_once, case);
    }
}
