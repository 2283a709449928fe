//! The PTX of each atom's kernel has its instruction once, and ptxas takes it for sm_90a: with all
//! accumulators in registers, and without a word on instructions that it would not let overlap.

#[path = "../../common/sm_90a.rs"]
mod sm_90a;

use moye_device::atom::wgmma::WGMMA_ATOMS;
use moye_kernels_wgmma::PTX;

#[test]
fn every_atom_has_a_kernel_with_its_instruction_once() {
    let module = sm_90a::module(sm_90a::text(PTX));
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
    sm_90a::assembles(sm_90a::text(PTX));
}
