//! Checks, tests and runs a crate that `moye new` writes as its user would, without a network.

use crate::checkout::Checkout;
use crate::steps::{must, name};
use anyhow::{Context, Result, ensure};
use std::env::consts::EXE_EXTENSION;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The crate that the bundle builds, in the target directory.
pub const OF_BUNDLE: &str = "new/own-kernels";
/// The crate of this step: the transcript's folder, so that its dependencies are compiled to PTX
/// once for both.
const OF_STEP: &str = "transcript/rust/row-sums";

/// Writes the crate and runs its commands. `clippy` says whether cargo has that command.
pub fn test(checkout: &Checkout, clippy: bool) -> Result<()> {
    let krate = write(checkout, "debug", OF_STEP)?;
    let cargo = |arguments: &[&str]| cargo(checkout, &krate, arguments);
    if clippy {
        shown(&mut cargo(&["clippy", "--quiet", "--all-targets", "--all-features", "--", "-D", "warnings"]))?;
    }
    let tested = said(&mut cargo(&["test", "--quiet"]))?;
    ensure!(tested.contains("test result: ok. 2 passed"), "its tests say {tested}");
    for (features, device) in [(&[][..], ", on the simulator"), (&["--features", "gpu"], ", on ")] {
        let ran = said(&mut cargo(&[&["run", "--quiet"], features].concat()))?;
        let sums = "the sums of 100 rows of 1024 elements are right";
        ensure!(ran.contains(&format!("{sums}{device}")), "the program says {ran}");
        // On a GPU a user needs no folder of a CUDA toolkit, and without a GPU no runtime.
        let tree = said(&mut cargo(&[&["tree", "--prefix", "none"], features].concat()))?;
        let has = |package: &str| tree.lines().any(|line| line.starts_with(package));
        ensure!(has("moye-sim ") && !has("cust ") && has("moye v") != features.is_empty(), "{tree}");
    }
    mistaken(&krate, cargo)
}

/// A mistake in a layout is a short error at its line, in the editor and with `cargo kernels`.
fn mistaken(krate: &Path, cargo: impl Fn(&[&str]) -> Command) -> Result<()> {
    let file = krate.join("src/lib.rs");
    let source = fs::read_to_string(&file)?;
    // 32 threads with 4 elements each do not divide a row of 100.
    fs::write(&file, source.replace("layout!((4, 128))", "layout!((4, 100))"))?;
    let line = source.lines().position(|line| line.contains("partition_s(gX)")).context("no partition")? + 1;
    let place = format!("src/lib.rs:{line}:");
    // Code generation for the host finds it too, and shows only this mistake.
    for (command, above, longest) in [(&["kernels"][..], 8, 30), (&["build", "--lib"], 30, 45)] {
        let output = ran(cargo(command).args(["--quiet", "--color=never"]))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!output.status.success(), "{command:?} takes the mistake");
        ensure!(said.lines().take(above).any(|text| text.contains(&place)), "{place} is not in: {said}");
        ensure!(said.lines().count() <= longest, "{} lines: {said}", said.lines().count());
        let explained = match command {
            ["kernels"] => said.contains("100") && said.contains("128"),
            _ => said.matches("error[").count() == 1,
        };
        ensure!(explained, "{said}");
    }
    // Eight mistakes are eight errors, each reported once and at its line.
    let (head, kernel) = source.split_at(source.find("use moye_device::prelude").context("no kernel")?);
    let modules = (0..8).map(|number| {
        let tile = format!("layout!((4, {}))", 100 - 4 * number);
        format!("pub mod mistake_{number} {{\n{}}}\n", kernel.replace("layout!((4, 128))", &tile))
    });
    let source = head.to_owned() + &modules.collect::<String>();
    fs::write(&file, &source)?;
    let output = ran(cargo(&["build", "--lib"]).args(["--quiet", "--color=never"]))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(said.matches("error[").count() == 8 && said.lines().count() <= 8 * 45, "{said}");
    for (number, _) in source.lines().enumerate().filter(|(_, line)| line.contains("partition_s(gX)")) {
        let place = format!("--> src/lib.rs:{}:", number + 1);
        ensure!(said.matches(&place).count() == 1, "{place} is not in this once: {said}");
    }
    Ok(())
}

/// A crate newly written by `moye new` of this profile, in a folder of the target directory.
pub fn write(checkout: &Checkout, profile: &str, folder: &str) -> Result<PathBuf> {
    let folder = checkout.target.join(folder);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let mut new = Command::new(checkout.target.join(profile).join("moye").with_extension(EXE_EXTENSION));
    must(new.arg("new").arg(&folder).arg("--path").arg(&checkout.root).stdout(Stdio::null()))?;
    // The versions of this lock file, which are already downloaded.
    fs::copy(checkout.root.join("Cargo.lock"), folder.join("Cargo.lock"))
        .context("cannot copy Cargo.lock")?;
    Ok(folder)
}

/// Cargo in the crate, with the workspace's target directory: the dependencies shared with other
/// crates outside the workspace are already built.
fn cargo(checkout: &Checkout, krate: &Path, arguments: &[&str]) -> Command {
    let mut cargo = checkout.cargo();
    cargo.args(arguments).current_dir(krate).env("CARGO_TARGET_DIR", &checkout.target);
    cargo.env("CARGO_NET_OFFLINE", "true").env_remove("MOYE_DEVICE");
    cargo
}

fn ran(command: &mut Command) -> Result<Output> {
    eprintln!("   {}", name(command));
    command.output().with_context(|| format!("cannot run {}", name(command)))
}

fn shown(command: &mut Command) -> Result<()> {
    eprintln!("   {}", name(command));
    must(command)
}

/// The standard output of a command, which must succeed.
fn said(command: &mut Command) -> Result<String> {
    let output = ran(command)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed ({}):\n{errors}", name(command), output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
