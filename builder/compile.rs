//! One run of the compiler: a crate to the PTX of one architecture.

use crate::core_source::CoreSource;
use crate::known::TARGET;
use crate::{Arch, BuildError, depinfo, environment};
use serde_json::Value;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Loops over fragments must unroll completely, or the fragment lands in local memory. LLVM's default gives up after
/// 300 instructions and looks at no more than 10 iterations.
const UNROLL: &str = "-Cllvm-args=-unroll-threshold=20000 -unroll-max-iteration-count-to-analyze=512";

/// A function is compiled where it is used and not where it is written: a dependency costs nothing but what the kernels
/// take of it. Without this the whole of every library, the layout algebra above all, would go through the optimiser
/// with the limits above, which takes minutes.
const LAZY: &str = "-Zcross-crate-inline-threshold=always";

/// rustc's own optimiser knows nothing of instructions that a warp executes together: its jump threading copies the block
/// with a `shfl.sync` or `bar.sync` into both arms of an `if` on the thread. LLVM's passes know, and do the same to all
/// other code.
const NO_COPIED_BLOCKS: &str = "-Zmir-enable-passes=-JumpThreading";

/// The profile of device code, whatever the crate's own workspace says.
const PROFILE: &[&str] = &[
    "profile.release.opt-level=3",
    "profile.release.lto=\"fat\"",
    // Units are optimised beside each other; fat LTO makes one module of them again (record 1).
    "profile.release.codegen-units=16",
    "profile.release.incremental=false",
    "profile.release.debug=0",
    "profile.release.strip=false",
    "profile.release.debug-assertions=false",
    "profile.release.overflow-checks=false",
    // A panic is a trap on the spot: no message is formatted, no function is called, and a bounds check in a kernel
    // costs a comparison and a branch.
    "profile.release.panic=\"immediate-abort\"",
];

/// What is to be compiled, for each architecture.
#[derive(Debug)]
pub struct Job<'a> {
    /// The crate's folder.
    pub krate: &'a Path,
    /// The name of its library, as rustc writes it.
    pub library: &'a str,
    pub features: &'a [String],
    pub default_features: bool,
    pub rustflags: &'a [String],
    /// Options for one architecture.
    pub rustflags_of: &'a [(Arch, String)],
    pub core: &'a CoreSource,
    /// The folder under which each architecture has its target directory.
    pub target_dir: &'a Path,
}

/// What one run gave.
#[derive(Debug)]
pub struct Compiled {
    /// The module as the compiler wrote it.
    pub ptx: String,
    /// The source files that it was made from.
    pub sources: Vec<PathBuf>,
    /// The manifests of the crate and of what it depends on by path.
    pub manifests: BTreeSet<PathBuf>,
    /// What the compiler warned of in them.
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
        // Cargo does not know of the assembly; it compiles again where what it does know of is missing.
        remove_if_there(&linked)?;
    }

    let output = run_cargo(job, arch, &rustflags, &target_dir, &asm)?;
    let messages = Messages::read(&output.stdout);
    if !output.status.success() {
        let mut text = messages.rendered.concat();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        let output = text.trim_end().to_owned();
        return Err(BuildError::Compile { krate: job.krate.to_owned(), arch, output });
    }
    let ptx = fs::read_to_string(&asm).map_err(io_error(&asm))?;
    if !linked.is_file() {
        // The linker is a program that does nothing, and cargo takes a library whose file is missing for stale. The
        // file is only written where it is missing: a newer one would make cargo copy it anew.
        fs::write(&linked, "").map_err(io_error(&linked))?;
    }
    let dep_info = release.join(format!("{}.d", job.library));
    let sources = depinfo::sources(&fs::read_to_string(&dep_info).map_err(io_error(&dep_info))?);
    Ok(Compiled { ptx, sources, manifests: messages.manifests, warnings: messages.rendered })
}

/// The target directory for an architecture and the caller's options, inside that for all. Builds with others go on at the same time:
/// cargo would compile `core` and all else for each of them anyway, and one that waits for another's lock keeps a core from work.
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
) -> Result<std::process::Output, BuildError> {
    let mut rustflags = vec![
        format!("-Ctarget-cpu={arch}"),
        "-Clinker=true".into(),
        UNROLL.into(),
        LAZY.into(),
        NO_COPIED_BLOCKS.into(),
    ];
    rustflags.extend_from_slice(own);

    let cargo = environment::cargo();
    let mut command = environment::clean(&cargo);
    command
        .current_dir(job.krate)
        .env(environment::NESTED, "1")
        // The target and the options below are not stable yet; rust-toolchain.toml holds the version that they are
        // tested with.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", rustflags.join("\u{1f}"));
    if !job.core.in_sysroot {
        command.env("__CARGO_TESTS_ONLY_SRC_ROOT", &job.core.library);
    }
    command
        .args(["rustc", "--quiet", "--lib", "--crate-type=cdylib", "--release", "--target", TARGET])
        .args(["-Zbuild-std=core", "-Zpanic-immediate-abort"])
        .arg("--target-dir")
        .arg(target_dir);
    for setting in PROFILE {
        command.args(["--config", setting]);
    }
    if !job.default_features {
        command.arg("--no-default-features");
    }
    if !job.features.is_empty() {
        command.arg("--features").arg(job.features.join(","));
    }
    if environment::colour() {
        command.args(["--color=always", "--message-format=json-diagnostic-rendered-ansi"]);
    } else {
        command.args(["--color=never", "--message-format=json"]);
    }
    command.arg("--").arg(format!("--emit=asm={}", asm.display()));
    command.output().map_err(|e| BuildError::Tool {
        command: format!("{} rustc", cargo.display()),
        reason: e.to_string(),
    })
}

/// What distinguishes two compilations of one library for one architecture.
fn fingerprint(job: &Job<'_>, rustflags: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (job.krate, job.features, job.default_features, rustflags).hash(&mut hasher);
    hasher.finish()
}

/// What cargo says on its standard output, one JSON value a line.
#[derive(Default)]
struct Messages {
    rendered: Vec<String>,
    manifests: BTreeSet<PathBuf>,
}

impl Messages {
    fn read(stdout: &[u8]) -> Self {
        let mut all = Self::default();
        for line in String::from_utf8_lossy(stdout).lines() {
            let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
            // Packages of a registry do not change and their warnings are nobody's here; neither are those of `core`.
            let local = message["package_id"].as_str().is_some_and(|id| id.starts_with("path+"));
            match message["reason"].as_str() {
                Some("compiler-message") => {
                    // That a PTX version is no stable feature of the compiler is nothing that its user could mend.
                    let plain = message["message"]["message"].as_str().unwrap_or_default();
                    let of_options = plain.starts_with("unstable feature specified for `-Ctarget-feature`");
                    if let Some(text) = message["message"]["rendered"].as_str().filter(|_| !of_options) {
                        all.rendered.push(text.to_owned());
                    }
                }
                Some("compiler-artifact") if local => {
                    all.manifests.extend(message["manifest_path"].as_str().map(PathBuf::from));
                }
                _ => {}
            }
        }
        all
    }
}

pub fn create_dir(folder: &Path) -> Result<(), BuildError> {
    fs::create_dir_all(folder).map_err(io_error(folder))
}

fn remove_if_there(file: &Path) -> Result<(), BuildError> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(file)(error)),
        _ => Ok(()),
    }
}

pub fn io_error(path: &Path) -> impl FnOnce(io::Error) -> BuildError + '_ {
    move |source| BuildError::Io { path: path.to_owned(), source }
}
