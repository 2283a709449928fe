//! The archive `rust-src` of Rust's releases, which rustup installs: fetched with curl, unpacked
//! with tar.

use crate::steps::quietly;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const SERVER: &str = "https://static.rust-lang.org";

/// Fetches the archive into `work`, unpacks it, and returns its folder `library`. As for rustup,
/// RUSTUP_DIST_SERVER names another server.
pub fn fetch(work: &Path, version: &str) -> Result<PathBuf> {
    let server = env::var("RUSTUP_DIST_SERVER").unwrap_or_else(|_| SERVER.to_owned());
    let url = format!("{}/dist/rust-src-{version}.tar.gz", server.trim_end_matches('/'));
    eprintln!("setup: fetching the source of Rust's `core` {version} ({url})");
    let archive = work.join("rust-src.tar.gz");
    curl(&url, &archive)?;
    let sum = work.join("rust-src.tar.gz.sha256");
    curl(&format!("{url}.sha256"), &sum)?;
    let sum = fs::read_to_string(&sum).with_context(|| format!("cannot read {}", sum.display()))?;
    let actual = quietly(Command::new("sha256sum").arg(&archive))?;
    same_sum(&url, &sum, &actual)?;
    quietly(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(work))?;
    Ok(work.join(format!("rust-src-{version}/rust-src/lib/rustlib/src/rust/library")))
}

fn curl(url: &str, to: &Path) -> Result<()> {
    let options =
        ["--fail", "--silent", "--show-error", "--location", "--retry", "2", "--connect-timeout", "20"];
    quietly(Command::new("curl").args(options).arg("--output").arg(to).arg(url)).map(drop)
}

/// Compares two lines of `sha256sum`: the checksum, then a file's name.
fn same_sum(url: &str, published: &str, actual: &str) -> Result<()> {
    let sum = |line: &str| line.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    let (published, actual) = (sum(published), sum(actual));
    if published.len() != 64 || !published.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        bail!("{url}.sha256 holds no SHA-256 sum: `{published}`");
    }
    if published != actual {
        bail!("{url} has the SHA-256 sum {actual}, and {url}.sha256 says {published}; try again");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_with_another_sum_than_the_published_one_is_refused() {
        let (one, other) = ("0f".repeat(32), "1e".repeat(32));
        let line = |sum: &str| format!("{sum}  rust-src.tar.gz\n");
        same_sum("u", &line(&one), &line(&one)).unwrap();
        same_sum("u", &line(&one.to_uppercase()), &line(&one)).unwrap();
        let error = same_sum("u", &line(&one), &line(&other)).unwrap_err().to_string();
        assert!(error.contains(&one) && error.contains(&other), "both sums are named: {error}");
        for none in ["", "<html>404</html>\n", "0f0f  rust-src.tar.gz\n"] {
            let error = same_sum("u", none, &line(&one)).unwrap_err().to_string();
            assert!(error.contains("holds no SHA-256 sum"), "{none}: {error}");
        }
    }
}
