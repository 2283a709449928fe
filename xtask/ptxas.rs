//! Fetches `ptxas` for the tests where a machine has none: NVIDIA's package on PyPI, through pip, into `.toolchain`.

use crate::checkout::Checkout;
use crate::steps::quietly;
use anyhow::{Context, Result};
use moye_build::report::Ptxas;
use std::fs;
use std::process::Command;

const PACKAGE: &str = "nvidia-cuda-nvcc==13.0.88";
const PROGRAM: &str = "nvidia/cu13/bin/ptxas";

/// Makes sure that `ptxas` is found, and gives it.
pub fn ensure(checkout: &Checkout) -> Result<Ptxas> {
    if let Some(found) = Ptxas::find() {
        return Ok(found);
    }
    eprintln!("setup: fetching ptxas ({PACKAGE} from PyPI, 37 MB)");
    let work = checkout.toolchain().join(format!("ptxas-{}", std::process::id()));
    let fetched = fetch(&work, checkout);
    let _ = fs::remove_dir_all(&work);
    fetched?;
    Ptxas::find().context("ptxas was fetched but is not found")
}

fn fetch(work: &std::path::Path, checkout: &Checkout) -> Result<()> {
    quietly(
        Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"])
            .args(["--root-user-action=ignore", "--target"])
            .arg(work)
            .arg(PACKAGE),
    )?;
    // Of the whole package only the assembler is kept.
    let kept = checkout.toolchain().join("ptxas").join(PROGRAM);
    let folder = kept.parent().expect("it was just joined");
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::rename(work.join(PROGRAM), &kept).with_context(|| format!("cannot move ptxas to {}", kept.display()))
}
