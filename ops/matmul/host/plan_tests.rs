//! The plans of products whose fastest kernel was measured, and of products with few plans.

use super::descriptor::Preference;
use super::element::{Operand, Precision};
use super::measured::{MEASURED, Measured, fastest};
use super::operand::View;
use super::plan::{Accumulators, Plan, Problem, candidates, in_one_launch};
use crate::kernels::hopper::Cut;
use half::{bf16, f16};
use moye_device::layout::Major;
use moye_device::number::F8E4M3;

/// Half precision, K-contiguous, with rows that are multiples of 16 bytes, only by `mma.sync`.
pub(super) fn problem(m: u32, n: u32, k: u32) -> Problem {
    let mn = i64::from(k.next_multiple_of(8));
    let view = View { address: 0, mn, k: 1, batch: 0, bytes: 2, batches: 1, end: u64::MAX };
    Problem {
        extents: [m, n, k],
        batches: 1,
        operands: [view, view],
        precision: Precision::Full,
        written_by_sgemm: true,
        multiprocessors: 132,
        shared_bytes: 232_448,
        wgmma: false,
        preference: Preference::default(),
    }
}

/// [`problem`] on Hopper.
fn on_hopper(m: u32, n: u32, k: u32) -> Problem {
    Problem { wgmma: true, ..problem(m, n, k) }
}

impl Problem {
    /// The same product with each operand changed.
    fn of_operands(self, change: impl Fn(usize, View) -> View) -> Self {
        let [a, b] = self.operands;
        Self { operands: [change(0, a), change(1, b)], ..self }
    }

    /// The same product of f32, with these strides along M or N and along K for A and for B.
    fn of_f32(self, strides: [(i64, i64); 2]) -> Self {
        self.of_operands(|i, view| View { mn: strides[i].0, k: strides[i].1, bytes: 4, ..view })
    }

    fn with(self, tile: Option<(u32, u32)>, slices: Option<u32>, kernel: Option<&'static str>) -> Self {
        Self { preference: Preference { tile, slices, kernel }, ..self }
    }
}

fn plan<T: Operand>(problem: &Problem) -> Option<Plan<T>> {
    candidates(problem).into_iter().min_by(|a, b| a.microseconds.total_cmp(&b.microseconds))
}

fn planned<T: Operand>(problem: Problem) -> Plan<T> {
    plan(&problem).unwrap_or_else(|| panic!("no plan for {problem:?}"))
}

/// The kernel of a product of half precision.
fn name(problem: Problem) -> &'static str {
    planned::<f16>(problem).variant.kernel.name()
}

fn leading<T: Operand>(plan: &Plan<T>) -> [Option<i64>; 2] {
    plan.sources.map(|source| source.leading)
}

fn in_place<T: Operand>(plan: &Plan<T>) -> [bool; 2] {
    leading(plan).map(|leading| leading.is_some())
}

#[test]
fn large_products_take_large_tiles_and_small_ones_small_tiles() {
    let large = planned::<f16>(problem(8192, 8192, 8192));
    assert_eq!((large.variant.kernel.name(), large.slices), ("matmul_f16_tn", 1));
    assert_eq!(name(problem(256, 256, 256)), "matmul_f16_tn_64x64");
}

#[test]
fn blocks_without_clusters_take_a_wave_of_tiles_whose_operands_start_at_cache_lines() {
    let kernel = |problem: Problem| {
        let plan = planned::<f16>(problem);
        (plan.variant.kernel.name(), in_place(&plan))
    };
    let square = |n| on_hopper(n, n, n);
    assert_eq!(kernel(square(2048)), ("wgmma_f16_tn_alone", [true; 2]));
    for n in [8192, 16384] {
        assert_eq!(kernel(square(n)), ("wgmma_f16_tn", [true; 2]), "many waves");
    }
    let rows_of = |mn, address| square(2048).of_operands(|_, view| View { mn, address, ..view });
    assert_eq!(name(rows_of(2112, 256)), "wgmma_f16_tn_alone", "rows of 33 lines");
    assert_ne!(name(rows_of(2056, 256)), "wgmma_f16_tn_alone", "rows end within a line");
    assert_ne!(name(rows_of(2048, 256 + 64)), "wgmma_f16_tn_alone", "rows start within a line");
    // If operands must be rearranged, choose the kind of tile that fills its waves: 544 and 528
    // tiles on 132 SMs.
    for (m, n, expected) in [(4095, 4097, "wgmma_f16_tn_256x128"), (4097, 4095, "wgmma_f16_tn_alone")] {
        let odd = on_hopper(m, n, 4103).of_operands(|_, view| View { mn: 4103, ..view });
        assert_eq!(kernel(odd), (expected, [false; 2]), "{m} x {n}");
    }
    // For equal numbers of tiles, choose the faster kind.
    assert_eq!(name(square(1920)), "wgmma_f16_tn_alone");
    // A named kernel is used, and operands in another layout are rearranged for it.
    let named = rows_of(2056, 256).with(None, None, Some("wgmma_f16_tn_alone"));
    assert_eq!(kernel(named), ("wgmma_f16_tn_alone", [false; 2]));
}

