//! Builds the launches of a call.

use super::kernel::{Arguments as Scalars, BlockScaledKernels, CopyA, CopyB, Small, Square, Tall, Wide};
use super::sink::{Out, OutScales};
use crate::launches;
use crate::operand::{self, Ends, Mapped, Place, Results, Rows, ScalesAt, Source};
use moye_device::atom::tma::TmaTile;
use moye_device::collective::{SCALED_K, Target};
use moye_device::memory::GlobalMut;
use moye_device::number::F8E4M3;
use moye_runtime::operation::{self, Array, ArrayType, Call, Dtype, Launcher, Operation, Options};
use moye_runtime::{Error, Ptx, Rates, Result, Stream};
use std::marker::PhantomData;

/// The name in messages.
pub const NAME: &str = "block_scaled";

/// Element types of results.
pub const RESULTS: &[Dtype] = &[Dtype::Bf16, Dtype::F16, Dtype::F32, Dtype::E4m3];

/// Rows, N, K and groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem {
    m: u32,
    n: u32,
    k: u32,
    groups: u32,
    /// The tile, or "auto".
    tile: &'static str,
    /// The suffix of a kernel's name after the tile: the types of operands, or the kind of scales.
    kind: &'static str,
}

/// The tiles that a caller may name.
pub const TILES: &[&str] = &["auto", "128x256", "192x128", "128x128", "64x64"];

/// A kernel: a block's tile, blocks of a cluster and of an SM's time.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// The index among the kernels of the result type.
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

/// The tiles; each result type has kernels for some of them.
const PLANS: [Plan; 4] = [
    Plan {
        instance: 0,
        name: "128x256",
        tile: (128, 256),
        cluster: 2,
        threads: 384,
        maps: [&CopyA::<Wide>::TILE, &CopyB::<Wide, 2>::TILE],
        rate: 0.93,
    },
    Plan {
        instance: 0,
        name: "192x128",
        tile: (192, 128),
        cluster: 2,
        threads: 512,
        maps: [&CopyA::<Tall>::TILE, &CopyB::<Tall, 2>::TILE],
        rate: 1.0,
    },
    Plan {
        instance: 0,
        name: "128x128",
        tile: (128, 128),
        cluster: 1,
        threads: 384,
        maps: [&CopyA::<Square>::TILE, &CopyB::<Square, 1>::TILE],
        rate: 0.79,
    },
    Plan {
        instance: 0,
        name: "64x64",
        tile: (64, 64),
        cluster: 1,
        threads: 256,
        maps: [&CopyA::<Small>::TILE, &CopyB::<Small, 1>::TILE],
        rate: 0.37,
    },
];

/// Addresses and strides.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Arguments {
    a: Rows,
    b: Rows,
    scale_a: ScalesAt,
    scale_b: ScalesAt,
    /// Scales of whole rows of B.
    columns: ScalesAt,
    ends: Ends,
    c: Results,
    /// The address of the scales of an 8-bit result, and their strides: from the end of a padded
    /// group to the next, and of rows and blocks.
    out_scales: (u64, Place),
}

/// A result type with its kernels.
trait Kernels: BlockScaledKernels + Out {
    /// The kernel's parameters for `rows` rows of results.
    fn target(results: Results, stream: &Stream, rows: u32) -> Result<(Mapped, Target<Self>)>;
}
macro_rules! kernels {
    ($($t:ty: |$results:ident, $stream:ident, $rows:ident| $target:expr;)+) => { $(
        impl Kernels for $t {
            fn target($results: Results, $stream: &Stream, $rows: u32) -> Result<(Mapped, Target<Self>)> {
                $target
            }
        }
    )+ };
}
kernels! {
    half::bf16: |results, stream, rows| results.target(stream, rows);
    half::f16: |results, stream, rows| results.target(stream, rows);
    f32: |results, _stream, _rows| Ok(results.plain());
    F8E4M3: |results, _stream, _rows| Ok(results.plain());
}

