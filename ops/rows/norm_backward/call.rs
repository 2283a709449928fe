//! Builds the launches of a call.

use super::kernel::{
    AnyColumns, Columns, ColumnsKernels, Half8, HalfCluster, NormBackwardKernels, PartialColumns, Stats,
    Strides, SumKernels,
};
use crate::prelude::*;
use half::f16;
use moye_device::algorithm::*;

/// The scalars of the gradient of rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Rows {
    /// The address of the statistics, or 0.
    stats: u64,
    /// The addresses of both sums, 0 for a sum that is not wanted.
    sums: [u64; 2],
    /// The bits of `eps`.
    eps: u32,
    center: bool,
}

impl Rows {
    /// Launches the kernel.
    ///
    /// # Safety
    /// Same contract as [`RowKernel::launch`].
    unsafe fn launch_on(self, on: &RowLaunch<'_>, [x, dy, weight, dsum, dx]: [RowArray; 5]) -> Result<()> {
        let (m, n, eps, center) = (on.rows, on.columns, f32::from_bits(self.eps), self.center);
        let stats = GlobalMut::from_address(self.stats);
        let ld =
            Strides { x: x.stride, dy: dy.stride, weight: weight.stride, dsum: dsum.stride, dx: dx.stride };
        let [dweight, dbias] = self.sums.map(GlobalMut::from_address);
        // SAFETY: the arrays hold the rows, the statistics an element for each, and the sums a row
        // for each block or cluster.
        of_floats!("norm_backward", on.dtype, T => unsafe {
            on.launch(<T as NormBackwardKernels>::KERNELS, (
                x.read(), dy.read(), weight.read(), dsum.read(), dx.write(), stats, dweight, dbias, m, n, ld,
                eps, center,
            ))
        })
    }
}

impl RowKernel<5> for Rows {
    const SHAPES: &'static [RowInstance] = INSTANCES;

    plans!(NormBackwardKernels);

    fn variant(&self) -> u32 {
        self.center.into()
    }

    unsafe fn launch(&self, on: &RowLaunch<'_>, arrays: [RowArray; 5]) -> Result<()> {
        // SAFETY: the arrays hold the rows; there are no sums.
        unsafe { self.launch_on(on, arrays) }
    }
}

/// [`Rows`] with sums of columns, by blocks that step over all rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct RowsAndSums {
    rows: Rows,
    /// The rows of the sums: the blocks or clusters of the launch.
    groups: u32,
}

macro_rules! summing {
    ($($shape:ident: $blocks:literal $(, longer than $longest:literal)?;)+) => {
        /// The row instances, in the order of the kernel's.
        const INSTANCES: &[RowInstance] = &[$(RowInstance::of::<$shape>()$(.longer_than($longest))?),+];
        /// The instances, with their blocks per SM.
        const SUMMING: &[RowInstance] =
            &[$(RowInstance::of::<$shape>().resident($blocks)$(.longer_than($longest))?),+];
        /// Whether an instance holds the sums, for elements of 4 and of 2 bytes.
        const HOLDS: &[[bool; 2]] = &[$([RowSums::<f32, $shape, 2>::HOLDS, RowSums::<f16, $shape, 2>::HOLDS]),+];
    };
}
// In the order of the kernel's instances. Registers limit the blocks per SM: 128 a thread, or 64
// with half of the elements.
summing! {
    Half8: 8;
    Lanes8: 4;
    Warp: 4;
    Block128: 4;
    Block256: 2;
    Block512: 1;
    AnyWarp: 4;
    AnyBlock512: 1;
    Chunked: 1;
    AnyChunked: 1;
    HalfCluster: 2;
    Cluster512: 1, longer than 65_536;
    AnyCluster: 1;
}

impl RowKernel<5> for RowsAndSums {
    const SHAPES: &'static [RowInstance] = SUMMING;

