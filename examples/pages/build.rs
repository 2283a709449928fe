//! Compiles the kernels of this very crate to PTX.

use moye_build::{Lint, PtxBuilder};

fn main() {
    PtxBuilder::new(".")
        .arch("sm_80")
        .arch("sm_90a")
        .rustflag_of("sm_90a", "-Ctarget-feature=+ptx81")
        .deny([Lint::LocalMemory, Lint::SlowDivision, Lint::UnpackedConversion])
        // Rows that start anywhere are stored by elements, in a loop that is unrolled.
        .allow_in("gate_bf16", [Lint::UnpackedConversion])
        .allow_in("gated", [Lint::UnpackedConversion])
        .build_or_exit();
}
