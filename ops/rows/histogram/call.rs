//! From a call to launches.

use super::kernel::{Bins, HistogramKernels, THREADS, histogram_clear};
use crate::groups::{self, Mode};
use crate::place::Place;
use moye::operation::{self, ArrayType, Call, Dtype, Launcher, Operation, Options};
use moye::{Error, Grid, Ptx, Rates, Result, Stream};
use moye_device::memory::{Global, GlobalMut};
use std::marker::PhantomData;

/// Elements of a block at least.
const PART: u32 = 16 * THREADS;
/// Blocks of an SM that hide the latency of memory.
const BLOCKS: u32 = 4;
/// The most bins: as many whole numbers an f32 tells apart.
const MOST: i64 = 1 << 24;

/// The rows of a launch, in groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem {
    rows: u32,
    groups: u32,
    columns: u32,
}

/// Addresses, strides and bins.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Arguments {
    x: u64,
    counts: u64,
    of_x: Place,
    /// Between counts.
    stride: i64,
    /// The bits of the range.
    range: [u32; 2],
    bins: u32,
}

/// Histograms of elements `T`.
struct Histogram<T>(PhantomData<T>);

impl<T: HistogramKernels> Operation for Histogram<T> {
    type Problem = Problem;
    /// Blocks of a row.
    type Plan = u32;
    type Call = Arguments;
    const NAME: &'static str = "histogram";

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates(problem: &Problem, card: &Rates) -> Vec<u32> {
        let rows = (problem.rows * problem.groups).max(1);
        vec![(BLOCKS * card.multiprocessors / rows).clamp(1, problem.columns.div_ceil(PART).max(1))]
    }

    fn kernel(_: &u32) -> &'static str {
        T::KERNELS[0].name()
    }

    unsafe fn launch(plan: &u32, problem: &Problem, call: &Arguments, on: &Launcher<'_>) -> Result<()> {
        let counts = GlobalMut::from_address(call.counts);
        let stride = call.stride;
        let grid = Grid::new(call.bins.div_ceil(THREADS), THREADS);
        // SAFETY: the arrays hold the elements of the problem, and a count for each bin.
        unsafe { on.launch(&histogram_clear, grid, (counts, call.bins, stride))? };
        if problem.columns == 0 {
            return Ok(());
        }
        let (x, bins) = (Global::from_address(call.x), Bins::new(call.range.map(f32::from_bits), call.bins));
        let grid = Grid::new((*plan, problem.rows, problem.groups), THREADS);
        let arguments = (x, problem.columns, call.of_x, bins, counts, stride);
        // SAFETY: as above.
        unsafe { on.launch(&T::KERNELS[0], grid, arguments) }
    }
}

/// The range of the options; of integers that of their bins.
pub fn range(name: &'static str, options: &Options) -> Result<[f32; 2]> {
    let bins = options.int("bins");
    if !(1..=MOST).contains(&bins) {
        let detail = format!("bins is {bins}, and may be 1 to {MOST}");
        return Err(Error::Unsupported { operation: name, detail });
    }
    if name == "bincount" {
        return Ok([0.0, bins as f32]);
    }
    let [low, high] = ["low", "high"].map(|end| options.float(end) as f32);
    if low < high && (high - low).is_finite() {
        return Ok([low, high]);
    }
    let detail = format!("low is {low} and high {high}; give a range, that of min and max for all elements");
    Err(Error::Unsupported { operation: name, detail })
}

/// Element type and shape of the counts.
pub fn results(name: &'static str, options: &Options) -> Result<Vec<ArrayType>> {
    range(name, options)?;
    Ok(vec![ArrayType { dtype: Dtype::I64, shape: vec![options.int("bins") as usize] }])
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(name: &'static str, stream: &Stream, call: &Call<'_>) -> Result<()> {
    let (x, counts) = (call.operand(0), call.operand(1));
    let modes: Vec<Mode<1>> = x.shape.iter().copied().zip(x.strides.iter().map(|&stride| [stride])).collect();
    let mut modes = groups::joined(modes);
    let (columns, [element]) = modes.pop().unwrap_or((1, [1]));
    let columns = if x.elements() == 0 { 0 } else { columns };
    let [groups, rows] = groups::groups_and_rows(name, x, modes)?;
    if columns > i32::MAX as usize || rows.0 > moye::MAX_BLOCKS[1] {
        let detail = format!("x has shape {:?} and strides {:?}; split or copy it", x.shape, x.strides);
        return Err(Error::Unsupported { operation: name, detail });
    }
    let problem = Problem { rows: rows.0.max(1), groups: groups.0.max(1), columns: columns as u32 };
    let arguments = Arguments {
        x: x.address,
        counts: counts.address,
        of_x: Place { group: groups.1[0], row: rows.1[0], element },
        stride: counts.strides[0],
        range: range(name, call.options)?.map(f32::to_bits),
        bins: call.options.int("bins") as u32,
    };
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe {
        match x.dtype {
            Dtype::I32 => operation::run::<Histogram<i32>>(stream, &problem, &arguments),
            Dtype::I64 => operation::run::<Histogram<i64>>(stream, &problem, &arguments),
            other => {
                crate::of_floats!(name, other, T => operation::run::<Histogram<T>>(stream, &problem, &arguments))
            }
        }
    }
}

/// The kernel that computes a call.
pub fn explain(name: &'static str, call: &Call<'_>) -> Result<&'static str> {
    Ok(match call.operand(0).dtype {
        Dtype::I32 => Histogram::<i32>::kernel(&0),
        Dtype::I64 => Histogram::<i64>::kernel(&0),
        other => crate::of_floats!(name, other, T => Histogram::<T>::kernel(&0)),
    })
}
