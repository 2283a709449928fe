//! Tests the packages in the form that a user of the registry gets: each is checked from its files,
//! in a folder outside the checkout. Then a crate depends on them, unpacked side by side, first
//! with the PTX that they contain and then with PTX of their sources, and the packaged program
//! writes another crate.

use crate::checkout::Checkout;
use crate::dist;
use crate::steps::quietly;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The published packages.
pub const PACKAGES: [&str; 17] = [
    "moye",
    "moye-attention",
    "moye-bench",
    "moye-build",
    "moye-cli",
    "moye-device",
    "moye-draw",
    "moye-eval",
    "moye-macros",
    "moye-matmul",
    "moye-movement",
    "moye-parallel",
    "moye-products",
    "moye-python-support",
    "moye-rows",
    "moye-runtime",
    "moye-sim",
];

/// The package whose program is run.
const PROGRAM_PACKAGE: &str = "moye-cli";

/// Environment variables that name a CUDA toolkit. A user's machine may have none.
const CUDA_VARIABLES: [&str; 7] = [
    "CUDA_HOME",
    "CUDA_LIBRARY_PATH",
    "CUDA_PATH",
    "CUDA_ROOT",
    "CUDA_TOOLKIT_ROOT_DIR",
    "CUDARC_CUDA_VERSION",
    "LD_LIBRARY_PATH",
];

/// A stand-in for the driver's library, for launches without a GPU.
const DRIVER: &str = "tools/cli/tests/fake_driver/driver.rs";

/// The features of the user's crate, which builds without CUDA.
const FEATURES: &str = "\"cudarc\", \"movement\"";

/// The crate that the program writes.
const NEW: &str = "row-sums";

/// A program that transposes on the simulator, and uses slices of `cudarc` if there is a driver. It
/// contains the PTX of the package, and writes it to a folder.
const PROGRAM: &str = r#"use moye::interop::cudarc::CudarcStream;
use moye::{Device, Matrix, MatrixMut, transpose, transpose_on};
use moye_device::layout::layout;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::sim();
    let x = device.upload(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    let mut y = device.alloc_zeroed::<f32>(6)?;
    transpose(&device, &Matrix::row_major(&x, 2, 3)?, &mut MatrixMut::row_major(&mut y, 3, 2)?)?;
    assert_eq!(y.download()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    for ptx in moye::SHIPPED_PTX {
        for (arch, text) in ptx.images() {
            std::fs::write(std::env::var("IMAGES")? + "." + arch, text)?;
        }
    }

    println!("{}", moye_eval::evaluate("complement(4:2, 24)")?);
    let picture = moye_draw::layout(&layout!((4, 8):(8, 1)))?;
    println!("{}", picture.render(moye_draw::Format::Svg, &moye_draw::Style::default()));

    if let Err(reason) = Device::gpu(0) {
        println!("no launch: {reason}");
        return Ok(());
    }
    let context = cudarc::driver::CudaContext::new(0)?;
    let cuda = context.new_stream()?;
    let (x, mut y) = (cuda.alloc_zeros::<f32>(4096)?, cuda.alloc_zeros::<f32>(4096)?);
    let stream = CudarcStream::new(&cuda)?;
    // SAFETY: the views are used only on this stream.
    unsafe {
        let (x, mut y) = (stream.read(&x)?, stream.write(&mut y)?);
        let x = Matrix::row_major(&x, 64, 64)?;
        transpose_on(&stream, &x, &mut MatrixMut::row_major(&mut y, 64, 64)?)?;
    }
    stream.synchronize()?;
    println!("launched on {}", stream.device().name());
    Ok(())
}
"#;

/// Checks all packages, and builds and runs a user's crate.
pub fn run(checkout: &Checkout) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("moye-packages-{}", std::process::id()));
    let tried = checked(checkout, &folder).and_then(|()| tried(checkout, &folder));
    // If the removal fails, the folder stays in the system's temporary folder.
    let _ = fs::remove_dir_all(&folder);
    tried
}

/// Packs each package with cargo, unpacks it, and checks it from its files and from the packages
/// that it depends on: a package that lacks a file, or a dependency's feature, does not compile.
///
/// The packages of operations contain the PTX that the checkout compiled. They are checked without
/// it (`DOCS_RS`); the user's crate below uses it.
///
/// Without default features, which only the library's package has: the packages of the tools check
/// its kernels of products, and the user's crate builds its other features.
fn checked(checkout: &Checkout, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let sources = folder.join("sources");
    dist::with_ptx(checkout, &sources, None)?;
    dist::pack(users(checkout, folder).current_dir(&sources))?;
    let version = env!("CARGO_PKG_VERSION");
    let mut patches = String::new();
    for name in PACKAGES {
        let unpacked = dist::unpacked(&folder.join("target"), name, folder)?;
        patches += &format!("{name} = {{ path = {:?} }}\n", unpacked.display().to_string());
    }
    // Every cargo in a folder below reads it.
    fs::create_dir_all(folder.join(".cargo"))?;
    fs::write(folder.join(".cargo/config.toml"), format!("[patch.crates-io]\n{patches}"))?;
    for name in PACKAGES {
        let mut check = users(checkout, folder);
        check.current_dir(folder.join(format!("{name}-{version}"))).env("DOCS_RS", "1");
        // The program is run below.
        let command = if name == PROGRAM_PACKAGE { "build" } else { "check" };
        quietly(check.args([command, "--quiet", "--offline", "--no-default-features"]))
            .with_context(|| format!("the package {name} does not compile"))?;
    }
    Ok(())
}

