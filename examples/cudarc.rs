//! Multiplies matrices in slices of `cudarc` on its stream, and lends a buffer back. Requires a
//! GPU; without one it prints so.
//!
//! `cargo run --example cudarc --features cudarc`

use cudarc::driver::CudaContext;
use moye::interop::cudarc::CudarcStream;
use moye::{Device, Matmul, Matrix, MatrixMut, transpose_on};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Err(reason) = Device::gpu(0) {
        println!("skipped: {reason}");
        return Ok(());
    }
    let (m, n, k) = (1000, 700, 500);
    let context = CudaContext::new(0)?;
    let cuda = context.new_stream()?;
    let numbers = |count: usize| (0..count).map(|i| (i % 5) as f32 - 2.0).collect::<Vec<_>>();
    let (host_a, host_b) = (numbers(m * k), numbers(k * n));
    let (a, b) = (cuda.clone_htod(&host_a)?, cuda.clone_htod(&host_b)?);
    let mut c = cuda.alloc_zeros::<f32>(m * n)?;

    let stream = CudarcStream::new(&cuda)?;
    let mut turned = stream.device().alloc_zeroed::<f32>(m * n)?;
    for _ in 0..3 {
        // SAFETY: the views are used only on this stream.
        unsafe {
            let (a, b, mut c) = (stream.read(&a)?, stream.read(&b)?, stream.write(&mut c)?);
            let (a, b) = (Matrix::row_major(&a, m, k)?, Matrix::row_major(&b, k, n)?);
            Matmul::new(a, b).run_on(&stream, &mut MatrixMut::row_major(&mut c, m, n)?)?;
            let c = Matrix::row_major(&c, m, n)?;
            transpose_on(&stream, &c, &mut MatrixMut::row_major(&mut turned, n, m)?)?;
        }
    }

    let result = cuda.clone_dtoh(&c)?;
    for (i, j) in [(0, 0), (1, 2), (m / 2, n / 3), (m - 1, n - 1)] {
        let exact: f32 = (0..k).map(|l| host_a[i * k + l] * host_b[l * n + j]).sum();
        assert_eq!(result[i * n + j], exact, "row {i}, column {j}");
    }
    // SAFETY: the buffer is used only on this stream.
    let lent = unsafe { stream.lend(&mut turned)? };
    let transposed = cuda.clone_dtoh(&*lent)?;
    assert!((0..m * n).all(|at| transposed[at % n * m + at / n] == result[at]));
    println!("{m} x {n} x {k} on a stream of cudarc, {}: right", stream.device().name());
    Ok(())
}
