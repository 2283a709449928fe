//! Products with multiply-adds and with `mma.sync`: their instructions for each step, and the loads
//! of their operands.

use super::{FMA, ORDERS, TF32, function, kernel_text, module, names, text};
use rstest::rstest;
use std::collections::{BTreeMap, BTreeSet};

#[rstest]
fn the_matmuls_are_fma_over_fragments(
    #[values("sm_80", "sm_90a")] arch: &str,
    #[values("matmul_f32_nt", "matmul_f32_nn", "matmul_f32_tt", "matmul_f32_tn")] name: &str,
) {
    let kernel = function(arch, name);
    // 8 x 8 accumulators for each thread, 8 steps along K in a tile, all unrolled; 16 elements are
    // read for 64 products.
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
    #[values(("matmul_f16_tn", "f16"), ("matmul_bf16_tn", "bf16"))] (name, t): (&str, &str),
) {
    let kernel = function("sm_80", name);
    let mma = format!("mma.sync.aligned.m16n8k16.row.col.f32.{t}.{t}.f32");
    // A warp computes 64 x 64 of the tile, 4 x 8 atoms, in 4 steps along K for whole tiles; at an
    // edge one step at a time.
    assert_eq!(kernel.count(&mma), (4 + 1) * 4 * 8, "{:?}", kernel.instructions);
    // 4 for A and 4 for B in each step, and the first step before the loop over whole tiles.
    assert_eq!(kernel.count("ldmatrix.sync.aligned.m8n8.x4.shared.b16"), (4 + 1 + 1) * 8);
    // 8 of A and 4 of B for each thread and tile: two tiles before the loops, and one in each.
    assert_eq!(kernel.count("cp.async.cg.shared.global"), 12 * (2 + 2), "{:?}", kernel.instructions);
    // C is stored in rows of 16 bytes for each thread, one after another, in f16 or bf16 and in
    // f32.
    assert_eq!(kernel.count("st.global.v4.b32"), 2, "{:?}", kernel.instructions);
}

#[rstest]
#[case("sgemm_nt", (16, 8, 16), (3, 6), 2, 4)]
#[case("sgemm_nt_128x128", (8, 8, 16), (3, 4), 0, 0)]
fn the_f32_products_are_fma_over_words_of_16_bytes(
    #[values("sm_80", "sm_90a")] arch: &str,
    #[case] name: &str,
    #[case] (sums_m, sums_n, steps): (usize, usize, usize),
    #[case] (stages, copies): (usize, usize),
    #[case] parts: usize,
    #[case] last: usize,
) {
    let kernel = function(arch, name);
    // All steps of a whole tile; at an edge one at a time; and those of a last tile that its loop
    // has unrolled, see `by_parts.rs`. A last tile has separate products by alpha.
    let sums = sums_m * sums_n;
    let by_alpha = if parts > 0 { 2 } else { 1 };
    assert_eq!(kernel.count(FMA), (steps + 1 + last + by_alpha) * sums, "{:?}", kernel.instructions);
    // The operand that the parts along N share is read for each of them.
    assert_eq!(
        kernel.count("ld.shared.v4.b32"),
        (steps + 1 + 1) * (sums_m + sums_n) / 4 + last * (parts * sums_m + sums_n) / 4
    );
    assert_eq!(
        kernel.count("cp.async.cg.shared.global"),
        copies * (stages - 1 + 2),
        "{:?}",
        kernel.instructions
    );
    // The stores of a whole tile, of one that crosses an edge, and of one written by parts.
    assert_eq!(kernel.count("st.global.v4.b32"), (1 + by_alpha) * sums / 4, "{:?}", kernel.instructions);
}

#[rstest]
fn operands_with_k_contiguous_are_transposed_in_registers_by_the_f32_products_of_large_tiles(
    #[values("sm_80", "sm_90a")] arch: &str,
    #[values(("sgemm_nn", 4, 8), ("sgemm_tt", 2, 4))] (name, parts, last): (&str, usize, usize),
) {
    let kernel = function(arch, name);
    let (sums, steps) = (16 * 8, 16);
    assert_eq!(kernel.count(FMA), (steps + 1 + last + 2) * sums, "{:?}", kernel.instructions);
    // The last tile's parts divide the longer side and share the other.
    assert_eq!(
        kernel.count("ld.shared.v4.b32"),
        (steps + 1 + 1) * (16 + 8) / 4 + last * (16 + parts * 8) / 4
    );
    // The other operand: two stages before the loops, and one in each.
    assert_eq!(kernel.count("cp.async.cg.shared.global"), 4 * (2 + 2), "{:?}", kernel.instructions);
    assert_eq!(kernel.count("cp.async.ca.shared.global"), 0, "{:?}", kernel.instructions);
    // Pairs along K of four rows: three tiles before the loops, whole or not, and one in each.
    assert_eq!(kernel.count("ld.global.b64"), 4 * (2 * 3 + 2), "{:?}", kernel.instructions);
    // Four elements along M or N of two columns. Nothing else is written to shared memory.
    assert_eq!(kernel.count("st.shared.v4.b32"), 2 * (2 * 2 + 2), "{:?}", kernel.instructions);
    assert_eq!(kernel.count("st.shared"), 2 * (2 * 2 + 2), "{:?}", kernel.instructions);
    assert_eq!(kernel.count("st.global.v4.b32"), 3 * sums / 4, "{:?}", kernel.instructions);
}

