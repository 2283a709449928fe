//! Faults and profiles name the kernel's line, however many library functions are between it and
//! the instruction.

#![allow(non_snake_case, reason = "tensors have CuTe's names")]

use moye_device::arch;
use moye_device::memory::Shared;
use moye_device::number::Complex64;
use moye_device::prelude::*;
use moye_sim::intrinsics::{shared_base, store_shared};
use moye_sim::profile::{Profile, Profiler};
use moye_sim::{Fault, FaultKind, GlobalMemory, Launch};
use std::panic::Location;
use std::path::{Path, PathBuf};

static_layout! {
    SmemA = layout!((16, 16):(16, 1)); // (BLK_M, BLK_K)
    SmemB = layout!((8, 16):(16, 1)); // (BLK_N, BLK_K)
    SmemAlongM = layout!((16, 16):(1, 16)); // (BLK_M, BLK_K)
    SmemAlongN = layout!((8, 16):(1, 8)); // (BLK_N, BLK_K)
    Smem8x4 = layout!((8, 4):(4, 1)); // (BLK_M, BLK_K)
    TileC = layout!((16, 8)); // (BLK_M, BLK_N)
    Tile8x8 = layout!((8, 8)); // (BLK_M, BLK_N)
    Eight = layout!((8, 1));
}
tiled_mma! {
    Halves: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::new(layout!((1, 1, 1)));
    Complex: TiledMma<SM80_8x8x4_C64C64C64C64_TN> = TiledMma::new(layout!((1, 1, 1)));
    Widened: TiledMma<UniversalFma<f32, f16, f16, f32>> = TiledMma::new(layout!((8, 4, 1)));
}

/// Bytes of shared memory of each kernel.
const BYTES: u32 = 4096;

/// A tensor at byte offset `after` of the shared memory.
fn tile<T: Element, L: StaticLayout>(after: u32) -> SharedTensor<T, L> {
    SharedTensor::shared(Shared::from_address(shared_base() + after))
}

/// The line of this file that ends with a comment.
fn line_of(mark: &str) -> u32 {
    let mark = format!("// {mark}");
    let lines = include_str!("callers.rs").lines().zip(1..);
    let mut lines = lines.filter(|(line, _)| line.ends_with(&mark)).map(|(_, number)| number);
    let line = lines.next().expect("a line has the mark");
    assert_eq!(lines.next(), None, "one line has {mark}");
    line
}

/// Fills the shared memory with zeros, then a barrier.
fn clear_shared() {
    for word in 0..BYTES / 128 {
        store_shared(shared_base() + 4 * (32 * word + thread_idx().x), 0_u32);
    }
    sync_threads();
}

/// The fault of a kernel run by one warp.
fn fault_of(kernel: impl Fn() + Sync) -> Fault {
    let memory = GlobalMemory::new();
    let launch = Launch::new("k", 1, 32, &memory).shared_bytes(BYTES as usize).races(true);
    launch.run(&kernel).unwrap_err().fault().expect("a fault").clone()
}

/// Whether a location is the marked line.
fn is_at(mark: &str, location: &Location<'_>) -> bool {
    location.file().ends_with("device/tests/callers.rs") && location.line() == line_of(mark)
}

/// The fault of a kernel run by one warp; asserts that it names the marked line.
fn fault_at(mark: &str, kernel: impl Fn() + Sync) -> Fault {
    let fault = fault_of(kernel);
    assert!(is_at(mark, fault.location.unwrap()), "`{mark}` is line {}: {fault}", line_of(mark));
    fault
}

/// The profile of a kernel run by one warp; asserts that all its lines are in this file.
fn profile_of(kernel: impl Fn() + Sync) -> Profile {
    let memory = GlobalMemory::new();
    let profiler = Profiler::new();
    let launch = Launch::new("k", 1, 32, &memory).shared_bytes(BYTES as usize);
    launch.profiler(&profiler).run(&kernel).unwrap();
    let profile = profiler.take();
    for (file, line) in profile.kernels[0].lines.keys() {
        assert!(file.ends_with("device/tests/callers.rs"), "{file}:{line} is not a line of the kernel");
    }
    profile
}

