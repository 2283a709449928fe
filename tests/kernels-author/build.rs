//! Compiles these kernels to PTX.

fn main() {
    moye_build::PtxBuilder::new(".").arch("sm_80").allow(moye_build::Lint::ALL).build_or_exit();
}
