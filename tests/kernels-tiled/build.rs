//! Compiles these kernels to PTX: most for sm_80, those of 8-bit floats and `stmatrix` for sm_90.

use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let build = |arch: &str| moye_build::PtxBuilder::new(".").arch(arch).out_dir(out.join(arch));
    build("sm_80").rustflag("-Ctarget-feature=+ptx78").allow(moye_build::Lint::ALL).build_or_exit();
    build("sm_90")
        .rustflag("-Ctarget-feature=+ptx87")
        .feature("sm_90")
        .allow(moye_build::Lint::ALL)
        .build_or_exit();
}
