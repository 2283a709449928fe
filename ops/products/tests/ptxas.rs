//! Spills that ptxas reports, on the oldest GPU and on Hopper.

use crate::assembler;
use moye_products::PTX;

/// Kernels that spill, with the bytes: products of one row up to six words, so that two blocks of
/// sixteen warps fit on an SM; products of 256 rows two words, which the fix-up of slices of K
/// takes beside the accumulators.
const SPILL: [(&str, usize); 11] = [
    ("linear_bf16_u4_1_2_true_true", 16),
    ("linear_bf16_u8_1_2_true_true", 8),
    ("linear_f16_u4_1_2_false_true", 8),
    ("linear_f16_u4_1_2_true_false", 8),
    ("linear_f16_u4_1_2_true_true", 24),
    ("linear_f16_u8_1_2_true_false", 8),
    ("linear_f16_u8_1_2_true_true", 24),
    ("linear_many_bf16_u4_256", 8),
    ("linear_many_bf16_u8_256", 8),
    ("linear_many_f16_u4_256", 8),
    ("linear_many_f16_u8_256", 8),
];

#[test]
fn kernels_keep_operands_and_sums_in_registers_and_wgmma_runs_ahead() {
    for (arch, text) in PTX.images() {
        let arch = arch.parse().unwrap();
        let Some(ptxas) = assembler::ptxas_for(arch) else { return };
        let assembled = ptxas.assemble(text, arch).unwrap();
        // Accumulators that anything but `wgmma` writes make ptxas wait after each instruction.
        let serialised = assembled.warnings.iter().find(|warning| warning.contains("serialized"));
        assert_eq!(serialised, None, "on {arch}");
        for (name, usage) in &assembled.kernels {
            let most = SPILL.iter().find(|(spills, _)| spills == name).map_or(0, |(_, bytes)| *bytes);
            assert!(usage.stack <= most && usage.spills() <= 2 * most, "{name} on {arch}: {usage:?}");
        }
    }
}

/// TMA reads a map in memory through a separate cache, which only this instruction orders after the
/// host's copy; it needs PTX 8.3.
#[test]
fn lists_acquire_the_tensor_maps_of_their_tables_and_no_other_kernel_needs_to() {
    let (_, text) = PTX.images().iter().find(|(arch, _)| *arch == "sm_90a").unwrap();
    let mut lists = 0;
    for entry in text.split(".visible .entry ").skip(1) {
        let name = entry.split('(').next().unwrap();
        let is_list = ["grouped_list_", "block_scaled_list_"].iter().any(|list| name.starts_with(list));
        lists += usize::from(is_list);
        let acquires = entry.contains("fence.proxy.tensormap::generic.acquire.sys");
        assert_eq!(acquires, is_list, "{name}");
    }
    assert_eq!(lists, 11);
    assert!(text.contains(".version 8.3\n"), "{}", &text[..200]);
}
