//! The plan of a product: the kernel, the operands to rearrange, the split along K and the
//! workspace. The kernel comes from the table of [`measured`](super::measured) shapes, or is the
//! fastest by its estimated [cost](super::cost).

use super::cost::{self, Candidate};
use super::descriptor::{Preference, ROW_ALIGN};
use super::element::{Operand, Precision};
use super::measured;
use super::operand::{Alignment, View};
use super::tma;
use super::variants::{Loads, Schedule, Variant, variants};
use crate::kernels::hopper::Cut;
use moye_device::layout::Major;
use std::fmt;
use std::hash::{Hash, Hasher};

/// The limit of batches times slices, which are blocks along the grid's y.
pub(super) const MAX_Y: u32 = moye_runtime::MAX_BLOCKS[1];

/// The properties of a product and of a device on which its plan depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// M, N, K.
    pub extents: [u32; 3],
    pub batches: u32,
    /// A as (M, K) and B as (N, K).
    pub operands: [View; 2],
    pub precision: Precision,
    /// Whether FMA kernels can write this epilogue and layout of C; otherwise they write a
    /// workspace.
    pub written_by_sgemm: bool,
    pub multiprocessors: u32,
    /// The shared memory available to a block, in bytes.
    pub shared_bytes: usize,
    /// Whether the device has `wgmma`.
    pub wgmma: bool,
    pub preference: Preference,
}

/// Hashes the words in which problems differ most; equality compares the rest.
impl Hash for Problem {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let ([a, b], [m, n, k]) = (self.operands, self.extents);
        (m, n, k, self.batches, a.mn, a.k, b.mn, b.k).hash(state);
    }
}

/// An operand's form for the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// The contiguous mode that the kernel reads, after any rearrangement.
    pub major: Major,
    /// The leading dimension in the caller's memory; `None` if the operand is rearranged first.
    pub leading: Option<i64>,
}

/// The destination of a kernel's accumulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accumulators {
    /// Through its epilogue to C.
    Epilogue,
    /// To a workspace: a second kernel reduces the slices and writes C.
    Workspace,
}

/// The chosen plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan<T: Operand> {
    pub variant: &'static Variant<T>,
    /// A and B.
    pub sources: [Source; 2],
    /// The number of slices of K, not counting the split within a cluster.
    pub slices: u32,
    /// The extent along K of each slice except the last.
    pub k_chunk: u32,
    pub accumulators: Accumulators,
    /// Stream-K: the division of the clusters' last tiles along K.
    pub cut: Cut,
    /// The number of clusters of a stream-K grid.
    pub clusters: u32,
    /// The estimated time in microseconds; 0 if the kernel was measured to be the fastest for this
    /// shape.
    pub microseconds: f64,
}

impl<T: Operand> Plan<T> {
    /// M and N as passed to the kernel.
    pub fn padded_extents(&self, extents: [u32; 2]) -> [u32; 2] {
        padded_extents(self.variant, self.sources, self.accumulators, extents)
    }

    /// Pipeline stages for the whole of K.
    pub fn stages(&self, k: u32) -> u32 {
        k.div_ceil(self.variant.tile[2])
    }
}

/// The plan of a product.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The kernel; `None` if there is nothing to multiply: M, N, K, the number of batches or
    /// `alpha` is 0.
    pub kernel: Option<&'static str>,
    /// The block's tile of C, M x N.
    pub tile: (u32, u32),
    /// The number of split-K slices.
    pub splits: u32,
    /// The number of stream-K tiles: the tiles of the last wave, divided along K among several
    /// blocks because that wave would leave many SMs idle. Kernels with clusters count the tiles of
    /// a cluster.
    pub shared_tiles: u32,
    /// The maximum number of work units of such a tile.
    pub pieces: u32,
    /// Whether `a` and `b` are rearranged first.
    pub rearranged: [bool; 2],
    /// The workspace in bytes.
    pub workspace_bytes: usize,
}

/// The kernel and how K is split: `wgmma_f16_tn, 12 tiles in up to 5 work units each`.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kernel.unwrap_or("none"))?;
        match (self.splits, self.shared_tiles) {
            (0 | 1, 0) => Ok(()),
            (0 | 1, 1) => write!(f, ", 1 tile in {} work units", self.pieces),
            (0 | 1, tiles) => write!(f, ", {tiles} tiles in up to {} work units each", self.pieces),
            (parts, _) => write!(f, ", K in {parts} slices"),
        }
    }
}

