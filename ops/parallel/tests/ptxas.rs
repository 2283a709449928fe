//! What ptxas reports for the kernels, on the oldest GPU and on Hopper.

use moye_parallel::PTX;

#[path = "../../../tests/fixtures/common/assembler.rs"]
mod assembler;

/// Kernels with bytes in local memory: a register over the epilogue, outside the mainloop.
const SPILL: [(&str, usize); 2] = [("reduced_bf16_128x256", 8), ("reduced_f16_128x256", 8)];

#[test]
fn kernels_keep_operands_and_sums_in_registers() {
    for (arch, text) in PTX.images() {
        let arch = arch.parse().unwrap();
        let Some(ptxas) = assembler::ptxas_for(arch) else { return };
        let assembled = ptxas.assemble(text, arch).unwrap();
        for (name, usage) in &assembled.kernels {
            let most = SPILL.iter().find(|(spills, _)| spills == name).map_or(0, |(_, bytes)| *bytes);
            assert!(usage.stack <= most && usage.spills() <= most, "{name} on {arch}: {usage:?}");
        }
    }
}
