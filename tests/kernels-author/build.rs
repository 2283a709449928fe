//! Compiles these kernels to PTX.

fn main() {
    moye_build::PtxBuilder::new(".").arch("sm_80").build_or_exit();
}