#[test]
fn on_hopper_each_shape_takes_the_kernel_that_was_measured_to_be_fast() {
    for (shapes, expected) in [
        // Few rows or columns: small tiles, with K split in a cluster if there are few tiles.
        (
            &[
                [1, 4096, 4096],
                [16, 4096, 4096],
                [64, 4096, 4096],
                [4096, 1, 4096],
                [4096, 16, 4096],
                [4096, 64, 4096],
                [64, 4096, 14336],
                [64, 1024, 8192],
                [64, 2048, 2048],
            ][..],
            "wgmma_f16_tn_64x64_k2",
        ),
        // About one tile for each SM, or more.
        (&[[64, 8192, 8192], [8192, 64, 8192], [14336, 64, 4096]], "wgmma_f16_tn_64x64"),
        // Larger tiles load less, if there are enough of them or of their halves.
        (&[[64, 14336, 4096], [1024, 1024, 1024]], "wgmma_f16_tn_64x128"),
        (&[[4096, 128, 4096], [4096, 96, 4096], [4096, 128, 14336]], "wgmma_f16_tn_64x128_k2"),
        (&[[4096, 256, 4096]], "wgmma_f16_tn_128x128_k2"),
        // 66 and 64 tiles, each by a cluster of two blocks.
        (&[[384, 4096, 4096], [4096, 384, 4096]], "wgmma_f16_tn_128x192_k2"),
        // One wave of large tiles, one for each block.
        (&[[1408, 1408, 1408], [512, 4096, 4096]], "wgmma_f16_tn_128x128_once"),
        (&[[1536, 1536, 1536]], "wgmma_f16_tn_128x192_once"),
        (&[[2040, 2056, 2064], [2112, 2112, 2112]], "wgmma_f16_tn_192x192_once"),
        (&[[1920, 1920, 1920], [2048, 2048, 2048]], "wgmma_f16_tn_alone"),
        (&[[4096, 4096, 4096]], "wgmma_f16_tn"),
    ] {
        for &[m, n, k] in shapes {
            assert_eq!(name(on_hopper(m, n, k)), expected, "{m} x {n} x {k}");
        }
    }
    let squares = [16, 64, 128, 256, 512].map(|n| [n, n, n]);
    let short = [[1, 4096, 128], [16, 4096, 256], [64, 4096, 128], [64, 4096, 256], [64, 4096, 512]];
    for [m, n, k] in squares.into_iter().chain(short) {
        let name = name(on_hopper(m, n, k));
        assert!(!name.ends_with("_once"), "{m} x {n} x {k} by {name}");
    }
}

/// The product of a row of the table, if its kernel has operands `T`.
fn problem_of<T: Operand>(row: &Measured) -> Option<Problem> {
    let variant = T::VARIANTS.iter().find(|variant| variant.kernel.name() == row.kernel)?;
    let [m, n, k] = row.extents;
    let problem = on_hopper(m, n, k).of_operands(|i, view| {
        let extent = i64::from(row.extents[i]);
        let (mn, k) = if variant.majors_of_operands()[i] == Major::K { (view.mn, 1) } else { (1, extent) };
        View { mn, k, bytes: size_of::<T>() as u64, ..view }
    });
    Some(Problem { precision: variant.precision, ..problem })
}

#[test]
fn each_row_of_measured_shapes_names_a_kernel_of_one_element_and_the_plan_takes_it_in_place() {
    fn taken<T: Operand>(row: &Measured) -> Option<(&'static str, [bool; 2])> {
        let plan = planned::<T>(problem_of::<T>(row)?);
        Some((plan.variant.kernel.name(), in_place(&plan)))
    }
    for row in MEASURED.iter() {
        let half = [taken::<f16>(row), taken::<bf16>(row)];
        let others = [taken::<f32>(row), taken::<i8>(row), taken::<F8E4M3>(row)];
        let taken: Vec<_> = half.into_iter().chain(others).flatten().collect();
        assert_eq!(taken, [(row.kernel, [true; 2])], "{row:?}");
    }
}

