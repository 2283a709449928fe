//! Compiles the shipped kernels to PTX, which the library embeds, and lets the linker do without CUDA's driver.

#[path = "build/driver_stub.rs"]
mod driver_stub;

fn main() {
    if let Err(error) = driver_stub::link_without_driver() {
        eprintln!("cannot write the stand-in for the driver's library: {error}");
        std::process::exit(1);
    }
    moye_build::PtxBuilder::new("device")
        .feature("kernels")
        .arch("sm_80")
        .arch("sm_90a")
        // `st.async`; a driver of CUDA 12.1 or newer knows it.
        .rustflag_of("sm_90a", "-Ctarget-feature=+ptx81")
        .build_or_exit();
}
