//! Lets the linker do without CUDA's driver.

use std::env;
use std::fs;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if let Err(error) = link_without_driver() {
        eprintln!("cannot write the stand-in for the driver's library: {error}");
        std::process::exit(1);
    }
}

/// Writes an empty archive `libcuda.a` into `OUT_DIR` and puts that folder on the linker's search
/// path.
///
/// `cust` links `-lcuda`, but `driver/symbols.rs` defines every symbol that it needs and loads
/// the driver at the first call. The archive satisfies the linker on a machine without a driver or
/// toolkit, and no binary depends on `libcuda.so.1`.
///
/// Without `cust` nothing is linked. With the feature `candle-cuda` there is no archive: candle has
/// cudarc link CUDA's libraries, and the linker would take the archive in place of the driver's
/// library, which also has the functions that cudarc calls.
fn link_without_driver() -> std::io::Result<()> {
    let has = |feature| env::var_os(feature).is_some();
    if has("CARGO_FEATURE_CANDLE_CUDA") || !has("CARGO_FEATURE_CUST") {
        return Ok(());
    }
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for a build script"));
    // The magic number alone is an archive without members.
    fs::write(folder.join("libcuda.a"), b"!<arch>\n")?;
    println!("cargo::rustc-link-search=native={}", folder.display());
    Ok(())
}
