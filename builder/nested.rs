//! The cargo that compiles device code, and the options of all device code.

use crate::known::TARGET;
use crate::{BuildError, environment};
use serde_json::Value;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Output};

/// Loops over fragments must unroll completely, or the fragment lands in local memory. By default
/// LLVM gives up after 300 instructions and analyses at most 10 iterations.
const UNROLL: &str = "-Cllvm-args=-unroll-threshold=20000 -unroll-max-iteration-count-to-analyze=512";

/// Compiles a function where it is used, not where it is defined, so a dependency costs only the
/// functions that kernels call. Otherwise the optimiser would compile every library completely with
/// the limits above, which takes minutes, mostly for the layout algebra.
const LAZY: &str = "-Zcross-crate-inline-threshold=always";

/// rustc's optimiser does not know warp-synchronous instructions: its jump threading copies the
/// block with a `shfl.sync` or `bar.sync` into both arms of an `if` on the thread.
const NO_COPIED_BLOCKS: &str = "-Zmir-enable-passes=-JumpThreading";

/// LLVM's passes know these instructions, but not calls of Rust functions that execute them,
/// because such functions are not marked `convergent`. Its pass `simplifycfg` runs before inlining
/// and copies a block of up to 10 instructions, including calls, into both arms of an `if`. This
/// option disables the copies (record 3).
const NO_COPIED_CALLS: &str = "-Cllvm-args=-simplifycfg-max-small-block-size=0";

/// There is nothing to link, so the linker does nothing.
const NO_LINKER: &str = "-Clinker=true";

/// Options of the profile that its table `package` could override: rustc uses the last occurrence.
const OPTIMISED: [&str; 3] = ["-Copt-level=3", "-Cdebug-assertions=off", "-Coverflow-checks=off"];

/// The profile of device code, regardless of the crate's workspace and cargo's configuration.
const PROFILE: &[&str] = &[
    "profile.release.lto=\"fat\"",
    // Units are optimised in parallel; fat LTO merges them into one module (record 1).
    "profile.release.codegen-units=16",
    "profile.release.debug=0",
    "profile.release.strip=false",
    // A panic is a trap instruction: no message is formatted and no function is called, so a bounds
    // check in a kernel costs a comparison and a branch.
    "profile.release.panic=\"immediate-abort\"",
];

/// The cargo command `subcommand` in `folder`, with the GPU as target. It prints JSON on standard
/// output, for [`messages`].
pub fn cargo(subcommand: &[&str], folder: &Path, target_dir: &Path, rustflags: &[String]) -> Command {
    let mut flags = vec![NO_LINKER, UNROLL, LAZY, NO_COPIED_BLOCKS, NO_COPIED_CALLS];
    flags.extend(OPTIMISED);
    flags.extend(rustflags.iter().map(String::as_str));
    let mut command = environment::clean(&environment::cargo());
    command
        .current_dir(folder)
        .env(environment::NESTED, "1")
        // The target and some options are unstable; rust-toolchain.toml names the version with
        // which they are tested.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        // Cargo's configuration files apply to the nested build too; its variables override them.
        // In a common build directory the nested build would wait for the lock of the outer one,
        // which waits for it.
        .env("CARGO_BUILD_BUILD_DIR", without_braces(target_dir, folder))
        // No source is in this folder, so cargo reports all sources by absolute paths.
        .env("CARGO_BUILD_DEP_INFO_BASEDIR", target_dir)
        .env("CARGO_INCREMENTAL", "0")
        .env("RUSTC_WRAPPER", "")
        .env("RUSTC_WORKSPACE_WRAPPER", "")
        .args(subcommand)
        .args(["--quiet", "--lib", "--release", "-Zpanic-immediate-abort", "--target", TARGET])
        .arg("--target-dir")
        .arg(target_dir);
    for setting in PROFILE {
        command.args(["--config", setting]);
    }
    if environment::colour() {
        command.args(["--color=always", "--message-format=json-diagnostic-rendered-ansi"]);
    } else {
        command.args(["--color=never", "--message-format=json"]);
    }
    command
}

/// A path for a cargo setting that is a template, in which a brace begins a variable and cannot be
/// escaped: a path with braces is made relative to `folder`.
fn without_braces(path: &Path, folder: &Path) -> PathBuf {
    if folder.is_relative() || !path.to_string_lossy().contains(['{', '}']) {
        return path.to_owned();
    }
    let shared = path.components().zip(folder.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(path.components().skip(shared)).collect()
}

/// Runs the command.
pub fn run(command: &mut Command) -> Result<Output, BuildError> {
    command.output().map_err(|e| BuildError::Tool {
        command: format!(
            "{} {}",
            environment::cargo().display(),
            command.get_args().next().unwrap_or_default().display()
        ),
        reason: e.to_string(),
    })
}

/// Cargo's messages on standard output, one JSON value a line.
pub fn messages(output: &Output) -> Vec<Value> {
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// An error's output, as cargo and rustc print it.
pub fn error_text(output: &Output) -> String {
    let messages = messages(output);
    let mut text: String = messages.iter().filter_map(rendered).collect();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    text.trim_end().to_owned()
}

/// The compiler's output, without the message that a PTX version is an unstable feature, which the
/// user cannot fix.
pub fn rendered(message: &Value) -> Option<&str> {
    let plain = message["message"]["message"].as_str().unwrap_or_default();
    let of_options = plain.starts_with("unstable feature specified for `-Ctarget-feature`");
    message["message"]["rendered"].as_str().filter(|_| !of_options)
}

/// The files of the libraries of this name that cargo compiled, now or earlier.
pub fn rlibs(messages: &[Value], library: &str) -> Vec<PathBuf> {
    let of_library = messages
        .iter()
        .filter(|message| message["reason"] == "compiler-artifact" && message["target"]["name"] == library);
    let files = of_library.flat_map(|message| message["filenames"].as_array().into_iter().flatten());
    let paths = files.filter_map(Value::as_str).map(PathBuf::from);
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "rlib")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkout_in_a_path_with_braces_has_a_build_directory() {
        let of = |path: &str| without_braces(Path::new(path), Path::new("/a{b}/krate/kernels"));
        assert_eq!(of("/a{b}/krate/target/ptx"), Path::new("../target/ptx"));
        assert_eq!(of("/a{b}/krate/kernels/target"), Path::new("target"));
        assert_eq!(of("/target"), Path::new("/target"));
    }
}
