//! What is said of a copy instruction that the GPU does not have.

use moye_build::{BuildError, PtxBuilder};

#[test]
fn an_older_gpu_is_a_compile_error_that_names_atom_and_instruction_and_what_they_need() {
    let folder = env!("CARGO_TARGET_TMPDIR");
    let result = PtxBuilder::new(env!("CARGO_MANIFEST_DIR"))
        .default_features(false)
        .feature("sm_90")
        .arch("sm_80")
        .rustflag("-Ctarget-feature=+ptx78")
        .out_dir(format!("{folder}/sm_80"))
        // Where `core` has been compiled for the kernels that do compile.
        .target_dir(format!("{folder}/../ptx"))
        .build();
    let Err(BuildError::Compile { output, .. }) = result else { panic!("it needs sm_90: {result:?}") };
    for part in [
        "the atom SM90_U32x4_STSM_N (stmatrix.sync.aligned.m8n8.x4.shared.b16) needs sm_90, and the kernel is compiled for \
         sm_80",
        "the atom SM90_U16x8_STSM_T",
        "stmatrix needs sm_90 and PTX 7.8",
        "cvt.rn.tf32.f32 needs sm_90 and PTX 7.8",
        "atom.global.add.noftz.bf16x2 needs sm_90",
        "#[cfg(target_feature = \"sm_90\")]",
    ] {
        assert!(output.contains(part), "`{part}` is missing in:\n{output}");
    }
}
