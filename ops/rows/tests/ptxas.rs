//! What ptxas says of the kernels, on the oldest GPU and on Hopper.

#[path = "../../../tests/fixtures/common/assembler.rs"]
mod assembler;

/// Kernels for which ptxas prefers more blocks an SM, of 64 and 56 registers a thread, and the
/// bytes that it keeps in local memory: rows of elements of 16 bits that start anywhere, on
/// clusters; losses of f32; and on sm_80 gates and topk of f16, and the conversions to
/// 8-bit floats, which are one instruction on later GPUs. Sampling keeps the description of its row
/// there, which it reads a few times a row; norms of rows that start anywhere have 64 registers in
/// blocks of 1,024 threads.
const SPILL: [(&str, usize); 12] = [
    ("norm_f32_anyblock", 40),
    ("norm_f16_anyblock", 40),
    ("norm_bf16_anyblock", 40),
    ("softmax_f16_anycluster", 8),
    ("softmax_bf16_anycluster", 8),
    ("topk_f16", 8),
    ("quantize_f16", 8),
    ("quantize_bf16", 8),
    ("sample_f32", 64),
    ("sample_f16", 64),
    ("sample_bf16", 64),
    ("cross_entropy_f32_anyblock512", 8),
];

#[test]
fn kernels_keep_their_rows_in_registers_without_spills() {
    for (arch, text) in moye_rows::PTX.images() {
        let arch = arch.parse().unwrap();
        let Some(ptxas) = assembler::ptxas_for(arch) else { return };
        let assembled = ptxas.assemble(text, arch).unwrap();
        let least = if cfg!(all(feature = "norm", feature = "softmax")) { 40 } else { 1 };
        assert!(assembled.kernels.len() >= least, "{arch}: {} kernels", assembled.kernels.len());
        for (name, usage) in &assembled.kernels {
            let most = SPILL.iter().find(|(spills, _)| spills == name).map_or(0, |(_, bytes)| *bytes);
            assert!(usage.stack <= most, "{name} on {arch}: {usage:?}");
            assert!(most > 0 || usage.spills() == 0, "{name} on {arch}: {usage:?}");
        }
    }
}
