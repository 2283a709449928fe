//! The PTX of each kernel has its instruction once, and ptxas accepts it for the instruction's
//! oldest architecture.

use crate::common::assembler;
use crate::common::ptx::{before, kernel_text, version_of};
use crate::instructions::{Pair, SM_80, SM_90, each};
use crate::needs::needs;
use moye_build::Arch;
use moye_build::ptx::Module;
use moye_build::report::Ptxas;
use moye_device::atom::copy::copy_atoms;
use std::collections::BTreeMap;

/// A module of one architecture.
struct OfArch {
    arch: &'static str,
    text: &'static str,
    /// Its kernels and their instructions.
    expected: Vec<Pair>,
}

/// Both modules.
fn modules() -> [OfArch; 2] {
    let of = |images: &'static [Pair]| {
        assert_eq!(images.len(), 1, "one architecture each");
        images[0]
    };
    let (old, new) = (of(moye_kernels_copy::PTX_SM_80), of(moye_kernels_copy::PTX_SM_90));
    [(old, SM_80), (new, SM_90)].map(|((arch, text), listed)| OfArch { arch, text, expected: each(listed) })
}

#[test]
fn every_kernel_has_its_instruction_once_and_nothing_like_it() {
    for OfArch { arch, text, expected } in modules() {
        let module = Module::parse(text).unwrap();
        assert!(
            module.functions.is_empty(),
            "{arch}: functions that were not inlined: {:?}",
            module.functions
        );
        for &(kernel, instruction) in &expected {
            let function =
                module.kernel(kernel).unwrap_or_else(|| panic!("{kernel} is not in the PTX for {arch}"));
            let count = function.count_where(|name| name == instruction);
            assert_eq!(
                count, 1,
                "{kernel} for {arch} has {instruction} {count} times: {:?}",
                function.instructions
            );
        }
        for function in &module.kernels {
            let name = function.name.as_str();
            let listed =
                |of: &str| expected.iter().any(|&(kernel, instruction)| kernel == name && instruction == of);
            if OF_SEVERAL.contains(&name) {
                continue;
            }
            assert!(
                expected.iter().any(|&(kernel, _)| kernel == name),
                "{name} for {arch} is not in the table"
            );
            let Frame { loads, stores, from_shared, to_shared } = Frame::of(name);
            let around = |what| {
                let plain = |of: &str| of.starts_with(what) && !listed(of);
                function.count_where(plain)
            };
            assert_eq!(
                ["ld.global", "st.global", "ld.shared", "st.shared"].map(around),
                [loads, stores, from_shared, to_shared],
                "{name} for {arch}: loads and stores, global and shared, beside its own: {:?}",
                function.instructions
            );
            let plain = |of: &str| {
                ["ld.global", "st.global", "ld.shared", "st.shared"].iter().any(|p| of.starts_with(p))
            };
            let others = function.count_where(|of| is_like_an_atom(of) && !plain(of) && !listed(of));
            // Kernels with an mbarrier wait for copies.
            let copies = usize::from(name.starts_with("mbarrier_"));
            assert_eq!(
                others, copies,
                "{name} for {arch} has more than its own: {:?}",
                function.instructions
            );
        }
    }
}

/// Kernels of several instructions each, which other tests cover: a load and a store have no type
/// for bf16 to f32.
const OF_SEVERAL: &[&str] = &[
    "cvt_f32_of_bf16",
    "every_parameter",
    "groups",
    "named_as_locals",
    "reverse_b1",
    "reverse_b1_shared",
    "reverse_s4",
    "reverse_s4_shared",
    "reverse_u4",
    "reverse_u4_shared",
    "structs",
];

/// Whether an instruction moves data (other than between registers and from parameters) or computes
/// with floats.
fn is_like_an_atom(instruction: &str) -> bool {
    let moves = [
        "ld.",
        "st.",
        "ldu.",
        "ldmatrix.",
        "stmatrix.",
        "movmatrix.",
        "shfl.",
        "atom.",
        "red.",
        "redux.",
        "match.",
        "vote.",
        "prefetch",
        "createpolicy.",
        "mbarrier.",
        "mma.",
        "wmma.",
    ];
    let types = [".f16", ".bf16", ".tf32", ".f32", ".f64"];
    let copies = instruction.starts_with("cp.")
        && !instruction.contains("_group")
        && !instruction.contains("wait_all");
    !instruction.starts_with("ld.param")
        && (copies
            || moves.iter().any(|start| instruction.starts_with(start))
            || types.iter().any(|name| instruction.contains(name)))
}

/// The loads of a kernel's inputs and the stores of its results, in addition to its instruction.
struct Frame {
    loads: usize,
    stores: usize,
    from_shared: usize,
    to_shared: usize,
}

