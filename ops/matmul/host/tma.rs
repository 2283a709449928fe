//! Kernels with TMA: their tensor maps and launch.

use super::descriptor::OPERATION;
use super::element::{Operand, Output};
use super::operand::View;
use super::plan::Plan;
use super::variants::{ArgumentsOf, WgmmaKernel};
use crate::PTX;
use crate::kernels::hopper::{OperandBatches, OperandMap, SgemmBox, Sharing, operand};
use moye_device::atom::tma::TmaTile;
use moye_device::kernel::Kernel;
use moye_device::layout::{IntTuple, Layout, Major, Swizzle};
use moye_device::memory::{GlobalMut, TensorMap as Map};
use moye_runtime::operation::Counters;
use moye_runtime::{Arch, Device, Error, Grid, KernelArg, Result, Stream, TensorMap};
use moye_sim::{TensorElement, TensorMap as Fields, TensorPromotion, TensorSwizzle};

/// Strides of tensor maps are multiples of this many bytes, and below [`STRIDES`].
const ALIGN: u64 = 16;
const STRIDES: u64 = 1 << 40;

/// Threads of a block of a kernel without bounds.
const THREADS: u32 = 384;

/// Whether a device has TMA and `wgmma`: only sm_90a does.
pub(super) fn is_there(device: &Device) -> bool {
    device.arch() == Arch::new(9, 0)
}

/// Whether TMA can load an operand with rows `leading` elements apart: the rows do not overlap, and
/// the stride is in range.
pub(super) fn takes(view: &View, leading: i64, others: u32) -> bool {
    let bytes = |stride: i64| u64::try_from(stride).ok().and_then(|stride| stride.checked_mul(view.bytes));
    let fits = |stride: i64, count: u32| {
        count <= 1 || bytes(stride).is_some_and(|bytes| bytes < STRIDES && (bytes > 0 || stride == 0))
    };
    fits(leading, others) && (others <= 1 || leading > 0) && fits(view.batch, view.batches)
}

/// The map for a kernel's tile of a tensor at an address.
fn map(
    stream: &Stream,
    tile: &TmaTile,
    element: TensorElement,
    address: u64,
    tensor: &Layout,
    promotion: TensorPromotion,
) -> Result<TensorMap> {
    let fields = tile.tensor_map(element, address, tensor).map_err(Error::TensorOfTile)?;
    TensorMap::new(stream.device(), &Fields { promotion, ..fields })
}

/// The batches of an operand: batches with stride 0 are one.
fn batches_of(view: &View, count: u32) -> OperandBatches {
    OperandBatches { count: if view.batch == 0 { 1 } else { count }, stride: view.batch }
}

/// An operand in memory, as a kernel loads it.
struct Source<'a> {
    view: &'a View,
    /// The contiguous mode.
    major: Major,
    /// The leading dimension.
    leading: i64,
    /// Elements along M or N, and along K.
    extent: u32,
    k: u32,
    batches: u32,
}

/// The map by which a kernel loads an operand.
fn map_of_operand<T: Operand>(stream: &Stream, loaded: OperandMap, source: Source<'_>) -> Result<TensorMap> {
    let Source { view, major, leading, extent, k, batches } = source;
    let (element, batches) = (T::TENSOR_ELEMENT, batches_of(view, batches));
    match loaded {
        OperandMap::Tile(tile) => {
            let tensor = operand(major, (extent, k), leading, batches);
            map(stream, tile, element, view.address, &tensor, TensorPromotion::B256)
        }
        OperandMap::Fitted(boxes) => {
            let boxes = boxes.fitted(extent, k);
            let tensor = boxes.tensor((extent, k), leading, batches);
            // Adjacent boxes go to the same stage. Fetched separately, they would cross between the
            // halves of the L2 cache twice.
            let promotion = if boxes.depth > 1 { TensorPromotion::B128 } else { TensorPromotion::B256 };
            map(stream, &boxes.tile::<T>(), element, view.address, &tensor, promotion)
        }
    }
}

/// The output matrix of a kernel: C or a workspace.
pub(super) struct Target {
    /// Whether its element type is the accumulator's.
    pub wide: bool,
    /// Whether a tensor map may write it: address and strides are multiples of 16 bytes.
    pub aligned: bool,
    /// Whether the padding between the end of a row and the next multiple of 16 bytes may be
    /// overwritten.
    pub padded: bool,
    /// The number of batches or slices.
    pub parts: u32,
    /// Their stride in elements.
    pub part_stride: i64,
}

