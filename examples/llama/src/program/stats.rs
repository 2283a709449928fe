//! Rates of a run.

use moye::Device;
use std::fmt;
use std::time::Duration;

/// Counts and times of a run.
pub struct Stats {
    device: String,
    /// The memory bandwidth in bytes per second; `None` on the simulator.
    bandwidth: Option<f64>,
    loaded: Duration,
    /// Prompt tokens that were read, and the time.
    prompt: (usize, Duration),
    /// Steps that computed tokens, these tokens, the bytes that they read, and the time. The first
    /// step, which captures a graph and compiles kernels, is counted separately.
    answer: (usize, usize, usize, Duration),
    first: Option<Duration>,
}

impl Stats {
    /// Statistics of a model that took this time to load.
    pub fn new(device: &Device, loaded: Duration) -> Self {
        Self {
            device: device.name().to_owned(),
            bandwidth: device.is_gpu().then(|| device.rates().memory * 1e6),
            loaded,
            prompt: (0, Duration::ZERO),
            answer: (0, 0, 0, Duration::ZERO),
            first: None,
        }
    }

    /// Adds a step: prompt tokens read, tokens computed, bytes read for these, and the time.
    pub fn step(&mut self, read: usize, computed: usize, bytes: usize, time: Duration) {
        if computed == 0 {
            self.prompt = (self.prompt.0 + read, self.prompt.1 + time);
        } else if self.first.is_none() {
            self.first = Some(time);
        } else {
            let (steps, tokens, all, took) = self.answer;
            self.answer = (steps + 1, tokens + computed, all + bytes, took + time);
        }
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |count: usize, time: Duration| count as f64 / time.as_secs_f64().max(1e-9);
        let (steps, tokens, bytes, time) = self.answer;
        writeln!(f, "device    {}", self.device)?;
        writeln!(f, "load      {:.2} s", self.loaded.as_secs_f64())?;
        let (count, took) = self.prompt;
        writeln!(
            f,
            "prompt    {count} tokens in {:.3} s: {:.1} a second",
            took.as_secs_f64(),
            rate(count, took)
        )?;
        if let Some(first) = self.first {
            writeln!(f, "first     {:.3} s to the first token after it", first.as_secs_f64())?;
        }
        if steps == 0 {
            return write!(f, "answer    no more tokens");
        }
        let a_step = time.as_secs_f64() / steps as f64;
        writeln!(
            f,
            "answer    {tokens} tokens in {:.3} s: {:.1} a second, {:.1} us a step",
            time.as_secs_f64(),
            rate(tokens, time),
            1e6 * a_step
        )?;
        let moved = bytes as f64 / steps as f64;
        write!(f, "bytes     {:.1} MB a step: {:.1} GB/s", moved / 1e6, moved / a_step / 1e9)?;
        match self.bandwidth {
            Some(bandwidth) => {
                write!(f, ", {:.2} of {:.0} GB/s", moved / a_step / bandwidth, bandwidth / 1e9)
            }
            None => Ok(()),
        }
    }
}
