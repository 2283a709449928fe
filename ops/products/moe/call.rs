//! Builds the launches of a call: routing, permuted rows, both products, and their sum.

use super::gated::{COLUMNS, CopyPair, GatedKernels, GatedLoop};
use super::routing::{
    COMBINE_THREADS, CombineKernels, MOST_CHOICES, MOST_EXPERTS, RouteKernels, Routes, THREADS, TOKENS,
    Weighting, moe_permute, moe_scan,
};
use crate::grouped;
use crate::grouped::kernel::{CopyA, Grouped, Wide};
use crate::launches;
use crate::operand::{self, Ends, Place, Results, Rows, Source};
use moye_device::atom::tma::{TmaElement, TmaTile};
use moye_device::collective::{Groups, Mainloop as _, Target};
use moye_device::layout::{IntTuple, Layout};
use moye_device::memory::{Element, Global, GlobalMut};
use moye_runtime::operation::{self, Array, ArrayType, Call, Dtype, Launcher, Operation, Workspace};
use moye_runtime::{Error, Grid, Ptx, Rates, Result, Stream, TensorMap, TensorMapFields, TensorPromotion};
use std::marker::PhantomData;

/// The name in messages.
pub const NAME: &str = "moe";
/// The tiles of the first product that a caller may name; pairs are clusters of two blocks.
pub const TILES: &[&str] = &["auto", "128x256 pairs", "128x256"];
/// The sources of an expert's weight: the softmax of all logits, or its logit.
pub const ROUTINGS: &[&str] = &["softmax", "plain"];

/// Bytes of the workspace start at multiples of this.
const ALIGN: usize = 256;

/// The router's results, in the workspace.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Decided {
    /// The choices, weights, places, counts and ends.
    addresses: [u64; 5],
    tokens: u32,
    experts: u32,
    top: u32,
}

impl Decided {
    /// The kernels' parameter.
    fn routes(self) -> Routes {
        let Self { addresses: [choices, weights, places, counts, ends], tokens, experts, top } = self;
        Routes {
            choices: GlobalMut::from_address(choices),
            weights: GlobalMut::from_address(weights),
            places: GlobalMut::from_address(places),
            counts: GlobalMut::from_address(counts),
            ends: GlobalMut::from_address(ends),
            tokens,
            experts,
            top,
        }
    }
}

/// Logits of elements `T`.
struct Route<T>(PhantomData<T>);

/// Addresses, strides and options of the routing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Routing {
    logits: u64,
    of_logits: Place,
    x: u64,
    of_x: Place,
    decided: Decided,
    by: Weighting,
    rows: u64,
    /// Elements of a row of x, and of `rows`.
    hidden: [u32; 2],
    aligned: bool,
}

impl<T: RouteKernels> Operation for Route<T> {
    type Problem = ();
    type Plan = ();
    type Call = Routing;
    const NAME: &'static str = NAME;

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates((): &(), _: &Rates) -> Vec<()> {
        vec![()]
    }

    fn kernel((): &()) -> &'static str {
        T::KERNELS[0].name()
    }

    unsafe fn launch((): &(), (): &(), call: &Routing, on: &Launcher<'_>) -> Result<()> {
        let &Routing { of_logits, of_x, by, hidden: [hidden, padded], aligned, .. } = call;
        let routes = call.decided.routes();
        let (logits, x) = (Global::from_address(call.logits), Global::from_address(call.x));
        let rows = GlobalMut::from_address(call.rows);
        let grid = Grid::new(routes.blocks(), THREADS).dependent();
        // SAFETY: the arrays have the tokens' rows, and the workspace has the memory of the routes.
        unsafe {
            on.launch(&T::KERNELS[0], grid, (logits, of_logits, routes, by))?;
            on.launch(&moe_scan, Grid::new(1, THREADS).dependent(), (routes,))?;
            on.launch(&moe_permute, grid, (x, of_x, routes, rows, hidden, padded, aligned))
        }
    }
}

/// The first product: rows, columns of its result, K and experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem {
    m: u32,
    n: u32,
    k: u32,
    experts: u32,
    /// The tile, or "auto".
    tile: &'static str,
}

/// A kernel of gated products.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The index of the instance.
    pub instance: usize,
    name: &'static str,
    pub cluster: u32,
    /// The tile of the tensor map of the gate and the up projection.
    pair: &'static TmaTile,
    /// The rate at full occupancy, relative to the best.
    pub rate: f64,
}