/// A product that loads its operands from shared memory word by word: K is contiguous.
fn product_of_words(after: u32) {
    let mma = Halves::get_slice(thread_idx().x);
    let (tCsA, tCsB) = (
        mma.partition_a(tile::<f16, SmemA>(after)), // (MMA, MMA_M, MMA_K)
        mma.partition_b(tile::<f16, SmemB>(after + 512)), // (MMA, MMA_N, MMA_K)
    );
    let mut tCrC = mma.accumulator::<TileC>(); // (MMA, MMA_M, MMA_N)
    // SAFETY: an error of the kernel is a fault.
    unsafe {
        mma.gemm(&mut tCrC, tCsA, tCsB); // product of words
    }
}

/// A product that loads its operands element by element: M and N are contiguous.
fn product_of_elements(after: u32) {
    let mma = Halves::get_slice(thread_idx().x);
    let (tCsA, tCsB) = (
        mma.partition_a(tile::<f16, SmemAlongM>(after)), // (MMA, MMA_M, MMA_K)
        mma.partition_b(tile::<f16, SmemAlongN>(after + 512)), // (MMA, MMA_N, MMA_K)
    );
    let mut tCrC = mma.accumulator::<TileC>(); // (MMA, MMA_M, MMA_N)
    // SAFETY: an error of the kernel is a fault.
    unsafe {
        mma.gemm(&mut tCrC, tCsA, tCsB); // product of elements
    }
}

/// A product of complex numbers: an element takes two registers.
fn product_of_parts(after: u32) {
    let mma = Complex::get_slice(thread_idx().x);
    let (tCsA, tCsB) = (
        mma.partition_a(tile::<Complex64, Smem8x4>(after)), // (MMA, MMA_M, MMA_K)
        mma.partition_b(tile::<Complex64, Smem8x4>(after + 512)), // (MMA, MMA_N, MMA_K)
    );
    // SAFETY: an error of the kernel is a fault.
    unsafe {
        let mut tCrC = mma.partition_fragment_c(&tile::<Complex64, Tile8x8>(0)); // (MMA, MMA_M, MMA_N)
        fill(&mut tCrC, Complex64::default());
        mma.gemm(&mut tCrC, tCsA, tCsB); // product of parts
    }
}

/// Products of operands in shared memory, with the marks of their lines.
const PRODUCTS: [(&str, fn(u32)); 3] = [
    ("product of words", product_of_words),
    ("product of elements", product_of_elements),
    ("product of parts", product_of_parts),
];

#[test]
fn a_race_on_a_shared_operand_names_the_line_of_the_product() {
    for (mark, product) in PRODUCTS {
        let fault = fault_of(|| {
            clear_shared();
            store_shared(shared_base() + 4 * thread_idx().x, 1_u32); // store without a barrier
            product(0);
        });
        let FaultKind::Race(race) = &fault.kind else { panic!("{mark}: {fault}") };
        // The order of the lanes decides which of the two comes second.
        let both = [fault.location.unwrap(), race.other.location];
        let names = |mark: &str| both.into_iter().any(|location| is_at(mark, location));
        assert!(names(mark) && names("store without a barrier"), "{mark}: {fault}");
    }
}

#[test]
fn a_shared_operand_out_of_bounds_or_unwritten_names_the_line_of_the_product() {
    for (mark, product) in PRODUCTS {
        let fault = fault_at(mark, || product(BYTES));
        assert!(matches!(fault.kind, FaultKind::SharedOutOfBounds { .. }), "{mark}: {fault}");
        let fault = fault_at(mark, || product(0));
        assert!(matches!(fault.kind, FaultKind::SharedUnwritten { .. }), "{mark}: {fault}");
    }
}

#[test]
fn the_profile_attributes_the_loads_of_shared_operands_to_the_line_of_the_product() {
    // Register loads of A and of B: two f16 per word; single f16; one complex number of each.
    for ((mark, product), requests) in PRODUCTS.into_iter().zip([4 + 2, 8 + 4, 2]) {
        let profile = profile_of(|| {
            clear_shared();
            product(0);
        });
        let counts = profile.line(&format!("// {mark}"));
        assert_eq!(counts.shared_loads.requests, requests, "{mark}: {:?}", counts.instructions);
        assert!(counts.tensor_operations().values().sum::<u64>() > 0, "{mark}: {:?}", counts.instructions);
    }
}

