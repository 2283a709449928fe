//! Alternatives timed in turn by the device's clock.

use anyhow::Result;
use moye::{Buffer, Device};
use std::time::{Duration, Instant};

/// The plan of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The warm-up of each side before it is timed, so that clocks and power are steady.
    pub warm_up: Duration,
    /// Rounds; each one times every side once.
    pub rounds: usize,
    /// Launches are batched until a batch takes about this long, so that the clock's error is
    /// negligible.
    pub batch: Duration,
    /// Whether the L2 cache is flushed before each launch, which is then timed separately.
    pub flush_l2: bool,
    /// The idle time before each batch. A GPU at its power limit lowers its clock after some tens
    /// of milliseconds, and idle time restores it (300 ms before 20 ms did on an H200: record 7).
    pub rest: Duration,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            warm_up: Duration::from_millis(100),
            rounds: 11,
            batch: Duration::from_millis(20),
            flush_l2: false,
            rest: Duration::ZERO,
        }
    }
}

/// More than any GPU's L2 cache, in bytes.
const FLUSHED_BYTES: usize = 256 << 20;
/// The maximum number of launches in a batch: the device's queue is finite.
const MOST_LAUNCHES: f64 = 1000.0;
/// The same limit if each launch is timed separately, after a flush of the cache.
const MOST_FLUSHED: f64 = 20.0;

/// The times of one run in seconds, one for each round.
#[derive(Clone, Debug, PartialEq)]
pub struct Times(Vec<f64>);

impl Times {
    /// From at least one round.
    pub fn new(mut seconds: Vec<f64>) -> Self {
        assert!(!seconds.is_empty(), "a median needs a time");
        seconds.sort_by(f64::total_cmp);
        Self(seconds)
    }

    /// The median; for an even number of rounds the mean of the two in the middle.
    pub fn median(&self) -> f64 {
        let middle = self.0.len() / 2;
        if self.0.len().is_multiple_of(2) {
            f64::midpoint(self.0[middle - 1], self.0[middle])
        } else {
            self.0[middle]
        }
    }

    /// The minimum.
    pub fn least(&self) -> f64 {
        self.0[0]
    }

    /// The maximum.
    pub fn most(&self) -> f64 {
        self.0[self.0.len() - 1]
    }
}

/// One side: launches its work once, on the device's default stream.
pub type Side<'a> = dyn FnMut() -> Result<()> + 'a;

/// The times of each side, measured in turn; `watch` is called in every round while the device
/// works for the first side.
pub fn in_turn(
    device: &Device,
    plan: &Plan,
    sides: &mut [&mut Side<'_>],
    watch: &mut dyn FnMut(),
) -> Result<Vec<Times>> {
    let stream = device.default_stream();
    let mut flushed: Option<Buffer<u8>> =
        plan.flush_l2.then(|| device.alloc_uninit(FLUSHED_BYTES)).transpose()?;
    let mut batches = Vec::new();
    for side in sides.iter_mut() {
        // The first launch loads kernels.
        side()?;
        device.synchronize()?;
        let start = stream.record()?;
        side()?;
        let once = stream.record()?.elapsed_since(&start)?.as_secs_f64().max(2e-6);
        let most = if plan.flush_l2 { MOST_FLUSHED } else { MOST_LAUNCHES };
        batches.push((plan.batch.as_secs_f64() / once).ceil().clamp(1.0, most) as u32);
        let (begun, settle) =
            (Instant::now(), (plan.warm_up.as_secs_f64() / once).ceil().min(MOST_LAUNCHES) as u32);
        while begun.elapsed() < plan.warm_up {
            for _ in 0..settle.min(100) {
                side()?;
            }
            device.synchronize()?;
        }
    }
    let mut times = vec![Vec::new(); sides.len()];
    for _ in 0..plan.rounds.max(1) {
        for (i, side) in sides.iter_mut().enumerate() {
            device.synchronize()?;
            std::thread::sleep(plan.rest);
            let mut seconds = 0.0;
            if let Some(flushed) = &mut flushed {
                for launch in 0..batches[i] {
                    flushed.fill_bytes(launch as u8)?;
                    let start = stream.record()?;
                    side()?;
                    let end = stream.record()?;
                    if i == 0 && launch == 0 {
                        watch();
                    }
                    seconds += end.elapsed_since(&start)?.as_secs_f64();
                }
            } else {
                let start = stream.record()?;
                for _ in 0..batches[i] {
                    side()?;
                }
                let end = stream.record()?;
                if i == 0 {
                    watch();
                }
                seconds = end.elapsed_since(&start)?.as_secs_f64();
            }
            times[i].push(seconds / f64::from(batches[i]));
        }
    }
    Ok(times.into_iter().map(Times::new).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_whatever_the_order() {
        let times = Times::new(vec![5.0, 1.0, 3.0]);
        assert_eq!((times.least(), times.median(), times.most()), (1.0, 3.0, 5.0));
        assert_eq!(Times::new(vec![4.0, 1.0, 2.0, 100.0]).median(), 3.0);
        assert_eq!(Times::new(vec![7.0]).median(), 7.0);
    }

    /// Three rounds of one call each.
    fn short() -> Plan {
        Plan { warm_up: Duration::ZERO, rounds: 3, batch: Duration::from_nanos(1), ..Plan::default() }
    }

    #[test]
    fn every_side_is_run_in_every_round_and_watched_once() {
        let device = Device::sim();
        for flush_l2 in [false, true] {
            let plan = Plan { flush_l2, ..short() };
            let (mut first, mut second, mut watched) = (0, 0, 0);
            let times = in_turn(
                &device,
                &plan,
                &mut [
                    &mut || {
                        first += 1;
                        std::thread::sleep(Duration::from_millis(2));
                        Ok(())
                    },
                    &mut || {
                        second += 1;
                        Ok(())
                    },
                ],
                &mut || watched += 1,
            )
            .unwrap();
            // One launch to load, one to estimate, and a batch of one in each round.
            assert_eq!((first, second, watched), (5, 5, 3), "flushed: {flush_l2}");
            assert!(times[0].least() >= 2e-3 && times[1].median() < 2e-3, "{times:?}");
        }
    }

    #[test]
    fn the_device_rests_before_each_batch() {
        let rest = Duration::from_millis(5);
        let plan = Plan { rest, ..short() };
        let mut called = Vec::new();
        in_turn(
            &Device::sim(),
            &plan,
            &mut [&mut || {
                called.push(Instant::now());
                Ok(())
            }],
            &mut || {},
        )
        .unwrap();
        // The first two launches load and estimate; each of the others follows idle time.
        for pair in called[1..].windows(2) {
            assert!(pair[1] - pair[0] >= rest, "{:?} between two batches", pair[1] - pair[0]);
        }
    }

    #[test]
    fn the_error_of_a_failing_side_is_reported() {
        let said =
            in_turn(&Device::sim(), &Plan::default(), &mut [&mut || anyhow::bail!("broken")], &mut || {});
        assert_eq!(said.unwrap_err().to_string(), "broken");
    }
}
