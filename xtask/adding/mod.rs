//! Follows "Adding an operation" of CONTRIBUTING.md: writes the folder `swish` into a copy of
//! `ops/rows`, and adds it to the list of operations. Its test, builder, measurement, command of
//! the program and function of Python then exist.
//!
//! The copy is a crate outside the workspace with that feature alone, so that one operation is
//! compiled, for the simulator; so is the copy of the program, which has `moye run` alone. A crate
//! of `moye new --python` shares the crates below them.

use crate::checkout::Checkout;
use crate::steps::{must, name, quietly};
use anyhow::{Context, Result, ensure};
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX, EXE_EXTENSION};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crate of the operations, that of the program, and the folder of the new one.
const CRATE: &str = "ops/rows";
const PROGRAM: &str = "tools/cli";
const OPERATION: &str = "swish";
/// The name of the copy's program: that of the checkout is in the same folder.
const PROGRAM_NAME: &str = "moye-with-swish";
/// The files of the operation.
const FILES: [(&str, &str); 5] = [
    ("mod.rs", include_str!("swish/mod.rs")),
    ("kernel.rs", include_str!("swish/kernel.rs")),
    ("call.rs", include_str!("swish/call.rs")),
    ("oracle.rs", include_str!("swish/oracle.rs")),
    ("cases.rs", include_str!("swish/cases.rs")),
];
/// The lines of the list: a file, the line before which a new one stands, and the new one.
const LIST: [(&str, &str, &str); 4] = [
    ("Cargo.toml", "\"topk\",\n", "\"swish\", "),
    ("Cargo.toml", "topk = [\"kernels\"]\n", "swish = [\"kernels\"]\n"),
    (
        "lib.rs",
        "#[cfg(all(not(target_arch = \"nvptx64\"), feature = \"topk\"))]\n",
        "#[cfg(all(not(target_arch = \"nvptx64\"), feature = \"swish\"))]\npub mod swish;\n",
    ),
    ("lib.rs", "\"topk\" topk: ", "\"swish\" swish: SWISH;\n            "),
];
/// A test of the builder, of the list that program and measurement read, and of the measurement.
const BUILDER: &str = r#"use moye::operation::{Case, Dtype, measure};
use moye::{Device, Matrix, MatrixMut};

#[test]
fn swish_has_a_builder_and_is_in_the_list() {
    let device = Device::sim();
    let (x, mut y) = (device.upload(&[0.0f32, 40.0]).unwrap(), device.upload(&[7.0f32; 2]).unwrap());
    let mut out = MatrixMut::row_major(&mut y, 1, 2).unwrap();
    let x = Matrix::row_major(&x, 1, 2).unwrap();
    moye_rows::swish::Swish::new(x).run(&device, &mut out).unwrap();
    assert_eq!(y.download().unwrap(), [0.0, 40.0]);
    let names: Vec<_> = moye_rows::OPERATIONS.iter().map(|of| (of.name, of.bench.len())).collect();
    assert_eq!(names, [("swish", 1)]);
    const CASE: Case = Case::new(&[Some(&[4, 8])]);
    let measured = measure(moye_rows::OPERATIONS[0], &device, &CASE, Dtype::F32).unwrap();
    assert!(measured.bytes == 256 && measured.rate() > 0.0, "{measured:?}");
    assert!(measured.kernel.starts_with("swish_f32"), "{measured:?}");
}
"#;

/// Adds the operation, and runs its tests.
///
/// # Errors
/// A test fails, or the list has no such line.
pub fn test(checkout: &Checkout, python: &Path) -> Result<()> {
    let folder = checkout.target.join("new/adding");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    copy(checkout, &folder)?;
    for (file, text) in FILES {
        write(&folder.join(CRATE).join(OPERATION).join(file), text)?;
    }
    for (file, before, line) in LIST {
        let file = folder.join(CRATE).join(file);
        let text = fs::read_to_string(&file)?;
        let at = text.find(before).with_context(|| format!("{} has no line {before}", file.display()))?;
        write(&file, &[&text[..at], line, &text[at..]].concat())?;
    }
    workspace(checkout, &folder)?;
    write(&folder.join(CRATE).join("tests/builder.rs"), BUILDER)?;
    // Without PTX: a build for docs.rs.
    let cargo = |arguments: &[&str]| {
        let mut cargo = checkout.cargo();
        cargo.args(arguments).args(["--quiet", "--manifest-path"]).arg(folder.join("Cargo.toml"));
        cargo.env("CARGO_TARGET_DIR", &checkout.target).env("CARGO_NET_OFFLINE", "true");
        cargo.env("DOCS_RS", "1").env("MOYE_DEVICE", "sim").env_remove("MOYE_REQUIRE_PTX");
        eprintln!("   {}, of a copy with the operation `{OPERATION}`", name(&cargo));
        cargo
    };
    // Its tests alone: the other operations are left out.
    let features = ["--no-default-features", "--features", OPERATION];
    let tests = ["test", "--package", "moye-rows", "--test", "operations", "--test", "builder"];
    let said = quietly(cargo(&tests).args(features).args(["--", OPERATION]))?;
    let all = said.matches("test result: ok. 1 passed").count();
    ensure!(all == 2, "the test of the declaration and that of the builder say {said}");
    let features = format!("adding/{OPERATION},moye-cli/run");
    let both = ["build", "--package", "adding", "--package", "moye-cli", "--no-default-features"];
    must(cargo(&both).args(["--features", &features]))?;
    let built = checkout.target.join("debug").join(format!("{DLL_PREFIX}adding{DLL_SUFFIX}"));
    let module = if cfg!(windows) { "adding.pyd" } else { "adding.abi3.so" };
    fs::copy(&built, folder.join(module)).with_context(|| format!("cannot copy {}", built.display()))?;
    let mut functions = Command::new(python);
    functions.args(["-c", include_str!("functions.py")]).current_dir(&folder);
    must(functions.env_remove("MOYE_DEVICE"))?;
    // The function of Python has left a file and the result.
    let program = checkout.target.join("debug").join(PROGRAM_NAME).with_extension(EXE_EXTENSION);
    let of_program = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.current_dir(&folder).args(arguments);
        quietly(&mut command)
    };
    let help = of_program(&["run", OPERATION, "--help"])?;
    ensure!(help.starts_with("x times its sigmoid"), "the help of the command says {help}");
    let said = of_program(&["run", OPERATION, "x.npy", "-o", "y.npy", "--force", "--device", "sim"])?;
    ensure!(said.contains("x [70, 33] float32"), "the command says {said}");
    let same = "import numpy as np; assert (np.load('y.npy') == np.load('wanted.npy')).all()";
    must(Command::new(python).args(["-c", same]).current_dir(&folder))
}

