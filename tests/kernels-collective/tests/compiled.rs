//! The PTX of the kernels, and ptxas' report.

#[path = "../../common/assembler.rs"]
mod assembler;

use moye_build::ptx::Module;
use moye_kernels_collective::{PTX_SM_80, PTX_SM_90A};

fn text(images: &'static [(&str, &str)]) -> &'static str {
    let [(_, text)] = images else { panic!("one architecture") };
    text
}

#[test]
fn accumulators_stay_in_registers_and_ptxas_neither_spills_nor_serialises() {
    for (arch, images) in [("sm_80", PTX_SM_80), ("sm_90a", PTX_SM_90A)] {
        let module = Module::parse(text(images)).unwrap();
        assert!(module.functions.is_empty(), "functions that were not inlined: {:?}", module.functions);
        for kernel in &module.kernels {
            assert!(!kernel.uses_local(), "{} uses local memory: {:?}", kernel.name, kernel.instructions);
        }
        let arch = arch.parse().unwrap();
        let Some(ptxas) = assembler::ptxas_for(arch) else { continue };
        let assembled = ptxas.assemble(text(images), arch).unwrap();
        for (name, usage) in &assembled.kernels {
            println!(
                "{name} for {arch}: {usage:?}, {} instructions of PTX",
                module.kernel(name).unwrap().len()
            );
            assert_eq!((usage.spills(), usage.stack), (0, 0), "{name} spills: {usage:?}");
        }
        assert_eq!(assembled.warnings, [] as [&str; 0]);
    }
}
