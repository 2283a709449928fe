//! The choice of a kernel, and its launch.

use crate::arrivals::Shards;
use crate::call::Rows;
use crate::kernel::{
    CopyA, CopyB, GatheredKernels, PartialKernels, Parts, ReducedKernels, SUM_THREADS, Slots, Small, Square,
    SummedKernels, Wide,
};
use crate::matmul::ParallelElement;
use moye_device::atom::tma::TmaTile;
use moye_device::collective::{StoreC, Target};
use moye_device::kernel::{Kernel, Params};
use moye_device::memory::TensorMap as Map;
use moye_runtime::layout::{IntTuple, Layout};
use moye_runtime::operation::Array;
use moye_runtime::{Device, Error, Global, GlobalMut, Grid, KernelArg, Rates, Result, Stream, TensorMap};

/// A kernel's tile, and its grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The index of the instance.
    instance: usize,
    tile: (u32, u32),
    threads: u32,
    /// The rate at full occupancy, relative to the best.
    rate: f64,
    multiprocessors: u32,
}

/// The names of tiles that a caller may choose, in the order of [`TILES`].
pub(crate) const NAMES: [&str; 2] = ["128x256", "128x128"];

/// The tiles, in the order of the instances; the last one is for few rows.
const TILES: [Step; 3] = [
    Step { instance: 0, tile: (128, 256), threads: 384, rate: 1.0, multiprocessors: 0 },
    Step { instance: 1, tile: (128, 128), threads: 384, rate: 0.8, multiprocessors: 0 },
    Step { instance: 2, tile: (64, 64), threads: 256, rate: 0.4, multiprocessors: 0 },
];

impl Step {
    /// The tile with this index, or the fastest one for results of `rows` x `columns`; if `few`,
    /// the tile for few rows is included.
    pub fn new(rows: u32, columns: u32, card: &Rates, few: bool, tile: Option<usize>) -> Self {
        let cost = |step: &Self| {
            let tiles = rows.div_ceil(step.tile.0) * columns.div_ceil(step.tile.1);
            let waves = tiles.div_ceil(card.multiprocessors.max(1)).max(1);
            f64::from(waves * step.tile.0 * step.tile.1) / step.rate
        };
        let tiles = match tile {
            Some(tile) => &TILES[tile..=tile],
            None if few && rows <= 64 => &TILES[2..],
            None => &TILES[..2],
        };
        let best = tiles.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)));
        Self { multiprocessors: card.multiprocessors, ..*best.expect("there are tiles") }
    }

    fn map_a<T: ParallelElement>(self) -> &'static TmaTile {
        match self.instance {
            0 => const { &CopyA::<T, Wide>::TILE },
            1 => const { &CopyA::<T, Square>::TILE },
            _ => const { &CopyA::<T, Small>::TILE },
        }
    }

    fn map_b<T: ParallelElement>(self) -> &'static TmaTile {
        match self.instance {
            0 => const { &CopyB::<T, Wide>::TILE },
            1 => const { &CopyB::<T, Square>::TILE },
            _ => const { &CopyB::<T, Small>::TILE },
        }
    }

    /// The grid for results of `rows` x `columns`, with `more` additional rows of tiles.
    fn grid(self, rows: u32, columns: u32, more: u32) -> Grid {
        let tiles = (rows.div_ceil(self.tile.0) + more) * columns.div_ceil(self.tile.1);
        Grid::new(self.multiprocessors.clamp(1, tiles.max(1)), self.threads).dependent()
    }

    /// The number of rows of tiles in a band.
    fn band(self) -> u32 {
        2048 / self.tile.0
    }

    /// The gathering kernel.
    pub fn gathered<T: ParallelElement>(self) -> &'static Kernel<impl Params> {
        &<T as GatheredKernels>::KERNELS[self.instance]
    }

    /// The kernel that stores partial results.
    pub fn partial<T: ParallelElement>(self) -> &'static Kernel<impl Params> {
        &<T as PartialKernels>::KERNELS[self.instance]
    }

    /// The kernel that adds the others' partial results.
    pub fn reduced<T: ParallelElement>(self) -> &'static Kernel<impl Params> {
        &<T as ReducedKernels>::KERNELS[self.instance]
    }
}

/// The map of a matrix whose rows start at multiples of 16 bytes.
fn map<T: ParallelElement>(stream: &Stream, tile: &TmaTile, rows: Rows) -> Result<TensorMap> {
    let shape = IntTuple::flat(&[rows.rows.into(), rows.columns.into()]);
    let tensor = Layout::new(shape, IntTuple::flat(&[rows.row, 1]));
    let fields = tile.tensor_map(T::ELEMENT, rows.address, &tensor).map_err(Error::TensorOfTile)?;
    TensorMap::new(stream.device(), &fields)
}

/// A result's map, if TMA supports it, and the rest of the target.
fn target<T: ParallelElement>(stream: &Stream, c: &Array) -> Result<(Map, Target<T>)> {
    let (rows, columns) = (c.shape[0] as u32, c.shape[1] as u32);
    let row = if rows > 1 { c.strides[0] } else { i64::from(columns.next_multiple_of(8)) };
    let column = if columns > 1 { c.strides[1] } else { 1 };
    let aligned = column == 1
        && row % 8 == 0
        && columns.is_multiple_of(8)
        && row >= i64::from(columns)
        && c.address.is_multiple_of(16);
    let words = match aligned {
        true => {
            let rows = Rows { address: c.address, rows, columns, row };
            (&map::<T>(stream, &StoreC::<T>::TILE, rows)?).pass()
        }
        false => Map::from_words([0; 16]),
    };
    let aligned = u32::from(aligned);
    let c = GlobalMut::from_address(c.address);
    Ok((words, Target { c, group: 0, row, column, columns, aligned, tensor: aligned }))
}

