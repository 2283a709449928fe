//! The kernels on the simulator against f64 accumulators, and what the compiler made of them.

extern crate moye_kernels_author as pages;

#[path = "../../../examples/pages/tests/pages.rs"]
mod of_pages;

use half::{bf16, f16};
use moye_build::ptx::Module;
use moye_build::report::Ptxas;
use moye_device::kernel::Kernel;
use moye_device::memory::{Element, Global, GlobalMut};
use moye_kernels_author::PTX;
use moye_kernels_author::scores::{scores_bf16_causal, scores_f16};
use moye_kernels_author::steps::{steps_at, steps_part};
use moye_sim::memory::Allocation;
use moye_sim::{GlobalMemory, Launch};

const N: usize = 64;

/// Numbers from -1 to 1 that differ from place to place.
fn number(i: usize, seed: usize) -> f64 {
    ((i * 37 + seed * 101 + i / 64 * 13) % 129) as f64 / 64.0 - 1.0
}

fn upload<T: Element>(memory: &GlobalMemory, name: &'static str, values: &[T]) -> Allocation {
    let allocation = memory.alloc(std::mem::size_of_val(values), name).unwrap();
    // SAFETY: elements have no padding.
    let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), std::mem::size_of_val(values)) };
    allocation.write(0, bytes).unwrap();
    allocation
}

fn download<T: Element + Default>(allocation: &Allocation, count: usize) -> Vec<T> {
    let mut values = vec![T::default(); count];
    // SAFETY: elements have no padding, and take any bits.
    let bytes = unsafe {
        std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), std::mem::size_of_val(&values[..]))
    };
    allocation.read(0, bytes).unwrap();
    values
}

fn relative_error(got: &[f64], want: &[f64]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    norm(&mut got.iter().zip(want).map(|(g, w)| g - w)) / norm(&mut want.iter().copied())
}

type Scores<T> = Kernel<(Global<T>, Global<T>, Global<T>, GlobalMut<T>, f32)>;