/// The product with results `O`.
struct BlockScaled<O>(PhantomData<O>);

impl<O: Kernels> BlockScaled<O> {
    /// The index of the kernel of a tile for a kind of operands.
    fn instance(tile: &str, kind: &str) -> Option<usize> {
        let is = |name: &str| {
            let of_type = name.strip_prefix("block_scaled_").and_then(|name| name.split_once('_'));
            of_type.is_some_and(|(_, rest)| rest.strip_prefix(tile) == Some(kind))
        };
        O::KERNELS.iter().position(|kernel| is(kernel.name()))
    }

    /// Refuses calls that no kernel computes.
    fn check(problem: &Problem, dtype: Dtype) -> Result<()> {
        let tiles = |kind: &str| {
            let has = |plan: &&Plan| Self::instance(plan.name, kind).is_some();
            PLANS.iter().filter(has).map(|plan| plan.name).collect::<Vec<_>>()
        };
        let (tiles, Problem { tile, kind, .. }) = (tiles(problem.kind), problem);
        if tiles.is_empty() {
            let detail = format!(
                "there is no kernel \"{}\" with results of {dtype}; bfloat16 and float32 have those of mixed operands \
                 and of scales of 1 x 128 elements of b, the latter of float8_e4m3fn",
                kind.trim_start_matches('_')
            );
            return Err(Error::Unsupported { operation: NAME, detail });
        }
        if *tile != "auto" && !tiles.contains(tile) {
            let detail = format!("tile is {tile}, and results of {dtype} have {} here", tiles.join(", "));
            return Err(Error::Unsupported { operation: NAME, detail });
        }
        Ok(())
    }
}

impl<O: Kernels> Operation for BlockScaled<O> {
    type Problem = Problem;
    type Plan = Plan;
    type Call = Arguments;
    const NAME: &'static str = NAME;

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates(problem: &Problem, _: &Rates) -> Vec<Plan> {
        let named = PLANS.into_iter().filter(|plan| [plan.name, "auto"].contains(&problem.tile));
        let of = |plan: Plan| Some(Plan { instance: Self::instance(plan.name, problem.kind)?, ..plan });
        named.filter_map(of).collect()
    }

    fn cost(plan: &Plan, problem: &Problem, card: &Rates) -> f64 {
        // On average a group's last tile is half empty.
        let rows =
            problem.m.div_ceil(plan.tile.0 * plan.cluster) + problem.groups.saturating_sub(1).div_ceil(2);
        let workers = u64::from((card.multiprocessors / plan.cluster).max(1));
        let waves = launches::tiles(rows, problem.n, plan.tile.1).div_ceil(workers);
        waves as f64 * f64::from(plan.tile.0 * plan.tile.1) / plan.rate
    }

    fn kernel(plan: &Plan) -> &'static str {
        O::KERNELS[plan.instance].name()
    }

    unsafe fn launch(plan: &Plan, problem: &Problem, call: &Arguments, on: &Launcher<'_>) -> Result<()> {
        let &Problem { m, n, k, groups, .. } = problem;
        let a = call.a.map::<u8>(on.stream(), plan.maps[0])?;
        let b = call.b.map::<u8>(on.stream(), plan.maps[1])?;
        let (c, target) = O::target(call.c, on.stream(), m)?;
        let rows = plan.tile.0 * plan.cluster;
        let (out_scales, Place { batch: group, row, column }) = call.out_scales;
        let scalars = Scalars {
            scale_a: call.scale_a.scales(),
            scale_b: call.scale_b.scales(),
            columns: call.columns.scales(),
            scales: OutScales { scales: GlobalMut::from_address(out_scales), row, column, group },
            groups: call.ends.groups(groups, m),
            n,
            k,
            band: 2048 / rows,
        };
        let tiles = launches::tiles(m / rows + groups, n, plan.tile.1);
        let grid = launches::persistent(NAME, on, tiles, plan.cluster, plan.threads)?;
        // SAFETY: the maps are of the operands, which stay in the device's memory until the work is
        // complete.
        unsafe { on.launch(&O::KERNELS[plan.instance], grid, (&a, &b, c.pass(), target, scalars)) }
    }
}

