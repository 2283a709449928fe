//! The compiler's output for the shipped kernels, for every architecture: no local memory, no
//! spills, no calls, and, family by family, the instructions for which each kernel exists.

#[path = "../../fixtures/common/mod.rs"]
mod common;

mod attention;
mod hopper;
mod ladder;
mod movement;
mod paths;
mod products;

use common::ptx::kernel_text;
use common::{assembler, gpu};
use half::{bf16, f16};
use moye::number::{F8E4M3, F8E5M2};
use moye::{Arch, Device, Element, Kernel, Matmul, Matrix, Operand, Params, SHIPPED_PTX, kernels};
use moye_build::ptx::{Function, Module};
use paths::{reached_before_waiting, unguarded};
use rstest::rstest;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{LazyLock, OnceLock};
use std::time::UNIX_EPOCH;

/// The PTX of all families for an architecture, as one module. Unpacking takes more than a second,
/// and each test may be a separate process, so the first one writes it to a file that belongs to
/// this program.
fn text(arch: &str) -> &'static str {
    static TEXTS: [OnceLock<String>; 2] = [const { OnceLock::new() }; 2];
    TEXTS[usize::from(arch == "sm_90a")].get_or_init(|| {
        let program = std::env::current_exe().and_then(std::fs::metadata).unwrap();
        let changed = program.modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
        let of_program = format!("{:x}-{:x}.ptx", changed.as_nanos(), program.len());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let file = folder.join(format!("shipped-{arch}-{of_program}"));
        std::fs::read_to_string(&file).unwrap_or_else(|_| {
            let text = joined(arch);
            // If it cannot be written, as on another machine, each test unpacks it.
            let _ = keep(folder, &format!("shipped-{arch}-"), &file, &text);
            text
        })
    })
}

/// The PTX of each family for an architecture, with the declarations before the kernels once.
fn joined(arch: &str) -> String {
    let (mut declared, mut kernels) = (Vec::new(), String::new());
    for ptx in SHIPPED_PTX {
        let (_, text) = ptx.images().iter().find(|(name, _)| *name == arch).unwrap();
        let (before, after) = text.split_at(text.find(ENTRY).expect("each family has kernels"));
        for line in before.lines().filter(|line| line.starts_with('.')) {
            if !declared.contains(&line) {
                declared.push(line);
            }
        }
        kernels += after;
        kernels += "\n";
    }
    format!("{}\n\n{kernels}", declared.join("\n"))
}

/// Writes a complete file, and removes those of earlier programs.
fn keep(folder: &Path, prefix: &str, file: &Path, text: &str) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix)) && entry.path() != file {
            std::fs::remove_file(entry.path())?;
        }
    }
    let part = tempfile::NamedTempFile::new_in(folder)?;
    std::fs::write(part.path(), text)?;
    part.persist(file).map(drop).map_err(|error| error.error)
}

/// The module for an architecture, parsed once, when a test needs it: each test may be a separate
/// process.
fn module(arch: &str) -> &'static Module {
    fn read(arch: &str) -> Module {
        Module::parse(text(arch)).unwrap()
    }
    static SM_80: LazyLock<Module> = LazyLock::new(|| read("sm_80"));
    static SM_90A: LazyLock<Module> = LazyLock::new(|| read("sm_90a"));
    match arch {
        "sm_80" => &SM_80,
        "sm_90a" => &SM_90A,
        _ => panic!("no text is for {arch}"),
    }
}

/// The prefix of a kernel's name.
const ENTRY: &str = ".visible .entry ";

/// The kernels of the PTX for an architecture.
fn names(arch: &str) -> BTreeSet<&'static str> {
    let entries = text(arch).split(ENTRY).skip(1);
    entries.map(|entry| entry.split_once('(').expect("a kernel has parameters").0).collect()
}

/// The module for an architecture with only these kernels: parsing the whole PTX takes seconds.
fn module_of(arch: &str, kernels: &[&str]) -> Module {
    let text = text(arch);
    let mut part = text.split(ENTRY).next().unwrap().to_owned();
    for kernel in kernels {
        assert!(text.contains(&format!("{ENTRY}{kernel}(")), "{kernel} is not in the PTX for {arch}");
        part += kernel_text(text, kernel);
    }
    Module::parse(&part).unwrap()
}

fn function(arch: &str, name: &str) -> Function {
    module_of(arch, &[name]).kernel(name).unwrap().clone()
}

const FMA: &str = "fma.rn.f32";
const TF32: &str = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32";

