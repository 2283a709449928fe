//! Finds the source of `core`, which is compiled for the GPU before the kernels. Its version must
//! be exactly the compiler's.
//!
//! The source is searched in
//! 1. the toolchain, where `rustup component add rust-src` installs it;
//! 2. the folder that `MOYE_RUST_SRC` names;
//! 3. `.toolchain/rust-src-VERSION` of any folder above the crate, or above this package, where
//!    `cargo xtask setup` of a moye checkout stores it.

use crate::{BuildError, environment};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable that names the folder `library` of the compiler's source.
pub const VARIABLE: &str = "MOYE_RUST_SRC";

/// The source of `core` and of the crates that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreSource {
    /// The folder `library`.
    pub library: PathBuf,
    /// Whether it is in cargo's default location.
    pub in_sysroot: bool,
}

/// The version of the compiler that will be used, such as `1.95.0`.
///
/// # Errors
/// The compiler cannot be run, or does not print its version.
pub fn compiler_version() -> Result<String, BuildError> {
    let rustc = environment::rustc();
    let text = run(&rustc, &["-vV"])?;
    let version = text.lines().find_map(|line| line.strip_prefix("release: ")).map(str::to_owned);
    version.ok_or_else(|| BuildError::Tool {
        command: format!("{} -vV", rustc.display()),
        reason: format!("it does not name its release: {text}"),
    })
}

