//! What the compiler made of the shipped kernels, for every architecture: nothing in local memory, no spills, no calls,
//! and the instructions that each kernel exists for.

mod common;

use common::ptx::kernel_text;
use common::{assembler, gpu};
use moye::{Device, Kernel, Params, SHIPPED_PTX, kernels};
use moye_build::ptx::{Function, Module};
use moye_build::report::KernelReport;
use rstest::rstest;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

/// The module for an architecture, read once.
fn module(arch: &str) -> &'static Module {
    static MODULES: LazyLock<BTreeMap<&str, Module>> = LazyLock::new(|| {
        SHIPPED_PTX.images().iter().map(|&(arch, text)| (arch, Module::parse(text).unwrap())).collect()
    });
    &MODULES[arch]
}

fn function(arch: &str, name: &str) -> Function {
    module(arch).kernel(name).unwrap_or_else(|| panic!("{name} is not in the PTX for {arch}")).clone()
}

#[rstest]
fn every_shipped_kernel_keeps_everything_in_registers(#[values("sm_80", "sm_90a")] arch: &str) {
    let module = module(arch);
    assert!(module.functions.is_empty(), "functions that were not inlined: {:?}", module.functions);
    assert!(!module.kernels.is_empty(), "there are shipped kernels");
    for kernel in &module.kernels {
        assert!(
            !kernel.uses_local(),
            "{} for {arch} uses local memory: {:?}",
            kernel.name,
            kernel.instructions
        );
        assert_eq!(kernel.shared_bytes, 0, "{}: shared memory is dynamic", kernel.name);
    }
}

#[rstest]
fn ptxas_spills_nothing_and_has_nothing_to_say(#[values("sm_80", "sm_90a")] arch: &str) {
    let Some(ptxas) = assembler::ptxas() else { return };
    let (_, text) = SHIPPED_PTX.images().iter().find(|(name, _)| *name == arch).unwrap();
    let assembled = ptxas.assemble(text, arch.parse().unwrap()).unwrap();
    assert_eq!(assembled.warnings, [] as [String; 0], "{arch}");
    assert_eq!(assembled.kernels.len(), module(arch).kernels.len(), "{arch}: a report for each kernel");
    for (name, usage) in &assembled.kernels {
        assert_eq!((usage.spills(), usage.stack), (0, 0), "{name} for {arch} spills: {usage:?}");
        let bounds = function(arch, name).bounds;
        if bounds.min_blocks == Some(2) && bounds.threads == Some(256) {
            assert!(
                usage.registers <= 128,
                "{name}: two blocks of 256 threads share 65,536 registers: {usage:?}"
            );
        }
    }
}

#[test]
fn a_missing_ptxas_is_told_and_a_failure_where_it_is_required() {
    let empty = tempfile::TempDir::new().unwrap();
    // A test of this program, in a process of its own, which finds nothing but in the usual place of a toolkit.
    let test = |required: &str| {
        let mut test = std::process::Command::new(std::env::current_exe().unwrap());
        for variable in ["MOYE_PTXAS", "CUDA_PATH", "CUDA_HOME"] {
            test.env_remove(variable);
        }
        test.args(["--exact", "ptxas_spills_nothing_and_has_nothing_to_say::arch_1___sm_80__"])
            .current_dir(empty.path())
            .env("PATH", empty.path())
            .env("MOYE_REQUIRE_PTXAS", required);
        let output = test.output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(said.contains("running 1 test"), "{said}");
        (output.status.success(), said)
    };
    if Path::new("/usr/local/cuda/bin/ptxas").is_file() {
        return;
    }
    let (passed, said) = test("0");
    assert!(passed && said.contains("there is no ptxas"), "{said}");
    let (passed, said) = test("1");
    assert!(!passed && said.contains("MOYE_REQUIRE_PTXAS=1, but "), "{said}");
}