/// The map of the output matrix for the kernel's tile; `None` if the kernel must write it by
/// address.
fn map_of_target<T: Operand, U: Output<T>>(
    stream: &Stream,
    tile: &TmaTile,
    Target { wide, aligned, padded, parts, part_stride }: Target,
    arguments: &ArgumentsOf<T>,
) -> Result<Option<TensorMap>> {
    let ArgumentsOf::<T> { m, n, ldc, .. } = *arguments;
    let element = if wide { T::TENSOR_SCALAR } else { U::TENSOR_ELEMENT };
    let far = |stride: i64| stride as u64 >= STRIDES / element.bytes();
    // An H200 stores whole 16-byte vectors, also if a row ends within one (observed). If the
    // padding may be overwritten, the map's extent includes it, with arbitrary values, so that
    // later 16-byte reads are of initialised memory.
    let columns = if padded { n.next_multiple_of((ALIGN / element.bytes()) as u32) } else { n };
    let whole = (u64::from(columns) * element.bytes()).is_multiple_of(ALIGN);
    let too_far = m > 1 && far(ldc) || parts > 1 && far(part_stride);
    if !aligned || !whole || too_far {
        return Ok(None);
    }
    let shape = IntTuple::flat(&[i64::from(m), i64::from(columns), i64::from(parts)]);
    let tensor = Layout::new(shape, IntTuple::flat(&[ldc, 1, part_stride]));
    map(stream, tile, element, arguments.c.address(), &tensor, TensorPromotion::B256).map(Some)
}

/// Launches a `wgmma` kernel for `arguments.batches` batches of a plan; `pieces` is the address of
/// the partial accumulators, if tiles are shared.
///
/// # Safety
/// The contract of the kernel: the arguments and views refer to memory of the device that may be
/// read and written.
pub(super) unsafe fn launch<T: Operand, U: Output<T>>(
    stream: &Stream,
    WgmmaKernel { kernel, maps }: &WgmmaKernel<T>,
    plan: &Plan<T>,
    pieces: Option<u64>,
    operands: [&View; 2],
    target: Target,
    mut arguments: ArgumentsOf<T>,
) -> Result<()> {
    let ArgumentsOf::<T> { m, n, k, batches, .. } = arguments;
    let schedule = plan.variant.schedule;
    let persistent = !schedule.fixes_slices();
    let [major_a, major_b] = plan.variant.majors;
    let [view_a, view_b] = operands;
    let a = Source { view: view_a, major: major_a, leading: arguments.lda, extent: m, k, batches };
    let b = Source { view: view_b, major: major_b, leading: arguments.ldb, extent: n, k, batches };
    let a = map_of_operand::<T>(stream, maps.a, a)?;
    let b = map_of_operand::<T>(stream, maps.b, b)?;
    let c = match maps.c {
        Some(tiles) => map_of_target::<T, U>(stream, tiles[usize::from(target.wide)], target, &arguments)?,
        None => None,
    };
    arguments.tensor_c = u32::from(c.is_some());
    // The kernel does not read an absent map.
    let c = c.as_ref().map_or(Map::from_words([0; 16]), KernelArg::pass);
    let (cluster, [tile_m, tile_n, _]) = (schedule.cluster(), plan.variant.tile);
    let tiles = u64::from(m.div_ceil(tile_m * schedule.cluster_tiles()))
        * u64::from(n.div_ceil(tile_n))
        * u64::from(batches)
        * u64::from(arguments.splits);
    let at_once = match persistent {
        true => u64::from(clusters(stream.device().properties().multiprocessors, cluster)),
        false => tiles,
    };
    let (clusters, counters, sharing) = match pieces {
        None => (at_once.min(tiles) as u32, None, Sharing::NONE),
        Some(pieces) => {
            let counters = Counters::of(stream)?;
            let sharing = Sharing {
                sums: GlobalMut::from_address(pieces),
                counters: GlobalMut::from_address(counters.address()),
                cut: plan.cut,
            };
            (plan.clusters, Some(counters), sharing)
        }
    };
    let threads = kernel.bounds().threads.unwrap_or(THREADS);
    let grid = Grid::new(clusters * cluster, threads).clusters(cluster).dependent();
    // SAFETY: the caller's arguments and views are valid. The kernel waits for earlier kernels of
    // the stream before it uses memory, including the workspace's accumulators and counters.
    let launched = unsafe { PTX.launch(stream, kernel, grid, (&a, &b, c, arguments, sharing)) };
    // On the simulator the launch is complete; on a GPU the stream owns the counters.
    drop(counters);
    launched
}

