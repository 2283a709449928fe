//! Every MMA atom: its layouts are CuTe's, and its PTX is one instruction. Its result on the
//! simulator equals the plain triple loop's, and its result on a GPU the simulator's.

#[path = "../../fixtures/common/mod.rs"]
mod common;
mod layouts;
mod numbers;
mod ptx;
mod reference;
mod tiles;

use common::gpu;
use common::matrix::rng;
use moye::{Device, Grid, Kernel, Ptx};
use moye_device::arch::mma::Registers;
use moye_device::atom::mma::MmaAtom;
use moye_device::memory::{Global, GlobalMut};
use moye_device::number::Complex64;
use moye_kernels_mma as kernels;
use numbers::{Inputs, TestNumber};
use rand::rngs::StdRng;
use reference::Expected;
use std::fmt::Write as _;
use tiles::{Operand, sets};

/// A kernel that executes one atom once for each block.
type AtomKernel = Kernel<(Global<u32>, Global<u32>, Global<u32>, GlobalMut<u32>)>;

static PTX_SM_80: Ptx = Ptx::new("moye-kernels-mma for sm_80", kernels::PTX_SM_80);
static PTX_SM_89: Ptx = Ptx::new("moye-kernels-mma for sm_89", kernels::PTX_SM_89);

/// Warps for each kind of inputs.
const WARPS: usize = 8;
/// The maximum number of differences in a message.
const SHOWN: usize = 8;

/// An atom whose operands the tests can construct and read.
trait TestAtom: MmaAtom<A: TestNumber, B: TestNumber, C: TestNumber, D: TestNumber> {}
impl<M: MmaAtom<A: TestNumber, B: TestNumber, C: TestNumber, D: TestNumber>> TestAtom for M {}

/// The atom on every device: on the simulator compared with the triple loop, on a GPU with the
/// simulator, for the same inputs.
fn computes_the_product<M: TestAtom>(kernel: &AtomKernel) {
    // Always on the simulator: a GPU is compared with it.
    let (simulator, gpu) = (Device::sim(), gpu());
    for inputs in [Inputs::Small, Inputs::Uniform, Inputs::Wide] {
        let problem = Problem::<M>::draw(inputs);
        let expected = problem.product();
        let simulated = problem.run(&simulator, kernel);
        let values = |tiles: &[Vec<M::D>]| -> Vec<Vec<Complex64>> {
            tiles.iter().map(|tile| tile.iter().map(|element| element.value()).collect()).collect()
        };
        let wanted: Vec<Vec<_>> =
            expected.iter().map(|tile| tile.iter().map(|element| element.value).collect()).collect();
        let bound = |expected: &Expected| reference::simulator_bound::<M>(inputs, expected);
        let what = format!("{} against the triple loop", simulator.name());
        compare::<M>(&what, inputs, &expected, &values(&simulated), &wanted, bound);
        if let Some(gpu) = &gpu {
            if M::OLDEST_ARCH > architecture(gpu) {
                eprintln!("{} is skipped on {}, which is older", M::NAME, gpu.name());
                continue;
            }
            let got = problem.run(gpu, kernel);
            let bound = |expected: &Expected| reference::gpu_bound::<M>(inputs, expected);
            let what = format!("{} against the simulator", gpu.name());
            compare::<M>(&what, inputs, &expected, &values(&got), &values(&simulated), bound);
        }
    }
}

fn architecture(device: &Device) -> u32 {
    let (major, minor) = device.arch().capability();
    10 * major + minor
}

fn operands<M: MmaAtom>() -> [Operand; 4] {
    let operand = |layout, words| Operand { thr_id: M::THR_ID, layout, words };
    [
        operand(M::A, M::RegistersA::WORDS),
        operand(M::B, M::RegistersB::WORDS),
        operand(M::C, M::RegistersC::WORDS),
        operand(M::D, M::RegistersD::WORDS),
    ]
}

fn draw<T>(tiles: usize, elements: usize, rng: &mut StdRng, draw: impl Fn(&mut StdRng) -> T) -> Vec<Vec<T>> {
    (0..tiles).map(|_| (0..elements).map(|_| draw(rng)).collect()).collect()
}

/// Matrices for each set of threads of some warps.
struct Problem<M: MmaAtom> {
    a: Vec<Vec<M::A>>,
    b: Vec<Vec<M::B>>,
    c: Vec<Vec<M::C>>,
}

impl<M: TestAtom> Problem<M> {
    fn draw(inputs: Inputs) -> Self {
        let mut rng = rng(&M::NAME.bytes().map(usize::from).chain([inputs as usize]).collect::<Vec<_>>());
        let [at_a, at_b, at_c, _] = operands::<M>();
        let tiles = WARPS * sets(M::THR_ID).len();
        Self {
            a: draw(tiles, at_a.tile(), &mut rng, |rng| M::A::factor(inputs, rng)),
            b: draw(tiles, at_b.tile(), &mut rng, |rng| M::B::factor(inputs, rng)),
            c: draw(tiles, at_c.tile(), &mut rng, |rng| M::C::addend(inputs, rng)),
        }
    }

