//! What ptxas says of the kernels, on the oldest GPU and on Hopper.

#[path = "../../../tests/fixtures/common/assembler.rs"]
mod assembler;

/// Rows of elements of 16 bits that start anywhere, on clusters, norms of 128 threads and gates of
/// f16 on sm_80: ptxas prefers more blocks an SM, of 56 to 96 registers a thread, and keeps 8 bytes
/// in local memory.
const SPILL: [&str; 4] =
    ["gated_f16", "softmax_f16_anycluster", "softmax_bf16_anycluster", "norm_f32_block128"];

#[test]
fn kernels_keep_their_rows_in_registers_without_spills() {
    for (arch, text) in moye_rows::PTX.images() {
        let arch = arch.parse().unwrap();
        let Some(ptxas) = assembler::ptxas_for(arch) else { return };
        let assembled = ptxas.assemble(text, arch).unwrap();
        let least = if cfg!(all(feature = "norm", feature = "softmax")) { 40 } else { 1 };
        assert!(assembled.kernels.len() >= least, "{arch}: {} kernels", assembled.kernels.len());
        for (name, usage) in &assembled.kernels {
            let most = if SPILL.contains(&name.as_str()) { 8 } else { 0 };
            assert!(usage.stack <= most, "{name} on {arch}: {usage:?}");
            assert!(most > 0 || usage.spills() == 0, "{name} on {arch}: {usage:?}");
        }
    }
}
