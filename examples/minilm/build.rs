//! Compiles the kernels of this very crate to PTX.

fn main() {
    let set = moye_build::PtxBuilder::new(".")
        .arch("sm_80")
        // The version of PTX that other crates of the workspace take for sm_90a: what they have in
        // common is compiled once.
        .arch("sm_90a")
        .rustflag_of("sm_90a", "-Ctarget-feature=+ptx81")
        .build_or_exit();
    // `tests/ptxas.rs` reads what is in them.
    println!("cargo::rustc-env=MINILM_PTX={}", set.include.display());
}
