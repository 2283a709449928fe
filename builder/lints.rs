//! The kinds of slow code that a build searches for, and their source lines.

use crate::PtxFile;
use crate::compile::{Job, compile};
use crate::ptx::Listing;
use crate::report::{Finding, Level, Lint, Ptxas, Report};
use std::collections::{BTreeMap, BTreeSet};

/// The option that adds source lines to a module. It changes no instruction.
const LINES: &str = "-Cdebuginfo=line-tables-only";

/// The levels of each kind of slow code in a build.
#[derive(Clone, Debug)]
pub struct Lints {
    levels: BTreeMap<Lint, Level>,
    allowed_in: BTreeSet<(String, Lint)>,
    pub locate: bool,
    /// Whether a build fails if it cannot check a denied kind.
    pub deny_unchecked: bool,
}

impl Default for Lints {
    fn default() -> Self {
        Self { levels: BTreeMap::new(), allowed_in: BTreeSet::new(), locate: true, deny_unchecked: false }
    }
}

/// The slow code of all modules.
#[derive(Debug, Default)]
pub struct Found {
    /// The slow code that is not allowed.
    pub findings: Vec<Finding>,
    /// The denied kinds that were not checked, each with the reason.
    pub unchecked: Vec<String>,
}

impl Lints {
    pub fn set(&mut self, lints: impl IntoIterator<Item = Lint>, level: Level) {
        self.levels.extend(lints.into_iter().map(|lint| (lint, level)));
    }

    pub fn allow_in(&mut self, kernel: String, lints: impl IntoIterator<Item = Lint>) {
        self.allowed_in.extend(lints.into_iter().map(|lint| (kernel.clone(), lint)));
    }

    pub fn level(&self, lint: Lint) -> Level {
        self.levels.get(&lint).copied().unwrap_or_default()
    }

    /// The slow code that is not allowed. A module that cannot be read is reported only for denied
    /// kinds.
    pub fn find(&self, job: &Job<'_>, files: &[PtxFile]) -> Found {
        let mut found = Found::default();
        let told = |lint: &Lint| self.level(*lint) != Level::Allow;
        if !Lint::ALL.iter().any(told) {
            return found;
        }
        for file in files {
            match self.of_module(job, file) {
                Ok((findings, without_ptxas)) => {
                    found.findings.extend(findings);
                    found.unchecked.extend(
                        without_ptxas.and_then(|reason| self.unchecked(file, Lint::needs_ptxas, &reason)),
                    );
                }
                Err(reason) => found.unchecked.extend(self.unchecked(file, |_| true, &reason)),
            }
        }
        found
    }

    /// The message about a module's denied kinds that were not checked; `None` if there are none.
    fn unchecked(&self, file: &PtxFile, among: impl Fn(Lint) -> bool, reason: &str) -> Option<String> {
        let has_wgmma = file.text.contains("wgmma.mma_async");
        let denied =
            |lint: &Lint| self.level(*lint) == Level::Deny && (*lint != Lint::SerializedWgmma || has_wgmma);
        let names: Vec<_> =
            Lint::ALL.into_iter().filter(|lint| among(*lint) && denied(lint)).map(Lint::name).collect();
        (!names.is_empty()).then(|| {
            format!(
                "{} is denied, and was not checked in the code for {}: {reason}",
                names.join(", "),
                file.arch
            )
        })
    }

    /// The slow code of a module, and the reason why `ptxas` did not run. The error is the reason
    /// why the module cannot be read.
    fn of_module(&self, job: &Job<'_>, file: &PtxFile) -> Result<(Vec<Finding>, Option<String>), String> {
        let by_ptxas = [Lint::LocalMemory, Lint::Spills, Lint::SerializedWgmma];
        let assembles = by_ptxas.iter().any(|lint| self.level(*lint) != Level::Allow);
        let ptxas = if assembles { Ptxas::find_for(file.arch) } else { None };
        let mut without_ptxas = ptxas.is_none().then(|| {
            format!("no ptxas for {} was found; the variable {} names one", file.arch, Ptxas::VARIABLE)
        });
        let report = Report::of(file, ptxas.as_ref()).or_else(|error| {
            // An assembler that is too old for the module cannot check it.
            without_ptxas = Some(error.to_string());
            Report::of(file, None)
        });
        let report = report.map_err(|error| error.to_string())?;
        let told = |finding: &Finding| {
            let exempt = self.allowed_in.contains(&(finding.kernel.clone(), finding.lint));
            self.level(finding.lint) != Level::Allow && !exempt
        };
        let listing = Listing::read(&file.text).map_err(|error| error.to_string())?;
        let mut findings = report.findings(&listing);
        findings.retain(told);
        if !findings.is_empty() && self.locate {
            locate(&mut findings, &report, job, file);
        }
        Ok((findings, without_ptxas))
    }
}

/// Compiles a module again, with line numbers, to locate the findings. If that fails, findings have
/// no lines.
fn locate(findings: &mut [Finding], report: &Report, job: &Job<'_>, file: &PtxFile) {
    let Ok(compiled) = compile(&Job { options: &[LINES], ..*job }, file.arch) else { return };
    let Ok(listing) = Listing::read(&compiled.ptx) else { return };
    for located in report.findings(&listing) {
        let same =
            |finding: &&mut Finding| (&finding.kernel, finding.lint) == (&located.kernel, located.lint);
        if let Some(finding) = findings.iter_mut().find(same) {
            finding.places = located.places;
        }
    }
}
