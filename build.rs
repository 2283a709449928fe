//! Compiles the kernels of the operations that features name to PTX, which the library embeds, and
//! lets the linker do without CUDA's driver.

#[path = "build/driver_stub.rs"]
mod driver_stub;

fn main() {
    if let Err(error) = driver_stub::link_without_driver() {
        eprintln!("cannot write the stand-in for the driver's library: {error}");
        std::process::exit(1);
    }
    let mut operations =
        moye_build::Operations::new("device/kernels").package("moye-kernels", env!("CARGO_PKG_VERSION"));
    // Products of f32 are two features there.
    if std::env::var_os("CARGO_FEATURE_MATMUL_F32").is_some() {
        operations = operations.feature("matmul-tf32");
    }
    operations.build_or_exit();
}
