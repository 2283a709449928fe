//! Compiles the kernels of the operations that features name to PTX, which the library embeds, and
//! lets the linker do without CUDA's driver.

#[path = "build/driver_stub.rs"]
mod driver_stub;

fn main() {
    if let Err(error) = driver_stub::link_without_driver() {
        eprintln!("cannot write the stand-in for the driver's library: {error}");
        std::process::exit(1);
    }
    let has = |feature: &str| {
        let variable = format!("CARGO_FEATURE_{}", feature.to_uppercase().replace('-', "_"));
        std::env::var_os(variable).is_some()
    };
    // All products are one feature, and all of attention, as `cargo xtask ptx` names them: what it
    // compiles is then the same.
    let products: &[&str] = if has("matmul") {
        &["matmul"]
    } else {
        &["matmul-bf16", "matmul-f16", "matmul-f32", "matmul-f64", "matmul-f8", "matmul-i8"]
    };
    let attention: &[&str] = if has("attention") {
        &["attention"]
    } else {
        &["attention-bf16", "attention-e4m3", "attention-f16"]
    };
    let operations = attention.iter().chain(&["ladder"]).chain(products).chain(&["movement"]);
    let mut features: Vec<_> = operations.copied().filter(|feature| has(feature)).collect();
    if features.is_empty() {
        return;
    }
    if features.contains(&"matmul-f32") {
        features.push("matmul-tf32");
    }
    let mut builder =
        moye_build::PtxBuilder::new("device/kernels").package("moye-kernels", env!("CARGO_PKG_VERSION"));
    for feature in features {
        builder = builder.feature(feature);
    }
    let set = builder
        .arch("sm_80")
        .arch("sm_90a")
        // `st.async`; a driver of CUDA 12.1 or newer knows it.
        .rustflag_of("sm_90a", "-Ctarget-feature=+ptx81")
        // Their reports are tested (`tests/device/ptx`), and a second compilation for lines takes
        // minutes.
        .allow(moye_build::Lint::ALL)
        .build_or_exit();
    if let Err(error) = set.pack() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}