impl Frame {
    fn of(kernel: &str) -> Self {
        let [loads, stores, from_shared, to_shared] = match kernel.split('_').next().expect("a name") {
            // Each lane writes a row of four words to shared memory, and stores its result.
            "ldsm" => [4, registers(kernel), 0, 4],
            "stsm" => [registers(kernel), 4, 4, 0],
            "movm" => [1, 1, 0, 0],
            "shuffle" if ["shuffle_xor1", "shuffle_xor4"].contains(&kernel) => [2, 2, 0, 0],
            // Their instructions are the load and the store; one with a policy covers all.
            "copy" => [0; 4],
            "policy" if kernel == "policy_last" => [0; 4],
            "policy" => [1, 1, 0, 0],
            // The initial shared memory, the predicate, and the result.
            "ca" | "cg" if kernel.ends_with('b') && kernel.split('_').count() == 3 => [0, 1, 1, 0],
            "ca" | "cg" => {
                let predicated = kernel.contains("_if") || kernel.contains("_zfill_");
                [usize::from(predicated), 1, 1, 1]
            }
            "mbarrier" => [0, 1, 1, 0],
            "ld" => [0, 1, 0, 0],
            "st" => [1, 0, 0, 0],
            "cvt" if !kernel.contains("x2") => [1, 1, 0, 0],
            "cvt" | "add" | "sub" | "mul" | "min" | "max" => [2, 1, 0, 0],
            "fma" => [3, 1, 0, 0],
            "prefetched" | "redux" | "match" | "vote" | "ballot" | "shuffle" => [1, 1, 0, 0],
            "atom" if kernel.starts_with("atom_exch") => [1, 1, 0, 0],
            "atom" if kernel.starts_with("atom_cas") => [2, 1, 0, 0],
            "atom" | "red" => [1, 0, 0, 0],
            "shared" if kernel == "shared_exchanges" => [0, 2, 1, 1],
            "shared" if kernel.starts_with("shared_exch_") => [2, 2, 1, 1],
            "shared" if kernel.starts_with("shared_cas_") => [3, 2, 1, 1],
            "shared" if kernel.contains("_atom_") || kernel.contains("_red_") => [2, 1, 1, 1],
            "shared" => [1, 1, 0, 0],
            _ => panic!("no entry says what {kernel} reads and writes"),
        };
        Self { loads, stores, from_shared, to_shared }
    }
}

/// The registers of a matrix instruction: `ldsm_x4_trans` has 4.
fn registers(kernel: &str) -> usize {
    let count = kernel.split('_').nth(1).and_then(|count| count.strip_prefix('x'));
    count.and_then(|count| count.parse().ok()).expect("the matrices are counted in the name")
}

#[test]
fn every_atom_with_an_instruction_has_a_kernel() {
    let listed = |instruction: &str| SM_80.iter().chain(SM_90).any(|(listed, _)| *listed == instruction);
    for atom in copy_atoms() {
        let Some(ptx) = atom.ptx else { continue };
        assert!(listed(ptx), "{atom}: no kernel of the tests has {ptx}");
        let oldest = needs(ptx).0.max(OLDEST_OF_PTXAS);
        assert_eq!(atom.arch.max(OLDEST_OF_PTXAS), oldest, "{atom}: the oldest architecture with {ptx}");
    }
}

#[test]
fn ptxas_takes_every_kernel_for_the_architecture_it_is_compiled_for() {
    let Some(ptxas) = assembler::ptxas() else { return };
    for OfArch { arch, text, .. } in modules() {
        let assembled = ptxas.assemble(text, arch.parse().unwrap()).unwrap();
        let kernels = Module::parse(text).unwrap().kernels.len();
        assert_eq!(assembled.kernels.len(), kernels, "{arch}: a report for each kernel");
        for (name, usage) in &assembled.kernels {
            assert_eq!((usage.spills(), usage.stack), (0, 0), "{name} for {arch} spills: {usage:?}");
        }
    }
}

/// Kernels of packed elements, which several threads write with atomic operations on words, with
/// the oldest architecture and PTX version of those, from NVIDIA's "PTX ISA".
const OLDER: &[(&str, u32, (u32, u32))] =
    &[("reverse_s4", 12, (1, 2)), ("reverse_u4", 12, (1, 2)), ("reverse_b1", 12, (1, 2))];

/// A module of one kernel for an architecture and a PTX version: its PTX, and the shared memory
/// that it may name.
fn alone(module: &'static str, kernel: &str, arch: u32, (major, minor): (u32, u32)) -> String {
    format!(
        ".version {major}.{minor}\n.target sm_{arch}\n.address_size 64\n.extern .shared .align 1024 .b8 moye_shared[];\n{}",
        kernel_text(module, kernel)
    )
}

