//! What the benchmarks of kernels share: the clock, and cuBLAS to measure beside.

pub mod cublas;

use moye::{Device, Result};
use std::time::{Duration, Instant};

/// Timed rounds; those that are measured take turns.
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

/// TFLOP/s of a product.
pub fn teraflops((m, n, k): (usize, usize, usize), seconds: f64) -> f64 {
    2.0 * (m as f64) * (n as f64) * (k as f64) / seconds / 1e12
}
