//! From a call to launches.

use super::kernel::{ReduceKernels, Rows, Rule, Share, THREADS};
use crate::groups::{self, Mode, joined};
use crate::of_floats;
use moye::operation::{self, Array, ArrayType, Call, Dtype, Launcher, Operation, Options, Workspace};
use moye::{Error, Grid, Ptx, Rates, Result, Stream};
use moye_device::algorithm::RowStride;
use moye_device::memory::{Global, GlobalMut};
use std::marker::PhantomData;

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Sum,
    Mean,
    Norm,
    Max,
    Min,
    LogSumExp,
    Var,
    ArgMax,
    ArgMin,
}

impl Kind {
    /// The number of the kernel's reduction, and the bytes of its state.
    const fn reduction(self) -> (usize, usize) {
        match self {
            Self::Sum | Self::Mean => (0, 4),
            Self::Norm => (1, 4),
            Self::Max | Self::Min => (2, 4),
            Self::LogSumExp => (3, 8),
            Self::Var => (4, 16),
            Self::ArgMax | Self::ArgMin => (5, 8),
        }
    }

    /// Whether the result is an index.
    const fn is_index(self) -> bool {
        matches!(self, Self::ArgMax | Self::ArgMin)
    }

    fn rule(self, columns: usize, options: &Options) -> [f32; 2] {
        match self {
            Self::Min | Self::ArgMin => [-1.0, 1.0],
            Self::Mean => [1.0, 1.0 / columns as f32],
            Self::Var => [1.0, 1.0 / (columns as i64 - options.int("correction")).max(0) as f32],
            _ => [1.0, 1.0],
        }
    }
}

/// The modes of a call: rows, columns that are reduced, and groups of rows that no single stride
/// joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem {
    kind: Kind,
    rows: u32,
    groups: u32,
    columns: u32,
    /// Whether the rows are reduced to one result.
    whole: bool,
    /// Whether neighbouring rows are closer together than the elements of one.
    across: bool,
}

/// The launch of a problem.
#[derive(Clone, Copy, Debug)]
struct Plan {
    kind: Kind,
    share: Share,
    slices: u32,
    /// Elements of a slice.
    slice: u32,
}

/// Addresses, strides and scalars of a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Arguments {
    x: u64,
    y: u64,
    /// The address of the states between two launches.
    states: u64,
    stride: RowStride,
    /// The distances of two groups in `x`, in `y`, and in row-major order.
    group: [i64; 3],
    /// The distance of two results.
    result: i64,
    /// Row-major distances, for indices.
    index: RowStride,
    /// The bits of sign and scale.
    rule: [u32; 2],
}

/// The fewest elements of a slice, of which some vectors are in flight.
const SLICE: u32 = 4096;
/// The fewest elements of a slice whose warps have an element of a row each.
const SLICE_ACROSS: u32 = 128;
/// Blocks of an SM that hide the latency of memory.
const BLOCKS: u32 = 4;
/// The most elements of a row that a warp reads on its own.
const WARP_COLUMNS: u32 = 4096;

impl Plan {
    fn new(problem: &Problem, card: &Rates) -> Self {
        let rows = problem.rows * problem.groups;
        let share = if problem.across || problem.columns <= 16 && problem.rows >= 32 {
            Share::Lane
        } else if problem.columns <= WARP_COLUMNS / 4
            || problem.columns <= WARP_COLUMNS && rows >= 16 * card.multiprocessors
        {
            Share::Warp
        } else {
            Share::Block
        };
        let least = match share {
            Share::Warp => problem.columns.max(1),
            Share::Block => SLICE,
            Share::Lane => SLICE_ACROSS,
        };
        let blocks = problem.rows.div_ceil(share.rows()) * problem.groups;
        let slices =
            (BLOCKS * card.multiprocessors / blocks.max(1)).clamp(1, problem.columns.div_ceil(least).max(1));
        let slice = problem.columns.div_ceil(slices).next_multiple_of(64);
        Self { kind: problem.kind, share, slices: problem.columns.div_ceil(slice).max(1), slice }
    }

    /// States between two launches: none if one launch is enough.
    const fn states(&self, problem: &Problem) -> u64 {
        let rows = problem.rows as u64 * problem.groups as u64;
        if self.slices > 1 || problem.whole && rows > 1 { rows * self.slices as u64 } else { 0 }
    }
}

/// The reduction of elements `T`.
struct Reduce<T>(PhantomData<T>);

impl<T: ReduceKernels> Operation for Reduce<T> {
    type Problem = Problem;
    type Plan = Plan;
    type Call = Arguments;
    const NAME: &'static str = "reduce";

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates(problem: &Problem, card: &Rates) -> Vec<Plan> {
        vec![Plan::new(problem, card)]
    }

