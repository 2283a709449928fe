//! A matrix product with one call, and what it computes.
//!
//! `matmul` takes matrices of any strides, picks the kernel and the tile that suit them
//! (`device/kernels/mma`) and launches it.

use moye::{Device, Matrix, MatrixMut, Result, matmul};

fn main() -> Result<()> {
    let device = Device::open()?;
    println!("device: {}", device.name());
    let (m, n, k) = if device.is_gpu() { (2048, 2048, 256) } else { (200, 300, 100) };

    // Small whole numbers: every product and every sum is exact in f32, so the result can be
    // checked for equality.
    let number = |i: usize| (i * 2_654_435_761 % 7) as f32 - 3.0;
    let a_elements: Vec<f32> = (0..m * k).map(number).collect();
    let b_elements: Vec<f32> = (0..k * n).map(|i| number(i + 1)).collect();
    let (a_buffer, b_buffer) = (device.upload(&a_elements)?, device.upload(&b_elements)?);
    let mut c_buffer = device.alloc_uninit::<f32>(m * n)?;

    // `a` is m x k and row-major; `b` is k x n, stored as its transpose: column-major. No data move
    // for either.
    let a = Matrix::row_major(&a_buffer, m, k)?;
    let b = Matrix::row_major(&b_buffer, n, k)?.t();
    let time = {
        let mut c = MatrixMut::row_major(&mut c_buffer, m, n)?;
        matmul(&device, &a, &b, &mut c)?; // The first launch also compiles the PTX for this GPU.
        device.time(|_| matmul(&device, &a, &b, &mut c).map(drop))?
    };

    let c = c_buffer.download()?;
    for (i, row) in a_elements.chunks_exact(k).enumerate() {
        for (j, column) in b_elements.chunks_exact(k).enumerate() {
            let expected: f32 = row.iter().zip(column).map(|(x, y)| x * y).sum();
            assert_eq!(c[i * n + j], expected, "element ({i}, {j})");
        }
    }
    let flops = 2.0 * (m * n * k) as f64;
    println!("{m} x {n} x {k} f32, {time:?}, {:.3} TFLOP/s", flops / time.as_secs_f64() / 1e12);
    Ok(())
}
