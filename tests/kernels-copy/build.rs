//! Compiles these kernels to PTX: all but a few for sm_80, the rest for sm_90.

use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let build = |arch: &str, ptx: &str| {
        moye_build::PtxBuilder::new(".").arch(arch).rustflag(ptx).out_dir(out.join(arch))
    };
    // Cache hints need PTX 7.4, `movmatrix` and `stmatrix` 7.8. For sm_90 it is what other kernels
    // of the tests need, with which what they have in common is compiled once.
    build("sm_80", "-Ctarget-feature=+ptx78").allow(moye_build::Lint::ALL).build_or_exit();
    build("sm_90", "-Ctarget-feature=+ptx87")
        .default_features(false)
        .feature("sm_90")
        .allow(moye_build::Lint::ALL)
        .build_or_exit();
}
