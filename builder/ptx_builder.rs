//! [`PtxBuilder`], the entry point for build scripts.

use crate::compile::{Compiled, Job, compile};
use crate::files::{create_dir, io_error, write_if_changed};
use crate::lints::{Found, Lints};
use crate::package::{Package, target_dir_of};
use crate::ptx_set::{PtxFile, PtxSet, write_include};
use crate::report::{Level, Lint, Ptxas};
use crate::{
    Arch, BuildError, Diagnostic, core_source, environment, host_check, known, operations, packaged, ptx,
    settings, sysroot,
};
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::PathBuf;

/// Compiles a crate with kernels to PTX.
///
/// The crate is an ordinary library without `std`; its manifest needs nothing special. The PTX also
/// contains the kernels of its dependencies, except those of disabled features.
///
/// The nested build uses a separate target directory, `ptx` inside the outer one. `core` is
/// compiled once there, for all crates, profiles and architectures.
#[derive(Clone, Debug)]
#[must_use = "nothing is compiled before `build` or `build_or_exit`"]
pub struct PtxBuilder {
    krate: PathBuf,
    /// The crate's package, name and version, for when its folder is missing.
    package: Option<(String, String)>,
    archs: Vec<String>,
    features: Vec<String>,
    default_features: bool,
    rustflags: Vec<String>,
    /// Options for one architecture, by its name.
    rustflags_of: Vec<(String, String)>,
    out_dir: Option<PathBuf>,
    target_dir: Option<PathBuf>,
    lints: Lints,
    /// Whether the features are operations: see [`operations`].
    pub(crate) of_operations: bool,
}

impl PtxBuilder {
    /// A builder for the crate whose `Cargo.toml` is in `krate`. In a build script, a relative path
    /// starts at the script's package.
    pub fn new(krate: impl Into<PathBuf>) -> Self {
        Self {
            krate: krate.into(),
            package: None,
            archs: Vec::new(),
            features: Vec::new(),
            default_features: true,
            rustflags: Vec::new(),
            rustflags_of: Vec::new(),
            out_dir: None,
            target_dir: None,
            lints: Lints::default(),
            of_operations: false,
        }
    }

    /// The crate's package, for a build script that is published too. A published package does not
    /// contain other packages' folders, so there the crate comes from the package of this name and
    /// version, which cargo unpacks next to it. It must be a dependency of exactly this version, so
    /// that the PTX belongs to the host's code.
    ///
    /// ```toml
    /// [dependencies]
    /// my-kernels = { path = "kernels", version = "=0.1.0" }
    /// ```
    /// ```no_run
    /// moye_build::PtxBuilder::new("kernels").package("my-kernels", "0.1.0").arch("sm_80").build_or_exit();
    /// ```
    pub fn package(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.package = Some((name.into(), version.into()));
        self
    }

    /// Adds an architecture to compile for: `sm_80`, `sm_86`, `sm_90a`, ...
    pub fn arch(mut self, name: impl Into<String>) -> Self {
        self.archs.push(name.into());
        self
    }

    /// Enables a cargo feature of the crate.
    pub fn feature(mut self, name: impl Into<String>) -> Self {
        self.features.push(name.into());
        self
    }

    /// Whether the crate's default features are enabled, which is the default.
    pub fn default_features(mut self, on: bool) -> Self {
        self.default_features = on;
        self
    }

    /// Passes another option to rustc, for the crate and all dependencies. `core` is compiled
    /// without it, but nearly all functions of `core` are compiled where kernels use them, and so
    /// with the option.
    pub fn rustflag(mut self, flag: impl Into<String>) -> Self {
        self.rustflags.push(flag.into());
        self
    }

    /// Passes another option to rustc for this architecture only: `-Ctarget-feature=+ptx81`, for
    /// example, a newer PTX version than the first one with the architecture.
    pub fn rustflag_of(mut self, arch: impl Into<String>, flag: impl Into<String>) -> Self {
        self.rustflags_of.push((arch.into(), flag.into()));
        self
    }

