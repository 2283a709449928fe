//! Compiles the kernels of this very crate to PTX, for the one architecture that has `wgmma`.

fn main() {
    // The version of PTX that other crates of the workspace take for sm_90a: what they have in
    // common is compiled once.
    moye_build::PtxBuilder::new(".")
        .arch("sm_90a")
        .rustflag("-Ctarget-feature=+ptx81")
        .allow(moye_build::Lint::ALL)
        .build_or_exit();
}
