//! The elementwise function of two vectors and a matrix.

use crate::common::devices;
use crate::{PTX, Real, is_near, numbers, rows_of, sizes};
use moye::{Grid, Kernel};
use moye_device::algorithm::{MAP_THREADS, MapModes, MapOperand};
use moye_device::memory::{Global, GlobalMut};
use pages::map::{gate_bf16, gate_f32};

const SHAPES: [([usize; 2], usize); 4] = [([5, 100], 104), ([3, 1027], 1040), ([4, 33], 33), ([1, 1], 1)];

fn gate<T: Real>(kernel: Kernel<(Global<T>, Global<T>, Global<T>, GlobalMut<T>, MapModes<3>)>, limit: f64) {
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        for ([m, n], ld) in sizes(&device, &SHAPES, &[([257, 1027], 1027)]) {
            let case = format!("{} of {m} x {n}, {ld} apart, on {}", kernel.name(), device.name());
            // `y` is a row and `z` a column.
            let (x, y, z) = (numbers::<T>(m * ld, 8), numbers::<T>(n, 9), numbers::<T>(m, 10));
            let want: Vec<f64> = (0..m * n)
                .map(|i| {
                    let (row, column) = (i / n, i % n);
                    x[row * ld + column].value() / (1.0 + (-y[column].value()).exp()) + z[row].value()
                })
                .collect();
            let [dx, dy, dz] = [&x, &y, &z].map(|values| device.upload(values).unwrap());
            let marked = T::of(77.0);
            let out = device.upload(&vec![marked; m * ld]).unwrap();
            let strides = [[ld as i64, 1], [0, 1], [1, 0], [ld as i64, 1]];
            let operand =
                |mode: usize, address: u64| MapOperand { address, bytes: T::BYTES, strides: &strides[mode] };
            let inputs = [operand(0, dx.address()), operand(1, dy.address()), operand(2, dz.address())];
            for launch in MapModes::launches(&[m, n], inputs, operand(3, out.address())) {
                let [x, y, z] = launch.inputs.map(Global::from_address);
                let grid = Grid::new(launch.modes.blocks(), MAP_THREADS);
                let arguments = (x, y, z, GlobalMut::from_address(launch.out), launch.modes);
                // SAFETY: the buffers hold the operands.
                unsafe { module.launch(&kernel, grid, arguments) }.unwrap();
            }
            is_near(&rows_of(&out.download().unwrap(), [m, n, ld], marked, &case), &want, limit, &case);
        }
    }
}

#[test]
fn an_elementwise_function_is_that_of_float64_on_vectors_and_elements() {
    gate(gate_f32, 1e-6);
    gate(gate_bf16, 4e-3);
}
