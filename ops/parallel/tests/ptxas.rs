//! ptxas's report for the kernels, on the oldest architecture and on Hopper.

use crate::assembler;
use moye_parallel::PTX;

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
            assert!(usage.stack == 0 && usage.spills() == 0, "{name} on {arch}: {usage:?}");
        }
    }
}
