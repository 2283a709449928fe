//! The PTX of each atom's kernel has its instruction once, and ptxas takes it for sm_90a: with all accumulators in registers,
//! and without a word on instructions that it would not let overlap.

use moye_build::ptx::Module;
use moye_build::report::Ptxas;
use moye_device::atom::wgmma::WGMMA_ATOMS;
use moye_kernels_wgmma::PTX;
use std::io::Write as _;

fn text() -> &'static str {
    let [(arch, text)] = PTX else { panic!("one architecture") };
    assert_eq!(*arch, "sm_90a");
    text
}

#[test]
fn every_atom_has_a_kernel_with_its_instruction_once() {
    let module = Module::parse(text()).unwrap();
    assert!(module.functions.is_empty(), "functions that were not inlined: {:?}", module.functions);
    for atom in WGMMA_ATOMS {
        let kernel = module.kernel(atom.name).unwrap_or_else(|| panic!("{} is not in the PTX", atom.name));
        let count = |wanted: &str| kernel.instructions.get(wanted).copied().unwrap_or(0);
        assert_eq!(count(atom.instruction), 1, "{}: {:?}", atom.name, kernel.instructions);
        assert_eq!(kernel.count("wgmma.mma_async"), 1, "{}: {:?}", atom.name, kernel.instructions);
        for around in
            ["wgmma.fence.sync.aligned", "wgmma.commit_group.sync.aligned", "wgmma.wait_group.sync.aligned"]
        {
            assert_eq!(count(around), 1, "{}: {around}", atom.name);
        }
        assert!(!kernel.uses_local(), "{} keeps accumulators in memory", atom.name);
    }
}

#[test]
fn ptxas_takes_every_kernel_without_spills_or_serialisation() {
    let arch = "sm_90a".parse().unwrap();
    let Some(ptxas) = Ptxas::find_for(arch) else {
        // Not `eprintln!`, whose words a test that passes keeps to itself.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: there is no ptxas (`cargo xtask test` fetches it, or set MOYE_PTXAS)"
        );
        return;
    };
    let assembled = ptxas.assemble(text(), arch).unwrap();
    assert_eq!(assembled.kernels.len(), Module::parse(text()).unwrap().kernels.len());
    for (name, usage) in &assembled.kernels {
        assert_eq!((usage.spills(), usage.stack), (0, 0), "{name} spills: {usage:?}");
    }
    assert_eq!(assembled.warnings, [] as [&str; 0]);
}
