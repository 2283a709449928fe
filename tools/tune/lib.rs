//! The fastest tile and number of split-K slices of a product of `moye`, by measurement.
//!
//! Each candidate's result is checked before it is timed. The command `moye tune` of the package
//! `moye-cli` writes the result of [`search`] to the file that `moye::Tuning` reads.
//!
//! ```no_run
//! use moye::{TunedProduct, Device, Tuning};
//! use moye_bench::{Kind, Majors, Plan, Size};
//!
//! let device = Device::gpu(0)?;
//! let found =
//!     moye_tune::search(&device, Kind::F16, Majors::TN, Size::cube(1024), Plan::default())?;
//! let mut tuning = Tuning::default();
//! let moye_tune::Candidate { tile, splits } = found.best;
//! tuning.insert(&device, found.problem, TunedProduct { tile, splits, seconds: found.seconds });
//! tuning.save("tuning.json")?;
//! # Ok::<(), anyhow::Error>(())
//! ```
#![deny(missing_docs)]

use anyhow::Result;
use moye::{Device, Output};
use moye_bench::dtype::{Member, Stored};
use moye_bench::product::Problem;
use moye_bench::timing::{Side, Times, in_turn};
use moye_bench::{Kind, Majors, Plan, Size, with_types};
use std::cell::RefCell;

/// The numbers of split-K slices to try, up to the number of K tiles.
const SPLITS: [u32; 12] = [1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48];
/// The number of fastest candidates that are timed again in turn, at the same clocks.
const FINALISTS: usize = 4;

/// A candidate: a tile, and a number of split-K slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The tile of C.
    pub tile: (u32, u32),
    /// The split-K slices.
    pub splits: u32,
}

/// The result for a problem.
pub struct Found {
    /// The problem, the key in `moye::Tuning`.
    pub problem: moye::Problem,
    /// The fastest candidate.
    pub best: Candidate,
    /// The median time of the fastest, in seconds.
    pub seconds: f64,
    /// The choice without tuning, and its time.
    pub untuned: (Candidate, f64),
    /// The number of candidates, each of them checked.
    pub tried: usize,
}

/// Tries every tile and number of slices of a product of random matrices.
///
/// # Errors
/// A wrong result, or an error of the device.
pub fn search(device: &Device, kind: Kind, majors: Majors, size: Size, plan: Plan) -> Result<Found> {
    with_types!(kind, best(device, kind, majors, size, plan))
}

/// Tries every tile and number of slices, each checked before it is timed.
///
/// # Errors
/// A wrong result, or an error of the device.
fn best<T: Member, U: Output<T> + Stored + Default>(
    device: &Device,
    kind: Kind,
    majors: Majors,
    size: Size,
    plan: Plan,
) -> Result<Found> {
    let mut data = Problem::<T, U>::new(device, kind, majors, size)?;
    let (problem, untuned, candidates) = {
        let (call, mut c) = data.call()?;
        let chosen = call.explain(device, &mut c)?;
        let untuned = Candidate { tile: chosen.tile, splits: chosen.splits };
        let mut candidates = vec![untuned];
        for tile in call.tiles(device) {
            for splits in SPLITS {
                // The requested number of slices, or fewer if K has fewer tiles; possibly no kernel
                // reads the operands in place.
                let forced = call.clone().tile(tile.0, tile.1).split_k(splits);
                if let Ok(explained) = forced.explain(device, &mut c) {
                    let candidate = Candidate { tile: explained.tile, splits: explained.splits };
                    if !candidates.contains(&candidate) {
                        candidates.push(candidate);
                    }
                }
            }
        }
        (call.problem(&c), untuned, candidates)
    };
    for candidate in &candidates {
        data.poison()?;
        {
            let (call, mut c) = data.call()?;
            call.tile(candidate.tile.0, candidate.tile.1).split_k(candidate.splits).run(device, &mut c)?;
        }
        data.check(&format!("tile {}x{}, slices {}", candidate.tile.0, candidate.tile.1, candidate.splits))?;
    }
    // Time every candidate briefly, then the fastest ones and the untuned choice, in turn and for
    // longer.
    let quick = Plan { warm_up: plan.warm_up / 5, rounds: 3, batch: plan.batch / 4, ..plan };
    let mut ranked = Vec::new();
    for &candidate in &candidates {
        ranked.push((candidate, timed(device, &quick, &mut data, &[candidate])?[0]));
    }
    ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut finalists: Vec<Candidate> =
        ranked.iter().take(FINALISTS).map(|&(candidate, _)| candidate).collect();
    if !finalists.contains(&untuned) {
        finalists.push(untuned);
    }
    let seconds = timed(device, &plan, &mut data, &finalists)?;
    let (best, fastest) = fastest(&finalists, &seconds);
    let of_untuned =
        finalists.iter().position(|&candidate| candidate == untuned).map_or(fastest, |i| seconds[i]);
    Ok(Found { problem, best, seconds: fastest, untuned: (untuned, of_untuned), tried: candidates.len() })
}