#[test]
fn a_row_of_measured_shapes_holds_for_its_extents_a_single_product_and_the_gpus_that_were_measured() {
    for row in MEASURED.iter() {
        let [m, n, k] = row.extents;
        let problem = on_hopper(m, n, k);
        assert!(fastest(&problem).any(|kernel| kernel == row.kernel), "{row:?}");
        for other in [
            on_hopper(m, n, k + 8),
            on_hopper(m + 1, n, k),
            Problem { batches: 2, ..problem },
            Problem { multiprocessors: 114, ..problem },
            problem.with(None, Some(1), None),
            problem.with(None, None, Some("wgmma_f16_tn")),
        ] {
            assert_eq!(fastest(&other).next(), None, "{row:?}, {other:?}");
        }
    }
    // Operands that the kernel does not read in place go to another kernel.
    let [m, n, k] = [3000, 100, 3000];
    let odd = on_hopper(m, n, k).of_operands(|_, view| View { mn: 3001, ..view });
    assert_ne!(name(odd), name(on_hopper(m, n, k)));
}

#[test]
fn a_preference_restricts_tiles_slices_and_kernels() {
    for (tile, slices, kernel, expected) in [
        (None, Some(1), None, "wgmma_f16_tn_64x64"),
        (None, Some(2), None, "wgmma_f16_tn_64x64_k2"),
        (Some((64, 64)), Some(2), None, "wgmma_f16_tn_64x64_k2"),
        (Some((64, 64)), None, None, "wgmma_f16_tn_64x64_k2"),
        (None, None, Some("wgmma_f16_tn_64x64"), "wgmma_f16_tn_64x64"),
        (Some((64, 128)), Some(1), None, "wgmma_f16_tn_64x128"),
        (Some((64, 128)), Some(2), None, "wgmma_f16_tn_64x128_k2"),
        (Some((64, 128)), Some(5), None, "wgmma_f16_tn_64x128_k2"),
        (None, Some(1), Some("matmul_f16_tn_64x64"), "matmul_f16_tn_64x64"),
    ] {
        let plan = planned::<f16>(on_hopper(64, 4096, 4096).with(tile, slices, kernel));
        assert_eq!((plan.variant.kernel.name(), plan.slices), (expected, 1), "{plan:?}");
    }
    // A split that no cluster offers uses a workspace.
    let plan = planned::<f16>(on_hopper(64, 4096, 4096).with(None, Some(3), None));
    assert_eq!((plan.variant.schedule.cluster_slices(), plan.slices), (1, 3), "{plan:?}");
}

#[test]
fn large_products_of_8_bits_take_tiles_of_128_x_256_and_others_ping_pong_or_small_tiles() {
    let of_8_bits = |[m, n, k]: [u32; 3]| {
        let mn = i64::from(k.next_multiple_of(16));
        on_hopper(m, n, k).of_operands(|_, view| View { bytes: 1, mn, ..view })
    };
    let names = |shape| {
        let problem = of_8_bits(shape);
        [planned::<i8>(problem).variant.kernel.name(), planned::<F8E4M3>(problem).variant.kernel.name()]
    };
    // The faster kernels on an H200, within the error: int8 8192 x 8192 x 1024 uses 128 x 128,
    // 8-bit floats either tile.
    for shape in [[8192, 8192, 8192], [4096, 4096, 16384], [1280, 5120, 8192], [1000, 3000, 5000]] {
        assert_eq!(names(shape)[0], "wgmma_s8_tn", "{shape:?}");
    }
    for shape in [[8192, 8192, 1024], [3072, 3072, 3072], [1024, 1024, 1024], [384, 4096, 4096]] {
        assert_eq!(names(shape)[0], "wgmma_s8_tn_128x128", "{shape:?}");
    }
    for shape in [[8192, 8192, 8192], [1000, 3000, 5000], [384, 4096, 4096], [64, 64, 513]] {
        assert!(names(shape)[1].ends_with("_promoted"), "{shape:?}");
    }
    assert!(!names([8192, 8192, 512])[1].ends_with("_promoted"));
    for shape in [[128; 3], [512; 3], [640; 3], [64, 4096, 4096], [4096, 64, 4096], [128, 4096, 4096]] {
        assert_eq!(names(shape)[0], "matmul_s8_tn_64x64", "{shape:?}");
    }
}

