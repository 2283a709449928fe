//! What ptxas says of the kernels, on the oldest GPU and on Hopper.

#[path = "../../../tests/fixtures/common/assembler.rs"]
mod assembler;

#[test]
fn every_kernel_keeps_its_rows_in_registers_without_spills() {
    for (arch, text) in moye_rows::PTX.images() {
        let arch = arch.parse().unwrap();
        let Some(ptxas) = assembler::ptxas_for(arch) else { return };
        let assembled = ptxas.assemble(text, arch).unwrap();
        assert!(assembled.kernels.len() >= 40, "{arch}: {} kernels", assembled.kernels.len());
        for (name, usage) in &assembled.kernels {
            assert_eq!((usage.spills(), usage.stack), (0, 0), "{name} on {arch}: {usage:?}");
        }
    }
}
