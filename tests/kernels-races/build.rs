//! Compiles these kernels to PTX for sm_80, which newer GPUs run, too.

fn main() {
    // Waits at an mbarrier by parity are of PTX 7.1.
    moye_build::PtxBuilder::new(".")
        .arch("sm_80")
        .rustflag("-Ctarget-feature=+ptx71")
        .allow(moye_build::Lint::ALL)
        .build_or_exit();
}
