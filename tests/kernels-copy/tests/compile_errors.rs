//! What is said of a copy instruction that the GPU does not have.

use moye_build::{BuildError, PtxBuilder};

/// Compiles the kernels with `feature` (those of sm_80 without one) for `arch`, where they must not
/// compile, and looks for what is said of it, which it returns. `ptx` is a target feature that
/// names a PTX version; without it, it is the architecture's first.
#[track_caller]
fn check(arch: &str, ptx: Option<&str>, feature: Option<&str>, parts: &[&str]) -> String {
    let folder = env!("CARGO_TARGET_TMPDIR");
    let mut builder = PtxBuilder::new(env!("CARGO_MANIFEST_DIR"))
        .default_features(false)
        .arch(arch)
        .out_dir(format!("{folder}/{arch}-{}", ptx.unwrap_or("ptx")))
        // Where what they depend on has been compiled for the kernels that do compile.
        .target_dir(format!("{folder}/../ptx"));
    if let Some(feature) = feature {
        builder = builder.feature(feature);
    }
    if let Some(ptx) = ptx {
        builder = builder.rustflag(format!("-Ctarget-feature=+{ptx}"));
    }
    let result = builder.build();
    let Err(BuildError::Compile { output, .. }) = result else {
        panic!("{arch} {ptx:?} does not have it: {result:?}")
    };
    for part in parts {
        assert!(output.contains(part), "`{part}` is missing in:\n{output}");
    }
    output
}

#[test]
fn an_older_gpu_is_a_compile_error_that_names_atom_and_instruction_and_what_they_need() {
    let stored = "stmatrix.sync.aligned.m8n8.x4.shared.b16 (the atom SM90_U32x4_STSM_N) needs sm_90 and PTX 7.8, and the kernel \
                  is compiled for sm_80, PTX 7.8";
    let parts = [
        stored,
        "the atom SM90_U16x8_STSM_T",
        "cvt.rn.tf32.f32 needs sm_90 and PTX 7.8",
        "atom.global.add.noftz.bf16x2 needs sm_90 and PTX 7.8, and the kernel is compiled for sm_80, PTX 7.8",
        "red.shared.add.noftz.bf16x2 needs sm_90",
        "#[cfg(target_feature = \"sm_90\")]",
    ];
    let output = check("sm_80", Some("ptx78"), Some("sm_90"), &parts);
    assert_eq!(
        output.matches("(the atom SM90_U32x4_STSM_N) needs").count(),
        1,
        "one fault, one error:\n{output}"
    );
}

#[test]
fn instructions_of_sm_80_do_not_compile_for_sm_70() {
    let parts = [
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 (the atom SM75_U32x4_LDSM_N) needs sm_75 and PTX 6.5, and the kernel is \
         compiled for sm_70, PTX 7.8",
        "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 (the atom SM75_U16x4_LDSM_T) needs sm_75",
        "movmatrix.sync.aligned.m8n8.trans.b16 (the atom SM75_U32x1_MOVM_T) needs sm_75 and PTX 7.8",
        "SM80_CP_ASYNC_CACHEALWAYS and SM80_CP_ASYNC_CACHEGLOBAL) needs sm_80 and PTX 7.0, and the kernel is compiled for sm_70",
        "cp.async.wait_group needs sm_80 and PTX 7.0",
        "cp.async.mbarrier.arrive.noinc needs sm_80 and PTX 7.0",
        "mbarrier.init needs sm_80 and PTX 7.0",
        "redux.sync needs sm_80 and PTX 7.0",
        "cvt.rn.bf16.f32 needs sm_80 and PTX 7.0",
        "cvt.rn.relu.f16x2.f32 needs sm_80 and PTX 7.0",
        "cvt.rna.tf32.f32 needs sm_80 and PTX 7.0",
        "fma.rn.bf16 needs sm_80 and PTX 7.0",
        "fma.rn.bf16x2 needs sm_80 and PTX 7.0",
    ];
    let output = check("sm_70", Some("ptx78"), Some("no_hints"), &parts);
    for older in ["atom.", "red."] {
        assert!(
            !output.contains(&format!("error[E0080]: evaluation panicked: {older}")),
            "sm_70 has these:\n{output}"
        );
    }
}

#[test]
fn hints_to_the_caches_do_not_compile_for_the_first_ptx_version_of_sm_80() {
    let parts = [
        "an access with .L2::256B needs sm_80 and PTX 7.4",
        "ld.global.L1::evict_last needs sm_70 and PTX 7.4, and the kernel is compiled for sm_80, PTX 7.0",
        "st.global.L1::no_allocate needs sm_70 and PTX 7.4",
    ];
    check("sm_80", None, None, &parts);
}