    /// The triple loop.
    fn product(&self) -> Vec<Vec<Expected>> {
        let operands = self.a.iter().zip(&self.b).zip(&self.c);
        operands.map(|((a, b), c)| reference::product::<M>(a, b, c)).collect()
    }

    /// The device's result.
    fn run(&self, device: &Device, kernel: &AtomKernel) -> Vec<Vec<M::D>> {
        let [at_a, at_b, at_c, at_d] = operands::<M>();
        let per_warp = sets(M::THR_ID).len();
        let d = execute::<M>(
            device,
            kernel,
            [
                self.a.chunks(per_warp).flat_map(|tiles| at_a.scatter(tiles)).collect(),
                self.b.chunks(per_warp).flat_map(|tiles| at_b.scatter(tiles)).collect(),
                self.c.chunks(per_warp).flat_map(|tiles| at_c.scatter(tiles)).collect(),
            ],
        );
        d.chunks(32 * at_d.words).flat_map(|warp| at_d.gather(warp)).collect()
    }
}

/// Fails if `got` and `wanted` differ by more than the `bound` of the expected element.
fn compare<M: TestAtom>(
    what: &str,
    inputs: Inputs,
    expected: &[Vec<Expected>],
    got: &[Vec<Complex64>],
    wanted: &[Vec<Complex64>],
    bound: impl Fn(&Expected) -> f64,
) {
    let mut wrong = Vec::new();
    let (mut elements, mut largest_share) = (0, 0_f64);
    for (tile, expected) in expected.iter().enumerate() {
        for (index, expected) in expected.iter().enumerate() {
            let (got, wanted, bound) = (got[tile][index], wanted[tile][index], bound(expected));
            let error = (got.re - wanted.re).abs().max((got.im - wanted.im).abs());
            elements += 1;
            if bound > 0.0 {
                largest_share = largest_share.max(error / bound);
            }
            // NaN is within no bound.
            let within = error <= bound;
            if !within {
                wrong.push((tile, index, got, wanted, expected.magnitude, error, bound));
            }
        }
    }
    if std::env::var_os("MOYE_SHOW_ERRORS").is_some() {
        println!("{:<40} {inputs:?} {what}: error up to {largest_share:.3} of the bound", M::NAME);
    }
    if wrong.is_empty() {
        return;
    }
    let mut message = format!(
        "{} ({}) on {what}, {inputs:?}: {} of {elements} elements are wrong",
        M::NAME,
        M::INSTRUCTION,
        wrong.len()
    );
    let (m, per_warp, at_d) = (M::SHAPE_MNK[0] as usize, sets(M::THR_ID).len(), operands::<M>()[3]);
    for (tile, index, got, wanted, magnitude, error, bound) in wrong.into_iter().take(SHOWN) {
        let (warp, set) = (tile / per_warp, tile % per_warp);
        let (lane, value) = at_d.holder(set, index);
        let (row, column) = (index % m, index / m);
        write!(
            message,
            "\n  warp {warp}, set {set}, element ({row}, {column}), lane {lane}'s value {value}: got {}, expected {} of \
             addends {magnitude:.4e}: error {error:.3e}, bound {bound:.3e}",
            show(got.re, got.im),
            show(wanted.re, wanted.im),
        )
        .unwrap();
    }
    panic!("{message}");
}

fn show(re: f64, im: f64) -> String {
    if im == 0.0 { re.to_string() } else { format!("{re} + {im}i") }
}

/// The registers of D, warp by warp, for those of A, B and C.
fn execute<M: MmaAtom>(device: &Device, kernel: &AtomKernel, [a, b, c]: [Vec<u32>; 3]) -> Vec<u32> {
    let ptx = if M::ARCH == 89 { &PTX_SM_89 } else { &PTX_SM_80 };
    let module = device.load(ptx).unwrap();
    let [a, b, c] = [a, b, c].map(|words| device.upload(&words).unwrap());
    let mut d = device.alloc_uninit::<u32>(WARPS * 32 * M::RegistersD::WORDS).unwrap();
    let grid = Grid::new(WARPS as u32, 32);
    // SAFETY: the buffers have the registers of one warp for each block.
    unsafe { module.launch(kernel, grid, (a.as_slice(), b.as_slice(), c.as_slice(), d.as_slice_mut())) }
        .unwrap();
    d.download().unwrap()
}

macro_rules! atoms {
    (
        $(sync { $sync:ident; $($sync_rest:tt)* })*
        $(same { $same:ident; $($same_rest:tt)* })*
        $(own { $own:ident })*
    ) => {
        /// One test for each atom.
        #[allow(non_snake_case)]
        mod computes_the_product_on_every_device {
            use super::{computes_the_product, kernels};
            use moye_device::atom::mma;

            $(#[test] fn $sync() { computes_the_product::<mma::$sync>(&kernels::$sync) })*
            $(#[test] fn $same() { computes_the_product::<mma::$same>(&kernels::$same) })*
            $(#[test] fn $own() { computes_the_product::<mma::$own>(&kernels::$own) })*
        }
    };
}
moye_device::for_each_mma!(atoms);
