//! The errors of compiling a crate with kernels to PTX.

use crate::report::Finding;
use crate::{Arch, Diagnostic, carried, core_source};
use std::fmt;
use std::path::PathBuf;

/// An error of the compilation to PTX. The message includes the way out.
// Written by hand: a derive would add a second `syn` to every build script that compiles kernels.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The name is not that of an architecture.
    Arch {
        /// The given name.
        name: String,
    },
    /// No architecture was named.
    NoArch {
        /// The crate's folder.
        krate: PathBuf,
    },
    /// An option is for an architecture that is not compiled.
    FlagOfNoArch {
        /// The crate's folder.
        krate: PathBuf,
        /// The architecture.
        arch: Arch,
        /// The option.
        flag: String,
    },
    /// The compiler does not know a GPU architecture.
    UnknownArch {
        /// The architecture.
        arch: Arch,
        /// The known architectures.
        known: Vec<String>,
    },
    /// The folder has no crate, or its package has no library.
    Crate {
        /// The crate's folder.
        krate: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// A package has no PTX, or PTX of other sources.
    Carried {
        /// The package's folder.
        krate: PathBuf,
        /// The problem.
        reason: String,
    },
    /// There is no output folder.
    NoOutDir,
    /// The source of `core` was not found.
    CoreSourceMissing {
        /// The compiler's version.
        version: String,
        /// The places that were searched.
        looked_in: Vec<PathBuf>,
    },
    /// A folder is not the source of `core`, or has another version.
    CoreSourceUnusable {
        /// The folder.
        path: PathBuf,
        /// The problem with it.
        found: String,
        /// The compiler's version.
        version: String,
    },
    /// `core` does not compile for the GPU.
    Core {
        /// The folder of its source.
        library: PathBuf,
        /// What cargo and rustc printed.
        output: String,
    },
    /// A tool could not be run, or its output was unexpected.
    Tool {
        /// The command.
        command: String,
        /// Its output, or the reason.
        reason: String,
    },
    /// The device code does not compile. The message is the compiler's.
    Compile {
        /// The crate's folder.
        krate: PathBuf,
        /// The architecture.
        arch: Arch,
        /// What cargo and rustc printed.
        output: String,
        /// The compiler's errors in the output, with their positions.
        diagnostics: Vec<Diagnostic>,
    },
    /// The compiler's PTX is not as expected.
    Ptx {
        /// The crate's folder.
        krate: PathBuf,
        /// The architecture.
        arch: Arch,
        /// The problem.
        reason: String,
    },
    /// Kernels have slow code of denied kinds.
    Denied {
        /// The crate's folder.
        krate: PathBuf,
        /// The findings.
        findings: Vec<Finding>,
    },
    /// Slow code of denied kinds could not be checked.
    Unchecked {
        /// The crate's folder.
        krate: PathBuf,
        /// The kinds, each with the reason.
        reasons: Vec<String>,
    },
    /// A file could not be read or written.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arch { name } => {
                write!(f, "`{name}` is no GPU architecture; name one as sm_80, sm_86, sm_90a, ...")
            }
            Self::NoArch { krate } => write!(
                f,
                "no GPU architecture to compile {} for; name one with PtxBuilder::arch(\"sm_80\")",
                krate.display()
            ),
            Self::FlagOfNoArch { krate, arch, flag } => write!(
                f,
                "`{flag}` is for {arch}, which {} is not compiled for; name it with PtxBuilder::arch(\"{arch}\"), or leave the \
                 option out",
                krate.display()
            ),
            Self::UnknownArch { arch, known } => {
                write!(f, "the compiler does not know {arch}; it knows {}", known.join(", "))
            }
            Self::Crate { krate, reason } => {
                write!(f, "{} cannot be compiled to PTX: {reason}", krate.display())
            }
            Self::Carried { krate, reason } => write!(
                f,
                "the package {} cannot be used as it is: {reason}. Packages of `cargo xtask dist` carry their PTX; {}=1 compiles it from \
                 the package's sources",
                krate.display(),
                carried::VARIABLE
            ),
            Self::NoOutDir => f.write_str(
                "OUT_DIR is not set, so this is not a build script; name a folder with PtxBuilder::out_dir",
            ),
            Self::CoreSourceMissing { version, looked_in } => {
                f.write_str(&core_source::missing(version, looked_in))
            }
            Self::CoreSourceUnusable { path, found, version } => {
                f.write_str(&core_source::unusable(path, found, version))
            }
            Self::Core { library, output } => write!(
                f,
                "{output}\nerror: Rust's `core` in {} does not compile for the GPU. If its source is damaged, or not the compiler's own: fix or \
                 unset MOYE_RUST_SRC where that names it, or install it anew, with `rustup component add rust-src` or, in a checkout of moye, \
                 `cargo xtask setup`",
                library.display()
            ),
            Self::Tool { command, reason } => write!(f, "`{command}` failed: {reason}"),
            Self::Compile { krate, arch, output, .. } => {
                write!(f, "{output}\nerror: {} does not compile for {arch}", krate.display())
            }
            Self::Ptx { krate, arch, reason } => {
                write!(f, "the PTX of {} for {arch} cannot be used: {reason}", krate.display())
            }
            Self::Denied { krate, findings } => {
                let findings: Vec<_> = findings.iter().map(|finding| finding.text(krate)).collect();
                write!(f, "{} has slow code that is denied:\n{}", krate.display(), findings.join("\n"))
            }
            Self::Unchecked { krate, reasons } => write!(
                f,
                "{} cannot be checked for slow code:\n{}\nInstall ptxas (`pip install nvidia-cuda-nvcc`), or leave out \
                 `deny_unchecked` to be warned",
                krate.display(),
                reasons.join("\n")
            ),
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