/// Rows of a block's tile.
pub(crate) const ROWS: u32 = 128;

impl Plan {
    /// Launches the product of `a`, (1, m, k), and of `b`, (groups, 2 n, k), to `target`.
    ///
    /// # Safety
    /// The operands and the groups are readable memory of the device, and the target is writable,
    /// until the work is complete.
    pub unsafe fn launch<T: Grouped + GatedKernels + TmaElement>(
        &self,
        operation: &'static str,
        on: &Launcher<'_>,
        [a, b]: [&Rows; 2],
        target: Target<T>,
        groups: Groups,
    ) -> Result<()> {
        let of_a = a.map::<T>(on.stream(), &CopyA::<T, Wide>::TILE)?;
        let of_b = pair_map::<T>(on.stream(), self.pair, b)?;
        let rows = ROWS * self.cluster;
        // Each group but one may have a tile that is not full.
        let tiles = launches::tiles(groups.rows.div_ceil(rows) + (groups.count - 1), target.columns, COLUMNS);
        let grid = launches::persistent(operation, on, tiles, self.cluster, GatedLoop::<T, 1>::THREADS)?;
        let arguments = (&of_a, &of_b, target, groups, a.shape[2], 2048 / rows);
        // SAFETY: the maps are of the operands, which stay in the device's memory until the work is
        // complete.
        unsafe { on.launch(&T::KERNELS[self.instance], grid, arguments) }
    }
}

pub(crate) const fn plans<T: Grouped>() -> [Plan; 2] {
    [
        Plan { instance: 0, name: "128x256 pairs", cluster: 2, pair: &CopyPair::<T, 2>::TILE, rate: 1.0 },
        Plan { instance: 1, name: "128x256", cluster: 1, pair: &CopyPair::<T, 1>::TILE, rate: 0.97 },
    ]
}

/// Addresses and strides of the first product.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Arguments {
    a: Rows,
    /// (experts, 2 n, k)
    b: Rows,
    ends: Ends,
    /// The address of the result, whose rows are whole vectors.
    c: u64,
}

/// The first product of operands `T`.
struct Gated<T>(PhantomData<T>);

impl<T: Grouped + GatedKernels + TmaElement> Operation for Gated<T> {
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
        let rows = f64::from(problem.m) / f64::from(ROWS * plan.cluster) + 0.5 * f64::from(problem.experts);
        let clusters = rows * f64::from(problem.n.div_ceil(COLUMNS));
        let waves = clusters / f64::from((card.multiprocessors / plan.cluster).max(1));
        waves.max(1.0) / plan.rate
    }

    fn kernel(plan: &Plan) -> &'static str {
        T::KERNELS[plan.instance].name()
    }

    unsafe fn launch(plan: &Plan, problem: &Problem, call: &Arguments, on: &Launcher<'_>) -> Result<()> {
        let columns = problem.n.next_multiple_of(8);
        let (c, row) = (GlobalMut::from_address(call.c), columns.into());
        let target = Target { c, group: 0, row, column: 1, columns, aligned: 1, tensor: 0 };
        let groups = call.ends.groups(problem.experts, problem.m);
        // SAFETY: the call's memory is accessible until the work is complete.
        unsafe { plan.launch::<T>(NAME, on, [&call.a, &call.b], target, groups) }
    }
}

/// The map of (2, n, k, experts): the gate's rows of an expert, and those of the up projection.
fn pair_map<T: TmaElement>(stream: &Stream, tile: &TmaTile, b: &Rows) -> Result<TensorMap> {
    let ([experts, rows, columns], [batch, row]) = (b.shape.map(i64::from), b.strides);
    let shape = IntTuple::flat(&[2, rows / 2, columns, experts]);
    let tensor = Layout::new(shape, IntTuple::flat(&[rows / 2 * row, row, 1, batch]));
    let fields = tile.tensor_map(T::ELEMENT, b.address, &tensor).map_err(Error::TensorOfTile)?;
    // L2 fetches whole rows of a box.
    TensorMap::new(stream.device(), &TensorMapFields { promotion: TensorPromotion::B256, ..fields })
}

/// The sum of each token's rows, of elements `T`.
struct Combine<T>(PhantomData<T>);

