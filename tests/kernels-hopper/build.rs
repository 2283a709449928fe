//! Compiles these kernels to PTX for sm_90a, which alone has all of their instructions; `st.async`
//! is of PTX 8.1.

fn main() {
    moye_build::PtxBuilder::new(".")
        .arch("sm_90a")
        .rustflag("-Ctarget-feature=+ptx81")
        .allow(moye_build::Lint::ALL)
        .build_or_exit();
}
