//! The kernel on the simulator, which also finds what it does wrong: accesses out of bounds, races, missing barriers.

use moye_device::memory::{Global, GlobalMut};
use moye_sim::GlobalMemory;
use own_kernels::{BLOCK, TILE, axpy};

#[test]
fn axpy_adds_whole_and_ragged_matrices() {
    for (m, n) in [(64, 32), (100, 7), (1, 1)] {
        let memory = GlobalMemory::new();
        let x: Vec<f32> = (0..m * n).map(|i| i as f32).collect();
        let on_x = memory.upload(&x, "x").unwrap();
        let on_y = memory.upload(&vec![1.0f32; m * n], "y").unwrap();

        let grid = (m.div_ceil(TILE.0) as u32, n.div_ceil(TILE.1) as u32);
        let (x_pointer, y_pointer) =
            (Global::from_address(on_x.address()), GlobalMut::from_address(on_y.address()));
        // SAFETY: both hold m * n numbers.
        unsafe { axpy.simulate(&memory, grid, BLOCK, (2.0, x_pointer, y_pointer, m as u32, n as u32)) }
            .unwrap();

        for (i, (y, x)) in on_y.download::<f32>().into_iter().zip(&x).enumerate() {
            assert_eq!(y, 2.0 * x + 1.0, "element {i} of {m} x {n}");
        }
    }
}

#[test]
fn an_access_out_of_bounds_is_a_fault_that_names_the_line() {
    let memory = GlobalMemory::new();
    let (x, y) = (memory.upload(&[1.0f32; 9], "x").unwrap(), memory.upload(&[1.0f32; 10], "y").unwrap());
    let (x, y) = (Global::from_address(x.address()), GlobalMut::from_address(y.address()));
    // SAFETY: the simulator ends the kernel at the element that `x` lacks.
    let error = unsafe { axpy.simulate(&memory, 1, BLOCK, (2.0, x, y, 10, 1)) }.unwrap_err();
    assert!(error.to_string().contains("src/lib.rs:"), "{error}");
}
