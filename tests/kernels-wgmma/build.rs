//! Compiles these kernels to PTX for sm_90a, which alone has all of their instructions.

fn main() {
    // `wgmma` of s8 with u8 needs PTX 8.4.
    moye_build::PtxBuilder::new(".")
        .arch("sm_90a")
        .rustflag("-Ctarget-feature=+ptx84")
        .allow(moye_build::Lint::ALL)
        .build_or_exit();
}
