//! Compiles these kernels to PTX for sm_80, which newer GPUs run, too.

fn main() {
    // They are slow by intent.
    moye_build::PtxBuilder::new(".").arch("sm_80").allow(moye_build::Lint::ALL).build_or_exit();
}
