//! Checks the steps and measures them on a Hopper GPU; without one, the simulator runs a small
//! problem.

use anyhow::{Result, bail, ensure};
use clap::Parser;
use hopper_steps::host::{Product, STEPS, Size, Step, TOLERANCE, runs_on};
use moye::{Device, DeviceChoice};
use std::process::ExitCode;
use std::time::Duration;

/// A product on Hopper, step by step: each step is checked against float64 and measured.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Extents, multiples of 256, 256 and 64 (may be repeated) [default: 4096x4096x4096 and
    /// 8192x8192x8192; in the simulator 256x512x192].
    #[arg(long, value_name = "MxNxK")]
    size: Vec<Size>,
    /// Number of rounds; each round times every step once, and a figure is the median.
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// auto, gpu, gpu:N or sim.
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// The options that all benchmarks accept.
    #[arg(long, hide = true)]
    bench: bool,
}

/// The approximate time of a batch of launches, so that the clock's error is negligible.
const BATCH: Duration = Duration::from_millis(20);
/// The warm-up of each step before the timing, so that clocks and power are steady.
const WARM_UP: Duration = Duration::from_millis(300);
/// Rows compared with float64.
const ROWS: usize = 16;

fn main() -> ExitCode {
    match run(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> Result<()> {
    let device = open(options.device)?;
    let default: &[&str] =
        if device.is_gpu() { &["4096x4096x4096", "8192x8192x8192"] } else { &["256x512x192"] };
    let default = default.iter().map(|size| size.parse().expect("a size"));
    let sizes = if options.size.is_empty() { default.collect() } else { options.size };
    for &size in &sizes {
        // The last steps have the strictest requirements.
        STEPS.iter().rev().try_for_each(|step| step.check_size(size))?;
    }
    for &size in &sizes {
        measure(&device, size, options.rounds)?;
    }
    Ok(())
}

/// The requested device, which must run the kernels; prints a line if another one replaces it.
fn open(choice: DeviceChoice) -> Result<Device> {
    let device = Device::choose(choice)?;
    if !runs_on(&device) {
        let reason = format!(
            "{} is of architecture {}; the steps are compiled for sm_90a, which H100 and H200 are",
            device.name(),
            device.arch()
        );
        if choice != DeviceChoice::Auto {
            bail!("{reason}; --device sim runs them in the simulator");
        }
        println!("{reason}: they run in the simulator, and nothing is timed");
        return Ok(Device::sim());
    }
    if !device.is_gpu() {
        let reason = device.why_simulated().map(|reason| format!("no GPU ({reason}): ")).unwrap_or_default();
        println!("{reason}the steps run in the simulator, and nothing is timed");
    }
    Ok(device)
}

/// Checks every step, then times all of them in turn; prints a line for each.
fn measure(device: &Device, size: Size, rounds: u32) -> Result<()> {
    println!("\nbf16 tn {size} on {}", device.name());
    let mut product = Product::new(device, size, ROWS, 1)?;
    let mut errors = Vec::new();
    for step in &STEPS {
        let error = product.relative_error(step)?;
        ensure!(
            error < TOLERANCE,
            "{}: the result is off by {error:.1e} in norm; {TOLERANCE:.1e} is let pass",
            step.name
        );
        errors.push(error);
    }
    let times = if device.is_gpu() { times(&mut product, rounds)? } else { vec![None; STEPS.len()] };
    println!("| step | | relative error | median us | TFLOP/s | fastest | slowest |");
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: |");
    for ((step, error), times) in STEPS.iter().zip(errors).zip(times) {
        let told = match times {
            None => "not timed | | |".to_owned(),
            Some(mut times) => {
                times.sort_by(f64::total_cmp);
                let rate = |seconds: f64| size.flops() / seconds / 1e12;
                let median = f64::midpoint(times[(times.len() - 1) / 2], times[times.len() / 2]);
                let (first, last) = (times[0], times[times.len() - 1]);
                format!("{:.1} | {:.0} | {:.0} | {:.0}", 1e6 * median, rate(median), rate(first), rate(last))
            }
        };
        println!("| `{}` | {} | {error:.1e} | {told} |", step.name, step.what);
    }
    Ok(())
}

/// Seconds per launch of each step, in each round; the steps alternate.
fn times(product: &mut Product, rounds: u32) -> Result<Vec<Option<Vec<f64>>>> {
    let mut batches = Vec::new();
    for step in &STEPS {
        let once = batch(product, step, 3)?.max(2e-6);
        let of = |time: Duration| (time.as_secs_f64() / once).ceil().clamp(1.0, 1000.0) as u32;
        batch(product, step, of(WARM_UP))?;
        batches.push(of(BATCH));
    }
    let mut times = vec![Vec::new(); STEPS.len()];
    for _ in 0..rounds {
        for ((step, launches), times) in STEPS.iter().zip(&batches).zip(&mut times) {
            times.push(batch(product, step, *launches)?);
        }
    }
    Ok(times.into_iter().map(Some).collect())
}

/// Seconds per launch, for this number of consecutive launches, by the GPU's clock.
fn batch(product: &mut Product, step: &Step, launches: u32) -> Result<f64> {
    let stream = product.device().default_stream();
    let start = stream.record()?;
    for _ in 0..launches {
        step.launch(product)?;
    }
    Ok(stream.record()?.elapsed_since(&start)?.as_secs_f64() / f64::from(launches))
}
