//! A whole report, as text and as JSON.

use super::{Finding, Ptxas, Report, classes, table};
use serde_json::{Value, json};
use std::path::Path;

/// Reports of one crate or module for a terminal: the table, the instructions by class, and the
/// slow code. Files are named relative to `folder`.
pub fn text(reports: &[Report], findings: &[Finding], ptxas: Option<&Ptxas>, folder: &Path) -> String {
    let mut text = format!("{}\n{}\n", table(reports), classes(reports));
    text += &match ptxas {
        Some(ptxas) => format!("registers, stack and spills by {}\n", ptxas.path().display()),
        None => "registers and spills are not known: no ptxas was found (MOYE_PTXAS names one)\n".to_owned(),
    };
    for report in reports {
        for function in &report.functions {
            text += &format!("{}: `{function}` is called, not inlined\n", report.arch);
        }
        for warning in &report.warnings {
            text += &format!("{}: {warning}\n", report.arch);
        }
    }
    for finding in findings {
        text += &format!("warning: {}\n", finding.text(folder));
    }
    text
}

/// The same report as JSON: `reports` and `findings`.
pub fn to_json(reports: &[Report], findings: &[Finding]) -> Value {
    json!({
        "reports": reports.iter().map(Report::to_json).collect::<Vec<_>>(),
        "findings": findings.iter().map(Finding::to_json).collect::<Vec<_>>(),
    })
}