/// Addresses and strides of the sum.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Combined {
    rows: u64,
    decided: Decided,
    out: u64,
    of_out: Place,
    /// Elements of a row of the result, and of `rows`.
    hidden: [u32; 2],
    aligned: bool,
}

impl<T: CombineKernels + Element> Operation for Combine<T> {
    type Problem = ();
    type Plan = ();
    type Call = Combined;
    const NAME: &'static str = NAME;

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates((): &(), _: &Rates) -> Vec<()> {
        vec![()]
    }

    fn kernel((): &()) -> &'static str {
        T::KERNELS[0].name()
    }

    unsafe fn launch((): &(), (): &(), call: &Combined, on: &Launcher<'_>) -> Result<()> {
        let &Combined { of_out, hidden: [hidden, padded], aligned, .. } = call;
        let routes = call.decided.routes();
        let (rows, out) = (Global::from_address(call.rows), GlobalMut::from_address(call.out));
        let grid = Grid::new(routes.tokens, COMBINE_THREADS).dependent();
        // SAFETY: the workspace has the rows of the routes, and the result those of the tokens.
        unsafe { on.launch(&T::KERNELS[0], grid, (rows, routes, out, of_out, hidden, padded, aligned)) }
    }
}

/// Element type and shape of the result.
pub fn results(inputs: &[Option<ArrayType>], options: &operation::Options) -> Result<Vec<ArrayType>> {
    let [x, logits, gate_up, down] =
        [0, 1, 2, 3].map(|i| inputs[i].as_ref().expect("checked: it is not optional"));
    let mismatch = |detail| Err(Error::ShapeMismatch { operation: NAME, detail });
    for (name, weights) in [("gate_up", gate_up), ("down", down)] {
        if weights.dtype != x.dtype {
            return mismatch(format!(
                "x has elements of {}, and {name} of {}; convert one of them",
                x.dtype, weights.dtype
            ));
        }
    }
    let &[tokens, hidden] = &x.shape[..] else {
        return mismatch(format!("x has shape {:?}, and must be (tokens, hidden)", x.shape));
    };
    let (experts, width) = match down.shape[..] {
        [experts, rows, width] if rows == hidden && width > 0 && experts > 0 => (experts, width),
        _ => {
            return mismatch(format!(
                "down has shape {:?}, and must be (experts, {hidden}, intermediate), with an expert and a column at \
                 least",
                down.shape
            ));
        }
    };
    for (name, shape, wanted) in [
        ("logits", &logits.shape, vec![tokens, experts]),
        ("gate_up", &gate_up.shape, vec![experts, 2 * width, hidden]),
    ] {
        if *shape != wanted {
            return mismatch(format!("{name} has shape {shape:?}, and must be {wanted:?}"));
        }
    }
    let top = options.int("top");
    let most = experts.min(MOST_CHOICES as usize);
    let unsupported = |detail| Err(Error::Unsupported { operation: NAME, detail });
    if experts > MOST_EXPERTS as usize {
        return unsupported(format!("{experts} experts, and the kernels take {MOST_EXPERTS} at most"));
    }
    if top < 1 || top > most as i64 {
        return unsupported(format!("top is {top}, and of {experts} experts a token takes 1 to {most}"));
    }
    if tokens as i64 * top > i64::from(i32::MAX) {
        return unsupported(format!(
            "{tokens} tokens with {top} experts each are more rows than {}; divide the tokens",
            i32::MAX
        ));
    }
    Ok(vec![ArrayType { dtype: x.dtype, shape: vec![tokens, hidden] }])
}

/// Elements of a row that consists of vectors of 16 bytes.
fn padded(columns: usize) -> usize {
    columns.next_multiple_of(8)
}