/// Checks that the scales have one of the `wanted` shapes, or extent 1 along any mode.
fn check_scales(name: &str, shape: &[usize], wanted: &[Vec<usize>]) -> Result<()> {
    let fits = |wanted: &Vec<usize>| {
        shape.len() == wanted.len()
            && shape.iter().zip(wanted).all(|(&extent, &wanted)| extent == wanted || extent == 1)
    };
    if wanted.iter().any(fits) {
        return Ok(());
    }
    let shapes: Vec<_> = wanted.iter().map(|wanted| format!("{wanted:?}")).collect();
    let detail = format!(
        "{name} has shape {shape:?}, and must have {}, of which any extent may be 1 for a scale of all",
        shapes.join(" or ")
    );
    Err(Error::ShapeMismatch { operation: NAME, detail })
}

/// Blocks of 128 elements.
const fn blocks(extent: usize) -> usize {
    extent.div_ceil(SCALED_K as usize)
}

/// Element types and shapes of the results.
pub fn results(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let [a, b, scale_a, scale_b] =
        [0, 1, 2, 3].map(|i| inputs[i].as_ref().expect("checked: it is not optional"));
    let shape = operand::shape_of_products(NAME, [a, b], inputs[4].as_ref())?;
    let scales = |shape: &[usize], rows: usize| {
        let (mut scales, rank) = (shape.to_vec(), shape.len());
        scales[rank - 1] = blocks(shape[rank - 1]).max(1);
        scales[rank - 2] = shape[rank - 2].div_ceil(rows);
        scales
    };
    check_scales("scale_a", &scale_a.shape, &[scales(&a.shape, 1)])?;
    check_scales("scale_b", &scale_b.shape, &[scales(&b.shape, 128), scales(&b.shape, 1)])?;
    let dtype = options.dtype("dtype");
    if !RESULTS.contains(&dtype) {
        let detail = format!("dtype is {dtype}, and may be bfloat16, float16, float32 or float8_e4m3fn");
        return Err(Error::Unsupported { operation: NAME, detail });
    }
    let mut of_blocks = shape.clone();
    let last = of_blocks.last_mut().expect("a product has modes");
    *last = blocks(*last);
    let mut results = vec![ArrayType { dtype, shape }];
    if dtype == Dtype::E4m3 {
        results.push(ArrayType { dtype: Dtype::F32, shape: of_blocks });
    }
    Ok(results)
}

/// The part of a kernel's name for the types of operands, or for scales of rows of B.
fn kind([a, b]: [Dtype; 2], by_rows: bool) -> &'static str {
    match (a, b, by_rows) {
        (Dtype::E4m3, Dtype::E4m3, false) => "",
        (Dtype::E4m3, Dtype::E4m3, true) => "_rows",
        (Dtype::E4m3, _, false) => "_e4m3_e5m2",
        (_, Dtype::E4m3, false) => "_e5m2_e4m3",
        (_, _, false) => "_e5m2_e5m2",
        (..) => "_rows of float8_e5m2",
    }
}

/// Whether each row of B has separate scales, and whether one scale covers all of K.
fn by_rows(b: &Array, scale_b: &Array) -> (bool, bool) {
    let ([_, n, _], [_, rows, along_k]) = (operand::place(b).0, operand::place(scale_b).0);
    (rows == n && n > 1, along_k == 1)
}

/// Calls `$call` with `$t` as the type of results.
macro_rules! of_results {
    ($dtype:expr, $t:ident => $call:expr) => {
        match $dtype {
            Dtype::F16 => {
                type $t = half::f16;
                $call
            }
            Dtype::F32 => {
                type $t = f32;
                $call
            }
            Dtype::E4m3 => {
                type $t = F8E4M3;
                $call
            }
            _ => {
                type $t = half::bf16;
                $call
            }
        }
    };
}

