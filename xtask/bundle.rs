//! `cargo xtask bundle`: the executables of the tests, examples and benchmarks that use a device,
//! in one folder, with a script that runs them on a machine without Rust and the sources.

use crate::checkout::Checkout;
use crate::pieces::Pieces;
use crate::steps::{must, quietly};
use crate::{own_kernels, test};
use anyhow::{Context, Result, bail};
use lexopt::{Arg, Parser};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The bundle is copied to GPU machines by hand, so it stays small.
const MAX_MEGABYTES: f64 = 60.0;

/// Packages whose tests and examples are omitted (their benchmarks are not): packages whose tests
/// need a compiler, that have no tests, or whose tests use no device (the algebra, the simulator)
/// and have the same result on every machine.
const HOST_ONLY: &[&str] = &[
    "moye-bench",
    "moye-build",
    "moye-macros",
    "xtask",
    "moye-compile-errors",
    "moye-kernels-copy",
    "moye-kernels-hopper",
    "moye-kernels-mma",
    "moye-kernels-tiled",
    "moye-kernels-wgmma",
    "moye-demo",
    "moye-device",
    "moye-draw",
    "moye-eval",
    "moye-attention",
    "moye-matmul",
    "moye-movement",
    "moye-sim",
];
/// Tests that compile something or use no device, by name.
const LEFT_OUT: &[&str] = &["compile_errors", "fake_driver", "faults", "moye-bin", "tools"];

/// The program, which tests start.
const MOYE: &str = "moye";

/// The program of the crate that `moye new` writes, which launches a custom kernel.
const OWN_KERNELS: &str = "own-kernels";

/// The guide's steps on Hopper: the program, which measures, and the one test that uses a device.
const HOPPER_STEPS: &str = "hopper-steps";
const HOPPER_TEST: &str = "steps";

/// The folders of each package with files that a test may read.
const DATA: &[&str] = &["tests", "benches", "examples"];

const SCRIPT: &str = include_str!("bundle_run.sh");

/// Parses `--to DIR`.
pub fn destination(checkout: &Checkout, arguments: &mut Parser) -> Result<PathBuf> {
    let mut folder = checkout.root.join("bundle");
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("to") => folder = arguments.value()?.into(),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(folder)
}

/// One executable.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Program {
    /// `bin`, `test`, `example` or `bench`.
    kind: &'static str,
    /// Unique among its kind.
    name: String,
    /// The package's folder, relative to the checkout.
    package: PathBuf,
    executable: PathBuf,
}

pub fn run(checkout: &Checkout, folder: &Path) -> Result<()> {
    let root = &checkout.root;
    // Built for the whole workspace: their dependencies then have the same features, and are built
    // once.
    let mut programs =
        build(checkout, root, &[&["build", "--release"], test::ALL, &["--bins", "--examples"]].concat())?;
    let tests = [&["test", "--release", "--no-run"], test::ALL, &["--lib", "--tests"]].concat();
    programs.append(&mut build(checkout, root, &tests)?);
    programs.append(&mut build(
        checkout,
        root,
        &[&["bench", "--no-run"], test::ALL, &["--bench", "*"]].concat(),
    )?);
    let own = own_kernels::write(checkout, "release", own_kernels::OF_BUNDLE)?;
    programs.append(&mut build(checkout, &own, &["build", "--release", "--bins", "--features", "gpu"])?);
    // Several of these commands may build one program; the first one counts.
    let mut seen = BTreeSet::new();
    programs.retain(|program| seen.insert((program.kind, program.name.clone())));
    programs.sort();
    if !programs.iter().any(|program| program.kind == "test") {
        bail!("cargo built no tests");
    }
    gather(checkout, folder, &programs)?;

    let megabytes = size(folder)? as f64 / 1e6;
    let mut kinds = BTreeMap::new();
    for program in &programs {
        *kinds.entry(program.kind).or_insert(0) += 1;
    }
    let counts: Vec<_> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    println!("{}: {}, {megabytes:.1} MB; start it with ./run", folder.display(), counts.join(", "));
    if megabytes > MAX_MEGABYTES {
        bail!("the bundle is over {MAX_MEGABYTES} MB");
    }
    Ok(())
}

