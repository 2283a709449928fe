//! The environment of the nested cargo, and facts about the outer one.

use std::env;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::Command;

/// Set in the nested build: a build script there that compiles its own crate must not start another
/// nested build.
pub const NESTED: &str = "MOYE_PTX_NESTED";

/// Set by docs.rs.
pub const DOCS_RS: &str = "DOCS_RS";

/// Variables that cargo, clippy or a coverage tool set for the outer build and that would change
/// the nested one.
const CLEARED: &[&str] = &[
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_INCREMENTAL",
    "CARGO_PRIMARY_PACKAGE",
    "CLIPPY_ARGS",
    "DEBUG",
    "HOST",
    "LLVM_PROFILE_FILE",
    "NUM_JOBS",
    "OPT_LEVEL",
    "OUT_DIR",
    "PROFILE",
    "RUSTC_LINKER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTDOCFLAGS",
    "RUSTFLAGS",
    "TARGET",
];

/// Prefixes of further such variables. Cargo's settings for registries (`CARGO_NET_*`,
/// `CARGO_HTTP_*`, `CARGO_HOME`, ...) and for the jobserver are kept.
const CLEARED_PREFIXES: &[&str] = &[
    "CARGO_BUILD_",
    "CARGO_CFG_",
    "CARGO_FEATURE_",
    "CARGO_LLVM_COV",
    "CARGO_MANIFEST_",
    "CARGO_PKG_",
    "CARGO_PROFILE_",
    "CARGO_TARGET_",
    "CARGO_UNSTABLE_",
    "DEP_",
];

/// The cargo that runs this build script, or the one on the path.
pub fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The compiler that belongs to that cargo.
pub fn rustc() -> OsString {
    env::var_os("RUSTC").unwrap_or_else(|| {
        // Outside a build script cargo does not report its compiler; in a toolchain both are in one
        // folder.
        let beside = PathBuf::from(cargo()).with_file_name(format!("rustc{}", env::consts::EXE_SUFFIX));
        if beside.is_absolute() && beside.is_file() { beside.into() } else { "rustc".into() }
    })
}

/// A command without the outer build's variables.
pub fn clean(program: &OsString) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        if CLEARED.contains(&text) || CLEARED_PREFIXES.iter().any(|p| text.starts_with(p)) {
            command.env_remove(&name);
        }
    }
    command
}

/// Whether this process is a build script that cargo runs.
pub fn in_build_script() -> bool {
    ["OUT_DIR", "NUM_JOBS", "CARGO_MANIFEST_DIR"].iter().all(|name| env::var_os(name).is_some())
}

/// Whether this build script runs inside a build that [`crate::PtxBuilder`] started.
pub fn nested() -> bool {
    env::var_os(NESTED).is_some()
}

/// Whether docs.rs builds the documentation, without a network or the source of `core`.
pub fn for_docs_rs() -> bool {
    env::var_os(DOCS_RS).is_some()
}

/// Whether the compiler's output goes to a terminal that shows colours.
///
/// A build script's output is a pipe to cargo, so cargo's output decides.
pub fn colour() -> bool {
    match env::var("CARGO_TERM_COLOR").as_deref() {
        Ok("always") => return true,
        Ok("never") => return false,
        _ => {}
    }
    if env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty()) {
        return false;
    }
    if !in_build_script() {
        return std::io::stderr().is_terminal();
    }
    #[cfg(target_os = "linux")]
    {
        let cargo = std::os::unix::process::parent_id();
        let stderr = std::fs::OpenOptions::new().write(true).open(format!("/proc/{cargo}/fd/2"));
        stderr.is_ok_and(|file| file.is_terminal())
    }
    #[cfg(not(target_os = "linux"))]
    false
}
