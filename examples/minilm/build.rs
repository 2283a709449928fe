//! Compiles this crate's kernels to PTX.

fn main() {
    let set = moye_build::PtxBuilder::new(".")
        .arch("sm_80")
        // The PTX version that other crates of the workspace use for sm_90a, so that their common
        // dependencies are compiled once.
        .arch("sm_90a")
        .rustflag_of("sm_90a", "-Ctarget-feature=+ptx81")
        .build_or_exit();
    // `tests/ptxas.rs` reads the modules.
    println!("cargo::rustc-env=MINILM_PTX={}", set.include.display());
}
