//! The choice of a kernel, and its launch.

use crate::arrivals::Shards;
use crate::call::Rows;
use crate::kernel::{
    Addresses, Awaited, CopyA, CopyB, Extents, GatheredKernels, MOST_RANKS, PartialKernels, Parts,
    ReducedKernels, SUM_THREADS, Slots, Small, Square, SummedKernels, Wide, pushed,
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
    /// The fastest of the tiles for results of `rows` x `columns`: the one that a caller chose by
    /// its index, or one of all. The `partial` kernel also has a tile for few rows.
    pub fn new(rows: u32, columns: u32, card: &Rates, tile: Option<usize>, partial: bool) -> Self {
        let cost = |step: &Self| {
            let tiles = u64::from(rows.div_ceil(step.tile.0)) * u64::from(columns.div_ceil(step.tile.1));
            let waves = tiles.div_ceil(card.multiprocessors.max(1).into()).max(1);
            waves as f64 * f64::from(step.tile.0 * step.tile.1) / step.rate
        };
        let tiles = match tile {
            Some(tile) => &TILES[tile..=tile],
            None if partial && rows <= 64 => &TILES[2..],
            None => &TILES[..2],
        };
        let best = tiles.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)));
        Self { multiprocessors: card.multiprocessors, ..*best.expect("there are tiles") }
    }

    /// The grid for results of `rows` x `columns`, with `more` additional rows of tiles.
    fn grid(self, rows: u32, columns: u32, more: u32) -> Grid {
        let tiles = (rows.div_ceil(self.tile.0) + more).saturating_mul(columns.div_ceil(self.tile.1));
        Grid::new(self.multiprocessors.clamp(1, tiles.max(1)), self.threads).dependent()
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

/// A product on a stream: the rows of A by those of B.
pub(crate) struct Product<'a> {
    pub step: Step,
    pub stream: &'a Stream,
    pub a: Rows,
    pub b: Rows,
}

impl Product<'_> {
    fn extents(&self, m: u32) -> Extents {
        Extents { m, n: self.b.rows, k: self.b.columns, band: 2048 / self.step.tile.0 }
    }

    fn map_a<T: ParallelElement>(&self, rows: Rows) -> Result<TensorMap> {
        let tile = match self.step.instance {
            0 => const { &CopyA::<T, Wide>::TILE },
            1 => const { &CopyA::<T, Square>::TILE },
            _ => const { &CopyA::<T, Small>::TILE },
        };
        map::<T>(self.stream, tile, rows)
    }

    fn map_b<T: ParallelElement>(&self) -> Result<TensorMap> {
        let tile = match self.step.instance {
            0 => const { &CopyB::<T, Wide>::TILE },
            1 => const { &CopyB::<T, Square>::TILE },
            _ => const { &CopyB::<T, Small>::TILE },
        };
        map::<T>(self.stream, tile, self.b)
    }

    /// Multiplies the rows of all ranks: this rank's A, and the others' at `data`.
    ///
    /// # Safety
    /// The operands, and the shards' ends and flags, are in memory of the stream's device.
    pub unsafe fn gathered<T: ParallelElement>(&self, c: &Array, data: u64, shards: Shards) -> Result<()> {
        let extents = self.extents(c.shape[0] as u32);
        let Extents { m, n, k, .. } = extents;
        if m == 0 || n == 0 {
            return Ok(());
        }
        let all = Rows { address: data, rows: shards.rows.count * shards.apart, columns: k, row: k.into() };
        // A tensor map needs rows, so a rank without rows passes the map of all shards.
        let own = self.map_a::<T>(if self.a.rows > 0 { self.a } else { all })?;
        let (all, b) = (self.map_a::<T>(all)?, self.map_b::<T>()?);
        let (c, target) = target::<T>(self.stream, c)?;
        // Each shard may add a row of tiles.
        let grid = self.step.grid(m, n, shards.rows.count);
        let module = self.stream.device().load(&crate::PTX)?;
        let arguments = (&own, &all, &b, c, target, shards, extents);
        let kernel = &<T as GatheredKernels>::KERNELS[self.step.instance];
        // SAFETY: the maps are of the operands, which the caller guarantees.
        unsafe { module.launch_on(self.stream, kernel, grid, arguments) }
    }

    /// Multiplies, and stores the results at `place`, in rows of a multiple of 8 elements.
    ///
    /// # Safety
    /// The operands are in memory of the stream's device, which can access that of the results.
    pub unsafe fn partial<T: ParallelElement>(&self, place: u64) -> Result<()> {
        let extents = self.extents(self.a.rows);
        let Extents { m, n, .. } = extents;
        if m == 0 || n == 0 {
            return Ok(());
        }
        let c = Rows { address: place, rows: m, columns: n, row: n.next_multiple_of(8).into() };
        let c = map::<T>(self.stream, &StoreC::<T>::TILE, c)?;
        let (a, b) = (self.map_a::<T>(self.a)?, self.map_b::<T>()?);
        let grid = self.step.grid(m, n, 0);
        let module = self.stream.device().load(&crate::PTX)?;
        let kernel = &<T as PartialKernels>::KERNELS[self.step.instance];
        // SAFETY: the maps are of the operands and of the results.
        unsafe { module.launch_on(self.stream, kernel, grid, (&a, &b, &c, extents)) }
    }

    /// Multiplies, and adds `count` partial results at `data`.
    ///
    /// # Safety
    /// The operands are in memory of the stream's device, and the partial results are complete.
    pub unsafe fn reduced<T: ParallelElement>(&self, c: &Array, data: u64, count: u32) -> Result<()> {
        let extents = self.extents(self.a.rows);
        let Extents { m, n, .. } = extents;
        if m == 0 || n == 0 {
            return Ok(());
        }
        let (a, b) = (self.map_a::<T>(self.a)?, self.map_b::<T>()?);
        let (c, target) = target::<T>(self.stream, c)?;
        let columns = n.next_multiple_of(8);
        let apart = i64::from(m) * i64::from(columns);
        let slots = Slots { first: Global::from_address(data), apart, count, rows: m, columns };
        let grid = self.step.grid(m, n, 0);
        let module = self.stream.device().load(&crate::PTX)?;
        let arguments = (&a, &b, c, target, slots, extents);
        let kernel = &<T as ReducedKernels>::KERNELS[self.step.instance];
        // SAFETY: the maps are of the operands, which the caller guarantees.
        unsafe { module.launch_on(self.stream, kernel, grid, arguments) }
    }
}

