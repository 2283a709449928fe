//! Compiles the kernels of the operations that features name to PTX.

fn main() {
    let has = |feature: &str| std::env::var_os(format!("CARGO_FEATURE_{}", feature.to_uppercase())).is_some();
    let all = ["block_scaled", "grouped", "grouped_k", "moe", "weights"];
    let operations: Vec<_> = all.into_iter().filter(|operation| has(operation)).collect();
    if operations.is_empty() {
        return;
    }
    let mut builder = moye_build::PtxBuilder::new(".").default_features(false);
    for operation in operations {
        builder = builder.feature(operation);
    }
    let set = builder
        .arch("sm_80")
        .arch("sm_90a")
        .rustflag_of("sm_90a", "-Ctarget-feature=+ptx81")
        // What ptxas reports is tested (`tests/ptxas.rs`).
        .allow(moye_build::Lint::ALL)
        .build_or_exit();
    if let Err(error) = set.pack() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}