/// Whether `ldmatrix` transposes A, and B: if M or N is contiguous.
const ORDERS: [(&str, bool, bool); 4] =
    [("tn", false, false), ("nt", true, true), ("nn", true, false), ("tt", false, true)];

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

/// A newer version requires a newer driver: 8.1, for `st.async`, CUDA 12.1's.
#[test]
fn images_are_of_the_oldest_version_of_ptx_that_has_what_they_use() {
    let version = |arch| module_of(arch, &[]).version;
    assert_eq!((version("sm_80"), version("sm_90a")), ((7, 0), (8, 1)));
}

/// Newer GPUs run the image for sm_80; sm_90a runs on 9.0 only.
#[test]
fn a_shipped_kernel_is_found_on_all_gpus_that_one_of_its_images_runs_on() {
    let (ampere, hopper, newer) = (Arch::new(8, 0), Arch::new(9, 0), Arch::new(10, 0));
    for (arch, gpus) in [("sm_80", &[ampere, hopper, newer][..]), ("sm_90a", &[hopper])] {
        for name in names(arch) {
            for gpu in gpus {
                let found = SHIPPED_PTX.iter().find_map(|ptx| ptx.text_of(name, *gpu));
                let has = found.is_some_and(|text| text.contains(&format!("{ENTRY}{name}(")));
                assert!(has, "{name} of {arch} on {gpu}");
            }
        }
    }
}

/// An image contains what only its architecture can run, and omits what is equal in an older one's
/// or has faster kernels there.
#[test]
fn what_hopper_alone_has_is_in_its_image_alone_and_what_it_has_faster_in_that_of_sm_80_alone() {
    let (old, new) = (names("sm_80"), names("sm_90a"));
    let faster = |name: &str| {
        ["matmul_f16_", "matmul_bf16_", "matmul_tf32_", "matmul_s8_"]
            .iter()
            .any(|family| name.starts_with(family))
            && !name.contains("_acc_")
            && !name.ends_with("_tma")
    };
    let mut older: BTreeSet<_> = ladder::LADDER.iter().map(|(name, _)| *name).collect();
    older.extend(old.iter().copied().filter(|name| faster(name)));
    // Two tiles of f16 and bf16 in four orders each, and of tf32 and s8 in one.
    assert_eq!(older.len(), ladder::LADDER.len() + 2 * (4 + 4 + 1 + 1));
    // Attention's, if the feature is on.
    let attention =
        |name: &str| ["forward_", "decode_", "combine_"].iter().any(|part| name.starts_with(part));
    older.extend(old.iter().copied().filter(|name| attention(name)));
    assert_eq!(&old - &new, older, "in the text for sm_80 alone");
    let of_hopper: BTreeSet<_> = new
        .iter()
        .copied()
        .filter(|name| name.starts_with("wgmma_") || name.starts_with("hopper_") || name.ends_with("_tma"))
        .collect();
    assert_eq!(&new - &old, of_hopper, "in the text for sm_90a alone");
    assert!(!of_hopper.is_empty() && !(&old & &new).is_empty(), "there are kernels of each kind");
}

