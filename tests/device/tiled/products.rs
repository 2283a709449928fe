//! Products built entirely from tiled copies and tiled MMAs, on the simulator and, if there is one,
//! a GPU.

use crate::common::product::{Check, SHAPES, check, check_of};
use crate::{SM_80, SM_90, entry, load};
use moye::{Device, Grid};
use moye_device::number::{B1, S4, U4};
use moye_kernels_tiled as kernels;

/// [`SHAPES`], and values of K that fill a tile of single bits, or end within a word or a byte.
const PACKED_SHAPES: [(usize, usize, usize); 13] = {
    let mut shapes = [(64, 64, 256); 13];
    shapes.split_at_mut(8).0.copy_from_slice(&SHAPES);
    shapes.split_at_mut(8).1.copy_from_slice(&[
        (64, 64, 256),
        (65, 20, 517),
        (33, 70, 301),
        (7, 9, 2),
        (64, 1, 40),
    ]);
    shapes
};

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
    f16_partitions SM_80 (64, 32), 128, 1e-6;
    f64_partitions SM_80 (32, 32), 128, 1e-14;
    f16_quad_pair SM_80 (16, 16), 32, 1e-6;
    f16_quad_pairs_down SM_80 (16, 16), 32, 1e-6;
    f16_quad_pairs_across SM_80 (16, 16), 32, 4e-3;
    // The hardware adds products of 8-bit floats with 13 fraction bits of the largest.
    e4m3_ldmatrix SM_90 (64, 64), 128, 1e-3;
}

macro_rules! packed_tests {
    ($($name:ident $t:ty, $tile:literal, $product:expr;)+) => { $(
        #[test]
        fn $name() {
            let grid = |m: usize, n: usize| Grid::new((m.div_ceil($tile) as u32, n.div_ceil($tile) as u32), 128);
            let how = Check { bound: 0.0, c_multiple: 1, grid };
            let load = |device: &Device| load(device, &SM_80);
            check_of::<$t, i32>(load, &kernels::$name::$name, &how, &PACKED_SHAPES, $product);
        }
    )+ };
}
packed_tests! {
    s4_packed S4, 64, |a, b| a * b;
    u4_packed U4, 64, |a, b| a * b;
    u4_shared U4, 32, |a, b| a * b;
    // The product counts differing bits.
    b1_packed B1, 64, |a, b| f64::from(a != b);
}

#[test]
fn each_kernel_has_its_instructions_and_no_local_memory() {
    let wanted = [
        ("f16_swizzled", "ldmatrix.sync.aligned.m8n8.x4.shared.b16", 8),
        ("f16_swizzled", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16),
        ("f16_permuted", "ldmatrix.sync.aligned.m8n8.x2.shared.b16", 16),
        ("f16_permuted", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 32),
        ("tf32_permuted", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 16),
        ("s8_ldmatrix", "ldmatrix.sync.aligned.m8n8.x4.shared.b16", 4),
        ("f64_plain", "ld.shared.b64", 16),
        ("fma_shared", "fma.rn.f32", 128),
        ("f16_partitions", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 8),
        ("f16_partitions", "ld.shared.b32", 24),
        ("f16_quad_pair", "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", 16),
        ("f16_quad_pair", "ld.shared.b64", 16),
        ("f16_quad_pairs_down", "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", 8),
        ("f16_quad_pairs_across", "mma.sync.aligned.m8n8k4.col.row.f16.f16.f16.f16", 8),
        ("s4_packed", "ldmatrix.sync.aligned.m8n8.x4.shared.b16", 2),
        ("u4_packed", "mma.sync.aligned.m16n8k64.row.col.s32.u4.u4.s32", 8),
        ("u4_shared", "mma.sync.aligned.m8n8k32.row.col.s32.u4.u4.s32", 4),
        ("s4_packed", "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", 8),
        ("b1_packed", "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc", 8),
    ];
    for (kernel, instruction, count) in wanted {
        let entry = entry(kernel);
        assert_eq!(entry.count(instruction), count, "{kernel}: {instruction}: {:?}", entry.instructions);
    }
}