/// M and N as passed to the kernel. An FMA kernel writes C in 16-byte vectors and is fast if both
/// extents are multiples of the vector. The plan may round them up: the rearranged operand then has
/// zero-padded rows, and C goes to a workspace. An FMA kernel with TMA loads (reads out of bounds
/// return zeros) handles whole tiles only: for other extents C goes to a workspace with room for
/// them.
fn padded_extents<T: Operand>(
    variant: &Variant<T>,
    sources: [Source; 2],
    accumulators: Accumulators,
    [m, n]: [u32; 2],
) -> [u32; 2] {
    if accumulators == Accumulators::Epilogue {
        return [m, n];
    }
    match variant.schedule {
        Schedule::Sgemm(Loads::Tma) => {
            let (tile_m, tile_n) = variant.tile_of_operands();
            let along_m = if sources[0].major == Major::K { 1 } else { vector_of::<T>() };
            [m.next_multiple_of(along_m).max(tile_m), n.next_multiple_of(vector_of::<T>()).max(tile_n)]
        }
        Schedule::Sgemm(_) => {
            let padded = |Source { major, leading }: Source, extent: u32| {
                let has_padding = leading.is_none() && major == Major::Mn;
                if has_padding { extent.next_multiple_of(vector_of::<T>()) } else { extent }
            };
            [padded(sources[0], m), padded(sources[1], n)]
        }
        _ => [m, n],
    }
}

/// Elements of a 16-byte vector.
fn vector_of<T>() -> u32 {
    (ROW_ALIGN as usize / size_of::<T>()) as u32
}

/// Whether an FMA kernel needs its predicated mainloop or, with TMA loads, a workspace for C: M or
/// N is below one tile, or not a multiple of 16 bytes. For these kernels C is M-contiguous, and N
/// is the caller's M.
fn is_predicated<T: Operand>(variant: &Variant<T>, [m, n]: [u32; 2]) -> bool {
    let (tile_m, tile_n) = variant.tile_of_operands();
    let vectors = |extent: u32| extent.is_multiple_of(vector_of::<T>());
    let any_m = variant.majors_of_operands()[0] == Major::K;
    let is_whole = m >= tile_m && n >= tile_n && (any_m || vectors(m)) && vectors(n);
    variant.schedule.is_sgemm() && !is_whole
}

/// The slowdown by predication: measured 1.5 for 1023 x 1025 x 1027 against 1000^3, and 1.2 for
/// 4095 x 4097 x 4103 against 4096^3.
const PREDICATED: f64 = 1.3;

/// The maximum ratio of a whole-tile workspace to C, unless the caller names the kernel: with few
/// rows the workspace would take a hundred times the memory of C.
const MOST_PADDED: f64 = 2.0;

/// The maximum K for which products of 8-bit floats are accumulated only by tensor cores, in about
/// 14 bits. For a larger K the products of each 128 elements are added in f32, unless the caller
/// names a kernel or a tile.
const MOST_SHORT: u32 = 512;

/// The numbers of slices to try.
const SLICES: [u32; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];

/// The plans among which the cheapest is chosen, each kernel with each number of slices; none if
/// the caller's preference excludes all.
pub(super) fn candidates<T: Operand>(problem: &Problem) -> Vec<Plan<T>> {
    let Preference { tile, slices, kernel } = problem.preference;
    let short = problem.extents[2] <= MOST_SHORT || kernel.is_some() || tile.is_some();
    let allowed: Vec<_> = variants::<T>(problem.precision, problem.wgmma)
        .filter(|variant| short || !variant.is_short)
        .filter(|variant| variant.kernel.shared_bytes() <= problem.shared_bytes)
        .filter(|variant| tile.is_none_or(|(m, n)| variant.tile[..2] == [m, n]))
        .filter(|variant| kernel.is_none_or(|name| variant.kernel.name() == name))
        .collect();
    let mut plans: Vec<_> = allowed.iter().flat_map(|variant| plans_with(problem, variant)).collect();
    let in_place = |plan: &Plan<T>| plan.sources.iter().all(|source| source.leading.is_some());
    let measured = measured::fastest(problem).find_map(|name| {
        let of_it = |&i: &usize| plans[i].variant.kernel.name() == name && in_place(&plans[i]);
        let by_time = |&i: &usize, &j: &usize| plans[i].microseconds.total_cmp(&plans[j].microseconds);
        (0..plans.len()).filter(of_it).min_by(by_time)
    });
    if let Some(measured) = measured {
        plans[measured].microseconds = 0.0;
    }
    let Some(slices) = slices.filter(|_| plans.is_empty() && kernel.is_none()) else { return plans };
    // If no kernel with this tile supports the requested number of slices, take the kernel with the
    // next smaller number.
    let any = Problem { preference: Preference { slices: None, ..problem.preference }, ..*problem };
    let fewer = allowed.iter().filter(|variant| variant.schedule.cluster_slices() < slices);
    let fixed = fewer.filter(|variant| variant.schedule.fixes_slices());
    fixed
        .flat_map(|variant| plans_with(&any, variant))
        .max_by_key(|plan| plan.variant.schedule.cluster_slices())
        .into_iter()
        .collect()
}

/// The operands of a product in the form that one kernel reads.
struct Sources {
    sources: [Source; 2],
    /// The alignment of the rows of both.
    alignment: Alignment,
    /// The time to rearrange the operands that do not fit, in microseconds.
    rearrangement: f64,
}