    fn kernel(plan: &Plan) -> &'static str {
        T::KERNELS[plan.kind.reduction().0].name()
    }

    unsafe fn launch(plan: &Plan, problem: &Problem, call: &Arguments, on: &Launcher<'_>) -> Result<()> {
        let kernel = &T::KERNELS[problem.kind.reduction().0];
        let rule = Rule { sign: f32::from_bits(call.rule[0]), scale: f32::from_bits(call.rule[1]) };
        let (states, y) = (plan.states(problem), GlobalMut::from_address(call.y));
        let launch = |share: Share, slices: u32, x: u64, shape: Rows| {
            let blocks = (shape.rows.div_ceil(share.rows()), slices, shape.groups);
            let shape = Rows { share: share as u32, ..shape };
            let arguments = (Global::from_address(x), y, GlobalMut::from_address(call.states), shape, rule);
            // SAFETY: the caller's contract; the workspace holds a state for each row and slice.
            unsafe { on.launch(kernel, Grid::new(blocks, THREADS), arguments) }
        };
        let shape = Rows {
            rows: problem.rows,
            groups: problem.groups,
            columns: problem.columns,
            slice: plan.slice,
            share: 0,
            from_states: false,
            to_states: states > 0,
            stride: call.stride,
            group: call.group[0],
            result: RowStride { row: call.group[1], element: call.result },
            index: call.index,
            index_group: call.group[2],
        };
        launch(plan.share, plan.slices, call.x, shape)?;
        if states == 0 {
            return Ok(());
        }
        let slices = i64::from(plan.slices);
        let (rows, groups, columns) =
            if problem.whole { (1, 1, states as u32) } else { (problem.rows, problem.groups, plan.slices) };
        let second = Rows {
            rows,
            groups,
            columns,
            slice: columns,
            from_states: true,
            to_states: false,
            stride: RowStride { row: slices, element: 1 },
            group: i64::from(problem.rows) * slices,
            ..shape
        };
        let share = if columns > 256 { Share::Block } else { Share::Warp };
        launch(share, 1, call.states, second)
    }
}

/// Element type and shape of the result.
pub fn results(
    name: &'static str,
    kind: Kind,
    inputs: &[Option<ArrayType>],
    options: &Options,
) -> Result<Vec<ArrayType>> {
    let ArrayType { dtype, mut shape } = inputs[0].clone().expect("checked: x is not optional");
    let x = Array::row_major(&ArrayType { dtype, shape: shape.clone() }, 0);
    let reduced = match options.axis("axis") {
        Some(axis) => shape.remove(x.axis(name, axis)?),
        None => std::mem::take(&mut shape).into_iter().product(),
    };
    let needs_one = matches!(kind, Kind::Max | Kind::Min | Kind::ArgMax | Kind::ArgMin);
    if reduced == 0 && needs_one && shape.iter().all(|&extent| extent > 0) {
        let detail = format!("x has shape {:?}, and no elements have no {name}", x.shape);
        return Err(Error::Unsupported { operation: name, detail });
    }
    Ok(vec![ArrayType { dtype: if kind.is_index() { Dtype::I64 } else { dtype }, shape }])
}

/// The problem of a call.
fn problem(name: &'static str, kind: Kind, call: &Call<'_>) -> Result<(Problem, Arguments)> {
    let (x, y) = (call.operand(0), call.operand(1));
    let axis = call.options.axis("axis").map(|axis| x.axis(name, axis)).transpose()?;
    let row_major = Array::row_major(&x.ty(), 0).strides;
    let mut of_y = y.strides.iter();
    let mut modes: Vec<Mode<3>> = (0..x.shape.len())
        .map(|mode| {
            let of_y = if axis.is_some_and(|axis| axis != mode) { *of_y.next().unwrap_or(&0) } else { 0 };
            // Only an index of the whole array depends on the order of its elements.
            let index = if axis.is_none() && kind.is_index() { row_major[mode] } else { 0 };
            (x.shape[mode], [x.strides[mode], of_y, index])
        })
        .collect();
    let (columns, others) = match axis {
        Some(axis) => {
            let (extent, [stride, ..]) = modes.remove(axis);
            ((extent, [stride, 0, 1]), joined(modes))
        }
        None if x.elements() == 0 => ((0, [1, 0, 0]), Vec::new()),
        None => {
            let mut all = joined(modes);
            (all.pop().unwrap_or((1, [1, 0, 0])), all)
        }
    };
    let [groups, rows] = groups::groups_and_rows(name, x, others)?;
    if columns.0 > i32::MAX as usize {
        let detail = format!("rows have {} elements, and may have {}; split them", columns.0, i32::MAX);
        return Err(Error::Unsupported { operation: name, detail });
    }
    let element = if columns.0 > 1 { columns.1[0] } else { 1 };
    let problem = Problem {
        kind,
        rows: rows.0,
        groups: groups.0,
        columns: columns.0 as u32,
        whole: axis.is_none(),
        across: element != 1 && rows.0 >= 32 && rows.1[0].abs() < element.abs(),
    };
    let reduced = if axis.is_some() { columns.0 } else { x.elements() };
    let arguments = Arguments {
        x: x.address,
        y: y.address,
        states: 0,
        stride: RowStride { row: rows.1[0], element },
        group: groups.1,
        result: rows.1[1],
        index: RowStride { row: rows.1[2], element: columns.1[2] },
        rule: kind.rule(reduced, call.options).map(f32::to_bits),
    };
    Ok((problem, arguments))
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(name: &'static str, kind: Kind, stream: &Stream, call: &Call<'_>) -> Result<()> {
    if call.operand(1).elements() == 0 {
        return Ok(());
    }
    let (problem, mut arguments) = problem(name, kind, call)?;
    let dtype = call.operand(0).dtype;
    let states = Plan::new(&problem, &stream.device().rates()).states(&problem) as usize;
    // Held until all has been launched.
    let work = Workspace::new(stream, states * kind.reduction().1)?;
    arguments.states = work.as_ref().map_or(0, Workspace::address);
    // SAFETY: the call's arrays are on the stream's device until the work is complete, and the
    // workspace has room for the states.
    unsafe { of_floats!(name, dtype, T => operation::run::<Reduce<T>>(stream, &problem, &arguments)) }
}

/// The kernel that computes a call.
pub fn explain(name: &'static str, kind: Kind, stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    let (problem, _) = problem(name, kind, call)?;
    let plan = Plan::new(&problem, &stream.device().rates());
    Ok(of_floats!(name, call.operand(0).dtype, T => Reduce::<T>::kernel(&plan)))
}
