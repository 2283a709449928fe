//! Which slow code a build looks for, and where it is in the source.

use crate::PtxFile;
use crate::compile::{Job, compile};
use crate::ptx::Listing;
use crate::report::{Finding, Level, Lint, Ptxas, Report};
use std::collections::{BTreeMap, BTreeSet};

/// The option that a module is compiled with for its lines. It changes no instruction.
const LINES: &str = "-Cdebuginfo=line-tables-only";

/// What a build does about slow code.
#[derive(Clone, Debug)]
pub struct Lints {
    levels: BTreeMap<Lint, Level>,
    allowed_in: BTreeSet<(String, Lint)>,
    pub locate: bool,
}

impl Default for Lints {
    fn default() -> Self {
        Self { levels: BTreeMap::new(), allowed_in: BTreeSet::new(), locate: true }
    }
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

    /// The slow code that is not allowed. What cannot be read is not reported: it is no error of
    /// the crate's.
    pub fn findings(&self, job: &Job<'_>, files: &[PtxFile]) -> Vec<Finding> {
        let told = |lint: &Lint| self.level(*lint) != Level::Allow;
        if !Lint::ALL.iter().any(told) {
            return Vec::new();
        }
        files.iter().flat_map(|file| self.of_module(job, file).unwrap_or_default()).collect()
    }

    fn of_module(&self, job: &Job<'_>, file: &PtxFile) -> Option<Vec<Finding>> {
        let by_ptxas = [Lint::LocalMemory, Lint::Spills, Lint::SerializedWgmma];
        let assembles = by_ptxas.iter().any(|lint| self.level(*lint) != Level::Allow);
        let ptxas = if assembles { Ptxas::find_for(file.arch) } else { None };
        // An assembler that is too old for the module knows nothing of it.
        let report = Report::of(file, ptxas.as_ref()).or_else(|_| Report::of(file, None)).ok()?;
        let told = |finding: &Finding| {
            let exempt = self.allowed_in.contains(&(finding.kernel.clone(), finding.lint));
            self.level(finding.lint) != Level::Allow && !exempt
        };
        let mut findings = report.findings(&Listing::read(&file.text).ok()?);
        findings.retain(told);
        if findings.is_empty() || !self.locate {
            return Some(findings);
        }
        let rustflags: Vec<_> = job.rustflags.iter().cloned().chain([LINES.to_owned()]).collect();
        let Ok(compiled) = compile(&Job { rustflags: &rustflags, ..*job }, file.arch) else {
            return Some(findings);
        };
        let Ok(listing) = Listing::read(&compiled.ptx) else { return Some(findings) };
        for located in report.findings(&listing) {
            let same =
                |finding: &&mut Finding| (&finding.kernel, finding.lint) == (&located.kernel, located.lint);
            if let Some(finding) = findings.iter_mut().find(same) {
                finding.places = located.places;
            }
        }
        Some(findings)
    }
}
