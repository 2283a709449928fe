//! Compiles these kernels to PTX: all but those of 8-bit floats for sm_80, these for sm_89.

use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let build = |arch: &str, feature: &str| {
        moye_build::PtxBuilder::new(".").arch(arch).rustflag(feature).out_dir(out.join(arch))
    };
    // `.and.popc` needs PTX 7.1, 8-bit floats with f16 accumulators 8.7.
    build("sm_80", "-Ctarget-feature=+ptx78").allow(moye_build::Lint::ALL).build_or_exit();
    build("sm_89", "-Ctarget-feature=+ptx87").feature("sm_89").allow(moye_build::Lint::ALL).build_or_exit();
}
