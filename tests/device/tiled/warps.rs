//! Tiled copies with warp-wide instructions, on the simulator and on a GPU that has them: every
//! element of a tile is copied, and in PTX each atom is one instruction.

use crate::common::devices;
use crate::{SM_80, SM_90, in_registers, load};
use moye::{Element, Global, GlobalMut, Grid, Kernel, Ptx};
use moye_build::ptx::Module as PtxModule;
use moye_kernels_tiled::warps::{self as kernels, EXTENT};

/// Copies a tile of distinct elements over zeros.
fn arrives<T: Element + PartialEq + std::fmt::Debug>(
    ptx: &Ptx,
    kernel: &Kernel<(Global<T>, GlobalMut<T>)>,
    threads: u32,
    of: impl Fn(u16) -> T,
) {
    let source: Vec<T> = (1..=(EXTENT * EXTENT) as u16).map(of).collect();
    for module in devices().iter().filter_map(|device| load(device, ptx)) {
        let device = module.device();
        let input = device.upload(&source).unwrap();
        let mut output = device.alloc_zeroed::<T>(source.len()).unwrap();
        // SAFETY: both buffers contain the tile.
        unsafe { module.launch(kernel, Grid::new(1, threads), (&input, &mut output)) }.unwrap();
        let got = output.download().unwrap();
        let wrong: Vec<usize> = (0..got.len()).filter(|&at| got[at] != source[at]).collect();
        assert!(
            wrong.is_empty(),
            "{} on {}: {} of {} elements are wrong, the first {}, {:?} for {:?}",
            kernel.name(),
            device.name(),
            wrong.len(),
            got.len(),
            wrong[0],
            got[wrong[0]],
            source[wrong[0]]
        );
    }
}

/// The kernel contains this matrix instruction this many times, and no other.
fn is_by(module: &PtxModule, kernel: &str, instruction: &str, count: usize) {
    let entry = in_registers(module, kernel);
    let matrix = |name: &str| name.starts_with("ldmatrix") || name.starts_with("stmatrix");
    let counts = (entry.count(instruction), entry.count_where(matrix));
    assert_eq!(counts, (count, count), "{kernel}: {instruction}, and any: {:?}", entry.instructions);
}

macro_rules! tests {
    ($($ptx:ident $of:expr => { $($name:ident $threads:literal, $instruction:literal x $count:literal;)+ })+) => {
        #[test]
        fn every_element_of_a_tile_arrives() {
            $($(arrives(&$ptx, &kernels::$name, $threads, $of);)+)+
        }

        #[test]
        fn each_atom_is_one_instruction() {
            $(
                let module = PtxModule::parse($ptx.images()[0].1).unwrap();
                $(is_by(&module, kernels::$name.name(), $instruction, $count);)+
            )+
        }
    };
}
tests! {
    SM_80 |i| i => {
        // An atom copies 64 of 1,024 elements for each matrix, and each warp of a tile executes it.
        ldsm_x1 32, "ldmatrix.sync.aligned.m8n8.x1.shared.b16" x 16;
        ldsm_x2 32, "ldmatrix.sync.aligned.m8n8.x2.shared.b16" x 8;
        ldsm_x4 32, "ldmatrix.sync.aligned.m8n8.x4.shared.b16" x 4;
        ldsm_x4_padded 32, "ldmatrix.sync.aligned.m8n8.x4.shared.b16" x 4;
        ldsm_x4_swizzled 32, "ldmatrix.sync.aligned.m8n8.x4.shared.b16" x 4;
        ldsm_pairs_x1 32, "ldmatrix.sync.aligned.m8n8.x1.shared.b16" x 16;
        ldsm_pairs_x2 32, "ldmatrix.sync.aligned.m8n8.x2.shared.b16" x 8;
        ldsm_pairs_x4 32, "ldmatrix.sync.aligned.m8n8.x4.shared.b16" x 4;
    }
    SM_80 half::f16::from_bits => {
        // Two of four warps load the same rows of an operand.
        ldsm_f16_a 128, "ldmatrix.sync.aligned.m8n8.x4.shared.b16" x 2;
        ldsm_f16_a_swizzled 128, "ldmatrix.sync.aligned.m8n8.x4.shared.b16" x 2;
        ldsm_f16_b 128, "ldmatrix.sync.aligned.m8n8.x2.shared.b16" x 4;
        ldsm_f16_b_x4 128, "ldmatrix.sync.aligned.m8n8.x4.shared.b16" x 2;
        ldsm_f16_a_trans 128, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" x 2;
        ldsm_f16_a_trans_swizzled 128, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" x 2;
        ldsm_f16_b_trans 128, "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16" x 4;
        ldsm_f16_b_trans_x1 128, "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16" x 8;
    }
    SM_80 f32::from => {
        // A matrix of 32-bit elements has 32.
        ldsm_tf32_a 128, "ldmatrix.sync.aligned.m8n8.x4.shared.b16" x 4;
        ldsm_tf32_a_swizzled 128, "ldmatrix.sync.aligned.m8n8.x4.shared.b16" x 4;
        ldsm_tf32_b 128, "ldmatrix.sync.aligned.m8n8.x2.shared.b16" x 8;
        ldsm_tf32_b_x4 128, "ldmatrix.sync.aligned.m8n8.x4.shared.b16" x 4;
    }
    SM_90 |i| i => {
        stsm_x1 32, "stmatrix.sync.aligned.m8n8.x1.shared.b16" x 16;
        stsm_x2 32, "stmatrix.sync.aligned.m8n8.x2.shared.b16" x 8;
        stsm_x4 32, "stmatrix.sync.aligned.m8n8.x4.shared.b16" x 4;
        stsm_x4_swizzled 32, "stmatrix.sync.aligned.m8n8.x4.shared.b16" x 4;
    }
    SM_90 half::f16::from_bits => {
        stsm_f16_a 32, "stmatrix.sync.aligned.m8n8.x4.shared.b16" x 4;
        stsm_f16_a_swizzled 32, "stmatrix.sync.aligned.m8n8.x4.shared.b16" x 4;
        stsm_f16_a_trans 32, "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16" x 4;
        stsm_f16_b_trans 32, "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16" x 8;
        stsm_f16_b_trans_x1 32, "stmatrix.sync.aligned.m8n8.x1.trans.shared.b16" x 16;
        stsm_f16_warps 64, "stmatrix.sync.aligned.m8n8.x4.shared.b16" x 2;
    }
}