/// Launches an FMA kernel with TMA loads for `arguments.batches` batches. Each operand has a
/// separate extent along M or N, and the last tiles may pass it.
///
/// # Safety
/// The contract of the kernel: the arguments and views refer to memory of the device that may be
/// read and written.
pub(super) unsafe fn launch_sgemm<T: Operand>(
    stream: &Stream,
    kernel: &Kernel<(Map, Map, ArgumentsOf<T>)>,
    boxes: &[SgemmBox; 2],
    tiles: u32,
    operands: [&View; 2],
    extents: [u32; 2],
    arguments: ArgumentsOf<T>,
) -> Result<()> {
    // f32 only: these kernels exist for no other type. Another element type in the tensor map would
    // round to tf32.
    debug_assert_eq!(size_of::<T>(), size_of::<T::Scalar>(), "operands of the accumulators' type");
    let map = |i: usize, leading: i64| {
        let (of, view) = (&boxes[i], operands[i]);
        let batches = batches_of(view, arguments.batches);
        let tensor = operand(of.major, (extents[i], arguments.k), leading, batches);
        let fields =
            of.tile.tensor_map(T::TENSOR_SCALAR, view.address, &tensor).map_err(Error::TensorOfTile)?;
        TensorMap::new(stream.device(), &fields.with_swizzle(span_of(of.swizzle)))
    };
    let a = map(0, arguments.lda)?;
    let b = map(1, arguments.ldb)?;
    let threads = kernel.bounds().threads.unwrap_or(THREADS);
    let grid = Grid::new((tiles, arguments.batches * arguments.splits), threads).dependent();
    // SAFETY: the caller's arguments and views are valid. The kernel waits for earlier kernels of
    // the stream.
    unsafe { PTX.launch(stream, kernel, grid, (&a, &b, arguments)) }
}

/// The tensor map's name of a swizzle of 16-byte vectors in rows of 32, 64 or 128 bytes.
fn span_of(swizzle: Swizzle) -> TensorSwizzle {
    match swizzle.bits() {
        0 => TensorSwizzle::None,
        1 => TensorSwizzle::B32,
        2 => TensorSwizzle::B64,
        _ => TensorSwizzle::B128,
    }
}

/// The number of clusters that run at the same time.
pub(super) fn clusters(multiprocessors: u32, cluster: u32) -> u32 {
    (multiprocessors / cluster).max(1)
}

/// Bytes of the partial accumulators of this many pieces.
pub(super) fn bytes_of_pieces(pieces: u32, cluster: u32, tile_m: u32, tile_n: u32) -> u64 {
    u64::from(pieces) * u64::from(cluster) * u64::from(tile_m) * u64::from(tile_n) * 4
}

/// The minimum number of rows of a consumer warpgroup. It bounds a block's counters for a tile.
const ROWS_OF_WARPGROUP: u32 = 64;

/// Whether there are counters for this many shared tiles of `tile_m` rows.
pub(super) fn can_count(tiles: u32, cluster: u32, tile_m: u32) -> bool {
    let each = u64::from(cluster) * u64::from(tile_m.div_ceil(ROWS_OF_WARPGROUP));
    u64::from(tiles) * each <= u64::from(Counters::COUNT)
}

/// The maximum number of batches of a launch for which there are enough counters.
pub(super) fn batches_at_once(tiles: u64) -> Result<u32> {
    let limit = u64::from(moye_runtime::MAX_BLOCKS[0]);
    match limit / tiles.max(1) {
        0 => Err(Error::MatrixTooLarge {
            operation: OPERATION,
            what: "tiles of c",
            value: tiles as usize,
            limit,
        }),
        at_once => Ok(at_once as u32),
    }
}
