//! The PTX of each step has the instruction that it introduces, which the previous step lacks, and
//! keeps its accumulators in registers.

#[path = "../../../../tests/fixtures/common/assembler.rs"]
mod assembler;

use hopper_steps::host::{KERNELS, STEPS};
use moye_build::ptx::Module;

/// The instructions that each step introduces.
const BROUGHT: [&[&str]; 6] = [
    &[
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes",
    ],
    // The release of a stage, for which no thread waits.
    &["mbarrier.arrive.shared.b64"],
    &[
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16",
        "setmaxnreg.inc.sync.aligned.u32",
        "setmaxnreg.dec.sync.aligned.u32",
    ],
    // Reading the grid's extent is the only extra instruction of a persistent grid.
    &["mov.u32 %nctaid.x"],
    &["stmatrix.sync.aligned.m8n8.x4.shared.b16", "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"],
    &[
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster",
        "mapa.shared::cluster.u32",
        "barrier.cluster.wait.aligned",
    ],
];

fn text() -> &'static str {
    let [(arch, text)] = KERNELS.images() else { panic!("one architecture") };
    assert_eq!(*arch, "sm_90a");
    text
}

/// The body of a step's kernel.
fn body(name: &str) -> &'static str {
    let start = text().find(&format!(".entry {name}(")).unwrap_or_else(|| panic!("{name} is not in the PTX"));
    let body = &text()[start..];
    &body[..body.find("\n}").expect("the end of an entry")]
}

/// Whether a kernel has an instruction: its name, or with a space the name and an operand.
fn has(kernel: &str, instruction: &str) -> bool {
    match instruction.split_once(' ') {
        None => {
            Module::parse(text()).unwrap().kernel(kernel).unwrap().count_where(|name| name == instruction) > 0
        }
        Some((name, operand)) => {
            body(kernel).lines().any(|line| line.contains(name) && line.contains(operand))
        }
    }
}

#[test]
fn each_step_has_the_instruction_it_is_there_for_and_the_one_before_has_not() {
    let module = Module::parse(text()).unwrap();
    assert_eq!(module.kernels.len(), STEPS.len());
    assert!(module.functions.is_empty(), "functions that were not inlined: {:?}", module.functions);
    for (i, brought) in BROUGHT.into_iter().enumerate() {
        for instruction in brought {
            let instructions = &module.kernel(STEPS[i].name).unwrap().instructions;
            assert!(
                has(STEPS[i].name, instruction),
                "{} has no {instruction}: {instructions:?}",
                STEPS[i].name
            );
            if let Some(before) = i.checked_sub(1) {
                assert!(!has(STEPS[before].name, instruction), "{} has {instruction}", STEPS[before].name);
            }
        }
    }
}

#[test]
fn sums_stay_in_registers_and_loops_over_them_are_unrolled() {
    let module = Module::parse(text()).unwrap();
    for step in &STEPS {
        let kernel = module.kernel(step.name).unwrap();
        assert!(!kernel.uses_local(), "{} uses local memory", step.name);
        // 128 rows of a block, or 64 of each of two warpgroups, by 64 of K in steps of 16.
        let products = if step.tile[1] == 128 { 2 * 4 } else { 4 };
        assert_eq!(kernel.count("wgmma.mma_async"), products, "{}: {:?}", step.name, kernel.instructions);
    }
}

#[test]
fn step_6_from_parts_has_the_instructions_of_the_one_by_hand() {
    let module = Module::parse(text()).unwrap();
    let (parts, hand) = (module.kernel("step7").unwrap(), module.kernel("step6").unwrap());
    for what in ["wgmma.", "cp.async.bulk", "stmatrix", "mbarrier.", "setmaxnreg", "cvt."] {
        assert_eq!(parts.count(what), hand.count(what), "{what}: {:?}", parts.instructions);
    }
    // The consumers shuffle the warpgroup's index again, which ptxas would spill in other kernels.
    assert_eq!(parts.count("shfl"), hand.count("shfl") + 1, "{:?}", parts.instructions);
    // The number of tiles is rounded up along M, N and K, two instructions order launches, and the
    // next tile is fetched before C is stored: 535 instructions, and 495 by hand.
    assert!(
        parts.len() <= hand.len() + 40,
        "{} instructions, and {} by hand: {:?}",
        parts.len(),
        hand.len(),
        parts.instructions
    );
}

#[test]
fn ptxas_takes_every_step_without_spills_or_serialisation() {
    let arch = "sm_90a".parse().unwrap();
    let Some(ptxas) = assembler::ptxas_for(arch) else { return };
    let assembled = ptxas.assemble(text(), arch).unwrap();
    assert_eq!(assembled.kernels.len(), STEPS.len());
    for (name, usage) in &assembled.kernels {
        assert_eq!((usage.spills(), usage.stack), (0, 0), "{name} spills: {usage:?}");
    }
    assert_eq!(assembled.warnings, [] as [&str; 0]);
}
