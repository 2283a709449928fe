//! Chooses the kernel of a product and its split along K, by the [cost](super::cost) of each
//! choice.

use super::cost::{Begins, padding_cost, product_cost, rearrangement_cost};
use super::element::{Clusters, Code, Major, Operand, Precision, Variant, variants};
use super::hopper;
use super::operand::{LINE, View};
use super::problem::{MAX_Y, ROW_ALIGN};
use moye_kernels::hopper::Cut;

/// The product to plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question {
    /// M, N, K.
    pub extents: [u32; 3],
    /// The number of batches.
    pub batches: u32,
    /// A as (M, K) and B as (N, K).
    pub operands: [View; 2],
    /// The precision of the accumulators.
    pub precision: Precision,
    /// Whether the epilogue or the layout of C needs more than a plain kernel's epilogue offers.
    pub finished_apart: bool,
    /// The number of multiprocessors.
    pub multiprocessors: u32,
    /// The shared memory that a block may have, in bytes.
    pub shared_bytes: usize,
    /// Whether the device has `wgmma`.
    pub wgmma: bool,
    /// The caller's own choices.
    pub forced: Forced,
}

/// Choices that the caller made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Forced {
    /// The tile of C.
    pub tile: Option<(u32, u32)>,
    /// The number of splits along K.
    pub splits: Option<u32>,
    /// The kernel, by name.
    pub kernel: Option<&'static str>,
}

/// The chosen plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan<T: Operand> {
    /// The kernel.
    pub variant: &'static Variant<T>,
    /// For A and B: the leading dimension in the caller's memory, or `None` if the operand is
    /// rearranged first.
    pub leading: [Option<i64>; 2],
    /// For A and B: the contiguous mode that the kernel reads, after a rearrangement if there is
    /// one.
    pub majors: [Major; 2],
    /// The number of splits along K.
    pub splits: u32,
    /// The extent along K of each split except the last.
    pub k_chunk: u32,
    /// Whether the accumulators go to a workspace, from which a second kernel writes C.
    pub apart: bool,
    /// For persistent kernels: how the last tiles of the clusters are divided along K.
    pub cut: Cut,
    /// The clusters of a grid that shares tiles (stream-K).
    pub clusters: u32,
    /// The estimated cost in microseconds.
    pub cost: f64,
}

impl<T: Operand> Plan<T> {
    /// M and N as the kernel receives them.
    pub fn whole_words(&self, extents: [u32; 2]) -> [u32; 2] {
        whole_words(self.variant, self.leading, self.majors, self.apart, extents)
    }

    /// Pipeline stages for the whole of K.
    pub fn stages(&self, k: u32) -> u32 {
        k.div_ceil(self.variant.tile[2])
    }
}

/// M and N as the kernel receives them. A kernel that writes C in 16-byte vectors is fast if both
/// are multiples of the vector. The plan may round them up: the rearranged operand has zero-padded
/// rows, and C goes to a workspace. A kernel whose operands TMA loads (out of bounds reads give
/// zeros) handles whole tiles only: for other extents C goes to a workspace with room for them.
fn whole_words<T: Operand>(
    variant: &Variant<T>,
    leading: [Option<i64>; 2],
    majors: [Major; 2],
    apart: bool,
    [m, n]: [u32; 2],
) -> [u32; 2] {
    if matches!(variant.kernel, Code::Loaded(..)) {
        let (tile_m, tile_n) = variant.tile_of_operands();
        let word = word_of::<T>();
        let along_m = if majors[0] == Major::K { 1 } else { word };
        return match apart {
            true => [m.next_multiple_of(along_m).max(tile_m), n.next_multiple_of(word).max(tile_n)],
            false => [m, n],
        };
    }
    let whole = |i: usize, extent: u32| {
        let padded = leading[i].is_none() && majors[i] == Major::Mn;
        if variant.plain && apart && padded { extent.next_multiple_of(word_of::<T>()) } else { extent }
    };
    [whole(0, m), whole(1, n)]
}

/// Elements of a 16-byte vector.
fn word_of<T>() -> u32 {
    (ROW_ALIGN as usize / size_of::<T>()) as u32
}

