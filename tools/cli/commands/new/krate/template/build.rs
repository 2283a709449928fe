//! Compiles the kernels of this crate to PTX if they are launched on a GPU.

fn main() {
    #[cfg(feature = "gpu")]
    moye_build::PtxBuilder::new(".").arch("sm_80").arch("sm_90a").build_or_exit();
}