/// Whether the rows of a matrix are whole vectors of 16 bytes.
fn is_aligned(array: &Array) -> bool {
    let ([_, rows, columns], at) = operand::place(array);
    array.address.is_multiple_of(16)
        && columns % 8 == 0
        && (columns == 1 || at.column == 1)
        && (rows == 1 || at.row % 8 == 0)
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let [x, logits, gate_up, down, out] = [0, 1, 2, 3, 4].map(|i| call.operand(i));
    if out.elements() == 0 {
        return Ok(());
    }
    launches::check_hopper(NAME, stream)?;
    let ([tokens, hidden], [experts, _, width]) =
        ([x.shape[0], x.shape[1]], [0, 1, 2].map(|i| down.shape[i]));
    let top = call.options.int("top") as usize;
    let rows = tokens * top;
    let pieces = [
        4 * rows,
        4 * rows,
        4 * rows,
        4 * experts * tokens.div_ceil(TOKENS as usize),
        4 * experts,
        2 * rows * padded(hidden),
        2 * rows * padded(width),
    ]
    .map(|bytes| bytes.next_multiple_of(ALIGN));
    let (gate_up, down) = (Source::Matrices(gate_up), Source::Matrices(down));
    let aligned = gate_up.bytes() + down.bytes();
    // Held until everything is launched.
    let work = Workspace::new(stream, pieces.iter().sum::<usize>() + aligned)?;
    let mut next = work.as_ref().map_or(0, |work| work.address());
    let [choices, weights, places, counts, ends, permuted, inner] = pieces.map(|bytes| {
        next += bytes as u64;
        next - bytes as u64
    });
    let decided = Decided {
        addresses: [choices, weights, places, counts, ends],
        tokens: tokens as u32,
        experts: experts as u32,
        top: top as u32,
    };
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    let [gate_up, down] =
        unsafe { [gate_up.rows(NAME, stream, &mut next)?, down.rows(NAME, stream, &mut next)?] };

    let by = Weighting {
        softmax: call.options.choice("routing") == "softmax",
        renormalise: call.options.bool("renormalise"),
    };
    let routing = Routing {
        logits: logits.address,
        of_logits: operand::place(logits).1,
        x: x.address,
        of_x: operand::place(x).1,
        decided,
        by,
        rows: permuted,
        hidden: [hidden as u32, padded(hidden) as u32],
        aligned: is_aligned(x),
    };
    let matrix = |address: u64, columns: usize| {
        let row = padded(columns) as i64;
        Rows { address, shape: [1, rows as u32, columns as u32], strides: [rows as i64 * row, row] }
    };
    let problem = Problem {
        m: rows as u32,
        n: width as u32,
        k: hidden as u32,
        experts: experts as u32,
        tile: call.options.choice("tile"),
    };
    let ends = Ends { address: ends, apart: 0 };
    let first = Arguments { a: matrix(permuted, hidden), b: gate_up, ends, c: inner };
    // The rows of the second product overwrite the permuted rows, which have been read.
    let second = Array {
        dtype: x.dtype,
        shape: vec![rows, hidden],
        strides: vec![padded(hidden) as i64, 1],
        address: permuted,
    };
    let combined = Combined {
        rows: permuted,
        decided,
        out: out.address,
        of_out: operand::place(out).1,
        hidden: routing.hidden,
        aligned: is_aligned(out),
    };
    // SAFETY: the arguments are those of the call, and the workspace's pieces.
    unsafe {
        match logits.dtype {
            Dtype::F32 => operation::run::<Route<f32>>(stream, &(), &routing)?,
            Dtype::F16 => operation::run::<Route<half::f16>>(stream, &(), &routing)?,
            _ => operation::run::<Route<half::bf16>>(stream, &(), &routing)?,
        }
        if x.dtype == Dtype::F16 {
            operation::run::<Gated<half::f16>>(stream, &problem, &first)?;
        } else {
            operation::run::<Gated<half::bf16>>(stream, &problem, &first)?;
        }
        grouped::call::products(
            stream,
            x.dtype,
            "auto",
            &grouped::call::Arguments { a: matrix(inner, width), b: down, ends, c: Results::of(&second) },
        )?;
        if x.dtype == Dtype::F16 {
            operation::run::<Combine<half::f16>>(stream, &(), &combined)
        } else {
            operation::run::<Combine<half::bf16>>(stream, &(), &combined)
        }
    }
}

/// The kernel of a call's first product.
pub fn explain(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    launches::check_hopper(NAME, stream)?;
    let (x, down) = (call.operand(0), call.operand(3));
    let problem = Problem {
        m: (x.shape[0] as i64 * call.options.int("top")) as u32,
        n: down.shape[2] as u32,
        k: x.shape[1] as u32,
        experts: down.shape[0] as u32,
        tile: call.options.choice("tile"),
    };
    if x.dtype == Dtype::F16 {
        launches::kernel_of::<Gated<half::f16>>(stream, &problem)
    } else {
        launches::kernel_of::<Gated<half::bf16>>(stream, &problem)
    }
}