/// The kernels with TMA loads: the consumer warps copy nothing, and operands that producer warps
/// transpose pass through shared memory in 16-byte vectors.
#[rstest]
#[case("sgemm_nt_tma", 6, 0, 16, (56, 224))]
#[case("sgemm_nn_tma", 3, 1, 8, (72, 216))]
#[case("sgemm_tn_tma", 4, 3, 8, (72, 216))]
fn producer_warps_load_and_transpose_beside_the_consumers(
    #[case] name: &str,
    #[case] boxes: usize,
    #[case] turned: usize,
    #[case] last: usize,
    #[case] (few, many): (usize, usize),
) {
    let kernel = function("sm_90a", name);
    // One loop over all K tiles except the last, then the last step of the previous tile, the last
    // tile, and the factor of each accumulator.
    let (sums, steps, parts) = (16 * 8, 16, 4);
    assert_eq!(kernel.count(FMA), (steps + 2 + last) * sums, "{:?}", kernel.instructions);
    // Words of four rows and four elements along K, 128 rows at a time.
    let words = steps * (16 + 8) / 4 + last * (16 + parts * 8) / 4 + 4 * turned;
    assert_eq!(kernel.count("ld.shared.v4.b32"), words, "{:?}", kernel.instructions);
    assert_eq!(kernel.count("st.shared.v4.b32"), 4 * turned, "{:?}", kernel.instructions);
    assert_eq!(kernel.count("st.shared"), 4 * turned, "{:?}", kernel.instructions);
    let loads = kernel.count_where(|name| name.starts_with("cp.async.bulk.tensor.3d.shared::cluster.global"));
    assert_eq!(loads, boxes, "{:?}", kernel.instructions);
    assert_eq!(kernel.count("ld.global"), 0, "{:?}", kernel.instructions);
    let text = kernel_text(text("sm_90a"), name);
    for registers in [
        format!("setmaxnreg.dec.sync.aligned.u32 {few};"),
        format!("setmaxnreg.inc.sync.aligned.u32 {many};"),
    ] {
        assert_eq!(text.matches(&registers).count(), 1, "{registers}");
    }
}

/// An arrival may overtake a load in flight unless its address depends on the loaded value: the
/// producer would overwrite the stage before it is read.
#[rstest]
fn a_release_depends_on_the_last_loads_of_its_stage(
    #[values("sgemm_nt_tma", "sgemm_nn_tma", "sgemm_tn_tma")] name: &str,
) {
    let text = kernel_text(text("sm_90a"), name);
    let lines: Vec<&str> = text.lines().collect();
    // A producer's arrivals announce bytes; warps that transpose an operand arrive after they have
    // stored the loaded elements.
    let is_release = |line: &&str| line.contains("mbarrier.arrive") && !line.contains("expect_tx");
    let behind_loads: Vec<(usize, BTreeSet<usize>)> = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| is_release(line))
        .map(|(at, line)| (at, loads_of(text, address_of(line))))
        .filter(|(_, loads)| !loads.is_empty())
        .collect();
    let [(release, loads)] = behind_loads.as_slice() else {
        panic!("one release depends on loads: {behind_loads:?}")
    };
    // The 16 steps of a stage load 16 rows of A and 8 of B each, four in a vector, after the
    // release of the previous stage. The last step's loads are the last.
    let of_stage: Vec<usize> = (*release..lines.len())
        .filter(|&at| lines[at].trim_start().starts_with("ld.shared.v4.b32"))
        .take(16 * (16 + 8) / 4)
        .collect();
    let last: BTreeSet<usize> = of_stage.iter().rev().take((16 + 8) / 4).copied().collect();
    assert_eq!(*loads, last, "{}", lines[*release]);
    // The same PTX without the instruction that masks the loaded values.
    let masks: Vec<usize> = masks_of(text, address_of(lines[*release])).into_keys().collect();
    let [mask] = masks[..] else { panic!("one instruction masks what was loaded: {masks:?}") };
    let without: String =
        lines.iter().enumerate().filter(|(at, _)| *at != mask).map(|(_, line)| format!("{line}\n")).collect();
    assert_eq!(loads_of(&without, address_of(lines[*release])), BTreeSet::new());
}