    fn plans(problem: &RowProblem, card: &Rates) -> Vec<RowPlan> {
        let holds = |plan: &RowPlan| HOLDS[plan.instance()][usize::from(problem.dtype != Dtype::F32)];
        let name = |instance: usize| match problem.dtype {
            Dtype::F32 => <f32 as NormBackwardKernels>::KERNELS[instance].name(),
            Dtype::F16 => <f16 as NormBackwardKernels>::KERNELS[instance].name(),
            _ => <half::bf16 as NormBackwardKernels>::KERNELS[instance].name(),
        };
        RowPlan::candidates(Self::SHAPES, name, problem, card).into_iter().filter(holds).collect()
    }

    fn variant(&self) -> u32 {
        2 | self.rows.variant()
    }

    unsafe fn launch(&self, on: &RowLaunch<'_>, arrays: [RowArray; 5]) -> Result<()> {
        if on.groups() != self.groups {
            let detail = "the tuned plans were replaced during the call; call it again";
            return unsupported("norm_backward", detail.to_owned());
        }
        // SAFETY: the arrays hold the rows, and the sums have a row for each group of the plan.
        unsafe { self.rows.launch_on(on, arrays) }
    }
}

/// Sums of columns over slices of rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Slices {
    /// The address of the statistics.
    stats: u64,
    /// The addresses of both sums, 0 for a sum that is not wanted.
    sums: [u64; 2],
    /// Tiles of a slice.
    tiles: u32,
}

impl RowKernel<5> for Slices {
    const SHAPES: &'static [RowInstance] =
        &[RowInstance::any_length::<Columns>(), RowInstance::any_length::<AnyColumns>()];

    plans!(ColumnsKernels);

    unsafe fn launch(&self, on: &RowLaunch<'_>, [x, dy, ..]: [RowArray; 5]) -> Result<()> {
        let (m, n, tiles) = (on.rows, on.columns, self.tiles);
        let (stats, [weight, bias]) =
            (Global::from_address(self.stats), self.sums.map(GlobalMut::from_address));
        let blocks = n.div_ceil(Columns::COLUMNS) * m.div_ceil(Columns::ROWS * tiles);
        let grid = Grid::new(blocks, Columns::BLOCK).dependent();
        // SAFETY: the arrays hold the rows, and the sums a row for each slice.
        of_floats!("norm_backward", on.dtype, T => unsafe {
            let arguments = (x.read(), dy.read(), stats, weight, bias, m, n, x.stride, dy.stride, tiles);
            on.launch_grid(<T as ColumnsKernels>::KERNELS, grid, arguments)
        })
    }
}

/// The sums of slices: their number, and the type of the result.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Sum(u32, Dtype);

impl RowKernel<2> for Sum {
    const SHAPES: &'static [RowInstance] = &[RowInstance::any_length::<PartialColumns>()];

    plans!(SumKernels);

    unsafe fn launch(&self, on: &RowLaunch<'_>, [from, to]: [RowArray; 2]) -> Result<()> {
        let (n, Self(slices, dtype)) = (on.columns, *self);
        let blocks = n.div_ceil(PartialColumns::COLUMNS);
        let grid = Grid::new(blocks, PartialColumns::BLOCK).dependent();
        // SAFETY: the arrays hold the rows.
        of_floats!("norm_backward", dtype, T => unsafe {
            on.launch_grid(<T as SumKernels>::KERNELS, grid, (from.read(), to.write(), slices, n, to.stride))
        })
    }
}

/// Element types and shapes of the gradients of x, weight, and with `center` bias. The inputs are
/// x, dy, weight, dsum.
pub fn results(
    name: &'static str,
    center: bool,
    inputs: &[Option<ArrayType>],
    _: &Options,
) -> Result<Vec<ArrayType>> {
    let (x, columns) = last_axis(name, inputs)?;
    for (of, input, wanted) in
        [("dy", &inputs[1], x), ("weight", &inputs[2], &columns), ("dsum", &inputs[3], x)]
    {
        expect(name, of, input, wanted)?;
    }
    let mut results = vec![x.clone(), columns.clone()];
    results.extend(center.then_some(columns));
    Ok(results)
}

