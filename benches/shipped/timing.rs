//! Two sides timed in turn, on random data.

use moye::{Device, Result};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::time::{Duration, Instant};

/// Timed rounds; ours and the other side take turns.
pub const ROUNDS: usize = 11;
/// Launches are batched until a batch takes about this long, so that the clock's own error vanishes.
const BATCH: Duration = Duration::from_millis(20);

/// Seconds of one run of each, the medians of rounds in turn.
pub fn in_turn(device: &Device, work: &mut [&mut dyn FnMut() -> Result<()>]) -> Result<Vec<f64>> {
    let mut batches = Vec::new();
    for run in work.iter_mut() {
        run()?;
        device.synchronize()?;
        let start = Instant::now();
        run()?;
        device.synchronize()?;
        let once = start.elapsed().max(Duration::from_micros(2));
        batches.push((BATCH.as_secs_f64() / once.as_secs_f64()).ceil() as u32);
    }
    let mut times = vec![Vec::new(); work.len()];
    for _ in 0..ROUNDS {
        for ((run, &batch), times) in work.iter_mut().zip(&batches).zip(&mut times) {
            device.synchronize()?;
            let start = Instant::now();
            for _ in 0..batch {
                run()?;
            }
            device.synchronize()?;
            times.push(start.elapsed().as_secs_f64() / f64::from(batch));
        }
    }
    Ok(times
        .into_iter()
        .map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[ROUNDS / 2]
        })
        .collect())
}

/// So many random numbers of [-1, 1).
pub fn numbers(len: usize, seed: u64) -> Vec<f32> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..len).map(|_| rng.random_range(-1.0..1.0)).collect()
}
