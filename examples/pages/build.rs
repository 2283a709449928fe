//! Compiles the kernels of this very crate to PTX.

fn main() {
    moye_build::PtxBuilder::new(".").arch("sm_80").build_or_exit();
}
