//! Which kernel computes a product, and how K is cut: by what the choices would cost.
//!
//! The model knows five things: what a kernel does where it has enough to do (measured), how many rounds of blocks there are
//! and how full the last one is, that a block's first tiles only fill its pipeline, how fast small tiles get what they load, and what
//! passes over memory cost that rearrange an operand or add up the parts of K. It is wrong by tens of percents and right about factors,
//! which is what a choice needs.

use super::element::{Clusters, Major, Operand, Precision, Variant, variants};
use super::hopper;
use super::operand::{LINE, SECTOR, View};
use super::problem::MAX_Y;

/// The product that is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question {
    /// M, N, K.
    pub extents: [u32; 3],
    /// How many such products.
    pub batches: u32,
    /// A as (M, K) and B as (N, K).
    pub operands: [View; 2],
    /// How the sums are made.
    pub precision: Precision,
    /// Whether something is asked of the sums, or C lies so, that a plain kernel cannot write it.
    pub finished_apart: bool,
    /// The multiprocessors that it is planned for.
    pub multiprocessors: u32,
    /// The shared memory that a block may have, in bytes.
    pub shared_bytes: usize,
    /// Whether it has `wgmma`.
    pub wgmma: bool,
    /// What the caller wants.
    pub forced: Forced,
}

/// Choices that the caller made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Forced {
    /// The tile of C.
    pub tile: Option<(u32, u32)>,
    /// The parts of K.
    pub splits: Option<u32>,
    /// The kernel, by its name.
    pub kernel: Option<&'static str>,
}

/// What was chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan<T: Operand> {
    /// The kernel.
    pub variant: &'static Variant<T>,
    /// For A and B: the leading dimension where it lies, or `None` if it is rearranged first.
    pub leading: [Option<i64>; 2],
    /// For A and B: which mode is contiguous as the kernel takes it, also after a rearrangement.
    pub majors: [Major; 2],
    /// The parts of K.
    pub splits: u32,
    /// What each part but the last has of K.
    pub k_chunk: u32,
    /// Whether the sums go to a workspace, and another kernel makes C of them.
    pub apart: bool,
    /// Of kernels with a persistent grid: the last tiles of clusters that are shared by parts of K.
    pub shared_tiles: u32,
    /// The pieces of each.
    pub pieces: u32,
    /// The clusters of a grid that shares tiles.
    pub clusters: u32,
    /// What it would cost, in microseconds.
    pub cost: f64,
}

/// What a launch costs beside others, in microseconds.
const LAUNCH: f64 = 3.0;
/// What memory moves, in bytes a microsecond, of an H200.
const BANDWIDTH: f64 = 3.0e6;
/// Multiprocessors of the chip that the rates were measured on.
const MEASURED_ON: f64 = 132.0;
/// Tiles along K that fill a pipeline and empty it.
const FILL: f64 = 6.0;
/// What kernels stream of operands that nobody has read before, in bytes a microsecond: less than memory moves, since a block asks for
/// no more than its stages hold, and waits.
const STREAM: f64 = 3.0e6;
/// The same of small tiles, a block for each: of what the L2 cache keeps from call to call, and of more than that.
const STREAM_OF_SMALL: [f64; 2] = [6.5e6, 4.0e6];
/// The part of that which blocks reach where they are fewer than this part of the multiprocessors.
const STREAM_ALONE: f64 = 0.75;
/// The part of the shorter of computing and streaming that the longer one does not hide.
const UNHIDDEN: f64 = 0.1;
/// Bytes of operands that the L2 cache keeps.
const CACHED: f64 = 48e6;
/// What a multiprocessor gets from the L2 cache, in bytes a microsecond, where all ask.
const INGEST: f64 = 9.6e4;
/// How much longer that takes where rows of operands begin within lines of the L2 cache, at multiples of 32 bytes or anywhere.
const ACROSS_LINES: [f64; 2] = [1.35, 2.1];
/// How much longer a step takes then of larger tiles, where no other block asks for the same at the same time.
const ACROSS_LINES_ALONE: [f64; 2] = [1.1, 1.4];
/// Operations of a multiprocessor's tensor cores in a microsecond, at their full clock.
const TENSOR_CORES: f64 = 7.5e6;
/// The least that a block with one tile takes from its first load to its last product.
const FIRST: f64 = 1.8;
/// What it costs a block to write 64 x 64 sums.
const WRITE: f64 = 0.15;
/// What it costs to begin a block that takes another one's place, and a pair that takes the place of two.
const NEXT: [f64; 2] = [1.5, 4.0];
/// What a block that has one tile alone need not do.
const SAVED_ONCE: f64 = 0.7;
/// What it costs to begin and to end blocks of a persistent grid together, as clusters.
const TOGETHER: f64 = 0.3;
/// What it costs a pair of blocks to exchange 64 x 64 sums; of more, so much for their number to the power of 1.5.
const EXCHANGE: f64 = 0.3;
/// The part of its time for a step that a block needs where few others run: then neither memory nor power is short.
const STEP_ALONE: f64 = 0.6;
/// The same of blocks that have one large tile each.
const STEP_ALONE_ONCE: f64 = 0.7;
/// The part of the multiprocessors that such kernels were measured to be of use from, and what they are taken to cost below.
const FEWEST_ONCE: f64 = 0.4;
/// See [`FEWEST_ONCE`].
const TOO_FEW: f64 = 1e6;
/// What it costs to leave the sums of a piece of a shared tile, or to take them, in bytes of them a microsecond and multiprocessor.
const PIECES: f64 = 4.0e4;
/// The most pieces of a tile.
const MOST_PIECES: u32 = 8;
/// The numbers of parts that are tried.
const SPLITS: [u32; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];