fn attention<T: Element + Default>(
    kernel: Scores<T>,
    causal: bool,
    of: impl Fn(f64) -> T,
    to: impl Fn(T) -> f64,
) -> f64 {
    let memory = GlobalMemory::new();
    let values = |seed| (0..N * N).map(|i| of(number(i, seed))).collect::<Vec<_>>();
    let (q, k, v) = (values(1), values(2), values(3));
    let [dq, dk, dv] = [("q", &q), ("k", &k), ("v", &v)].map(|(name, values)| upload(&memory, name, values));
    let o = upload(&memory, "o", &[T::default(); N * N]);
    let scale = 0.125 * std::f32::consts::LOG2_E;
    let arguments = (
        Global::from_address(dq.address()),
        Global::from_address(dk.address()),
        Global::from_address(dv.address()),
        GlobalMut::from_address(o.address()),
        scale,
    );
    // SAFETY: the buffers hold the tiles.
    Launch::new("scores", 1, 128, &memory).run(&|| unsafe { kernel.call(arguments) }).unwrap();
    let got: Vec<f64> = download::<T>(&o, N * N).into_iter().map(&to).collect();
    let (q, k, v) = (q.into_iter().map(&to), k.into_iter().map(&to), v.into_iter().map(&to));
    let (q, k, v): (Vec<f64>, Vec<f64>, Vec<f64>) = (q.collect(), k.collect(), v.collect());
    let mut want = vec![0.0; N * N];
    for row in 0..N {
        let columns = if causal { row + 1 } else { N };
        let scores: Vec<f64> = (0..columns)
            .map(|column| (0..N).map(|d| q[row * N + d] * k[column * N + d]).sum::<f64>() * 0.125)
            .collect();
        let max = scores.iter().copied().fold(f64::MIN, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
        let sum: f64 = weights.iter().sum();
        for d in 0..N {
            want[row * N + d] = weights.iter().enumerate().map(|(c, w)| w * v[c * N + d]).sum::<f64>() / sum;
        }
    }
    relative_error(&got, &want)
}

#[test]
fn a_tile_of_attention_by_rows_of_accumulators_is_right() {
    let error = attention(scores_f16, false, f16::from_f64, f16::to_f64);
    assert!(error < 1e-3, "f16: {error:e}");
    let error = attention(scores_bf16_causal, true, bf16::from_f64, bf16::to_f64);
    assert!(error < 8e-3, "bf16, causal: {error:e}");
}

#[test]
fn slices_by_at_read_the_stage_and_step_that_they_name() {
    type Product = Kernel<(Global<f16>, Global<f16>, GlobalMut<f32>, u32)>;
    let run = |kernel: Product, stage: u32| {
        let memory = GlobalMemory::new();
        let values = |seed| (0..2 * N * N).map(|i| f16::from_f64(number(i, seed))).collect::<Vec<_>>();
        let (a, b) = (values(4), values(5));
        let (da, db) = (upload(&memory, "a", &a), upload(&memory, "b", &b));
        let c = upload(&memory, "c", &vec![0.0f32; N * N]);
        let arguments = (
            Global::from_address(da.address()),
            Global::from_address(db.address()),
            GlobalMut::from_address(c.address()),
            stage,
        );
        // SAFETY: the buffers hold the matrices.
        Launch::new("steps", 1, 128, &memory)
            .shared_bytes(kernel.shared_bytes())
            .run(&|| unsafe { kernel.call(arguments) })
            .unwrap();
        let got: Vec<f64> = download::<f32>(&c, N * N).into_iter().map(f64::from).collect();
        let mut want = vec![0.0; N * N];
        for (row, column) in (0..N).flat_map(|i| (0..N).map(move |j| (i, j))) {
            let of = |values: &[f16], i: usize, k: usize| values[i * 2 * N + stage as usize * N + k].to_f64();
            want[row + column * N] = (0..N).map(|k| of(&a, row, k) * of(&b, column, k)).sum();
        }
        relative_error(&got, &want)
    };
    for stage in [0, 1] {
        for (name, kernel) in [("at", steps_at), ("part_last", steps_part)] {
            let error = run(kernel, stage);
            assert!(error < 1e-6, "{name}, stage {stage}: {error:e}");
        }
    }
}

fn module() -> (&'static str, Module) {
    let [(arch, text)] = PTX else { panic!("one architecture") };
    assert_eq!(*arch, "sm_80");
    (text, Module::parse(text).unwrap())
}

#[test]
fn fragments_stay_in_registers_and_ptxas_spills_nothing() {
    let (text, module) = module();
    assert!(module.functions.is_empty(), "functions that were not inlined: {:?}", module.functions);
    for kernel in &module.kernels {
        assert!(!kernel.uses_local(), "{} uses local memory: {:?}", kernel.name, kernel.instructions);
    }
    let arch = "sm_80".parse().unwrap();
    if let Some(ptxas) = Ptxas::find_for(arch) {
        for (name, usage) in &ptxas.assemble(text, arch).unwrap().kernels {
            assert_eq!((usage.spills(), usage.stack), (0, 0), "{name} spills: {usage:?}");
        }
    }
}

#[test]
fn rows_of_accumulators_take_one_instruction_an_element_and_pairs_are_converted_together() {
    let (_, module) = module();
    // Of 64 x 64 scores by 128 threads, each has 32.
    for (name, pairs, single) in [
        ("scores_f16", "cvt.rn.f16x2.f32", "cvt.rn.f16.f32"),
        ("scores_bf16_causal", "cvt.rn.bf16x2.f32", "cvt.rn.bf16.f32"),
    ] {
        let kernel = module.kernel(name).unwrap();
        let instructions = &kernel.instructions;
        assert_eq!(kernel.count("ex2.approx"), 32, "{name}: {instructions:?}");
        assert_eq!(
            kernel.count("fma.rn.f32"),
            32,
            "{name}: scale and maximum by one instruction: {instructions:?}"
        );
        assert!(kernel.count("sub") + kernel.count("neg") <= 4, "{name}: {instructions:?}");
        assert_eq!(kernel.count(pairs), 16 + 16, "{name}: of P and of O: {instructions:?}");
        assert_eq!(kernel.count(single), 0, "{name}: {instructions:?}");
        // Two rows, by two shuffles, of the maximum and the sum.
        assert_eq!(kernel.count("shfl.sync.bfly"), 2 * 2 * 2, "{name}: {instructions:?}");
        // The operands' 144 pairs are loaded as 288 numbers, the mask has some; pairs of P are used
        // as they are converted.
        assert!(kernel.count("or.b32") < 144 + 48, "{name}: {instructions:?}");
    }
}

#[test]
fn at_costs_no_more_than_slices_by_stage_and_step() {
    let (_, module) = module();
    let (at, part) = (module.kernel("steps_at").unwrap(), module.kernel("steps_part").unwrap());
    assert_eq!(at.count("ldmatrix"), part.count("ldmatrix"));
    // Some of what is computed once may differ; there are 16 steps.
    assert!(at.len() < part.len() + 8, "{} and {}: {:?}", at.len(), part.len(), at.instructions);
    assert_eq!(at.count("xor"), part.count("xor"), "{:?}", at.instructions);
}
