//! The steps of the ladder on GPU 0, alternating in one process with cuBLAS for the same work, or
//! with the driver's copy of the same number of bytes: tables in Markdown for
//! `docs/guide/ladder.md`.
//!
//! `cargo bench -p moye-bench --bench ladder`. The data is random, and each result is checked
//! before it is timed. A time is the median of the rounds, each a batch of launches, with the clock
//! and the cuBLAS of `moye bench`. Without cuBLAS it measures only the steps, without a GPU
//! nothing.

use anyhow::{Result, ensure};
use cudarc::driver::sys;
use half::f16;
use moye::kernels::mma::{Activation, Arguments, matmul_f16_tn, matmul_tf32_tn};
use moye::kernels::{self, ladder::*};
use moye::{Device, Element, Global, GlobalMut, Grid, Kernel};
use moye_bench::cublas::{Cublas, Gemm};
use moye_bench::timing::in_turn;
use moye_bench::{Kind, Plan};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The tutorial's problem, and one that occupies the whole GPU.
const SHAPES: [(usize, usize, usize); 2] = [(2048, 2048, 256), (4096, 4096, 4096)];
/// Matrices to copy and transpose: one of the size of the L2 cache, and one of 1 GiB.
const MATRICES: [usize; 2] = [4096, 16384];

/// A product's matrices on the device: dense, A as (M, K), B as (N, K), C as (M, N) with M
/// contiguous.
#[derive(Clone, Copy)]
struct Call {
    addresses: [u64; 3],
    shape: (usize, usize, usize),
    /// The leading dimensions of A and B.
    leading: (i64, i64),
}

/// Launches a step.
type Launch = Box<dyn Fn(&Device, &Call) -> moye::Result<()>>;

/// A step and its launch.
struct Work {
    number: &'static str,
    name: &'static str,
    kind: Kind,
    /// Whether K is the contiguous mode of A, and of B.
    along_k: (bool, bool),
    launch: Launch,
}

/// One block of `threads` threads for each tile of C.
fn tiles(m: usize, n: usize, (tile_m, tile_n): (usize, usize), threads: u32) -> Grid {
    Grid::new((m.div_ceil(tile_m) as u32, n.div_ceil(tile_n) as u32), threads)
}

/// Step 1: two strides for each matrix.
type First = Kernel<(Global<f32>, Global<f32>, GlobalMut<f32>, u32, u32, u32, i64, i64, i64, i64, i64, i64)>;

fn first(kernel: First) -> Launch {
    Box::new(move |device, call| {
        let ([a, b, c], (m, n, k), (lda, ldb)) = (call.addresses, call.shape, call.leading);
        let (a, b, c) = (Global::from_address(a), Global::from_address(b), GlobalMut::from_address(c));
        let arguments = (a, b, c, m as u32, n as u32, k as u32, 1, lda, 1, ldb, 1, m as i64);
        // SAFETY: the addresses are of buffers that contain the matrices; one stream.
        unsafe { device.launch(&kernel, tiles(m, n, (128, 128), 256), arguments) }
    })
}

/// Steps 2 to 6: pointers to A, B and C, the extents M, N and K, the leading dimensions.
type Step = Kernel<(Global<f32>, Global<f32>, GlobalMut<f32>, u32, u32, u32, i64, i64, i64)>;

fn step(kernel: Step, tile: (usize, usize), threads: u32) -> Launch {
    Box::new(move |device, call| {
        let ([a, b, c], (m, n, k), (lda, ldb)) = (call.addresses, call.shape, call.leading);
        let (a, b, c) = (Global::from_address(a), Global::from_address(b), GlobalMut::from_address(c));
        let arguments = (a, b, c, m as u32, n as u32, k as u32, lda, ldb, m as i64);
        // SAFETY: the addresses are of buffers that contain the matrices; one stream.
        unsafe { device.launch(&kernel, tiles(m, n, tile, threads), arguments) }
    })
}

/// Step 7, in which N is C's contiguous mode: it computes C's transpose, the product of the swapped
/// operands.
fn multistage<T: Element>(kernel: Kernel<(Arguments<T, T, f32>,)>) -> Launch {
    Box::new(move |device, call| {
        let ([a, b, c], (m, n, k), (lda, ldb)) = (call.addresses, call.shape, call.leading);
        let pointers = (Global::from_address(b), Global::from_address(a), GlobalMut::from_address(c));
        let arguments = Arguments::product(pointers, (n as u32, m as u32, k as u32), (ldb, lda, m as i64));
        let grid = Grid::new((n.div_ceil(256) * m.div_ceil(128)) as u32, 256);
        // SAFETY: buffers of these matrices; extents and addresses are multiples of 16 bytes.
        unsafe { device.launch(&kernel, grid, (arguments,)) }
    })
}

