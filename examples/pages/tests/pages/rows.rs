//! Softmax and RMSNorm along rows.

use crate::common::devices;
use crate::{PTX, Real, is_near, numbers, rows_of, sizes};
use moye::{Grid, Kernel};
use moye_device::memory::{Global, GlobalMut};
use pages::rmsnorm::{rmsnorm_bf16, rmsnorm_f32};
use pages::softmax::{BLK_M, softmax_bf16, softmax_f32};

const ROWS: [[usize; 2]; 6] = [[1, 1], [5, 100], [4, 512], [7, 1027], [2, 3], [9, 256]];
const LARGER_ROWS: [[usize; 2]; 3] = [[257, 1027], [1000, 4096], [3, 100_003]];

fn softmax<T: Real>(kernel: Kernel<(Global<T>, GlobalMut<T>, u32, u32, i64)>, limit: f64) {
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        for [m, n] in sizes(&device, &ROWS, &LARGER_ROWS) {
            let case = format!("{} of {m} x {n} on {}", kernel.name(), device.name());
            let ld = n.next_multiple_of(16) + 16;
            let x: Vec<T> = numbers::<T>(m * ld, 5).into_iter().map(|x| T::of(8.0 * x.value())).collect();
            let (dx, marked) = (device.upload(&x).unwrap(), T::of(77.0));
            let mut y = device.upload(&vec![marked; m * ld]).unwrap();
            let grid = Grid::new((m as u32).div_ceil(BLK_M), 128);
            // SAFETY: the buffers hold the rows.
            unsafe { module.launch(&kernel, grid, (&dx, &mut y, m as u32, n as u32, ld as i64)) }.unwrap();
            let want: Vec<f64> = (0..m)
                .flat_map(|row| {
                    let row: Vec<f64> = x[row * ld..row * ld + n].iter().map(|x| x.value()).collect();
                    let max = row.iter().copied().fold(f64::MIN, f64::max);
                    let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
                    row.into_iter().map(move |x| (x - max).exp() / sum).collect::<Vec<_>>()
                })
                .collect();
            is_near(&rows_of(&y.download().unwrap(), [m, n, ld], marked, &case), &want, limit, &case);
        }
    }
}

#[test]
fn softmax_is_that_of_float64() {
    // A lane accumulates 3,126 elements of the longest row sequentially.
    softmax(softmax_f32, 5e-6);
    softmax(softmax_bf16, 4e-3);
}

fn rmsnorm<T: Real>(kernel: Kernel<(Global<T>, Global<T>, GlobalMut<T>, u32, u32, i64, f32)>, limit: f64) {
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        for [m, n] in sizes(&device, &ROWS, &LARGER_ROWS) {
            let case = format!("{} of {m} x {n} on {}", kernel.name(), device.name());
            let ld = n.next_multiple_of(16) + 16;
            let (x, w) = (numbers::<T>(m * ld, 6), numbers::<T>(n.next_multiple_of(16), 7));
            let (dx, dw, marked) = (device.upload(&x).unwrap(), device.upload(&w).unwrap(), T::of(77.0));
            let mut y = device.upload(&vec![marked; m * ld]).unwrap();
            let grid = Grid::new((m as u32).div_ceil(BLK_M), 128);
            let (rows, columns, eps) = (m as u32, n as u32, 1e-3f32);
            // SAFETY: the buffers hold the rows.
            unsafe { module.launch(&kernel, grid, (&dx, &dw, &mut y, rows, columns, ld as i64, eps)) }
                .unwrap();
            let want: Vec<f64> = (0..m)
                .flat_map(|row| {
                    let row: Vec<f64> = x[row * ld..row * ld + n].iter().map(|x| x.value()).collect();
                    let mean = row.iter().map(|x| x * x).sum::<f64>() / n as f64;
                    let scale = (mean + f64::from(eps)).sqrt();
                    row.iter().zip(&w).map(|(x, w)| x / scale * w.value()).collect::<Vec<_>>()
                })
                .collect();
            is_near(&rows_of(&y.download().unwrap(), [m, n, ld], marked, &case), &want, limit, &case);
        }
    }
}

#[test]
fn rmsnorm_is_that_of_float64() {
    rmsnorm(rmsnorm_f32, 2e-6);
    rmsnorm(rmsnorm_bf16, 4e-3);
}
