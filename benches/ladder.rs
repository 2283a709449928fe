//! The steps of the ladder on GPU 0, each beside cuBLAS for the same work, in turn, in one process: a table in Markdown, as
//! `docs/guide/ladder.md` has it.
//!
//! `cargo bench --bench ladder`. Random data; each result is checked before it is timed; a time is the median of the rounds, of
//! a batch of launches each, by the clock and the cuBLAS of `moye bench`, which is left out where there is none. Without a GPU
//! there is nothing to measure.

#[path = "../host/cli/bench/cublas.rs"]
#[allow(dead_code, unused_imports, reason = "`moye bench` needs the rest of it, and its tests are run there")]
mod cublas;
#[path = "../host/cli/bench/kind.rs"]
#[allow(dead_code, unused_imports, reason = "likewise")]
mod kind;
#[path = "../host/cli/bench/timing.rs"]
#[allow(dead_code, unused_imports, reason = "likewise")]
mod timing;

use anyhow::Result;
use cublas::{Cublas, Gemm};
use kind::Kind;
use moye::kernels::ladder::*;
use moye::{Buffer, Device, Global, GlobalMut, Grid, Kernel};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use timing::{Plan, in_turn};

/// The tutorial's problem, and one that fills the machine.
const SHAPES: [(usize, usize, usize); 2] = [(2048, 2048, 256), (4096, 4096, 4096)];

/// A step's kernel: pointers to A, B and C, the extents M, N and K, the leading dimensions.
type Step = Kernel<(Global<f32>, Global<f32>, GlobalMut<f32>, u32, u32, u32, i64, i64, i64)>;

/// A step, and what it is launched with.
struct Work {
    number: &'static str,
    step: Step,
    /// The tile of C, and the threads of a block.
    block: ((usize, usize), u32),
    /// Whether K is the fast axis of A, and of B.
    along_k: (bool, bool),
    tf32: bool,
}

fn steps() -> Vec<Work> {
    const FMA: ((usize, usize), u32) = ((128, 128), 256);
    const TILE: ((usize, usize), u32) = ((16, 8), 32);
    const TF32: ((usize, usize), u32) = ((128, 128), 128);
    [
        ("2", ladder_tiled, FMA, (false, false), false),
        ("3", ladder_vectorized_64, FMA, (false, false), false),
        ("3", ladder_vectorized_128, FMA, (false, false), false),
        ("4", ladder_overlapped, FMA, (false, false), false),
        ("5", ladder_double_buffered, FMA, (false, false), false),
        ("6", ladder_tf32_tile, TILE, (false, true), true),
        ("6", ladder_tf32_ldmatrix, TILE, (true, true), true),
        ("6", ladder_tf32_nn, TF32, (false, true), true),
        ("6", ladder_tf32_tn, TF32, (true, true), true),
    ]
    .map(|(number, step, block, along_k, tf32)| Work { number, step, block, along_k, tf32 })
    .into()
}

fn main() -> Result<()> {
    // `cargo bench` says so. `cargo test --all-targets` runs this program too, and minutes on a GPU are no test.
    if !std::env::args().skip(1).any(|argument| argument == "--bench") {
        println!("nothing is measured without --bench, which `cargo bench` passes");
        return Ok(());
    }
    let device = match Device::gpu(0) {
        Ok(device) => device,
        Err(reason) => {
            println!("nothing to measure: {reason}");
            return Ok(());
        }
    };
    let blas = Cublas::open(&device);
    if let Err(reason) = &blas {
        println!("without cuBLAS: {reason:#}");
    }
    println!("{}; TFLOP/s, medians of {} rounds\n", device.name(), Plan::default().rounds);
    let heads = SHAPES.map(|(m, n, k)| format!("{m} x {n} x {k} | cuBLAS | ratio")).join(" | ");
    println!("| step | kernel | {heads} |\n| --- | --- |{}", " ---: | ---: | ---: |".repeat(SHAPES.len()));
    let operands = SHAPES.map(Operands::new);
    for work in steps() {
        let mut line = format!("| {} | `{}` |", work.number, work.step.name());
        for operands in &operands {
            let (ours, theirs) = measured(&device, blas.as_ref().ok(), operands, &work)?;
            line += &match theirs {
                Some(theirs) => format!(" {ours:.1} | {theirs:.1} | {:.2} |", ours / theirs),
                None => format!(" {ours:.1} | | |"),
            };
        }
        println!("{line}");
    }
    Ok(())
}