/// The cheapest way, or `None` where the caller's choices leave none. See [`remembered`](super::remembered).
pub(super) fn plan<T: Operand>(question: &Question) -> Option<Plan<T>> {
    let tile_fits = |variant: &&Variant<T>| {
        question.forced.tile.is_none_or(|(m, n)| variant.tile[0] == m && variant.tile[1] == n)
    };
    let ways = |fewer| {
        variants::<T>(question.precision, question.wgmma)
            .filter(|variant| variant.kernel.shared_bytes() <= question.shared_bytes)
            .filter(tile_fits)
            .filter(|variant| {
                question.forced.kernel.map_or(!variant.named, |name| variant.kernel.name() == name)
            })
            .filter_map(move |variant| with(question, variant, fewer))
    };
    let cheapest = ways(false).min_by(|a, b| a.cost.total_cmp(&b.cost));
    // Where no kernel of the tile has K in so many parts, the one that has it in most of those that have it in fewer.
    let parts = |plan: &Plan<T>| plan.variant.kernel.clusters().parts();
    cheapest.or_else(|| if question.forced.kernel.is_some() { None } else { ways(true).max_by_key(parts) })
}

/// The best way with one kernel, which may have K in fewer parts than are asked for if `fewer` says so; `None` where an operand does not
/// lie as it must, nor can be rearranged so.
fn with<T: Operand>(question: &Question, variant: &'static Variant<T>, fewer: bool) -> Option<Plan<T>> {
    let [m, n, k] = question.extents;
    let mut leading = [None; 2];
    let (mut packing, mut within) = (0.0, Begins::Lines);
    let majors = variant.majors_of_operands();
    for (i, (view, extent)) in question.operands.iter().zip([m, n]).enumerate() {
        let major = majors[i];
        // Plain kernels copy what has K contiguous number by number, and need no more than that.
        let align = if variant.plain && major == Major::K { view.bytes } else { 16 };
        leading[i] = view.leading(major, extent, k, align);
        let others = if major == Major::K { extent } else { k };
        if variant.kernel.is_tma() {
            leading[i] = leading[i].filter(|&leading| hopper::takes(view, leading, others));
            if variant.lines {
                leading[i] = leading[i].filter(|&leading| view.lies_in(LINE, leading, others));
            }
        }
        // What is rearranged begins at lines.
        if let Some(leading) = leading[i] {
            within = within.max(Begins::of(view, leading, others));
        }
        if leading[i].is_none() {
            // On tensor cores what must be rearranged anyway is taken by the kernels that want K contiguous.
            if major == Major::Mn && !variant.plain {
                return None;
            }
            let batches = if view.batch == 0 { 1 } else { question.batches };
            let bytes = f64::from(extent) * f64::from(k) * view.bytes as f64 * f64::from(batches);
            packing += LAUNCH + 2.0 * bytes / BANDWIDTH;
        }
    }
    let most = k.div_ceil(variant.tile[2]).max(1);
    let candidates = match (question.forced.splits, variant.kernel.clusters()) {
        // Their clusters cut K, and nothing else does.
        (Some(splits), Clusters::Parts(parts)) if splits != parts && !(fewer && parts < splits) => {
            return None;
        }
        // Each has something of K.
        (_, Clusters::Parts(parts)) if parts > most => return None,
        (_, Clusters::Parts(_)) => vec![1],
        // Blocks of parts of K lie along a grid's y.
        (Some(splits), _) => vec![splits.clamp(1, most.min(MAX_Y))],
        (None, _) => SPLITS.into_iter().filter(|&splits| splits == 1 || most >= 4 * splits).collect(),
    };
    let best = candidates.into_iter().map(|wanted| {
        let k_chunk = most.div_ceil(wanted) * variant.tile[2];
        // Rounding up a part may leave nothing for the last ones.
        let splits = k.div_ceil(k_chunk).max(1);
        let apart = splits > 1 || variant.plain && question.finished_apart;
        let (cost, (shared_tiles, pieces)) = product_cost(question, variant, splits, k_chunk, apart, within);
        let clusters = hopper::clusters(question.multiprocessors, variant.kernel.clusters().blocks());
        Plan {
            variant,
            leading,
            majors,
            splits,
            k_chunk,
            apart,
            shared_tiles,
            pieces,
            clusters,
            cost: cost + packing,
        }
    });
    best.min_by(|a, b| a.cost.total_cmp(&b.cost))
}