/// Runs cargo in a folder of the checkout and collects the executables from its messages.
fn build(checkout: &Checkout, folder: &Path, arguments: &[&str]) -> Result<Vec<Program>> {
    let mut cargo = checkout.cargo();
    if folder != checkout.root {
        // A crate outside the workspace, with the same target directory.
        cargo.current_dir(folder).env("CARGO_TARGET_DIR", &checkout.target);
    }
    cargo.args(arguments).arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let output = cargo.output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cargo {} failed", arguments.join(" "));
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact")
        .filter_map(|message| Program::read(checkout, &message).transpose())
        .collect()
}

impl Program {
    /// `None` for a file that is not an executable, or one that needs a compiler.
    fn read(checkout: &Checkout, message: &Value) -> Result<Option<Self>> {
        let Some(executable) = message["executable"].as_str() else { return Ok(None) };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let target = text(&message["target"]["name"]);
        let manifest = PathBuf::from(text(&message["manifest_path"]));
        let package = manifest.parent().context("cargo names a manifest without a folder")?;
        let kind = match (message["target"]["kind"][0].as_str(), message["profile"]["test"].as_bool()) {
            (Some("bench"), _) => "bench",
            (Some("example"), _) => "example",
            (_, Some(true)) => "test",
            // One of the programs is an example and the others measure; the tests use `moye`.
            (Some("bin"), _) if target == OWN_KERNELS => "example",
            (Some("bin"), _) if target == MOYE => "bin",
            (Some("bin"), _) => "bench",
            _ => return Ok(None),
        };
        let package_name = package_name(&text(&message["package_id"]), package);
        // Two packages may have tests of one name; examples and programs keep theirs. A program's
        // unit tests would have the name of the library's.
        let target = match (kind, message["target"]["kind"][0].as_str()) {
            ("test", Some("bin")) => format!("{target}-bin"),
            _ => target,
        };
        // Every benchmark measures the machine that runs it.
        let measures = message["target"]["kind"][0] == "bench";
        let other = kind == "test" && package_name == HOPPER_STEPS && target != HOPPER_TEST;
        if !measures
            && (other || HOST_ONLY.contains(&package_name.as_str()) || LEFT_OUT.contains(&target.as_str()))
        {
            return Ok(None);
        }
        let name = match kind {
            "test" | "bench" if package != checkout.root && target != package_name => {
                format!("{package_name}-{target}")
            }
            _ => target,
        };
        let package = package.strip_prefix(&checkout.root).unwrap_or(Path::new("")).to_owned();
        Ok(Some(Self { kind, name, package, executable: executable.into() }))
    }
}

/// The name in `path+file:///folder#name@0.1.0`; cargo omits it if the folder has the package's
/// name.
fn package_name(id: &str, folder: &Path) -> String {
    match id.rsplit_once('#').and_then(|(_, rest)| rest.split_once('@')) {
        Some((name, _)) => name.to_owned(),
        None => folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    }
}

fn gather(checkout: &Checkout, folder: &Path, programs: &[Program]) -> Result<()> {
    // Only a folder that an earlier run created is replaced.
    if folder.join("list").is_file() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    } else if folder.exists() && fs::read_dir(folder)?.next().is_some() {
        bail!("{} is not empty and no bundle; name another folder with --to", folder.display());
    }
    let mut list = String::new();
    let mut pieces = Pieces::new(folder.join("pieces"), &checkout.target.join("release/build"))?;
    let stripped = folder.join("stripped");
    for program in programs {
        quietly(Command::new("strip").arg("-o").arg(&stripped).arg(&program.executable))
            .context("`strip` of binutils makes the executables small")?;
        let parts = pieces.pack(&stripped).with_context(|| format!("cannot pack {}", program.name))?;
        let package = if program.package.as_os_str().is_empty() { Path::new(".") } else { &program.package };
        list += &format!("{} {} {} {}\n", program.kind, program.name, package.display(), parts.join(" "));
    }
    fs::remove_file(&stripped).with_context(|| format!("cannot remove {}", stripped.display()))?;
    let packages: BTreeSet<_> = programs.iter().map(|program| &program.package).collect();
    for package in packages {
        // Tests start in their package's folder, so it must exist.
        make_folder(&folder.join("files").join(package))?;
        for part in DATA {
            copy_data(&checkout.root, &package.join(part), &folder.join("files"))?;
        }
    }
    fs::write(folder.join("list"), list)?;
    let script = folder.join("run");
    fs::write(&script, SCRIPT)?;
    must(Command::new("chmod").arg("+x").arg(&script))
}

