//! Compiles the kernels of this very crate to PTX, for the one architecture that has `wgmma`.

fn main() {
    moye_build::PtxBuilder::new(".").arch("sm_90a").rustflag("-Ctarget-feature=+ptx80").build_or_exit();
}