/// Where rows of the operands begin, as they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Begins {
    /// At lines of the L2 cache.
    Lines,
    /// At its sectors, of 32 bytes.
    Sectors,
    /// Elsewhere.
    Anywhere,
}

impl Begins {
    /// The same of all of an operand's rows.
    fn of(view: &View, leading: i64, others: u32) -> Self {
        if view.lies_in(LINE, leading, others) {
            Self::Lines
        } else if view.lies_in(SECTOR, leading, others) {
            Self::Sectors
        } else {
            Self::Anywhere
        }
    }

    /// How much longer something takes than at lines, of these two factors.
    fn longer(self, [sectors, anywhere]: [f64; 2]) -> f64 {
        match self {
            Self::Lines => 1.0,
            Self::Sectors => sectors,
            Self::Anywhere => anywhere,
        }
    }
}

/// What a product costs, and how many tiles are shared in it, in how many pieces.
fn product_cost<T: Operand>(
    question: &Question,
    variant: &Variant<T>,
    splits: u32,
    k_chunk: u32,
    apart: bool,
    within: Begins,
) -> (f64, (u32, u32)) {
    let [m, n, k] = question.extents;
    let (tile_m, tile_n) = variant.tile_of_operands();
    let tile_k = variant.tile[2];
    let blocks = f64::from(m.div_ceil(tile_m))
        * f64::from(n.div_ceil(tile_n))
        * f64::from(splits)
        * f64::from(question.batches);
    let multiprocessors = f64::from(question.multiprocessors.max(1));
    let resident = (blocks / multiprocessors).ceil().min(f64::from(variant.per_multiprocessor));
    let rounds = (blocks / (multiprocessors * resident)).ceil();
    let operations = 2.0 * f64::from(tile_m) * f64::from(tile_n) * f64::from(tile_k);
    // Blocks that share a multiprocessor share its speed; one alone does not reach it.
    let alone = 1.0 + 0.5 / resident;
    let step = operations * resident * alone
        / (1.0 + 0.5 / f64::from(variant.per_multiprocessor))
        / (variant.rate * 1e6 / MEASURED_ON);
    let steps = f64::from(k_chunk.min(k.max(1)).div_ceil(tile_k));
    let stream = LAUNCH + streamed(question) / STREAM;
    let (product, shared) = match variant.kernel.clusters() {
        Clusters::Parts(_) if variant.once => {
            let step = step * within.longer(ACROSS_LINES_ALONE);
            let busy = (blocks / multiprocessors).clamp(STEP_ALONE_ONCE, 1.0);
            let sums = f64::from(tile_m * tile_n) / 4096.0;
            let block = ((steps + 2.0 * variant.fill) * step * busy).max(FIRST + WRITE * sums);
            // Where they are few, so much that nothing takes them by itself.
            let few = if blocks < FEWEST_ONCE * multiprocessors { TOO_FEW } else { 0.0 };
            ((LAUNCH - SAVED_ONCE + rounds * block + (rounds - 1.0) * NEXT[0]).max(stream) + few, (0, 0))
        }
        Clusters::Parts(parts) => (parts_cost(question, variant, parts, (steps, step), within), (0, 0)),
        Clusters::Rows(_) if variant.kernel.is_tma() => {
            let alone = variant.kernel.clusters().blocks() == 1;
            let step = step * if alone { within.longer(ACROSS_LINES_ALONE) } else { 1.0 };
            let (cost, shared) = persistent_cost(question, variant, splits, (steps, step));
            (cost.max(stream), shared)
        }
        Clusters::Rows(_) => ((LAUNCH + rounds * (steps + FILL) * step).max(stream), (0, 0)),
    };
    let elements = f64::from(m) * f64::from(n) * f64::from(question.batches);
    let finish =
        if apart { LAUNCH + elements * 4.0 * (2.0 * f64::from(splits) + 1.0) / BANDWIDTH } else { 0.0 };
    (product + finish, shared)
}

