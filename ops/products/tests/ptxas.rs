//! What ptxas says of the kernels, on the oldest GPU and on Hopper.

use moye_products::PTX;

#[path = "../../../tests/fixtures/common/assembler.rs"]
mod assembler;

/// Kernels with bytes in local memory: of the products of 8 rows by 4-bit weights one or two words,
/// so that four blocks are on an SM, or three with a norm.
const SPILL: [(&str, usize); 5] = [
    ("linear_bf16_u4_8_2_false_false", 8),
    ("linear_bf16_u4_8_2_true_false", 16),
    ("linear_bf16_u4_8_2_true_true", 8),
    ("linear_f16_u4_8_2_false_false", 8),
    ("linear_f16_u4_8_2_true_false", 8),
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