#[rstest]
fn the_copies_move_each_element_once(#[values("sm_80", "sm_90a")] arch: &str) {
    // A thread of 256 has 4 elements of a 32 x 32 tile.
    let copy = function(arch, "copy");
    assert_eq!(copy.count("ld.global"), 4, "{:?}", copy.instructions);
    assert_eq!(copy.count("st.shared"), 4, "{:?}", copy.instructions);
    assert_eq!(copy.count("ld.shared"), 4, "{:?}", copy.instructions);
    assert_eq!(copy.count("st.global"), 4, "{:?}", copy.instructions);
    let with_cp_async = function(arch, "copy_async");
    assert_eq!(with_cp_async.count("cp.async.ca.shared.global"), 4, "{:?}", with_cp_async.instructions);
    assert_eq!(
        with_cp_async.count("ld.global") + with_cp_async.count("st.shared"),
        0,
        "nothing goes through registers"
    );
    let transpose = function(arch, "transpose");
    assert_eq!(
        transpose.count("ld.global") + transpose.count("st.global"),
        8,
        "{:?}",
        transpose.instructions
    );
    for kernel in [copy, with_cp_async, transpose] {
        assert_eq!(kernel.count("bar.sync"), 1, "{}: one barrier between writing and reading", kernel.name);
    }
}

#[rstest]
fn the_matmuls_are_fma_over_fragments(
    #[values("sm_80", "sm_90a")] arch: &str,
    #[values("matmul_f32_nt", "matmul_f32_nn", "matmul_f32_tt", "matmul_f32_tn")] name: &str,
) {
    let kernel = function(arch, name);
    // 8 x 8 accumulators a thread, 8 steps along K in a tile, all unrolled; 16 elements read for 64 products.
    assert_eq!(kernel.count("fma.rn.f32"), 8 * 8 * 8, "{:?}", kernel.instructions);
    assert_eq!(kernel.count("ld.shared"), 8 * (8 + 8), "{:?}", kernel.instructions);
    assert_eq!(kernel.count("st.global"), 64, "{:?}", kernel.instructions);
    assert_eq!(kernel.count("cp.async.ca.shared.global"), 8, "4 elements of A and 4 of B a thread and tile");
    assert_eq!(kernel.count("cp.async.wait_group"), 1, "{:?}", kernel.instructions);
    assert_eq!(kernel.count("bar.sync"), 2, "{:?}", kernel.instructions);
    assert_eq!(kernel.count("mul.rn.f32") + kernel.count("add.rn.f32"), 0, "products and sums are fused");
}

#[rstest]
fn the_matmuls_on_tensor_cores_are_mma_over_fragments(
    #[values("sm_80", "sm_90a")] arch: &str,
    #[values(("matmul_f16_tn", "f16"), ("matmul_bf16_tn", "bf16"))] (name, t): (&str, &str),
) {
    let kernel = function(arch, name);
    let mma = format!("mma.sync.aligned.m16n8k16.row.col.f32.{t}.{t}.f32");
    // A warp has 64 x 64 of the tile, 4 x 8 atoms, in 4 steps along K for whole tiles; at an edge one step after the other.
    assert_eq!(kernel.count(&mma), (4 + 1) * 4 * 8, "{:?}", kernel.instructions);
    // 4 for A and 4 for B a step, and the first step ahead of the loop over whole tiles.
    assert_eq!(kernel.count("ldmatrix.sync.aligned.m8n8.x4.shared.b16"), (4 + 1 + 1) * 8);
    // 8 of A and 4 of B a thread and tile: two tiles ahead, and in both loops.
    assert_eq!(kernel.count("cp.async.cg.shared.global"), 12 * (2 + 2), "{:?}", kernel.instructions);
    // C goes out by rows of 16 bytes a thread, one after the other, in f16 or bf16 and in f32.
    assert_eq!(kernel.count("st.global.v4.b32"), 2, "{:?}", kernel.instructions);
}

#[rstest]
#[case("sgemm_nt", (16, 8, 8), (5, 3))]
#[case("sgemm_nt_128x128", (8, 8, 16), (3, 4))]
fn the_f32_products_are_fma_over_words_of_16_bytes(
    #[values("sm_80", "sm_90a")] arch: &str,
    #[case] name: &str,
    #[case] (sums_m, sums_n, steps): (usize, usize, usize),
    #[case] (stages, copies): (usize, usize),
) {
    let kernel = function(arch, name);
    // All steps of a whole tile; at an edge one after the other.
    let alpha = sums_m * sums_n;
    assert_eq!(kernel.count(FMA), (steps + 1) * sums_m * sums_n + alpha, "{:?}", kernel.instructions);
    assert_eq!(kernel.count("ld.shared.v4.b32"), (steps + 1 + 1) * (sums_m + sums_n) / 4);
    assert_eq!(
        kernel.count("cp.async.cg.shared.global"),
        copies * (stages - 1 + 2),
        "{:?}",
        kernel.instructions
    );
    assert_eq!(kernel.count("st.global.v4.b32"), sums_m * sums_n / 4, "{:?}", kernel.instructions);
}

