//! `moye new`: a crate with kernels of its own.

mod krate;

use super::{built_in, report};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;

/// Writes a crate with a kernel, its tests on the simulator, and a program that runs it.
#[derive(Args)]
pub struct New {
    /// Folder to write, whose last part is the crate's name: `my-kernels`.
    #[arg(value_name = "NAME")]
    folder: PathBuf,
    /// Name of the crate (default: the folder's).
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Checkout of moye that the crate depends on (default: the one that this program was built in,
    /// where that still exists, or else the packages of crates.io).
    #[arg(long, value_name = "CHECKOUT")]
    path: Option<PathBuf>,
    /// Writes an operation that `pip install` makes a function of Python.
    #[arg(long)]
    python: bool,
}

impl New {
    pub fn run(self) -> Result<()> {
        let new =
            krate::New { folder: self.folder, name: self.name, checkout: self.path, python: self.python };
        report::print(&new.write(built_in())?);
        Ok(())
    }
}