/// Bytes of both operands.
fn streamed(question: &Question) -> f64 {
    let [m, n, k] = question.extents;
    let of = |view: &View, extent: u32| {
        let batches = if view.batch == 0 { 1 } else { question.batches };
        f64::from(extent) * f64::from(k) * view.bytes as f64 * f64::from(batches)
    };
    of(&question.operands[0], m) + of(&question.operands[1], n)
}

/// What a kernel costs that has a block for each tile, or a cluster whose blocks have a part of K each, of so many steps for a tile, which
/// cost so much on tensor cores alone. It waits for what it loads.
fn parts_cost<T: Operand>(
    question: &Question,
    variant: &Variant<T>,
    parts: u32,
    (steps, step): (f64, f64),
    within: Begins,
) -> f64 {
    let [m, n, _] = question.extents;
    let [tile_m, tile_n, tile_k] = variant.tile;
    let tiles = f64::from(m.div_ceil(tile_m)) * f64::from(n.div_ceil(tile_n)) * f64::from(question.batches);
    let of_multiprocessor = tiles * f64::from(parts) / f64::from(question.multiprocessors.max(1));
    let bytes = f64::from(tile_m + tile_n) * f64::from(tile_k) * question.operands[0].bytes as f64;
    let operations = 2.0 * f64::from(tile_m) * f64::from(tile_n) * f64::from(tile_k);
    let load = bytes / INGEST * within.longer(ACROSS_LINES);
    let rounds = of_multiprocessor.ceil();
    // One round is over before the power limit lowers the clock.
    let step = if rounds > 1.0 { step } else { operations / TENSOR_CORES };
    let step = step.max(load * of_multiprocessor.clamp(STEP_ALONE, 1.0));
    let sums = f64::from(tile_m * tile_n) / 4096.0;
    let exchange = if parts > 1 { EXCHANGE * sums.powf(1.5) } else { 0.0 };
    let block = ((steps / f64::from(parts)).ceil() * step).max(FIRST) + WRITE * sums / f64::from(parts);
    let product = LAUNCH + rounds * block + (rounds - 1.0) * NEXT[usize::from(parts > 1)];
    let bytes = streamed(question);
    let few = of_multiprocessor < STREAM_ALONE;
    let rate = STREAM_OF_SMALL[usize::from(bytes > CACHED)] * if few { STREAM_ALONE } else { 1.0 };
    let stream = LAUNCH + bytes / rate;
    product.max(stream) + UNHIDDEN * product.min(stream) + rounds * exchange
}