#[rstest]
fn lines_are_copied_by_words_of_16_bytes(#[values("sm_80", "sm_90a")] arch: &str) {
    let kernel = function(arch, "copy_lines");
    // Whole tiles and those at an edge.
    assert_eq!(kernel.count("ld.global.v4.b32"), 2 * 8, "{:?}", kernel.instructions);
    assert_eq!(kernel.count("st.global.v4.b32"), 2 * 8, "{:?}", kernel.instructions);
    assert_eq!(kernel.count("ld.shared") + kernel.count("st.shared") + kernel.count("ld.local"), 0);
}

#[rstest]
fn transposes_move_each_element_once_through_shared_memory(
    #[values("sm_80", "sm_90a")] arch: &str,
    #[values(("transpose_u8", 16), ("transpose_u16", 16), ("transpose_u32", 16), ("transpose_u64", 16), ("transpose_u128", 4))]
    (name, elements): (&str, usize),
) {
    let kernel = function(arch, name);
    for instruction in ["ld.global", "st.shared", "ld.shared", "st.global"] {
        assert_eq!(kernel.count(instruction), 2 * elements, "{instruction}: {:?}", kernel.instructions);
    }
    assert_eq!(
        kernel.count("bar.sync"),
        2,
        "one between writing and reading, in tiles that are whole and in others"
    );
}

/// What products are made of is launched to begin while the kernel in front still runs, where GPUs have that: what that one
/// writes is not to be touched in front of the wait.
#[test]
fn whatever_may_begin_early_waits_before_it_touches_memory() {
    const FAMILIES: [&str; 8] =
        ["matmul_f16", "matmul_bf16", "matmul_tf32", "matmul_s8", "matmul_f64", "sgemm", "wgmma", "finish"];
    let (_, text) = SHIPPED_PTX.images().iter().find(|(name, _)| *name == "sm_90a").unwrap();
    for family in FAMILIES {
        let mut seen = 0;
        for kernel in module("sm_90a").kernels.iter().filter(|kernel| kernel.name.starts_with(family)) {
            let body = kernel_text(text, &kernel.name);
            let wait =
                body.find("griddepcontrol.wait").unwrap_or_else(|| panic!("{} does not wait", kernel.name));
            let early = body[..wait].lines().find(|line| touches_memory(line));
            assert_eq!(early, None, "{} in front of the wait", kernel.name);
            assert!(body[wait..].lines().any(touches_memory), "{} does something", kernel.name);
            seen += 1;
        }
        assert!(seen > 0, "there are kernels of {family}");
        for kernel in module("sm_80").kernels.iter().filter(|kernel| kernel.name.starts_with(family)) {
            assert_eq!(kernel.count("griddepcontrol"), 0, "{}: sm_80 has no such launches", kernel.name);
        }
    }
}

/// Whether a line of PTX is an instruction that reads or writes memory which other kernels see.
fn touches_memory(line: &str) -> bool {
    let line = line.trim_start();
    // Behind a predicate, `@%p1`.
    let instruction = match line.strip_prefix('@') {
        Some(guarded) => guarded.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim_start()),
        None => line,
    };
    let is = |start| instruction.starts_with(start);
    is("cp.async") || is("red.") || is("atom.") || instruction.contains(".global") && !is(".") && !is("cvta")
}

/// Whether `ldmatrix` transposes what it reads of A and of B: where M or N is contiguous.
const ORDERS: [(&str, bool, bool); 4] =
    [("tn", false, false), ("nt", true, true), ("nn", true, false), ("tt", false, true)];

