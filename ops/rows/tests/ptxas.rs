//! What ptxas says of the kernels, on the oldest GPU and on Hopper.

#[path = "../../../tests/fixtures/common/assembler.rs"]
mod assembler;

/// Rows of elements of 16 bits that start anywhere, on clusters: ptxas prefers two blocks an SM, of
/// 64 registers a thread, and keeps 8 bytes in local memory.
const SPILL: [&str; 2] = ["softmax_f16_anycluster", "softmax_bf16_anycluster"];

#[test]
fn kernels_keep_their_rows_in_registers_without_spills() {
    for (arch, text) in moye_rows::PTX.images() {
        let arch = arch.parse().unwrap();
        let Some(ptxas) = assembler::ptxas_for(arch) else { return };
        let assembled = ptxas.assemble(text, arch).unwrap();
        assert!(!assembled.kernels.is_empty(), "{arch}: no kernels");
        for (name, usage) in &assembled.kernels {
            let most = if SPILL.contains(&name.as_str()) { 8 } else { 0 };
            assert!(usage.stack <= most, "{name} on {arch}: {usage:?}");
            assert!(most > 0 || usage.spills() == 0, "{name} on {arch}: {usage:?}");
        }
    }
}