/// What a kernel with a persistent grid costs, of so many steps of this cost for a tile, and how many tiles are shared in it, in how many pieces.
fn persistent_cost<T: Operand>(
    question: &Question,
    variant: &Variant<T>,
    splits: u32,
    (steps, step): (f64, f64),
) -> (f64, (u32, u32)) {
    let [m, n, _] = question.extents;
    let (cluster, [tile_m, tile_n, _]) = (variant.kernel.clusters().blocks(), variant.tile);
    let clusters = hopper::clusters(question.multiprocessors, cluster);
    let tiles = u64::from(m.div_ceil(tile_m * cluster))
        * u64::from(n.div_ceil(tile_n))
        * u64::from(splits)
        * u64::from(question.batches);
    // Where few run, most of the chip is idle, and each has more of memory and power; in turn, one of two waits for the other anyway.
    let of_busy = |busy: f64| {
        let step =
            if variant.whole { step } else { step * (busy / f64::from(clusters)).clamp(STEP_ALONE, 1.0) };
        let together = if cluster > 1 { TOGETHER } else { 0.0 };
        move |rounds: f64, steps: f64| {
            LAUNCH + together + (rounds * variant.fill + steps + variant.fill) * step
        }
    };
    let rounds = (tiles as f64 / f64::from(clusters)).ceil();
    let whole = (of_busy(tiles as f64)(rounds, rounds * steps), (0, 0));
    let rest = (tiles % u64::from(clusters)) as u32;
    if variant.whole || splits > 1 || rest == 0 || !hopper::can_count(rest, cluster, (tile_m, tile_n)) {
        return whole;
    }
    // A last round that is not full is shared, by as many clusters as there are for each of its tiles, or fewer.
    let most = (clusters / rest).min(steps as u32);
    let shared = (2..=most.min(MOST_PIECES)).map(|pieces| {
        let of_piece = (steps / f64::from(pieces)).ceil();
        // One of them leaves its own and takes all, one after the other.
        let gathered = (1.0 + f64::from(pieces)) * f64::from(tile_m * tile_n) * 4.0 / PIECES;
        let busy = (tiles - u64::from(rest)) as f64 + f64::from(rest * pieces);
        let cost = of_busy(busy)(rounds, (rounds - 1.0) * steps + of_piece);
        (cost + gathered, (rest, pieces))
    });
    shared.fold(whole, |best, other| if other.0 < best.0 { other } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;
    use moye_device::number::F8E4M3;

    fn question(m: u32, n: u32, k: u32) -> Question {
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
        // Of tiles of either kind those that fill their rounds, where operands must be rearranged: 544 and 528 for 132 multiprocessors.
        for (m, n, kernel) in [(4095, 4097, "wgmma_f16_tn_256x128"), (4097, 4095, "wgmma_f16_tn_alone")] {
            let odd = Question { extents: [m, n, 4103], ..question(m, n, 4103) };
            let operands = odd.operands.map(|view| View { mn: 4103, ..view });
            assert_eq!(name(Question { operands, ..odd }), (kernel, [false; 2]), "{m} x {n}");
        }
        // Of as many tiles of either kind, the faster one's.
        for n in [1920, 2048] {
            assert_eq!(name(square(n)).0, "wgmma_f16_tn_alone", "{n}^3");
        }
        // It is taken where it is asked for, and what lies otherwise is rearranged.
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
        // About as many tiles as multiprocessors, or more.
        for (m, n, k) in [(64, 8192, 8192), (8192, 64, 8192), (14336, 64, 4096)] {
            assert_eq!(name(m, n, k), "wgmma_f16_tn_64x64", "{m} x {n} x {k}");
        }
        assert_eq!(name(64, 14336, 4096), "wgmma_f16_tn_64x128", "in one round");
        // Larger tiles load less, where there are enough of them or of their halves.
        assert_eq!(name(1024, 1024, 1024), "wgmma_f16_tn_64x128");
        for (m, n, k) in [(4096, 128, 4096), (4096, 96, 4096), (4096, 128, 14336)] {
            assert_eq!(name(m, n, k), "wgmma_f16_tn_64x128_k2", "{m} x {n} x {k}");
        }
        assert_eq!(name(4096, 256, 4096), "wgmma_f16_tn_128x128_k2");
        // 66 and 64 tiles, of two blocks each.
        for (m, n) in [(384, 4096), (4096, 384)] {
            assert_eq!(name(m, n, 4096), "wgmma_f16_tn_128x192_k2", "{m} x {n}");
        }
        assert_eq!(name(4096, 4096, 4096), "wgmma_f16_tn");
        // One round of large tiles, a block for each.
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
        // Not where there is little to do.
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
        // What no cluster does, others do by a workspace.
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
        // As they were the faster ones on an H200, or as fast: int8 has 8192 x 8192 x 1024 by 128 x 128, 8-bit floats either.
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
        // Fewer, or smaller ones, of int8, which has smaller tiles too.
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
