//! What ptxas says of the kernels, on the oldest GPU and on Hopper.

use moye_products::PTX;

#[path = "../../../tests/fixtures/common/assembler.rs"]
mod assembler;

/// Kernels with bytes in local memory: of the widest tile with scales a register over the choice of
/// roles, and one over the store of a tile in which a group ends. Its mainloop has none.
const SPILL: [(&str, usize); 2] = [("block_scaled_bf16_128x256", 8), ("block_scaled_f16_128x256", 8)];

#[test]
fn kernels_keep_operands_and_sums_in_registers() {
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
