//! The estimated cost of a product with one kernel, in microseconds.
//!
//! The model has six terms: the kernel's measured rate at full occupancy; the number of waves and
//! how full the last one is; the gain and the cost of splitting tiles along K; the pipeline's
//! prologue, in which a block only loads; the rate at which small tiles are loaded; and the memory
//! passes that rearrange an operand or reduce the splits. Its error is tens of percent, while the
//! choices differ by factors.

use super::element::Operand;
use super::operand::Alignment;
use super::plan::{Accumulators, Query};
use super::tma;
use super::variants::{Schedule, Variant};
use moye_kernels::hopper::Cut;

/// The overhead of one more launch, in microseconds.
const LAUNCH: f64 = 3.0;
/// Memory bandwidth of an H200, in bytes per microsecond.
const BANDWIDTH: f64 = 3.0e6;
/// Multiprocessors of the GPU on which the rates were measured.
const MEASURED_ON: f64 = 132.0;
/// The rate at which kernels stream operands that are not in the L2 cache, in bytes per
/// microsecond. It is below the memory bandwidth, because a block requests no more than its stages
/// hold.
const STREAM: f64 = 3.0e6;
/// The same for small tiles, one for each block: for operands that fit into the L2 cache, and for
/// larger ones.
const STREAM_OF_SMALL: [f64; 2] = [6.5e6, 4.0e6];
/// The fraction of that rate that blocks reach when they occupy fewer than this fraction of the
/// multiprocessors.
const STREAM_ALONE: f64 = 0.75;
/// The fraction of the shorter of computing and streaming that the longer one does not hide.
const UNHIDDEN: f64 = 0.1;
/// Bytes of operands that stay in the L2 cache.
const CACHED: f64 = 48e6;
/// The L2 bandwidth of one multiprocessor when all of them load, in bytes per microsecond.
const INGEST: f64 = 9.6e4;
/// The factor by which loads take longer if rows of the operands start at multiples of 32 bytes, or
/// at any address, rather than at cache lines.
const ACROSS_LINES: [f64; 2] = [1.35, 2.1];
/// The factor by which a step of a larger tile then takes longer, if no other block loads the same
/// data at the same time.
const ACROSS_LINES_ALONE: [f64; 2] = [1.1, 1.4];
/// Tensor-core operations of one multiprocessor per microsecond, at full clock.
const TENSOR_CORES: f64 = 7.5e6;
/// The minimum time of a block with one tile, from its first load to its last product.
const FIRST: f64 = 1.8;
/// The time in which a block writes 64 x 64 accumulators.
const WRITE: f64 = 0.15;
/// The time to start a block in the place of one that has exited, and of a pair in the place of
/// two.
const NEXT: [f64; 2] = [1.5, 4.0];
/// The start-up time that a block with a single tile saves.
const SAVED_ONCE: f64 = 0.7;
/// The time in which persistent blocks start and exit together, as clusters.
const TOGETHER: f64 = 0.3;
/// The time in which a pair of blocks exchanges 64 x 64 accumulators; for more of them, multiplied
/// by their number to the power of 1.5.
const EXCHANGE: f64 = 0.3;
/// The fraction of its step time that a block needs when few others run, so that neither memory
/// bandwidth nor power is short.
const STEP_ALONE: f64 = 0.6;
/// The same for blocks with one large tile each.
const STEP_ALONE_ONCE: f64 = 0.7;
/// The smallest fraction of the multiprocessors for which these kernels were measured to be faster,
/// and their assumed cost below it.
const FEWEST_ONCE: f64 = 0.4;
/// See [`FEWEST_ONCE`].
const TOO_FEW: f64 = 1e6;
/// The rate at which partial accumulators of a shared tile are stored or loaded, in bytes per
/// microsecond and multiprocessor.
const PIECES: f64 = 4.0e4;
/// The same for partial accumulators that a stream-K run stores before it continues: fitted to
/// where 8192^3 of f16 and of 8-bit floats is fastest.
const PIECES_OF_RUNS: f64 = 1.75e4;
/// The smallest gain for which tiles are split along K: less would be within the model's error, and
/// a split takes memory.
const WORTH: f64 = 0.995;
/// The largest number of even splits of a tile.
const MOST_PIECES: u32 = 8;
/// The lengths of even splits that are tried beside stream-K runs: equal shares for all clusters,
/// and a number of longer ones, up to about a quarter longer.
const MOST_MORE: u32 = 8;

