//! The shipped kernels on tensor cores, on the simulator and the GPU where there is one.

mod common;

use common::product::{Check, Number, Product, SHAPES, check};
use moye::{Device, Grid, SHIPPED_PTX, kernels};

/// A block for each tile of 128 x 256, in one dimension.
fn grid(m: usize, n: usize) -> Grid {
    Grid::new((m.div_ceil(128) * n.div_ceil(256)) as u32, 256)
}

fn is_the_product<T: Number>(kernel: &Product<T, T>, bound: f64) {
    let how = Check { bound, c_multiple: 8, grid };
    let load = |device: &Device| Some(device.load(&SHIPPED_PTX).unwrap());
    check(load, kernel, &how, &SHAPES);
    // Whole tiles alone, several stages deep; more tiles than a group of the raster has; tiles cut along each axis.
    check(load, kernel, &how, &[(128, 256, 512), (256, 512, 64), (129, 2500, 130), (300, 70, 1000)]);
}

#[test]
fn f16_is_the_product() {
    is_the_product(&kernels::mma::matmul_f16_tn, 4e-4);
}

#[test]
fn bf16_is_the_product() {
    is_the_product(&kernels::mma::matmul_bf16_tn, 3e-3);
}
