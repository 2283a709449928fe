//! `cargo xtask ptx`: the resources of each shipped kernel on the GPU.

use crate::checkout::Checkout;
use anyhow::{Result, bail};
use lexopt::{Arg, Parser, ValueExt};
use moye_build::ptx::Listing;
use moye_build::report::{self, Ptxas, Report};
use moye_build::{Lint, PtxBuilder, PtxSet};

const ARCHS: &[&str] = &["sm_80", "sm_90a"];

/// The requested kernels and forms.
#[derive(Default)]
pub struct Options {
    archs: Vec<String>,
    /// Whether attention's kernels are included.
    attention: bool,
    json: bool,
    /// Parts of kernels' names; empty means all kernels.
    kernels: Vec<String>,
}

impl Options {
    pub fn read(arguments: &mut Parser) -> Result<Self> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next()? {
            match argument {
                Arg::Long("arch") => options.archs.push(arguments.value()?.string()?),
                Arg::Long("attention") => options.attention = true,
                Arg::Long("json") => options.json = true,
                Arg::Value(name) => options.kernels.push(name.string()?),
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(options)
    }

    fn wants(&self, kernel: &str) -> bool {
        self.kernels.is_empty() || self.kernels.iter().any(|part| kernel.contains(part.as_str()))
    }
}

/// The families of shipped kernels, with the features that name all of them.
const FAMILIES: [(&str, &[&str]); 3] =
    [("ops/attention", &["all"]), ("ops/matmul", &["all", "ladder"]), ("ops/movement", &["ladder"])];

/// Compiles the shipped kernels, a set for each family, with the options of the libraries' build
/// scripts, whose compilation with the same features is reused. Attention doubles the time without
/// it.
fn compile(checkout: &Checkout, archs: &[String], attention: bool) -> Result<Vec<PtxSet>> {
    let mut sets = Vec::new();
    for (folder, features) in &FAMILIES[usize::from(!attention)..] {
        let mut builder = PtxBuilder::new(checkout.root.join(folder))
            .default_features(false)
            .target_dir(checkout.target.join("ptx"))
            .out_dir(checkout.target.join("ptx/report"))
            // The report below searches the requested kernels for slow code.
            .allow(Lint::ALL);
        for feature in *features {
            builder = builder.feature(*feature);
        }
        for arch in archs {
            builder = builder.arch(arch);
            if arch == "sm_90a" {
                // The options of the libraries' build scripts.
                builder = builder.rustflag_of(arch, "-Ctarget-feature=+ptx81");
            }
        }
        sets.push(builder.build()?);
    }
    Ok(sets)
}

/// The shipped kernels for all architectures, which must compile without a warning. The libraries
/// with the features of [`crate::test::ALL`] have already compiled them.
pub fn without_warnings(checkout: &Checkout) -> Result<()> {
    let archs: Vec<_> = ARCHS.iter().map(|arch| (*arch).to_owned()).collect();
    let sets = compile(checkout, &archs, true)?;
    let warnings: String = sets.iter().flat_map(|set| &set.warnings).map(String::as_str).collect();
    if !warnings.is_empty() {
        bail!("the compiler warns of code that only a GPU runs:\n{warnings}");
    }
    Ok(())
}

pub fn run(checkout: &Checkout, options: &Options) -> Result<()> {
    let archs = match options.archs.as_slice() {
        [] => ARCHS.iter().map(|arch| (*arch).to_owned()).collect(),
        named => named.to_vec(),
    };
    let sets = compile(checkout, &archs, options.attention)?;
    let ptxas = Ptxas::find();
    let mut reports = Vec::new();
    let files = || sets.iter().flat_map(|set| &set.files);
    for file in files() {
        let mut report = Report::of_kernels(file, ptxas.as_ref(), |name| options.wants(name))?;
        // The module's order follows the codegen units.
        report.kernels.sort_by(|first, second| first.ptx.name.cmp(&second.ptx.name));
        reports.push(report);
    }
    if reports.iter().all(|report| report.kernels.is_empty()) && !options.kernels.is_empty() {
        bail!(
            "no kernel's name contains {} in what is compiled for {}",
            options.kernels.join(" or "),
            archs.join(" and ")
        );
    }
    let mut findings = Vec::new();
    for (report, file) in reports.iter().zip(files()) {
        findings.extend(report.findings(&Listing::read(&file.text)?));
    }
    if options.json {
        let all: Vec<_> = reports.iter().map(Report::to_json).collect();
        println!("{:#}", serde_json::Value::from(all));
    } else {
        print!("{}", report::text(&reports, &findings, ptxas.as_ref(), &checkout.root));
    }
    Ok(())
}
