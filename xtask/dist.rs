//! `cargo xtask dist`: the published files in one folder: packages with their PTX, and the wheel.

use crate::checkout::Checkout;
use crate::packages::PACKAGES;
use crate::steps::{must, quietly};
use crate::{ptxas, python, setup};
use anyhow::{Context, Result, ensure};
use moye_build::Operations;
use moye_build::report::Ptxas;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages that contain PTX, by their folders.
pub const CARRIED: [(&str, &str); 6] = [
    ("moye-attention", "ops/attention"),
    ("moye-matmul", "ops/matmul"),
    ("moye-movement", "ops/movement"),
    ("moye-parallel", "ops/parallel"),
    ("moye-products", "ops/products"),
    ("moye-rows", "ops/rows"),
];

/// The maximum size of a package on crates.io, in bytes.
const LARGEST: u64 = 10 << 20;

/// Writes the packages and, unless `packages_alone`, the wheel of this machine to `target/dist`,
/// with machine code in addition to the PTX.
pub fn run(checkout: &Checkout, packages_alone: bool) -> Result<()> {
    setup::core_source(checkout)?;
    ptxas::ensure(checkout)?;
    let assembler = Ptxas::find().context("ptxas is not found")?;
    let to = checkout.target.join("dist");
    let sources = to.join("sources");
    with_ptx(checkout, &sources, Some(&assembler))?;
    let mut cargo = checkout.cargo();
    cargo.current_dir(&sources).env("CARGO_TARGET_DIR", to.join("target"));
    pack(&mut cargo)?;
    for name in PACKAGES {
        let file = format!("{name}-{}.crate", env!("CARGO_PKG_VERSION"));
        let (from, to) = (to.join("target/package").join(&file), to.join(&file));
        let bytes = fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        ensure!(bytes <= LARGEST, "{name} has {bytes} bytes, and crates.io takes {LARGEST}");
    }
    if !packages_alone {
        python::wheel(checkout, &sources, &to)?;
    }
    for entry in fs::read_dir(&to)? {
        let path = entry?.path();
        if path.is_file() {
            println!("{:>7.2} MB  {}", fs::metadata(&path)?.len() as f64 / 1e6, path.display());
        }
    }
    Ok(())
}

/// Copies the checkout's files to a folder and writes the PTX of the packages there, compiled as
/// the checkout's build scripts compile it: what they have compiled with all features is reused.
pub fn with_ptx(checkout: &Checkout, to: &Path, assembler: Option<&Ptxas>) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to).with_context(|| format!("cannot remove {}", to.display()))?;
    }
    for name in files(checkout)? {
        let (from, to) = (checkout.root.join(&name), to.join(&name));
        fs::create_dir_all(to.parent().context("a file has a folder")?)?;
        #[cfg(unix)]
        if from.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?;
            continue;
        }
        fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    for (_, folder) in CARRIED {
        let operations = Operations::new(checkout.root.join(folder)).target_dir(checkout.target.join("ptx"));
        operations.carry(&to.join(folder), assembler)?;
    }
    Ok(())
}

/// The checkout's files, without the ones that git ignores.
fn files(checkout: &Checkout) -> Result<Vec<PathBuf>> {
    let mut list = Command::new("git");
    list.current_dir(&checkout.root);
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let names = quietly(&mut list).context("the files of the checkout cannot be listed")?;
    let names = names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    Ok(names.filter(|name| checkout.root.join(name).exists()).collect())
}

/// Runs cargo to pack the packages of the workspace in its folder, without a build.
pub fn pack(cargo: &mut Command) -> Result<()> {
    cargo.args(["package", "--quiet", "--allow-dirty", "--offline", "--no-verify"]);
    quietly(cargo.args(PACKAGES.iter().flat_map(|name| ["--package", name])))?;
    Ok(())
}

/// Unpacks a package of cargo's target directory into a folder, and returns the package's folder.
pub fn unpacked(target: &Path, name: &str, to: &Path) -> Result<PathBuf> {
    let name = format!("{name}-{}", env!("CARGO_PKG_VERSION"));
    must(
        Command::new("tar").arg("-xzf").arg(target.join(format!("package/{name}.crate"))).arg("-C").arg(to),
    )?;
    let folder = to.join(&name);
    let carries = CARRIED.iter().any(|(carried, _)| name.starts_with(&format!("{carried}-")));
    ensure!(!carries || folder.join("ptx/built.txt").is_file(), "{name} carries no PTX");
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_of_operations_carries_its_ptx() {
        let root = Checkout::find().unwrap().root;
        for entry in fs::read_dir(root.join("ops")).unwrap() {
            let folder = format!("ops/{}", entry.unwrap().file_name().display());
            if root.join(&folder).join("build.rs").is_file() {
                assert!(CARRIED.iter().any(|(_, carried)| *carried == folder), "{folder} is not in CARRIED");
            }
        }
        for (name, folder) in CARRIED {
            let manifest = fs::read_to_string(root.join(folder).join("Cargo.toml")).unwrap();
            assert!(manifest.contains(&format!("name = {name:?}")), "{folder}");
            assert!(PACKAGES.contains(&name), "{name}");
        }
    }
}