fn steps() -> Vec<Work> {
    let mut steps = vec![Work {
        number: "1",
        name: kernels::matmul_f32_nt.name(),
        kind: Kind::F32,
        along_k: (false, false),
        launch: first(kernels::matmul_f32_nt),
    }];
    const FMA: ((usize, usize), u32) = ((128, 128), 256);
    const TILE: ((usize, usize), u32) = ((16, 8), 32);
    const TF32: ((usize, usize), u32) = ((128, 128), 128);
    steps.extend(
        [
            ("2", ladder_tiled, FMA, (false, false), Kind::F32),
            ("3", ladder_vectorized_64, FMA, (false, false), Kind::F32),
            ("3", ladder_vectorized_128, FMA, (false, false), Kind::F32),
            ("4", ladder_overlapped, FMA, (false, false), Kind::F32),
            ("5", ladder_double_buffered, FMA, (false, false), Kind::F32),
            ("6", ladder_tf32_tile, TILE, (false, true), Kind::Tf32),
            ("6", ladder_tf32_ldmatrix, TILE, (true, true), Kind::Tf32),
            ("6", ladder_tf32_nn, TF32, (false, true), Kind::Tf32),
            ("6", ladder_tf32_tn, TF32, (true, true), Kind::Tf32),
        ]
        .map(|(number, kernel, (tile, threads), along_k, kind)| Work {
            number,
            name: kernel.name(),
            kind,
            along_k,
            launch: step(kernel, tile, threads),
        }),
    );
    steps.extend(
        [
            (matmul_tf32_tn.name(), Kind::Tf32, multistage(matmul_tf32_tn)),
            (matmul_f16_tn.name(), Kind::F16, multistage(matmul_f16_tn)),
        ]
        .map(|(name, kind, launch)| Work { number: "7", name, kind, along_k: (true, true), launch }),
    );
    steps
}

fn main() -> Result<()> {
    // Only `cargo bench` passes `--bench`. `cargo test --all-targets` runs this program too, and
    // minutes on a GPU are not a test.
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
        let mut line = format!("| {} | `{}` |", work.number, work.name);
        for operands in &operands {
            let (ours, theirs) = measured(&device, blas.as_ref().ok(), operands, &work)?;
            line += &match theirs {
                Some(theirs) => format!(" {ours:.1} | {theirs:.1} | {:.2} |", ours / theirs),
                None => format!(" {ours:.1} | | |"),
            };
        }
        println!("{line}");
    }
    println!("\nGB/s, read and written\n");
    let heads = MATRICES.map(|extent| format!("{extent} x {extent} | device copy | ratio")).join(" | ");
    println!("| step | kernel | {heads} |\n| --- | --- |{}", " ---: | ---: | ---: |".repeat(MATRICES.len()));
    for (kernel, transposes) in [
        (ladder_plain_copy, false),
        (kernels::copy, false),
        (kernels::copy_async, false),
        (kernels::transpose, true),
    ] {
        let mut line = format!("| 1 | `{}` |", kernel.name());
        for extent in MATRICES {
            let (ours, theirs) = moved(&device, &kernel, transposes, extent)?;
            line += &format!(" {ours:.0} | {theirs:.0} | {:.2} |", ours / theirs);
        }
        println!("{line}");
    }
    Ok(())
}

/// The copies and transposes of step 1: extents, and the strides of both matrices.
type Move = Kernel<(Global<f32>, GlobalMut<f32>, u32, u32, i64, i64, i64, i64)>;

