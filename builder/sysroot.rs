//! `core` for the GPU, compiled once: a sysroot for all device code.
//!
//! Cargo's own way, `-Zbuild-std`, compiles `core` for each target directory, set of options and architecture, which takes longer
//! than most kernels do. But nothing in it is for an architecture: with the options of [`nested`] its functions are compiled where they
//! are used, by a compiler that is told the architecture there. So it is compiled without one, by that same way, for a crate that has
//! nothing in it, and lies where the compiler looks for it with `--sysroot`.

use crate::core_source::CoreSource;
use crate::files::{create_dir, io_error, write_if_changed};
use crate::known::TARGET;
use crate::{BuildError, environment, nested};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// What is in `core`'s sysroot: `core`, and what the compiler calls for operations that the GPU has no instruction for.
const LIBRARIES: [&str; 2] = ["core", "compiler_builtins"];

/// Compiles `core` where that was not done yet, and gives the folder to name with `--sysroot`.
///
/// Nested target directories of one outer build share it, whatever workspaces they are of. The folder's name tells the compiled
/// libraries apart, so that what was compiled with others is compiled again.
///
/// # Errors
/// `core` does not compile; a file cannot be written.
pub fn build(core: &CoreSource, target_dir: &Path) -> Result<PathBuf, BuildError> {
    let folder = shared_folder(target_dir).join("core");
    let krate = folder.join("crate");
    create_dir(&krate)?;
    // A workspace of its own, wherever it lies.
    write_if_changed(
        &krate.join("Cargo.toml"),
        "[workspace]\n\n[package]\nname = \"core-for-device-code\"\nedition = \"2024\"\n\n[lib]\npath = \"lib.rs\"\n",
    )?;
    write_if_changed(&krate.join("lib.rs"), "#![no_std]\n")?;

    let mut cargo = nested::cargo(&["build", "-Zbuild-std=core"], &krate, &folder.join("target"), &[]);
    if !core.in_sysroot {
        cargo.env("__CARGO_TESTS_ONLY_SRC_ROOT", &core.library);
    }
    let output = nested::run(&mut cargo)?;
    if !output.status.success() {
        let output = nested::error_text(&output);
        return Err(BuildError::Core { library: core.library.clone(), output });
    }
    let messages = nested::messages(&output);
    let mut libraries = Vec::new();
    for library in LIBRARIES {
        let made = nested::made(&messages, library, "rlib");
        if made.is_empty() {
            return Err(BuildError::Tool {
                command: format!("{} build -Zbuild-std=core", environment::cargo().display()),
                reason: format!("it does not say where the library {library} is"),
            });
        }
        libraries.extend(made);
    }
    let sysroot = folder.join(format!("sysroot-{:016x}", fingerprint(&libraries)?));
    if !sysroot.is_dir() {
        lay_out(&libraries, &sysroot)?;
    }
    Ok(sysroot)
}

/// Copies the libraries to where the compiler looks for them in a sysroot; all are there as soon as one is.
fn lay_out(libraries: &[PathBuf], sysroot: &Path) -> Result<(), BuildError> {
    // Other builds may do the same at the same time.
    let work = sysroot.with_extension(std::process::id().to_string());
    let lib = work.join("lib/rustlib").join(TARGET).join("lib");
    create_dir(&lib)?;
    for library in libraries {
        let name = library.file_name().unwrap_or_default();
        fs::copy(library, lib.join(name)).map_err(io_error(library))?;
    }
    let renamed = fs::rename(&work, sysroot);
    if renamed.is_err() {
        // Of one that the other build made there is no doubt that it is the same.
        let _ = fs::remove_dir_all(&work);
    }
    match renamed {
        Err(error) if !sysroot.is_dir() => Err(io_error(sysroot)(error)),
        _ => Ok(()),
    }
}

/// What distinguishes compiled libraries: cargo's name for each, which the compiler's version is a part of, and when it was made.
fn fingerprint(libraries: &[PathBuf]) -> Result<u64, BuildError> {
    let mut hasher = DefaultHasher::new();
    for library in libraries {
        let made =
            fs::metadata(library).and_then(|metadata| metadata.modified()).map_err(io_error(library))?;
        (library.file_name(), made).hash(&mut hasher);
    }
    Ok(hasher.finish())
}

/// The folder that nested target directories share: `ptx` in the outermost target directory of cargo that this one lies in, or this
/// one itself.
fn shared_folder(target_dir: &Path) -> PathBuf {
    let of_cargo = |folder: &Path| {
        let tag = fs::read_to_string(folder.join("CACHEDIR.TAG"));
        tag.is_ok_and(|text| text.contains("created by cargo"))
    };
    let outermost = target_dir.ancestors().skip(1).filter(|folder| of_cargo(folder)).last();
    outermost.map_or_else(|| target_dir.to_owned(), |folder| folder.join("ptx"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_directories_inside_one_of_cargo_share_a_folder_and_others_have_their_own() {
        let root = std::env::temp_dir().join(format!("moye-shared-{}", std::process::id()));
        let mark = |folder: &str, by: &str| {
            create_dir(&root.join(folder)).unwrap();
            fs::write(
                root.join(folder).join("CACHEDIR.TAG"),
                format!("# This file is a tag created by {by}.\n"),
            )
            .unwrap();
        };
        mark("", "a backup program");
        mark("a/target", "cargo");
        mark("a/target/tests/trybuild", "cargo");
        mark("a/target/ptx", "cargo");
        let of = |folder: &str| shared_folder(&root.join(folder));
        let seen = ["a/target/ptx", "a/target/tests/trybuild/ptx/of-1", "a/target/tmp/kernels"].map(of);
        let alone = of("b/elsewhere");
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(seen, [0; 3].map(|_| root.join("a/target/ptx")));
        assert_eq!(alone, root.join("b/elsewhere"), "no target directory of cargo is above it");
    }
}
