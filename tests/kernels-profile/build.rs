//! Compiles these kernels to PTX: the kernels that every GPU since sm_80 runs, and all of them for
//! sm_90a.

fn main() {
    // They are slow by intent.
    moye_build::PtxBuilder::new(".")
        .arch("sm_80")
        .arch("sm_90a")
        .rustflag_of("sm_90a", "-Ctarget-feature=+ptx81")
        .allow(moye_build::Lint::ALL)
        .build_or_exit();
}
