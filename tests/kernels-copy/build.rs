//! Compiles these kernels to PTX: all but a few for sm_80, the rest for sm_90.

use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // Cache hints need PTX 7.4, `movmatrix` and `stmatrix` 7.8.
    let build = |arch: &str| {
        moye_build::PtxBuilder::new(".")
            .arch(arch)
            .rustflag("-Ctarget-feature=+ptx78")
            .out_dir(out.join(arch))
    };
    build("sm_80").build_or_exit();
    build("sm_90").default_features(false).feature("sm_90").build_or_exit();
}
