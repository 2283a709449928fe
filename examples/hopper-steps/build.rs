//! Compiles this crate's kernels to PTX, for the only architecture with `wgmma`.

fn main() {
    // The PTX version that other crates of the workspace use for sm_90a, so that their common
    // dependencies are compiled once.
    moye_build::PtxBuilder::new(".")
        .arch("sm_90a")
        .rustflag("-Ctarget-feature=+ptx81")
        .allow(moye_build::Lint::ALL)
        .build_or_exit();
}
