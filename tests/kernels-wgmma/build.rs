//! Compiles these kernels to PTX for sm_90a, which alone has all of their instructions; the version of PTX is that of other crates of the
//! workspace for sm_90a, with which what they have in common is compiled once.

fn main() {
    moye_build::PtxBuilder::new(".").arch("sm_90a").rustflag("-Ctarget-feature=+ptx81").build_or_exit();
}
