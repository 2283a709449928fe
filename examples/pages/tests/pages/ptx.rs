//! The PTX of the pages, as docs/guide describes it.

use crate::PTX;
use moye_build::ptx::Module;

#[path = "../../../../tests/fixtures/common/assembler.rs"]
mod assembler;

#[test]
fn the_ptx_has_the_kernels_of_this_crate_and_no_other() {
    for &(arch, text) in PTX.images() {
        let module = Module::parse(text).unwrap();
        assert!(module.functions.is_empty(), "functions that were not inlined: {:?}", module.functions);
        let names: Vec<_> = module.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        assert!(names.contains(&"gated") && names.contains(&"gated_tma") == (arch == "sm_90a"), "{names:?}");
        let own = |name: &&str| {
            ["attention_", "gate_", "gated", "rmsnorm_", "softmax_"].iter().any(|part| name.starts_with(part))
        };
        assert!(names.iter().all(own), "{arch}: {names:?}");
        // The steps of attention on Hopper and `gated_tma` exist only for sm_90a.
        assert_eq!(names.len(), if arch == "sm_90a" { 17 } else { 11 }, "{arch}: {names:?}");
    }
}

/// A page is assembled for the oldest architecture that has it.
#[test]
fn ptxas_takes_every_page_without_spills_or_serialisation() {
    for &(arch, text) in PTX.images() {
        let Some(ptxas) = assembler::ptxas_for(arch.parse().unwrap()) else { return };
        let module = Module::parse(text).unwrap();
        let names = module.kernels.iter().map(|kernel| kernel.name.as_str());
        let of_hopper = |name: &&str| name.starts_with("attention_step") || *name == "gated_tma";
        let names: Vec<_> = names.filter(|name| arch == "sm_80" || of_hopper(name)).collect();
        let assembled = ptxas.assemble_kernels(text, arch.parse().unwrap(), &names).unwrap();
        assert_eq!(assembled.kernels.len(), names.len(), "{arch}: {:?}", assembled.kernels);
        for (name, usage) in &assembled.kernels {
            assert_eq!((usage.spills(), usage.stack), (0, 0), "{name} spills: {usage:?}");
        }
        // A serialised product causes a warning that names its kernel.
        let of_steps: Vec<_> =
            assembled.warnings.iter().filter(|warning| warning.contains("attention_step")).collect();
        assert!(of_steps.is_empty(), "{of_steps:?}");
    }
}
