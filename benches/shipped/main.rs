//! The shipped kernels on GPU 0, each beside NVIDIA's own code for the same work, in turn, in one process: matmul
//! beside cuBLAS, copy and transpose beside the driver's device-to-device copy.
//!
//! `cargo bench --bench shipped [-- --json]`. Random data; each result is checked before it is timed; a time is the
//! median of the rounds, of a batch of launches each. cuBLAS is opened at run time (`MOYE_CUBLAS` names the library,
//! `libcublas.so.13` or `.12` otherwise) and left out where there is none. Without a GPU there is nothing to measure.

mod movement;
mod nvidia;
mod product;
mod timing;

use moye::{Device, Result};
use nvidia::Cublas;
use serde_json::json;
use timing::ROUNDS;

/// One line of the table.
struct Line {
    work: String,
    unit: &'static str,
    ours: f64,
    other: Option<(&'static str, f64)>,
}

fn main() -> Result<()> {
    let given = |name: &str| std::env::args().skip(1).any(|argument| argument == name);
    // `cargo bench` says so. `cargo test --all-targets` runs this program too, and minutes on a GPU are no test.
    if !given("--bench") {
        println!("nothing is measured without --bench, which `cargo bench` passes");
        return Ok(());
    }
    let json = given("--json");
    let device = match Device::gpu(0) {
        Ok(device) => device,
        Err(reason) => {
            println!("nothing to measure: {reason}");
            return Ok(());
        }
    };
    let blas = Cublas::open();
    let mut lines = Vec::new();
    for n in [1024, 4096, 16384] {
        lines.push(movement::line(&device, "copy", n)?);
        lines.push(movement::line(&device, "transpose", n)?);
    }
    for (m, n, k) in [
        (2048, 2048, 256),
        (1024, 1024, 1024),
        (2048, 2048, 2048),
        (4096, 4096, 4096),
        (8192, 8192, 8192),
        (4095, 4097, 4103),
    ] {
        for major in ["nt", "nn", "tt", "tn"] {
            if major == "nt" || m == 4096 {
                lines.push(product::single(&device, blas.as_ref(), (m, n, k), major)?);
            }
        }
    }
    for (m, n, k) in
        [(2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (4096, 4096, 4104), (4000, 4088, 4096)]
    {
        lines.push(product::half(&device, blas.as_ref(), (m, n, k))?);
    }
    report(&device, &lines, json);
    Ok(())
}

fn report(device: &Device, lines: &[Line], json: bool) {
    if json {
        let lines: Vec<_> = lines
            .iter()
            .map(|l| json!({"work": l.work, "unit": l.unit, "ours": l.ours, "other": l.other.map(|o| o.0), "theirs": l.other.map(|o| o.1)}))
            .collect();
        println!("{}", json!({"device": device.name(), "lines": lines}));
        return;
    }
    println!("{}; medians of {ROUNDS} rounds", device.name());
    println!("{:<34} {:>10} {:>10}  {:<24} {:>6}", "work", "moye", "other", "", "ratio");
    for line in lines {
        let (name, theirs, ratio) =
            line.other.map_or(("none", "-".to_owned(), "-".to_owned()), |(name, value)| {
                (name, format!("{value:.1}"), format!("{:.2}", line.ours / value))
            });
        println!(
            "{:<34} {:>10.1} {:>10}  {:<24} {:>6}",
            line.work,
            line.ours,
            theirs,
            format!("{} ({name})", line.unit),
            ratio
        );
    }
}
