//! What a user of the registry gets: the packages, unpacked in a folder outside the checkout, and a
//! program that depends on them.

use crate::checkout::Checkout;
use crate::steps::{must, quietly};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The packages of the registry.
const PACKAGES: [&str; 8] = [
    "moye",
    "moye-build",
    "moye-device",
    "moye-draw",
    "moye-eval",
    "moye-kernels",
    "moye-macros",
    "moye-sim",
];

/// A program that transposes on the simulator: it has PTX of what its feature names.
const PROGRAM: &str = r#"use moye::{Device, Matrix, MatrixMut, transpose};

fn main() -> moye::Result<()> {
    let device = Device::sim();
    let x = device.upload(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    let mut y = device.alloc_zeroed::<f32>(6)?;
    transpose(&device, &Matrix::row_major(&x, 2, 3)?, &mut MatrixMut::row_major(&mut y, 3, 2)?)?;
    assert_eq!(y.download()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    assert!(!moye::SHIPPED_PTX.images().is_empty());
    Ok(())
}
"#;

/// Packages all, unpacks them, and builds and runs a program of them.
pub fn run(checkout: &Checkout) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("moye-packages-{}", std::process::id()));
    let tried = tried(checkout, &folder);
    // What could not be removed is in the system's folder for that.
    let _ = fs::remove_dir_all(&folder);
    tried
}

fn tried(checkout: &Checkout, folder: &Path) -> Result<()> {
    let mut package = checkout.cargo();
    package.args(["package", "--quiet", "--no-verify", "--allow-dirty", "--offline"]);
    package.args(PACKAGES.iter().flat_map(|name| ["--package", name]));
    quietly(&mut package)?;
    let user = folder.join("user");
    fs::create_dir_all(user.join("src")).context("cannot make a folder for the packages")?;
    fs::create_dir_all(user.join("cuda/lib64"))?;
    let version = env!("CARGO_PKG_VERSION");
    let mut patches = String::new();
    for name in PACKAGES {
        let file = checkout.target.join("package").join(format!("{name}-{version}.crate"));
        must(Command::new("tar").arg("-xzf").arg(file).arg("-C").arg(folder))?;
        patches += &format!("{name} = {{ path = \"../{name}-{version}\" }}\n");
    }
    let manifest = format!(
        "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         moye = {{ version = \"{version}\", default-features = false, features = [\"movement\"] }}\n\n\
         [patch.crates-io]\n{patches}\n[workspace]\n"
    );
    fs::write(user.join("Cargo.toml"), manifest)?;
    fs::write(user.join("src/main.rs"), PROGRAM)?;
    // The versions of all else that are downloaded.
    fs::copy(checkout.root.join("Cargo.lock"), user.join("Cargo.lock"))?;
    let mut run = checkout.cargo();
    run.args(["run", "--quiet"]).current_dir(&user).env("CUDA_LIBRARY_PATH", user.join("cuda"));
    // `cargo xtask` has the checkout's own.
    if let Some(source) = core_source(checkout) {
        run.env(moye_build::core_source::VARIABLE, source);
    }
    quietly(&mut run).map(drop)
}

/// The source of `core` that the checkout keeps, which is no part of a package.
fn core_source(checkout: &Checkout) -> Option<std::path::PathBuf> {
    let found = moye_build::core_source::find(&checkout.root).ok()?;
    (!found.in_sysroot).then_some(found.library)
}