/// Whether an SGEMM kernel needs its predicated mainloop or, if TMA loads its operands, a workspace
/// for C: M or N is below one tile, or not a multiple of 16 bytes. For these kernels C is
/// M-contiguous, and N is the caller's M.
fn asks_at_edges<T: Operand>(variant: &Variant<T>, majors: [Major; 2], extents: [u32; 2]) -> bool {
    let (tile_of_columns, tile_of_rows) = variant.tile_of_operands();
    let [of_columns, of_rows] = extents;
    let ends = |extent: u32| extent.is_multiple_of(word_of::<T>());
    let whole_rows = of_rows >= tile_of_rows && ends(of_rows);
    let begins = majors[0] == Major::K || ends(of_columns);
    let whole_columns = of_columns >= tile_of_columns && begins;
    variant.plain && !(whole_rows && whole_columns)
}

/// The factor that predication costs: measured 1.5 for 1023 x 1025 x 1027 against 1000^3, and 1.2
/// for 4095 x 4097 x 4103 against 4096^3.
const ASKED: f64 = 1.3;

/// The largest ratio of a whole-tile workspace to C, unless the caller names the kernel: with few
/// rows the workspace would take a hundred times the memory of C.
const MOST_PADDED: f64 = 2.0;

/// The numbers of splits to try.
const SPLITS: [u32; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];

/// The cheapest plan, or `None` if the caller's choices rule out every plan. See
/// [`remembered`](super::remembered).
pub(super) fn plan<T: Operand>(question: &Question) -> Option<Plan<T>> {
    let tile_fits = |variant: &&Variant<T>| {
        question.forced.tile.is_none_or(|(m, n)| variant.tile[0] == m && variant.tile[1] == n)
    };
    let ways = |fewer| {
        variants::<T>(question.precision, question.wgmma)
            .filter(|variant| variant.kernel.shared_bytes() <= question.shared_bytes)
            .filter(tile_fits)
            .filter(|variant| question.forced.kernel.is_none_or(|name| variant.kernel.name() == name))
            .filter_map(move |variant| with(question, variant, fewer))
    };
    let cheapest = ways(false).min_by(|a, b| a.cost.total_cmp(&b.cost));
    // If no kernel with this tile supports the requested number of splits, take the kernel with the
    // next smaller number.
    let parts = |plan: &Plan<T>| plan.variant.kernel.clusters().parts();
    cheapest.or_else(|| if question.forced.kernel.is_some() { None } else { ways(true).max_by_key(parts) })
}

