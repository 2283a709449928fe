//! From a call to launches.

use super::kernel::{Arguments as Scalars, BlockScaledKernels, CopyA, CopyB, Small, Square, Tall, Wide};
use crate::operand::{self, Ends, Results, Rows, Source};
use moye::operation::{self, Array, ArrayType, Call, Dtype, Launcher, Operation, Options};
use moye::{Error, Grid, Ptx, Rates, Result, Stream};
use moye_device::atom::tma::{TmaElement, TmaTile};
use moye_device::collective::{BlockScales, Boxed, SCALED_K};
use moye_device::memory::Global;
use moye_device::number::F8E4M3;
use std::marker::PhantomData;

/// The name in messages.
pub const NAME: &str = "block_scaled";

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

/// The tiles that a caller may name.
pub const TILES: &[&str] = &["auto", "128x256", "192x128", "128x128", "64x64"];

/// A kernel: a block's tile, blocks of a cluster and of an SM's time.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// The number of the instance.
    instance: usize,
    name: &'static str,
    tile: (u32, u32),
    cluster: u32,
    threads: u32,
    /// The tiles of the tensor maps of A and B.
    maps: [&'static TmaTile; 2],
    /// The rate at full occupancy, relative to the best.
    rate: f64,
}

/// The kernels, in the order of the instances.
const PLANS: [Plan; 4] = [
    Plan {
        instance: 0,
        name: "128x256",
        tile: (128, 256),
        cluster: 2,
        threads: 384,
        maps: [&CopyA::<Wide>::TILE, &CopyB::<Wide, 2>::TILE],
        rate: 1.0,
    },
    Plan {
        instance: 1,
        name: "192x128",
        tile: (192, 128),
        cluster: 2,
        threads: 512,
        maps: [&CopyA::<Tall>::TILE, &CopyB::<Tall, 2>::TILE],
        rate: 0.95,
    },
    Plan {
        instance: 2,
        name: "128x128",
        tile: (128, 128),
        cluster: 1,
        threads: 384,
        maps: [&CopyA::<Square>::TILE, &CopyB::<Square, 1>::TILE],
        rate: 0.85,
    },
    Plan {
        instance: 3,
        name: "64x64",
        tile: (64, 64),
        cluster: 1,
        threads: 256,
        maps: [&CopyA::<Small>::TILE, &CopyB::<Small, 1>::TILE],
        rate: 0.4,
    },
];

/// Scales: the address, and the strides of rows, blocks and matrices.
type Scales = (u64, [u32; 3]);

/// Addresses and strides.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Arguments {
    a: Rows,
    b: Rows,
    scale_a: Scales,
    scale_b: Scales,
    ends: Ends,
    c: Results,
}

/// The product with results `O`.
struct BlockScaled<O>(PhantomData<O>);

impl<O: BlockScaledKernels + Boxed + TmaElement> Operation for BlockScaled<O> {
    type Problem = Problem;
    type Plan = Plan;
    type Call = Arguments;
    const NAME: &'static str = NAME;

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates(problem: &Problem, _: &Rates) -> Vec<Plan> {
        PLANS.into_iter().filter(|plan| [plan.name, "auto"].contains(&problem.tile)).collect()
    }

    fn cost(plan: &Plan, problem: &Problem, card: &Rates) -> f64 {
        let (m, n) = (plan.tile.0 * plan.cluster, plan.tile.1);
        // A group's last tile is half empty on average.
        let rows = problem.m.div_ceil(m) + problem.groups.saturating_sub(1).div_ceil(2);
        let waves = (rows * problem.n.div_ceil(n)).div_ceil((card.multiprocessors / plan.cluster).max(1));
        f64::from(waves) * f64::from(plan.tile.0 * plan.tile.1) / plan.rate
    }

    fn kernel(plan: &Plan) -> &'static str {
        O::KERNELS[plan.instance].name()
    }

    unsafe fn launch(plan: &Plan, problem: &Problem, call: &Arguments, on: &Launcher<'_>) -> Result<()> {
        let &Problem { m, n, k, groups, .. } = problem;
        let a = call.a.map::<F8E4M3>(on.stream(), plan.maps[0])?;
        let b = call.b.map::<F8E4M3>(on.stream(), plan.maps[1])?;
        let (c, target) = call.c.target::<O>(on.stream(), m)?;
        let scales = |(address, [row, k, batch]): Scales| BlockScales {
            scales: Global::from_address(address),
            row,
            k,
            batch,
        };
        let rows = plan.tile.0 * plan.cluster;
        let scalars = Scalars {
            scale_a: scales(call.scale_a),
            scale_b: scales(call.scale_b),
            groups: call.ends.groups(groups, m),
            n,
            k,
            band: 2048 / rows,
        };
        let tiles = (m / rows + groups) * n.div_ceil(plan.tile.1);
        let clusters = (on.stream().device().rates().multiprocessors / plan.cluster).clamp(1, tiles);
        let grid = Grid::new(clusters * plan.cluster, plan.threads).clusters(plan.cluster).dependent();
        // SAFETY: the maps are of the operands, in memory of the device; the caller's contract.
        unsafe { on.launch(&O::KERNELS[plan.instance], grid, (&a, &b, c.pass(), target, scalars)) }
    }
}

