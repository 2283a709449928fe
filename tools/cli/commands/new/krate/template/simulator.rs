//! The kernel on the simulator, which finds accesses out of bounds, races and missing barriers.

use moye_device::memory::{Global, GlobalMut};
use moye_sim::GlobalMemory;

use new_kernels::{BLK_M, THREADS, row_sum};

/// The kernel's sums of rows with stride `ld`.
fn row_sums(x: &[f32], m: usize, n: usize, ld: usize) -> Vec<f32> {
    let memory = GlobalMemory::new();
    let x = memory.upload(x, "x").unwrap();
    let y = memory.upload(&vec![f32::NAN; m], "y").unwrap();
    let (on_x, on_y) = (Global::from_address(x.address()), GlobalMut::from_address(y.address()));
    let arguments = (on_x, on_y, m as u32, n as u32, ld as i64);
    // SAFETY: `x` has m rows, and `y` has m elements.
    unsafe { row_sum.simulate(&memory, (m as u32).div_ceil(BLK_M), THREADS, arguments) }.unwrap();
    y.download()
}

#[test]
fn row_sums_are_those_of_float64_for_rows_of_any_length() {
    for (m, n) in [(1usize, 1usize), (4, 128), (7, 100), (9, 1027)] {
        let ld = n.next_multiple_of(4);
        let x: Vec<f32> = (0..m * ld).map(|i| (1.0 + i as f32 * 0.37).sin()).collect();
        let sums = row_sums(&x, m, n, ld);
        let (mut error, mut norm) = (0.0, 0.0);
        for (sum, row) in sums.iter().zip(x.chunks(ld)) {
            let exact: f64 = row[..n].iter().map(|&x| f64::from(x)).sum();
            error += (f64::from(*sum) - exact).powi(2);
            norm += exact.powi(2);
        }
        let relative = (error / norm).sqrt();
        assert!(relative < 1e-5, "{m} x {n}: relative error {relative:e}");
    }
}

#[test]
fn a_read_beyond_the_matrix_is_a_fault_that_names_the_line() {
    let memory = GlobalMemory::new();
    let (x, y) =
        (memory.upload(&[1.0f32; 16], "x").unwrap(), memory.upload(&[0.0f32; 2], "y").unwrap());
    let (x, y) = (Global::from_address(x.address()), GlobalMut::from_address(y.address()));
    // SAFETY: `x` lacks the second row, so the simulator stops the kernel there.
    let error = unsafe { row_sum.simulate(&memory, 1, THREADS, (x, y, 2, 16, 16)) }.unwrap_err();
    assert!(error.to_string().contains("src/lib.rs:"), "{error}");
}
