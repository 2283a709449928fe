//! Spills that ptxas reports, on the oldest GPU and on Hopper.

#[path = "../../../../tests/fixtures/common/assembler.rs"]
mod assembler;

/// Kernels that spill, by prefix and suffix of their names, with the bytes of local memory. Kernels
/// whose blocks step over rows have 64 registers a thread, 32 of them for elements, and the loop of
/// a norm branches over three result types and 8 bits: the branch of 8 bits spills most of them.
/// Blocks of 1,024 threads for unaligned rows have 64 too. On sm_80 conversions to 8-bit floats
/// take several instructions. Sampling keeps the description of its row in local memory, and reads
/// it a few times a row.
const SPILL: [(&str, &str, usize); 22] = [
    ("norm_f32", "_cluster1024", 72),
    ("norm_", "_anyblock", 56),
    ("norm_", "1024", 56),
    ("norm_", "_cluster512", 72),
    ("norm_backward_", "_half8", 56),
    ("norm_backward_", "_halfcluster", 48),
    ("norm_backward_f32_", "_lanes8", 32),
    ("norm_backward_f32_", "", 16),
    ("norm_", "_anycluster", 24),
    ("norm_backward_", "_anyblock512", 16),
    ("softmax_", "_anyblock", 32),
    ("softmax_", "1024", 16),
    ("softmax_f32", "_cluster512", 16),
    ("cross_entropy_", "_block1024", 16),
    ("cross_entropy_f32_", "", 8),
    ("quantize_rows_f32", "_block1024", 8),
    ("activated_f32", "", 8),
    ("topk_f16", "", 8),
    ("quantize_whole_", "", 16),
    ("quantize_f16", "", 8),
    ("quantize_bf16", "", 8),
    ("sample_", "", 88),
];

#[test]
fn kernels_keep_their_rows_in_registers_without_spills() {
    for (arch, text) in moye_rows::PTX.images() {
        let arch = arch.parse().unwrap();
        let Some(ptxas) = assembler::ptxas_for(arch) else { return };
        let assembled = ptxas.assemble(text, arch).unwrap();
        let least = if cfg!(all(feature = "norm", feature = "softmax")) { 40 } else { 1 };
        assert!(assembled.kernels.len() >= least, "{arch}: {} kernels", assembled.kernels.len());
        let mut beyond = Vec::new();
        for (name, usage) in &assembled.kernels {
            let spills =
                |(begin, end, _): &&(&str, &str, usize)| name.starts_with(begin) && name.ends_with(end);
            let most = SPILL.iter().find(spills).map_or(0, |spill| spill.2);
            if usage.stack > most || most == 0 && usage.spills() > 0 {
                beyond.push(format!("{name}: {usage:?}"));
            }
        }
        assert!(beyond.is_empty(), "{arch}: {beyond:#?}");
    }
}
