//! Compiles the kernels of the operations that features name to PTX.

fn main() {
    let mut builder = moye_build::PtxBuilder::new(".").default_features(false);
    for operation in ["norm", "softmax"] {
        if std::env::var_os(format!("CARGO_FEATURE_{}", operation.to_uppercase())).is_some() {
            builder = builder.feature(operation);
        }
    }
    let set = builder
        .arch("sm_80")
        .arch("sm_90a")
        .rustflag_of("sm_90a", "-Ctarget-feature=+ptx81")
        .allow(moye_build::Lint::ALL)
        .build_or_exit();
    if let Err(error) = set.pack() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}