/// GB/s of a copy or transpose of a square column-major matrix, and of the driver's copy.
fn moved(device: &Device, kernel: &Move, transposes: bool, extent: usize) -> Result<(f64, f64)> {
    let before: Vec<u32> = (0..(extent * extent) as u32).collect();
    let src = device.upload(&before)?;
    let mut dst = device.alloc_uninit::<u32>(before.len())?;
    dst.fill_bytes(0xFF)?;
    let grid = tiles(extent, extent, (32, 32), 256);
    let (from, to) = (src.address(), dst.address());
    let launch = || {
        let (source, destination) = (Global::from_address(from), GlobalMut::from_address(to));
        let (extent, leading) = (extent as u32, extent as i64);
        let arguments = (source, destination, extent, extent, 1, leading, 1, leading);
        // SAFETY: both buffers have extent * extent elements of 4 bytes; one stream.
        unsafe { device.launch(kernel, grid, arguments) }
    };
    launch()?;
    let wrong = dst.download()?.iter().enumerate().position(|(i, &element)| {
        let at = if transposes { i / extent + i % extent * extent } else { i };
        element != before[at]
    });
    ensure!(wrong.is_none(), "{} of {extent} x {extent}: element {wrong:?} is wrong", kernel.name());

    let other = device.alloc_uninit::<u32>(before.len())?;
    let (copied, bytes) = (other.address(), before.len() * size_of::<u32>());
    let stream = device.default_stream().raw_handle()?;
    let mut ours = || Ok(launch()?);
    let mut theirs = || {
        // SAFETY: both addresses are of buffers of `bytes` bytes that outlive the calls; the stream
        // belongs to the device.
        let code = unsafe { sys::cuMemcpyDtoDAsync_v2(copied, from, bytes, stream.cast()) };
        ensure!(code == sys::CUresult::CUDA_SUCCESS, "cuMemcpyDtoDAsync failed with {code:?}");
        Ok(())
    };
    let times = in_turn(device, &Plan::default(), &mut [&mut ours, &mut theirs], &mut || {})?;
    let rate = |seconds: f64| 2.0 * bytes as f64 / seconds / 1e9;
    Ok((rate(times[0].median()), rate(times[1].median())))
}

/// Random values for A and B; each step states which mode is contiguous.
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

/// TFLOP/s of a step, and of cuBLAS.
fn measured(
    device: &Device,
    blas: Option<&Cublas>,
    operands: &Operands,
    work: &Work,
) -> Result<(f64, Option<f64>)> {
    let (m, n, k) = operands.shape;
    let (a, b) =
        (device.upload(&stored(work.kind, &operands.a))?, device.upload(&stored(work.kind, &operands.b))?);
    let bytes = stored(work.kind, &[0.0]).len();
    let mut c = device.alloc_uninit::<u8>(m * n * bytes)?;
    let d = device.alloc_uninit::<u8>(m * n * bytes)?;
    c.fill_bytes(0xFF)?;
    let (lda, ldb) = (if work.along_k.0 { k } else { m }, if work.along_k.1 { k } else { n });
    let call = Call {
        addresses: [a.address(), b.address(), c.address()],
        shape: operands.shape,
        leading: (lda as i64, ldb as i64),
    };
    (work.launch)(device, &call)?;
    check(operands, work, &read(work.kind, &c.download()?));

    let gemm = Gemm {
        kind: work.kind,
        // cuBLAS is column-major: for it an A with K contiguous is transposed, and so is a B with N
        // contiguous.
        transposed: (work.along_k.0, !work.along_k.1),
        m,
        n,
        k,
        addresses: [a.address(), b.address(), d.address()],
        activation: Activation::None,
        bias: None,
    };
    let mut ours = || Ok((work.launch)(device, &call)?);
    let seconds = match blas {
        Some(blas) => {
            // SAFETY: the buffers contain matrices of these extents, and no other work uses `d`.
            let mut theirs = || unsafe { blas.run(&gemm) };
            in_turn(device, &Plan::default(), &mut [&mut ours, &mut theirs], &mut || {})?
        }
        None => in_turn(device, &Plan::default(), &mut [&mut ours], &mut || {})?,
    };
    let teraflops = |seconds: f64| 2.0 * (m as f64) * (n as f64) * (k as f64) / seconds / 1e12;
    Ok((teraflops(seconds[0].median()), seconds.get(1).map(|times| teraflops(times.median()))))
}

/// Compares elements from all of C with float64.
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
    let bound = work.kind.tolerance(k);
    assert!(
        relative < bound,
        "{} of {m} x {n} x {k}: relative error {relative:.1e}; it is not timed",
        work.name
    );
}

/// The bytes of values in the kind's type, f16 or f32.
fn stored(kind: Kind, numbers: &[f32]) -> Vec<u8> {
    match kind {
        Kind::F16 => numbers.iter().flat_map(|&number| f16::from_f32(number).to_le_bytes()).collect(),
        _ => numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
    }
}

/// The inverse of [`stored`].
fn read(kind: Kind, bytes: &[u8]) -> Vec<f32> {
    match kind {
        Kind::F16 => bytes.chunks_exact(2).map(|two| f16::from_le_bytes([two[0], two[1]]).to_f32()).collect(),
        _ => bytes
            .chunks_exact(4)
            .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
            .collect(),
    }
}

/// `len` random values in [-1, 1).
fn numbers(len: usize, seed: u64) -> Vec<f32> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..len).map(|_| rng.random_range(-1.0..1.0)).collect()
}
