//! Compiles the kernels of the operations that features name to PTX, which the library embeds, and lets the linker do without CUDA's driver.

#[path = "build/driver_stub.rs"]
mod driver_stub;

fn main() {
    if let Err(error) = driver_stub::link_without_driver() {
        eprintln!("cannot write the stand-in for the driver's library: {error}");
        std::process::exit(1);
    }
    let operations = ["attention", "ladder", "matmul", "movement"]
        .map(|name| (name, format!("CARGO_FEATURE_{}", name.to_uppercase())));
    let mut operations =
        operations.into_iter().filter(|(_, variable)| std::env::var_os(variable).is_some()).peekable();
    if operations.peek().is_none() {
        return;
    }
    let mut builder = moye_build::PtxBuilder::new("device/kernels");
    for (operation, _) in operations {
        builder = builder.feature(operation);
    }
    builder
        .arch("sm_80")
        .arch("sm_90a")
        // `st.async`; a driver of CUDA 12.1 or newer knows it.
        .rustflag_of("sm_90a", "-Ctarget-feature=+ptx81")
        // Their reports are tested (`tests/ptx`), and a second compilation for lines takes minutes.
        .allow(moye_build::Lint::ALL)
        .build_or_exit();
}
