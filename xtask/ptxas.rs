//! Fetches `ptxas` for the tests where a machine has none: NVIDIA's packages on PyPI, through pip, into `.toolchain`.

use crate::checkout::Checkout;
use crate::steps::quietly;
use anyhow::{Context, Result, bail};
use moye_build::report::Ptxas;
use std::fs;
use std::process::Command;

/// A package, and where it keeps the program.
struct Package {
    name: &'static str,
    size: &'static str,
    program: &'static str,
}

/// The assembler that all figures are of.
const NEWEST: Package =
    Package { name: "nvidia-cuda-nvcc==13.0.88", size: "37 MB", program: "nvidia/cu13/bin/ptxas" };

/// The last one that has architectures before sm_75, for the tests of what older GPUs have.
const OLDER: Package =
    Package { name: "nvidia-cuda-nvcc-cu12==12.9.86", size: "41 MB", program: "nvidia/cuda_nvcc/bin/ptxas" };

/// Makes sure that `ptxas` is found, one for new architectures and one for those before sm_75.
pub fn ensure(checkout: &Checkout) -> Result<()> {
    let older = || Ptxas::find_for("sm_50".parse().expect("an architecture's name"));
    let wanted: [(Package, &dyn Fn() -> Option<Ptxas>); 2] = [(NEWEST, &Ptxas::find), (OLDER, &older)];
    // One that cannot be had leaves the other.
    let missing: Vec<_> = wanted
        .iter()
        .filter(|(_, found)| found().is_none())
        .filter_map(|(package, found)| {
            let fetched = fetch(package, checkout).and_then(|()| match found() {
                Some(_) => Ok(()),
                None => bail!("it was fetched but is not found"),
            });
            fetched.err().map(|error| format!("{}: {error:#}", package.name))
        })
        .collect();
    if missing.is_empty() { Ok(()) } else { bail!("{}", missing.join("; ")) }
}

/// Unpacks a package's program into `.toolchain/ptxas`.
fn fetch(package: &Package, checkout: &Checkout) -> Result<()> {
    eprintln!("setup: fetching ptxas ({} from PyPI, {})", package.name, package.size);
    let work = checkout.toolchain().join(format!("ptxas-{}", std::process::id()));
    let fetched = fetch_into(&work, package, checkout);
    let _ = fs::remove_dir_all(&work);
    fetched
}

fn fetch_into(work: &std::path::Path, package: &Package, checkout: &Checkout) -> Result<()> {
    quietly(
        Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"])
            .args(["--root-user-action=ignore", "--target"])
            .arg(work)
            .arg(package.name),
    )?;
    // Of the whole package only the assembler is kept.
    let kept = checkout.toolchain().join("ptxas").join(package.program);
    let folder = kept.parent().expect("it was just joined");
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::rename(work.join(package.program), &kept)
        .with_context(|| format!("cannot move ptxas to {}", kept.display()))
}
