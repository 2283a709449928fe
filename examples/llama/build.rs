//! Compiles this crate's kernel to PTX.

fn main() {
    moye_build::PtxBuilder::new(".")
        .arch("sm_80")
        // The PTX version that other crates of the workspace use for sm_90a, so that their common
        // dependencies are compiled once.
        .arch("sm_90a")
        .rustflag_of("sm_90a", "-Ctarget-feature=+ptx81")
        .build_or_exit();
}
