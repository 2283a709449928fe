//! Measurements of `moye bench parallel`: products over GPUs beside the product of a rank alone.

use crate::{Form, Group, Operands, ParallelMatmul};
use half::bf16;
use moye_runtime::{Buffer, Device, Matrix, MatrixMut, Result, Stream};
use std::time::Duration;

/// M, N and K of the whole product.
const LARGE: [[usize; 3]; 3] = [[4096, 8192, 8192], [8192, 8192, 8192], [16_384, 16_384, 16_384]];
const FEW: [[usize; 3]; 2] = [[64, 8192, 8192], [1, 8192, 8192]];
/// Calls of a sample (ten times as many with few rows), and the number of samples.
const CALLS: usize = 10;
const SAMPLES: usize = 5;
const REST: Duration = Duration::from_millis(100);

/// A measured product.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Its form.
    pub form: Form,
    /// M, N and K of the whole product, where N or K is that of all ranks' [`share`]s.
    pub extents: [usize; 3],
    /// The time of a rank's product without the exchange, by the caller's [`Plain`] product, in
    /// microseconds.
    pub alone: f64,
    /// The time with the exchange.
    pub time: f64,
    /// TFLOP/s of a rank.
    pub rate: f64,
    /// The kernels.
    pub kernels: String,
}

/// The plain product `c = a b^T` with which products over GPUs are compared, such as
/// `moye::Matmul`: it is issued on the stream.
pub type Plain<'p> =
    &'p dyn Fn(&Stream, Matrix<'_, bf16>, Matrix<'_, bf16>, MatrixMut<'_, bf16>) -> Result<()>;

/// A rank's part of the columns or of K: the same on all ranks and a multiple of 8, so that rows of
/// operands can be loaded by TMA. The parts of all ranks are `extent` or slightly more.
///
/// ```
/// use moye_parallel::measure::share;
/// assert_eq!((share(8192, 2), share(8192, 3)), (4096, 2736));
/// ```
pub fn share(extent: usize, ranks: usize) -> usize {
    extent.div_ceil(ranks).next_multiple_of(8)
}

/// The rows of a rank: they differ by at most one.
fn rows_of(all: usize, rank: usize, ranks: usize) -> usize {
    all / ranks + usize::from(rank < all % ranks)
}

/// Measures products of bf16 on these GPUs and reports each as it is done, beside the `plain`
/// product of the first GPU. The GPUs rest before each sample of ten calls, of a hundred with few
/// rows, so that the card's power limit does not decide.
///
/// # Errors
/// Same as [`ParallelMatmul::run`], and those of `plain`.
pub fn measure(devices: &[Device], plain: Plain<'_>, mut done: impl FnMut(&Measured)) -> Result<()> {
    for form in [Form::AllGather, Form::ReduceScatter, Form::AllReduce] {
        let shapes = if form == Form::AllReduce { &FEW[..] } else { &LARGE[..] };
        for &extents in shapes {
            done(&product(devices, plain, form, extents)?);
        }
    }
    Ok(())
}

/// Measures a product of bf16 whose extents are at least these.
///
/// # Errors
/// Same as [`ParallelMatmul::run`], and those of `plain`.
pub fn product(devices: &[Device], plain: Plain<'_>, form: Form, [m, n, k]: [usize; 3]) -> Result<Measured> {
    let (group, ranks) = (Group::local(devices)?, devices.len());
    let (own, extents) = match form {
        Form::AllGather => ([m, share(n, ranks), k], [m, share(n, ranks) * ranks, k]),
        _ => ([m, n, share(k, ranks)], [m, n, share(k, ranks) * ranks]),
    };
    let [m, n, k] = own;
    let count = if m <= 64 { 10 * CALLS } else { CALLS };
    let alone = {
        let (single, first) = (Group::local(&devices[..1])?, &devices[..1]);
        let (a, b) = (matrices(first, |_| m, k)?, matrices(first, |_| n, k)?);
        let mut c = matrices(first, |_| m, n)?;
        let streams = [devices[0].new_stream()?];
        sampled(&single, &streams, count, || {
            let (a, b) = (Matrix::row_major(&a[0], m, k)?, Matrix::row_major(&b[0], n, k)?);
            plain(&streams[0], a, b, MatrixMut::row_major(&mut c[0], m, n)?)
        })?
    };
    let product = match form {
        Form::AllGather => ParallelMatmul::all_gather(&group, own),
        Form::ReduceScatter => ParallelMatmul::reduce_scatter(&group, own),
        Form::AllReduce => ParallelMatmul::all_reduce(&group, own),
    };
    let product = product.build::<bf16>()?;
    let shard = |rank: usize| rows_of(m, rank, ranks);
    let rows_a = |rank: usize| if form == Form::AllGather { shard(rank) } else { m };
    let rows_c = |rank: usize| if form == Form::ReduceScatter { shard(rank) } else { m };
    let (a, b) = (matrices(devices, rows_a, k)?, matrices(devices, |_| n, k)?);
    let mut c = matrices(devices, rows_c, n)?;
    let streams = devices.iter().map(Device::new_stream).collect::<Result<Vec<Stream>>>()?;
    let time = sampled(&group, &streams, count, || {
        let mut calls = Vec::new();
        for (rank, c) in c.iter_mut().enumerate() {
            let (a, b) = (Matrix::row_major(&a[rank], rows_a(rank), k)?, Matrix::row_major(&b[rank], n, k)?);
            let c = MatrixMut::row_major(c, rows_c(rank), n)?;
            calls.push(Operands { stream: &streams[rank], a, b, c });
        }
        // SAFETY: no other stream uses the matrices.
        unsafe { product.run(&mut calls) }
    })?;
    let rate = 2.0 * (m * n * k) as f64 / time / 1e6;
    Ok(Measured { form, extents, alone, time, rate, kernels: product.explain() })
}

