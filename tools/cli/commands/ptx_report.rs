//! `moye report`: the resources that the kernels of a crate, or of a PTX file, use on a GPU.

use super::report as terminal;
use anyhow::{Context, Result, bail};
use clap::Args;
use moye_build::ptx::{Listing, Module};
use moye_build::report::{self, Finding, Lint, Ptxas, Report};
use moye_build::{PtxBuilder, PtxFile};
use std::fs;
use std::path::{Path, PathBuf};

/// Default architectures of a crate.
const ARCHS: [&str; 2] = ["sm_80", "sm_90a"];

#[derive(Args)]
pub struct PtxReport {
    /// A crate with kernels, or a PTX file.
    #[arg(default_value = ".")]
    path: PathBuf,
    /// Architecture to compile for: sm_80, sm_90a, ... (default: both of these; for a PTX file, its
    /// target).
    #[arg(long, value_name = "ARCH")]
    arch: Vec<String>,
    /// Feature of the crate to enable.
    #[arg(long, value_name = "FEATURE")]
    feature: Vec<String>,
    /// Option for rustc, as in a build script: `--rustflag=-Ctarget-feature=+ptx81`.
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    rustflag: Vec<String>,
    /// Only kernels whose names contain this.
    #[arg(long, value_name = "PART")]
    kernel: Vec<String>,
    /// Fail if a kernel has slow code of this kind: local_memory, spills, double_precision,
    /// slow_division, unpacked_conversion, serialized_wgmma, global_table, or all. Spills and
    /// serialized_wgmma require ptxas.
    #[arg(long, value_name = "KIND")]
    deny: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl PtxReport {
    pub fn run(self) -> Result<()> {
        let denied = self.denied()?;
        let (files, findings) =
            if self.path.is_dir() { self.of_crate()? } else { (vec![self.of_file()?], None) };
        let wanted = |name: &str| {
            self.kernel.is_empty() || self.kernel.iter().any(|part| name.contains(part.as_str()))
        };
        let ptxas = Ptxas::find();
        let (mut reports, mut found) = (Vec::new(), Vec::new());
        for file in &files {
            let mut report = Report::of_kernels(file, ptxas.as_ref(), wanted)?;
            report.kernels.sort_by(|first, second| first.ptx.name.cmp(&second.ptx.name));
            found.extend(report.findings(&Listing::read(&file.text)?));
            reports.push(report);
        }
        if reports.iter().all(|report| report.kernels.is_empty()) {
            bail!("{} has no kernel{}", self.path.display(), self.named());
        }
        let mut findings = findings.unwrap_or(found);
        findings.retain(|finding| wanted(&finding.kernel));
        let folder = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        if self.json {
            terminal::print(&format!("{:#}\n", report::to_json(&reports, &findings)));
        } else {
            terminal::print(&report::text(&reports, &findings, ptxas.as_ref(), &folder));
        }
        let count = findings.iter().filter(|finding| denied.contains(&finding.lint)).count();
        if count > 0 {
            bail!("{count} findings are denied");
        }
        let unknown: Vec<_> =
            denied.iter().filter(|lint| lint.needs_ptxas()).map(|lint| lint.name()).collect();
        if ptxas.is_none() && !unknown.is_empty() {
            bail!(
                "{} cannot be checked: no ptxas was found; the variable {} names one",
                unknown.join(" and "),
                Ptxas::VARIABLE
            );
        }
        Ok(())
    }

    fn named(&self) -> String {
        if self.kernel.is_empty() {
            String::new()
        } else {
            format!(" whose name contains {}", self.kernel.join(" or "))
        }
    }

    fn denied(&self) -> Result<Vec<Lint>> {
        let mut lints = Vec::new();
        for name in &self.deny {
            if name == "all" {
                lints.extend(Lint::ALL);
            } else {
                lints.push(name.parse::<Lint>().map_err(anyhow::Error::msg).context("--deny")?);
            }
        }
        Ok(lints)
    }

    /// A PTX file, for its target or the architecture on the command line.
    fn of_file(&self) -> Result<PtxFile> {
        let path = &self.path;
        let text = fs::read_to_string(path)
            .with_context(|| format!("{} is neither a crate's folder nor a file of PTX", path.display()))?;
        let target = Module::parse(&text).with_context(|| path.display().to_string())?.target;
        let arch = self.arch.first().unwrap_or(&target).parse()?;
        Ok(PtxFile { arch, path: path.clone(), text })
    }

    /// The modules of a crate, and their slow code with its source lines.
    fn of_crate(&self) -> Result<(Vec<PtxFile>, Option<Vec<Finding>>)> {
        let out = std::env::temp_dir().join(format!("moye-report-{}", std::process::id()));
        let mut builder = PtxBuilder::new(&self.path).out_dir(&out);
        let archs = if self.arch.is_empty() { ARCHS.map(str::to_owned).to_vec() } else { self.arch.clone() };
        for arch in archs {
            builder = builder.arch(arch);
        }
        for feature in &self.feature {
            builder = builder.feature(feature);
        }
        for flag in &self.rustflag {
            builder = builder.rustflag(flag);
        }
        let built = builder.build();
        let _ = fs::remove_dir_all(Path::new(&out));
        let set = built?;
        Ok((set.files, Some(set.findings)))
    }
}
