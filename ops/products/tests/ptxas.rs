//! What ptxas says of the kernels, on the oldest GPU and on Hopper.

use moye_products::PTX;

#[path = "../../../tests/fixtures/common/assembler.rs"]
mod assembler;

#[test]
fn kernels_keep_operands_and_sums_in_registers_and_wgmma_runs_ahead() {
    for (arch, text) in PTX.images() {
        let arch = arch.parse().unwrap();
        let Some(ptxas) = assembler::ptxas_for(arch) else { return };
        let assembled = ptxas.assemble(text, arch).unwrap();
        // Those by group clear accumulators in a branch.
        let waits = |warning: &&String| warning.contains("serialized") && !warning.contains("'grouped_");
        let serialised: Vec<_> = assembled.warnings.iter().filter(waits).collect();
        assert!(serialised.is_empty(), "wgmma waits for the one before on {arch}: {serialised:?}");
        for (name, usage) in &assembled.kernels {
            assert!(usage.stack == 0 && usage.spills() == 0, "{name} on {arch}: {usage:?}");
        }
    }
}
