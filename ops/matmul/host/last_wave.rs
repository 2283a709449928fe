//! The division of a persistent kernel's last wave along K (stream-K), so that clusters without a
//! tile have work.

use super::cost::Estimate;
use crate::kernels::hopper::Cut;

/// The rate at which partial accumulators of a shared tile are stored or loaded, in bytes per
/// microsecond and SM.
const PIECES: f64 = 4.0e4;
/// The rate for work units that a run stores before it continues: fitted to the fastest divisions
/// of 8192^3 in f16 and in 8-bit floats.
const PIECES_OF_RUNS: f64 = 1.75e4;
/// A division must take at most this fraction of the undivided time: a smaller gain would be within
/// the error, and work units take memory.
const WORTH: f64 = 0.96;
/// The maximum number of even work units of a tile.
const MOST_EVEN: u32 = 8;
/// The run lengths that are tried for each number of even work units: equal ones for all
/// clusters, and this number of longer ones, up to about a quarter longer.
const LONGER: u32 = 8;

/// The last wave of a persistent kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastWave {
    /// At least one, and fewer than the clusters.
    pub tiles: u32,
    pub clusters: u32,
    /// Steps of a tile along K, and the time of one in microseconds.
    pub steps: u32,
    pub step: f64,
    /// Bytes of a tile's accumulators.
    pub bytes: f64,
}

/// A way to divide the last wave.
#[derive(Clone, Copy, Debug)]
struct Division {
    cut: Cut,
    /// Clusters with work.
    busy: u32,
    /// Work units of all runs.
    pieces_of_runs: u32,
}

impl LastWave {
    /// The fastest division, with its time.
    pub fn fastest(&self) -> Estimate {
        let whole = Estimate { microseconds: f64::from(self.steps) * self.step, cut: Cut::NONE };
        let divided = self
            .divisions()
            .map(|division| Estimate { microseconds: self.time(division), cut: division.cut });
        let faster = |best: Estimate, other: Estimate| {
            if other.microseconds < best.microseconds { other } else { best }
        };
        let best = divided.fold(whole, faster);
        if best.microseconds < WORTH * whole.microseconds { best } else { whole }
    }

    /// The time of a division. The last cluster to arrive at a tile stores its own accumulators and
    /// reduces all of them in order.
    fn time(&self, Division { cut, busy, pieces_of_runs }: Division) -> f64 {
        let runs = busy - self.tiles * cut.even;
        // The mean number of work units that a run stores before its last one.
        let stored = if runs > 0 { f64::from(pieces_of_runs - runs) / f64::from(runs) } else { 0.0 };
        let run = f64::from(cut.run) * self.step + stored * self.bytes / PIECES_OF_RUNS;
        let fix_up = (1.0 + f64::from(cut.most_pieces(self.steps))) * self.bytes / PIECES;
        (f64::from(cut.stages) * self.step).max(run) + fix_up
    }

    /// The ways to divide the tiles among all clusters.
    fn divisions(&self) -> impl Iterator<Item = Division> {
        let Self { tiles, clusters, steps, .. } = *self;
        let most = (clusters / tiles).min(steps).min(MOST_EVEN);
        // Steps of tails are counted in 32 bits.
        let can_run = u64::from(tiles) * u64::from(steps) < 1 << 31;
        (1..=most).flat_map(move |even| {
            let stages = steps.div_ceil(even);
            let alone = Cut { tiles, even: steps.div_ceil(stages), stages, run: 0 };
            let alone = Division { cut: alone, busy: tiles * alone.even, pieces_of_runs: 0 };
            let left = clusters - tiles * even;
            // Equal shares, and some longer ones, because storing the pieces of a run takes time.
            let equal = (u64::from(tiles) * u64::from(steps) / u64::from(clusters)) as u32;
            let runs = (0..=LONGER).filter_map(move |more| {
                let stages = equal.max(1) + more * equal.div_ceil(4 * LONGER);
                let tail =
                    steps.checked_sub(even * stages).filter(|&tail| tail > 0 && left > 0 && can_run)?;
                let run = (tiles * tail).div_ceil(left);
                let busy = tiles * even + (tiles * tail).div_ceil(run);
                let cut = Cut { tiles, even, stages, run };
                Some(Division { cut, busy, pieces_of_runs: pieces_of_runs(tiles, tail, run) })
            });
            (even > 1).then_some(alone).into_iter().chain(runs)
        })
    }
}

/// The number of pieces of all runs over consecutive tails: a piece ends where a tail or a run
/// ends.
fn pieces_of_runs(tails: u32, tail: u32, run: u32) -> u32 {
    let (all, mut a, mut b) = (tails * tail, tail, run);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    // A tail and a run that end together end one piece; the end of the last tail ends the last run.
    let both = u64::from(tail / a) * u64::from(run);
    let common = u64::from(all) / both + u64::from(!u64::from(all).is_multiple_of(both));
    tails + all.div_ceil(run) - common as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_division_gives_no_cluster_more_than_it_says_and_all_of_k_to_some() {
        for clusters in [2, 7, 66, 132] {
            for tiles in 1..clusters {
                for steps in [1, 2, 3, 16, 63, 128, 1000] {
                    let wave = LastWave { tiles, clusters, steps, step: 1.0, bytes: 131072.0 };
                    for Division { cut, busy, pieces_of_runs: of_runs } in wave.divisions() {
                        let what = format!("{tiles} tiles of {steps} steps for {clusters} clusters: {cut:?}");
                        assert_eq!(cut.tiles, tiles, "{what}");
                        assert!(busy <= clusters, "{busy} clusters, {what}");
                        let (mut stages, mut pieces_of_runs) = (0, 0);
                        for cluster in 0..clusters {
                            let (mut done, mut pieces) = (0, 0);
                            while let Some(piece) = cut.piece(steps, cluster, done) {
                                assert!(piece.stages > 0, "{what}");
                                (done, pieces) = (done + piece.stages, pieces + 1);
                            }
                            assert!(done <= cut.stages.max(cut.run), "{what}");
                            if cluster >= tiles * cut.even {
                                pieces_of_runs += pieces;
                            }
                            assert_eq!(done > 0, cluster < busy, "cluster {cluster}, {what}");
                            stages += done;
                        }
                        assert_eq!(stages, tiles * steps, "{what}");
                        assert_eq!(pieces_of_runs, of_runs, "pieces of runs, {what}");
                    }
                }
            }
        }
    }
}
