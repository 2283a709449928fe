//! The estimated time of a product with one kernel, for shapes outside the table of
//! [`measured`](super::measured) ones.
//!
//! A roofline model. A step of a tile along K takes the time of its arithmetic at the kernel's
//! measured rate or the time of its loads, whichever is longer. A wave of tiles takes its steps and
//! the kernel's overhead. The product takes its waves, or the time to load the operands from memory
//! if that is longer. Launches, rearrangements and workspaces are added.

use super::element::Operand;
use super::last_wave::LastWave;
use super::measured::MULTIPROCESSORS;
use super::operand::Alignment;
use super::plan::{Accumulators, Problem};
use super::tma;
use super::variants::{Schedule, Variant};
use crate::kernels::hopper::Cut;

/// The time of a launch in microseconds, from the end of the one before: that of a kernel with
/// little work.
const LAUNCH: f64 = 3.0;
/// Memory bandwidth in bytes per microsecond: a copy on an H100 in
/// `docs/results/2026-11-26-h100.csv`.
const BANDWIDTH: f64 = 3.0e6;
/// The fraction of the shorter of computing and loading that the longer one does not hide.
const UNHIDDEN: f64 = 0.1;
/// Bytes per microsecond that an SM loads through its L2 port when all SMs load: fitted, 87 % of 64
/// bytes per clock at 1.98 GHz.
const L2_PORT: f64 = 1.1e5;
/// The slowdown of loads if rows start at sectors of cache lines: fitted.
const AT_SECTORS: f64 = 1.2;
/// The slowdown if rows start at any address: fitted; an access to 128 bytes touches two cache
/// lines.
const UNALIGNED: f64 = 2.2;
/// The time of a step of a block that is alone on an SM with room for several, as a multiple of its
/// share of the time of several: fitted.
const ALONE: f64 = 1.3;
/// The factor of a `wgmma` step's time if few SMs work, so that the power limit does not lower the
/// clock: fitted; full clock and that of large products differ by 1.4.
const FULL_CLOCK: f64 = 0.85;
/// The least number of tiles, as a fraction of the SMs, for kernels with one tile for each block:
/// with fewer tiles they were not measured to be faster.
const FEWEST: f64 = 0.4;

/// The time to rearrange this many bytes in this many launches, in microseconds.
pub(super) fn rearrangement(bytes: f64, launches: u32) -> f64 {
    f64::from(launches) * LAUNCH + 2.0 * bytes / BANDWIDTH
}

/// The time to write this many accumulators to a workspace, in microseconds.
pub(super) fn padding(accumulators: f64) -> f64 {
    4.0 * accumulators / BANDWIDTH
}

/// A kernel for a product, and its use.
pub(super) struct Candidate<'a, T: Operand> {
    pub problem: &'a Problem,
    pub variant: &'a Variant<T>,
    /// Slices of K, not counting the split within a cluster.
    pub slices: u32,
    /// The extent along K of each slice.
    pub k_chunk: u32,
    pub accumulators: Accumulators,
    /// The alignment of the operands' rows in memory.
    pub alignment: Alignment,
}

/// The times of a step of a tile along K.
struct StepTimes {
    /// The time of its arithmetic alone.
    arithmetic: f64,
    /// The time with its loads.
    whole: f64,
}

/// The estimated time of a product without rearrangements, or of its last wave.
#[derive(Clone, Copy)]
pub(super) struct Estimate {
    /// Infinite if the kernel is used only when the caller allows no other.
    pub microseconds: f64,
    /// The division of the last wave's tiles that this time assumes.
    pub cut: Cut,
}