/// The bytes of a rearrangement, source and destination, that stay in the L2 cache.
const KEPT: f64 = 32e6;

/// The cost of rearranging this many bytes in this many launches.
pub(super) fn rearrangement_cost(bytes: f64, launches: u32) -> f64 {
    // Data in the L2 cache is written and read again there.
    let rate = if 2.0 * bytes < KEPT { 3.0 * BANDWIDTH } else { BANDWIDTH };
    f64::from(launches) * LAUNCH + 2.0 * bytes / rate
}

/// The cost of writing this many accumulators to a workspace that is not in the cache.
pub(super) fn padding_cost(sums: f64) -> f64 {
    4.0 * sums / BANDWIDTH
}

/// The factor of a time, one of these two, for rows that do not start at cache lines.
fn across_lines(alignment: Alignment, [sectors, any]: [f64; 2]) -> f64 {
    match alignment {
        Alignment::Lines => 1.0,
        Alignment::Sectors => sectors,
        Alignment::Any => any,
    }
}

/// The cost of a product, and how its last tiles are divided.
pub(super) fn product_cost<T: Operand>(
    query: &Query,
    variant: &Variant<T>,
    slices: u32,
    k_chunk: u32,
    accumulators: Accumulators,
    alignment: Alignment,
) -> (f64, Cut) {
    let [m, n, k] = query.extents;
    let [tile_m, tile_n, tile_k] = variant.tile;
    let rate = variant.rate;
    let [rows, columns] = variant.tiles(m, n).map(f64::from);
    let blocks = rows * columns * f64::from(slices) * f64::from(query.batches);
    let multiprocessors = f64::from(query.multiprocessors.max(1));
    let resident = (blocks / multiprocessors).ceil().min(f64::from(rate.residents));
    let rounds = (blocks / (multiprocessors * resident)).ceil();
    let operations = 2.0 * f64::from(tile_m) * f64::from(tile_n) * f64::from(tile_k);
    // Blocks that share a multiprocessor share its rate; a single block does not reach that rate.
    let alone = 1.0 + 0.5 / resident;
    let step = operations * resident * alone
        / (1.0 + 0.5 / f64::from(rate.residents))
        / (rate.tera * 1e6 / MEASURED_ON);
    let steps = f64::from(k_chunk.min(k.max(1)).div_ceil(tile_k));
    let stream = LAUNCH + streamed(query) / STREAM;
    let step_across = step * across_lines(alignment, ACROSS_LINES_ALONE);
    let (product, cut) = match variant.schedule {
        Schedule::OneTile => {
            let step = step_across;
            let busy = (blocks / multiprocessors).clamp(STEP_ALONE_ONCE, 1.0);
            let sums = f64::from(tile_m * tile_n) / 4096.0;
            let block = ((steps + 2.0 * rate.fill) * step * busy).max(FIRST + WRITE * sums);
            // If there are few blocks, the cost is so high that they are never chosen for their own
            // sake.
            let few = if blocks < FEWEST_ONCE * multiprocessors { TOO_FEW } else { 0.0 };
            ((LAUNCH - SAVED_ONCE + rounds * block + (rounds - 1.0) * NEXT[0]).max(stream) + few, Cut::NONE)
        }
        Schedule::ClusterK(parts) => {
            (cluster_k_cost(query, variant, parts, (steps, step), alignment), Cut::NONE)
        }
        Schedule::StreamK(_) | Schedule::StreamKOfLines | Schedule::PingPong => {
            let step = if variant.schedule.cluster() == 1 { step_across } else { step };
            let (cost, cut) = persistent_cost(query, variant, slices, (steps, step));
            (cost.max(stream), cut)
        }
        Schedule::MmaSync | Schedule::Sgemm(_) => {
            ((LAUNCH + rounds * (steps + rate.fill) * step).max(stream), Cut::NONE)
        }
    };
    let elements = f64::from(m) * f64::from(n) * f64::from(query.batches);
    let reduction = match accumulators {
        Accumulators::Workspace => LAUNCH + elements * 4.0 * (2.0 * f64::from(slices) + 1.0) / BANDWIDTH,
        Accumulators::Epilogue => 0.0,
    };
    (product + reduction, cut)
}

