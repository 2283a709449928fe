//! Compiles the shipped kernels to PTX; the library embeds them.

fn main() {
    moye_build::PtxBuilder::new("device").feature("kernels").arch("sm_80").arch("sm_90a").build_or_exit();
}
