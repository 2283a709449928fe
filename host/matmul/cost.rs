//! What a product would cost with one kernel, in microseconds.
//!
//! The model knows six things: what a kernel does where it has enough to do (measured), how many
//! rounds of blocks there are and how full the last one is, what is won and paid where its tiles
//! are cut along K, that a block's first tiles only fill its pipeline, how fast small tiles get
//! what they load, and what passes over memory cost that rearrange an operand or add up the parts
//! of K. It is wrong by tens of percents and right about factors, which is what a choice needs.

use super::element::{Clusters, Operand, Variant};
use super::hopper;
use super::operand::{LINE, SECTOR, View};
use super::plan::Question;
use moye_kernels::hopper::Cut;

/// What a launch costs beside others, in microseconds.
const LAUNCH: f64 = 3.0;
/// What memory moves, in bytes a microsecond, of an H200.
const BANDWIDTH: f64 = 3.0e6;
/// Multiprocessors of the chip that the rates were measured on.
const MEASURED_ON: f64 = 132.0;
/// Tiles along K that fill a pipeline by `mma.sync` and empty it.
const FILL: f64 = 6.0;
/// What kernels stream of operands that nobody has read before, in bytes a microsecond: less than
/// memory moves, since a block asks for no more than its stages hold, and waits.
const STREAM: f64 = 3.0e6;
/// The same of small tiles, a block for each: of what the L2 cache keeps from call to call, and of
/// more than that.
const STREAM_OF_SMALL: [f64; 2] = [6.5e6, 4.0e6];
/// The part of that which blocks reach where they are fewer than this part of the multiprocessors.
const STREAM_ALONE: f64 = 0.75;
/// The part of the shorter of computing and streaming that the longer one does not hide.
const UNHIDDEN: f64 = 0.1;
/// Bytes of operands that the L2 cache keeps.
const CACHED: f64 = 48e6;
/// What a multiprocessor gets from the L2 cache, in bytes a microsecond, where all ask.
const INGEST: f64 = 9.6e4;
/// How much longer that takes where rows of operands begin within lines of the L2 cache, at
/// multiples of 32 bytes or anywhere.
const ACROSS_LINES: [f64; 2] = [1.35, 2.1];
/// How much longer a step takes then of larger tiles, where no other block asks for the same at the
/// same time.
const ACROSS_LINES_ALONE: [f64; 2] = [1.1, 1.4];
/// Operations of a multiprocessor's tensor cores in a microsecond, at their full clock.
const TENSOR_CORES: f64 = 7.5e6;
/// The least that a block with one tile takes from its first load to its last product.
const FIRST: f64 = 1.8;
/// What it costs a block to write 64 x 64 sums.
const WRITE: f64 = 0.15;
/// What it costs to begin a block that takes another one's place, and a pair that takes the place
/// of two.
const NEXT: [f64; 2] = [1.5, 4.0];
/// What a block that has one tile alone need not do.
const SAVED_ONCE: f64 = 0.7;
/// What it costs to begin and to end blocks of a persistent grid together, as clusters.
const TOGETHER: f64 = 0.3;
/// What it costs a pair of blocks to exchange 64 x 64 sums; of more, so much for their number to
/// the power of 1.5.
const EXCHANGE: f64 = 0.3;
/// The part of its time for a step that a block needs where few others run: then neither memory nor
/// power is short.
const STEP_ALONE: f64 = 0.6;
/// The same of blocks that have one large tile each.
const STEP_ALONE_ONCE: f64 = 0.7;
/// The part of the multiprocessors that such kernels were measured to be of use from, and what they
/// are taken to cost below.
const FEWEST_ONCE: f64 = 0.4;
/// See [`FEWEST_ONCE`].
const TOO_FEW: f64 = 1e6;
/// What it costs to leave the sums of a piece of a shared tile, or to take them, in bytes of them a
/// microsecond and multiprocessor.
const PIECES: f64 = 4.0e4;
/// The same of what a run leaves before its last piece, and goes on: it was fitted to where 8192^3
/// of f16 and of 8-bit floats is fastest.
const PIECES_OF_RUNS: f64 = 1.75e4;
/// What tiles are cut for: less would be within the model's error, and takes memory.
const WORTH: f64 = 0.995;
/// The most even pieces of a tile.
const MOST_PIECES: u32 = 8;
/// The lengths of even pieces that are tried beside runs: as if all clusters had as much, and so
/// many longer ones, up to a quarter or so longer.
const MOST_MORE: u32 = 8;

