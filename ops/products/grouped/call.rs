//! Builds the launches of a call.

use super::kernel::{CopyA, CopyB, Grouped, GroupedKernels, Square, Wide};
use crate::launches;
use crate::operand::{self, Ends, Results, Rows, Source};
use moye_device::atom::tma::{TmaElement, TmaTile};
use moye_runtime::operation::{self, ArrayType, Call, Dtype, Launcher, Operation};
use moye_runtime::{Error, Ptx, Rates, Result, Stream};
use std::marker::PhantomData;

/// The name in messages.
pub const NAME: &str = "grouped";

/// Rows, N, K and groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem {
    m: u32,
    n: u32,
    k: u32,
    groups: u32,
    /// The tile, or "auto".
    tile: &'static str,
}

/// The tiles that a caller may name; pairs are clusters of two blocks.
pub const TILES: &[&str] = &["auto", "128x256 pairs", "128x256", "128x128"];

/// A kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The index of the instance.
    instance: usize,
    pub name: &'static str,
    pub tile: (u32, u32),
    pub cluster: u32,
    /// The tiles of the tensor maps of A and B.
    pub maps: [&'static TmaTile; 2],
    /// The rate at full occupancy, relative to the best.
    pub rate: f64,
}

/// Threads of a block.
pub(crate) const THREADS: u32 = 384;

/// The kernels of an element type, in the order of the instances.
pub(crate) const fn plans<T: Grouped>() -> [Plan; 3] {
    [
        Plan {
            instance: 0,
            name: "128x256 pairs",
            tile: (128, 256),
            cluster: 2,
            maps: [&CopyA::<T, Wide>::TILE, &CopyB::<T, Wide, 2>::TILE],
            rate: 1.0,
        },
        Plan {
            instance: 1,
            name: "128x256",
            tile: (128, 256),
            cluster: 1,
            maps: [&CopyA::<T, Wide>::TILE, &CopyB::<T, Wide, 1>::TILE],
            rate: 0.97,
        },
        Plan {
            instance: 2,
            name: "128x128",
            tile: (128, 128),
            cluster: 1,
            maps: [&CopyA::<T, Square>::TILE, &CopyB::<T, Square, 1>::TILE],
            rate: 0.8,
        },
    ]
}

/// Addresses and strides: rows (1, m, k), matrices (groups, n, k), and the rows of the result.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Arguments {
    pub a: Rows,
    pub b: Rows,
    pub ends: Ends,
    pub c: Results,
}

/// The products of operands `T`.
struct GroupedOf<T>(PhantomData<T>);

impl<T: Grouped + GroupedKernels + TmaElement> Operation for GroupedOf<T> {
    type Problem = Problem;
    type Plan = Plan;
    type Call = Arguments;
    const NAME: &'static str = NAME;

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates(problem: &Problem, _: &Rates) -> Vec<Plan> {
        let plans = plans::<T>().into_iter();
        plans.filter(|plan| [plan.name, "auto"].contains(&problem.tile)).collect()
    }

    fn cost(plan: &Plan, problem: &Problem, card: &Rates) -> f64 {
        // On average a group's last tile is half empty.
        let (m, n) = (plan.tile.0 * plan.cluster, plan.tile.1);
        let rows = f64::from(problem.m) / f64::from(m) + 0.5 * f64::from(problem.groups);
        let clusters = rows * f64::from(problem.n.div_ceil(n));
        let waves = clusters / f64::from((card.multiprocessors / plan.cluster).max(1));
        waves.max(1.0) * f64::from(plan.tile.0 * plan.tile.1) / plan.rate
    }

    fn kernel(plan: &Plan) -> &'static str {
        T::KERNELS[plan.instance].name()
    }

    unsafe fn launch(plan: &Plan, problem: &Problem, call: &Arguments, on: &Launcher<'_>) -> Result<()> {
        let &Problem { m, n, k, groups, .. } = problem;
        let a = call.a.map::<T>(on.stream(), plan.maps[0])?;
        let b = call.b.map::<T>(on.stream(), plan.maps[1])?;
        let (c, target) = call.c.target::<T>(on.stream(), m)?;
        let rows = m / (plan.tile.0 * plan.cluster) + groups;
        let tiles = launches::tiles(rows, n, plan.tile.1);
        let grid = launches::persistent(NAME, on, tiles, plan.cluster, THREADS)?;
        let band = 2048 / (plan.tile.0 * plan.cluster);
        // SAFETY: the maps are of the operands, which stay in the device's memory until the work is
        // complete.
        unsafe {
            on.launch(
                &T::KERNELS[plan.instance],
                grid,
                (&a, &b, c.pass(), target, call.ends.groups(groups, m), n, k, band),
            )
        }
    }
}

/// Element type and shape of the result.
pub fn results(inputs: &[Option<ArrayType>]) -> Result<Vec<ArrayType>> {
    let [a, b, ends] = [0, 1, 2].map(|i| inputs[i].as_ref().expect("checked: it is not optional"));
    if a.dtype != b.dtype {
        let detail = format!("a has elements of {}, and b of {}; convert one of them", a.dtype, b.dtype);
        return Err(Error::ShapeMismatch { operation: NAME, detail });
    }
    let shape = operand::shape_of_products(NAME, [a, b], Some(ends))?;
    Ok(vec![ArrayType { dtype: a.dtype, shape }])
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let [a, b, ends, c] = [0, 1, 2, 3].map(|i| call.operand(i));
    if c.elements() == 0 {
        return Ok(());
    }
    launches::check_hopper(NAME, stream)?;
    let ends = operand::groups(a, Some(ends));
    let sources = [Source::Groups(a), Source::Matrices(b)];
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    let (_work, [a, b]) = unsafe { operand::both_aligned(NAME, stream, sources)? };
    let arguments = Arguments { a, b, ends, c: Results::of(c) };
    // SAFETY: the arguments are those of the call.
    unsafe { products(stream, c.dtype, call.options.choice("tile"), &arguments) }
}

/// Computes the products of f16 or bf16 whose operands tensor maps take.
///
/// # Safety
/// The operands and the ends are readable memory of the stream's device, and the result's rows are
/// writable, until the work is complete.
pub(crate) unsafe fn products(
    stream: &Stream,
    dtype: Dtype,
    tile: &'static str,
    arguments: &Arguments,
) -> Result<()> {
    let Arguments { a, b, .. } = arguments;
    let [m, n, k, groups] = [a.shape[1], b.shape[1], a.shape[2], b.shape[0]];
    let problem = Problem { m, n, k, groups, tile };
    // SAFETY: the arguments' memory is accessible until the work is complete.
    unsafe {
        if dtype == Dtype::F16 {
            operation::run::<GroupedOf<half::f16>>(stream, &problem, arguments)
        } else {
            operation::run::<GroupedOf<half::bf16>>(stream, &problem, arguments)
        }
    }
}

/// The kernel of a call.
pub fn explain(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    launches::check_hopper(NAME, stream)?;
    let [a, b] = [0, 1].map(|i| call.operand(i));
    let m = a.shape[..a.shape.len() - 1].iter().product::<usize>() as u32;
    let [groups, n] = [0, 1].map(|mode| b.shape[mode] as u32);
    let k = Source::Groups(a).columns() as u32;
    let problem = Problem { m, n, k, groups, tile: call.options.choice("tile") };
    if a.dtype == Dtype::F16 {
        launches::kernel_of::<GroupedOf<half::f16>>(stream, &problem)
    } else {
        launches::kernel_of::<GroupedOf<half::bf16>>(stream, &problem)
    }
}