/// The candidate with the lowest time, and that time; at least one was timed.
fn fastest(candidates: &[Candidate], seconds: &[f64]) -> (Candidate, f64) {
    let pairs = candidates.iter().copied().zip(seconds.iter().copied());
    pairs.min_by(|a, b| a.1.total_cmp(&b.1)).expect("at least one candidate was timed")
}

/// The median times of these candidates, measured in turn.
fn timed<T: Member, U: Output<T> + Stored + Default>(
    device: &Device,
    plan: &Plan,
    data: &mut Problem<T, U>,
    candidates: &[Candidate],
) -> Result<Vec<f64>> {
    let (call, c) = data.call()?;
    let c = RefCell::new(c);
    let mut runs: Vec<Box<Side<'_>>> = Vec::new();
    for candidate in candidates {
        let forced = call.clone().tile(candidate.tile.0, candidate.tile.1).split_k(candidate.splits);
        let c = &c;
        runs.push(Box::new(move || Ok(forced.run(device, &mut c.borrow_mut())?)));
    }
    let mut sides: Vec<&mut Side<'_>> = runs.iter_mut().map(|run| &mut **run as &mut Side<'_>).collect();
    Ok(in_turn(device, plan, &mut sides, &mut || {})?.iter().map(Times::median).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use moye::half::f16;
    use moye::{TunedProduct, Tuning};
    use std::time::Duration;

    const SHORT: Plan = Plan {
        warm_up: Duration::ZERO,
        rounds: 1,
        batch: Duration::from_nanos(1),
        flush_l2: false,
        rest: Duration::ZERO,
    };

    /// On the simulator, whose times are meaningless but whose results equal a GPU's.
    #[test]
    fn every_candidate_is_tried_checked_and_the_best_of_them_is_obeyed() {
        let device = Device::sim();
        let (kind, majors, size) = (Kind::F16, Majors::TN, Size { m: 64, n: 40, k: 256 });
        let found = best::<f16, f16>(&device, kind, majors, size, SHORT).unwrap();
        let mut data = Problem::<f16, f16>::new(&device, kind, majors, size).unwrap();
        // Each tile with K, four K tiles, in 1, 2 or 4 slices: 3 becomes 2. 64 x 128 has 1 or 2
        // slices, 192 x 192 has 1.
        let (call, _) = data.call().unwrap();
        let tiles = call.tiles(&device);
        assert!(tiles.contains(&(64, 128)) && tiles.contains(&(192, 192)));
        assert_eq!(found.tried, 3 * tiles.len() - 1 - 2);
        let mut tuning = Tuning::default();
        let Candidate { tile, splits } = found.best;
        tuning.insert(&device, found.problem, TunedProduct { tile, splits, seconds: found.seconds });
        let (call, mut c) = data.call().unwrap();
        let plan = call.tuned(&tuning).explain(&device, &mut c).unwrap();
        assert_eq!((plan.tile, plan.splits), (tile, splits));
    }

    #[test]
    fn the_fastest_is_the_least_time() {
        let candidate = |splits| Candidate { tile: (64, 64), splits };
        assert_eq!(
            fastest(&[candidate(1), candidate(2), candidate(3)], &[3.0, 1.0, 2.0]),
            (candidate(2), 1.0)
        );
    }
}