fn tried(checkout: &Checkout, folder: &Path) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let user = crate_of_a_user(checkout, folder, version)?;
    // First with the PTX of the packages, which does not need the source of `core`.
    let run = |images: &str| {
        let mut run = users(checkout, folder);
        run.current_dir(&user).args(["run", "--quiet", "--offline"]).env("IMAGES", folder.join(images));
        run
    };
    let missing = folder.join("no-source-of-core");
    let said = quietly(run("carried").env(moye_build::core_source::VARIABLE, missing))?;
    ensure!(said.contains("(2,3):(1,8)") && said.contains("<svg"), "the tools say {said}");
    quietly(run("compiled").env("MOYE_BUILD_PTX", "1"))?;
    for arch in ["sm_80", "sm_90a"] {
        let read = |images: &str| {
            let file = folder.join(format!("{images}.{arch}"));
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
        };
        same_kernels(&read("carried")?, &read("compiled")?).with_context(|| format!("PTX for {arch}"))?;
    }
    if let Some(calls) = with_driver(checkout, folder)? {
        ensure!(
            calls.lines().any(|call| call.starts_with("cuLaunchKernel")),
            "nothing is launched without `cust`: {calls}"
        );
    }
    // Features that are off by default. The tools' packages have built the products.
    let mut rest = users(checkout, folder);
    rest.current_dir(&user).args(["build", "--quiet", "--offline", "--features", "moye/cust,moye/ladder"]);
    // The part of CUDA's toolkit that `cust` needs.
    rest.env("CUDA_LIBRARY_PATH", checkout.root.join("host/driver/stub"));
    quietly(rest.env("DOCS_RS", "1"))?;
    program(folder, version)?;
    new_crate(checkout, folder)
}

/// A crate that depends on the packages.
fn crate_of_a_user(checkout: &Checkout, folder: &Path, version: &str) -> Result<PathBuf> {
    let user = folder.join("user");
    fs::create_dir_all(user.join("src"))?;
    let manifest = format!(
        "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         cudarc = {{ version = \"0.19\", default-features = false }}\n\
         moye = {{ version = \"{version}\", default-features = false, features = [{FEATURES}] }}\n\
         moye-device = \"{version}\"\nmoye-draw = \"{version}\"\nmoye-eval = \"{version}\"\n"
    );
    fs::write(user.join("Cargo.toml"), manifest)?;
    fs::write(user.join("src/main.rs"), PROGRAM)?;
    // The checkout's versions of other packages, which are already downloaded.
    fs::copy(checkout.root.join("Cargo.lock"), user.join("Cargo.lock"))?;
    Ok(user)
}

/// Cargo as a user runs it, in a folder outside the checkout.
///
/// All builds use `target` in `folder`, so that shared dependencies are compiled once.
fn users(checkout: &Checkout, folder: &Path) -> Command {
    let mut cargo = checkout.cargo();
    cargo.current_dir(folder).env("CARGO_TARGET_DIR", folder.join("target"));
    // Nothing is built twice, and no debugger runs.
    cargo.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
    for variable in CUDA_VARIABLES {
        cargo.env_remove(variable);
    }
    // The folder is outside the checkout, so this variable names the checkout's source of `core`.
    if let Some(source) = core_source(checkout) {
        cargo.env(moye_build::core_source::VARIABLE, source);
    }
    cargo
}

/// The driver's calls of the user's program; `None` if the stand-in cannot be built.
fn with_driver(checkout: &Checkout, folder: &Path) -> Result<Option<String>> {
    if !cfg!(target_os = "linux") {
        return Ok(None);
    }
    let (library, calls) = (folder.join("libcuda.so.1"), folder.join("calls"));
    let mut compile = Command::new("rustc");
    compile.args(["--edition", "2024", "--crate-type", "cdylib", "-A", "warnings"]);
    quietly(compile.arg("-o").arg(library).arg(checkout.root.join(DRIVER)))?;
    let mut program = Command::new(folder.join("target/debug/user"));
    program.env("IMAGES", folder.join("driver"));
    program.env("LD_LIBRARY_PATH", folder).env("FAKE_DRIVER_ALL", &calls);
    let said = quietly(&mut program)?;
    ensure!(said.contains("launched on Fake GPU"), "with a driver the program says {said}");
    Ok(Some(fs::read_to_string(calls)?))
}

