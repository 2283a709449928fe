//! Measures parallel products on all GPUs of this machine, or on some of them and with one M:
//! `cargo run --release -p moye-parallel --example measure [GPUS [M]]`.
//!
//! "alone" is the product of a rank without the exchange, by the same kernels. Each sample of ten
//! calls, of a hundred with few rows, is after a rest, so that the card's limit of power does not
//! decide.
//! `benches/peers/parallel.py` is PyTorch's side.

use moye::half::bf16;
use moye::{Buffer, Device, Matrix, MatrixMut, Result, Stream};
use moye_parallel::{Form, Group, Operands, ParallelMatmul, ParallelMatmulBuilder};
use std::time::Duration;

/// M, N and K of the whole product.
const LARGE: [[usize; 3]; 3] = [[4096, 8192, 8192], [8192, 8192, 8192], [16_384, 16_384, 16_384]];
const FEW: [[usize; 3]; 2] = [[64, 8192, 8192], [1, 8192, 8192]];
/// Calls of a sample, ten times as many with few rows, and samples.
const CALLS: usize = 10;
const SAMPLES: usize = 5;
const REST: Duration = Duration::from_millis(100);

fn main() -> Result<()> {
    let count = Device::gpu_count()?;
    let world = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(count);
    let only: Option<usize> = std::env::args().nth(2).and_then(|text| text.parse().ok());
    let devices = (0..world).map(Device::gpu).collect::<Result<Vec<_>>>()?;
    let (group, single) = (Group::local(&devices)?, Group::local(&devices[..1])?);
    let ranks = devices.len();
    println!("form,m,n,k,ranks,alone us,us,TFLOP/s of a rank,kernels");
    for form in [Form::AllGather, Form::ReduceScatter, Form::AllReduce] {
        let shapes = if form == Form::AllReduce { &FEW[..] } else { &LARGE[..] };
        for &[m, n, k] in shapes.iter().filter(|shape| only.is_none_or(|m| m == shape[0])) {
            let own = if form == Form::AllGather { [m, n / ranks, k] } else { [m, n, k / ranks] };
            let alone =
                time(&single, &devices[..1], ParallelMatmul::all_gather(&single, own), Form::AllGather, own)?
                    .0;
            let builder = match form {
                Form::AllGather => ParallelMatmul::all_gather(&group, own),
                Form::ReduceScatter => ParallelMatmul::reduce_scatter(&group, own),
                Form::AllReduce => ParallelMatmul::all_reduce(&group, own),
            };
            let (us, explained) = time(&group, &devices, builder, form, own)?;
            let rate = 2.0 * (own[0] * own[1] * own[2]) as f64 / us / 1e6;
            println!("{form:?},{m},{n},{k},{ranks},{alone:.1},{us:.1},{rate:.0},{explained}");
        }
    }
    Ok(())
}

/// The median of samples in microseconds, each the time of the slowest rank.
fn time(
    group: &Group,
    devices: &[Device],
    builder: ParallelMatmulBuilder<'_>,
    form: Form,
    [m, n, k]: [usize; 3],
) -> Result<(f64, String)> {
    let product = builder.build::<bf16>()?;
    let ranks = devices.len();
    let (rows_a, rows_c) = match form {
        Form::AllGather => (m / ranks, m),
        Form::ReduceScatter => (m, m / ranks),
        Form::AllReduce => (m, m),
    };
    let matrices = |rows: usize, columns: usize| -> Result<Vec<Buffer<bf16>>> {
        devices
            .iter()
            .enumerate()
            .map(|(rank, device)| device.upload(&random(rows * columns, rank as u64)))
            .collect()
    };
    let (a, b, mut c) = (matrices(rows_a, k)?, matrices(n, k)?, matrices(rows_c, n)?);
    let streams = devices.iter().map(Device::new_stream).collect::<Result<Vec<Stream>>>()?;
    let all: Vec<_> = streams.iter().collect();
    let mut call = || {
        let mut calls = Vec::new();
        for (rank, c) in c.iter_mut().enumerate() {
            calls.push(Operands {
                stream: &streams[rank],
                a: Matrix::row_major(&a[rank], rows_a, k)?,
                b: Matrix::row_major(&b[rank], n, k)?,
                c: MatrixMut::row_major(c, rows_c, n)?,
            });
        }
        // SAFETY: no other stream uses the matrices.
        unsafe { product.run(&mut calls) }
    };
    for _ in 0..3 {
        call()?;
    }
    group.wait(&all)?;
    let count = if m <= 64 { 10 * CALLS } else { CALLS };
    let mut times = Vec::new();
    for _ in 0..SAMPLES {
        std::thread::sleep(REST);
        let starts = streams.iter().map(Stream::record).collect::<Result<Vec<_>>>()?;
        (0..count).try_for_each(|_| call())?;
        let ends = streams.iter().map(Stream::record).collect::<Result<Vec<_>>>()?;
        group.wait(&all)?;
        let times_of = starts.iter().zip(&ends).map(|(start, end)| end.elapsed_since(start));
        let slowest = times_of.collect::<Result<Vec<_>>>()?.into_iter().max().unwrap_or_default();
        times.push(slowest.as_secs_f64() * 1e6 / count as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok((times[SAMPLES / 2], product.explain().replace(',', ";")))
}

/// Values from -1 to 1: a million, again and again.
fn random(count: usize, seed: u64) -> Vec<bf16> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bf16::from_f64((state >> 40) as f64 / f64::from(1 << 23) - 1.0)
    };
    let block: Vec<_> = (0..1_000_003).map(|_| next()).collect();
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        all.extend_from_slice(&block[..block.len().min(count - all.len())]);
    }
    all
}