/// Copies all files that are not source code.
fn copy_data(root: &Path, folder: &Path, to: &Path) -> Result<()> {
    let from = root.join(folder);
    // A folder with a manifest is a separate crate, and its files belong to it.
    if !from.is_dir() || from.join("Cargo.toml").is_file() {
        return Ok(());
    }
    for entry in fs::read_dir(&from)? {
        let name = entry?.file_name();
        let (path, relative) = (from.join(&name), folder.join(&name));
        if path.is_dir() {
            copy_data(root, &relative, to)?;
        } else if !path.extension().is_some_and(|extension| extension == "rs" || extension == "stderr") {
            let copy = to.join(&relative);
            make_folder(copy.parent().expect("it was just joined"))?;
            fs::copy(&path, &copy).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}

fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let data = entry.metadata()?;
        bytes += if data.is_dir() { size(&entry.path())? } else { data.len() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn programs_have_their_kind_and_names_that_tell_them_apart() {
        let checkout = Checkout::find().unwrap();
        let read = |package: &str, id: &str, target: &str, kind: &str, test: bool| {
            let message = json!({
                "executable": "/built/program",
                "manifest_path": checkout.root.join(package).join("Cargo.toml"),
                "package_id": id,
                "profile": { "test": test },
                "target": { "name": target, "kind": [kind] },
            });
            Program::read(&checkout, &message).unwrap().map(|program| (program.kind, program.name))
        };
        let named = |kind, name: &str| Some((kind, name.to_owned()));
        let (root, steps) = ("path+file:///moye#0.1.0", "path+file:///moye/examples/hopper-steps#0.1.0");
        let own = "path+file:///moye/target/new/own-kernels#0.1.0";
        assert_eq!(
            read("target/new/own-kernels", own, "own-kernels", "bin", false),
            named("example", "own-kernels")
        );
        let device = "path+file:///moye/device#moye-device@0.1.0";
        assert_eq!(read("device", device, "algebra", "bench", false), named("bench", "moye-device-algebra"));
        assert_eq!(read("device", device, "suite", "test", true), None, "no device takes part in it");
        let (cli, ladder) =
            ("path+file:///moye/tools/cli#moye-cli@0.1.0", "path+file:///moye/tools/bench#moye-bench@0.1.0");
        assert_eq!(
            read("tools/bench", ladder, "ladder", "bench", false),
            named("bench", "moye-bench-ladder")
        );
        assert_eq!(read("tools/bench", ladder, "moye_bench", "lib", true), None);
        assert_eq!(read("tools/cli", cli, "tools", "test", true), None);
        assert_eq!(read("tools/cli", cli, "moye", "bin", false), named("bin", "moye"));
        assert_eq!(read("tools/cli", cli, "cli", "test", true), named("test", "moye-cli-cli"));
        assert_eq!(read("", root, "matmul", "test", true), named("test", "matmul"));
        assert_eq!(
            read("examples/hopper-steps", steps, "hopper-steps", "bin", false),
            named("bench", "hopper-steps")
        );
        assert_eq!(
            read("examples/hopper-steps", steps, "steps", "test", true),
            named("test", "hopper-steps-steps")
        );
        assert_eq!(
            read("examples/hopper-steps", steps, "page", "test", true),
            None,
            "it is about the sources"
        );
        assert_eq!(read("xtask", "path+file:///moye/xtask#0.1.0", "xtask", "bin", false), None);
    }
}
