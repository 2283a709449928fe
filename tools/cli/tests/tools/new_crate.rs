//! `moye new`: its messages and files. `cargo xtask test own-kernels` tests and runs such a crate.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// `moye new` in a folder.
fn moye_new(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_moye")).arg("new").args(arguments).current_dir(folder).output().unwrap()
}

/// A new crate of this name, with the versions of the workspace's lock file.
fn new_crate(folder: &Path, name: &str) -> PathBuf {
    let output = moye_new(folder, &[name]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let krate = folder.join(name);
    keep_versions(&krate);
    krate
}

fn keep_versions(krate: &Path) {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    fs::copy(lock, krate.join("Cargo.lock")).unwrap();
}

/// Cargo in the new crate. It shares this test's target directory, so that dependencies are not
/// built again.
fn cargo(krate: &Path, arguments: &[&str]) {
    let own = std::env::current_exe().unwrap();
    let target = own.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file()).unwrap();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Cargo's variables for this test's package must not reach the new one.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&*name);
        }
    }
    let output = cargo.args(arguments).current_dir(krate).env("CARGO_TARGET_DIR", target).output().unwrap();
    assert!(
        output.status.success(),
        "cargo {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
    );
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all
}

#[test]
fn a_new_crate_has_its_settings_and_the_command_says_how_to_go_on() {
    let folder = TempDir::new().unwrap();
    let output = moye_new(folder.path(), &["row-sums"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    for part in ["row-sums is written", "cargo test", "cargo kernels", "cargo run", "--features gpu"] {
        assert!(said.contains(part), "`{part}` is missing: {said}");
    }
    let krate = folder.path().join("row-sums");
    assert!(krate.join(".cargo/config.toml").is_file() && krate.join(".github/workflows/ci.yml").is_file());
    // The editor's settings name the feature of `cargo kernels`.
    let editor = fs::read_to_string(krate.join("rust-analyzer.toml")).unwrap();
    assert!(editor.contains("[cargo]\nfeatures = [\"gpu\"]"), "{editor}");
}

#[test]
fn crates_of_every_kind_of_name_compile() {
    let folder = TempDir::new().unwrap();
    // Both separators, a name that contains the template's, a dependency of the language.
    for name in ["a-b_c", "new-kernels-2", "half"] {
        cargo(&new_crate(folder.path(), name), &["check", "--all-targets", "--offline", "--quiet"]);
    }
}

#[test]
fn a_new_crate_is_as_rustfmt_writes_it() {
    let folder = TempDir::new().unwrap();
    assert!(moye_new(folder.path(), &["kernels"]).status.success());
    let krate = folder.path().join("kernels");
    let rust = files(&krate).into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let formatted = Command::new("rustfmt").args(["--check", "--edition", "2024"]).args(rust).output();
    // rustfmt is a component that may be missing.
    let output = match formatted {
        Ok(output) => output,
        Err(reason) => {
            // Not `eprintln!`, whose output is hidden if the test passes.
            let _ = writeln!(
                std::io::stderr(),
                "the form of a new crate is not tested: rustfmt cannot be run: {reason}"
            );
            return;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_taken_folder_or_a_name_that_cargo_refuses_is_an_error_and_nothing_is_written() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("taken")).unwrap();
    fs::write(folder.path().join("taken/file"), "mine").unwrap();
    for (arguments, expected) in [
        (&["taken"][..], "taken exists already and is not empty; name another folder"),
        (&["taken/file", "--name", "kernels"], "exists already and is no folder"),
        (&["2d"], "`2d` is not a valid crate name: it does not start with a letter"),
        (&["Self"], "`Self` has an upper-case letter"),
        (&["panic_unwind"], "`panic_unwind` is the name of another crate or folder that the build uses"),
        (&["kernels", "--path", "."], ". is not a checkout of moye"),
    ] {
        let output = moye_new(folder.path(), arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(files(folder.path()), [folder.path().join("taken/file")]);
}
