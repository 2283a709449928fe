//! What is said of a copy instruction that the GPU does not have.

use moye_build::{BuildError, PtxBuilder};

#[test]
fn an_older_gpu_is_a_compile_error_that_names_the_instruction_and_what_it_needs() {
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
        "stmatrix needs sm_90 and PTX 7.8",
        "cvt.rn.tf32.f32 needs sm_90 and PTX 7.8",
        "atom.global.add.noftz.bf16x2 needs sm_90",
        "#[cfg(target_feature = \"sm_90\")]",
    ] {
        assert!(output.contains(part), "`{part}` is missing in:\n{output}");
    }
}
