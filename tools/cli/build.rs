//! Embeds the sources of the shipped kernels, beside which `moye profile` shows its figures.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The language and the kernels that the command profiles.
const SOURCES: [&str; 4] = ["device", "ops/attention/kernels", "ops/matmul/kernels", "ops/movement/kernels"];

fn main() -> io::Result<()> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // A packaged crate has no kernel sources.
    let mut files = Vec::new();
    for folder in SOURCES.map(|folder| workspace.join(folder)).iter().filter(|folder| folder.is_dir()) {
        println!("cargo::rerun-if-changed={}", folder.display());
        find(folder, &mut files)?;
    }
    println!("cargo::rerun-if-changed=build.rs");
    files.sort();
    let mut sources = "&[\n".to_owned();
    for file in files {
        // The path as the compiler reports it, which runs in the workspace.
        let name = file.strip_prefix(&workspace).unwrap_or(&file);
        let name = name.components().map(|part| part.as_os_str().to_string_lossy());
        let name = name.collect::<Vec<_>>().join("/");
        let _ = writeln!(sources, "({name:?}, include_str!({:?})),", file.canonicalize()?);
    }
    let out = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    fs::write(out.join("sources.rs"), sources + "]\n")
}

/// The Rust files of a folder and its subfolders, without tests.
fn find(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "tests" && name != "target") {
                find(&path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}
