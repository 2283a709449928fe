//! What can go wrong between a crate with kernels and its PTX.

use crate::Arch;
use std::path::PathBuf;

/// Why there is no PTX. The message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The name of an architecture is not one.
    #[error("`{name}` is no GPU architecture; name one as sm_80, sm_86, sm_90a, ...")]
    Arch {
        /// What was given.
        name: String,
    },
    /// No architecture was named.
    #[error("no GPU architecture to compile {} for; name one with PtxBuilder::arch(\"sm_80\")", krate.display())]
    NoArch {
        /// The crate's folder.
        krate: PathBuf,
    },
    /// The crate's folder is not one, or its package has no library.
    #[error("{} cannot be compiled to PTX: {reason}", krate.display())]
    Crate {
        /// The crate's folder.
        krate: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// No output folder.
    #[error("OUT_DIR is not set, so this is no build script; name a folder with PtxBuilder::out_dir")]
    NoOutDir,
    /// The source of `core` is nowhere.
    #[error(
        "the source of Rust's `core` library for rustc {version} is missing, and kernels cannot be compiled without it.\n\
         Install it with one of\n\
         \x20   rustup component add rust-src\n\
         \x20   cargo xtask setup            (in a checkout of moye: keeps it inside the checkout)\n\
         or set MOYE_RUST_SRC to the folder `library` of that version's source.\n\
         Looked in: {}", .looked_in.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    CoreSourceMissing {
        /// The compiler's version.
        version: String,
        /// The places that were looked at.
        looked_in: Vec<PathBuf>,
    },
    /// A source of `core` was found that the compiler cannot use.
    #[error(
        "the source of Rust's `core` library in {} is {found}, but the compiler is rustc {version}; they must be the same.\n\
         Mend or unset MOYE_RUST_SRC, or install the right source with `rustup component add rust-src` or, in a checkout of moye, `cargo xtask setup`.", path.display()
    )]
    CoreSourceUnusable {
        /// The folder.
        path: PathBuf,
        /// What is there instead.
        found: String,
        /// The compiler's version.
        version: String,
    },
    /// The compiler or cargo could not be run or said something unexpected.
    #[error("`{command}` failed: {reason}")]
    Tool {
        /// The command.
        command: String,
        /// What it said.
        reason: String,
    },
    /// The device code does not compile. The message is the compiler's own.
    #[error("{output}\nerror: {} does not compile for {arch}", krate.display())]
    Compile {
        /// The crate's folder.
        krate: PathBuf,
        /// For which architecture.
        arch: Arch,
        /// What cargo and rustc printed.
        output: String,
    },
    /// The compiler's PTX is not as expected.
    #[error("the PTX of {} for {arch} cannot be used: {reason}", krate.display())]
    Ptx {
        /// The crate's folder.
        krate: PathBuf,
        /// For which architecture.
        arch: Arch,
        /// What is wrong with it.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}