/// Finds the source for the crate in `crate_dir`.
///
/// # Errors
/// No folder holds the source, or `MOYE_RUST_SRC` or `.toolchain` holds that of another version.
pub fn find(crate_dir: &Path) -> Result<CoreSource, BuildError> {
    let sysroot = PathBuf::from(run(&environment::rustc(), &["--print", "sysroot"])?.trim_end());
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let mut starts = vec![crate_dir.to_owned()];
    starts.extend(std::env::current_dir());
    // A crate outside a checkout that depends on it uses the source that the checkout fetched.
    starts.push(PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    find_in(&sysroot, named, &starts, &compiler_version()?)
}

/// The message if the source of `core` is missing.
pub(crate) fn missing(version: &str, looked_in: &[PathBuf]) -> String {
    let places: Vec<_> = looked_in.iter().map(|path| path.display().to_string()).collect();
    format!(
        "the source of Rust's `core` for rustc {version} is missing; kernels cannot be compiled without it.\n\
         Install it with one of\n    \
             rustup component add rust-src\n    \
             cargo xtask setup    (in a checkout of moye; keeps it inside the checkout)\n\
         or set {VARIABLE} to the folder `library` of that version's source.\n\
         Looked in: {}",
        places.join(", ")
    )
}

/// The message if the source does not match the compiler.
pub(crate) fn unusable(path: &Path, found: &str, version: &str) -> String {
    format!(
        "{} cannot be the source of Rust's `core` for rustc {version}: it is {found}.\n\
         Fix or unset {VARIABLE}, or install the source with `rustup component add rust-src` or, in a checkout of moye, \
         `cargo xtask setup`.",
        path.display()
    )
}

fn find_in(
    sysroot: &Path,
    named: Option<PathBuf>,
    starts: &[PathBuf],
    version: &str,
) -> Result<CoreSource, BuildError> {
    let mut looked_in = Vec::new();
    let mut look = |library: PathBuf| {
        let found = is_library(&library);
        if !found && !looked_in.contains(&library) {
            looked_in.push(library.clone());
        }
        found.then_some(library)
    };
    if let Some(library) = look(sysroot.join("lib/rustlib/src/rust/library")) {
        return Ok(CoreSource { library, in_sysroot: true });
    }
    if let Some(named) = named {
        // The folder above `library` is a frequent mistake with a clear meaning, so it is accepted.
        return match look(named.clone()).or_else(|| look(named.join("library"))) {
            Some(library) => same_version(library, version),
            None => Err(BuildError::CoreSourceUnusable {
                path: named,
                found: "not the folder `library` of the compiler's source".into(),
                version: version.into(),
            }),
        };
    }
    let kept = Path::new(".toolchain").join(format!("rust-src-{version}")).join("library");
    let mut nearest = None;
    for folder in starts.iter().flat_map(|start| start.ancestors()) {
        if let Some(library) = look(folder.join(&kept)) {
            return same_version(library, version);
        }
        nearest.get_or_insert_with(|| folder.join(&kept));
    }
    // Every folder up to the root was searched; the message names only the first.
    looked_in.retain(|path| path.starts_with(sysroot) || nearest.as_ref() == Some(path));
    Err(BuildError::CoreSourceMissing { version: version.into(), looked_in })
}

/// Whether this is the folder `library` of the compiler's source, with the lock file that cargo
/// requires.
pub fn is_library(folder: &Path) -> bool {
    folder.join("core/src/lib.rs").is_file() && folder.join("Cargo.lock").is_file()
}

fn same_version(library: PathBuf, version: &str) -> Result<CoreSource, BuildError> {
    match version_of(&library) {
        Some(found) if found != version => Err(BuildError::CoreSourceUnusable {
            path: library,
            found: format!("of version {found}"),
            version: version.into(),
        }),
        _ => Ok(CoreSource { library, in_sysroot: false }),
    }
}

/// The version of a source, from its file `version` or from a folder's name such as `rustc-1.95.0`.
fn version_of(library: &Path) -> Option<String> {
    let root = library.parent()?;
    for file in ["version", "src/version"] {
        if let Ok(text) = std::fs::read_to_string(root.join(file)) {
            return text.split_whitespace().next().map(str::to_owned);
        }
    }
    library.ancestors().filter_map(|folder| folder.file_name()?.to_str()).find_map(|name| {
        let version = name.strip_prefix("rustc-").or_else(|| name.strip_prefix("rust-src-"))?;
        version.starts_with(|c: char| c.is_ascii_digit()).then(|| version.trim_end_matches("-src").to_owned())
    })
}

/// A program's output.
pub(crate) fn run(program: &OsString, arguments: &[&str]) -> Result<String, BuildError> {
    let fail = |reason: String| BuildError::Tool {
        command: format!("{} {}", program.display(), arguments.join(" ")),
        reason,
    };
    let output = Command::new(program).args(arguments).output().map_err(|e| fail(e.to_string()))?;
    if !output.status.success() {
        return Err(fail(String::from_utf8_lossy(&output.stderr).trim_end().to_owned()));
    }
    String::from_utf8(output.stdout).map_err(|e| fail(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A folder with the files of a source of `core`; its name is unique to the test.
    fn library(test: &str, at: &str) -> (PathBuf, PathBuf) {
        let root = std::env::temp_dir().join(format!("moye-core-source-{}-{test}", std::process::id()));
        let library = root.join(at);
        fs::create_dir_all(library.join("core/src")).unwrap();
        fs::write(library.join("core/src/lib.rs"), "").unwrap();
        fs::write(library.join("Cargo.lock"), "").unwrap();
        (root, library)
    }

    #[test]
    fn the_toolchains_own_source_comes_first() {
        let (root, inside) = library("sysroot", "lib/rustlib/src/rust/library");
        let found = find_in(&root, Some("/nowhere".into()), &[], "1.95.0").unwrap();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, CoreSource { library: inside, in_sysroot: true });
    }

    #[test]
    fn a_folder_named_by_the_variable_may_be_library_or_the_one_above() {
        let (root, inside) = library("named", "usr/src/rustc-1.95.0/library");
        let nowhere = Path::new("/nowhere");
        let by_library = find_in(nowhere, Some(inside.clone()), &[], "1.95.0");
        let by_parent = find_in(nowhere, inside.parent().map(Path::to_owned), &[], "1.95.0");
        let other = find_in(nowhere, Some(inside.clone()), &[], "1.96.1").unwrap_err().to_string();
        let wrong = find_in(nowhere, Some(root.clone()), &[], "1.95.0").unwrap_err().to_string();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(by_library.unwrap().library, inside);
        assert_eq!(by_parent.unwrap().library, inside);
        assert!(other.contains("rustc 1.96.1: it is of version 1.95.0"), "both versions are named: {other}");
        assert!(wrong.contains("not the folder `library`"), "{wrong}");
    }

    #[test]
    fn a_checkout_above_the_crate_keeps_it() {
        let (root, inside) = library("kept", ".toolchain/rust-src-1.95.0/library");
        let krate = root.join("examples/pages");
        let found = find_in(Path::new("/nowhere"), None, std::slice::from_ref(&krate), "1.95.0");
        let other = find_in(Path::new("/nowhere"), None, &[krate], "1.96.1");
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found.unwrap().library, inside);
        assert!(
            matches!(other, Err(BuildError::CoreSourceMissing { .. })),
            "the source of another version is none: {other:?}"
        );
    }

    #[test]
    fn a_crate_elsewhere_has_what_the_checkout_of_this_package_keeps() {
        let (root, inside) = library("beside", "checkout/.toolchain/rust-src-1.95.0/library");
        let starts = [root.join("elsewhere/crate"), root.join("checkout/builder")];
        let found = find_in(Path::new("/nowhere"), None, &starts, "1.95.0");
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found.unwrap().library, inside);
    }

    #[test]
    fn a_missing_source_is_one_message_with_both_remedies() {
        let error = find_in(Path::new("/nowhere"), None, &["/no/crate".into()], "1.95.0").unwrap_err();
        let message = error.to_string();
        for part in [
            "rustc 1.95.0",
            "rustup component add rust-src",
            "cargo xtask setup",
            "MOYE_RUST_SRC",
            "/nowhere/lib/rustlib/src/rust/library",
            "/no/crate/.toolchain/rust-src-1.95.0/library",
        ] {
            assert!(message.contains(part), "`{part}` is in: {message}");
        }
        assert_eq!(
            message.matches(".toolchain").count(),
            1,
            "the folders above are not all listed: {message}"
        );
    }

    #[test]
    fn the_version_is_read_from_the_source_rather_than_from_a_folders_name() {
        let (root, inside) = library("version", "rustc-1.90.0/library");
        let by_name = version_of(&inside);
        fs::write(inside.with_file_name("version"), "1.95.0 (59807616e 2026-04-14)\n").unwrap();
        let by_file = version_of(&inside);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!((by_name.as_deref(), by_file.as_deref()), (Some("1.90.0"), Some("1.95.0")));
    }
}
