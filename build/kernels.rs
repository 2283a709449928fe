//! Where the crate of the kernels is: in a checkout below this package, otherwise beside it.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The crate of the kernels in a checkout.
const IN_CHECKOUT: &str = "device/kernels";
/// The packages that are compiled to PTX, that of the kernels first, and what the host needs of
/// them.
const PACKAGES: [&str; 4] = ["moye-kernels", "moye-device", "moye-macros", "moye-sim"];

/// The folder of the crate of the kernels.
///
/// Cargo unpacks a registry package and its dependencies side by side. The build copies those in
/// `PACKAGES` to a workspace in `OUT_DIR`, where they depend on each other by path: a build must
/// not write to cargo's registry.
pub fn folder() -> io::Result<PathBuf> {
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it for a build script"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it for a build script"));
    if own.join(IN_CHECKOUT).is_dir() {
        return Ok(IN_CHECKOUT.into());
    }
    let beside = own.parent().unwrap_or(&own);
    let workspace = out.join("packages");
    let mut patches = String::new();
    for package in PACKAGES {
        copy(&unpacked(beside, package)?, &workspace.join(package))?;
        if package != PACKAGES[0] {
            patches += &format!("{package} = {{ path = \"{package}\" }}\n");
        }
    }
    let manifest = format!(
        "[workspace]\nmembers = [\"{}\"]\nresolver = \"3\"\n\n[patch.crates-io]\n{patches}",
        PACKAGES[0]
    );
    write(&workspace.join("Cargo.toml"), manifest.as_bytes())?;
    // Other dependencies have the versions of this package's lock file, if it has one.
    if !workspace.join("Cargo.lock").is_file()
        && let Ok(lock) = fs::read(own.join("Cargo.lock"))
    {
        write(&workspace.join("Cargo.lock"), &lock)?;
    }
    Ok(workspace.join(PACKAGES[0]))
}

/// The folder of a package of this one's version: as cargo unpacks it, or as `cargo vendor` does.
fn unpacked(beside: &Path, package: &str) -> io::Result<PathBuf> {
    let version = env!("CARGO_PKG_VERSION");
    let folders = [format!("{package}-{version}"), package.to_owned()].map(|name| beside.join(name));
    let found = folders.iter().find(|folder| folder.join("Cargo.toml").is_file());
    found.cloned().ok_or_else(|| {
        let text = format!(
            "{package} {version} is not beside this package, in {}; build with a registry's or vendored sources of one version",
            beside.display()
        );
        io::Error::new(io::ErrorKind::NotFound, text)
    })
}

/// Copies a folder with what is in it.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        // Cargo writes `.cargo*` files to a registry package; a workspace ignores its members' lock
        // files.
        if entry.file_name().to_string_lossy().starts_with(".cargo") || entry.file_name() == "Cargo.lock" {
            continue;
        }
        if from.is_dir() { copy(&from, &to)? } else { write(&to, &fs::read(&from)?)? }
    }
    Ok(())
}

/// Writes a file that is not already so: what keeps its time is not compiled again.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) { Ok(()) } else { fs::write(path, bytes) }
}
