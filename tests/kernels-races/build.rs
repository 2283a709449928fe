//! Compiles these kernels to PTX for sm_90a, which alone has all of their instructions.

fn main() {
    moye_build::PtxBuilder::new(".")
        .arch("sm_90a")
        .rustflag("-Ctarget-feature=+ptx80")
        .allow(moye_build::Lint::ALL)
        .build_or_exit();
}
