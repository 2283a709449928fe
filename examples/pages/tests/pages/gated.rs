//! The product with a custom epilogue on both mainloops.

use crate::common::{devices, devices_of_sm_90a};
use crate::{PTX, is_near, numbers, rows_of, sizes};
use moye::{Buffer, Device, Grid, Module, TensorMapOf};
use moye_device::half::f16;
use moye_device::layout;
use moye_device::memory::{Global, GlobalMut};
use moye_matmul::kernels::hopper::WgmmaConfig as _;
use moye_matmul::kernels::mma::Arguments;
use pages::gated::{Gated, gated};
use pages::gated_tma::{Config, TmaA, TmaB, gated_tma};

/// GELU's tanh approximation, in double precision.
fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}

/// A product with its operands and its result in double precision.
struct Product {
    a: Buffer<f16>,
    b: Buffer<f16>,
    bias: Buffer<f16>,
    gate: Buffer<f16>,
    shape: [usize; 3],
    ld: [usize; 2],
    want: Vec<f64>,
}

impl Product {
    fn new(device: &Device, shape: [usize; 3], ldc: usize) -> Self {
        let [m, n, k] = shape;
        let ld = k.next_multiple_of(8);
        let (a, b) = (numbers::<f16>(m * ld, 1), numbers::<f16>(n * ld, 2));
        let (bias, gate) = (numbers::<f16>(n, 3), numbers::<f16>(m * n, 4));
        let of = |t: &[f16]| t.iter().map(|x| x.to_f64()).collect::<Vec<f64>>();
        let (fa, fb) = (of(&a), of(&b));
        let want = (0..m * n).map(|i| {
            let (row, column) = (i / n, i % n);
            let products = fa[row * ld..][..k].iter().zip(&fb[column * ld..][..k]).map(|(a, b)| a * b);
            gelu(products.sum::<f64>() + bias[column].to_f64()) * gate[i].to_f64()
        });
        Self {
            want: want.collect(),
            a: device.upload(&a).unwrap(),
            b: device.upload(&b).unwrap(),
            bias: device.upload(&bias).unwrap(),
            gate: device.upload(&gate).unwrap(),
            shape,
            ld: [ld, ldc],
        }
    }

    /// Launches a kernel on a marked C and compares the result.
    fn check(&self, name: &str, launch: impl FnOnce(Arguments<f16, f16, f32>, Gated) -> moye::Result<()>) {
        let device = self.a.device();
        let ([m, n, k], [ld, ldc]) = (self.shape, self.ld);
        let case = format!("{name} of {m} x {n} x {k} on {}", device.name());
        let marked = f16::from_f64(77.0);
        let c = device.upload(&vec![marked; m * ldc]).unwrap();
        let pointers = (
            Global::from_address(self.a.address()),
            Global::from_address(self.b.address()),
            GlobalMut::from_address(c.address()),
        );
        let extents = (m as u32, n as u32, k as u32);
        let arguments = Arguments::product(pointers, extents, (ld as i64, ld as i64, ldc as i64));
        let epilogue = Gated {
            bias: Global::from_address(self.bias.address()),
            gate: Global::from_address(self.gate.address()),
            ld_gate: n as i64,
        };
        launch(arguments, epilogue).unwrap();
        is_near(&rows_of(&c.download().unwrap(), [m, n, ldc], marked, &case), &self.want, 5e-4, &case);
    }
}

/// Extents of products and the leading dimension of C: whole tiles, partial tiles along all modes,
/// one element, rows of C at odd addresses, several tiles.
const PRODUCTS: [([usize; 3], usize); 5] =
    [([128, 128, 64], 128), ([60, 51, 88], 56), ([1, 1, 1], 1), ([131, 70, 72], 71), ([200, 300, 130], 300)];
const LARGER_PRODUCTS: [([usize; 3], usize); 2] = [([331, 270, 72], 271), ([512, 768, 520], 768)];

#[test]
fn a_gated_product_is_that_of_float64() {
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        for (shape, ldc) in sizes(&device, &PRODUCTS, &LARGER_PRODUCTS) {
            let product = Product::new(&device, shape, ldc);
            let blocks = (shape[0].div_ceil(64) * shape[1].div_ceil(64)) as u32;
            product.check("gated", |arguments, epilogue| {
                // SAFETY: the matrices are in their buffers, with rows at multiples of 16 bytes.
                unsafe { module.launch(&gated, Grid::new(blocks, 128), (arguments, epilogue)) }
            });
        }
    }
}

#[test]
fn a_gated_product_by_tma_is_that_of_float64() {
    for device in devices_of_sm_90a() {
        let module: Module = device.load(&PTX).unwrap();
        for (shape, ldc) in sizes(&device, &PRODUCTS, &LARGER_PRODUCTS) {
            let product = Product::new(&device, shape, ldc);
            let [m, n, k] = shape;
            let [m, n, k, ld] = [m, n, k, product.ld[0]].map(|extent| extent as i64);
            let a = TensorMapOf::<TmaA>::new(&product.a, &layout!((m, k, 1):(ld, 1, { m * ld }))).unwrap();
            let b = TensorMapOf::<TmaB>::new(&product.b, &layout!((n, k, 1):(ld, 1, { n * ld }))).unwrap();
            product.check("gated_tma", |arguments, epilogue| {
                let grid = Grid::new(2, Config::THREADS);
                // SAFETY: the matrices are in their buffers, and the maps are of A and B.
                unsafe { module.launch(&gated_tma, grid, (&a, &b, arguments, epilogue)) }
            });
        }
    }
}
