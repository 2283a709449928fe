//! Compiles the kernels of this very crate to PTX.

use moye_build::{Lint, PtxBuilder};

fn main() {
    let set = PtxBuilder::new(".")
        .arch("sm_80")
        .arch("sm_90a")
        .rustflag_of("sm_90a", "-Ctarget-feature=+ptx81")
        // Rows of C that start anywhere are stored by elements, in a loop that is unrolled.
        .allow_in("gated", [Lint::UnpackedConversion])
        .build_or_exit();
    // `tests/gated.rs` reads what is in them.
    println!("cargo::rustc-env=PAGES_PTX={}", set.include.display());
}
