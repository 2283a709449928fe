//! [`Operations`]: the build script of a crate of operations.

use crate::package::Features;
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
/// A package contains its PTX in the folder `ptx`, so that its users compile none. With
/// `MOYE_BUILD_PTX=1` the PTX is compiled from the package's sources. A checkout has no such folder
/// and always compiles.
#[derive(Clone, Debug)]
#[must_use = "nothing is compiled before `build_or_exit`"]
pub struct Operations {
    builder: PtxBuilder,
    /// The features passed to `feature`.
    named: Vec<String>,
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
        Self { builder, named: Vec::new() }
    }

    /// The crate's package, as for [`PtxBuilder::package`].
    pub fn package(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.builder = self.builder.package(name, version);
        self
    }

    /// Enables a feature that has another name in the build script's package.
    pub fn feature(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.builder = self.builder.feature(&name);
        self.named.push(name);
        self
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
    /// As for [`PtxBuilder::build`]; `ptxas` cannot be run or refuses a kernel; a file cannot be
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

/// The features of a crate of operations to compile: the `named` ones, and the features that are on
/// in the build script's package, or all outside a build script. A feature that another one enables
/// is omitted, so that equal sets of operations are compiled once, whatever names requested them.
pub fn features(of: &Features, named: &[String]) -> Vec<String> {
    let all = !environment::in_build_script();
    chosen(of, |feature| all || named.iter().any(|name| name == feature) || is_on(feature))
}

fn chosen(of: &Features, is_on: impl Fn(&str) -> bool) -> Vec<String> {
    let on = of.keys().map(String::as_str).filter(|feature| *feature != "default" && is_on(feature));
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
        ]);
        assert_eq!(chosen(&features, |_| true), ["matmul", "movement"]);
        assert_eq!(chosen(&features, |name| name == "slices" || name == "matmul-f32"), ["matmul-f32"]);
        assert_eq!(chosen(&features, |_| false), [""; 0]);
    }
}