impl Sources {
    /// `None` if an operand's layout does not fit and cannot be rearranged.
    fn of<T: Operand>(problem: &Problem, variant: &Variant<T>) -> Option<Self> {
        let [m, n, k] = problem.extents;
        let majors = variant.majors_of_operands();
        let mut sources = majors.map(|major| Source { major, leading: None });
        let (mut bytes, mut rearranged, mut transposed, mut alignment) = (0.0, 0, 0, Alignment::Lines);
        for (source, (view, extent)) in sources.iter_mut().zip(problem.operands.iter().zip([m, n])) {
            let Source { major, .. } = *source;
            let others = if major == Major::K { extent } else { k };
            let align = match variant.schedule {
                Schedule::Sgemm(Loads::Elements) if major == Major::K => view.bytes,
                Schedule::Sgemm(Loads::Pairs) if major == Major::K => 2 * view.bytes,
                _ => 16,
            };
            let fits = |&leading: &i64| {
                let in_lines = view.alignment(leading, others) == Alignment::Lines;
                (!variant.kernel.is_tma() || tma::takes(view, leading, others))
                    && (variant.schedule != Schedule::StreamKOfLines || in_lines)
            };
            source.leading = view.leading(major, extent, k, align).filter(fits);
            // Rearranged operands start at cache lines.
            if let Some(leading) = source.leading {
                alignment = alignment.max(view.alignment(leading, others));
                continue;
            }
            // On tensor cores, an operand that must be rearranged anyway is rearranged for a
            // K-major kernel.
            if major == Major::Mn && !variant.schedule.is_sgemm() {
                return None;
            }
            bytes += view.all_bytes(extent, k);
            rearranged += 1;
            let by_vectors = major == Major::Mn && view.bytes == 4;
            transposed += u32::from(by_vectors && view.leading(Major::K, extent, k, 16).is_some());
        }
        // One launch transposes both operands.
        let launches = if rearranged == transposed { rearranged.min(1) } else { rearranged };
        Some(Self { sources, alignment, rearrangement: cost::rearrangement(bytes, launches) })
    }
}

/// The plans with one kernel. None if the kernel cannot read the operands or does not support the
/// requested number of slices.
fn plans_with<T: Operand>(problem: &Problem, variant: &'static Variant<T>) -> Vec<Plan<T>> {
    let [m, n, k] = problem.extents;
    let Some(Sources { sources, alignment, rearrangement }) = Sources::of(problem, variant) else {
        return Vec::new();
    };
    let (schedule, tile_k) = (variant.schedule, variant.tile[2]);
    let most = k.div_ceil(tile_k).max(1);
    let candidates = match problem.preference.slices {
        // Every slice has at least one element of K.
        Some(slices) if schedule.fixes_slices() && slices != schedule.cluster_slices() => return Vec::new(),
        _ if schedule.fixes_slices() && schedule.cluster_slices() > most => return Vec::new(),
        _ if schedule.fixes_slices() => vec![1],
        // Slices are blocks along the grid's y.
        Some(slices) => vec![slices.clamp(1, most.min(MAX_Y))],
        None => SLICES.into_iter().filter(|&slices| slices == 1 || most >= 4 * slices).collect(),
    };
    let needs_whole_tiles = schedule == Schedule::Sgemm(Loads::Tma) && is_predicated(variant, [m, n]);
    let area = |[m, n]: [u32; 2]| f64::from(m) * f64::from(n);
    if needs_whole_tiles && problem.preference.kernel.is_none() {
        let padded = padded_extents(variant, sources, Accumulators::Workspace, [m, n]);
        if area(padded) > MOST_PADDED * area([m, n]) {
            return Vec::new();
        }
    }
    let plans = candidates.into_iter().map(|wanted| {
        let k_chunk = most.div_ceil(wanted) * tile_k;
        // Rounding up the length of a slice may leave nothing for the last slices.
        let slices = k.div_ceil(k_chunk).max(1);
        let by_epilogue = problem.written_by_sgemm || !schedule.is_sgemm();
        let accumulators = match slices == 1 && !needs_whole_tiles && by_epilogue {
            true => Accumulators::Epilogue,
            false => Accumulators::Workspace,
        };
        let product = Candidate { problem, variant, slices, k_chunk, accumulators, alignment }.estimate();
        let extents = padded_extents(variant, sources, accumulators, [m, n]);
        let padding = (area(extents) - area([m, n])) * f64::from(slices) * f64::from(problem.batches);
        let predicated = if is_predicated(variant, extents) { PREDICATED } else { 1.0 };
        let microseconds = (product.microseconds + cost::padding(padding)) * predicated + rearrangement;
        let clusters = tma::clusters(problem.multiprocessors, schedule.cluster());
        let [rows, columns] = variant.tiles(m, n).map(u64::from);
        let at_once = in_one_launch(rows * columns * u64::from(slices), problem.batches);
        let cut = if at_once { product.cut } else { Cut::NONE };
        Plan { variant, sources, slices, k_chunk, accumulators, cut, clusters, microseconds }
    });
    let mut plans: Vec<_> = plans.collect();
    plans.dedup_by_key(|plan| plan.slices);
    plans
}

/// Whether a persistent kernel computes all batches of this many tiles in one launch, so that a
/// plan may share the last tiles of all batches. With several launches the last one may have fewer
/// tiles than the plan shares.
pub(super) fn in_one_launch(tiles: u64, batches: u32) -> bool {
    tma::batches_at_once(tiles).is_ok_and(|at_once| batches <= at_once)
}
