//! What is said of an instruction that the GPU or the PTX version does not have.

use moye_build::{BuildError, PtxBuilder};

/// What the compiler says of the kernels of sm_89, or of those of sm_80 and older without the
/// feature, when they are compiled for something else.
fn error(arch: &str, ptx: &str, feature: Option<&str>) -> String {
    let folder = env!("CARGO_TARGET_TMPDIR");
    let mut builder = PtxBuilder::new(env!("CARGO_MANIFEST_DIR"))
        .arch(arch)
        .rustflag(ptx)
        .out_dir(format!("{folder}/{arch}{ptx}"))
        // Where what they depend on has been compiled for the kernels that do compile.
        .target_dir(format!("{folder}/../ptx"));
    if let Some(feature) = feature {
        builder = builder.feature(feature);
    }
    match builder.build() {
        Err(BuildError::Compile { output, .. }) => output,
        other => panic!("kernels that need more ({feature:?}), for {arch} with {ptx}: {other:?}"),
    }
}

#[test]
fn an_older_gpu_is_a_compile_error_that_names_the_atom_and_what_it_needs() {
    let message = error("sm_80", "-Ctarget-feature=+ptx78", Some("sm_89"));
    for part in [
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32",
        "the atom SM89_16x8x32_F32E4M3E4M3F32_TN",
        "needs sm_89 and PTX 8.4, and the kernel is compiled for sm_80, PTX 7.8",
        "#[cfg(target_feature = \"sm_89\")]",
    ] {
        assert!(message.contains(part), "`{part}` is missing in:\n{message}");
    }
}

#[test]
fn an_older_ptx_version_is_a_compile_error_for_those_that_need_a_newer_one() {
    // An architecture that has them all, with a version that other kernels of the tests are
    // compiled for.
    let message = error("sm_90a", "-Ctarget-feature=+ptx84", Some("sm_89"));
    assert!(message.contains("SM89_16x8x32_F16E4M3E4M3F16_TN"), "f16 accumulators need 8.7:\n{message}");
    assert!(!message.contains("SM89_16x8x32_F32E4M3E4M3F32_TN"), "f32 accumulators need 8.4:\n{message}");
}

#[test]
fn instructions_of_one_thread_name_their_atoms_too() {
    let message = error("sm_60", "-Ctarget-feature=+ptx78", None);
    for part in [
        "dp4a.s32.s32 (the atom SM61_DP4A) needs sm_61 and PTX 5.0, and the kernel is compiled for sm_60, PTX 7.8",
        "dp2a.lo.s32.s32 (the atom SM61_DP2A) needs sm_61",
    ] {
        assert!(message.contains(part), "`{part}` is missing in:\n{message}");
    }
}
