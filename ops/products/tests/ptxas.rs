//! What ptxas says of the kernels, on the oldest GPU and on Hopper.

use moye_products::PTX;

#[path = "../../../tests/fixtures/common/assembler.rs"]
mod assembler;

/// Kernels with bytes in local memory: of the products of one row up to six words, so that two
/// blocks of sixteen warps are on an SM; of those of 256 rows two, which the fix-up of slices of K
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
