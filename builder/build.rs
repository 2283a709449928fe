//! Checks for the source of `core` before anything else of a crate that needs it is compiled.

#[allow(dead_code, reason = "the library uses the rest")]
mod core_source;
#[allow(dead_code, reason = "the library uses the rest")]
mod environment;

use std::path::{Path, PathBuf};

/// The errors of `core_source`, as in the library.
enum BuildError {
    CoreSourceMissing { version: String, looked_in: Vec<PathBuf> },
    CoreSourceUnusable { path: PathBuf, found: String, version: String },
    Tool { command: String, reason: String },
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=MOYE_BUILD_PTX");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Packages carry their PTX.
    let is_carried = folder.join("Cargo.toml.orig").is_file()
        && std::env::var_os("MOYE_BUILD_PTX").is_none_or(|value| value != "1");
    let is_needed = std::env::var_os("CARGO_FEATURE_CORE_SOURCE").is_some() && !is_carried;
    if !is_needed || environment::nested() || environment::for_docs_rs() {
        return;
    }
    let error = match core_source::find(folder) {
        Ok(_) => return,
        Err(BuildError::CoreSourceMissing { version, looked_in }) => {
            core_source::missing(&version, &looked_in)
        }
        Err(BuildError::CoreSourceUnusable { path, found, version }) => {
            core_source::unusable(&path, &found, &version)
        }
        Err(BuildError::Tool { command, reason }) => format!("`{command}` failed: {reason}"),
    };
    eprintln!("error: {error}");
    std::process::exit(1);
}