/// Checks that each kernel of `compiled` is in `carried`, which contains those of more features.
/// Labels include the number of their function in the module.
fn same_kernels(carried: &str, compiled: &str) -> Result<()> {
    let kernels = |text: &str| -> BTreeMap<String, String> {
        let kernels = text.split(".visible .entry ").skip(1);
        kernels
            .filter_map(|kernel| Some((kernel.split('(').next()?.to_owned(), numberless(kernel))))
            .collect()
    };
    let (carried, compiled) = (kernels(carried), kernels(compiled));
    ensure!(!compiled.is_empty(), "nothing is compiled");
    for (name, text) in &compiled {
        let packaged = carried.get(name).with_context(|| format!("the package lacks {name}"))?;
        let other = packaged.lines().zip(text.lines()).find(|(one, other)| one != other);
        ensure!(packaged == text, "{name} of the package is not what its sources are compiled to: {other:?}");
    }
    Ok(())
}

/// A kernel's PTX with labels such as `$L__BB12_3` without the first number.
fn numberless(kernel: &str) -> String {
    let mut parts = kernel.trim_end().split("$L__BB");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text += "$L__BB";
        text += part.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    text
}

/// The program that cargo built from its package.
fn moye(folder: &Path) -> Command {
    let mut moye = Command::new(folder.join("target/debug").join(format!("moye{EXE_SUFFIX}")));
    moye.current_dir(folder);
    moye
}

/// Runs commands of the program that need no kernel.
fn program(folder: &Path, version: &str) -> Result<()> {
    for (arguments, expected) in [
        (&["eval", "complement(4:2, 24)"][..], "(2,3):(1,8)"),
        (&["draw", "--layout", "(4,8):(8,1)", "--format", "svg"], "<svg"),
        (&["--version"], version),
    ] {
        let said = quietly(moye(folder).args(arguments))?;
        ensure!(said.contains(expected), "the packaged `moye {}` says {said}", arguments.join(" "));
    }
    Ok(())
}

/// Writes a crate with the program, and runs the crate's tests on the simulator.
fn new_crate(checkout: &Checkout, folder: &Path) -> Result<()> {
    quietly(moye(folder).args(["new", NEW]))?;
    let krate = folder.join(NEW);
    // The checkout's versions of other packages, which are already downloaded.
    fs::copy(checkout.root.join("Cargo.lock"), krate.join("Cargo.lock"))?;
    let said = quietly(users(checkout, folder).current_dir(&krate).args(["test", "--offline"]))?;
    ensure!(said.contains("2 passed"), "the tests of a new crate say {said}");
    Ok(())
}

/// Runs `cargo doc` on the packages as docs.rs does: with the features that the manifests name for
/// it, without PTX, and without a CUDA toolkit.
pub fn as_on_docs_rs(checkout: &Checkout, doc: &mut Command) -> Result<()> {
    doc.env("DOCS_RS", "1");
    for variable in CUDA_VARIABLES {
        doc.env_remove(variable);
    }
    // Empty, because cargo's configuration in the checkout sets it otherwise.
    doc.env("CUDA_LIBRARY_PATH", "");
    let metadata =
        quietly(checkout.cargo().args(["metadata", "--no-deps", "--offline", "--format-version=1"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    for package in metadata["packages"].as_array().context("cargo names no packages")? {
        let name = package["name"].as_str().context("a package has no name")?;
        if !PACKAGES.contains(&name) {
            continue;
        }
        let settings = &package["metadata"]["docs"]["rs"];
        ensure!(settings.is_object(), "{name} has no [package.metadata.docs.rs]");
        let features: Vec<_> = match settings["features"].as_array() {
            Some(features) => features.iter().filter_map(|feature| feature.as_str()).collect(),
            None => {
                package["features"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
            }
        };
        doc.args(["--package", name]);
        doc.args(features.iter().flat_map(|feature| ["--features".to_owned(), format!("{name}/{feature}")]));
    }
    Ok(())
}

/// The source of `core` in the checkout, which packages do not contain.
fn core_source(checkout: &Checkout) -> Option<PathBuf> {
    let found = moye_build::core_source::find(&checkout.root).ok()?;
    (!found.in_sysroot).then_some(found.library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_compared_whatever_the_number_of_their_function() {
        let kernel = |name: &str, number: u32, register: &str| {
            format!(
                ".visible .entry {name}(\n)\n{{\n$L__BB{number}_2:\n\tmov.u32 {register}, 1;\n\tbra $L__BB{number}_2;\n}}\n"
            )
        };
        let carried = kernel("copy", 0, "%r1") + &kernel("transpose", 1, "%r1");
        same_kernels(&carried, &kernel("transpose", 0, "%r1")).unwrap();
        for other in [kernel("transpose", 0, "%r2"), kernel("sum", 0, "%r1"), String::new()] {
            assert!(same_kernels(&carried, &other).is_err(), "{other}");
        }
    }
}