/// The simulator is planned like the GPU that it models, which is sm_90.
#[test]
fn every_kernel_that_a_product_can_take_on_hopper_is_in_an_image_that_runs_there() {
    type Planned = Vec<&'static str>;
    fn ask<T: Operand + Element>(take: impl Fn(Matmul<'_, T, T::Narrow>, &Device) -> Planned) -> Planned
    where
        T::Narrow: Element + moye::Output<T>,
    {
        let device = Device::sim();
        let buffer = device.alloc_zeroed::<T>(1).unwrap();
        let matrix = || Matrix::row_major(&buffer, 1, 1).unwrap();
        take(Matmul::new(matrix(), matrix()), &device)
    }
    assert_eq!(Device::sim().arch().capability(), (9, 0));
    let planned = [
        ask::<f16>(|matmul, device| matmul.kernels(device)),
        ask::<f16>(|matmul, device| matmul.f16_accumulators().kernels(device)),
        ask::<bf16>(|matmul, device| matmul.kernels(device)),
        ask::<f32>(|matmul, device| matmul.kernels(device)),
        ask::<f32>(|matmul, device| matmul.tf32().kernels(device)),
        ask::<f64>(|matmul, device| matmul.kernels(device)),
        ask::<i8>(|matmul, device| matmul.kernels(device)),
        ask::<F8E4M3>(|matmul, device| matmul.kernels(device)),
        ask::<F8E5M2>(|matmul, device| matmul.kernels(device)),
    ];
    let texts = &names("sm_80") | &names("sm_90a");
    for kernels in &planned {
        assert!(!kernels.is_empty(), "each type has kernels: {planned:?}");
        for name in kernels {
            assert!(texts.contains(name), "{name} is in no text that runs on sm_90");
        }
    }
}

/// Kernels of attention with 16 bytes of local memory for each thread on sm_90a, for values of a
/// tile that they keep in the mainloop (docs/performance.md has the figures).
const SPILL: [&str; 6] = [
    "hopper_bf16_192x128_general",
    "hopper_bf16_256",
    "hopper_bf16_256_general",
    "hopper_f16_192x128_general",
    "hopper_f16_256",
    "hopper_f16_256_general",
];

#[rstest]
fn ptxas_spills_nothing_and_has_nothing_to_say(#[values("sm_80", "sm_90a")] arch: &str) {
    let Some(ptxas) = assembler::ptxas() else { return };
    let text = text(arch);
    let assembled = ptxas.assemble(text, arch.parse().unwrap()).unwrap();
    assert_eq!(assembled.warnings, [] as [String; 0], "{arch}");
    assert_eq!(assembled.kernels.len(), module(arch).kernels.len(), "{arch}: a report for each kernel");
    for (name, usage) in &assembled.kernels {
        let most = if SPILL.contains(&name.as_str()) { 16 } else { spill_of_sm_80(name, arch) };
        assert!(usage.stack <= most, "{name} for {arch} has more than {most} bytes: {usage:?}");
        assert!(most > 0 || usage.spills() == 0, "{name} for {arch} spills: {usage:?}");
        let bounds = &module(arch).kernel(name).unwrap().bounds;
        if bounds.min_blocks == Some(2) && bounds.threads == Some(256) {
            assert!(
                usage.registers <= 128,
                "{name}: two blocks of 256 threads share 65,536 registers: {usage:?}"
            );
        }
    }
}

/// Kernels of sm_80 with this number of bytes of local memory for each thread on a GPU, for the
/// rows that they recompute.
const SPILL_OF_SM_80: [(&str, &str, usize); 23] = [
    ("decode_bf16_128", "sm_80", 8),
    ("decode_bf16_256", "sm_80", 8),
    ("decode_f16_256", "sm_80", 32),
    ("forward_bf16_96_general", "sm_80", 8),
    ("forward_f16_96_general", "sm_80", 8),
    ("decode_bf16_128", "sm_89", 8),
    ("decode_f16_128", "sm_89", 8),
    ("decode_f16_96", "sm_89", 12),
    ("forward_bf16_96_general", "sm_89", 8),
    ("forward_f16_128_general", "sm_89", 12),
    ("forward_f16_192_general", "sm_89", 40),
    ("forward_f16_192x128_general", "sm_89", 12),
    ("forward_f16_256_general", "sm_89", 8),
    ("forward_f16_96_general", "sm_89", 8),
    ("decode_bf16_128", "sm_90", 8),
    ("decode_bf16_256", "sm_90", 8),
    ("forward_bf16_128_general", "sm_90", 8),
    ("forward_bf16_192_general", "sm_90", 8),
    ("forward_bf16_192x128_general", "sm_90", 8),
    ("forward_bf16_256_general", "sm_90", 8),
    ("forward_f16_128_general", "sm_90", 8),
    ("forward_f16_192x128_general", "sm_90", 8),
    ("forward_f16_64_general", "sm_90", 8),
];

/// The bytes of [`SPILL_OF_SM_80`].
fn spill_of_sm_80(name: &str, arch: &str) -> usize {
    let known = SPILL_OF_SM_80.iter().find(|(kernel, on, _)| (*kernel, *on) == (name, arch));
    known.map_or(0, |(.., most)| *most)
}

/// Attention's kernels for few rows, for options and for reducing splits are only in the image for
/// sm_80, which the driver compiles for newer GPUs too.
#[cfg(feature = "attention")]
#[rstest]
fn attention_for_sm_80_spills_nothing_on_newer_gpus(#[values("sm_89", "sm_90")] arch: &str) {
    let Some(ptxas) = assembler::ptxas() else { return };
    let kernels: Vec<_> = names("sm_80").into_iter().filter(|name| attention::is_of(name)).collect();
    let assembled = ptxas.assemble_kernels(text("sm_80"), arch.parse().unwrap(), &kernels).unwrap();
    assert_eq!(assembled.kernels.len(), kernels.len(), "{arch}: a report for each kernel");
    let spilling: Vec<_> = assembled
        .kernels
        .iter()
        .filter(|(name, usage)| {
            usage.spill_stores.max(usage.spill_loads).max(usage.stack) > spill_of_sm_80(name, arch)
        })
        .collect();
    assert!(spilling.is_empty(), "on {arch} these spill: {spilling:#?}");
}

#[test]
fn a_missing_ptxas_is_reported_and_a_failure_where_it_is_required() {
    let empty = tempfile::TempDir::new().unwrap();
    // A test of this program in a separate process, which finds a toolkit only in the usual
    // location.
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

/// The kernels of products are PDL launches on GPUs that support it: no path may access the
/// previous kernel's output before the wait.
#[test]
fn whatever_may_begin_early_waits_before_it_touches_memory() {
    const FAMILIES: [&str; 8] =
        ["matmul_f16_acc", "matmul_f64", "sgemm", "wgmma", "finish", "repack", "transpose_", "copy_l"];
    let text = text("sm_90a");
    for family in FAMILIES {
        let mut seen = 0;
        for kernel in module("sm_90a").kernels.iter().filter(|kernel| kernel.name.starts_with(family)) {
            let body = kernel_text(text, &kernel.name);
            let early: Vec<_> =
                reached_before_waiting(body).into_iter().filter(|line| touches_memory(line)).collect();
            assert_eq!(early, [""; 0], "{} before it has waited", kernel.name);
            assert!(body.lines().any(touches_memory), "{} does something", kernel.name);
            seen += 1;
        }
        assert!(seen > 0, "there are kernels of {family}");
    }
    for kernel in &module("sm_80").kernels {
        assert_eq!(kernel.count("griddepcontrol"), 0, "{}: sm_80 has no such launches", kernel.name);
    }
}

/// Whether a line of PTX may read or write memory that other kernels access.
fn touches_memory(line: &str) -> bool {
    let (_, instruction) = unguarded(line);
    let is = |start| instruction.starts_with(start);
    // The state space of a generic address is unknown.
    let elsewhere = [".param", ".shared", ".local", ".const"].iter().any(|space| instruction.contains(space));
    // The host wrote the tensor maps, which are parameters.
    let fetches = is("prefetch") && !is("prefetch.tensormap");
    let moves = is("ld.") || is("st.") || is("ldu.") || fetches;
    is("cp.async") || is("cp.reduce") || is("red.") || is("atom.") || moves && !elsewhere
}

#[test]
fn launch_bounds_are_in_the_ptx() {
    for arch in ["sm_80", "sm_90a"] {
        let text = text(arch);
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
        let attributes = device.attributes(kernel).unwrap().unwrap();
        assert_eq!(attributes.local_bytes, 0, "{} uses local memory: {attributes:?}", kernel.name());
        let threads = kernel.bounds().threads.unwrap();
        assert!(attributes.max_threads >= threads, "{}: {attributes:?}", kernel.name());
    }
    check(&device, &kernels::ladder::ladder_plain_copy);
    check(&device, &kernels::copy);
    check(&device, &kernels::copy_async);
    check(&device, &kernels::transpose);
    check(&device, &kernels::matmul_f32_nt);
    check(&device, &kernels::matmul_f32_nn);
    check(&device, &kernels::matmul_f32_tt);
    check(&device, &kernels::matmul_f32_tn);
    check(&device, &kernels::copy_lines);
    check(&device, &kernels::copy_long_lines);
    check(&device, &kernels::transpose_u32);
    check(&device, &kernels::transpose_u128);
    check(&device, &kernels::mma::matmul_f16_tn);
    check(&device, &kernels::mma::matmul_bf16_tn);
    check(&device, &kernels::mma::matmul_tf32_tn);
    check(&device, &kernels::mma::matmul_s8_tn);
    check(&device, &kernels::mma::matmul_f64_tn);
    check(&device, &kernels::mma::sgemm_nt);
    check(&device, &kernels::mma::sgemm_nn);
    check(&device, &kernels::mma::sgemm_tt);
    check(&device, &kernels::mma::sgemm_tn_128x128);
    if device.arch() == moye::Arch::new(9, 0) {
        check(&device, &kernels::hopper::sgemm_nt_tma);
        check(&device, &kernels::hopper::sgemm_nn_tma);
        check(&device, &kernels::hopper::sgemm_tn_tma);
    }
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
