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
    let steps: Vec<_> = (1..=5).map(|step| format!("attention_step{step}")).collect();
    // The crate's other kernels are not assembled.
    let names: Vec<_> = steps.iter().map(String::as_str).collect();
    let assembled = ptxas.assemble_kernels(text, arch, &names).unwrap();
    assert!(assembled.kernels.keys().eq(&steps), "{:?}", assembled.kernels);
    for (name, usage) in &assembled.kernels {
        assert_eq!((usage.spills(), usage.stack), (0, 0), "{name} spills: {usage:?}");
    }
    // A serialised product is a warning that names its kernel.
    let of_steps: Vec<_> =
        assembled.warnings.iter().filter(|warning| warning.contains("attention_step")).collect();
    assert!(of_steps.is_empty(), "{of_steps:?}");
}