/// What the L2 cache keeps of what is rearranged, and of where it goes, in bytes.
const KEPT: f64 = 32e6;

/// What it costs to rearrange so many bytes by so many launches.
pub(super) fn rearrangement_cost(bytes: f64, launches: u32) -> f64 {
    // What the L2 cache keeps is written and read again there.
    let rate = if 2.0 * bytes < KEPT { 3.0 * BANDWIDTH } else { BANDWIDTH };
    f64::from(launches) * LAUNCH + 2.0 * bytes / rate
}

/// What it costs to write so many sums to a workspace that nobody reads.
pub(super) fn padding_cost(sums: f64) -> f64 {
    4.0 * sums / BANDWIDTH
}

/// Where rows of the operands begin, as they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Begins {
    /// At lines of the L2 cache.
    Lines,
    /// At its sectors, of 32 bytes.
    Sectors,
    /// Elsewhere.
    Anywhere,
}

impl Begins {
    /// The same of all of an operand's rows.
    pub fn of(view: &View, leading: i64, others: u32) -> Self {
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

/// What a product costs, and how its last tiles are cut.
pub(super) fn product_cost<T: Operand>(
    question: &Question,
    variant: &Variant<T>,
    splits: u32,
    k_chunk: u32,
    apart: bool,
    within: Begins,
) -> (f64, Cut) {
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
    let (product, cut) = match variant.kernel.clusters() {
        Clusters::Parts(_) if variant.once => {
            let step = step * within.longer(ACROSS_LINES_ALONE);
            let busy = (blocks / multiprocessors).clamp(STEP_ALONE_ONCE, 1.0);
            let sums = f64::from(tile_m * tile_n) / 4096.0;
            let block = ((steps + 2.0 * variant.fill) * step * busy).max(FIRST + WRITE * sums);
            // Where they are few, so much that nothing takes them by itself.
            let few = if blocks < FEWEST_ONCE * multiprocessors { TOO_FEW } else { 0.0 };
            ((LAUNCH - SAVED_ONCE + rounds * block + (rounds - 1.0) * NEXT[0]).max(stream) + few, Cut::NONE)
        }
        Clusters::Parts(parts) => (parts_cost(question, variant, parts, (steps, step), within), Cut::NONE),
        Clusters::Rows(_) if variant.kernel.is_persistent() => {
            let alone = variant.kernel.clusters().blocks() == 1;
            let step = step * if alone { within.longer(ACROSS_LINES_ALONE) } else { 1.0 };
            let (cost, cut) = persistent_cost(question, variant, splits, (steps, step));
            (cost.max(stream), cut)
        }
        Clusters::Rows(_) => {
            let fill = if variant.plain { variant.fill } else { FILL };
            ((LAUNCH + rounds * (steps + fill) * step).max(stream), Cut::NONE)
        }
    };
    let elements = f64::from(m) * f64::from(n) * f64::from(question.batches);
    let finish =
        if apart { LAUNCH + elements * 4.0 * (2.0 * f64::from(splits) + 1.0) / BANDWIDTH } else { 0.0 };
    (product + finish, cut)
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

/// What a kernel costs that has a block for each tile, or a cluster whose blocks have a part of K
/// each, of so many steps for a tile, which cost so much on tensor cores alone. It waits for what
/// it loads.
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

/// What a kernel with a persistent grid costs, of so many steps of this cost for a tile, and how
/// its last tiles are cut.
fn persistent_cost<T: Operand>(
    question: &Question,
    variant: &Variant<T>,
    splits: u32,
    (steps, step): (f64, f64),
) -> (f64, Cut) {
    let [m, n, _] = question.extents;
    let (cluster, [tile_m, tile_n, _]) = (variant.kernel.clusters().blocks(), variant.tile);
    let clusters = hopper::clusters(question.multiprocessors, cluster);
    let tiles = u64::from(m.div_ceil(tile_m * cluster))
        * u64::from(n.div_ceil(tile_n))
        * u64::from(splits)
        * u64::from(question.batches);
    // Where few run, most of the chip is idle, and each has more of memory and power; in turn, one
    // of two waits for the other anyway.
    let of_busy = |busy: f64| {
        let step =
            if variant.whole { step } else { step * (busy / f64::from(clusters)).clamp(STEP_ALONE, 1.0) };
        let together = if cluster > 1 { TOGETHER } else { 0.0 };
        move |rounds: f64, steps: f64| {
            LAUNCH + together + (rounds * variant.fill + steps + variant.fill) * step
        }
    };
    let rounds = (tiles as f64 / f64::from(clusters)).ceil();
    let whole = (of_busy(tiles as f64)(rounds, rounds * steps), Cut::NONE);
    let rest = (tiles % u64::from(clusters)) as u32;
    // A cluster counts its tiles and its place in its pieces in 31 bits.
    let too_many = tiles >= 1 << 30 || !hopper::can_count(rest, cluster, (tile_m, tile_n));
    if variant.whole || splits > 1 || rest == 0 || too_many {
        return whole;
    }
    // A last round that is not full is shared. Whoever comes last leaves its own piece and takes
    // all, one after the other.
    let bytes = f64::from(tile_m * tile_n) * 4.0;
    let shared = cuts(rest, clusters, steps as u32).map(|(cut, clusters_of, pieces_of_runs)| {
        let pieces = cut.most_pieces(steps as u32);
        let busy = (tiles - u64::from(rest)) as f64 + f64::from(clusters_of);
        let until = |stages: u32| of_busy(busy)(rounds, (rounds - 1.0) * steps + f64::from(stages));
        // What a run leaves in the mean, before its last piece.
        let runs = clusters_of - rest * cut.even;
        let left = if runs > 0 { f64::from(pieces_of_runs - runs) / f64::from(runs) } else { 0.0 };
        let left = left * bytes / PIECES_OF_RUNS;
        let cost = until(cut.stages).max(until(cut.run) + left);
        (cost + (1.0 + f64::from(pieces)) * bytes / PIECES, cut)
    });
    let best = shared.fold(whole, |best, other| if other.0 < best.0 { other } else { best });
    if best.0 < WORTH * whole.0 { best } else { whole }
}

/// Ways to cut `rest` tiles of so many stages for so many clusters, more than that: with how many
/// of them have something to do, and how many pieces all runs have.
fn cuts(rest: u32, clusters: u32, all: u32) -> impl Iterator<Item = (Cut, u32, u32)> {
    let most = (clusters / rest).min(all).min(MOST_PIECES);
    // Stages of tails are counted in 32 bits.
    let can_run = u64::from(rest) * u64::from(all) < 1 << 31;
    (1..=most).flat_map(move |even| {
        let whole = all.div_ceil(even);
        let alone = Cut { tiles: rest, even: all.div_ceil(whole), stages: whole, run: 0 };
        let left = clusters - rest * even;
        // As long as if all were dealt out equally, and some more, for what it takes to leave the
        // pieces of a run.
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

/// The pieces that all runs have of so many tails that follow each other: where a tail ends or a
/// run does, a piece ends.
fn pieces_of_runs(tails: u32, tail: u32, run: u32) -> u32 {
    let (all, mut a, mut b) = (tails * tail, tail, run);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    // Where both end, one piece does; and so at the end, whatever the last run would have.
    let both = u64::from(tail / a) * u64::from(run);
    let common = u64::from(all) / both + u64::from(!u64::from(all).is_multiple_of(both));
    tails + all.div_ceil(run) - common as u32
}

#[cfg(test)]
mod tests {
    use super::super::plan::{self, tests::question};
    use super::*;
    use half::f16;

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

    #[test]
    fn a_round_of_which_half_is_missing_is_shared_and_one_that_is_all_but_full_is_not() {
        let cut = |n, k| plan::plan::<f16>(&Question { wgmma: true, ..question(n, n, k) }).unwrap().cut;
        // 34 pairs' tiles of 66 in the last round.
        let half = cut(8192, 8192);
        assert_eq!((half.tiles, half.even), (34, 1), "{half:?}");
        assert!((68..76).contains(&half.stages) && half.run < half.stages, "{half:?}");
        // Four of 66: even pieces are enough.
        let few = cut(16384, 16384);
        assert!(few.tiles == 4 && few.even > 3, "{few:?}");
        // 58 of 66, 48 of 66 to little avail, and 34 whose K is short.
        assert_eq!(cut(4096, 4096), Cut::NONE);
        assert_eq!(cut(6144, 6144), Cut::NONE);
        assert_eq!(cut(8192, 512), Cut::NONE);
    }
}