/// Loads the kernels of a sum.
pub(crate) fn load_sum<T: ParallelElement>(device: &Device) -> Result<()> {
    if device.is_gpu() {
        let module = device.load(&crate::PTX)?;
        module.attributes(&pushed)?;
        module.attributes(&<T as SummedKernels>::KERNELS[0])?;
    }
    Ok(())
}

/// The grid for a number of vectors.
fn vectors(stream: &Stream, count: u64) -> Grid {
    let most = u64::from(8 * stream.device().rates().multiprocessors);
    Grid::new(count.div_ceil(SUM_THREADS.into()).min(most) as u32, SUM_THREADS)
}

/// Waits for flags, and sums the partial results of all ranks.
///
/// # Safety
/// The stream's device can access them, and they are complete when the flags are raised. `c` is in
/// its memory.
pub(crate) unsafe fn launch_sum<T: ParallelElement>(
    stream: &Stream,
    parts: &[u64],
    awaited: Awaited,
    c: &Array,
) -> Result<()> {
    let (m, n) = (c.shape[0] as u32, c.shape[1] as u32);
    if m == 0 || n == 0 {
        return Ok(());
    }
    let (_, target) = target::<T>(stream, c)?;
    let columns = n.next_multiple_of(8);
    let addresses = std::array::from_fn(|rank| parts.get(rank).copied().unwrap_or(parts[0])).into();
    let grid = vectors(stream, u64::from(m) * u64::from(columns / 8));
    let parts = Parts { addresses, count: parts.len() as u32, rows: m, columns };
    let module = stream.device().load(&crate::PTX)?;
    // SAFETY: the parts are readable on the device, and `c` is in its memory.
    unsafe { module.launch_on(stream, &<T as SummedKernels>::KERNELS[0], grid, (parts, awaited, target)) }
}

/// Stores `bytes` from `from` at each address that is not 0; a multiple of 16.
///
/// # Safety
/// The stream's device can access the bytes.
pub(crate) unsafe fn launch_push(
    stream: &Stream,
    from: u64,
    to: [u64; MOST_RANKS],
    bytes: usize,
) -> Result<()> {
    let count = bytes as u32 / 16;
    if count == 0 {
        return Ok(());
    }
    let module = stream.device().load(&crate::PTX)?;
    let (to, grid) = (Addresses::from(to), vectors(stream, count.into()).dependent());
    // SAFETY: the bytes are accessible.
    unsafe { module.launch_on(stream, &pushed, grid, (from, to, count)) }
}
