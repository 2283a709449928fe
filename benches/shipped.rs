//! The shipped kernels on GPU 0, each beside NVIDIA's own code for the same work, in turn, in one process: matmul
//! beside cuBLAS, copy and transpose beside the driver's device-to-device copy.
//!
//! `cargo bench --bench shipped [-- --json]`. Random data; each result is checked before it is timed; a time is the
//! median of the rounds, of a batch of launches each. cuBLAS is opened at run time (`MOYE_CUBLAS` names the library,
//! `libcublas.so.13` or `.12` otherwise) and left out where there is none. Without a GPU there is nothing to measure.

mod support;

use half::f16;
use libloading::Library;
use moye::{Buffer, Device, Grid, Matrix, MatrixMut, Result, copy, kernels, matmul, transpose};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use std::ffi::{c_int, c_void};
use support::cublas::Cublas;
use support::{ROUNDS, in_turn, teraflops};

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
        lines.push(movement(&device, "copy", n)?);
        lines.push(movement(&device, "transpose", n)?);
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
                lines.push(product(&device, blas.as_ref(), (m, n, k), major)?);
            }
        }
    }
    for (m, n, k) in
        [(2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (4096, 4096, 4104), (4000, 4088, 4096)]
    {
        lines.push(half_product(&device, blas.as_ref(), (m, n, k))?);
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

fn random(device: &Device, len: usize, seed: u64) -> Result<Buffer<f32>> {
    let mut rng = StdRng::seed_from_u64(seed);
    let elements: Vec<f32> = (0..len).map(|_| rng.random_range(-1.0..1.0)).collect();
    device.upload(&elements)
}

/// An `n x n` f32 matrix moved, in GB/s read and written.
fn movement(device: &Device, name: &str, n: usize) -> Result<Line> {
    let src = random(device, n * n, n as u64)?;
    let mut dst = device.alloc_uninit::<f32>(n * n)?;
    let mut other = device.alloc_uninit::<f32>(n * n)?;
    dst.fill_bytes(0xFF)?;
    let from = Matrix::col_major(&src, n, n)?;
    let (from_address, to_address) = (src.address(), other.address());
    let seconds = {
        let mut to = MatrixMut::col_major(&mut dst, n, n)?;
        let mut ours =
            || if name == "copy" { copy(device, &from, &mut to) } else { transpose(device, &from, &mut to) };
        let mut theirs = driver_copy(to_address, from_address, n * n * size_of::<f32>());
        in_turn(device, &mut [&mut ours, &mut theirs])?
    };
    other.fill_bytes(0)?;
    let (before, after) = (src.download()?, dst.download()?);
    for i in (0..n * n).step_by(997) {
        let (row, col) = (i % n, i / n);
        let expected = if name == "copy" { before[i] } else { before[col + row * n] };
        assert_eq!(
            after[i], expected,
            "{name} of {n} x {n}: element {i} is wrong, so its time means nothing"
        );
    }
    let rate = |seconds: f64| 2.0 * (n * n * size_of::<f32>()) as f64 / seconds / 1e9;
    Ok(Line {
        work: format!("{name} {n} x {n} f32"),
        unit: "GB/s",
        ours: rate(seconds[0]),
        other: Some(("device copy", rate(seconds[1]))),
    })
}

/// A product, in TFLOP/s. `major` is n or t for A (M or K is fast) and t or n for B (N or K is fast), as BLAS has them.
fn product(
    device: &Device,
    blas: Option<&Cublas>,
    (m, n, k): (usize, usize, usize),
    major: &str,
) -> Result<Line> {
    let (a, b) = (random(device, m * k, 1)?, random(device, k * n, 2)?);
    let mut c = device.alloc_uninit::<f32>(m * n)?;
    let mut d = device.alloc_uninit::<f32>(m * n)?;
    c.fill_bytes(0xFF)?;
    let (a_transposed, b_transposed) = (major.starts_with('t'), major.ends_with('t'));
    let a_view = if a_transposed { Matrix::row_major(&a, m, k)? } else { Matrix::col_major(&a, m, k)? };
    let b_view = if b_transposed { Matrix::row_major(&b, k, n)? } else { Matrix::col_major(&b, k, n)? };
    let addresses = [a.address(), b.address(), d.address()];
    let seconds = {
        let mut c_view = MatrixMut::col_major(&mut c, m, n)?;
        let mut ours = || matmul(device, &a_view, &b_view, &mut c_view).map(drop);
        match blas {
            Some(blas) => {
                let mut theirs = || {
                    blas.sgemm((a_transposed, b_transposed), (m, n, k), addresses);
                    Ok(())
                };
                in_turn(device, &mut [&mut ours, &mut theirs])?
            }
            None => in_turn(device, &mut [&mut ours])?,
        }
    };
    // Against float64, on some elements from everywhere.
    let (a, b, result) = (a.download()?, b.download()?, c.download()?);
    let (mut error, mut norm) = (0.0, 0.0);
    for sample in 0..500 {
        let (i, j) = (sample * 7919 % m, sample * 104_729 % n);
        let dot: f64 = (0..k)
            .map(|l| {
                let x = if a_transposed { a[i * k + l] } else { a[i + l * m] };
                let y = if b_transposed { b[l * n + j] } else { b[l + j * k] };
                f64::from(x) * f64::from(y)
            })
            .sum();
        error += (f64::from(result[i + j * m]) - dot).powi(2);
        norm += dot * dot;
    }
    let relative = (error / norm).sqrt();
    assert!(
        relative < 1e-5,
        "{m} x {n} x {k} {major}: relative error {relative:.1e}, so its time means nothing"
    );
    d.fill_bytes(0)?;
    let rate = |seconds: f64| teraflops((m, n, k), seconds);
    Ok(Line {
        work: format!("matmul f32 {m} x {n} x {k} {major}"),
        unit: "TFLOP/s",
        ours: rate(seconds[0]),
        other: seconds.get(1).map(|&s| ("cuBLAS", rate(s))),
    })
}

/// A product of f16 with sums in f32 on tensor cores, in TFLOP/s: A and B with K contiguous, C with N.
fn half_product(device: &Device, blas: Option<&Cublas>, (m, n, k): (usize, usize, usize)) -> Result<Line> {
    let halves = |len: usize, seed: u64| {
        let mut rng = StdRng::seed_from_u64(seed);
        (0..len).map(|_| f16::from_f32(rng.random_range(-1.0..1.0))).collect::<Vec<_>>()
    };
    let (host_a, host_b) = (halves(m * k, 1), halves(n * k, 2));
    let (a, b) = (device.upload(&host_a)?, device.upload(&host_b)?);
    let mut c = device.alloc_uninit::<f16>(m * n)?;
    let d = device.alloc_uninit::<f16>(m * n)?;
    c.fill_bytes(0xFF)?;
    let grid = Grid::new((m.div_ceil(128) * n.div_ceil(256)) as u32, 256);
    let addresses = [a.address(), b.address(), d.address()];
    let seconds = {
        let (ld, ldc) = (k as i64, n as i64);
        let mut ours = || {
            let arguments = (&a, &b, &mut c, m as u32, n as u32, k as u32, ld, ld, ldc);
            // SAFETY: the buffers hold the matrices; one stream.
            unsafe { device.launch(&kernels::mma::matmul_f16_tn, grid, arguments) }
        };
        match blas {
            Some(blas) => {
                let mut theirs = || {
                    blas.half((m, n, k), addresses);
                    Ok(())
                };
                in_turn(device, &mut [&mut ours, &mut theirs])?
            }
            None => in_turn(device, &mut [&mut ours])?,
        }
    };
    let result = c.download()?;
    let (mut error, mut norm) = (0.0, 0.0);
    for sample in 0..500 {
        let (i, j) = (sample * 7919 % m, sample * 104_729 % n);
        let dot: f64 = (0..k).map(|l| f64::from(host_a[i * k + l]) * f64::from(host_b[j * k + l])).sum();
        error += (f64::from(result[i * n + j]) - dot).powi(2);
        norm += dot * dot;
    }
    let relative = (error / norm).sqrt();
    assert!(relative < 1e-3, "f16 {m} x {n} x {k}: relative error {relative:.1e}, so its time means nothing");
    let rate = |seconds: f64| teraflops((m, n, k), seconds);
    Ok(Line {
        work: format!("matmul f16 {m} x {n} x {k} tn"),
        unit: "TFLOP/s",
        ours: rate(seconds[0]),
        other: seconds.get(1).map(|&s| ("cuBLAS", rate(s))),
    })
}

/// The driver's own copy of `bytes` bytes.
fn driver_copy(to: u64, from: u64, bytes: usize) -> impl FnMut() -> Result<()> {
    type CopyAsync = unsafe extern "C" fn(u64, u64, usize, *mut c_void) -> c_int;
    // SAFETY: a library with ordinary initialisers, already open.
    let driver = unsafe { Library::new("libcuda.so.1") }.expect("there is a GPU, so there is a driver");
    // SAFETY: the function's type is that of the driver's header.
    let function =
        unsafe { *driver.get::<CopyAsync>(b"cuMemcpyDtoDAsync_v2\0").expect("every driver has it") };
    move || {
        let _open = &driver;
        // SAFETY: both addresses are of buffers of at least `bytes` bytes that live on.
        let code = unsafe { function(to, from, bytes, std::ptr::null_mut()) };
        assert_eq!(code, 0, "cuMemcpyDtoDAsync failed");
        Ok(())
    }
}
