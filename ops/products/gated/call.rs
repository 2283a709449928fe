//! From a call to launches.

use super::kernel::GatedKernels;
use super::multistage::{MultistageKernels, Operands};
use crate::grouped::kernel::{CopyA, Grouped, Wide};
use crate::moe::call::pair_map;
use crate::moe::gated::CopyPair;
use crate::operand::{self, Results, Rows, Source};
use half::{bf16, f16};
use moye_device::atom::mma::Half;
use moye_device::atom::tma::{TmaElement, TmaTile};
use moye_device::memory::Global;
use moye_runtime::operation::{self, ArrayType, Call, Dtype, Launcher, Operation};
use moye_runtime::{Arch, Error, Grid, Ptx, Rates, Result, Stream};
use std::marker::PhantomData;

/// The name in messages.
pub const NAME: &str = "linear_gated";
/// The tiles that a caller may name; pairs are clusters of two blocks.
pub const TILES: &[&str] = &["auto", "128x128 pairs", "128x128", "128x128 mma", "64x64 mma"];

/// Extents, and the tile or "auto".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem {
    m: u32,
    n: u32,
    k: u32,
    tile: &'static str,
}

/// A kernel: its number in the table of `wgmma` or of `mma.sync`.
#[derive(Clone, Copy, Debug)]
struct Plan {
    instance: usize,
    name: &'static str,
    /// Rows and columns of a block's tile.
    tile: u32,
    cluster: u32,
    threads: u32,
    /// The tile of the tensor map of the gate and the up projection, if the kernel is of `wgmma`.
    pair: Option<&'static TmaTile>,
    /// Blocks of an SM.
    blocks: u32,
    /// The rate at full occupancy, relative to the best.
    rate: f64,
}

const fn plans<T: Grouped>() -> [Plan; 4] {
    let of = Plan {
        instance: 0,
        name: TILES[1],
        tile: 128,
        cluster: 2,
        threads: 384,
        pair: Some(&CopyPair::<T, 2>::TILE),
        blocks: 1,
        rate: 1.0,
    };
    [
        of,
        Plan {
            instance: 1,
            name: TILES[2],
            cluster: 1,
            pair: Some(&CopyPair::<T, 1>::TILE),
            rate: 0.97,
            ..of
        },
        Plan { instance: 0, name: TILES[3], cluster: 1, threads: 256, pair: None, rate: 0.5, ..of },
        Plan {
            instance: 1,
            name: TILES[4],
            tile: 64,
            cluster: 1,
            threads: 128,
            pair: None,
            blocks: 2,
            rate: 0.35,
        },
    ]
}

/// A type of elements with its kernels.
trait Kernels: Grouped + GatedKernels + MultistageKernels + TmaElement + Half {}
impl<T: Grouped + GatedKernels + MultistageKernels + TmaElement + Half> Kernels for T {}

/// The rows of x and of both projections, and of the result.
type Arguments = (Rows, Rows, Results);

/// Gated products of elements `T`.
struct Gated<T>(PhantomData<T>);

impl<T: Kernels> Operation for Gated<T> {
    type Problem = Problem;
    type Plan = Plan;
    type Call = Arguments;
    const NAME: &'static str = NAME;

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates(problem: &Problem, card: &Rates) -> Vec<Plan> {
        let hopper = card.arch == Arch::new(9, 0);
        let named = |plan: &Plan| [plan.name, "auto"].contains(&problem.tile);
        plans::<T>().into_iter().filter(|plan| hopper || plan.pair.is_none()).filter(named).collect()
    }

    fn cost(plan: &Plan, problem: &Problem, card: &Rates) -> f64 {
        let (rows, workers) = (plan.tile * plan.cluster, card.multiprocessors * plan.blocks / plan.cluster);
        let tiles = problem.m.div_ceil(rows) * problem.n.div_ceil(plan.tile);
        let waves = tiles.div_ceil(workers.max(1));
        f64::from(waves * plan.blocks * plan.tile * plan.tile) / plan.rate
    }

