//! One run of the compiler: a crate to the PTX of one architecture.

use crate::files::{create_dir, io_error, remove_if_there};
use crate::known::TARGET;
use crate::{Arch, BuildError, Diagnostic, depinfo, nested};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Output;

/// A crate to compile, for all architectures.
#[derive(Debug)]
pub struct Job<'a> {
    /// The crate's folder.
    pub krate: &'a Path,
    /// The folder of its workspace.
    pub workspace: &'a Path,
    /// The name of its library, in rustc's form.
    pub library: &'a str,
    pub features: &'a [String],
    pub default_features: bool,
    pub rustflags: &'a [String],
    /// Options for one architecture.
    pub rustflags_of: &'a [(Arch, String)],
    /// Options for only the crate. Its dependencies are compiled without them, and so only once.
    pub options: &'a [&'a str],
    /// The sysroot with `core`.
    pub sysroot: &'a Path,
    /// The folder with each architecture's target directory.
    pub target_dir: &'a Path,
}

/// The result of one run.
#[derive(Debug)]
pub struct Compiled {
    /// The module as the compiler wrote it.
    pub ptx: String,
    /// The source files of the module.
    pub sources: Vec<PathBuf>,
    /// The manifests of the crate and of its path dependencies.
    pub manifests: BTreeSet<PathBuf>,
    /// The compiler's warnings in these crates.
    pub warnings: Vec<String>,
}

pub fn compile(job: &Job<'_>, arch: Arch) -> Result<Compiled, BuildError> {
    let rustflags = job.rustflags_for(arch);
    let target_dir = job.target_dir.join(folder(arch, &rustflags));
    let asm = target_dir.join("asm").join(format!("{}-{:016x}.s", job.library, fingerprint(job, &rustflags)));
    let release = target_dir.join(TARGET).join("release");
    let linked = release.join("deps").join(format!("{}.ptx", job.library));
    create_dir(asm.parent().expect("it was just joined"))?;
    create_dir(linked.parent().expect("it was just joined"))?;
    if !asm.is_file() {
        // Cargo does not track the assembly. It compiles again if a tracked file is missing.
        remove_if_there(&linked)?;
    }

    let run = |job: &Job<'_>| run_cargo(job, arch, &rustflags, &target_dir, &asm);
    let output = run(job)?;
    if !output.status.success() {
        let output = explained(job, run, output)?;
        let diagnostics = Diagnostic::all(&output, job.krate, job.workspace);
        let output = nested::error_text(&output);
        return Err(BuildError::Compile { krate: job.krate.to_owned(), arch, output, diagnostics });
    }
    let messages = Messages::read(&nested::messages(&output));
    let ptx = fs::read_to_string(&asm).map_err(io_error(&asm))?;
    if !linked.is_file() {
        // The linker is a program that does nothing, and cargo compiles a library again if its file
        // is missing. So write the file, but only if it is missing: cargo would copy a newer one
        // again.
        fs::write(&linked, "").map_err(io_error(&linked))?;
    }
    let dep_info = release.join(format!("{}.d", job.library));
    let sources = depinfo::sources(&fs::read_to_string(&dep_info).map_err(io_error(&dep_info))?);
    Ok(Compiled { ptx, sources, manifests: messages.manifests, warnings: messages.rendered })
}

/// rustc's message for an error, with the line of the crate that causes it.
///
/// A check of layouts fails where rustc evaluates the constant of a generic function, and its note
/// names the line that calls the function. MIR inlining drops the note, so the crate is compiled
/// again without it. Its dependencies are not compiled again.
fn explained(
    job: &Job<'_>,
    run: impl Fn(&Job<'_>) -> Result<Output, BuildError>,
    said: Output,
) -> Result<Output, BuildError> {
    if !nested::error_text(&said).contains("E0080") {
        return Ok(said);
    }
    let options = [job.options, &["-Zinline-mir=no"]].concat();
    let output = run(&Job { options: &options, ..*job })?;
    Ok(if output.status.success() { said } else { output })
}

/// The target directory for an architecture and the caller's options, inside the common one. Builds
/// with other options run concurrently: cargo compiles the dependencies for each of them anyway,
/// and a build that waits for another's lock leaves a core idle.
fn folder(arch: Arch, rustflags: &[String]) -> String {
    if rustflags.is_empty() {
        return arch.to_string();
    }
    let mut hasher = DefaultHasher::new();
    rustflags.hash(&mut hasher);
    format!("{arch}-{:016x}", hasher.finish())
}

impl Job<'_> {
    /// The caller's options for an architecture.
    fn rustflags_for(&self, arch: Arch) -> Vec<String> {
        let own = self.rustflags_of.iter().filter(|(of, _)| *of == arch).map(|(_, flag)| flag.clone());
        self.rustflags.iter().cloned().chain(own).collect()
    }
}

fn run_cargo(
    job: &Job<'_>,
    arch: Arch,
    own: &[String],
    target_dir: &Path,
    asm: &Path,
) -> Result<Output, BuildError> {
    let mut rustflags = vec![format!("--sysroot={}", job.sysroot.display()), format!("-Ctarget-cpu={arch}")];
    rustflags.extend_from_slice(own);
    let mut cargo = nested::cargo(&["rustc", "--crate-type=cdylib"], job.krate, target_dir, &rustflags);
    if !job.default_features {
        cargo.arg("--no-default-features");
    }
    if !job.features.is_empty() {
        cargo.arg("--features").arg(job.features.join(","));
    }
    cargo.arg("--").arg(format!("--emit=asm={}", asm.display())).args(job.options);
    nested::run(&mut cargo)
}

/// The properties that distinguish two compilations of one library for one architecture.
fn fingerprint(job: &Job<'_>, rustflags: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (job.krate, job.features, job.default_features, rustflags).hash(&mut hasher);
    job.options.iter().for_each(|option| option.hash(&mut hasher));
    hasher.finish()
}

/// Cargo's messages for the crate and its path dependencies.
#[derive(Default)]
struct Messages {
    rendered: Vec<String>,
    manifests: BTreeSet<PathBuf>,
}

impl Messages {
    fn read(messages: &[Value]) -> Self {
        let mut all = Self::default();
        for message in messages {
            // Cargo itself hides the compiler's warnings in packages from a registry, which do not
            // change.
            let local = message["package_id"].as_str().is_some_and(|id| id.starts_with("path+"));
            match message["reason"].as_str() {
                Some("compiler-message") => all.rendered.extend(nested::rendered(message).map(str::to_owned)),
                Some("compiler-artifact") if local => {
                    all.manifests.extend(message["manifest_path"].as_str().map(PathBuf::from));
                }
                _ => {}
            }
        }
        all
    }
}