#[test]
fn every_product_on_hopper_has_its_instruction_for_each_step_and_what_feeds_it() {
    let half = |t: &str, n: u32| format!("wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{t}.{t}");
    let mut family = vec![
        (
            "wgmma_tf32_tn".to_owned(),
            "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32".to_owned(),
            [1, 1],
        ),
        (
            "wgmma_e4m3_tn".to_owned(),
            "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3".to_owned(),
            [1, 1],
        ),
        (
            "wgmma_e5m2_tn".to_owned(),
            "wgmma.mma_async.sync.aligned.m64n256k32.f32.e5m2.e5m2".to_owned(),
            [1, 1],
        ),
        ("wgmma_s8_tn".to_owned(), "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8".to_owned(), [1, 1]),
    ];
    for t in ["f16", "bf16"] {
        for (order, a, b) in ORDERS {
            // 64 elements along M or N a box, where these are contiguous; a block of a pair brings half of B's 256.
            let boxes = [if a { 2 } else { 1 }, if b { 2 } else { 1 }];
            family.push((format!("wgmma_{t}_{order}"), half(t, 256), boxes));
            family.push((format!("wgmma_{t}_{order}_128x128"), half(t, 128), boxes));
        }
        family.push((format!("wgmma_{t}_tn_64x256"), half(t, 256), [1, 1]));
    }
    for (name, instruction, boxes) in &family {
        let kernel = function("sm_90a", name);
        assert_eq!(kernel.count(instruction), 4, "128 bytes of K: {name}: {:?}", kernel.instructions);
        assert_eq!(kernel.count("wgmma.mma_async"), 4, "{name} has no other: {:?}", kernel.instructions);
        let loads = kernel.count("cp.async.bulk.tensor.3d.shared");
        let of_stage: usize = boxes.iter().sum();
        assert!(
            loads > 0 && loads.is_multiple_of(of_stage),
            "{name} loads {of_stage} boxes a stage, in a loop that may be unrolled: {:?}",
            kernel.instructions
        );
        // Of pairs of blocks, what is loaded of B goes to both.
        let pairs = !name.ends_with("_128x128");
        let to_both = if pairs { loads / of_stage * boxes[1] } else { 0 };
        assert_eq!(kernel.count(MULTICAST), to_both, "{name}: {:?}", kernel.instructions);
        assert_eq!(kernel.count("barrier.cluster.arrive"), usize::from(pairs), "{name}");
        // Pieces of shared tiles: a word of 16 bytes for four sums, left once and taken from the other or from all. Warpgroups that
        // have whole tiles in turn share none, and one gives the turn to the other.
        let ping_pong = name.ends_with("_64x256");
        let words = match (ping_pong, pairs) {
            (true, _) => 0,
            (_, true) => 32,
            (_, false) => 16,
        };
        assert!(kernel.count("st.global.v4.b32") >= words, "{name}: {:?}", kernel.instructions);
        assert!(kernel.count("ld.global.v4.b32") >= 2 * words, "{name}: {:?}", kernel.instructions);
        let (fences, turns) = if ping_pong { (0, 1) } else { (3, 0) };
        for (what, count) in
            [("setmaxnreg", 2), ("griddepcontrol", 2), ("fence.acq_rel.gpu", fences), ("bar.arrive", turns)]
        {
            assert_eq!(kernel.count(what), count, "{what}: {name}: {:?}", kernel.instructions);
        }
        assert!(kernel.count("cp.async.bulk.tensor.3d.global") > 0, "{name}: {:?}", kernel.instructions);
    }
    let shipped = module("sm_90a").kernels.iter().filter(|kernel| kernel.name.starts_with("wgmma")).count();
    assert_eq!(shipped, family.len() + kernels_of_parts().len(), "the kernels of this family");
    assert!(module("sm_80").kernels.iter().all(|kernel| !kernel.name.starts_with("wgmma")), "sm_80 has none");
}

/// The kernels whose clusters share K: name, instruction, boxes of A and B of a stage, and chunks of 64 columns of a tile.
fn kernels_of_parts() -> Vec<(String, String, usize, usize)> {
    let mut kernels = Vec::new();
    for t in ["f16", "bf16"] {
        // N contiguous in B has a box for each 64 of it.
        for (order, contiguous) in [("tn", false), ("tt", true)] {
            for (rows, columns) in [(64, 128), (128, 64)] {
                let boxes = 1 + if contiguous { columns / 64 } else { 1 };
                let instruction = format!("wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{t}.{t}");
                kernels.push((
                    format!("wgmma_{t}_{order}_{rows}x{columns}"),
                    instruction,
                    boxes,
                    columns / 64,
                ));
            }
        }
    }
    kernels
}

