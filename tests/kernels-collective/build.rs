//! Compiles these kernels to PTX: those by `cp.async` for sm_80, all of them for sm_90a.

use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let build = |arch: &str| moye_build::PtxBuilder::new(".").arch(arch).out_dir(out.join(arch));
    build("sm_80").allow(moye_build::Lint::ALL).build_or_exit();
    // The version of PTX that other crates of the workspace take for sm_90a: what they have in
    // common is compiled once.
    build("sm_90a").rustflag("-Ctarget-feature=+ptx81").allow(moye_build::Lint::ALL).build_or_exit();
}
