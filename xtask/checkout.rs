//! The paths of a checkout, and its cargo.

use anyhow::{Context, Result};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A checkout of moye.
pub struct Checkout {
    /// The folder with the workspace's manifest.
    pub root: PathBuf,
    /// Cargo's target directory.
    pub target: PathBuf,
}

impl Checkout {
    /// The checkout from which this program was built.
    pub fn find() -> Result<Self> {
        // Cargo reports the package's current path; the folder may have moved since the build.
        let package = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = package.parent().context("the package xtask has no folder above it")?.to_owned();
        // The program itself is in the target directory, wherever that is; cargo marks its top.
        let program = env::current_exe().context("where this program is")?;
        let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
        let target = target.map_or_else(|| root.join("target"), Path::to_owned);
        Ok(Self { root, target })
    }

    /// The folder of downloads.
    pub fn toolchain(&self) -> PathBuf {
        self.root.join(".toolchain")
    }

    /// Cargo, started at the root.
    pub fn cargo(&self) -> Command {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.root);
        // `cargo run` sets variables for this program's package, which the programs that it starts
        // must not see.
        for (name, _) in env::vars_os() {
            let own = name
                .to_str()
                .is_some_and(|n| n.starts_with("CARGO_PKG_") || n.starts_with("CARGO_MANIFEST_"));
            if own {
                cargo.env_remove(&name);
            }
        }
        cargo
    }
}
