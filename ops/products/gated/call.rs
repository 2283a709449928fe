//! Builds the launches of a call.

use super::multistage::{MultistageKernels, Operands};
use crate::grouped::kernel::Grouped;
use crate::launches;
use crate::moe::call::{self as by_group, ROWS};
use crate::moe::gated::GatedKernels;
use crate::operand::{self, Results, Rows, Source};
use half::{bf16, f16};
use moye_device::atom::mma::Half;
use moye_device::atom::tma::TmaElement;
use moye_device::collective::Groups;
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

/// A kernel.
#[derive(Clone, Copy, Debug)]
struct Plan {
    name: &'static str,
    by: By,
    /// Rows and columns of a block's tile.
    tile: u32,
    cluster: u32,
    /// Blocks per SM.
    blocks: u32,
    /// The rate at full occupancy, relative to the best.
    rate: f64,
}

/// The MMA instructions of a kernel.
#[derive(Clone, Copy, Debug)]
enum By {
    /// `wgmma`.
    Wgmma(by_group::Plan),
    /// `mma.sync`: the index of the instance, and the threads of a block.
    MmaSync { instance: usize, threads: u32 },
}

fn plans<T: Grouped>() -> [Plan; 4] {
    let [pairs, alone] = by_group::plans::<T>();
    let wgmma = |name, plan: by_group::Plan| Plan {
        name,
        by: By::Wgmma(plan),
        tile: ROWS,
        cluster: plan.cluster,
        blocks: 1,
        rate: plan.rate,
    };
    [
        wgmma(TILES[1], pairs),
        wgmma(TILES[2], alone),
        Plan {
            name: TILES[3],
            by: By::MmaSync { instance: 0, threads: 256 },
            tile: 128,
            cluster: 1,
            blocks: 1,
            rate: 0.5,
        },
        Plan {
            name: TILES[4],
            by: By::MmaSync { instance: 1, threads: 128 },
            tile: 64,
            cluster: 1,
            blocks: 2,
            rate: 0.35,
        },
    ]
}

/// An element type with its kernels.
trait Kernels: Grouped + GatedKernels + MultistageKernels + TmaElement + Half {}
impl<T: Grouped + GatedKernels + MultistageKernels + TmaElement + Half> Kernels for T {}

/// The rows of x, of both projections, and of the result.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Arguments {
    a: Rows,
    b: Rows,
    c: Results,
}

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
        plans::<T>()
            .into_iter()
            .filter(|plan| hopper || matches!(plan.by, By::MmaSync { .. }))
            .filter(named)
            .collect()
    }

    fn cost(plan: &Plan, problem: &Problem, card: &Rates) -> f64 {
        let (rows, workers) = (plan.tile * plan.cluster, card.multiprocessors * plan.blocks / plan.cluster);
        let tiles = launches::tiles(problem.m.div_ceil(rows), problem.n, plan.tile);
        let waves = tiles.div_ceil(workers.max(1).into());
        waves as f64 * f64::from(plan.blocks * plan.tile * plan.tile) / plan.rate
    }

    fn kernel(plan: &Plan) -> &'static str {
        match plan.by {
            By::Wgmma(plan) => <T as GatedKernels>::KERNELS[plan.instance].name(),
            By::MmaSync { instance, .. } => <T as MultistageKernels>::KERNELS[instance].name(),
        }
    }

    unsafe fn launch(
        plan: &Plan,
        &Problem { m, n, k, .. }: &Problem,
        Arguments { a, b, c }: &Arguments,
        on: &Launcher<'_>,
    ) -> Result<()> {
        let (_, target) = c.plain::<T>();
        match plan.by {
            // SAFETY: the operands are accessible until the work is complete; all rows are one
            // group.
            By::Wgmma(plan) => unsafe { plan.launch::<T>(NAME, on, [a, b], target, Groups::one(m)) },
            By::MmaSync { instance, threads } => {
                let operands = Operands {
                    a: Global::from_address(a.address),
                    b: Global::from_address(b.address),
                    row_a: a.strides[1],
                    row_b: b.strides[1],
                    up: i64::from(n) * b.strides[1],
                    m,
                    k,
                };
                let tiles = launches::tiles(m.div_ceil(plan.tile), n, plan.tile);
                let grid = Grid::new(launches::tiles_in_32_bits(NAME, tiles)?, threads).dependent();
                let kernel = &<T as MultistageKernels>::KERNELS[instance];
                // SAFETY: the operands have the extents, and are accessible until the work is
                // complete.
                unsafe { on.launch(kernel, grid, (operands, target)) }
            }
        }
    }
}

/// Element type and shape of the result.
pub fn results(inputs: &[Option<ArrayType>]) -> Result<Vec<ArrayType>> {
    let [x, w] = [0, 1].map(|i| inputs[i].as_ref().expect("checked: it is not optional"));
    match (&x.shape[..], &w.shape[..]) {
        (&[m, k], &[rows, of_w]) if k == of_w && rows % 2 == 0 && x.dtype == w.dtype => {
            if [m, rows, k].iter().any(|&extent| extent > i32::MAX as usize) {
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
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    let (_work, [a, b]) = unsafe { operand::both_aligned(NAME, stream, [x, w].map(Source::Vectors))? };
    let problem = problem(call);
    // Rows of whole vectors may contain zeros past the end of K.
    let problem = Problem { k: a.shape[2], ..problem };
    let arguments = Arguments { a, b, c: Results::of(y) };
    // SAFETY: the arguments are those of the call.
    unsafe {
        if y.dtype == Dtype::F16 {
            operation::run::<Gated<f16>>(stream, &problem, &arguments)
        } else {
            operation::run::<Gated<bf16>>(stream, &problem, &arguments)
        }
    }
}

/// The problem of a call, with K rounded up to whole vectors.
fn problem(call: &Call<'_>) -> Problem {
    let ([m, k], n) = ([0, 1].map(|mode| call.operand(0).shape[mode]), call.operand(2).shape[1]);
    let [m, n, k] = [m, n, k.max(1).next_multiple_of(8)].map(|extent| extent as u32);
    Problem { m, n, k, tile: call.options.choice("tile") }
}

/// The kernel of a call.
pub fn explain(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    if call.operand(0).dtype == Dtype::F16 {
        launches::kernel_of::<Gated<f16>>(stream, &problem(call))
    } else {
        launches::kernel_of::<Gated<bf16>>(stream, &problem(call))
    }
}
