//! Compiles the kernels to PTX.

fn main() {
    if std::env::var_os("CARGO_FEATURE_KERNELS").is_none() {
        return;
    }
    let set = moye_build::PtxBuilder::new(".")
        .default_features(false)
        .feature("kernels")
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