/// Two products of a feed-forward block without its activation, in microseconds, and its extents:
/// tokens, hidden and intermediate elements, of which each rank has a [`share`]. The first gathers,
/// and the second scatters the sums.
///
/// # Errors
/// Same as [`ParallelMatmul::run`].
pub fn feed_forward(devices: &[Device], [tokens, hidden, inner]: [usize; 3]) -> Result<(f64, [usize; 3])> {
    let (group, ranks) = (Group::local(devices)?, devices.len());
    let part = share(inner, ranks);
    let up = ParallelMatmul::all_gather(&group, [tokens, part, hidden]).build::<bf16>()?;
    let down = ParallelMatmul::reduce_scatter(&group, [tokens, hidden, part]).build::<bf16>()?;
    let own = |rank: usize| rows_of(tokens, rank, ranks);
    let (x, b, d) = (
        matrices(devices, own, hidden)?,
        matrices(devices, |_| part, hidden)?,
        matrices(devices, |_| hidden, part)?,
    );
    let (mut y, mut z) = (matrices(devices, |_| tokens, part)?, matrices(devices, own, hidden)?);
    let streams = devices.iter().map(Device::new_stream).collect::<Result<Vec<Stream>>>()?;
    let time = sampled(&group, &streams, CALLS, || {
        let mut calls = Vec::new();
        for (rank, y) in y.iter_mut().enumerate() {
            let a = Matrix::row_major(&x[rank], own(rank), hidden)?;
            let b = Matrix::row_major(&b[rank], part, hidden)?;
            calls.push(Operands { stream: &streams[rank], a, b, c: MatrixMut::row_major(y, tokens, part)? });
        }
        // SAFETY: no other stream uses the matrices.
        unsafe { up.run(&mut calls)? };
        let mut calls = Vec::new();
        for (rank, z) in z.iter_mut().enumerate() {
            let a = Matrix::row_major(&y[rank], tokens, part)?;
            let b = Matrix::row_major(&d[rank], hidden, part)?;
            let c = MatrixMut::row_major(z, own(rank), hidden)?;
            calls.push(Operands { stream: &streams[rank], a, b, c });
        }
        // SAFETY: no other stream uses the matrices.
        unsafe { down.run(&mut calls) }
    })?;
    Ok((time, [tokens, hidden, part * ranks]))
}

/// The rate at which the first device's copy engine sends to the second, in bytes per second.
///
/// # Errors
/// The errors of the driver.
pub fn link(devices: &[Device]) -> Result<f64> {
    const BYTES: usize = 1 << 28;
    let (from, to) = (devices[0].alloc_zeroed::<u8>(BYTES)?, devices[1].alloc_zeroed::<u8>(BYTES)?);
    let group = Group::local(&devices[..2])?;
    let streams = [devices[0].new_stream()?];
    // SAFETY: the buffers have the bytes, and the group has enabled peer access.
    let us =
        sampled(&group, &streams, CALLS, || unsafe { streams[0].copy(to.address(), from.address(), BYTES) })?;
    Ok(BYTES as f64 / us * 1e6)
}

/// A matrix on each device, with a number of rows by rank.
fn matrices(devices: &[Device], rows: impl Fn(usize) -> usize, columns: usize) -> Result<Vec<Buffer<bf16>>> {
    let of = |(rank, device): (usize, &Device)| device.upload(&random(rows(rank) * columns, rank as u64));
    devices.iter().enumerate().map(of).collect()
}

/// The median of samples of `count` calls: microseconds per call on the slowest stream. On
/// simulators it is the time of one call.
fn sampled(
    group: &Group,
    streams: &[Stream],
    count: usize,
    mut call: impl FnMut() -> Result<()>,
) -> Result<f64> {
    let all: Vec<_> = streams.iter().collect();
    let on_gpus = streams.iter().all(|stream| stream.device().is_gpu());
    let (warm, samples, count) = if on_gpus { (3, SAMPLES, count) } else { (0, 1, 1) };
    (0..warm).try_for_each(|_| call())?;
    group.wait(&all)?;
    let mut times = Vec::new();
    for _ in 0..samples {
        if on_gpus {
            std::thread::sleep(REST);
        }
        let starts = streams.iter().map(Stream::record).collect::<Result<Vec<_>>>()?;
        (0..count).try_for_each(|_| call())?;
        let ends = streams.iter().map(Stream::record).collect::<Result<Vec<_>>>()?;
        group.wait(&all)?;
        let times_of = starts.iter().zip(&ends).map(|(start, end)| end.elapsed_since(start));
        let slowest = times_of.collect::<Result<Vec<_>>>()?.into_iter().max().unwrap_or_default();
        times.push(slowest.as_secs_f64() * 1e6 / count as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[samples / 2])
}

/// Values from -1 to 1: a million of them, repeated.
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
