//! `moye new`: a crate with custom kernels.

mod krate;

use super::{built_in, report};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;

/// Writes a crate with a kernel, its tests on the simulator, and a program that runs it.
#[derive(Args)]
pub struct New {
    /// Folder to write, whose last component is the crate's name: `my-kernels`.
    #[arg(value_name = "NAME")]
    folder: PathBuf,
    /// Name of the crate (default: the folder's).
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Checkout of moye that the crate depends on (default: the one in which this program was
    /// built, if it still exists, otherwise the packages of crates.io).
    #[arg(long, value_name = "CHECKOUT")]
    path: Option<PathBuf>,
    /// Writes an operation that Python can call after `pip install`.
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