/// Computes the gradient of LayerNorm, or without `center` of RMSNorm.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn compute(name: &'static str, center: bool, on: &On<'_>, call: &Call<'_>) -> Result<()> {
    let x = call.operand(0);
    let [dy, weight, dsum, dx] = [1, 2, 3, 4].map(|index: usize| call.operands[index].as_ref());
    let [dy, dsum, dx] = [dy, dsum, dx].map(Operand::Rows);
    let operands = [Operand::Rows(Some(x)), dy, Operand::Columns(weight), dsum, dx];
    let (rows, eps) = (RowsOf::new(name, operands, x.axis(name, -1)?)?, bits(call.options, "eps"));
    let wanted = [call.operands.get(5), call.operands.get(6)].map(|sums| sums.and_then(Option::as_ref));
    let plain = Rows { stats: 0, sums: [0; 2], eps, center };
    if wanted.iter().all(Option::is_none) {
        // SAFETY: the call's arrays are on the stream's device until the work is complete.
        return unsafe { rows.launch(name, on, |_| plain) };
    }
    if [x, call.operand(1)].iter().any(|read| read.address == call.operand(4).address) && x.elements() > 0 {
        let detail = "out is x or dy, which the sums of dweight and dbias may read after out is written; give another \
                      array, or leave both out";
        return unsupported(name, detail.to_owned());
    }
    // Rows of partial sums of a launch: one for each block that holds sums, or for each slice
    // of rows, enough of them for four blocks of an SM.
    let (launches, tiles) = (rows.launches.len() as u32, rows.rows.div_ceil(Columns::ROWS));
    let blocks = rows.columns.div_ceil(Columns::COLUMNS).max(1).saturating_mul(launches.max(1));
    let slices = (4 * on.card().multiprocessors / blocks).clamp(1, tiles.max(1));
    let tiles_of_slice = tiles.div_ceil(slices).max(1);
    // Several launches would need a workspace each.
    let kernel = RowsAndSums { rows: plain, groups: 0 };
    let held = if launches == 1 { rows.plan(name, on, &kernel).map(|plan| plan.groups()) } else { None };
    let groups = held.unwrap_or(tiles.div_ceil(tiles_of_slice));
    let stats = if held.is_some() { 0 } else { u64::from(rows.rows) * size_of::<Stats>() as u64 };
    let partials = u64::from(groups) * u64::from(rows.columns) * 4;
    let bytes = u64::from(launches) * (stats + 2 * partials);
    // Held until everything is launched.
    let work = on.workspace(bytes.max(16) as usize)?;
    let base = work.as_ref().map_or(0, Workspace::address);
    let stats_of = |launch: usize| base + launch as u64 * stats;
    let sums = [0, 1].map(|kind| base + u64::from(launches) * (stats + kind * partials));
    let sums_of = |launch: usize| {
        [0, 1].map(|kind: usize| wanted[kind].map_or(0, |_| sums[kind] + launch as u64 * partials))
    };
    // SAFETY: the call's arrays are on the stream's device until the work is complete, and the
    // workspace has room for the statistics and sums of each launch.
    unsafe {
        if held.is_some() {
            let of_rows = |launch| Rows { sums: sums_of(launch), ..plain };
            rows.launch(name, on, |launch| RowsAndSums { rows: of_rows(launch), groups })?;
        } else {
            rows.launch(name, on, |launch| Rows { stats: stats_of(launch), ..plain })?;
            rows.launch(name, on, |launch| Slices {
                stats: stats_of(launch),
                sums: sums_of(launch),
                tiles: tiles_of_slice,
            })?;
        }
        let rows_of_sums = launches.saturating_mul(groups);
        for (sums, wanted) in sums.into_iter().zip(wanted) {
            let Some(to) = wanted else { continue };
            let shape = vec![rows_of_sums.max(1) as usize, rows.columns as usize];
            let from = Array::row_major(&ArrayType { dtype: Dtype::F32, shape }, sums);
            let sums = RowsOf::new(name, [Operand::Rows(Some(&from)), Operand::Columns(Some(to))], 1)?;
            sums.launch(name, on, |_| Sum(rows_of_sums, x.dtype))?;
        }
    }
    Ok(())
}