/// The best plan with one kernel. It may use fewer splits than requested if `fewer` is set. `None`
/// if an operand's layout does not fit and cannot be rearranged.
fn with<T: Operand>(question: &Question, variant: &'static Variant<T>, fewer: bool) -> Option<Plan<T>> {
    let [m, n, k] = question.extents;
    let mut leading = [None; 2];
    let (mut packed_bytes, mut packed, mut turned, mut within) = (0.0, 0, 0, Begins::Lines);
    let majors = variant.majors_of_operands();
    for (i, (view, extent)) in question.operands.iter().zip([m, n]).enumerate() {
        let major = majors[i];
        // Plain kernels copy K-contiguous operands by one or two elements and need no other
        // alignment; TMA does.
        let align = match variant.plain && major == Major::K && !variant.kernel.is_tma() {
            true => view.bytes * if variant.turned { 2 } else { 1 },
            false => 16,
        };
        leading[i] = view.leading(major, extent, k, align);
        let others = if major == Major::K { extent } else { k };
        if variant.kernel.is_tma() {
            leading[i] = leading[i].filter(|&leading| hopper::takes(view, leading, others));
            if variant.lines {
                leading[i] = leading[i].filter(|&leading| view.lies_in(LINE, leading, others));
            }
        }
        // Rearranged operands start at cache lines.
        if let Some(leading) = leading[i] {
            within = within.max(Begins::of(view, leading, others));
        }
        if leading[i].is_none() {
            // On tensor cores, an operand that must be rearranged anyway goes to a K-major kernel.
            if major == Major::Mn && !variant.plain {
                return None;
            }
            let batches = if view.batch == 0 { 1 } else { question.batches };
            packed_bytes += f64::from(extent) * f64::from(k) * view.bytes as f64 * f64::from(batches);
            packed += 1;
            turned += u32::from(
                major == Major::Mn && view.bytes == 4 && view.leading(Major::K, extent, k, 16).is_some(),
            );
        }
    }
    // One launch rearranges both operands.
    let packing = rearrangement_cost(packed_bytes, if packed == turned { packed.min(1) } else { packed });
    let most = k.div_ceil(variant.tile[2]).max(1);
    let candidates = match (question.forced.splits, variant.kernel.clusters()) {
        // These kernels split K across the blocks of a cluster, and in no other way.
        (Some(splits), Clusters::Parts(parts)) if splits != parts && !(fewer && parts < splits) => {
            return None;
        }
        // Every split has at least one element of K.
        (_, Clusters::Parts(parts)) if parts > most => return None,
        (_, Clusters::Parts(_)) => vec![1],
        // Splits are blocks along the grid's y.
        (Some(splits), _) => vec![splits.clamp(1, most.min(MAX_Y))],
        (None, _) => SPLITS.into_iter().filter(|&splits| splits == 1 || most >= 4 * splits).collect(),
    };
    let hangs = matches!(variant.kernel, Code::Loaded(..)) && asks_at_edges(variant, majors, [m, n]);
    let area = |[m, n]: [u32; 2]| f64::from(m) * f64::from(n);
    if hangs && question.forced.kernel.is_none() {
        let padded = area(whole_words(variant, leading, majors, true, [m, n]));
        if padded > MOST_PADDED * area([m, n]) {
            return None;
        }
    }
    let best = candidates.into_iter().map(|wanted| {
        let k_chunk = most.div_ceil(wanted) * variant.tile[2];
        // Rounding up the length of a split may leave nothing for the last splits.
        let splits = k.div_ceil(k_chunk).max(1);
        let apart = splits > 1 || hangs || variant.plain && question.finished_apart;
        let (cost, cut) = product_cost(question, variant, splits, k_chunk, apart, within);
        let extents = whole_words(variant, leading, majors, apart, [m, n]);
        let padding = (area(extents) - area([m, n])) * f64::from(splits) * f64::from(question.batches);
        let cost = cost + padding_cost(padding);
        let cost = cost * if asks_at_edges(variant, majors, extents) { ASKED } else { 1.0 };
        let clusters = hopper::clusters(question.multiprocessors, variant.kernel.clusters().blocks());
        Plan { variant, leading, majors, splits, k_chunk, apart, cut, clusters, cost: cost + packing }
    });
    best.min_by(|a, b| a.cost.total_cmp(&b.cost))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use half::f16;
    use moye_device::number::F8E4M3;

    /// Half precision, K-contiguous, with rows that are multiples of 16 bytes.
    pub fn question(m: u32, n: u32, k: u32) -> Question {
        let view = View {
            address: 0,
            mn: i64::from(k.next_multiple_of(8)),
            k: 1,
            batch: 0,
            bytes: 2,
            batches: 1,
            end: u64::MAX,
        };
        Question {
            extents: [m, n, k],
            batches: 1,
            operands: [view, view],
            precision: Precision::Full,
            finished_apart: false,
            multiprocessors: 132,
            shared_bytes: 232_448,
            wgmma: false,
            forced: Forced::default(),
        }
    }

    #[test]
    fn large_products_take_large_tiles_and_small_ones_small_tiles() {
        let large = plan::<f16>(&question(8192, 8192, 8192)).unwrap();
        assert_eq!((large.variant.kernel.name(), large.splits), ("matmul_f16_tn", 1));
        let small = plan::<f16>(&question(256, 256, 256)).unwrap();
        assert_eq!(small.variant.kernel.name(), "matmul_f16_tn_64x64");
    }

    #[test]
    fn blocks_by_themselves_take_a_round_of_tiles_whose_operands_lie_in_lines() {
        let name = |question: Question| {
            let plan = plan::<f16>(&Question { wgmma: true, ..question }).unwrap();
            (plan.variant.kernel.name(), plan.leading.map(|leading| leading.is_some()))
        };
        let square = |n| question(n, n, n);
        assert_eq!(name(square(2048)), ("wgmma_f16_tn_alone", [true; 2]));
        for n in [8192, 16384] {
            assert_eq!(name(square(n)), ("wgmma_f16_tn", [true; 2]), "many rounds");
        }
        let rows_of = |elements: i64, address: u64| {
            let question = square(2048);
            let operands = question.operands.map(|view| View { mn: elements, address, ..view });
            Question { operands, ..question }
        };
        assert_eq!(name(rows_of(2112, 256)).0, "wgmma_f16_tn_alone", "rows of 33 lines");
        assert_ne!(name(rows_of(2056, 256)).0, "wgmma_f16_tn_alone", "rows end within a line");
        assert_ne!(name(rows_of(2048, 256 + 64)).0, "wgmma_f16_tn_alone", "rows begin within a line");
        // If operands must be rearranged, choose the kind of tile that fills its waves: 544 and 528
        // tiles on 132 multiprocessors.
        for (m, n, kernel) in [(4095, 4097, "wgmma_f16_tn_256x128"), (4097, 4095, "wgmma_f16_tn_alone")] {
            let odd = Question { extents: [m, n, 4103], ..question(m, n, 4103) };
            let operands = odd.operands.map(|view| View { mn: 4103, ..view });
            assert_eq!(name(Question { operands, ..odd }), (kernel, [false; 2]), "{m} x {n}");
        }
        // For equal numbers of tiles, choose the faster kind.
        for n in [1920, 2048] {
            assert_eq!(name(square(n)).0, "wgmma_f16_tn_alone", "{n}^3");
        }
        // A kernel that the caller names is used, and operands with another layout are rearranged.
        let forced = Forced { kernel: Some("wgmma_f16_tn_alone"), ..Forced::default() };
        assert_eq!(name(Question { forced, ..rows_of(2056, 256) }), ("wgmma_f16_tn_alone", [false; 2]));
    }

    #[test]
    fn on_hopper_few_rows_or_columns_take_small_tiles_and_cut_k_where_these_are_few() {
        let name = |m, n, k| {
            let plan = plan::<f16>(&Question { wgmma: true, ..question(m, n, k) }).unwrap();
            plan.variant.kernel.name()
        };
        for few in [1, 16, 64] {
            assert_eq!(name(few, 4096, 4096), "wgmma_f16_tn_64x64_k2");
            assert_eq!(name(4096, few, 4096), "wgmma_f16_tn_64x64_k2");
        }
        for (m, n, k) in [(64, 4096, 14336), (64, 1024, 8192), (64, 2048, 2048)] {
            assert_eq!(name(m, n, k), "wgmma_f16_tn_64x64_k2", "{m} x {n} x {k}");
        }
        // About one tile for each multiprocessor, or more.
        for (m, n, k) in [(64, 8192, 8192), (8192, 64, 8192), (14336, 64, 4096)] {
            assert_eq!(name(m, n, k), "wgmma_f16_tn_64x64", "{m} x {n} x {k}");
        }
        assert_eq!(name(64, 14336, 4096), "wgmma_f16_tn_64x128", "in one round");
        // Larger tiles load less, if there are enough of them or of their halves.
        assert_eq!(name(1024, 1024, 1024), "wgmma_f16_tn_64x128");
        for (m, n, k) in [(4096, 128, 4096), (4096, 96, 4096), (4096, 128, 14336)] {
            assert_eq!(name(m, n, k), "wgmma_f16_tn_64x128_k2", "{m} x {n} x {k}");
        }
        assert_eq!(name(4096, 256, 4096), "wgmma_f16_tn_128x128_k2");
        // 66 and 64 tiles, each by a cluster of two blocks.
        for (m, n) in [(384, 4096), (4096, 384)] {
            assert_eq!(name(m, n, 4096), "wgmma_f16_tn_128x192_k2", "{m} x {n}");
        }
        assert_eq!(name(4096, 4096, 4096), "wgmma_f16_tn");
        // One wave of large tiles, one for each block.
        for (m, n, k, kernel) in [
            (1408, 1408, 1408, "wgmma_f16_tn_128x128_once"),
            (512, 4096, 4096, "wgmma_f16_tn_128x128_once"),
            (1536, 1536, 1536, "wgmma_f16_tn_128x192_once"),
            (2040, 2056, 2064, "wgmma_f16_tn_192x192_once"),
            (2112, 2112, 2112, "wgmma_f16_tn_192x192_once"),
            (1920, 1920, 1920, "wgmma_f16_tn_alone"),
            (2048, 2048, 2048, "wgmma_f16_tn_alone"),
        ] {
            assert_eq!(name(m, n, k), kernel, "{m} x {n} x {k}");
        }
        // Not for small products.
        for n in [16, 64, 128, 256, 512] {
            let name = name(n, n, n);
            assert!(!name.ends_with("_once"), "{n}^3 by {name}");
        }
        for (m, k) in [(1, 128), (16, 256), (64, 128), (64, 256), (64, 512)] {
            let name = name(m, 4096, k);
            assert!(!name.ends_with("_once"), "{m} x 4096 x {k} by {name}");
        }
        let forced = |splits, tile| Forced { splits, tile, kernel: None };
        for (forced, expected) in [
            (forced(Some(1), None), "wgmma_f16_tn_64x64"),
            (forced(Some(2), None), "wgmma_f16_tn_64x64_k2"),
            (forced(Some(2), Some((64, 64))), "wgmma_f16_tn_64x64_k2"),
            (forced(None, Some((64, 64))), "wgmma_f16_tn_64x64_k2"),
            (Forced { kernel: Some("wgmma_f16_tn_64x64"), ..Forced::default() }, "wgmma_f16_tn_64x64"),
            (forced(Some(1), Some((64, 128))), "wgmma_f16_tn_64x128"),
            (forced(Some(2), Some((64, 128))), "wgmma_f16_tn_64x128_k2"),
            (forced(Some(5), Some((64, 128))), "wgmma_f16_tn_64x128_k2"),
            (Forced { kernel: Some("matmul_f16_tn_64x64"), ..forced(Some(1), None) }, "matmul_f16_tn_64x64"),
        ] {
            let plan = plan::<f16>(&Question { wgmma: true, forced, ..question(64, 4096, 4096) }).unwrap();
            assert_eq!((plan.variant.kernel.name(), plan.splits), (expected, 1), "{forced:?}: {plan:?}");
        }
        // A split that no cluster offers uses a workspace.
        let forced = forced(Some(3), None);
        let plan = plan::<f16>(&Question { wgmma: true, forced, ..question(64, 4096, 4096) }).unwrap();
        assert_eq!((plan.variant.kernel.clusters().parts(), plan.splits), (1, 3), "{plan:?}");
    }

    #[test]
    fn of_8_bits_large_products_take_tiles_of_128_x_256_and_others_those_that_warpgroups_take_in_turn() {
        let of_8_bits = |m, n, k| {
            let question = Question { wgmma: true, ..question(m, n, k) };
            let operands = question.operands.map(|view| View {
                bytes: 1,
                mn: i64::from(k.next_multiple_of(16)),
                ..view
            });
            Question { operands, ..question }
        };
        // The faster kernels on an H200, within the error: int8 8192 x 8192 x 1024 uses 128 x 128,
        // 8-bit floats either tile.
        for ([m, n, k], wide) in [
            ([8192, 8192, 8192], true),
            ([4096, 4096, 16384], true),
            ([1280, 5120, 8192], true),
            ([1000, 3000, 5000], true),
            ([8192, 8192, 1024], false),
            ([3072, 3072, 3072], false),
            ([1024, 1024, 1024], false),
            ([384, 4096, 4096], false),
        ] {
            let question = of_8_bits(m, n, k);
            let names = [
                plan::<i8>(&question).unwrap().variant.kernel.name(),
                plan::<F8E4M3>(&question).unwrap().variant.kernel.name(),
            ];
            let expected = if wide {
                ["wgmma_s8_tn", "wgmma_e4m3_tn"]
            } else {
                ["wgmma_s8_tn_128x128", "wgmma_e4m3_tn_128x128"]
            };
            assert_eq!(names, expected, "{m} x {n} x {k}");
        }
        // Fewer or smaller tiles for int8, whose tiles are smaller too.
        for (m, n, k) in [
            (128, 128, 128),
            (512, 512, 512),
            (640, 640, 640),
            (64, 4096, 4096),
            (4096, 64, 4096),
            (128, 4096, 4096),
        ] {
            let plan = plan::<i8>(&of_8_bits(m, n, k)).unwrap();
            assert_eq!(plan.variant.kernel.name(), "matmul_s8_tn_64x64", "{m} x {n} x {k}");
        }
    }

    #[test]
    fn what_is_turned_round_is_read_by_pairs_and_rearranged_where_rows_begin_at_none() {
        for (name, turned) in [("sgemm_nn", 0), ("sgemm_tt", 1)] {
            // For the kernel C is M-contiguous: its operand B is A here.
            let forced = Forced { kernel: Some(name), ..Forced::default() };
            let lies = |row: i64, address: u64| {
                let question = Question { forced, ..question(256, 256, 100) };
                let mut operands = question.operands.map(|view| View { mn: 1, k: 256, bytes: 4, ..view });
                operands[turned] = View { mn: row, k: 1, bytes: 4, address, ..operands[turned] };
                plan::<f32>(&Question { operands, ..question }).unwrap().leading[turned]
            };
            assert_eq!(lies(100, 256), Some(100), "{name}");
            assert_eq!(lies(102, 256 + 8), Some(102), "{name}: by pairs, not by fours");
            assert_eq!(lies(101, 256), None, "{name}: every other row begins within a pair");
            assert_eq!(lies(100, 256 + 4), None, "{name}: all rows begin within a pair");
        }
    }

    #[test]
    fn both_operands_with_k_contiguous_are_turned_round_by_one_launch_where_that_is_fastest() {
        let question = question(2048, 2048, 256);
        let operands = question.operands.map(|view| View { mn: 256, k: 1, bytes: 4, ..view });
        let plan = plan::<f32>(&Question { operands, ..question }).unwrap();
        assert_eq!((plan.variant.kernel.name(), plan.leading), ("sgemm_nt", [None; 2]), "{plan:?}");
    }

    #[test]
    fn on_hopper_f32_lies_as_it_does_where_tma_can_load_it() {
        // For A and B: whether K is contiguous.
        let name = |[a, b]: [bool; 2], row: i64| {
            let question = Question { wgmma: true, ..question(2048, 2048, 256) };
            let of = |k: bool, view: View| {
                let (mn, k) = if k { (row, 1) } else { (1, 2048) };
                View { mn, k, bytes: 4, ..view }
            };
            let [first, second] = question.operands;
            let plan =
                plan::<f32>(&Question { operands: [of(a, first), of(b, second)], ..question }).unwrap();
            (plan.variant.kernel.name(), plan.leading.map(|leading| leading.is_some()))
        };
        // f32 kernels compute the transposed product: their A is B here.
        assert_eq!(name([true, true], 256), ("sgemm_tn_tma", [true; 2]));
        assert_eq!(name([false, false], 256), ("sgemm_nt_tma", [true; 2]));
        assert_eq!(name([true, false], 256), ("sgemm_nn_tma", [true; 2]));
        assert_eq!(name([false, true], 256), ("sgemm_tt", [true; 2]), "by registers");
        assert_eq!(name([true, true], 257).1, [false; 2], "rows that begin at no multiple of 16 bytes");
    }

    #[test]
    fn a_c_without_whole_tiles_of_kernels_whose_operands_tma_loads_goes_to_a_workspace_that_has_them() {
        let planned = |kernel, [a, b]: [bool; 2], [m, n]: [u32; 2]| {
            let forced = Forced { kernel: Some(kernel), splits: Some(1), ..Forced::default() };
            let question = Question { wgmma: true, forced, ..question(m, n, 64) };
            let of = |k: bool| {
                let (mn, k) = if k { (64, 1) } else { (1, 512) };
                View { mn, k, bytes: 4, ..question.operands[0] }
            };
            let plan = plan::<f32>(&Question { operands: [of(a), of(b)], ..question }).unwrap();
            assert_eq!(plan.leading.map(|leading| leading.is_some()), [true; 2], "{plan:?}");
            (plan.apart, plan.whole_words([m, n]))
        };
        // Tiles have 128 rows and 256 columns. Along N, 16-byte vectors of C end; along M, TMA
        // boxes begin where M is contiguous.
        for (kernel, lie, m) in [
            ("sgemm_nt_tma", [false, false], 132),
            ("sgemm_nn_tma", [true, false], 131),
            ("sgemm_tn_tma", [true, true], 131),
        ] {
            assert_eq!(planned(kernel, lie, [1, 1]), (true, [128, 256]), "{kernel}");
            assert_eq!(planned(kernel, lie, [131, 263]), (true, [m, 264]), "{kernel}");
            assert_eq!(planned(kernel, lie, [132, 264]), (false, [132, 264]), "{kernel}");
            assert_eq!(planned(kernel, lie, [124, 264]), (true, [128, 264]), "{kernel}");
        }
        assert_eq!(planned("sgemm_tn_tma", [true, true], [131, 264]), (false, [131, 264]), "any row of A");
    }

    #[test]
    fn few_rows_or_columns_of_many_are_not_padded_to_whole_tiles() {
        for (m, n, batches) in
            [(1, 1_000_000, 1), (8, 1_000_000, 1), (1_000_000, 8, 1), (1, 4096, 1), (1, 200, 50_000)]
        {
            for (k, row) in [(16, 16), (4096, 4096)] {
                let question = Question { wgmma: true, batches, ..question(m, n, k) };
                let operands = question.operands.map(|view| View { mn: row, k: 1, bytes: 4, ..view });
                let plan = plan::<f32>(&Question { operands, ..question }).unwrap();
                let [rows, columns] = plan.whole_words([m, n]);
                // A rearranged operand may be padded to a whole 16-byte vector.
                let words = [m, n].map(|extent| u64::from(extent.next_multiple_of(4)));
                let (room, elements) = (u64::from(rows) * u64::from(columns), words[0] * words[1]);
                assert!(
                    room <= 2 * elements,
                    "{m} x {n} x {k} has a workspace for {rows} x {columns}: {plan:?}"
                );
            }
        }
    }

    #[test]
    fn extents_of_plain_kernels_end_with_words_where_operands_and_c_are_in_a_workspace() {
        // M and N contiguous, with this leading dimension.
        let f32_of = |[m, n]: [u32; 2], lines: [i64; 2], finished_apart: bool| {
            let question = question(m, n, 4103);
            let of = |line| View { mn: 1, k: line, bytes: 4, ..question.operands[0] };
            let forced = Forced { splits: Some(1), ..Forced::default() };
            let question = Question { operands: lines.map(of), finished_apart, forced, ..question };
            let plan = plan::<f32>(&question).unwrap();
            assert!(plan.variant.plain, "{plan:?}");
            plan.whole_words([m, n])
        };
        assert_eq!(f32_of([4095, 4097], [4095, 4097], true), [4096, 4100]);
        assert_eq!(f32_of([4095, 4097], [4095, 4097], false), [4095, 4097], "C has no room for more");
        assert_eq!(f32_of([4095, 4097], [4096, 4097], true), [4095, 4100], "A's lines end where it says");
        assert_eq!(f32_of([4096, 4100], [4097, 4101], true), [4096, 4100]);
    }

    #[test]
    fn kernels_that_need_more_shared_memory_than_there_is_are_left_out() {
        let question = Question { shared_bytes: 101_376, ..question(8192, 8192, 8192) };
        let plan = plan::<f16>(&question).unwrap();
        assert_eq!(plan.variant.kernel.name(), "matmul_f16_tn_64x64");
        assert!(super::plan::<f16>(&Question { shared_bytes: 16_384, ..question }).is_none());
    }

    #[test]
    fn a_long_k_is_cut_where_there_are_few_tiles() {
        let long = plan::<f16>(&question(64, 64, 1 << 20)).unwrap();
        assert!(long.splits >= 24 && long.apart, "{long:?}");
        assert!(
            long.k_chunk * (long.splits - 1) < 1 << 20 && long.k_chunk * long.splits >= 1 << 20,
            "{long:?}"
        );
    }

    #[test]
    fn every_part_has_something_of_k() {
        for k in [0, 1, 63, 64, 65, 300, 1000, 4097] {
            for splits in 1..40 {
                for wgmma in [false, true] {
                    let forced = Forced { splits: Some(splits), ..Forced::default() };
                    let plan = plan::<f16>(&Question { forced, wgmma, ..question(64, 64, k) }).unwrap();
                    let parts = plan.variant.kernel.clusters().parts();
                    assert!(plan.splits >= 1 && plan.splits * parts <= splits, "{k} in {splits}: {plan:?}");
                    assert!(parts <= k.div_ceil(64).max(1), "{k} in {splits}: {plan:?}");
                    assert!((plan.splits - 1) * plan.k_chunk < k.max(1), "{k} in {splits}: {plan:?}");
                    assert!(
                        u64::from(plan.splits) * u64::from(plan.k_chunk) >= u64::from(k),
                        "{k} in {splits}: {plan:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn operands_are_rearranged_only_where_no_kernel_takes_them() {
        let mut question = question(4096, 4096, 4096);
        question.operands[1] = View { mn: 1, k: 4096, ..question.operands[1] };
        let tt = plan::<f16>(&question).unwrap();
        assert_eq!((tt.variant.kernel.name(), tt.leading), ("matmul_f16_tt", [Some(4096), Some(4096)]));
        question.operands[1] = View { mn: 4097, k: 1, ..question.operands[1] };
        let odd = plan::<f16>(&question).unwrap();
        assert_eq!((odd.variant.kernel.name(), odd.leading), ("matmul_f16_tn", [Some(4096), None]));
    }
}
