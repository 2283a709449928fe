//! Products that go by tiled copies and tiled MMAs from end to end, on the simulator and the GPU where there is one.
#![allow(clippy::type_complexity, reason = "a kernel's type is its parameter list")]

mod common;

use common::product::{Check, SHAPES, check, check_with};
use moye::{Device, Grid, Module, Ptx};
use moye_kernels_tiled as kernels;

static SM_80: Ptx = Ptx::new("moye-kernels-tiled", kernels::PTX_SM_80);
static SM_90: Ptx = Ptx::new("moye-kernels-tiled (sm_90)", kernels::PTX_SM_90);

/// The module, where the device is new enough.
fn load(device: &Device, ptx: &Ptx) -> Option<Module> {
    let fits = !device.is_gpu() || ptx.image_for(device.arch()).is_some();
    fits.then(|| device.load(ptx).unwrap())
}

macro_rules! tests {
    ($($name:ident $ptx:ident ($tile_m:literal, $tile_n:literal), $threads:literal, $bound:expr;)+) => { $(
        #[test]
        fn $name() {
            let grid = |m: usize, n: usize| {
                Grid::new((m.div_ceil($tile_m) as u32, n.div_ceil($tile_n) as u32), $threads)
            };
            let how = Check { bound: $bound, c_multiple: 1, grid };
            check(|device| load(device, &$ptx), &kernels::$name::$name, &how, &SHAPES);
        }
    )+ };
}
tests! {
    f16_swizzled SM_80 (64, 64), 128, 1e-6;
    f16_permuted SM_80 (64, 64), 128, 1e-6;
    f16_padded SM_80 (32, 64), 64, 4e-3;
    bf16_plain SM_80 (64, 32), 128, 1e-6;
    tf32_permuted SM_80 (64, 64), 128, 1e-6;
    f64_plain SM_80 (32, 32), 128, 1e-14;
    s8_ldmatrix SM_80 (64, 64), 128, 0.0;
    fma_shared SM_80 (64, 64), 256, 1e-6;
    f16_shared SM_80 (32, 32), 128, 1e-6;
    // The hardware adds products of 8-bit floats with 13 bits behind the largest's first.
    e4m3_ldmatrix SM_90 (64, 64), 128, 1e-3;
}

/// A block for each 64 x 64 of C. K counts bytes.
fn packed() -> Check {
    let grid = |m: usize, n: usize| Grid::new((m.div_ceil(64) as u32, n.div_ceil(64) as u32), 128);
    Check { bound: 0.0, c_multiple: 1, grid }
}

#[test]
fn s4_packed() {
    let numbers = |byte: u8| [byte & 15, byte >> 4].map(|bits| f64::from((bits as i8) << 4 >> 4));
    let dot = |a: &[u8], b: &[u8]| {
        let products = a.iter().zip(b).map(|(&a, &b)| {
            let (a, b) = (numbers(a), numbers(b));
            a[0] * b[0] + a[1] * b[1]
        });
        products.sum()
    };
    check_with(|device| load(device, &SM_80), &kernels::packed::s4_packed, &packed(), &SHAPES, dot);
}

#[test]
fn b1_packed() {
    let dot = |a: &[u8], b: &[u8]| a.iter().zip(b).map(|(a, b)| f64::from((a ^ b).count_ones())).sum();
    check_with(|device| load(device, &SM_80), &kernels::packed::b1_packed, &packed(), &SHAPES, dot);
}

#[test]
fn each_kernel_has_its_instructions_and_no_local_memory() {
    let module = moye_build::ptx::Module::parse(kernels::PTX_SM_80[0].1).unwrap();
    let wanted = [
        ("f16_swizzled", "ldmatrix.sync.aligned.m8n8.x4.shared.b16", 8),
        ("f16_swizzled", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16),
        ("f16_permuted", "ldmatrix.sync.aligned.m8n8.x2.shared.b16", 16),
        ("f16_permuted", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 32),
        ("tf32_permuted", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 16),
        ("s8_ldmatrix", "ldmatrix.sync.aligned.m8n8.x4.shared.b16", 4),
        ("f64_plain", "ld.shared.b64", 16),
        ("fma_shared", "fma.rn.f32", 128),
        ("s4_packed", "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", 8),
        ("b1_packed", "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc", 8),
    ];
    for (kernel, instruction, count) in wanted {
        let entry = module.kernel(kernel).unwrap_or_else(|| panic!("there is no kernel {kernel}"));
        assert_eq!(entry.count(instruction), count, "{kernel}: {instruction}: {:?}", entry.instructions);
        assert!(!entry.uses_local(), "{kernel} uses local memory");
    }
}
