//! From a call to launches.

use super::kernel::{
    AnyColumns, Columns, ColumnsKernels, NormBackwardKernels, PartialColumns, Stats, SumKernels,
};
use crate::of_floats;
use crate::plan::{self, Shape};
use crate::rows::{Operand, RowArray, RowKernel, RowLaunch, RowsOf, expect, last_axis};
use moye::operation::{Array, ArrayType, Call, Dtype, Workspace};
use moye::{Grid, Result, Stream};
use moye_device::algorithm::RowShape;
use moye_device::memory::{Global, GlobalMut};
use std::marker::PhantomData;

/// The kernels of elements `T`.
pub trait Kernels: NormBackwardKernels + ColumnsKernels + SumKernels {}

impl<T: NormBackwardKernels + ColumnsKernels + SumKernels> Kernels for T {}

/// The gradient of rows.
struct Rows<T>(PhantomData<T>);

impl<T: Kernels> RowKernel<5> for Rows<T> {
    const NAME: &'static str = "norm_backward";
    const SHAPES: &'static [Shape] = plan::SHAPES_OF_TWO;
    /// The address of the statistics, `eps`, and whether the mean is taken off.
    type Scalars = (u64, u32, bool);

    fn name(instance: usize) -> &'static str {
        <T as NormBackwardKernels>::KERNELS[instance].name()
    }

    unsafe fn launch(
        on: &RowLaunch<'_>,
        [x, dy, weight, dsum, dx]: [RowArray; 5],
        (stats, eps, center): (u64, u32, bool),
    ) -> Result<()> {
        let arguments = (
            x.read(),
            dy.read(),
            weight.read(),
            dsum.read(),
            dx.write(),
            GlobalMut::from_address(stats),
            on.rows,
            on.columns,
            x.stride,
            dy.stride,
            weight.stride,
            dsum.stride,
            dx.stride,
            f32::from_bits(eps),
            center,
        );
        // SAFETY: the arrays hold the rows, and the statistics an element for each.
        unsafe { on.launch(<T as NormBackwardKernels>::KERNELS, arguments) }
    }
}

/// Sums of columns over slices of rows.
struct Slices<T>(PhantomData<T>);

impl<T: Kernels> RowKernel<5> for Slices<T> {
    const NAME: &'static str = "norm_backward_columns";
    const SHAPES: &'static [Shape] = &[plan::any_length::<Columns>(), plan::any_length::<AnyColumns>()];
    /// The addresses of the statistics and of both kinds of sums, and tiles of a slice.
    type Scalars = (u64, [u64; 2], u32);

    fn name(instance: usize) -> &'static str {
        <T as ColumnsKernels>::KERNELS[instance].name()
    }

    unsafe fn launch(
        on: &RowLaunch<'_>,
        [x, dy, ..]: [RowArray; 5],
        (stats, sums, tiles): (u64, [u64; 2], u32),
    ) -> Result<()> {
        let (m, n, stats) = (on.rows, on.columns, Global::from_address(stats));
        let [weight, bias] = sums.map(GlobalMut::from_address);
        let arguments = (x.read(), dy.read(), stats, weight, bias, m, n, x.stride, dy.stride, tiles);
        let blocks = n.div_ceil(Columns::COLUMNS) * m.div_ceil(Columns::ROWS * tiles);
        let grid = Grid::new(blocks, Columns::BLOCK);
        // SAFETY: the arrays hold the rows, and the sums a row for each slice.
        unsafe { on.launch_grid(<T as ColumnsKernels>::KERNELS, grid, arguments) }
    }
}

/// The sums of slices.
struct Sum<T>(PhantomData<T>);

impl<T: Kernels> RowKernel<2> for Sum<T> {
    const NAME: &'static str = "norm_backward_sum";
    const SHAPES: &'static [Shape] = &[plan::any_length::<PartialColumns>()];
    /// The number of slices.
    type Scalars = u32;

    fn name(instance: usize) -> &'static str {
        <T as SumKernels>::KERNELS[instance].name()
    }

    unsafe fn launch(on: &RowLaunch<'_>, [from, to]: [RowArray; 2], slices: u32) -> Result<()> {
        let arguments = (from.read(), to.write(), slices, on.columns, to.stride);
        let grid = Grid::new(on.columns.div_ceil(PartialColumns::COLUMNS), PartialColumns::BLOCK);
        // SAFETY: the arrays hold the rows.
        unsafe { on.launch_grid(<T as SumKernels>::KERNELS, grid, arguments) }
    }
}

