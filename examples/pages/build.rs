//! Compiles this crate's kernels to PTX.

use moye_build::{Lint, PtxBuilder};

fn main() {
    PtxBuilder::new(".")
        .arch("sm_80")
        .arch("sm_90a")
        .rustflag_of("sm_90a", "-Ctarget-feature=+ptx81")
        .deny([Lint::LocalMemory, Lint::SlowDivision, Lint::UnpackedConversion])
        // Rows without alignment are stored by elements, in an unrolled loop.
        .allow_in("gate_bf16", [Lint::UnpackedConversion])
        .allow_in("gated", [Lint::UnpackedConversion])
        .build_or_exit();
}