/// The register of an instruction's address.
fn address_of(line: &str) -> &str {
    line.split(['[', ']', '+']).nth(1).expect("the instruction has an address")
}

/// The lines of the shared-memory loads from whose results a register holds masked bits.
fn loads_of(text: &str, register: &str) -> BTreeSet<usize> {
    masks_of(text, register).into_values().flatten().collect()
}

/// The lines that mask loaded values for a register, each with the lines of the loads. Elsewhere
/// the compiler may reuse a register for a loaded value and another one.
fn masks_of(text: &str, register: &str) -> BTreeMap<usize, BTreeSet<usize>> {
    let (lines, made_by) = made_of(text, register);
    let loads_of = |at: usize| -> Option<BTreeSet<usize>> {
        let written = lines[at].trim_start().strip_prefix("and.b32")?.split(',').next()?.trim();
        let (_, made_by) = made_of(text, written);
        let loads: BTreeSet<usize> =
            made_by.into_iter().filter(|&at| lines[at].trim_start().starts_with("ld.shared")).collect();
        (!loads.is_empty()).then_some(loads)
    };
    made_by.into_iter().filter_map(|at| Some((at, loads_of(at)?))).collect()
}

/// The lines of a kernel, and the indices of those whose instructions write a register, or one that
/// such an instruction reads.
fn made_of<'a>(text: &'a str, register: &'a str) -> (Vec<&'a str>, BTreeSet<usize>) {
    let registers = |operands: &'a str| {
        operands
            .split(|c: char| !(c.is_alphanumeric() || "%_$".contains(c)))
            .filter(|word| word.starts_with('%'))
    };
    let lines: Vec<&str> = text.lines().collect();
    let mut makers: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.ends_with(';')) {
        let Some((_, operands)) = line.trim().split_once(char::is_whitespace) else { continue };
        // The results are the first operand, in braces if there are several. A store has none.
        let end = if operands.trim_start().starts_with('{') { '}' } else { ',' };
        let Some((written, read)) = operands.split_once(end).filter(|(first, _)| !first.contains('[')) else {
            continue;
        };
        for register in registers(written) {
            makers.entry(register).or_default().push((at, read));
        }
    }
    let (mut made_by, mut seen, mut next) = (BTreeSet::new(), BTreeSet::new(), vec![register]);
    while let Some(register) = next.pop() {
        if seen.insert(register) {
            for &(at, read) in makers.get(register).into_iter().flatten() {
                made_by.insert(at);
                next.extend(registers(read));
            }
        }
    }
    (lines, made_by)
}

/// f32 results are rounded two at a time. Unaligned rows of C have one element for a thread at a
/// time.
#[rstest]
fn results_in_half_precision_are_rounded_in_pairs(#[values("sm_80", "sm_90a")] arch: &str) {
    let mut seen = 0;
    for name in names(arch) {
        let Some(t) = ["f16", "bf16"].into_iter().find(|t| name.starts_with(&format!("matmul_{t}_"))) else {
            continue;
        };
        let kernel = function(arch, name);
        let pairs = kernel.count(&format!("cvt.rn.{t}x2.f32"));
        let single = kernel.count(&format!("cvt.rn.{t}.f32"));
        assert!(pairs >= 4, "{name}: {pairs} pairs, {:?}", kernel.instructions);
        assert_eq!(single, 1, "{name}: {pairs} pairs, {:?}", kernel.instructions);
        seen += 1;
    }
    assert!(seen >= 2, "there are kernels of half precision");
}

