//! The operation on the simulator, and on a GPU where there is one.

use moye::{Device, Matrix, MatrixMut};
use new_kernels::silu::{SILU, Silu};

#[test]
fn silu_is_that_of_float64() {
    moye::operation::harness::check(&SILU);
}

#[test]
fn the_builder_computes_and_names_its_kernel() {
    let device = Device::sim();
    let x = device.upload(&[0.0f32, 40.0]).unwrap();
    let mut y = device.upload(&[7.0f32; 2]).unwrap();
    let silu = Silu::new(Matrix::row_major(&x, 1, 2).unwrap());
    let mut to_y = MatrixMut::row_major(&mut y, 1, 2).unwrap();
    assert_eq!(silu.explain(&device, &mut to_y).unwrap(), "silu_f32");
    silu.run(&device, &mut to_y).unwrap();
    assert_eq!(y.download().unwrap(), [0.0, 40.0]);
}