#[test]
fn each_wait_says_how_many_groups_may_be_under_way() {
    let text = kernel_text(moye_kernels_copy::PTX_SM_80[0].1, "groups");
    let waits: Vec<&str> =
        text.lines().filter_map(|line| line.trim().strip_prefix("cp.async.wait_group ")).collect();
    assert_eq!(waits, ["2;", "1;", "0;"], "{text}");
    assert_eq!(text.matches("cp.async.commit_group;").count(), 3, "{text}");
}

#[test]
fn each_cp_async_moves_as_many_bytes_as_its_kernel_says() {
    let mut checked = 0;
    let copies = |(_, of): &Pair| of.starts_with("cp.async.c") && of.contains(".global");
    for (kernel, instruction) in each(SM_80).into_iter().filter(copies) {
        // `ca_16_zfill`: the caches, the bytes, and the action where the predicate is false.
        let bytes = kernel.split('_').nth(1).expect("the bytes are named");
        let lines: Vec<&str> = kernel_text(moye_kernels_copy::PTX_SM_80[0].1, kernel)
            .lines()
            .filter(|line| line.split_whitespace().any(|word| word == instruction))
            .collect();
        let [line] = lines[..] else { panic!("{kernel} has {instruction} once: {lines:?}") };
        // `[to], [from], bytes` and, optionally, the register with the number of bytes to read.
        let operands: Vec<&str> = line.trim_end_matches([';', ' ', '}']).split(", ").map(str::trim).collect();
        assert_eq!(operands.get(2), Some(&bytes), "{kernel}: {line}");
        assert_eq!(operands.len(), if kernel.contains("zfill") { 4 } else { 3 }, "{kernel}: {line}");
        checked += 1;
    }
    assert_eq!(checked, 52, "each of four kinds in four forms, and with three prefetches in three");
}

/// The oldest architecture of any available assembler: that of CUDA 12. Older instructions
/// (shuffles and votes sm_30, loads and stores all) are assembled for it.
const OLDEST_OF_PTXAS: u32 = 50;

/// A kernel, its module, the oldest architecture, the oldest PTX version.
type Case = (&'static str, &'static str, u32, (u32, u32));

/// Every kernel of one instruction.
fn cases() -> Vec<Case> {
    let older = |&(kernel, arch, version): &(_, u32, (u32, u32))| (kernel, modules()[0].text, arch, version);
    let mut cases: Vec<Case> = OLDER.iter().map(older).collect();
    for OfArch { text, expected: listed, .. } in modules() {
        for (kernel, instruction) in listed {
            let (arch, version) = needs(instruction);
            cases.push((kernel, text, arch, version));
        }
    }
    cases.sort_unstable();
    // A kernel of several instructions has the requirements of the newest.
    cases.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            (kept.2, kept.3) = (kept.2.max(next.2), kept.3.max(next.3));
        }
        same
    });
    cases
}

#[test]
fn ptxas_takes_every_atom_for_the_oldest_architecture_and_version_and_for_none_before() {
    let mut assemblers = BTreeMap::new();
    let mut assemble = |kernel, text, arch: u32, version: (u32, u32)| {
        let name: Arch = format!("sm_{arch}").parse().unwrap();
        let found: &Option<Ptxas> = assemblers.entry(arch).or_insert_with(|| Ptxas::find_for(name));
        let version = version.max(version_of(arch));
        let assembled = found.as_ref()?.assemble(&alone(text, kernel, arch, version), name);
        Some(assembled.map(drop).map_err(|error| error.to_string()))
    };
    let mut failures = Vec::new();
    for (kernel, text, arch, version) in cases() {
        let oldest = arch.max(OLDEST_OF_PTXAS);
        if let Some(Err(error)) = assemble(kernel, text, oldest, version) {
            failures.push(format!("{kernel} for sm_{oldest}, PTX {version:?}: {error}"));
        }
        if let Some(before) = before(oldest)
            && assemble(kernel, text, before, version) == Some(Ok(()))
        {
            failures.push(format!("{kernel}: sm_{before} has it too, not only sm_{oldest}"));
        }
        // An older version than the instruction's proves nothing.
        if version > version_of(oldest) && assemble(kernel, text, oldest, version_of(oldest)) == Some(Ok(()))
        {
            failures.push(format!("{kernel}: PTX {:?} has it too, not only {version:?}", version_of(oldest)));
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    let missing: Vec<_> =
        assemblers.iter().filter(|(_, found)| found.is_none()).map(|(arch, _)| arch).collect();
    if missing.is_empty() {
        assert!([50, 60, 70, 75, 80, 90].iter().all(|arch| assemblers.contains_key(arch)), "{assemblers:?}");
    } else {
        assembler::lacking(&format!("atoms are not assembled for sm_{missing:?}"));
    }
}
