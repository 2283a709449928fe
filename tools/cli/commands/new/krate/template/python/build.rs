//! Compiles the kernels of this crate to PTX.

fn main() {
    moye_build::PtxBuilder::new(".").arch("sm_80").arch("sm_90a").build_or_exit();
}