/// Multiplies the rows of all ranks: this rank's `a`, and the others' at `data`.
///
/// # Safety
/// The operands, and the shards' ends and flags, are in memory of the stream's device.
pub(crate) unsafe fn launch_gathered<T: ParallelElement>(
    step: Step,
    stream: &Stream,
    a: Rows,
    b: Rows,
    c: &Array,
    data: u64,
    shards: Shards,
) -> Result<()> {
    let (m, n, k) = (c.shape[0] as u32, b.rows, b.columns);
    if m == 0 || n == 0 {
        return Ok(());
    }
    let all = Rows { address: data, rows: shards.rows.count * shards.apart, columns: k, row: k.into() };
    // A tensor map needs rows, so a rank without rows passes the map of all shards.
    let own = if a.rows > 0 { a } else { all };
    let own = map::<T>(stream, step.map_a::<T>(), own)?;
    let all = map::<T>(stream, step.map_a::<T>(), all)?;
    let b = map::<T>(stream, step.map_b::<T>(), b)?;
    let (c, target) = target::<T>(stream, c)?;
    // Each shard may add a row of tiles.
    let grid = step.grid(m, n, shards.rows.count);
    let kernel = &<T as GatheredKernels>::KERNELS[step.instance];
    let module = stream.device().load(&crate::PTX)?;
    // SAFETY: the maps are of the operands, which the caller guarantees.
    unsafe { module.launch_on(stream, kernel, grid, (&own, &all, &b, c, target, shards, n, k, step.band())) }
}

/// Multiplies, and stores the results at `place`, in rows of a multiple of 8 elements.
///
/// # Safety
/// The operands are in memory of the stream's device, which can access that of the results.
pub(crate) unsafe fn launch_partial<T: ParallelElement>(
    step: Step,
    stream: &Stream,
    a: Rows,
    b: Rows,
    place: u64,
) -> Result<()> {
    let (m, n, k) = (a.rows, b.rows, b.columns);
    if m == 0 || n == 0 {
        return Ok(());
    }
    let c = Rows { address: place, rows: m, columns: n, row: n.next_multiple_of(8).into() };
    let a = map::<T>(stream, step.map_a::<T>(), a)?;
    let b = map::<T>(stream, step.map_b::<T>(), b)?;
    let c = map::<T>(stream, &StoreC::<T>::TILE, c)?;
    let grid = step.grid(m, n, 0);
    let kernel = &<T as PartialKernels>::KERNELS[step.instance];
    let module = stream.device().load(&crate::PTX)?;
    // SAFETY: the maps are of the operands and of the results.
    unsafe { module.launch_on(stream, kernel, grid, (&a, &b, &c, m, n, k, step.band())) }
}

/// Multiplies, and adds `count` partial results at `data`.
///
/// # Safety
/// The operands are in memory of the stream's device, and the partial results are complete.
pub(crate) unsafe fn launch_reduced<T: ParallelElement>(
    step: Step,
    stream: &Stream,
    a: Rows,
    b: Rows,
    c: &Array,
    data: u64,
    count: u32,
) -> Result<()> {
    let (m, n, k) = (a.rows, b.rows, b.columns);
    if m == 0 || n == 0 {
        return Ok(());
    }
    let a = map::<T>(stream, step.map_a::<T>(), a)?;
    let b = map::<T>(stream, step.map_b::<T>(), b)?;
    let (c, target) = target::<T>(stream, c)?;
    let columns = n.next_multiple_of(8);
    let apart = i64::from(m) * i64::from(columns);
    let slots = Slots { first: Global::from_address(data), apart, count, rows: m, columns };
    let grid = step.grid(m, n, 0);
    let kernel = &<T as ReducedKernels>::KERNELS[step.instance];
    let module = stream.device().load(&crate::PTX)?;
    // SAFETY: the maps are of the operands, which the caller guarantees.
    unsafe { module.launch_on(stream, kernel, grid, (&a, &b, c, target, slots, n, k, step.band())) }
}

/// Loads the kernel of [`launch_sum`].
pub(crate) fn load_sum<T: ParallelElement>(device: &Device) -> Result<()> {
    if device.is_gpu() {
        device.load(&crate::PTX)?.attributes(&<T as SummedKernels>::KERNELS[0])?;
    }
    Ok(())
}

/// Sums the partial results of all ranks.
///
/// # Safety
/// The stream's device can access them, and they are complete. `c` is in its memory.
pub(crate) unsafe fn launch_sum<T: ParallelElement>(stream: &Stream, parts: &[u64], c: &Array) -> Result<()> {
    let (m, n) = (c.shape[0] as u32, c.shape[1] as u32);
    if m == 0 || n == 0 {
        return Ok(());
    }
    let (_, target) = target::<T>(stream, c)?;
    let columns = n.next_multiple_of(8);
    let part = |rank: usize| parts.get(rank).copied().unwrap_or(parts[0]);
    let [p0, p1, p2, p3, p4, p5, p6, p7] = std::array::from_fn(part);
    let parts = Parts { p0, p1, p2, p3, p4, p5, p6, p7, count: parts.len() as u32, rows: m, columns };
    let blocks = (u64::from(m) * u64::from(columns / 8)).div_ceil(SUM_THREADS.into());
    let blocks = blocks.min(u64::from(8 * stream.device().rates().multiprocessors)) as u32;
    let module = stream.device().load(&crate::PTX)?;
    // SAFETY: the parts are readable on the device, and `c` is in its memory.
    unsafe {
        module.launch_on(
            stream,
            &<T as SummedKernels>::KERNELS[0],
            Grid::new(blocks, SUM_THREADS),
            (parts, target),
        )
    }
}
