//! The Python package: built by maturin into a virtual environment in `.toolchain`, and tested by
//! pytest on the simulator.

use crate::checkout::Checkout;
use crate::steps::{must, name, quietly};
use crate::transcript;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the package and its crate.
pub const FOLDER: &str = "python";
/// The features that compile the same kernels as the workspace, whose PTX is reused.
pub const FEATURES: [&str; 2] = ["--features", "ladder"];
/// The profile of the tests. [`UNOPTIMISED`] holds for their small problems.
const BUILD: [&str; 4] = ["--profile", "dev", "--config", UNOPTIMISED];
/// Compiles the shipped kernels for the simulator in half the time. Each copy of a fragment has its
/// own stack slot then, for which [`STACK`] has space.
pub const UNOPTIMISED: &str = "profile.dev.package.moye-kernels.opt-level=0";
/// The variable of the simulated threads' stacks, and their size in bytes without optimisation.
pub const STACK: (&str, &str) = ("MOYE_SIM_STACK", "2097152");
/// The Python packages that build and test need.
const PACKAGES: [&str; 4] = ["maturin>=1.9,<2", "ml_dtypes", "numpy", "pytest"];
/// Imports all of these.
const IMPORTS: &str = "import maturin, ml_dtypes, numpy, pytest";

/// The interpreter of the virtual environment. A missing environment is created, and pip installs
/// its packages.
///
/// # Errors
/// No Python, one without `venv`, or packages that cannot be fetched; with the way out.
pub fn environment(checkout: &Checkout, python: &str) -> Result<PathBuf> {
    let folder = checkout.toolchain().join("python");
    let own = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let is_ready = || quietly(Command::new(&own).args(["-c", IMPORTS])).is_ok();
    if is_ready() {
        return Ok(own);
    }
    quietly(Command::new(python).args(["-m", "venv"]).arg(&folder))
        .context("install Python 3.10 or newer, with its module venv")?;
    eprintln!("setup: fetching {} from PyPI", PACKAGES.join(", "));
    let mut pip = Command::new(&own);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(PACKAGES);
    quietly(&mut pip).context("they can also be installed by hand into .toolchain/python")?;
    Ok(own)
}

/// Builds the package into the environment and runs its tests.
pub fn test(checkout: &Checkout, python: &Path) -> Result<()> {
    let folder = checkout.root.join(FOLDER);
    let environment = checkout.toolchain().join("python");
    let mut build = Command::new(python);
    build.args(["-m", "maturin", "develop", "--quiet"]).args(BUILD).args(FEATURES);
    build.current_dir(&folder);
    build.env("VIRTUAL_ENV", &environment).env("CARGO_TARGET_DIR", &checkout.target);
    // maturin takes one environment, and complains where conda names another.
    build.env_remove("CONDA_PREFIX");
    eprintln!("   {}", name(&build));
    quietly(&mut build)?;
    let mut tests = Command::new(python);
    tests
        .args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"])
        .current_dir(&folder)
        .env_remove("MOYE_DEVICE")
        .env_remove("PYTHONPATH")
        .env(STACK.0, STACK.1);
    eprintln!("   {}", name(&tests));
    must(&mut tests)?;
    // The profile of a plain `pip install`, which a test below checks, would compile all kernels
    // once more.
    let build = [&BUILD[..], &FEATURES].concat().join(" ");
    transcript::run(checkout, "Python", &[("MATURIN_PEP517_ARGS", &build), STACK])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_command_builds_by_a_profile_that_the_crate_has() {
        let folder = Checkout::find().unwrap().root.join(FOLDER);
        let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
        let project = read("pyproject.toml");
        let profile = project.lines().find_map(|line| line.strip_prefix("profile = ")).unwrap();
        let heading = format!("[profile.{}]", profile.trim_matches('"'));
        assert!(read("Cargo.toml").lines().any(|line| line == heading), "{heading}");
    }

    #[test]
    fn without_a_python_the_way_out_is_named() {
        let root = std::env::temp_dir().join(format!("moye-python-{}", std::process::id()));
        let checkout = Checkout { target: root.join("target"), root };
        let error = format!("{:#}", environment(&checkout, "no-python-of-this-name").unwrap_err());
        for part in ["install Python 3.10 or newer", "no-python-of-this-name -m venv"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(!checkout.toolchain().exists());
    }
}