#[rstest]
fn operands_with_k_contiguous_are_copied_element_by_element_by_the_f32_products(
    #[values("sm_80", "sm_90a")] arch: &str,
    #[values(("sgemm_nn_128x128", 1), ("sgemm_tt_128x128", 1), ("sgemm_tn_128x128", 2))] (name, operands): (
        &str,
        usize,
    ),
) {
    let kernel = function(arch, name);
    // Two stages before the loops, and one in each: 8 elements of 4 bytes, or 2 words of 16.
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
fn every_product_on_tensor_cores_has_its_instruction_for_each_atom_and_step(
    #[values("sm_80", "sm_90a")] arch: &str,
) {
    let half = |t: &str, sum: &str| format!("mma.sync.aligned.m16n8k16.row.col.{sum}.{t}.{t}.{sum}");
    let mut family = vec![
        ("matmul_f16_acc_tn".to_owned(), half("f16", "f16"), 32, None),
        ("matmul_f16_acc_tn_64x64".to_owned(), half("f16", "f16"), 8, None),
        ("matmul_f64_tn".to_owned(), "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64".to_owned(), 16, None),
    ];
    // Hopper has faster kernels.
    if arch == "sm_80" {
        for (name, atoms) in [("matmul_s8_tn", 32), ("matmul_s8_tn_64x64", 8)] {
            let mma = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32";
            family.push((name.to_owned(), mma.to_owned(), atoms, None));
        }
        for (name, atoms) in [("matmul_tf32_tn", 32), ("matmul_tf32_tn_64x64", 8)] {
            family.push((name.to_owned(), TF32.to_owned(), atoms, None));
        }
        for t in ["f16", "bf16"] {
            for (order, a, b) in ORDERS {
                family.push((format!("matmul_{t}_{order}"), half(t, "f32"), 32, Some((4, a, 4, b))));
                family.push((format!("matmul_{t}_{order}_64x64"), half(t, "f32"), 8, Some((2, a, 2, b))));
            }
        }
    }
    for (name, mma, atoms, reads) in &family {
        let kernel = function(arch, name);
        // Four steps along K of a whole tile; at an edge one at a time.
        assert_eq!(kernel.count(mma), (4 + 1) * atoms, "{name}: {:?}", kernel.instructions);
        assert_eq!(kernel.count("mma"), kernel.count(mma), "{name} has no other: {:?}", kernel.instructions);
        assert!(kernel.count("cp.async.cg.shared.global") > 0, "{name}: {:?}", kernel.instructions);
        let Some((of_a, a, of_b, b)) = *reads else { continue };
        let transposed = if a { of_a } else { 0 } + if b { of_b } else { 0 };
        // The first step is also before the loop over whole tiles.
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
                // Separate tables count these.
                || ["ladder_", "wgmma_"].iter().any(|table| kernel.name.starts_with(table))
                || crate::attention::is_of(&kernel.name),
            "{} is in no table: a test of its instructions belongs beside it",
            kernel.name
        );
    }
}

/// The kernels that the other tests of this program cover.
#[rustfmt::skip]
const OTHERS: &[&str] = &[
    "copy", "copy_async", "copy_lines", "copy_long_lines",
    "transpose", "transpose_u8", "transpose_u16", "transpose_u32", "transpose_u64", "transpose_u128",
    "transpose_words_u8", "transpose_words_u16",
    "repack_u8", "repack_u16", "repack_u32", "repack_u64", "repack_u128", "repack_lines", "repack_transposed_u32",
    "finish_f16", "finish_bf16", "finish_f32", "finish_f64", "finish_i32",
    "matmul_f32_nn", "matmul_f32_nt", "matmul_f32_tn", "matmul_f32_tt",
    "sgemm_nt", "sgemm_nn", "sgemm_tt", "sgemm_nt_128x128", "sgemm_tn_128x128", "sgemm_nn_128x128", "sgemm_tt_128x128",
    "sgemm_nt_tma", "sgemm_nn_tma", "sgemm_tn_tma",
];

/// Four results for each thread: accumulators are read in 16-byte words, in the loop over the
/// slices, and written in one access or two.
#[rstest]
#[case("finish_f16", 2, ("st.global.v2.b32", 1), ("cvt.rn.f16x2.f32", 2))]
#[case("finish_bf16", 2, ("st.global.v2.b32", 1), ("cvt.rn.bf16x2.f32", 2))]
#[case("finish_f32", 3, ("st.global.v4.b32", 1), ("fma.rn.f32", 4))]
#[case("finish_f64", 6, ("st.global.v4.b32", 2), ("add.rn.f64", 4))]
#[case("finish_i32", 7, ("st.global.v4.b32", 1), ("add.s32", 4))]
fn parts_of_k_are_added_up_by_words_of_16_bytes(
    #[values("sm_80", "sm_90a")] arch: &str,
    #[case] name: &str,
    #[case] loads: usize,
    #[case] (store, stores): (&str, usize),
    #[case] (each, times): (&str, usize),
) {
    let kernel = function(arch, name);
    assert_eq!(kernel.count("ld.global.v4.b32"), loads, "{name}: {:?}", kernel.instructions);
    assert_eq!(kernel.count(store), stores, "{name}: {:?}", kernel.instructions);
    assert!(kernel.count(each) >= times, "{name}: {:?}", kernel.instructions);
    let single = kernel.count("cvt.rn.f16.f32") + kernel.count("cvt.rn.bf16.f32");
    assert_eq!(single, 0, "{name} rounds in pairs: {:?}", kernel.instructions);
}
