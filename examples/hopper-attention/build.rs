//! Compiles the kernels to PTX, for the one architecture that has `wgmma`.

fn main() {
    moye_build::PtxBuilder::new(".").arch("sm_90a").rustflag("-Ctarget-feature=+ptx81").build_or_exit();
}