/// Bytes of both operands.
fn streamed(query: &Query) -> f64 {
    let [m, n, k] = query.extents;
    query.operands[0].all_bytes(m, k) + query.operands[1].all_bytes(n, k)
}

/// The cost of a kernel with one tile for each block, or with a cluster that splits K among its
/// blocks, from the number of steps of a tile and the tensor-core time of a step. The block waits
/// for its loads.
fn cluster_k_cost<T: Operand>(
    query: &Query,
    variant: &Variant<T>,
    parts: u32,
    (steps, step): (f64, f64),
    alignment: Alignment,
) -> f64 {
    let [m, n, _] = query.extents;
    let [tile_m, tile_n, tile_k] = variant.tile;
    let [rows, columns] = variant.tiles(m, n).map(f64::from);
    let tiles = rows * columns * f64::from(query.batches);
    let of_multiprocessor = tiles * f64::from(parts) / f64::from(query.multiprocessors.max(1));
    let bytes = f64::from(tile_m + tile_n) * f64::from(tile_k) * query.operands[0].bytes as f64;
    let operations = 2.0 * f64::from(tile_m) * f64::from(tile_n) * f64::from(tile_k);
    let load = bytes / INGEST * across_lines(alignment, ACROSS_LINES);
    let rounds = of_multiprocessor.ceil();
    // A single wave ends before the power limit lowers the clock.
    let step = if rounds > 1.0 { step } else { operations / TENSOR_CORES };
    let step = step.max(load * of_multiprocessor.clamp(STEP_ALONE, 1.0));
    let sums = f64::from(tile_m * tile_n) / 4096.0;
    let exchange = if parts > 1 { EXCHANGE * sums.powf(1.5) } else { 0.0 };
    let block = ((steps / f64::from(parts)).ceil() * step).max(FIRST) + WRITE * sums / f64::from(parts);
    let product = LAUNCH + rounds * block + (rounds - 1.0) * NEXT[usize::from(parts > 1)];
    let bytes = streamed(query);
    let few = of_multiprocessor < STREAM_ALONE;
    let rate = STREAM_OF_SMALL[usize::from(bytes > CACHED)] * if few { STREAM_ALONE } else { 1.0 };
    let stream = LAUNCH + bytes / rate;
    product.max(stream) + UNHIDDEN * product.min(stream) + rounds * exchange
}

/// The cost of a persistent kernel, from the number of steps of a tile and the time of a step, and
/// how its last tiles are split.
fn persistent_cost<T: Operand>(
    query: &Query,
    variant: &Variant<T>,
    slices: u32,
    (steps, step): (f64, f64),
) -> (f64, Cut) {
    let [m, n, _] = query.extents;
    let (cluster, [tile_m, tile_n, _]) = (variant.schedule.cluster(), variant.tile);
    let clusters = tma::clusters(query.multiprocessors, cluster);
    let tiles = u64::from(m.div_ceil(tile_m * cluster))
        * u64::from(n.div_ceil(tile_n))
        * u64::from(slices)
        * u64::from(query.batches);
    let whole_tiles = variant.schedule == Schedule::PingPong;
    // With few blocks most of the GPU is idle, and each block has more memory bandwidth and power;
    // of two blocks, one waits for the other anyway.
    let of_busy = |busy: f64| {
        let step =
            if whole_tiles { step } else { step * (busy / f64::from(clusters)).clamp(STEP_ALONE, 1.0) };
        let together = if cluster > 1 { TOGETHER } else { 0.0 };
        move |rounds: f64, steps: f64| {
            LAUNCH + together + (rounds * variant.rate.fill + steps + variant.rate.fill) * step
        }
    };
    let rounds = (tiles as f64 / f64::from(clusters)).ceil();
    let whole = (of_busy(tiles as f64)(rounds, rounds * steps), Cut::NONE);
    let rest = (tiles % u64::from(clusters)) as u32;
    // A cluster counts its tiles and its position in its pieces in 31 bits.
    let too_many = tiles >= 1 << 30 || !tma::can_count(rest, cluster, (tile_m, tile_n));
    if whole_tiles || slices > 1 || rest == 0 || too_many {
        return whole;
    }
    // A partial last wave is shared. The last cluster to arrive at a tile stores its own
    // accumulators and reduces all of them in order.
    let bytes = f64::from(tile_m * tile_n) * 4.0;
    let shared = cuts(rest, clusters, steps as u32).map(|(cut, clusters_of, pieces_of_runs)| {
        let pieces = cut.most_pieces(steps as u32);
        let busy = (tiles - u64::from(rest)) as f64 + f64::from(clusters_of);
        let until = |stages: u32| of_busy(busy)(rounds, (rounds - 1.0) * steps + f64::from(stages));
        // The mean of what a run stores before its last piece.
        let runs = clusters_of - rest * cut.even;
        let left = if runs > 0 { f64::from(pieces_of_runs - runs) / f64::from(runs) } else { 0.0 };
        let left = left * bytes / PIECES_OF_RUNS;
        let cost = until(cut.stages).max(until(cut.run) + left);
        (cost + (1.0 + f64::from(pieces)) * bytes / PIECES, cut)
    });
    let best = shared.fold(whole, |best, other| if other.0 < best.0 { other } else { best });
    if best.0 < WORTH * whole.0 { best } else { whole }
}