    /// The folder for the PTX (default: cargo's `OUT_DIR`).
    pub fn out_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.out_dir = Some(folder.into());
        self
    }

    /// The target directory of the nested build. The default is `ptx` in the outer build's target
    /// directory, or a folder in `ptx` for a crate of another workspace.
    ///
    /// Crates of one workspace can share a folder. Crates of different workspaces should not: cargo
    /// names sources relative to the workspace, and may rebuild shared dependencies each time after
    /// the other workspace was built. `core` is compiled once for all folders in one target
    /// directory that cargo created.
    pub fn target_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.target_dir = Some(folder.into());
        self
    }

    /// Fails if a kernel has slow code of these kinds; by default the build warns.
    ///
    /// Only `ptxas` reports spills and serialised `wgmma`. Without `ptxas` the build warns that
    /// they were not checked; with [`deny_unchecked`](Self::deny_unchecked) it fails.
    ///
    /// ```no_run
    /// use moye_build::{Lint, PtxBuilder};
    /// PtxBuilder::new(".").arch("sm_80").deny([Lint::LocalMemory, Lint::Spills]).build_or_exit();
    /// ```
    pub fn deny(mut self, lints: impl IntoIterator<Item = Lint>) -> Self {
        self.lints.set(lints, Level::Deny);
        self
    }

    /// Fails if a denied kind of slow code cannot be checked because `ptxas` is missing. This is
    /// for machines that check a crate, such as CI runners. By default the build warns.
    pub fn deny_unchecked(mut self) -> Self {
        self.lints.deny_unchecked = true;
        self
    }

    /// Does not report slow code of these kinds. With [`Lint::ALL`] the builder does not search for
    /// slow code.
    pub fn allow(mut self, lints: impl IntoIterator<Item = Lint>) -> Self {
        self.lints.set(lints, Level::Allow);
        self
    }

    /// Does not report slow code of these kinds in the kernel of this name.
    pub fn allow_in(mut self, kernel: impl Into<String>, lints: impl IntoIterator<Item = Lint>) -> Self {
        self.lints.allow_in(kernel.into(), lints);
        self
    }

    /// Whether to compile the crate again, with line numbers, if there is slow code to report, so
    /// that the warning names the line. This is the default.
    pub fn locate(mut self, on: bool) -> Self {
        self.lints.locate = on;
        self
    }

    /// Compiles the crate, writes `NAME.ARCH.ptx` for each architecture and a `NAME.rs` that
    /// includes them, and tells cargo on which files they depend.
    ///
    /// Inside a nested build, where a crate's build script would compile the same crate again, it
    /// writes a `NAME.rs` without modules and returns immediately. It does the same on docs.rs
    /// (`DOCS_RS` is set), where PTX can neither be compiled nor is needed.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn build(&self) -> Result<PtxSet, BuildError> {
        let archs = self.archs.iter().map(|name| name.parse()).collect::<Result<Vec<Arch>, _>>()?;
        if archs.is_empty() {
            return Err(BuildError::NoArch { krate: self.krate.clone() });
        }
        let mut rustflags_of = Vec::new();
        for (name, flag) in &self.rustflags_of {
            let arch = name.parse::<Arch>()?;
            if !archs.contains(&arch) {
                return Err(BuildError::FlagOfNoArch { krate: self.krate.clone(), arch, flag: flag.clone() });
            }
            rustflags_of.push((arch, flag.clone()));
        }
        let krate = packaged::compiled_folder(self.folder()?)?;
        let out_dir = self.to()?;
        let package = Package::of(&krate)?;
        let name = package.library.clone();
        if environment::in_build_script() {
            println!("cargo::rerun-if-env-changed={}", environment::DOCS_RS);
        }
        for &arch in &archs {
            host_check::forget(&name, arch)?;
        }
        if environment::nested() || environment::for_docs_rs() {
            let include = write_include(&out_dir, &name, &[])?;
            return Ok(PtxSet {
                name,
                files: Vec::new(),
                include,
                warnings: Vec::new(),
                findings: Vec::new(),
                guard: None,
                unchecked: Vec::new(),
            });
        }

        known::check(&archs)?;
        let core = core_source::find(&krate)?;
        let target_dir = match &self.target_dir {
            Some(folder) => std::path::absolute(folder).map_err(io_error(folder))?,
            None => {
                let out_dir = env::var_os("OUT_DIR").map(PathBuf::from);
                target_dir_of(out_dir, &package.target_dir, &package.workspace)
            }
        };
        let sysroot = sysroot::build(&core, &krate, &target_dir)?;
        let features = match self.of_operations {
            true => operations::features(&package),
            false => self.features.clone(),
        };
        let job = Job {
            krate: &krate,
            workspace: &package.workspace,
            library: &name,
            features: &features,
            default_features: package.default_features(self.default_features),
            rustflags: &self.rustflags,
            rustflags_of: &rustflags_of,
            options: &[],
            sysroot: &sysroot,
            target_dir: &target_dir,
        };
        let compiled = compile_all(&job, &archs)?;

        let mut inputs =
            BTreeSet::from([package.workspace.join("Cargo.lock"), core.library.join("Cargo.lock")]);
        let mut files = Vec::new();
        let mut warnings = Vec::new();
        for (arch, compiled) in archs.into_iter().zip(compiled) {
            let text = ptx::apply_bounds(&compiled.ptx).map_err(|reason| BuildError::Ptx {
                krate: krate.clone(),
                arch,
                reason,
            })?;
            let text = ptx::raise_version(text);
            let path = out_dir.join(format!("{name}.{arch}.ptx"));
            write_if_changed(&path, &text)?;
            files.push(PtxFile { arch, path, text });
            inputs.extend(compiled.sources);
            inputs.extend(settings::of(&krate, &package.workspace, &compiled.manifests));
            inputs.extend(compiled.manifests);
            for warning in compiled.warnings {
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            }
        }
        let include = write_include(&out_dir, &name, &files)?;
        let Found { findings, unchecked } = self.lints.find(&job, &files);
        if environment::in_build_script() {
            println!("cargo::rerun-if-env-changed={}", core_source::VARIABLE);
            println!("cargo::rerun-if-env-changed={}", Ptxas::VARIABLE);
            for input in inputs.iter().filter(|input| input.exists()) {
                println!("cargo::rerun-if-changed={}", input.display());
            }
        }
        let (denied, findings): (Vec<_>, Vec<_>) =
            findings.into_iter().partition(|finding| self.lints.level(finding.lint) == Level::Deny);
        if !denied.is_empty() {
            return Err(BuildError::Denied { krate, findings: denied });
        }
        if self.lints.deny_unchecked && !unchecked.is_empty() {
            return Err(BuildError::Unchecked { krate, reasons: unchecked });
        }
        Ok(PtxSet { name, files, include, warnings, findings, unchecked, guard: None })
    }

    /// The folder of the crate, or of its package.
    pub(crate) fn folder(&self) -> Result<PathBuf, BuildError> {
        let folder = match &self.package {
            Some((name, version)) if !self.krate.exists() => packaged::beside(name, version)?,
            _ => self.krate.clone(),
        };
        fs::canonicalize(&folder).map_err(io_error(&folder))
    }

    /// The folder for the PTX, which is created if it is missing.
    pub(crate) fn to(&self) -> Result<PathBuf, BuildError> {
        let folder = match &self.out_dir {
            Some(folder) => folder.clone(),
            None => env::var_os("OUT_DIR").map(PathBuf::from).ok_or(BuildError::NoOutDir)?,
        };
        create_dir(&folder)?;
        Ok(folder)
    }

    /// [`build`](Self::build) for a build script whose crate includes the PTX with
    /// `moye::include_ptx!`. Warnings in the crate's device code, and of slow code, are shown as
    /// the build script's. An error ends the script: cargo shows errors in device code as errors of
    /// the script, `src/lib.rs:12:30: error[E0308]: mismatched types`, the first as rustc prints it
    /// and each further one in a line.
    ///
    /// A crate that compiles its own kernels, `PtxBuilder::new(".")`, is compiled for the host too,
    /// and errors in its code are left to that compilation: rustc or the attribute `#[kernel]`
    /// reports them like any other error, so that an editor marks the line. The script then ends
    /// without PTX, and a `compile_error!` takes its place.
    pub fn build_or_exit(&self) -> PtxSet {
        let built = self.build().or_else(|error| self.left_to_the_host(error));
        let built = built.and_then(|set| set.pack(&self.to()?, None).map(|()| set));
        let folder = fs::canonicalize(&self.krate).unwrap_or_else(|_| self.krate.clone());
        let findings = built.iter().flat_map(|set| &set.findings).map(|finding| finding.text(&folder));
        // Cargo shows a build script's warnings line by line.
        let unchecked = built.iter().flat_map(|set| &set.unchecked).cloned();
        let warnings = built.iter().flat_map(|set| &set.warnings).cloned();
        for warning in warnings.chain(findings).chain(unchecked) {
            for line in warning.trim_end().lines() {
                println!("cargo::warning={line}");
            }
        }
        built.unwrap_or_else(|error| {
            let lines: Vec<String> = match &error {
                BuildError::Denied { findings, .. } => {
                    let text = findings.iter().map(|finding| finding.text(&folder)).collect::<Vec<_>>();
                    text.join("\n").lines().map(str::to_owned).collect()
                }
                BuildError::Compile { diagnostics, .. } => Diagnostic::lines_of(diagnostics, &folder),
                _ => Vec::new(),
            };
            if !lines.is_empty() && environment::in_build_script() {
                for line in lines {
                    println!("cargo::error={line}");
                }
                // Cargo shows these lines as the failure, without the script's other output.
                std::process::exit(0)
            }
            match error {
                BuildError::Compile { .. } | BuildError::Core { .. } => eprintln!("{error}"),
                _ => eprintln!("error: {error}"),
            }
            std::process::exit(1)
        })
    }

    /// The result without PTX: the host compilation reports the error.
    fn left_to_the_host(&self, error: BuildError) -> Result<PtxSet, BuildError> {
        let BuildError::Compile { krate, arch, diagnostics, .. } = &error else { return Err(error) };
        if !host_check::is_own(krate) || !host_check::meets(diagnostics) {
            return Err(error);
        }
        let name = Package::of(krate)?.library;
        let out_dir = self.to()?;
        host_check::record(&name, *arch, diagnostics)?;
        let same_code = self.features.is_empty() && self.default_features && self.rustflags.is_empty();
        let guard = host_check::guard(&name, krate, *arch, diagnostics, same_code);
        let include = out_dir.join(format!("{name}.rs"));
        write_if_changed(&include, &guard)?;
        Ok(PtxSet {
            name,
            files: Vec::new(),
            include,
            warnings: Vec::new(),
            findings: Vec::new(),
            unchecked: Vec::new(),
            guard: Some(guard),
        })
    }
}

/// Compiles all architectures concurrently: most of the work is the optimiser on one module, which
/// uses one core.
fn compile_all(job: &Job<'_>, archs: &[Arch]) -> Result<Vec<Compiled>, BuildError> {
    std::thread::scope(|scope| {
        let runs: Vec<_> = archs.iter().map(|&arch| scope.spawn(move || compile(job, arch))).collect();
        // An error in the code is usually the same for all architectures, so only the first is
        // reported.
        runs.into_iter().map(|run| run.join().expect("compile() returns its errors")).collect()
    })
}
