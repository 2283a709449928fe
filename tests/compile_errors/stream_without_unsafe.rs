//! Nothing keeps other streams away from the data, so the caller has to.
use moye::{Device, Matrix, MatrixMut, copy_on, matmul_on, transpose_on};

fn main() {
    let device = Device::sim();
    let stream = device.new_stream().unwrap();
    let x = device.alloc_zeroed::<f32>(4).unwrap();
    let mut y = device.alloc_zeroed::<f32>(4).unwrap();
    let x = Matrix::row_major(&x, 2, 2).unwrap();
    let mut y = MatrixMut::row_major(&mut y, 2, 2).unwrap();
    let _ = matmul_on(&stream, &x, &x, &mut y);
    let _ = copy_on(&stream, &x, &mut y);
    let _ = transpose_on(&stream, &x, &mut y);
}