#[test]
fn k_contiguous_f32_is_read_in_pairs_and_rearranged_where_rows_start_within_a_pair() {
    for (name, k_contiguous) in [("sgemm_nn", 0), ("sgemm_tt", 1)] {
        // For the kernel C is M-contiguous: its operand B is A here.
        let of = |row: i64, address: u64| {
            let problem = problem(256, 256, 100).with(None, None, Some(name)).of_f32([(1, 256); 2]);
            let order = |i, view: View| {
                if i == k_contiguous { View { mn: row, k: 1, address, ..view } } else { view }
            };
            leading(&planned::<f32>(problem.of_operands(order)))[k_contiguous]
        };
        assert_eq!(of(100, 256), Some(100), "{name}");
        assert_eq!(of(102, 256 + 8), Some(102), "{name}: by pairs, not by fours");
        assert_eq!(of(101, 256), None, "{name}: every other row starts within a pair");
        assert_eq!(of(100, 256 + 4), None, "{name}: all rows start within a pair");
    }
}

#[test]
fn two_k_contiguous_operands_of_f32_are_transposed_by_one_launch_where_that_is_fastest() {
    let plan = planned::<f32>(problem(2048, 2048, 256).of_f32([(256, 1); 2]));
    assert_eq!((plan.variant.kernel.name(), leading(&plan)), ("sgemm_nt", [None; 2]), "{plan:?}");
}

#[test]
fn on_hopper_f32_is_read_in_place_where_tma_can_load_it() {
    let kernel = |k_contiguous: [bool; 2], row: i64| {
        let strides = k_contiguous.map(|k| if k { (row, 1) } else { (1, 2048) });
        let plan = planned::<f32>(on_hopper(2048, 2048, 256).of_f32(strides));
        (plan.variant.kernel.name(), in_place(&plan))
    };
    // f32 kernels compute the transposed product: their A is B here.
    assert_eq!(kernel([true, true], 256), ("sgemm_tn_tma", [true; 2]));
    assert_eq!(kernel([false, false], 256), ("sgemm_nt_tma", [true; 2]));
    assert_eq!(kernel([true, false], 256), ("sgemm_nn_tma", [true; 2]));
    assert_eq!(kernel([false, true], 256), ("sgemm_tt", [true; 2]), "by registers");
    assert_eq!(kernel([true, true], 257).1, [false; 2], "rows that start at no multiple of 16 bytes");
}

#[test]
fn tma_sgemm_kernels_write_partial_tiles_to_a_workspace_with_room_for_whole_ones() {
    let padded = |kernel, k_contiguous: [bool; 2], [m, n]: [u32; 2]| {
        let strides = k_contiguous.map(|k| if k { (64, 1) } else { (1, 512) });
        let plan = planned::<f32>(on_hopper(m, n, 64).with(None, Some(1), Some(kernel)).of_f32(strides));
        assert_eq!(in_place(&plan), [true; 2], "{plan:?}");
        (plan.accumulators, plan.padded_extents([m, n]))
    };
    use Accumulators::{Epilogue, Workspace};
    // Tiles have 128 rows and 256 columns. Along N, 16-byte vectors of C end; along M, TMA boxes
    // start where M is contiguous.
    for (kernel, order, m) in [
        ("sgemm_nt_tma", [false, false], 132),
        ("sgemm_nn_tma", [true, false], 131),
        ("sgemm_tn_tma", [true, true], 131),
    ] {
        assert_eq!(padded(kernel, order, [1, 1]), (Workspace, [128, 256]), "{kernel}");
        assert_eq!(padded(kernel, order, [131, 263]), (Workspace, [m, 264]), "{kernel}");
        assert_eq!(padded(kernel, order, [132, 264]), (Epilogue, [132, 264]), "{kernel}");
        assert_eq!(padded(kernel, order, [124, 264]), (Workspace, [128, 264]), "{kernel}");
    }
    assert_eq!(padded("sgemm_tn_tma", [true, true], [131, 264]), (Epilogue, [131, 264]), "any row of A");
}

#[test]
fn few_rows_or_columns_of_many_are_not_padded_to_whole_tiles() {
    for (m, n, batches) in
        [(1, 1_000_000, 1), (8, 1_000_000, 1), (1_000_000, 8, 1), (1, 4096, 1), (1, 200, 50_000)]
    {
        for k in [16, 4096] {
            let problem = Problem { batches, ..on_hopper(m, n, k) }.of_f32([(k.into(), 1); 2]);
            let plan = planned::<f32>(problem);
            let area = |[rows, columns]: [u32; 2]| u64::from(rows) * u64::from(columns);
            // A rearranged operand may be padded to a whole 16-byte vector.
            let elements = area([m, n].map(|extent| extent.next_multiple_of(4)));
            assert!(area(plan.padded_extents([m, n])) <= 2 * elements, "{m} x {n} x {k}: {plan:?}");
        }
    }
}

