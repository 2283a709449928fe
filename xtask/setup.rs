//! Sets up the source of Rust's `core` in the compiler's version, which compiling kernels requires,
//! in `.toolchain`.
//!
//! If rustup installed `rust-src`, or `MOYE_RUST_SRC` names the source, nothing is done. Otherwise
//! it is fetched from the first of the servers below that has it.

mod debian;
mod dist;

use crate::checkout::Checkout;
use anyhow::{Context, Result, bail};
use moye_build::{BuildError, core_source};
use std::fs;
use std::path::{Path, PathBuf};

/// Fetches the source of a version into a folder and returns the folder `library` in it.
type Fetch = fn(work: &Path, version: &str) -> Result<PathBuf>;

/// Debian's archive is the first: build machines with restricted networks often reach it.
const PLACES: &[(&str, Fetch)] =
    &[("Debian's package, by apt-get", debian::fetch), ("Rust's own archive, by curl", dist::fetch)];

/// Fetches the source of `core` unless it exists; prints nothing if it does.
pub fn core_source(checkout: &Checkout) -> Result<()> {
    let version = match core_source::find(&checkout.root) {
        Ok(_) => return Ok(()),
        Err(BuildError::CoreSourceMissing { version, .. }) => version,
        Err(error) => return Err(error.into()),
    };
    let mut tried = Vec::new();
    for (place, fetch) in PLACES {
        match fetch_core_source(checkout, &version, *fetch) {
            Ok(kept) => {
                eprintln!("setup: it is in {}", kept.display());
                core_source::find(&checkout.root)?;
                return Ok(());
            }
            Err(error) => tried.push(format!("{place}: {error:#}")),
        }
    }
    bail!(
        "the source of Rust's `core` for rustc {version} could not be set up.\n{}\n\n\
         Any one of these helps:\n    \
             rustup component add rust-src\n    \
             unpack Debian's package rust-src {version} (`dpkg-deb -x`), or the archive rust-src-{version}.tar.gz of \
             https://static.rust-lang.org/dist, and set MOYE_RUST_SRC to its folder `library`\n    \
             set RUSTUP_DIST_SERVER to a mirror of https://static.rust-lang.org, and run this again\n    \
             copy .toolchain/rust-src-{version} from a checkout that has it to {}",
        tried.join("\n"),
        checkout.toolchain().display()
    )
}

/// Fetches the source and returns the folder where it is stored.
fn fetch_core_source(checkout: &Checkout, version: &str, fetch: Fetch) -> Result<PathBuf> {
    let kept = checkout.toolchain().join(format!("rust-src-{version}"));
    // Another run may fetch concurrently. Each works in a separate folder, and the first to finish
    // keeps its source.
    let work = WorkFolder::new(checkout.toolchain().join(format!("setup-{}", std::process::id())))?;
    let library = fetch(work.path(), version)?;
    if !core_source::is_library(&library) {
        bail!("what was fetched is not the folder `library` of the compiler's source: {}", library.display());
    }
    // The rest of the archive, such as the compiler's source, is not needed.
    let ready = work.path().join("ready");
    fs::create_dir(&ready).with_context(|| format!("cannot make {}", ready.display()))?;
    fs::rename(&library, ready.join("library")).context("cannot move the folder library")?;
    keep(&ready, &kept, &work.path().join("unusable"))?;
    Ok(kept)
}

/// Renames the folder `ready`, with a `library` in it, to `kept`. An existing folder without a
/// complete `library` is moved to `aside` first. A usable one, from another run, stays.
fn keep(ready: &Path, kept: &Path, aside: &Path) -> Result<()> {
    let usable = || core_source::is_library(&kept.join("library"));
    if kept.exists() && !usable() {
        fs::rename(kept, aside).with_context(|| format!("cannot move {} aside", kept.display()))?;
    }
    if let Err(error) = fs::rename(ready, kept)
        && !usable()
    {
        return Err(error).with_context(|| format!("cannot move the source to {}", kept.display()));
    }
    Ok(())
}

/// A folder that is removed on drop.
struct WorkFolder(PathBuf);

impl WorkFolder {
    fn new(path: PathBuf) -> Result<Self> {
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        // If the removal fails, the files stay in a folder that git ignores.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a folder with a `library` that names its origin. Without the lock file it is not
    /// usable.
    fn source(folder: &Path, from: &str, lock: bool) {
        fs::create_dir_all(folder.join("library/core/src")).unwrap();
        fs::write(folder.join("library/core/src/lib.rs"), from).unwrap();
        if lock {
            fs::write(folder.join("library/Cargo.lock"), "").unwrap();
        }
    }

    #[test]
    fn a_kept_source_is_replaced_only_where_it_is_unusable() {
        let root = std::env::temp_dir().join(format!("moye-setup-{}", std::process::id()));
        let mut found = Vec::new();
        for (name, lock) in [("none", None), ("cut-short", Some(false)), ("usable", Some(true))] {
            let (ready, kept) = (root.join(name).join("ready"), root.join(name).join("kept"));
            source(&ready, "new", true);
            if let Some(lock) = lock {
                source(&kept, "old", lock);
            }
            keep(&ready, &kept, &root.join(name).join("unusable")).unwrap();
            found.push(fs::read_to_string(kept.join("library/core/src/lib.rs")).unwrap());
        }
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, ["new", "new", "old"]);
    }
}
