//! Checks and times the kernels on a Hopper GPU: `hopper-attention [check] [time]`, both without an argument.

use hopper_attention::attention::hopper_config::*;
use hopper_attention::gpu::Gpu;
use hopper_attention::host::{Entry, PTX, Parameters, Problem, bytes, elements, errors, random};
use moye_device::atom::tma::TmaMap;
use moye_device::memory::Element as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let wants = |name: &str| asked.is_empty() || asked.iter().any(|word| word == name);
    let result = (|| {
        let gpu = Gpu::new(PTX[0].1)?;
        println!("{} multiprocessors", gpu.multiprocessors);
        if wants("check") {
            check(&gpu)?;
        }
        if wants("time") {
            time(&gpu)?;
        }
        Ok::<(), String>(())
    })();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a problem; compares `rows` rows with float64; times it for a while, where that is asked for.
fn run<C: Entry>(gpu: &Gpu, problem: &Problem, rows: u32, timed: bool) -> Result<(), String> {
    let [of_q, of_k] = problem.sizes();
    let (q, k, v) = (random::<C::T>(1, of_q), random::<C::T>(2, of_k), random::<C::T>(3, of_k));
    let lse_bytes = 4 * of_q / problem.d as usize;
    let o_bytes = C::T::BYTES * of_q;
    let addresses = [
        gpu.upload(&bytes(&q))?,
        gpu.upload(&bytes(&k))?,
        gpu.upload(&bytes(&v))?,
        gpu.upload(&vec![0xFF; o_bytes])?,
    ];
    let lse = gpu.upload(&vec![0xFF; lse_bytes])?;
    let maps = problem.maps::<C>(addresses);
    let (arguments, tiles) = problem.arguments::<C>(addresses[3], lse);
    let parameters: Parameters<C> = (
        TmaMap::from_words(gpu.encode(&maps[0])?),
        TmaMap::from_words(gpu.encode(&maps[1])?),
        TmaMap::from_words(gpu.encode(&maps[2])?),
        TmaMap::from_words(gpu.encode(&maps[3])?),
        arguments,
        problem.section::<C>(gpu.multiprocessors),
    );
    let shared = C::KERNEL.shared_bytes();
    let kernel = gpu.kernel(C::KERNEL.name(), shared)?;
    let shape = (gpu.multiprocessors.min(tiles), C::THREADS, shared);
    // SAFETY: the maps and arguments are of memory of these sizes.
    let launch = || unsafe { gpu.launch(kernel, shape, &parameters) };
    launch()?;
    let o = elements::<C::T>(&gpu.download(addresses[3], o_bytes)?);
    let lse_values = elements::<f32>(&gpu.download(lse, lse_bytes)?);
    let (error, logarithm) = errors(problem, [&q, &k, &v], (&o, &lse_values), rows)?;
    let Problem { batches, heads, lengths, d, causal } = problem;
    let what = format!(
        "{:<24} B {batches} H {}/{} S {}x{} D {d}{}",
        C::KERNEL.name(),
        heads[0],
        heads[1],
        lengths[0],
        lengths[1],
        if *causal { " causal" } else { "" }
    );
    let wrong = if error > 0.006 || logarithm > 1e-3 { "  WRONG" } else { "" };
    let mut rate = String::new();
    if timed {
        let start = Instant::now();
        let mut once = gpu.milliseconds(launch)?;
        while start.elapsed() < Duration::from_millis(60) {
            once = gpu.milliseconds(launch)?;
        }
        let batch = (20.0 / once).ceil().max(1.0) as u32;
        let mut times = Vec::new();
        for _ in 0..11 {
            let all = gpu.milliseconds(|| (0..batch).try_for_each(|_| launch()))?;
            times.push(all / batch as f32);
        }
        times.sort_by(f32::total_cmp);
        let median = f64::from(times[times.len() / 2]) * 1e-3;
        rate = format!("  {:7.1} us  {:6.1} TFLOP/s", median * 1e6, problem.flops() / median * 1e-12);
    }
    println!("{what}: error {error:.1e}, logarithm {logarithm:.1e}{wrong}{rate}");
    for address in addresses.into_iter().chain([lse]) {
        gpu.free(address)?;
    }
    Ok(())
}

/// Runs a problem by the kernel for its head size.
fn dispatch(gpu: &Gpu, problem: &Problem, rows: u32, timed: bool) -> Result<(), String> {
    match (problem.d, problem.causal) {
        (64, _) => run::<Bf16D64>(gpu, problem, rows, timed),
        // Where few tiles of keys follow each other, the smaller ones waste less.
        (128, false) if problem.lengths[1] > 2048 => run::<Bf16D128>(gpu, problem, rows, timed),
        (128, _) => run::<Bf16D128Causal>(gpu, problem, rows, timed),
        _ => run::<Bf16D256>(gpu, problem, rows, timed),
    }
}

fn check(gpu: &Gpu) -> Result<(), String> {
    for d in [64, 128, 256] {
        for causal in [false, true] {
            for (batches, heads, lengths) in [
                (1, [1, 1], [64, 64]),
                (1, [1, 1], [1, 1]),
                (2, [4, 2], [200, 333]),
                (3, [2, 1], [1000, 100]),
                (2, [8, 8], [1024, 1024]),
                (1, [3, 3], [777, 2049]),
            ] {
                dispatch(gpu, &Problem { batches, heads, lengths, d, causal }, 4000, false)?;
            }
        }
    }
    let problem = Problem { batches: 2, heads: [4, 2], lengths: [500, 700], d: 128, causal: true };
    run::<F16D128Causal>(gpu, &problem, 4000, false)
}

fn time(gpu: &Gpu) -> Result<(), String> {
    for d in [64, 128, 256] {
        for s in [1024, 4096, 16384] {
            for causal in [false, true] {
                let heads = 2048 / d;
                let problem = Problem { batches: 16384 / s, heads: [heads; 2], lengths: [s; 2], d, causal };
                dispatch(gpu, &problem, 4, true)?;
            }
        }
    }
    Ok(())
}