#[test]
fn extents_of_sgemm_kernels_end_with_vectors_where_operands_and_c_are_in_a_workspace() {
    // M and N contiguous, with this leading dimension.
    let padded = |[m, n]: [u32; 2], leading: [i64; 2], written_by_sgemm: bool| {
        let problem =
            problem(m, n, 4103).with(None, Some(1), None).of_f32(leading.map(|leading| (1, leading)));
        let plan = planned::<f32>(Problem { written_by_sgemm, ..problem });
        assert!(plan.variant.schedule.is_sgemm(), "{plan:?}");
        plan.padded_extents([m, n])
    };
    assert_eq!(padded([4095, 4097], [4095, 4097], false), [4096, 4100]);
    assert_eq!(padded([4095, 4097], [4095, 4097], true), [4095, 4097], "C has no room for more");
    assert_eq!(padded([4095, 4097], [4096, 4097], false), [4095, 4100], "A's lines end where it says");
    assert_eq!(padded([4096, 4100], [4097, 4101], false), [4096, 4100]);
}

#[test]
fn kernels_that_need_more_shared_memory_than_there_is_are_left_out() {
    let problem = Problem { shared_bytes: 101_376, ..problem(8192, 8192, 8192) };
    assert_eq!(name(problem), "matmul_f16_tn_64x64");
    assert!(plan::<f16>(&Problem { shared_bytes: 16_384, ..problem }).is_none());
}

#[test]
fn a_long_k_is_split_where_there_are_few_tiles() {
    let long = planned::<f16>(problem(64, 64, 1 << 20));
    assert!(long.slices >= 24 && long.accumulators == Accumulators::Workspace, "{long:?}");
    assert!(long.k_chunk * (long.slices - 1) < 1 << 20 && long.k_chunk * long.slices >= 1 << 20, "{long:?}");
}

#[test]
fn every_slice_has_some_of_k() {
    for k in [0, 1, 63, 64, 65, 300, 1000, 4097] {
        for wanted in 1..40 {
            for wgmma in [false, true] {
                let problem = Problem { wgmma, ..problem(64, 64, k) }.with(None, Some(wanted), None);
                let plan = planned::<f16>(problem);
                let (slices, in_cluster) = (plan.slices, plan.variant.schedule.cluster_slices());
                assert!(slices >= 1 && slices * in_cluster <= wanted, "{k} in {wanted}: {plan:?}");
                assert!(in_cluster <= k.div_ceil(64).max(1), "{k} in {wanted}: {plan:?}");
                assert!((slices - 1) * plan.k_chunk < k.max(1), "{k} in {wanted}: {plan:?}");
                let reached = u64::from(slices) * u64::from(plan.k_chunk);
                assert!(reached >= u64::from(k), "{k} in {wanted}: {plan:?}");
            }
        }
    }
}

#[test]
fn operands_are_rearranged_only_where_no_kernel_reads_them() {
    let cube = problem(4096, 4096, 4096);
    let with_b = |mn, k| {
        let problem = cube.of_operands(|i, view| if i == 1 { View { mn, k, ..view } } else { view });
        let plan = planned::<f16>(problem);
        (plan.variant.kernel.name(), leading(&plan))
    };
    assert_eq!(with_b(1, 4096), ("matmul_f16_tt", [Some(4096), Some(4096)]));
    assert_eq!(with_b(4097, 1), ("matmul_f16_tn", [Some(4096), None]));
}

#[test]
fn a_wave_that_is_half_empty_is_divided_by_stream_k_and_one_that_is_nearly_full_is_not() {
    let cut = |n, k| planned::<f16>(on_hopper(n, n, k)).cut;
    // 34 tiles for 66 pairs in the last wave.
    let half = cut(8192, 8192);
    assert_eq!((half.tiles, half.even), (34, 1), "{half:?}");
    assert!((68..76).contains(&half.stages) && half.run < half.stages, "{half:?}");
    // 4 tiles for 66 pairs: even splits are enough.
    let few = cut(16384, 16384);
    assert!(few.tiles == 4 && few.even > 3, "{few:?}");
    // 58 tiles for 66 pairs; 48 for 66, with little gain; and 34 with a short K.
    assert_eq!([cut(4096, 4096), cut(6144, 6144), cut(8192, 512)], [Cut::NONE; 3]);
}

#[test]
fn tiles_are_shared_only_where_one_launch_has_them_all() {
    let limit = moye_runtime::MAX_BLOCKS[0];
    assert!(in_one_launch(6, 1));
    assert!(in_one_launch(6, limit / 6));
    assert!(!in_one_launch(6, limit / 6 + 1));
    // More tiles in one batch than a launch can have: the product is refused.
    assert!(!in_one_launch(1 << 46, 1));
}