const fn name(center: bool) -> &'static str {
    if center { "layer_norm_backward" } else { "rms_norm_backward" }
}

/// Element types and shapes of the gradients of x, weight, and with `center` bias. The inputs are
/// x, dy, weight, dsum.
pub fn results(inputs: &[Option<ArrayType>], center: bool) -> Result<Vec<ArrayType>> {
    let (x, columns) = last_axis(name(center), inputs)?;
    for (of, input, wanted) in
        [("dy", &inputs[1], x), ("weight", &inputs[2], &columns), ("dsum", &inputs[3], x)]
    {
        expect(name(center), of, input, wanted)?;
    }
    let mut results = vec![x.clone(), columns.clone()];
    results.extend(center.then_some(columns));
    Ok(results)
}

/// The kernels' arrays: x, dy, weight, dsum, dx.
fn rows(call: &Call<'_>, center: bool) -> Result<RowsOf<5>> {
    let x = call.operand(0);
    let [dy, weight, dsum, dx] = [1, 2, 3, 4].map(|index: usize| call.operands[index].as_ref());
    let [dy, dsum, dx] = [dy, dsum, dx].map(Operand::Rows);
    let operands = [Operand::Rows(Some(x)), dy, Operand::Columns(weight), dsum, dx];
    RowsOf::new(name(center), operands, x.axis(name(center), -1)?)
}

/// Computes the gradient of LayerNorm, or without `center` of RMSNorm.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>, center: bool) -> Result<()> {
    let rows = rows(call, center)?;
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    of_floats!(name(center), rows.dtype, T => unsafe { run_of::<T>(stream, call, &rows, center) })
}

/// [`run`] of elements `T`.
///
/// # Safety
/// Same contract as [`run`].
unsafe fn run_of<T: Kernels>(stream: &Stream, call: &Call<'_>, rows: &RowsOf<5>, center: bool) -> Result<()> {
    let (name, eps) = (name(center), (call.options.float("eps") as f32).to_bits());
    let wanted = [call.operands.get(5), call.operands.get(6)].map(|sums| sums.and_then(Option::as_ref));
    // Enough slices for four blocks of an SM.
    let (launches, tiles) = (rows.launches.len() as u32, rows.rows.div_ceil(Columns::ROWS));
    let blocks = rows.columns.div_ceil(Columns::COLUMNS).max(1) * launches.max(1);
    let slices = (4 * stream.device().rates().multiprocessors / blocks).clamp(1, tiles.max(1));
    let tiles_of_slice = tiles.div_ceil(slices).max(1);
    let slices = tiles.div_ceil(tiles_of_slice);
    let stats = u64::from(rows.rows) * size_of::<Stats>() as u64;
    let partials = u64::from(slices) * u64::from(rows.columns) * 4;
    let bytes = u64::from(launches) * (stats + 2 * partials);
    let Some(work) = Workspace::new(stream, bytes.max(16) as usize)? else { return Ok(()) };
    let stats_of = |launch: usize| work.address() + launch as u64 * stats;
    let sums = [0, 1].map(|kind| work.address() + u64::from(launches) * (stats + kind * partials));
    // SAFETY: the call's arrays are on the stream's device until the work is complete, and the
    // workspace has room for a row of statistics and sums of each launch.
    unsafe {
        rows.run::<Rows<T>>(name, stream, |launch| (stats_of(launch), eps, center))?;
        if wanted.iter().all(Option::is_none) {
            return Ok(());
        }
        rows.run::<Slices<T>>(name, stream, |launch| {
            let of = |kind: usize| wanted[kind].map_or(0, |_| sums[kind] + launch as u64 * partials);
            (stats_of(launch), [of(0), of(1)], tiles_of_slice)
        })?;
        for (sums, wanted) in sums.into_iter().zip(wanted) {
            let Some(to) = wanted else { continue };
            let slices = launches * slices;
            let shape = vec![slices.max(1) as usize, rows.columns as usize];
            let from = Array::row_major(&ArrayType { dtype: Dtype::F32, shape }, sums);
            RowsOf::new(name, [Operand::Rows(Some(&from)), Operand::Columns(Some(to))], 1)?.run::<Sum<T>>(
                name,
                stream,
                |_| slices,
            )?;
        }
    }
    Ok(())
}

/// The kernel that computes the gradient of x.
pub fn explain(stream: &Stream, call: &Call<'_>, center: bool) -> Result<&'static str> {
    let (name, rows) = (name(center), rows(call, center)?);
    of_floats!(name, rows.dtype, T => rows.explain::<Rows<T>>(name, stream))
}
