//! Crates in packages: unpacked by cargo from a registry, written by `cargo vendor`, or verified by
//! `cargo package` and `cargo publish`.

use crate::BuildError;
use crate::files::{create_dir, io_error, is_target_dir, write_if_changed};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The manifest as its author wrote it, which cargo adds to each package.
pub const ORIGINAL: &str = "Cargo.toml.orig";

/// The index of the registry in which cargo stores the packages that it verifies.
const INDEX: &str = "tmp-registry/index";

/// The folder of a package on which the build script's package depends: cargo unpacks packages side
/// by side, as `NAME-VERSION`, and `cargo vendor` writes them as `NAME`.
pub fn beside(name: &str, version: &str) -> Result<PathBuf, BuildError> {
    let own = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let parent = own.parent().unwrap_or(&own);
    let is_version = |folder: &PathBuf| {
        let line = format!("version = {version:?}");
        fs::read_to_string(folder.join("Cargo.toml"))
            .is_ok_and(|manifest| manifest.lines().any(|text| text == line))
    };
    let folders = [format!("{name}-{version}"), name.to_owned()].map(|folder| parent.join(folder));
    folders.into_iter().find(is_version).ok_or_else(|| BuildError::Crate {
        krate: parent.join(name),
        reason: format!(
            "{name} {version} is not there; the manifest must require it, as `version = \"={version}\"`"
        ),
    })
}

/// The folder to compile for the crate in `krate`: its copy in the target directory if it belongs
/// to a package, otherwise `krate`.
///
/// The nested cargo may write a lock file, but a build must not change a registry's sources, and
/// cargo's verification reports a package that a build script changes. The copy is a separate
/// workspace, because vendored sources can be below the manifest of a workspace to which they do
/// not belong.
pub fn compiled_folder(krate: PathBuf) -> Result<PathBuf, BuildError> {
    let (Some(out_dir), Some(name)) = (env::var_os("OUT_DIR").map(PathBuf::from), krate.file_name()) else {
        return Ok(krate);
    };
    if !krate.join(ORIGINAL).is_file() {
        return Ok(krate);
    }
    let target = out_dir.ancestors().find(|folder| is_target_dir(folder)).unwrap_or(&out_dir);
    let folder = target.join("ptx/packages").join(name);
    copy(&krate, &folder)?;
    let manifest = krate.join("Cargo.toml");
    let mut text = fs::read_to_string(&manifest).map_err(io_error(&manifest))?;
    text += &format!("\n[workspace]\n\n[patch.crates-io]\n{}", patches(&krate, &out_dir));
    write_if_changed(&folder.join("Cargo.toml"), text)?;
    // The nested cargo updates it later, and replaces the patched packages.
    let lock = folder.join("Cargo.lock");
    if let (false, Ok(versions)) = (lock.is_file(), fs::read(krate.join("Cargo.lock"))) {
        write_if_changed(&lock, versions)?;
    }
    if crate::environment::in_build_script() {
        // `cargo package` unpacks it again.
        println!("cargo::rerun-if-changed={}", krate.display());
    }
    Ok(folder)
}

/// Copies a folder without the files that cargo adds to a package and the files that
/// [`compiled_folder`] writes.
fn copy(from: &Path, to: &Path) -> Result<(), BuildError> {
    create_dir(to)?;
    for entry in fs::read_dir(from).map_err(io_error(from))? {
        let name = entry.map_err(io_error(from))?.file_name();
        let text = name.to_string_lossy();
        if text.starts_with(".cargo") || ["Cargo.lock", "Cargo.toml", ORIGINAL].contains(&&*text) {
            continue;
        }
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            copy(&from, &to)?;
        } else {
            write_if_changed(&to, fs::read(&from).map_err(io_error(&from))?)?;
        }
    }
    Ok(())
}

/// The lines of `[patch.crates-io]` while cargo verifies the packages of a workspace.
///
/// Packages can depend on each other before they are published: `cargo package` resolves them in a
/// registry in the target directory. Only that cargo knows the registry, so the nested cargo uses
/// the folders where the packages are verified, each after its dependencies.
fn patches(krate: &Path, out_dir: &Path) -> String {
    let mut folders = out_dir.ancestors().map(|folder| folder.join("package"));
    let Some(packages) = folders.find(|folder| folder.join(INDEX).is_dir()) else { return String::new() };
    // Cargo unpacks dependencies from that registry to a folder whose name is only a hash; folders
    // of other registries start with their host. In any other folder the crate is not being
    // verified.
    let Some(parent) = krate.parent() else { return String::new() };
    let is_unpacked = parent.file_name().is_some_and(|name| name.to_string_lossy().starts_with('-'));
    if !is_unpacked && fs::canonicalize(&packages).ok().as_deref() != Some(parent) {
        return String::new();
    }
    let mut lines = String::new();
    for (name, version) in indexed(&packages.join(INDEX)) {
        let folder = packages.join(format!("{name}-{version}"));
        if folder.join("Cargo.toml").is_file() && krate.file_name() != folder.file_name() {
            lines += &format!("{name} = {{ path = {:?} }}\n", folder.display().to_string());
        }
    }
    lines
}

/// Names and versions of the packages in a registry's index: one file for each package, with a line
/// of JSON for each version. `cargo package` writes one.
fn indexed(index: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in fs::read_dir(index).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(indexed(&path));
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        let last = text.lines().next_back().and_then(|line| serde_json::from_str::<Value>(line).ok());
        let field = |name: &str| last.as_ref()?[name].as_str().map(str::to_owned);
        found.extend(field("name").zip(field("vers")));
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_package_that_cargo_verifies_gets_the_others_that_it_verifies() {
        let root = env::temp_dir().join(format!("moye-packaged-{}", std::process::id()));
        let packages = root.join("target/package");
        let out_dir = root.join("target/debug/build/program-0123/out");
        let write = |file: PathBuf, text: &str| {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        for (name, version) in [("value", "0.1.0"), ("value", "0.2.0"), ("kernels", "0.2.0")] {
            write(packages.join(format!("{name}-{version}/Cargo.toml")), "");
        }
        // An earlier run unpacked 0.1.0; `program` is not unpacked yet.
        for name in ["value", "kernels", "program"] {
            let line = format!("{{\"name\":{name:?},\"vers\":\"0.2.0\"}}\n");
            write(packages.join(INDEX).join("aa").join(name), &line);
        }
        let packages = fs::canonicalize(packages).unwrap();
        let registries = root.join("registry/src");
        let found = [
            packages.join("kernels-0.2.0"),
            registries.join("-0123456789abcdef/kernels-0.2.0"),
            registries.join("index.crates.io-0123456789abcdef/kernels-0.2.0"),
            root.join("vendor/kernels"),
        ]
        .map(|krate| patches(&krate, &out_dir));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found.each_ref().map(|text| text.lines().count()), [1, 1, 0, 0], "{found:?}");
        for text in &found[..2] {
            assert!(text.starts_with("value = { path = ") && text.contains("value-0.2.0"), "{text}");
        }
    }
}