#[test]
fn kernels_whose_clusters_share_k_read_the_sums_of_all_four_blocks() {
    for (name, instruction, boxes, chunks) in kernels_of_parts() {
        let kernel = function("sm_90a", &name);
        let products = kernel.count("wgmma.mma_async");
        assert!(
            products > 0 && products.is_multiple_of(4),
            "128 bytes of K: {name}: {:?}",
            kernel.instructions
        );
        assert_eq!(kernel.count(&instruction), products, "{name} has no other: {:?}", kernel.instructions);
        let loads = kernel.count("cp.async.bulk.tensor.3d.shared");
        assert!(loads > 0 && loads.is_multiple_of(boxes), "{name}: {:?}", kernel.instructions);
        assert_eq!(kernel.count(MULTICAST), 0, "{name}: {:?}", kernel.instructions);
        // Of the two barriers, those who load and those who multiply may arrive by an instruction each.
        assert!(kernel.count("barrier.cluster.arrive") >= 2, "{name}: {:?}", kernel.instructions);
        // A block adds up 16 of 64 rows: of each chunk two words of 16 bytes a thread, of four blocks.
        assert_eq!(
            kernel.count("ld.shared::cluster.v4.b32"),
            2 * 4 * chunks,
            "{name}: {:?}",
            kernel.instructions
        );
        for (what, count) in [("barrier.cluster.wait", 2), ("griddepcontrol", 2), ("setmaxnreg", 0)] {
            assert_eq!(kernel.count(what), count, "{what}: {name}: {:?}", kernel.instructions);
        }
    }
}

/// A scale for each column is as many loads as a thread has columns; no other kernel has any of it.
#[test]
fn scales_are_read_by_the_kernels_of_8_bit_floats_alone() {
    let loads = |name| function("sm_90a", name).count("ld.global");
    let plain = loads("wgmma_bf16_tn");
    // For one column of 64, for two rows, for all.
    for name in ["wgmma_e4m3_tn", "wgmma_e5m2_tn"] {
        assert_eq!(loads(name), plain + 64 + 2 + 1, "{name}");
    }
}

#[rstest]
fn every_product_on_tensor_cores_has_its_instruction_for_each_atom_and_step(
    #[values("sm_80", "sm_90a")] arch: &str,
) {
    let half = |t: &str, sum: &str| format!("mma.sync.aligned.m16n8k16.row.col.{sum}.{t}.{t}.{sum}");
    let mut family = vec![
        ("matmul_f16_acc_tn".to_owned(), half("f16", "f16"), 32, None),
        ("matmul_f16_acc_tn_64x64".to_owned(), half("f16", "f16"), 8, None),
        ("matmul_tf32_tn".to_owned(), TF32.to_owned(), 32, None),
        ("matmul_tf32_tn_64x64".to_owned(), TF32.to_owned(), 8, None),
    ];
    for (name, atoms) in [("matmul_s8_tn", 32), ("matmul_s8_tn_64x64", 8)] {
        family.push((
            name.to_owned(),
            "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32".to_owned(),
            atoms,
            None,
        ));
    }
    family.push((
        "matmul_f64_tn".to_owned(),
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64".to_owned(),
        16,
        None,
    ));
    for t in ["f16", "bf16"] {
        for (order, a, b) in ORDERS {
            family.push((format!("matmul_{t}_{order}"), half(t, "f32"), 32, Some((4, a, 4, b))));
            family.push((format!("matmul_{t}_{order}_64x64"), half(t, "f32"), 8, Some((2, a, 2, b))));
        }
    }
    for (name, mma, atoms, reads) in &family {
        let kernel = function(arch, name);
        // Four steps along K of a whole tile; at an edge one after the other.
        assert_eq!(kernel.count(mma), (4 + 1) * atoms, "{name}: {:?}", kernel.instructions);
        assert_eq!(kernel.count("mma"), kernel.count(mma), "{name} has no other: {:?}", kernel.instructions);
        assert!(kernel.count("cp.async.cg.shared.global") > 0, "{name}: {:?}", kernel.instructions);
        let Some((of_a, a, of_b, b)) = *reads else { continue };
        let transposed = if a { of_a } else { 0 } + if b { of_b } else { 0 };
        // And the first step ahead of the loop over whole tiles.
        let count = |trans| {
            kernel.count_where(|name| name.starts_with("ldmatrix") && name.contains(".trans") == trans)
        };
        assert_eq!(
            (count(true), count(false)),
            (6 * transposed, 6 * (of_a + of_b - transposed)),
            "{name}: {:?}",
            kernel.instructions
        );
    }
    for kernel in &module(arch).kernels {
        assert!(
            family.iter().any(|(name, ..)| *name == kernel.name)
                || OTHERS.contains(&kernel.name.as_str())
                // Of these the tests of their own tables count how many there are.
                || ["ladder_", "wgmma_"].iter().any(|table| kernel.name.starts_with(table)),
            "{} is in no table: a test of its instructions belongs beside it",
            kernel.name
        );
    }
}