/// The address and the strides of scales: 0 along modes that share a scale.
pub fn scales(operation: &'static str, name: &str, of: &Array, padded: bool) -> Result<ScalesAt> {
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
        return Err(Error::Unsupported { operation, detail });
    }
    let stride = |i: usize| if extents[i] == 1 { 0 } else { strides[i] as u32 };
    // From the end of a padded group's rows to the next group, also where all groups share scales.
    let batch = match padded && of.shape.len() == 3 {
        true => stride(2).wrapping_sub(stride(0).wrapping_mul(rows as u32)),
        false => stride(2),
    };
    Ok(ScalesAt { address: of.address, row: stride(0), k: stride(1), batch })
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let [a, b, scale_a, scale_b, c] = [0, 1, 2, 3, 5].map(|i| call.operand(i));
    if c.elements() == 0 {
        return Ok(());
    }
    launches::check_hopper(NAME, stream)?;
    let ends = operand::groups(a, call.operands[4].as_ref());
    let sources = [Source::Groups(a), Source::Matrices(b)];
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    let (_work, [rows_a, rows_b]) = unsafe { operand::both_aligned(NAME, stream, sources)? };
    let [m, n, k, groups] = [rows_a.shape[1], rows_b.shape[1], rows_a.shape[2], rows_b.shape[0]];
    let (by_rows, whole) = by_rows(b, scale_b);
    let kind = kind([a.dtype, b.dtype], by_rows && !whole);
    let problem = Problem { m, n, k, groups, tile: call.options.choice("tile"), kind };
    let scale_a = scales(NAME, "scale_a", scale_a, true)?;
    let (scale_b, none) = (scales(NAME, "scale_b", scale_b, false)?, ScalesAt::default());
    let (scale_b, columns) = if by_rows && whole { (none, scale_b) } else { (scale_b, none) };
    let out_scales = match &call.operands[6] {
        Some(_) if c.dtype != Dtype::E4m3 => {
            let detail =
                format!("out_scales are those of a result of float8_e4m3fn, and it is of {}", c.dtype);
            return Err(Error::ShapeMismatch { operation: NAME, detail });
        }
        Some(array) => {
            let ([_, rows, _], at) = operand::place(array);
            (array.address, Place { batch: at.batch - rows as i64 * at.row, ..at })
        }
        None if c.dtype == Dtype::E4m3 => {
            let detail = "a result of float8_e4m3fn has scales; give out_scales".to_owned();
            return Err(Error::ShapeMismatch { operation: NAME, detail });
        }
        None => (0, Place::default()),
    };
    let c_results = Results::of(c);
    let arguments =
        Arguments { a: rows_a, b: rows_b, scale_a, scale_b, columns, ends, c: c_results, out_scales };
    of_results!(c.dtype, O => {
        BlockScaled::<O>::check(&problem, c.dtype)?;
        // SAFETY: the arguments are those of the call.
        unsafe { operation::run::<BlockScaled<O>>(stream, &problem, &arguments) }
    })
}

/// The kernel of a call.
pub fn explain(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    launches::check_hopper(NAME, stream)?;
    let [a, b, scale_b] = [0, 1, 3].map(|i| call.operand(i));
    let ([_, _, of_a], [groups, n, _]) = (operand::place(a).0, operand::place(b).0);
    let (m, k) = (a.elements() / of_a.max(1), Source::Groups(a).columns());
    let [m, n, k, groups] = [m, n, k, groups].map(|extent| extent as u32);
    let (by_rows, whole) = by_rows(b, scale_b);
    let kind = kind([a.dtype, b.dtype], by_rows && !whole);
    let problem = Problem { m, n, k, groups, tile: call.options.choice("tile"), kind };
    let dtype = call.operand(5).dtype;
    of_results!(dtype, O => {
        BlockScaled::<O>::check(&problem, dtype)?;
        Ok(BlockScaled::<O>::kernel(&operation::plan::<BlockScaled<O>>(stream.device(), &problem)?))
    })
}
