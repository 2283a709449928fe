//! A matrix product with one call, and a report of what it computes.
//!
//! `matmul` takes matrices of any strides, chooses the kernel and the tile
//! (`ops/matmul/kernels/mma`) and launches it.

use moye::profile::Profile;
use moye::{Device, Matmul, Matrix, MatrixMut, Result, matmul};

fn main() -> Result<()> {
    let device = Device::open()?;
    println!("device: {}", device.name());
    let (m, n, k) = if device.is_gpu() { (2048, 2048, 256) } else { (200, 300, 100) };

    // Small integers: every product and every sum is exact in f32, so the result can be checked for
    // equality.
    let number = |i: usize| (i * 2_654_435_761 % 7) as f32 - 3.0;
    let a_elements: Vec<f32> = (0..m * k).map(number).collect();
    let b_elements: Vec<f32> = (0..k * n).map(|i| number(i + 1)).collect();
    let (a_buffer, b_buffer) = (device.upload(&a_elements)?, device.upload(&b_elements)?);
    let mut c_buffer = device.alloc_uninit::<f32>(m * n)?;

    // `a` is m x k and row-major; `b` is k x n, stored as its transpose: column-major. Neither is
    // copied.
    let a = Matrix::row_major(&a_buffer, m, k)?;
    let b = Matrix::row_major(&b_buffer, n, k)?.t();
    let mut c = MatrixMut::row_major(&mut c_buffer, m, n)?;
    let plan = Matmul::new(a.clone(), b.clone()).explain(&device, &mut c)?;
    let run = if device.is_gpu() {
        matmul(&device, &a, &b, &mut c)?; // The first launch also compiles the PTX for this GPU.
        let time = device.time(|_| matmul(&device, &a, &b, &mut c))?;
        let flops = 2.0 * (m * n * k) as f64;
        format!("it took {time:?}: {:.3} TFLOP/s", flops / time.as_secs_f64() / 1e12)
    } else {
        watched(&device.profile(|| matmul(&device, &a, &b, &mut c))?)
    };

    let c = c_buffer.download()?;
    for (i, row) in a_elements.chunks_exact(k).enumerate() {
        for (j, column) in b_elements.chunks_exact(k).enumerate() {
            let expected: f32 = row.iter().zip(column).map(|(x, y)| x * y).sum();
            assert_eq!(c[i * n + j], expected, "element ({i}, {j})");
        }
    }
    println!("a product in f32, ({m} x {k}) * ({k} x {n}), by a kernel written in Rust: {plan}");
    println!("all {} elements are right: each was compared with the CPU's", c.len());
    println!("{run}");
    println!("next, a custom kernel: cargo xtask new ../my-kernels");
    Ok(())
}

/// The simulator's findings.
fn watched(profile: &Profile) -> String {
    let (mut threads, mut accesses) = (0, 0);
    for kernel in &profile.kernels {
        threads += u128::from(kernel.launches) * kernel.grid.count() * kernel.block.count();
        let total = kernel.total();
        accesses += total.global_loads.lanes + total.global_stores.lanes + total.async_loads.lanes;
        accesses += total.shared_loads.lanes + total.shared_stores.lanes + total.async_stores.lanes;
    }
    // As in the simulator: a build without debug assertions does not check for races.
    let races = if cfg!(debug_assertions) { ", and no two of them race" } else { "" };
    format!("the simulator ran {threads} threads and watched {accesses} accesses: all are in bounds{races}")
}