/// The kernels that other tests on this page are about.
#[rustfmt::skip]
const OTHERS: &[&str] = &[
    "copy", "copy_async", "copy_lines",
    "transpose", "transpose_u8", "transpose_u16", "transpose_u32", "transpose_u64", "transpose_u128",
    "pack_u8", "pack_u16", "pack_u32", "pack_u64", "pack_u128", "realign",
    "finish_f16", "finish_bf16", "finish_f32", "finish_f64", "finish_i32",
    "matmul_f32_nn", "matmul_f32_nt", "matmul_f32_tn", "matmul_f32_tt",
    "sgemm_nt", "sgemm_nt_128x128", "sgemm_tn_128x128", "sgemm_nn_128x128", "sgemm_tt_128x128",
];

/// Four results of a thread: sums are read by words of 16 bytes, in the loop over the parts, and written as one access or two.
#[rstest]
#[case("finish_f16", 2, ("st.global.v2.b32", 1), "cvt.rn.f16.f32")]
#[case("finish_bf16", 2, ("st.global.v2.b32", 1), "cvt.rn.bf16.f32")]
#[case("finish_f32", 3, ("st.global.v4.b32", 1), "add.rn.f32")]
#[case("finish_f64", 6, ("st.global.v4.b32", 2), "add.rn.f64")]
#[case("finish_i32", 7, ("st.global.v4.b32", 1), "add.s32")]
fn parts_of_k_are_added_up_by_words_of_16_bytes(
    #[values("sm_80", "sm_90a")] arch: &str,
    #[case] name: &str,
    #[case] loads: usize,
    #[case] (store, stores): (&str, usize),
    #[case] adds: &str,
) {
    let kernel = function(arch, name);
    assert_eq!(kernel.count("ld.global.v4.b32"), loads, "{name}: {:?}", kernel.instructions);
    assert_eq!(kernel.count(store), stores, "{name}: {:?}", kernel.instructions);
    assert!(kernel.count(adds) >= 4, "{name}: {:?}", kernel.instructions);
}

#[rstest]
fn operands_with_k_contiguous_are_copied_number_by_number_by_the_f32_products(
    #[values("sm_80", "sm_90a")] arch: &str,
    #[values(("sgemm_nn_128x128", 1), ("sgemm_tt_128x128", 1), ("sgemm_tn_128x128", 2))] (name, operands): (
        &str,
        usize,
    ),
) {
    let kernel = function(arch, name);
    // Two stages ahead, and in both loops: 8 numbers of 4 bytes, or 2 words of 16.
    assert_eq!(
        kernel.count("cp.async.ca.shared.global"),
        operands * 8 * (2 + 2),
        "{:?}",
        kernel.instructions
    );
    assert_eq!(
        kernel.count("cp.async.cg.shared.global"),
        (2 - operands) * 2 * (2 + 2),
        "{:?}",
        kernel.instructions
    );
    assert_eq!(kernel.count(FMA), (16 + 1 + 1) * 64, "{:?}", kernel.instructions);
}

#[rstest]
fn what_is_packed_goes_through_shared_memory_only_where_it_turns_round(
    #[values("sm_80", "sm_90a")] arch: &str,
    #[values("pack_u8", "pack_u16", "pack_u32", "pack_u64", "pack_u128")] name: &str,
) {
    let kernel = function(arch, name);
    // 64 x 64 elements of 256 threads, straight and by shared memory.
    assert_eq!(kernel.count("ld.global"), 2 * 16, "{:?}", kernel.instructions);
    assert_eq!(kernel.count("st.global"), 2 * 16, "{:?}", kernel.instructions);
    assert_eq!([kernel.count("st.shared"), kernel.count("ld.shared"), kernel.count("bar.sync")], [16, 16, 1]);
}

/// Eight words of 4 bytes at a time, each cut out of two by one `prmt` or shift of 64 bits, and the rest of the line by bytes.
#[rstest]
fn lines_are_realigned_by_words(#[values("sm_80", "sm_90a")] arch: &str) {
    let kernel = function(arch, "realign");
    assert_eq!(kernel.count("ld.global.b32"), 16, "{:?}", kernel.instructions);
    assert_eq!(kernel.count("st.global.b32"), 8, "{:?}", kernel.instructions);
    assert_eq!(
        [kernel.count("ld.global.u8"), kernel.count("st.global.u8")],
        [1, 1],
        "{:?}",
        kernel.instructions
    );
}

