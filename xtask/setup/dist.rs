//! The archive `rust-src` of Rust's own releases, which rustup installs: fetched with curl, unpacked with tar.

use crate::steps::quietly;
use anyhow::Result;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const SERVER: &str = "https://static.rust-lang.org";

/// Fetches the archive into `work`, unpacks it, and gives its folder `library`. As for rustup, RUSTUP_DIST_SERVER names
/// another server.
pub fn fetch(work: &Path, version: &str) -> Result<PathBuf> {
    let server = env::var("RUSTUP_DIST_SERVER").unwrap_or_else(|_| SERVER.to_owned());
    let url = format!("{}/dist/rust-src-{version}.tar.gz", server.trim_end_matches('/'));
    eprintln!("setup: fetching the source of Rust's `core` {version} ({url})");
    let archive = work.join("rust-src.tar.gz");
    quietly(
        Command::new("curl")
            .args([
                "--fail",
                "--silent",
                "--show-error",
                "--location",
                "--retry",
                "2",
                "--connect-timeout",
                "20",
            ])
            .arg("--output")
            .arg(&archive)
            .arg(url),
    )?;
    quietly(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(work))?;
    Ok(work.join(format!("rust-src-{version}/rust-src/lib/rustlib/src/rust/library")))
}