/// The ways to divide `rest` tiles of this many stages among more clusters than that: the number of
/// clusters with work, and the number of pieces of all runs.
fn cuts(rest: u32, clusters: u32, all: u32) -> impl Iterator<Item = (Cut, u32, u32)> {
    let most = (clusters / rest).min(all).min(MOST_PIECES);
    // Stages of tails are counted in 32 bits.
    let can_run = u64::from(rest) * u64::from(all) < 1 << 31;
    (1..=most).flat_map(move |even| {
        let whole = all.div_ceil(even);
        let alone = Cut { tiles: rest, even: all.div_ceil(whole), stages: whole, run: 0 };
        let left = clusters - rest * even;
        // Equal shares, and some longer ones, because storing the pieces of a run takes time.
        let equal = (u64::from(rest) * u64::from(all) / u64::from(clusters)) as u32;
        let runs = (0..=MOST_MORE).filter_map(move |more| {
            let stages = equal.max(1) + more * equal.div_ceil(4 * MOST_MORE);
            let tail = all.checked_sub(even * stages).filter(|&tail| tail > 0 && left > 0 && can_run)?;
            let run = (rest * tail).div_ceil(left);
            let cut = Cut { tiles: rest, even, stages, run };
            Some((cut, rest * even + (rest * tail).div_ceil(run), pieces_of_runs(rest, tail, run)))
        });
        let alone = (even > 1).then_some((alone, rest * alone.even, 0));
        alone.into_iter().chain(runs)
    })
}

/// The pieces of all runs over this many consecutive tails: a piece ends where a tail or a run
/// ends.
fn pieces_of_runs(tails: u32, tail: u32, run: u32) -> u32 {
    let (all, mut a, mut b) = (tails * tail, tail, run);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    // Where a tail and a run end together, one piece ends; the end of the last tail ends the last
    // run.
    let both = u64::from(tail / a) * u64::from(run);
    let common = u64::from(all) / both + u64::from(!u64::from(all).is_multiple_of(both));
    tails + all.div_ceil(run) - common as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_cut_tiles_gives_no_cluster_more_than_it_says_and_all_of_k_to_some() {
        for clusters in [2, 7, 66, 132] {
            for rest in 1..clusters {
                for all in [1, 2, 3, 16, 63, 128, 1000] {
                    for (cut, busy, of_runs) in cuts(rest, clusters, all) {
                        let what = format!("{rest} tiles of {all} stages for {clusters} clusters: {cut:?}");
                        assert_eq!(cut.tiles, rest, "{what}");
                        assert!(busy <= clusters, "{busy} clusters, {what}");
                        let (mut stages, mut pieces_of_runs) = (0, 0);
                        for cluster in 0..clusters {
                            let (mut done, mut pieces) = (0, 0);
                            while let Some(piece) = cut.piece(all, cluster, done) {
                                assert!(piece.stages > 0, "{what}");
                                (done, pieces) = (done + piece.stages, pieces + 1);
                            }
                            assert!(done <= cut.stages.max(cut.run), "{what}");
                            if cluster >= rest * cut.even {
                                pieces_of_runs += pieces;
                            }
                            assert_eq!(done > 0, cluster < busy, "cluster {cluster}, {what}");
                            stages += done;
                        }
                        assert_eq!(stages, rest * all, "{what}");
                        assert_eq!(pieces_of_runs, of_runs, "pieces of runs, {what}");
                    }
                }
            }
        }
    }
}
