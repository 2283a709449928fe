//! `core` for the GPU, compiled once: a sysroot for all device code.
//!
//! Cargo's `-Zbuild-std` compiles `core` for each target directory, set of options and
//! architecture, which takes longer than most kernels. But `core` is independent of the
//! architecture: with the options of [`nested`] nearly all of its functions are compiled where they
//! are used, for the architecture there. So it is compiled once without an architecture, by
//! `-Zbuild-std` for an empty crate, and placed where the compiler finds it with `--sysroot`.

use crate::core_source::CoreSource;
use crate::files::{beside, create_dir, io_error, is_target_dir, write_if_changed};
use crate::known::TARGET;
use crate::{BuildError, environment, nested};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// The crates of the sysroot: `core`, and the functions that the compiler calls for operations
/// without a GPU instruction.
const LIBRARIES: [&str; 2] = ["core", "compiler_builtins"];

/// Compiles `core` unless it is already compiled, and returns the folder for `--sysroot`. Cargo and
/// its configuration are those of the crate in `krate`.
///
/// All nested target directories of an outer build share it, in any workspace. The folder's name
/// identifies the compiled libraries: with other libraries, crates are compiled again.
///
/// # Errors
/// `core` does not compile; a file cannot be written.
pub fn build(core: &CoreSource, krate: &Path, target_dir: &Path) -> Result<PathBuf, BuildError> {
    let folder = shared_folder(target_dir).join("core");
    let empty = folder.join("crate");
    create_dir(&empty)?;
    let manifest = empty.join("Cargo.toml");
    // A separate workspace, wherever its folder is.
    write_if_changed(
        &manifest,
        "[workspace]\n\n[package]\nname = \"core-for-device-code\"\nedition = \"2024\"\n\n[lib]\npath = \"lib.rs\"\n",
    )?;
    write_if_changed(&empty.join("lib.rs"), "#![no_std]\n")?;

    let mut cargo = nested::cargo(&["build", "-Zbuild-std=core"], krate, &folder.join("target"), &[]);
    cargo.arg("--manifest-path").arg(&manifest);
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
        let made = nested::rlibs(&messages, library);
        if made.is_empty() {
            return Err(BuildError::Tool {
                command: format!("{} build -Zbuild-std=core", environment::cargo().display()),
                reason: format!(
                    "it built no library {library}, and printed\n{}",
                    String::from_utf8_lossy(&output.stdout)
                ),
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

/// Copies the libraries to the location where the compiler searches for them in a sysroot. They
/// appear there all at once.
fn lay_out(libraries: &[PathBuf], sysroot: &Path) -> Result<(), BuildError> {
    // Another build may do the same concurrently.
    let work = beside(sysroot);
    let laid_out = copy_into(libraries, &work).and_then(|()| match fs::rename(&work, sysroot) {
        // Another build was faster; its libraries are the same.
        Err(_) if sysroot.is_dir() => fs::remove_dir_all(&work).map_err(io_error(&work)),
        renamed => renamed.map_err(io_error(sysroot)),
    });
    if laid_out.is_err() {
        let _ = fs::remove_dir_all(&work);
    }
    laid_out
}

fn copy_into(libraries: &[PathBuf], sysroot: &Path) -> Result<(), BuildError> {
    let lib = sysroot.join("lib/rustlib").join(TARGET).join("lib");
    create_dir(&lib)?;
    for library in libraries {
        let copy = lib.join(library.file_name().unwrap_or_default());
        fs::copy(library, &copy).map_err(io_error(&copy))?;
    }
    Ok(())
}

/// The identity of compiled libraries: cargo's name of each, which includes the compiler's version,
/// and its time.
fn fingerprint(libraries: &[PathBuf]) -> Result<u64, BuildError> {
    let mut hasher = DefaultHasher::new();
    for library in libraries {
        let made =
            fs::metadata(library).and_then(|metadata| metadata.modified()).map_err(io_error(library))?;
        (library.file_name(), made).hash(&mut hasher);
    }
    Ok(hasher.finish())
}

/// The folder that nested target directories share: `ptx` in cargo's outermost target directory
/// that contains `target_dir`, or `target_dir` itself if no other one contains it.
fn shared_folder(target_dir: &Path) -> PathBuf {
    let outermost = target_dir.ancestors().skip(1).filter(|folder| is_target_dir(folder)).last();
    outermost.map_or_else(|| target_dir.to_owned(), |folder| folder.join("ptx"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_lay_out_the_same_libraries_find_them_whole() {
        let root = std::env::temp_dir().join(format!("moye-lay-out-{}", std::process::id()));
        create_dir(&root).unwrap();
        let libraries = ["libcore-1.rlib", "libcompiler_builtins-2.rlib"].map(|name| root.join(name));
        for (i, library) in libraries.iter().enumerate() {
            fs::write(library, vec![i as u8; 1 << 20]).unwrap();
        }
        let sysroot = root.join("sysroot-3");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    lay_out(&libraries, &sysroot).unwrap();
                    for library in &libraries {
                        let copy = sysroot
                            .join("lib/rustlib")
                            .join(TARGET)
                            .join("lib")
                            .join(library.file_name().unwrap());
                        assert!(fs::read(&copy).unwrap() == fs::read(library).unwrap(), "{}", copy.display());
                    }
                });
            }
        });
        let left: Vec<_> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(left.len(), 3, "two libraries and a sysroot: {left:?}");
    }

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