const FMA: &str = "fma.rn.f32";
const MULTICAST: &str =
    "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster";
const TF32: &str = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32";
const LDMATRIX_X2: &str = "ldmatrix.sync.aligned.m8n8.x2.shared.b16";
const LDMATRIX_X4: &str = "ldmatrix.sync.aligned.m8n8.x4.shared.b16";
const CP_ASYNC: &str = "cp.async.ca.shared.global";

/// The steps of the ladder: instructions with their counts.
const LADDER: &[(&str, &[(&str, usize)])] = &[
    // A thread of 256 has 64 sums over 8 elements along K. 4 of A and 4 of B a thread and tile, ahead of the loop and in it;
    // 4 + 16 operands for 64 products.
    (
        "ladder_tiled",
        &[(FMA, 512), ("ld.global.b32", 16), ("st.shared.b32", 8), ("ld.shared.b32", 160), ("bar.sync", 2)],
    ),
    // Half of that, by pairs; single elements only where an edge runs through a pair.
    (
        "ladder_vectorized_64",
        &[(FMA, 512), ("ld.global.b64", 8), ("st.shared.b64", 4), ("st.shared", 4), ("ld.shared.b32", 160)],
    ),
    // A quarter, by fours.
    (
        "ladder_vectorized_128",
        &[
            (FMA, 512),
            ("ld.global.v4.b32", 4),
            ("st.shared.v4.b32", 2),
            ("st.shared", 2),
            ("ld.shared.b32", 160),
        ],
    ),
    // 2 + 2 copies of 8 bytes, ahead and in the loop, through no register; 8 + 8 operands for 64 products.
    (
        "ladder_overlapped",
        &[
            (FMA, 512),
            (CP_ASYNC, 8),
            ("ld.global", 0),
            ("st.shared", 0),
            ("ld.shared.b32", 128),
            ("cp.async.wait_group", 2),
            ("bar.sync", 2),
        ],
    ),
    // Two tiles ahead and one in the loop, 2 + 2 copies each; one barrier ahead, one a tile; the operands of a tile's first
    // step, 4 + 16, once ahead and once in the loop.
    (
        "ladder_double_buffered",
        &[
            (FMA, 512),
            (CP_ASYNC, 3 * 4),
            ("ld.global", 0),
            ("ld.shared.b32", 160 + 20),
            ("cp.async.wait_group", 3),
            ("bar.sync", 2),
        ],
    ),
    ("ladder_tf32_tile", &[(TF32, 1), ("ld.shared.b32", 4 + 2), (CP_ASYNC, 4), (FMA, 0)]),
    (
        "ladder_tf32_ldmatrix",
        &[(TF32, 1), (LDMATRIX_X4, 1), (LDMATRIX_X2, 1), ("ld.shared", 0), (CP_ASYNC, 4)],
    ),
    // A warp has 64 x 64, 4 x 8 atoms, in 2 steps; 4 + 4 copies of 16 bytes a tile; fragments of 2 steps, of
    // the first once more ahead.
    (
        "ladder_tf32_nn",
        &[(TF32, 64), (LDMATRIX_X4, 3 * 4), ("ld.shared.b32", 3 * 16), (CP_ASYNC, 3 * 8), ("bar.sync", 2)],
    ),
    (
        "ladder_tf32_tn",
        &[(TF32, 64), (LDMATRIX_X4, 3 * (4 + 4)), ("ld.shared", 0), (CP_ASYNC, 3 * 8), ("bar.sync", 2)],
    ),
];

#[rstest]
fn the_steps_of_the_ladder_have_the_instructions_that_they_exist_for(
    #[values("sm_80", "sm_90a")] arch: &str,
) {
    for (name, counts) in LADDER {
        let kernel = function(arch, name);
        for &(instruction, count) in *counts {
            assert_eq!(
                kernel.count(instruction),
                count,
                "{instruction} of {name}: {:?}",
                kernel.instructions
            );
        }
    }
    let steps = module(arch).kernels.iter().filter(|kernel| kernel.name.starts_with("ladder_")).count();
    assert_eq!(steps, LADDER.len(), "every step is in the table");
}

/// `16x32 4x128`: how many accesses there are of how many bits, in any order.
fn accesses(cell: &str) -> BTreeMap<usize, usize> {
    let number = |text: &str| text.parse::<usize>().unwrap();
    cell.split(' ')
        .filter_map(|part| part.split_once('x'))
        .map(|(n, bits)| (number(bits), number(n)))
        .collect()
}