/// Scales of `wanted` blocks, or of one for all along any mode.
fn check_scales(name: &str, shape: &[usize], wanted: &[usize]) -> Result<()> {
    let fits = shape.len() == wanted.len()
        && shape.iter().zip(wanted).all(|(&extent, &wanted)| extent == wanted || extent == 1);
    if fits {
        return Ok(());
    }
    let detail = format!(
        "{name} has shape {shape:?}, and must have {wanted:?}, of which any extent may be 1 for a scale of all"
    );
    Err(Error::ShapeMismatch { operation: NAME, detail })
}

/// Element type and shape of the result.
pub fn results(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let [a, b, scale_a, scale_b] =
        [0, 1, 2, 3].map(|i| inputs[i].as_ref().expect("checked: it is not optional"));
    let shape = operand::shape_of_products(NAME, [a, b], inputs[4].as_ref())?;
    let blocks = |shape: &[usize], rows: usize| {
        let (mut blocks, rank) = (shape.to_vec(), shape.len());
        blocks[rank - 1] = shape[rank - 1].div_ceil(SCALED_K as usize).max(1);
        blocks[rank - 2] = shape[rank - 2].div_ceil(rows);
        blocks
    };
    check_scales("scale_a", &scale_a.shape, &blocks(&a.shape, 1))?;
    check_scales("scale_b", &scale_b.shape, &blocks(&b.shape, 128))?;
    let dtype = options.dtype("dtype");
    if !matches!(dtype, Dtype::Bf16 | Dtype::F16) {
        let detail = format!("dtype is {dtype}, and may be bfloat16 or float16");
        return Err(Error::Unsupported { operation: NAME, detail });
    }
    Ok(vec![ArrayType { dtype, shape }])
}

/// The address and the strides of scales: 0 where one scale is for all.
fn scales(name: &str, of: &Array, padded: bool) -> Result<Scales> {
    let ([batches, rows, blocks], at) = operand::place(of);
    let extents = [rows, blocks, batches];
    let strides = [at.row, at.column, at.batch];
    let reach: i64 = (0..3).map(|i| (extents[i] as i64 - 1).max(0) * strides[i]).sum();
    if strides.iter().zip(extents).any(|(&stride, extent)| stride < 0 && extent > 1)
        || reach > i32::MAX.into()
    {
        let detail = format!(
            "{name} has shape {:?} and strides {:?}, and must have strides of 0 or more and end within {} elements; \
             copy it",
            of.shape,
            of.strides,
            i32::MAX
        );
        return Err(Error::Unsupported { operation: NAME, detail });
    }
    let stride = |i: usize| if extents[i] == 1 { 0 } else { strides[i] as u32 };
    // From the end of a padded group's rows to the next group.
    let past = if padded { stride(2).wrapping_sub(stride(0) * rows as u32) } else { stride(2) };
    Ok((of.address, [stride(0), stride(1), if batches == 1 { 0 } else { past }]))
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let [a, b, scale_a, scale_b, c] = [0, 1, 2, 3, 5].map(|i| call.operand(i));
    if c.elements() == 0 {
        return Ok(());
    }
    operand::check_hopper(NAME, stream)?;
    let ends = operand::groups(a, call.operands[4].as_ref());
    let (a, b) = (Source::Groups(a), Source::Matrices(b));
    // Held until all has been launched.
    let work = operand::workspace(stream, &[a, b])?;
    let mut next = work.as_ref().map_or(0, |work| work.address());
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    let [rows_a, rows_b] = unsafe { [a.rows(stream, &mut next)?, b.rows(stream, &mut next)?] };
    let [m, n, k, groups] = [rows_a.shape[1], rows_b.shape[1], rows_a.shape[2], rows_b.shape[0]];
    let problem = Problem { m, n, k, groups, tile: call.options.choice("tile") };
    let [scale_a, scale_b] = [scales("scale_a", scale_a, true)?, scales("scale_b", scale_b, false)?];
    let arguments = Arguments { a: rows_a, b: rows_b, scale_a, scale_b, ends, c: Results::of(c) };
    // SAFETY: the arguments are those of the call.
    unsafe {
        if c.dtype == Dtype::F16 {
            operation::run::<BlockScaled<half::f16>>(stream, &problem, &arguments)
        } else {
            operation::run::<BlockScaled<half::bf16>>(stream, &problem, &arguments)
        }
    }
}

/// The kernel of a call.
pub fn explain(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    operand::check_hopper(NAME, stream)?;
    let ([_, _, k], [groups, n, _]) = (operand::place(call.operand(0)).0, operand::place(call.operand(1)).0);
    let m = call.operand(0).elements() / k.max(1);
    let [m, n, k, groups] = [m, n, k, groups].map(|extent| extent as u32);
    let problem = Problem { m, n, k, groups, tile: call.options.choice("tile") };
    let plan = operation::plan::<BlockScaled<half::bf16>>(stream.device(), &problem)?;
    Ok(if call.operand(5).dtype == Dtype::F16 {
        BlockScaled::<half::f16>::kernel(&plan)
    } else {
        BlockScaled::<half::bf16>::kernel(&plan)
    })
}
