//! NVIDIA's assembler's report on this crate's kernels.

use crate::assembler;

/// The entry points of this crate's PTX, by architecture.
const PTX: &[(&str, &str)] = include!(env!("MINILM_PTX"));

#[test]
fn ptxas_assembles_the_kernels_without_local_memory() {
    for (arch, text) in PTX {
        let arch = arch.parse().unwrap();
        let Some(ptxas) = assembler::ptxas_for(arch) else { return };
        let assembled = ptxas.assemble(text, arch).unwrap();
        for (name, usage) in &assembled.kernels {
            println!("{arch} {name}: {} registers", usage.registers);
            assert_eq!((usage.spills(), usage.stack), (0, 0), "{name} spills: {usage:?}");
        }
    }
}