#[rstest]
fn the_guide_to_the_ladder_has_the_numbers_of_the_ptx(#[values("sm_80", "sm_90a")] arch: &str) {
    let guide = include_str!("../docs/guide/ladder.md");
    let head = "| kernel | registers | threads | shared | ld.global | st.shared | ld.shared | ldmatrix | cp.async | fma | mma | bar | st.global | all |";
    let table = guide.split(head).nth(1).expect("the guide has a table of the PTX");
    let rows: Vec<_> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), LADDER.len(), "a row for each step");
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [
            name,
            _,
            threads,
            shared,
            ld_global,
            st_shared,
            ld_shared,
            ldmatrix,
            cp_async,
            fma,
            mma,
            bar,
            st_global,
            all,
        ] = cells[..]
        else {
            panic!("{row}")
        };
        let kernel = function(arch, name.trim_matches('`'));
        let report = KernelReport { ptx: kernel.clone(), usage: None };
        let number = |cell: &str| cell.parse::<usize>().unwrap();
        assert_eq!(kernel.bounds.threads, Some(number(threads) as u32), "{row}");
        assert_eq!(kernel.bounds.shared, Some(number(shared) as u32), "{row}");
        for (instruction, cell) in [
            ("ld.global", ld_global),
            ("st.shared", st_shared),
            ("ld.shared", ld_shared),
            ("st.global", st_global),
        ] {
            assert_eq!(report.widths(instruction), accesses(cell), "{instruction}: {row}");
        }
        let copies = kernel.count_where(|name| name.starts_with("cp.async") && name.contains(".shared"));
        let counts = [
            kernel.count("ldmatrix"),
            copies,
            kernel.count("fma"),
            kernel.count("mma"),
            kernel.count("bar"),
            kernel.len(),
        ];
        assert_eq!(counts, [ldmatrix, cp_async, fma, mma, bar, all].map(number), "{row}");
    }
}

#[test]
fn launch_bounds_are_in_the_ptx() {
    for (arch, text) in SHIPPED_PTX.images() {
        let start = text.find(".entry matmul_f32_nt(").unwrap();
        let head = &text[start..start + text[start..].find('{').unwrap()];
        assert!(head.contains(".maxntid 256"), "{arch}: {head}");
        assert!(head.contains(".minnctapersm 2"), "{arch}: {head}");
    }
}

#[test]
fn the_driver_agrees() {
    let Some(device) = gpu() else { return };
    fn check<P: Params>(device: &Device, kernel: &Kernel<P>) {
        let attributes = device.load(&SHIPPED_PTX).unwrap().attributes(kernel).unwrap().unwrap();
        assert_eq!(attributes.local_bytes, 0, "{} uses local memory: {attributes:?}", kernel.name());
        let threads = kernel.bounds().threads.unwrap();
        assert!(attributes.max_threads >= threads, "{}: {attributes:?}", kernel.name());
    }
    check(&device, &kernels::copy);
    check(&device, &kernels::copy_async);
    check(&device, &kernels::transpose);
    check(&device, &kernels::matmul_f32_nt);
    check(&device, &kernels::matmul_f32_nn);
    check(&device, &kernels::matmul_f32_tt);
    check(&device, &kernels::matmul_f32_tn);
    check(&device, &kernels::copy_lines);
    check(&device, &kernels::transpose_u32);
    check(&device, &kernels::transpose_u128);
    check(&device, &kernels::mma::matmul_f16_tn);
    check(&device, &kernels::mma::matmul_bf16_tn);
    check(&device, &kernels::mma::matmul_tf32_tn);
    check(&device, &kernels::mma::matmul_s8_tn);
    check(&device, &kernels::mma::matmul_f64_tn);
    check(&device, &kernels::mma::sgemm_nt);
    check(&device, &kernels::mma::sgemm_tn_128x128);
    for step in [
        kernels::ladder::ladder_tiled,
        kernels::ladder::ladder_vectorized_64,
        kernels::ladder::ladder_vectorized_128,
        kernels::ladder::ladder_overlapped,
        kernels::ladder::ladder_double_buffered,
        kernels::ladder::ladder_tf32_tile,
        kernels::ladder::ladder_tf32_ldmatrix,
        kernels::ladder::ladder_tf32_nn,
        kernels::ladder::ladder_tf32_tn,
    ] {
        check(&device, &step);
    }
}
