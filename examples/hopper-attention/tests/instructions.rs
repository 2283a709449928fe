//! The kernels' PTX: accumulators stay in registers, and ptxas neither spills nor serialises.

#[path = "../../../tests/common/assembler.rs"]
mod assembler;

use hopper_attention::host::PTX;
use moye_build::ptx::Module;

fn text() -> &'static str {
    let [(arch, text)] = PTX else { panic!("one architecture") };
    assert_eq!(*arch, "sm_90a");
    text
}

#[test]
fn accumulators_and_probabilities_stay_in_registers() {
    let module = Module::parse(text()).unwrap();
    assert!(module.functions.is_empty(), "functions that were not inlined: {:?}", module.functions);
    for kernel in &module.kernels {
        assert!(!kernel.uses_local(), "{} uses local memory", kernel.name);
    }
}

#[test]
fn ptxas_takes_every_kernel_without_spills_or_serialisation() {
    let arch = "sm_90a".parse().unwrap();
    let Some(ptxas) = assembler::ptxas_for(arch) else { return };
    let assembled = ptxas.assemble(text(), arch).unwrap();
    for (name, usage) in &assembled.kernels {
        assert_eq!((usage.spills(), usage.stack), (0, 0), "{name} spills: {usage:?}");
    }
    assert_eq!(assembled.warnings, [] as [&str; 0]);
}