/// Random numbers for A and B; which axis they lie along each step says for itself.
struct Operands {
    shape: (usize, usize, usize),
    a: Vec<f32>,
    b: Vec<f32>,
}

impl Operands {
    fn new((m, n, k): (usize, usize, usize)) -> Self {
        Self { shape: (m, n, k), a: numbers(m * k, 1), b: numbers(n * k, 2) }
    }
}

/// TFLOP/s of a step, and of cuBLAS beside it.
fn measured(
    device: &Device,
    blas: Option<&Cublas>,
    operands: &Operands,
    work: &Work,
) -> Result<(f64, Option<f64>)> {
    let (m, n, k) = operands.shape;
    let (a, b) = (device.upload(&operands.a)?, device.upload(&operands.b)?);
    let mut c = device.alloc_uninit::<f32>(m * n)?;
    let d = device.alloc_uninit::<f32>(m * n)?;
    c.fill_bytes(0xFF)?;
    let ((tile_m, tile_n), threads) = work.block;
    let grid = Grid::new((m.div_ceil(tile_m) as u32, n.div_ceil(tile_n) as u32), threads);
    let (lda, ldb) = (if work.along_k.0 { k } else { m }, if work.along_k.1 { k } else { n });
    let launch = |c: &mut Buffer<f32>| {
        let arguments = (&a, &b, c, m as u32, n as u32, k as u32, lda as i64, ldb as i64, m as i64);
        // SAFETY: the buffers hold the matrices with these leading dimensions; one stream.
        unsafe { device.launch(&work.step, grid, arguments) }
    };
    launch(&mut c)?;
    check(operands, work, &c.download()?);

    let gemm = Gemm {
        kind: if work.tf32 { Kind::Tf32 } else { Kind::F32 },
        // A whose K is fast is transposed to cuBLAS, which counts columns first, and so is B whose N is.
        transposed: (work.along_k.0, !work.along_k.1),
        m,
        n,
        k,
        addresses: [a.address(), b.address(), d.address()],
    };
    let mut ours = || Ok(launch(&mut c)?);
    let seconds = match blas {
        Some(blas) => {
            // SAFETY: the buffers hold matrices of these extents, and nothing else uses `d`.
            let mut theirs = || unsafe { blas.run(&gemm) };
            in_turn(device, &Plan::default(), &mut [&mut ours, &mut theirs], &mut || {})?
        }
        None => in_turn(device, &Plan::default(), &mut [&mut ours], &mut || {})?,
    };
    let teraflops = |seconds: f64| 2.0 * (m as f64) * (n as f64) * (k as f64) / seconds / 1e12;
    Ok((teraflops(seconds[0].median()), seconds.get(1).map(|times| teraflops(times.median()))))
}

/// Holds some elements from everywhere against float64.
fn check(operands: &Operands, work: &Work, c: &[f32]) {
    let (m, n, k) = operands.shape;
    let at = |elements: &[f32], rows: usize, along_k: bool, i: usize, l: usize| {
        f64::from(elements[if along_k { i * k + l } else { i + l * rows }])
    };
    let (mut error, mut norm) = (0.0, 0.0);
    for sample in 0..500 {
        let (i, j) = (sample * 7919 % m, sample * 104_729 % n);
        let dot: f64 = (0..k)
            .map(|l| at(&operands.a, m, work.along_k.0, i, l) * at(&operands.b, n, work.along_k.1, j, l))
            .sum();
        error += (f64::from(c[i + j * m]) - dot).powi(2);
        norm += dot * dot;
    }
    let relative = (error / norm).sqrt();
    let bound = if work.tf32 { 2e-3 } else { 1e-5 };
    assert!(
        relative < bound,
        "{} of {m} x {n} x {k}: relative error {relative:.1e}, so its time means nothing",
        work.step.name()
    );
}

/// So many random numbers of [-1, 1).
fn numbers(len: usize, seed: u64) -> Vec<f32> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..len).map(|_| rng.random_range(-1.0..1.0)).collect()
}
