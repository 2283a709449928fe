//! The PTX of a crate, and the files from which a program includes it.

use crate::files::{io_error, write_if_changed};
use crate::ptx::Packed;
use crate::report::{Finding, Ptxas};
use crate::{Arch, BuildError};
use std::fs;
use std::path::{Path, PathBuf};

/// The PTX of a crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxSet {
    /// The crate's name, in rustc's form (`my_kernels`).
    pub name: String,
    /// One module for each architecture, in the order of the requests. Empty in a nested build.
    pub files: Vec<PtxFile>,
    /// The file to `include!`: an expression of type `&[(&str, &str)]`, architecture and PTX.
    pub include: PathBuf,
    /// The compiler's warnings.
    pub warnings: Vec<String>,
    /// Slow code in the kernels that is not allowed.
    pub findings: Vec<Finding>,
    /// The expression in place of the PTX of code that does not compile.
    pub(crate) guard: Option<String>,
    /// Denied kinds of slow code that were not checked, each with the reason.
    pub unchecked: Vec<String>,
}

/// The PTX for one architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxFile {
    /// The architecture.
    pub arch: Arch,
    /// The file.
    pub path: PathBuf,
    /// The PTX.
    pub text: String,
}

impl PtxSet {
    /// Writes the files that `moye::include_ptx!` includes into a folder: `NAME.packed.rs`, a pair
    /// of packed and plain images, and `NAME.ARCH.z` for each packed one. Kernels of packed images
    /// are loaded one by one, with `ptxas` from machine code for exactly this architecture.
    ///
    /// All images are packed, unless kernels depend on each other or share a variable: then all are
    /// plain. An image without kernels is omitted.
    pub(crate) fn pack(&self, folder: &Path, ptxas: Option<&Ptxas>) -> Result<(), BuildError> {
        let path = folder.join(format!("{}.packed.rs", self.name));
        if let Some(guard) = &self.guard {
            return write_if_changed(&path, guard);
        }
        let mut packed = String::new();
        for file in self.files.iter().filter(|file| file.text.contains(".entry")) {
            let Some(image) = Packed::of(&file.text, file.arch, ptxas)? else {
                return write_if_changed(&path, format!("(&[], {})\n", plain(&self.name, &self.files)));
            };
            let name = format!("{}.{}.z", self.name, file.arch);
            let bytes = folder.join(&name);
            if !fs::read(&bytes).is_ok_and(|old| old == image.bytes) {
                fs::write(&bytes, &image.bytes).map_err(io_error(&bytes))?;
            }
            packed += &image.expression(&file.arch.to_string(), &name);
        }
        write_if_changed(&path, format!("(&[\n{packed}], &[])\n"))
    }
}

/// The expression of plain images: pairs of architecture and PTX.
fn plain(name: &str, files: &[PtxFile]) -> String {
    // The paths are relative to the file itself, so a target directory can be moved.
    let pairs = files.iter().map(|file| {
        format!("    ({:?}, include_str!(\"{name}.{}.ptx\")),\n", file.arch.to_string(), file.arch)
    });
    format!("&[\n{}]", pairs.collect::<String>())
}

/// Writes `NAME.rs`, the expression of plain images.
pub(crate) fn write_include(folder: &Path, name: &str, files: &[PtxFile]) -> Result<PathBuf, BuildError> {
    let path = folder.join(format!("{name}.rs"));
    write_if_changed(&path, plain(name, files) + "\n")?;
    Ok(path)
}
