//! Kernels of attention, if the feature is on.

#[cfg(feature = "attention")]
use super::module;

/// Whether a kernel is one of attention's.
pub fn is_of(name: &str) -> bool {
    ["forward_", "decode_", "combine_", "hopper_"].iter().any(|part| name.starts_with(part))
}

#[cfg(feature = "attention")]
#[test]
fn attention_multiplies_on_tensor_cores_alone_and_loads_by_asynchronous_copies() {
    let mut seen = [0; 3];
    for kernel in module("sm_80").kernels.iter().filter(|kernel| is_of(&kernel.name)) {
        let name = &kernel.name;
        if name.starts_with("combine_") {
            assert_eq!(kernel.count("mma"), 0, "{name}: {:?}", kernel.instructions);
            continue;
        }
        let element = if name.contains("_bf16_") { "bf16" } else { "f16" };
        let product = format!("mma.sync.aligned.m16n8k16.row.col.f32.{element}.{element}.f32");
        assert!(kernel.count(&product) > 0, "{name}: {:?}", kernel.instructions);
        assert_eq!(kernel.count("mma"), kernel.count(&product), "{name}: {:?}", kernel.instructions);
        assert!(kernel.count("cp.async.cg.shared.global") > 0, "{name}: {:?}", kernel.instructions);
        // V is read transposed, Q and K are not.
        let loads = |trans| {
            kernel.count_where(|name| name.starts_with("ldmatrix") && name.contains(".trans") == trans)
        };
        assert!(loads(true) > 0 && loads(false) > 0, "{name}: {:?}", kernel.instructions);
        // A soft cap is accurate to a few units in the last place.
        assert_eq!(kernel.count("tanh.approx"), 0, "{name}: {:?}", kernel.instructions);
        seen[usize::from(name.starts_with("decode_"))] += 1;
    }
    for kernel in module("sm_90a").kernels.iter().filter(|kernel| is_of(&kernel.name)) {
        let name = &kernel.name;
        assert!(kernel.count("wgmma.mma_async") > 0, "{name}: {:?}", kernel.instructions);
        assert_eq!(kernel.count("mma.sync"), 0, "{name}: {:?}", kernel.instructions);
        assert!(kernel.count("cp.async.bulk.tensor.4d.shared") > 0, "{name}: {:?}", kernel.instructions);
        // Rows of packed heads, and of sequences that end within tiles, have no tensor map; heads
        // of 192 and 256 leave no shared memory for O.
        let by_words = ["f16_192", "f16_192x128", "f16_256"].iter().any(|end| name.ends_with(end));
        let by_rows = ["_varied", "_few", "_general"].iter().any(|end| name.ends_with(end));
        let stores = kernel.count("cp.async.bulk.tensor.4d.global");
        assert_eq!(stores == 0, by_rows || by_words, "{name}: {:?}", kernel.instructions);
        assert_eq!(
            kernel.count("cp.async.cg.shared.global") > 0,
            by_rows,
            "{name}: {:?}",
            kernel.instructions
        );
        // A soft cap is within 2^-11 of its value, for every cap: the relative error of tanh.
        let tanh = kernel.count("tanh.approx");
        assert_eq!(tanh > 0, name.ends_with("_general"), "{name}: {:?}", kernel.instructions);
        if name.starts_with("hopper_e4m3_") {
            // V is transposed from one shared-memory array to another.
            for part in ["ldmatrix.sync.aligned.m8n8.x4.trans", "prmt", "stmatrix"] {
                assert!(kernel.count(part) > 0, "{name}: no {part}, {:?}", kernel.instructions);
            }
        }
        seen[2] += 1;
    }
    // Seven head sizes of two types, with and without options; few rows; 22 kernels of two types
    // for Hopper, and six of 8-bit floats.
    assert_eq!(seen, [28, 14, 50]);
}
