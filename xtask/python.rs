//! The Python package: its extension module is a library of the workspace, tested by pytest on the
//! simulator, in a virtual environment in `.toolchain`.

use crate::checkout::Checkout;
use crate::krate::New;
use crate::steps::{must, name, quietly};
use crate::{test, transcript};
use anyhow::{Context, Result, ensure};
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the package and its crate.
const FOLDER: &str = "python";
/// The build that `pip install` starts in the transcript. The plain command would compile all
/// kernels again, with the features of this package alone: [`stand_in`] replaces it.
const PLAIN: &str = "--profile dev";
/// The Python packages that the tests need.
const PACKAGES: [&str; 3] = ["ml_dtypes", "numpy", "pytest"];
/// The program that builds wheels, as in `pyproject.toml`.
const MATURIN: &str = "maturin>=1.9,<2";
/// Imports all of these.
const IMPORTS: &str = "import ml_dtypes, numpy, pytest";

/// The interpreter of the virtual environment. A missing environment is created, and pip installs
/// its packages.
///
/// # Errors
/// There is no Python, it lacks `venv`, or packages cannot be fetched; the message includes the way
/// out.
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

/// Builds the extension module into the package, and runs its tests; then the transcript, which
/// installs the package with pip.
pub fn test(checkout: &Checkout, python: &Path) -> Result<()> {
    let folder = checkout.root.join(FOLDER);
    let mut build = checkout.cargo();
    build.args(module());
    eprintln!("   {}", name(&build));
    must(&mut build)?;
    let built = checkout.target.join("debug").join(format!("{DLL_PREFIX}_moye{DLL_SUFFIX}"));
    let module = folder.join("moye").join(if cfg!(windows) { "_moye.pyd" } else { "_moye.abi3.so" });
    fs::copy(&built, &module).with_context(|| format!("cannot copy {}", built.display()))?;
    let mut tests = Command::new(python);
    tests
        .args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"])
        .current_dir(&folder)
        .env_remove("MOYE_DEVICE")
        .env("PYTHONPATH", &folder);
    eprintln!("   {}", name(&tests));
    must(&mut tests)?;
    own_functions(checkout, python)?;
    let stand_in = stand_in(checkout)?;
    let stand_in = stand_in.to_str().context("the target directory is no text")?;
    transcript::run(checkout, "Python", &[("MATURIN_PEP517_ARGS", PLAIN), ("CARGO", stand_in)])
}

/// The arguments with which cargo builds the extension module: together with the programs, whose
/// packages then have the same features as for the tests.
fn module() -> Vec<&'static str> {
    [&["build", "--quiet", "--lib"], test::PROGRAMS, test::ALL].concat()
}

/// A cargo for maturin, whose build is the workspace's: it already exists, and pip packs and
/// installs it. With the variables of pip and maturin, cargo would build pyo3 again.
fn stand_in(checkout: &Checkout) -> Result<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let path = std::env::var("PATH").context("there is no PATH")?;
    let names = ["BUILD_EXTENSION_MODULE", "CONFIG_FILE", "ENVIRONMENT_SIGNATURE", "PYTHON"];
    let unset = names.map(|name| format!(" PYO3_{name}")).concat();
    let (root, build) = (checkout.root.display(), module().join(" "));
    let script = format!(
        "#!/bin/sh\ncase \"$1\" in rustc) ;; *) exec '{cargo}' \"$@\" ;; esac\n\
         unset CARGO{unset} PYTHON_SYS_EXECUTABLE\nexport PATH='{path}'\n\
         cd '{root}' && exec '{cargo}' {build} --message-format=json-render-diagnostics\n"
    );
    let file = checkout.target.join("transcript/cargo.sh");
    fs::create_dir_all(checkout.target.join("transcript"))?;
    fs::write(&file, script).with_context(|| format!("cannot write {}", file.display()))?;
    #[cfg(unix)]
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(file)
}

/// Writes a crate with `moye new --python`, builds its extension module, and runs its tests in
/// Python and in Rust, and its bench on the simulator.
fn own_functions(checkout: &Checkout, python: &Path) -> Result<()> {
    // The name of the template's function, which the module may have too.
    let folder = checkout.target.join("new/silu");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let new = New { folder: folder.clone(), name: None, checkout: Some(checkout.root.clone()), python: true };
    new.write(&checkout.root)?;
    // The versions of this lock file, which are already downloaded.
    fs::copy(checkout.root.join("Cargo.lock"), folder.join("Cargo.lock"))
        .context("cannot copy Cargo.lock")?;
    let mut build = checkout.cargo();
    build.current_dir(&folder).args(["build", "--quiet", "--lib"]);
    eprintln!("   {}, of a crate of `moye new --python`", name(&build));
    // The dependencies shared with the workspace are already built.
    must(build.env("CARGO_TARGET_DIR", &checkout.target))?;
    let built = checkout.target.join("debug").join(format!("{DLL_PREFIX}silu{DLL_SUFFIX}"));
    let module = if cfg!(windows) { "silu.pyd" } else { "silu.abi3.so" };
    fs::copy(&built, folder.join("tests").join(module))
        .with_context(|| format!("cannot copy {}", built.display()))?;
    let mut tests = Command::new(python);
    tests.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider", "tests"]).current_dir(&folder);
    eprintln!("   {}", name(&tests));
    must(tests.env_remove("MOYE_DEVICE").env("PYTHONPATH", folder.join("tests")))?;
    let mut tests = checkout.cargo();
    tests.current_dir(&folder).args(["test", "--quiet", "--test", "operations", "--bench", "silu"]);
    tests.env("CARGO_TARGET_DIR", &checkout.target).env("MOYE_DEVICE", "sim");
    eprintln!("   {}", name(&tests));
    let said = quietly(&mut tests)?;
    let measured = ["silu_f32 of [3, 1000] float32: ", "silu_bf16 of [3, 1000] bfloat16: "];
    let is_all = said.contains("2 passed") && measured.iter().all(|line| said.contains(line));
    ensure!(is_all, "the tests and the bench of the crate say {said}");
    Ok(())
}

/// Builds the wheel of the Python package from the sources in `from`, for this machine and its
/// version of glibc or newer ones, into the folder `to`.
///
/// # Errors
/// maturin cannot be fetched, or its build fails.
pub fn wheel(checkout: &Checkout, from: &Path, to: &Path) -> Result<()> {
    let python = environment(checkout, "python3")?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", MATURIN];
    quietly(Command::new(&python).args(pip)).context("maturin builds the wheel")?;
    let mut build = Command::new(&python);
    build.args(["-m", "maturin", "build", "--profile", "wheel", "--manifest-path"]);
    build.arg(from.join(FOLDER).join("Cargo.toml")).arg("--out").arg(to);
    build.env("CARGO_TARGET_DIR", to.join("target"));
    must(&mut build)
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
        assert!(read("../Cargo.toml").lines().any(|line| line == heading), "{heading}");
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