#[test]
fn a_transpose_of_quads_names_the_kernels_line_in_faults_and_in_the_profile() {
    let transpose = || arch::transpose_quad([0, 1, 2, 3].map(|word| 10 * thread_idx().x + word)); // quads
    let fault = fault_at("quads", || {
        if thread_idx().x != 7 {
            transpose();
        }
    });
    assert!(fault.to_string().contains("shfl.sync.bfly"), "{fault}");
    let profile = profile_of(|| _ = transpose());
    assert_eq!(profile.line("// quads").count("shfl.sync.bfly"), 4);
}

#[test]
fn conversions_and_special_functions_of_the_library_count_for_the_kernels_line() {
    let profile = profile_of(|| {
        let lane = thread_idx().x as f32;
        let values = Fragment::<f32, Eight>::filled(lane);
        let halves = values.convert::<f16>(); // conversion to halves
        let _ = halves.convert::<f32>(); // conversion from halves
        let _ = moye_device::atom::wgmma::pack_fragment::<bf16, _>(&values); // packed pairs
        let mut doubled = Fragment::<bf16, Eight>::zeros();
        // SAFETY: both are this thread's registers.
        unsafe { transform(&values, &mut doubled, |x| 2.0 * x) }; // transformed pairs
        let _ = math::fast::exp(lane) + math::fast::erf(lane); // approximations
        let _ = math::sqrt(lane) + math::rsqrt(lane); // roots
    });
    for (mark, instruction, count) in [
        ("conversion to halves", "cvt.rn.f16x2.f32", 4),
        ("conversion from halves", "cvt.f32.f16", 8),
        ("packed pairs", "cvt.rn.bf16x2.f32", 4),
        ("transformed pairs", "cvt.rn.bf16x2.f32", 4),
        ("approximations", "ex2.approx.ftz.f32", 2),
        ("roots", "sqrt.rn.f32", 2),
    ] {
        let counts = profile.line(&format!("// {mark}"));
        assert_eq!(counts.count(instruction), count, "{mark}: {:?}", counts.instructions);
    }
}

#[test]
fn a_multiply_add_of_wider_accumulators_counts_its_conversions_for_the_kernels_line() {
    let profile = profile_of(|| {
        clear_shared();
        let mma = Widened::get_slice(thread_idx().x);
        let (tCsA, tCsB) =
            (mma.partition_a(tile::<f16, Smem8x4>(0)), mma.partition_b(tile::<f16, Smem8x4>(512)));
        let mut tCrC = mma.accumulator::<Tile8x8>(); // (MMA, MMA_M, MMA_N)
        // SAFETY: the shared memory was written.
        unsafe {
            mma.gemm(&mut tCrC, tCsA, tCsB); // widened product
        }
    });
    // Two elements of C per thread, four steps along K, both operands.
    assert_eq!(profile.line("// widened product").count("cvt.f32.f16"), 2 * 4 * 2);
}

#[test]
fn a_race_of_overlapping_launches_names_the_kernels_line() {
    let profile = profile_of(|| arch::overlap_launches()); // overlap
    let counts = profile.line("// overlap");
    assert_eq!(counts.count("griddepcontrol.wait"), 1, "{:?}", counts.instructions);
}

/// The files under a folder.
fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, all) } else { all.push(path) }
    }
}

#[test]
fn each_public_function_of_arch_has_the_callers_line() {
    let mut all = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("arch"), &mut all);
    let mut functions = 0;
    for file in all.iter().filter(|file| file.extension().is_some_and(|end| end == "rs")) {
        let text = std::fs::read_to_string(file).unwrap();
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate() {
            if !line.starts_with("pub fn ") && !line.starts_with("pub unsafe fn ") {
                continue;
            }
            functions += 1;
            let own =
                |line: &&&str| line.starts_with("#[") || line.starts_with("//") || line.starts_with("$(#[");
            let mut attributes = lines[..at].iter().rev().take_while(own);
            let tracks = attributes.any(|line| line.contains("track_caller"));
            assert!(tracks, "{}:{}: {line} is not #[track_caller] on the host", file.display(), at + 1);
        }
    }
    assert!(functions > 70, "{functions} functions were read");
}
