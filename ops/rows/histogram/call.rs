//! Builds the launches of a call.

use super::kernel::{Bins, HistogramKernels, THREADS, histogram_clear};
use crate::prelude::*;

/// Elements of a block at least.
const PART: u32 = 16 * THREADS;
/// Blocks per SM that hide memory latency.
const BLOCKS: u32 = 4;
/// The most bins: f32 represents every integer up to this one.
const MOST: i64 = 1 << 24;

/// The histogram of rows in groups.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Histogram {
    dtype: Dtype,
    x: Placed,
    /// Blocks of a row, rows, and groups.
    grid: [u32; 3],
    columns: u32,
    /// The address of the counts.
    counts: u64,
    /// Stride between counts.
    stride: i64,
    /// The bits of the range.
    range: [u32; 2],
    bins: u32,
}

impl Launch for Histogram {
    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    unsafe fn launch(&self, to: To<'_>) -> Result<()> {
        let &Self { dtype, x, grid: [blocks, rows, groups], columns, counts, stride, range, bins } = self;
        let counts = GlobalMut::from_address(counts);
        let grid = Grid::new(bins.div_ceil(THREADS), THREADS).dependent();
        // SAFETY: there is a count for each bin.
        unsafe { to.prepare(&histogram_clear, grid, (counts, bins, stride))? };
        if columns == 0 {
            return Ok(());
        }
        let bins = Bins::new(range.map(f32::from_bits), bins);
        let grid = Grid::new((blocks, rows, groups), THREADS).dependent();
        macro_rules! launch {
            ($t:ty) => {
                // SAFETY: the arrays hold the rows, and a count for each bin.
                unsafe {
                    let kernel = &<$t as HistogramKernels>::KERNELS[0];
                    to.launch(kernel, grid, (x.read(), columns, x.place, bins, counts, stride))
                }
            };
        }
        match dtype {
            Dtype::I32 => launch!(i32),
            Dtype::I64 => launch!(i64),
            other => of_floats!("histogram", other, T => launch!(T)),
        }
    }
}

/// The range of the options; of integers that of their bins.
pub fn range(name: &'static str, integers: bool, options: &Options) -> Result<[f32; 2]> {
    let bins = options.int("bins");
    if !(1..=MOST).contains(&bins) {
        return unsupported(name, format!("bins is {bins}, and may be 1 to {MOST}"));
    }
    if integers {
        return Ok([0.0, bins as f32]);
    }
    let [low, high] = ["low", "high"].map(|end| options.float(end) as f32);
    if low < high && (high - low).is_finite() {
        return Ok([low, high]);
    }
    let detail = format!("low is {low} and high {high}; give a range, that of min and max for all elements");
    unsupported(name, detail)
}

/// Element type and shape of the counts.
pub fn results(
    name: &'static str,
    integers: bool,
    _: &[Option<ArrayType>],
    options: &Options,
) -> Result<Vec<ArrayType>> {
    range(name, integers, options)?;
    Ok(vec![ArrayType { dtype: Dtype::I64, shape: vec![options.int("bins") as usize] }])
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn compute(name: &'static str, integers: bool, on: &On<'_>, call: &Call<'_>) -> Result<()> {
    let (x, counts) = (call.operand(0), call.operand(1));
    let modes = x.shape.iter().zip(&x.strides);
    let mut modes = joined(modes.map(|(&extent, &stride)| Mode { extent, strides: [stride] }).collect());
    let Mode { extent, strides: [element] } = modes.pop().unwrap_or(Mode { extent: 1, strides: [1] });
    let columns = if x.elements() == 0 { 0 } else { extent };
    let [groups, rows] = groups_and_rows(name, x, modes)?;
    if columns > i32::MAX as usize || rows.extent > moye_runtime::MAX_BLOCKS[1] as usize {
        let detail = format!("x has shape {:?} and strides {:?}; split or copy it", x.shape, x.strides);
        return unsupported(name, detail);
    }
    let [rows_of, groups_of] = [rows, groups].map(|mode| mode.extent.max(1) as u32);
    let columns = columns as u32;
    let blocks = BLOCKS * on.card().multiprocessors / (rows_of * groups_of);
    let histogram = Histogram {
        dtype: x.dtype,
        x: Placed {
            address: x.address,
            place: Place { group: groups.strides[0], row: rows.strides[0], element },
        },
        grid: [blocks.clamp(1, columns.div_ceil(PART).max(1)), rows_of, groups_of],
        columns,
        counts: counts.address,
        stride: counts.strides[0],
        range: range(name, integers, call.options)?.map(f32::to_bits),
        bins: call.options.int("bins") as u32,
    };
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { on.launch(&histogram) }
}
