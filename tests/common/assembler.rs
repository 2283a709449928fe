//! NVIDIA's assembler for the tests that need it.

// Every test crate uses a part of it.
#![allow(dead_code)]

use moye_build::Arch;
use moye_build::report::Ptxas;
use std::io::Write as _;

/// The assembler, where there is one; otherwise [`lacking`].
pub fn ptxas() -> Option<Ptxas> {
    found(Ptxas::find())
}

/// The assembler for an architecture, where there is one; otherwise [`lacking`].
pub fn ptxas_for(arch: Arch) -> Option<Ptxas> {
    found(Ptxas::find_for(arch))
}

fn found(found: Option<Ptxas>) -> Option<Ptxas> {
    if found.is_none() {
        lacking("what ptxas tells is not tested");
    }
    found
}

/// Tells what is skipped where there is no assembler. With `MOYE_REQUIRE_PTXAS=1` that is a
/// failure.
pub fn lacking(skipped: &str) {
    let reason =
        format!("{skipped}: there is no ptxas for it (`cargo xtask test` fetches it, or set MOYE_PTXAS)");
    let required = std::env::var_os("MOYE_REQUIRE_PTXAS").is_some_and(|value| value == "1");
    assert!(!required, "MOYE_REQUIRE_PTXAS=1, but {reason}");
    // Not `eprintln!`, whose output is hidden for a test that passes. If standard error is closed,
    // the tests still run.
    let _ = writeln!(std::io::stderr(), "{reason}");
}