    fn kernel(plan: &Plan) -> &'static str {
        match plan.pair {
            Some(_) => <T as GatedKernels>::KERNELS[plan.instance].name(),
            None => <T as MultistageKernels>::KERNELS[plan.instance].name(),
        }
    }

    unsafe fn launch(
        plan: &Plan,
        &Problem { m, n, k, .. }: &Problem,
        &(a, b, c): &Arguments,
        on: &Launcher<'_>,
    ) -> Result<()> {
        let (rows, (_, target)) = (plan.tile * plan.cluster, c.plain::<T>());
        let tiles = m.div_ceil(rows) * n.div_ceil(plan.tile);
        let Some(pair) = plan.pair else {
            let operands = Operands {
                a: Global::from_address(a.address),
                b: Global::from_address(b.address),
                row_a: a.strides[1],
                row_b: b.strides[1],
                up: i64::from(n) * b.strides[1],
                m,
                k,
            };
            let kernel = &<T as MultistageKernels>::KERNELS[plan.instance];
            // SAFETY: the operands have the extents; the caller's contract.
            return unsafe {
                on.launch(kernel, Grid::new(tiles, plan.threads).dependent(), (operands, target))
            };
        };
        let of_a = a.map::<T>(on.stream(), &CopyA::<T, Wide>::TILE)?;
        let of_b = pair_map::<T>(on.stream(), pair, &b)?;
        let clusters = (on.stream().device().rates().multiprocessors / plan.cluster).clamp(1, tiles);
        let grid = Grid::new(clusters * plan.cluster, plan.threads).clusters(plan.cluster).dependent();
        let kernel = &<T as GatedKernels>::KERNELS[plan.instance];
        // SAFETY: the maps are of the operands, in memory of the device; the caller's contract.
        unsafe { on.launch(kernel, grid, (&of_a, &of_b, target, m, k, 2048 / rows)) }
    }
}

/// Element type and shape of the result.
pub fn results(inputs: &[Option<ArrayType>]) -> Result<Vec<ArrayType>> {
    let [x, w] = [0, 1].map(|i| inputs[i].as_ref().expect("checked: it is not optional"));
    match (&x.shape[..], &w.shape[..]) {
        (&[m, k], &[rows, of_w]) if k == of_w && rows % 2 == 0 && x.dtype == w.dtype => {
            let tiles = m.div_ceil(64) * (rows / 2).div_ceil(64);
            if [m, rows, k].iter().any(|&extent| extent > i32::MAX as usize) || tiles > i32::MAX as usize {
                let detail = format!("x has shape {:?} and gate_up {:?}; divide the rows", x.shape, w.shape);
                return Err(Error::Unsupported { operation: NAME, detail });
            }
            Ok(vec![ArrayType { dtype: x.dtype, shape: vec![m, rows / 2] }])
        }
        _ => {
            let detail = format!(
                "x has shape {:?} of {} and gate_up {:?} of {}, and they must be (m, k) and (2 * n, k) of one type",
                x.shape, x.dtype, w.shape, w.dtype
            );
            Err(Error::ShapeMismatch { operation: NAME, detail })
        }
    }
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let [x, w, y] = [0, 1, 2].map(|i| call.operand(i));
    if y.elements() == 0 {
        return Ok(());
    }
    let sources = [x, w].map(Source::Vectors);
    // Held until all has been launched.
    let work = operand::workspace(stream, &sources)?;
    let mut next = work.as_ref().map_or(0, |work| work.address());
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    let [a, b] = unsafe { [sources[0].rows(stream, &mut next)?, sources[1].rows(stream, &mut next)?] };
    let problem = problem(call);
    // Rows of vectors may have zeros past the end of K.
    let problem = Problem { k: a.shape[2], ..problem };
    let arguments = (a, b, Results::of(y));
    // SAFETY: the arguments are those of the call.
    unsafe {
        if y.dtype == Dtype::F16 {
            operation::run::<Gated<f16>>(stream, &problem, &arguments)
        } else {
            operation::run::<Gated<bf16>>(stream, &problem, &arguments)
        }
    }
}

/// The problem of a call, with the elements that rows of K have as whole vectors.
fn problem(call: &Call<'_>) -> Problem {
    let ([m, k], n) = ([0, 1].map(|mode| call.operand(0).shape[mode]), call.operand(2).shape[1]);
    let [m, n, k] = [m, n, k.max(1).next_multiple_of(8)].map(|extent| extent as u32);
    Problem { m, n, k, tile: call.options.choice("tile") }
}

/// The kernel of a call.
pub fn explain(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    if call.operand(0).dtype == Dtype::F16 {
        operand::kernel_of::<Gated<f16>>(stream, &problem(call))
    } else {
        operand::kernel_of::<Gated<bf16>>(stream, &problem(call))
    }
}