/// Copies the files of the crates.
fn copy(checkout: &Checkout, to: &Path) -> Result<()> {
    let mut list = Command::new("git");
    list.current_dir(&checkout.root).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        CRATE,
        PROGRAM,
    ]);
    let names = quietly(&mut list).context("the files of the checkout cannot be listed")?;
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (checkout.root.join(name), to.join(name));
        // A file that was removed is not copied.
        if from.is_file() {
            fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
            fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        }
    }
    Ok(())
}

/// Writes the workspace of the copy, whose other crates are the checkout's, and the crate of the
/// extension module.
fn workspace(checkout: &Checkout, folder: &Path) -> Result<()> {
    let manifest = fs::read_to_string(checkout.root.join("Cargo.toml"))?;
    let table = |heading: &str| {
        let from = manifest.find(heading).with_context(|| format!("Cargo.toml has no {heading}"))?;
        let rest = &manifest[from..];
        Ok::<_, anyhow::Error>(&rest[..rest.find("\n\n").unwrap_or(rest.len())])
    };
    let root = |path: &str| format!("path = {:?}", checkout.root.join(path).display().to_string());
    let mut dependencies = String::new();
    for line in table("[workspace.dependencies]")?.lines() {
        let mut line = line.to_owned();
        if let Some((path, _)) = line.split_once("path = \"").and_then(|(_, rest)| rest.split_once('"')) {
            let to = if path == CRATE { format!("path = \"{CRATE}\"") } else { root(path) };
            line = line.replace(&format!("path = \"{path}\""), &to);
        }
        // With the features that crates outside the workspace enable.
        if line.starts_with("moye-device") {
            line = line.replace(", default-features = false", "");
        }
        if line.starts_with("moye-rows") {
            line = line.replace(" }", ", default-features = false }");
        }
        dependencies += &(line + "\n");
    }
    // The library of the crate's own tests.
    let krate = folder.join(CRATE).join("Cargo.toml");
    let text = fs::read_to_string(&krate)?;
    write(&krate, &text.replace("path = \"../..\"", &root("")))?;
    let program = folder.join(PROGRAM).join("Cargo.toml");
    let text = fs::read_to_string(&program)?;
    write(&program, &text.replace("name = \"moye\"\n", &format!("name = {PROGRAM_NAME:?}\n")))?;
    let package = table("[workspace.package]")?;
    write(
        &folder.join("Cargo.toml"),
        &format!(
            "[workspace]\nmembers = [\"{CRATE}\", \"{PROGRAM}\", \"functions\"]\nresolver = \"3\"\n\n{package}\n\n{dependencies}\n\
             [profile.dev]\nopt-level = 1\ndebug = \"line-tables-only\"\nlto = \"off\"\n\n\
             [profile.dev.package.moye-sim]\nopt-level = 3\ncodegen-units = 1\n"
        ),
    )?;
    write(
        &folder.join("functions/Cargo.toml"),
        &format!(
            "[package]\nname = \"adding\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[lib]\npath = \"lib.rs\"\n\
             crate-type = [\"cdylib\"]\n\n[features]\n{OPERATION} = [\"moye-rows/{OPERATION}\"]\n\n[dependencies]\n\
             moye = {{ workspace = true, features = [\"simulator\"] }}\nmoye-python-support = {{ workspace = true }}\n\
             moye-rows = {{ workspace = true }}\n"
        ),
    )?;
    write(
        &folder.join("functions/lib.rs"),
        "//! The functions of Python.\n\nmoye_python_support::module!(adding, moye_rows::OPERATIONS);\n",
    )?;
    // The versions of this lock file, which are already downloaded.
    let lock: PathBuf = checkout.root.join("Cargo.lock");
    fs::copy(lock, folder.join("Cargo.lock")).context("cannot copy Cargo.lock").map(drop)
}

fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
