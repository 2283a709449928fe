//! Sums of integers are exact in any order, so every kernel produces the bits of the reference.

use crate::case::{Order, Scaled};
use crate::common::devices;
use crate::common::matrix::rng;
use crate::common::product::Number;
use crate::each_kernel::orders;
use crate::{Setup, asked};
use half::{bf16, f16};
use moye::{Matmul, Matrix, MatrixMut, Output};
use rand::RngExt;

/// Integers at the elements of a matrix of this shape, and 7 between them.
fn placed<T: Copy>(
    numbers: &[i8],
    (rows, cols): (usize, usize),
    order: Order,
    of: fn(f32) -> T,
) -> (Vec<T>, (usize, usize)) {
    let (row, col) = order.strides(rows, cols);
    let mut placed = vec![of(7.0); (rows - 1) * row + (cols - 1) * col + 1];
    for (i, &number) in numbers.iter().enumerate() {
        placed[i / cols * row + i % cols * col] = of(f32::from(number));
    }
    (placed, (row, col))
}

fn exact<T, U>(of: fn(f32) -> T, bits: fn(f32) -> u32, found: fn(U) -> u32, setup: Setup<T, U>)
where
    U: Copy,
    T: Scaled + Number,
    U: Output<T> + Number,
{
    let poison = if U::BYTES == 2 { 0xFFFF } else { u32::MAX };
    // Sums stay within 2^8, so they are exact in bf16. More rows than a tile, and few rows and
    // columns with many stages of K.
    for (m, n, k) in [(136, 72, 208), (16, 32, 904)] {
        let mut rng = rng(&[m, n, k]);
        let mut whole = |count| -> Vec<i8> {
            (0..count).map(|_| if rng.random_bool(0.3) { rng.random_range(-2..=2) } else { 0 }).collect()
        };
        let (a, b) = (whole(m * k), whole(k * n));
        let product = |i: usize, j: usize, l: usize| i32::from(a[i * k + l]) * i32::from(b[l * n + j]);
        let sums: Vec<i32> = (0..m * n).map(|at| (0..k).map(|l| product(at / n, at % n, l)).sum()).collect();
        assert!(sums.iter().all(|sum| sum.abs() <= 256), "sums are not whole in bf16: draw smaller numbers");
        for device in devices() {
            for kernel in asked(setup, &device, |product, device| product.kernels(device)) {
                // Kernels of large tiles have as many stages in the first shape.
                if !device.is_gpu() && m < 64 && !kernel.contains("_64x") {
                    continue;
                }
                let [order_a, order_b, order_c] = orders(kernel, 8);
                let (placed_a, strides_a) = placed(&a, (m, k), order_a, of);
                let (placed_b, strides_b) = placed(&b, (k, n), order_b, of);
                let strides_c @ (row, col) = order_c.strides(m, n);
                let (device_a, device_b) =
                    (device.upload(&placed_a).unwrap(), device.upload(&placed_b).unwrap());
                let mut c = device.alloc_uninit::<U>((m - 1) * row + (n - 1) * col + 1).unwrap();
                c.fill_bytes(0xFF).unwrap();
                let product = Matmul::new(
                    Matrix::new(&device_a, m, k, strides_a).unwrap(),
                    Matrix::new(&device_b, k, n, strides_b).unwrap(),
                );
                let product = setup(product).kernel(kernel);
                product.run(&device, &mut MatrixMut::new(&mut c, m, n, strides_c).unwrap()).unwrap();
                let c = c.download().unwrap();
                // Nothing is written between the rows, or columns, of C.
                let line = row.max(col);
                let behind =
                    c.iter().enumerate().filter(|(at, _)| at % line >= if row > col { n } else { m });
                for (at, &x) in behind {
                    assert_eq!(
                        found(x),
                        poison,
                        "{kernel}, {m} x {n} x {k}: element {at} between those of C, on {}",
                        device.name()
                    );
                }
                for (at, &sum) in sums.iter().enumerate() {
                    let (got, want) = (found(c[at / n * row + at % n * col]), bits(sum as f32));
                    assert_eq!(
                        got,
                        want,
                        "{kernel}, {m} x {n} x {k}: element ({}, {}) has the bits {got:#x}, and {sum} has {want:#x}, on {}",
                        at / n,
                        at % n,
                        device.name()
                    );
                }
            }
        }
    }
}

#[test]
fn every_kernel_of_f16_has_the_bits_of_the_reference() {
    let bits = |sum| u32::from(f16::from_f32(sum).to_bits());
    exact::<f16, f16>(f16::from_f32, bits, |x| x.to_bits().into(), |product| product);
    exact::<f16, f16>(f16::from_f32, bits, |x| x.to_bits().into(), |product| product.f16_accumulators());
    exact::<f16, f32>(f16::from_f32, f32::to_bits, f32::to_bits, |product| product);
}

#[test]
fn every_kernel_of_bf16_has_the_bits_of_the_reference() {
    let bits = |sum| u32::from(bf16::from_f32(sum).to_bits());
    exact::<bf16, bf16>(bf16::from_f32, bits, |x| x.to_bits().into(), |product| product);
    exact::<bf16, f32>(bf16::from_f32, f32::to_bits, f32::to_bits, |product| product);
}

#[test]
fn every_kernel_of_f32_has_the_bits_of_the_reference() {
    exact::<f32, f32>(|x| x, f32::to_bits, f32::to_bits, |product| product);
    exact::<f32, f32>(|x| x, f32::to_bits, f32::to_bits, |product| product.tf32());
}