impl<T: Operand> Candidate<'_, T> {
    pub fn estimate(&self) -> Estimate {
        let Self { problem, variant, slices, .. } = *self;
        let [m, n, k] = problem.extents;
        let (schedule, rate) = (variant.schedule, variant.rate);
        let [rows, columns] = variant.tiles(m, n);
        let tiles = u64::from(rows.div_ceil(schedule.cluster_tiles()))
            * u64::from(columns)
            * u64::from(slices)
            * u64::from(problem.batches);
        let clusters = tma::clusters(problem.multiprocessors, schedule.cluster());
        let residents = tiles.div_ceil(u64::from(clusters)).clamp(1, u64::from(rate.residents));
        let waves = tiles.div_ceil(u64::from(clusters) * residents) as f64;
        let StepTimes { arithmetic, whole: step } =
            self.step(tiles as f64 / f64::from(clusters), residents as f64);
        let steps = self.k_chunk.min(k.max(1)).div_ceil(variant.tile[2]).div_ceil(schedule.cluster_slices());
        let (product, overhead) = (f64::from(steps) * step, rate.fill * arithmetic);
        let (working, cut) = match schedule {
            Schedule::StreamK(_) | Schedule::StreamKOfLines | Schedule::PingPong => {
                let last = self.last_wave(tiles, clusters, steps, step);
                let undivided = Estimate { microseconds: product, cut: Cut::NONE };
                let Estimate { microseconds: last, cut } = last.map_or(undivided, |last| last.fastest());
                // A persistent kernel also fills its pipeline before the first tile.
                ((waves - 1.0) * product + last + (waves + 1.0) * overhead, cut)
            }
            _ => (waves * (product + overhead), Cut::NONE),
        };
        let bytes = problem.operands[0].all_bytes(m, k) + problem.operands[1].all_bytes(n, k);
        let loading = bytes / BANDWIDTH;
        let reduction = match self.accumulators {
            Accumulators::Workspace => {
                let elements = f64::from(m) * f64::from(n) * f64::from(problem.batches);
                // Each slice is written and read; C is written.
                LAUNCH + elements * 4.0 * (2.0 * f64::from(slices) + 1.0) / BANDWIDTH
            }
            Accumulators::Epilogue => 0.0,
        };
        let microseconds = LAUNCH + working.max(loading) + UNHIDDEN * working.min(loading) + reduction;
        let few = schedule == Schedule::OneTile && (tiles as f64) < FEWEST * f64::from(clusters);
        Estimate { microseconds: if few { f64::INFINITY } else { microseconds }, cut }
    }

    /// The times of a step of a tile along K. The arguments are the tiles of each concurrently
    /// running cluster, and the blocks that share an SM.
    fn step(&self, tiles_of_cluster: f64, residents: f64) -> StepTimes {
        let variant = self.variant;
        let Variant { schedule, rate, tile, .. } = *variant;
        let [tile_m, tile_n, tile_k] = tile.map(f64::from);
        let arithmetic = 2.0 * tile_m * tile_n * tile_k / (rate.tera * 1e6 / f64::from(MULTIPROCESSORS));
        // B is multicast to the tiles of a cluster.
        let rows = tile_m + tile_n / f64::from(schedule.cluster_tiles());
        let unaligned = match self.alignment {
            Alignment::Lines => 1.0,
            Alignment::Sectors => AT_SECTORS,
            Alignment::Any => UNALIGNED,
        };
        let loads = rows * tile_k * self.problem.operands[0].bytes as f64 / L2_PORT * unaligned;
        let shared = if rate.residents > 1 { residents.max(ALONE) } else { 1.0 };
        // One of two ping-pong warpgroups waits for the other at any clock.
        let faster = variant.kernel.is_wgmma() && schedule != Schedule::PingPong;
        let clock = if faster { tiles_of_cluster.clamp(FULL_CLOCK, 1.0) } else { 1.0 };
        let time = |step: f64| step * shared * clock;
        StepTimes { arithmetic: time(arithmetic), whole: time(arithmetic.max(loads)) }
    }

    /// The last wave of a stream-K kernel; `None` if its tiles should not be divided.
    fn last_wave(&self, tiles: u64, clusters: u32, steps: u32, step: f64) -> Option<LastWave> {
        let Variant { schedule, tile: [tile_m, tile_n, _], .. } = *self.variant;
        let rest = (tiles % u64::from(clusters)) as u32;
        // A cluster counts its tiles, and its position in its pieces, in 31 bits.
        let counted = tiles < 1 << 30 && tma::can_count(rest, schedule.cluster(), tile_m);
        let divided = schedule != Schedule::PingPong && self.slices == 1 && rest > 0 && counted;
        let bytes = f64::from(tile_m * tile_n) * 4.0;
        divided.then_some(LastWave { tiles: rest, clusters, steps, step, bytes })
    }
}
