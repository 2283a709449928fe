//! Matrix products, beside cuBLAS.

use crate::Line;
use crate::nvidia::Cublas;
use crate::timing::{in_turn, numbers};
use half::f16;
use moye::{Device, Matrix, MatrixMut, Result, matmul};

/// M, N and K.
type Shape = (usize, usize, usize);

/// A product in f32, in TFLOP/s. `major` is n or t for A (M or K is fast) and t or n for B (N or K is fast), as BLAS has them.
pub fn single(device: &Device, blas: Option<&Cublas>, shape: Shape, major: &str) -> Result<Line> {
    let (m, n, k) = shape;
    let (host_a, host_b) = (numbers(m * k, 1), numbers(k * n, 2));
    let (a, b) = (device.upload(&host_a)?, device.upload(&host_b)?);
    let mut c = device.alloc_uninit::<f32>(m * n)?;
    let d = device.alloc_uninit::<f32>(m * n)?;
    c.fill_bytes(0xFF)?;
    let (a_transposed, b_transposed) = (major.starts_with('t'), major.ends_with('t'));
    let a_view = if a_transposed { Matrix::row_major(&a, m, k)? } else { Matrix::col_major(&a, m, k)? };
    let b_view = if b_transposed { Matrix::row_major(&b, k, n)? } else { Matrix::col_major(&b, k, n)? };
    let addresses = [a.address(), b.address(), d.address()];
    let seconds = {
        let mut c_view = MatrixMut::col_major(&mut c, m, n)?;
        let mut ours = || matmul(device, &a_view, &b_view, &mut c_view);
        beside(device, &mut ours, blas, |blas| blas.sgemm((a_transposed, b_transposed), shape, addresses))?
    };
    let work = format!("matmul f32 {m} x {n} x {k} {major}");
    let result = c.download()?;
    let element = |data: &[f32], at: usize| f64::from(data[at]);
    assert_product(
        &work,
        1e-5,
        shape,
        |i, l| element(&host_a, if a_transposed { i * k + l } else { i + l * m }),
        |l, j| element(&host_b, if b_transposed { l * n + j } else { l + j * k }),
        |i, j| element(&result, i + j * m),
    );
    Ok(line(work, shape, &seconds))
}

/// A product of f16 with sums in f32 on tensor cores, in TFLOP/s: A and B with K contiguous, C with N.
pub fn half(device: &Device, blas: Option<&Cublas>, shape: Shape) -> Result<Line> {
    let (m, n, k) = shape;
    let halves = |len, seed| numbers(len, seed).into_iter().map(f16::from_f32).collect::<Vec<_>>();
    let (host_a, host_b) = (halves(m * k, 1), halves(n * k, 2));
    let (a, b) = (device.upload(&host_a)?, device.upload(&host_b)?);
    let mut c = device.alloc_uninit::<f16>(m * n)?;
    let d = device.alloc_uninit::<f16>(m * n)?;
    c.fill_bytes(0xFF)?;
    let addresses = [a.address(), b.address(), d.address()];
    let (a_view, b_view) = (Matrix::row_major(&a, m, k)?, Matrix::col_major(&b, k, n)?);
    let mut c_view = MatrixMut::row_major(&mut c, m, n)?;
    let mut ours = || matmul(device, &a_view, &b_view, &mut c_view);
    let seconds = beside(device, &mut ours, blas, |blas| blas.half(shape, addresses))?;
    let work = format!("matmul f16 {m} x {n} x {k} tn");
    let result = c.download()?;
    let element = |data: &[f16], at: usize| f64::from(data[at]);
    assert_product(
        &work,
        1e-3,
        shape,
        |i, l| element(&host_a, i * k + l),
        |l, j| element(&host_b, j * k + l),
        |i, j| element(&result, i * n + j),
    );
    Ok(line(work, shape, &seconds))
}

/// Seconds of one run of ours and, where it is there, of cuBLAS.
fn beside(
    device: &Device,
    ours: &mut dyn FnMut() -> Result<()>,
    blas: Option<&Cublas>,
    theirs: impl Fn(&Cublas),
) -> Result<Vec<f64>> {
    let Some(blas) = blas else { return in_turn(device, &mut [ours]) };
    let mut theirs = || {
        theirs(blas);
        Ok(())
    };
    in_turn(device, &mut [ours, &mut theirs])
}

/// Asserts that `c` is the product of `a` and `b`: against float64, on some elements from everywhere.
fn assert_product(
    work: &str,
    bound: f64,
    (m, n, k): Shape,
    a: impl Fn(usize, usize) -> f64,
    b: impl Fn(usize, usize) -> f64,
    c: impl Fn(usize, usize) -> f64,
) {
    let (mut error, mut norm) = (0.0, 0.0);
    for sample in 0..500 {
        let (i, j) = (sample * 7919 % m, sample * 104_729 % n);
        let dot: f64 = (0..k).map(|l| a(i, l) * b(l, j)).sum();
        error += (c(i, j) - dot).powi(2);
        norm += dot * dot;
    }
    let relative = (error / norm).sqrt();
    assert!(relative < bound, "{work}: relative error {relative:.1e}, so its time means nothing");
}

fn line(work: String, (m, n, k): Shape, seconds: &[f64]) -> Line {
    let rate = |seconds: f64| 2.0 * (m as f64) * (n as f64) * (k as f64) / seconds / 1e12;
    let other = seconds.get(1).map(|&seconds| ("cuBLAS", rate(seconds)));
    Line { work, unit: "TFLOP/s", ours: rate(seconds[0]), other }
}
