//! What is asked of the PTX of every crate of test kernels that is compiled for sm_90a alone.

#[path = "assembler.rs"]
mod assembler;

use moye_build::ptx::Module;

/// The text of the one image.
pub fn text(ptx: &'static [(&str, &str)]) -> &'static str {
    let [(arch, text)] = ptx else { panic!("one architecture") };
    assert_eq!(*arch, "sm_90a");
    text
}

/// The module, all of whose functions were inlined into kernels.
pub fn module(text: &str) -> Module {
    let module = Module::parse(text).unwrap();
    assert!(module.functions.is_empty(), "functions that were not inlined: {:?}", module.functions);
    module
}

/// ptxas, where there is one, takes every kernel, with nothing in local memory and without a
/// warning.
pub fn assembles(text: &str) {
    let arch = "sm_90a".parse().unwrap();
    let Some(ptxas) = assembler::ptxas_for(arch) else { return };
    let assembled = ptxas.assemble(text, arch).unwrap();
    assert_eq!(assembled.kernels.len(), Module::parse(text).unwrap().kernels.len());
    for (name, usage) in &assembled.kernels {
        assert_eq!((usage.spills(), usage.stack), (0, 0), "{name} spills: {usage:?}");
    }
    assert_eq!(assembled.warnings, [] as [&str; 0]);
}
