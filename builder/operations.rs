//! [`Operations`]: the build script of a crate of operations.

use crate::package::Package;
use crate::report::Ptxas;
use crate::{BuildError, Lint, PtxBuilder, carried, environment};
use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};

/// Compiles the kernels of a crate of operations, one feature each, for `sm_80` and `sm_90a`. The
/// crate's feature `kernels` is on if any operation is.
///
/// ```no_run
/// // build.rs
/// moye_build::Operations::new(".").build_or_exit();
/// ```
///
/// Features of only the host's half are listed in the manifest, as `host-features` in
/// `[package.metadata.moye]`; the kernels are compiled without them.
///
/// A package contains its PTX in the folder `ptx`, so that its users compile none. With
/// `MOYE_BUILD_PTX=1` the PTX is compiled from the package's sources. A checkout has no such folder
/// and always compiles.
#[derive(Clone, Debug)]
#[must_use = "nothing is compiled before `build_or_exit`"]
pub struct Operations {
    builder: PtxBuilder,
}

impl Operations {
    /// The crate whose `Cargo.toml` is in `krate`, as for [`PtxBuilder::new`].
    pub fn new(krate: impl Into<PathBuf>) -> Self {
        let mut builder = PtxBuilder::new(krate)
            .arch("sm_80")
            .arch("sm_90a")
            // `st.async` requires a driver of CUDA 12.1 or newer.
            .rustflag_of("sm_90a", "-Ctarget-feature=+ptx81")
            // Tests check `ptxas`'s report, and a second compilation for lines takes minutes.
            .allow(Lint::ALL)
            .default_features(false);
        builder.of_operations = true;
        Self { builder }
    }

    /// The target directory of the nested build, as for [`PtxBuilder::target_dir`].
    pub fn target_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.builder = self.builder.target_dir(folder);
        self
    }

    /// For a build script: uses the package's PTX, or compiles the operations whose features are
    /// on, for `moye::include_ptx!`. An error ends the script.
    pub fn build_or_exit(&self) {
        if !is_on("kernels") {
            return;
        }
        match self.carried() {
            Ok(true) => {}
            Ok(false) => drop(self.builder.build_or_exit()),
            Err(error) => {
                eprintln!("error: {error}");
                std::process::exit(1);
            }
        }
    }

    fn carried(&self) -> Result<bool, BuildError> {
        if environment::nested() || environment::for_docs_rs() {
            return Ok(false);
        }
        println!("cargo::rerun-if-env-changed={}", carried::VARIABLE);
        println!("cargo::rerun-if-env-changed={}", environment::DOCS_RS);
        Ok(!carried::is_refused() && carried::take(&self.builder.folder()?, &self.builder.to()?)?)
    }

    /// Compiles all operations and writes the folder `ptx` of a package whose sources are in
    /// `package`, a copy of the crate's folder. With `ptxas` it also contains machine code for the
    /// architectures.
    ///
    /// # Errors
    /// Same as [`PtxBuilder::build`]; `ptxas` cannot be run or refuses a kernel; a file cannot be
    /// written.
    pub fn carry(&self, package: &Path, ptxas: Option<&Ptxas>) -> Result<(), BuildError> {
        let folder = package.join(carried::FOLDER);
        let set = self.builder.clone().out_dir(&folder).build()?;
        carried::write(&set, package, ptxas)
    }
}

/// Whether a feature of the build script's package is on.
fn is_on(feature: &str) -> bool {
    env::var_os(format!("CARGO_FEATURE_{}", feature.to_uppercase().replace('-', "_"))).is_some()
}

/// The features of a crate of operations to compile: the features that are on in the build script's
/// package, or all outside a build script. Features of the host's half are omitted, and features
/// that another one enables, so that equal sets of operations are compiled once, whatever names
/// requested them.
pub fn features(of: &Package) -> Vec<String> {
    let all = !environment::in_build_script();
    chosen(of, |feature| all || is_on(feature))
}

fn chosen(of: &Package, is_on: impl Fn(&str) -> bool) -> Vec<String> {
    let is_of_kernels =
        |feature: &str| feature != "default" && !of.host_features.iter().any(|f| f == feature);
    let of = &of.features;
    let on = of.keys().map(String::as_str).filter(|feature| is_of_kernels(feature) && is_on(feature));
    let on: BTreeSet<_> = on.collect();
    let mut enabled = BTreeSet::new();
    let mut next: Vec<_> = on.iter().copied().collect();
    while let Some(feature) = next.pop() {
        let others = of.get(feature).into_iter().flatten().map(String::as_str);
        next.extend(others.filter(|other| enabled.insert(*other)));
    }
    on.difference(&enabled).map(|feature| (*feature).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::Features;

    #[test]
    fn operations_are_named_by_the_features_that_no_other_one_enables() {
        let of = |name: &str, enabled: &[&str]| {
            (name.to_owned(), enabled.iter().map(|name| (*name).to_owned()).collect())
        };
        let features = Features::from([
            of("default", &["matmul"]),
            of("matmul", &["matmul-f16", "matmul-f32"]),
            of("matmul-f16", &["slices"]),
            of("matmul-f32", &["slices", "dep:other"]),
            of("movement", &[]),
            of("slices", &[]),
            of("tune", &["matmul"]),
        ]);
        let of = Package {
            library: "operations".to_owned(),
            workspace: PathBuf::new(),
            target_dir: PathBuf::new(),
            features,
            host_features: vec!["tune".to_owned()],
        };
        assert_eq!(chosen(&of, |_| true), ["matmul", "movement"]);
        assert_eq!(chosen(&of, |name| name == "slices" || name == "matmul-f32"), ["matmul-f32"]);
        assert_eq!(chosen(&of, |name| name == "tune"), [""; 0]);
        assert_eq!(chosen(&of, |_| false), [""; 0]);
    }
}
