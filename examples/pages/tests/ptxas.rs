//! The steps of attention on Hopper, assembled: what docs/guide/attention.md says of them.

#[path = "../../../tests/fixtures/common/assembler.rs"]
mod assembler;

/// The entry points of this crate's PTX, by architecture.
const PTX: &[(&str, &str)] = include!(env!("PAGES_PTX"));

#[test]
fn ptxas_takes_every_step_of_attention_without_spills_or_serialisation() {
    let arch = "sm_90a".parse().unwrap();
    let Some(ptxas) = assembler::ptxas_for(arch) else { return };
    let (_, text) = PTX.iter().find(|(arch, _)| *arch == "sm_90a").unwrap();
    let assembled = ptxas.assemble(text, arch).unwrap();
    let mut steps = 0;
    for (name, usage) in &assembled.kernels {
        if name.starts_with("attention_step") {
            assert_eq!((usage.spills(), usage.stack), (0, 0), "{name} spills: {usage:?}");
            steps += 1;
        }
    }
    assert_eq!(steps, 5, "{:?}", assembled.kernels);
    // A serialised product is a warning that names its kernel.
    let of_steps: Vec<_> =
        assembled.warnings.iter().filter(|warning| warning.contains("attention_step")).collect();
    assert!(of_steps.is_empty(), "{of_steps:?}");
}
