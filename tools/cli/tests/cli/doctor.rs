//! `moye doctor`: what it reports, and where it searches.

use crate::{command, moye, stdout};
#[cfg(unix)]
use rstest::rstest;
use std::path::Path;
#[cfg(unix)]
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

#[test]
fn it_names_what_it_looks_at_and_how_to_mend_each_miss() {
    let folder = TempDir::new().unwrap();
    let said = stdout(&moye(folder.path(), &["doctor"]));
    for name in ["rustc", "core source", "ptxas", "driver", "GPU", "simulator"] {
        assert!(said.lines().any(|line| line.starts_with(name)), "{name} is missing: {said}");
    }
    let missing = said.matches(" missing ").count();
    assert_eq!(said.matches("to fix it:").count(), missing, "each miss has its remedy: {said}");
}

/// The doctor on a machine whose path has only these folders.
#[cfg(unix)]
fn doctor(folder: &Path, path: &[&Path]) -> Command {
    let mut command = command(folder, &["doctor"]);
    command.env("PATH", std::env::join_paths(path).unwrap());
    for other in ["MOYE_PTXAS", "CUDA_PATH", "CUDA_HOME", "MOYE_RUST_SRC", "RUSTC", "CARGO"] {
        command.env_remove(other);
    }
    command
}

/// Writes a program, and creates the folders above it.
#[cfg(unix)]
fn program(file: &Path, script: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The output for a variable with a wrong path: the line that begins with `name`, and the fix.
#[cfg(unix)]
#[rstest]
#[case("MOYE_PTXAS", "ptxas", "missing  MOYE_PTXAS names ", "set MOYE_PTXAS to the program, or unset it")]
#[case("MOYE_RUST_SRC", "core source", "missing  ", "set MOYE_RUST_SRC to the folder `library`")]
fn a_variable_that_names_no_folder_is_reported(
    #[case] variable: &str,
    #[case] name: &str,
    #[case] finding: &str,
    #[case] fix: &str,
) {
    let folder = TempDir::new().unwrap();
    let at = |part: &str| folder.path().join(part);
    // A compiler without the source of `core`, whatever this machine's compiler has.
    let answer =
        format!("case \"$1\" in -vV) echo release: 1.95.0;; *) echo {};; esac", at("sysroot").display());
    program(&at("bin/rustc"), &answer);
    let output = doctor(folder.path(), &[&at("bin")]).env(variable, at("nowhere")).output().unwrap();
    let said = stdout(&output);
    let lines: Vec<_> = said.lines().skip_while(|line| !line.starts_with(name)).take(3).collect();
    assert!(lines[0].contains(finding) && lines[0].contains(at("nowhere").to_str().unwrap()), "{said}");
    assert!(lines[2].contains(&format!("to fix it: {fix}")), "{said}");
}

/// A folder that is removed when the value is dropped.
#[cfg(unix)]
struct Removed(PathBuf);

#[cfg(unix)]
impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A compiler version whose source exists only in the checkout, where the test puts it.
#[cfg(unix)]
#[test]
fn outside_a_checkout_the_source_that_it_holds_is_named() {
    let version = "0.0.0-doctor";
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some(checkout) = own.ancestors().find(|folder| folder.join("rust-toolchain.toml").is_file()) else {
        assert!(std::env::var_os("MOYE_BUNDLE").is_some(), "only a bundle is run without the checkout");
        return;
    };
    let name = format!("rust-src-{version}");
    let kept = Removed(checkout.join(".toolchain").join(&name));
    std::fs::create_dir_all(kept.0.join("library/core/src")).unwrap();
    for file in ["library/core/src/lib.rs", "library/Cargo.lock"] {
        std::fs::write(kept.0.join(file), "").unwrap();
    }
    let folder = TempDir::new().unwrap();
    let at = |part: &str| folder.path().join(part);
    let rustc = |version: &str| {
        let sysroot = at("sysroot");
        let answer =
            format!("case \"$1\" in -vV) echo release: {version};; *) echo {};; esac", sysroot.display());
        program(&at("bin/rustc"), &answer);
    };
    rustc(version);
    let output = doctor(folder.path(), &[&at("bin")]).output().unwrap();
    let said = stdout(&output);
    let line = said.lines().find(|line| line.starts_with("core source")).unwrap();
    assert!(line.contains("ok ") && line.contains(&name), "{said}");
    assert!(
        line.ends_with("for crates that do not depend on that checkout set MOYE_RUST_SRC to it"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(0), "{said}");

    // A compiler of another version does not get that source.
    rustc("0.0.1-doctor");
    let output = doctor(folder.path(), &[&at("bin")]).output().unwrap();
    let said = stdout(&output);
    let line = said.lines().find(|line| line.starts_with("core source")).unwrap();
    assert!(line.contains(" missing ") && !line.contains(&name), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
}

#[cfg(unix)]
#[test]
fn ptxas_is_found_in_the_path_in_a_toolkit_and_in_pypis_package() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let at = |part: &str| folder.join(part);
    let found = |command: &mut Command, file: &Path| {
        let said = stdout(&command.output().unwrap());
        let line = said.lines().find(|line| line.starts_with("ptxas")).unwrap();
        assert!(
            line.contains("ok ") && line.ends_with(file.to_str().unwrap()),
            "{} is in: {said}",
            file.display()
        );
    };
    for file in ["bin/ptxas", "toolkit/bin/ptxas", "packages/nvidia/cu13/bin/ptxas"] {
        program(&at(file), "exit 0");
    }
    // A Python with these packages.
    program(&at("python/python3"), &format!("echo {}; echo /nowhere", at("packages").display()));
    found(&mut doctor(folder, &[&at("bin"), &at("python")]), &at("bin/ptxas"));
    for variable in ["CUDA_PATH", "CUDA_HOME"] {
        let toolkit = &mut doctor(folder, &[&at("python")]);
        found(toolkit.env(variable, at("toolkit")), &at("toolkit/bin/ptxas"));
    }
    // A toolkit in its usual path precedes Python.
    if !Path::new("/usr/local/cuda/bin/ptxas").is_file() {
        found(&mut doctor(folder, &[&at("python")]), &at("packages/nvidia/cu13/bin/ptxas"));
    }
}

#[cfg(unix)]
#[test]
fn on_a_bare_machine_each_missing_tool_is_explained_and_doctor_fails() {
    let folder = TempDir::new().unwrap();
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let output = doctor(folder.path(), &[&empty]).output().unwrap();
    let said = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "no kernel can be compiled: {said}");
    for (miss, fix) in [
        ("rustc ", "https://rustup.rs"),
        ("core source", "`rustup component add rust-src`, or `cargo xtask setup`"),
    ] {
        let mut lines = said.lines().skip_while(|line| !line.starts_with(miss));
        assert!(lines.next().is_some_and(|line| line.contains(" missing ")), "{miss}: {said}");
        assert!(lines.next().is_some_and(|line| line.contains("Without it ")), "{miss}: {said}");
        assert!(
            lines.next().is_some_and(|line| line.contains("to fix it: ") && line.contains(fix)),
            "{said}"
        );
    }
}
