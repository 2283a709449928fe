//! Kernels by TMA: their tensor maps and launch.

use super::descriptor::OPERATION;
use super::element::{Operand, Output};
use super::operand::View;
use super::plan::Plan;
use super::variants::ArgumentsOf;
use super::workspace::along_and_across;
use crate::device::{Arch, Device};
use crate::launch::Grid;
use crate::memory::Counters;
use crate::stream::Stream;
use crate::tensor_map::TensorMap;
use crate::{Error, Result};
use moye_device::kernel::Kernel;
use moye_device::layout::Major;
use moye_device::memory::{GlobalMut, TensorMap as Map};
use moye_kernels::hopper::{Boxes, SgemmBox, Sharing};
use moye_sim::{TensorElement, TensorMap as Fields, TensorPromotion, TensorSwizzle};

/// Rows of a box of C, and bytes of a row of any box.
const BOX_ROWS: u32 = 64;
const ROW: u32 = 128;

/// Strides of tensor maps are multiples of this many bytes, and below [`STRIDES`].
const ALIGN: u64 = 16;
const STRIDES: u64 = 1 << 40;

/// Threads of a block of a kernel without bounds.
const THREADS: u32 = 384;

/// Whether a device has TMA and `wgmma`: only sm_90a has.
pub(super) fn is_there(device: &Device) -> bool {
    device.arch() == Arch::new(9, 0)
}

/// Whether TMA can load an operand whose rows are `leading` elements apart: rows do not overlap,
/// and the stride is in range.
pub(super) fn takes(view: &View, leading: i64, others: u32) -> bool {
    let bytes = |stride: i64| u64::try_from(stride).ok().and_then(|stride| stride.checked_mul(view.bytes));
    let fits = |stride: i64, count: u32| {
        count <= 1 || bytes(stride).is_some_and(|bytes| bytes < STRIDES && (bytes > 0 || stride == 0))
    };
    fits(leading, others) && (others <= 1 || leading > 0) && fits(view.batch, view.batches)
}

/// The map of a matrix: `parts` slices of `across` rows of `along` elements. Strides are in
/// elements; the stride of an extent 1 is ignored.
fn map(
    stream: &Stream,
    (element, address): (TensorElement, u64),
    [along, across, parts]: [u32; 3],
    strides: [i64; 2],
    [inner, outer]: [u32; 2],
) -> Result<TensorMap> {
    let [row, part] = bytes_of_strides(element, [along, across, parts], strides);
    let extents = [along, across, parts].map(u64::from);
    let fields = Fields::new(element, address, &extents, &[row, part], &[inner, outer, 1]);
    new_map(stream, fields, TensorPromotion::B256)
}

/// The strides in bytes, valid for a map even where the extent is 1.
fn bytes_of_strides(
    element: TensorElement,
    [along, across, parts]: [u32; 3],
    [row, part]: [i64; 2],
) -> [u64; 2] {
    let bytes = element.bytes();
    let stride = |stride: i64, count: u32, least: u64| {
        if count > 1 { stride as u64 * bytes } else { least.next_multiple_of(ALIGN) }
    };
    let row = stride(row, across, u64::from(along) * bytes);
    [row, stride(part, parts, row)]
}

/// A map with these fields, swizzled.
fn new_map(stream: &Stream, fields: Fields, promotion: TensorPromotion) -> Result<TensorMap> {
    let fields = Fields { promotion, ..fields };
    TensorMap::new(stream.device(), &fields.with_swizzle(TensorSwizzle::B128))
}

/// The map of an operand that is contiguous along the mode of the boxes, with this leading
/// dimension and `(extent, k)` elements.
fn map_of_operand(
    stream: &Stream,
    element: TensorElement,
    view: &View,
    leading: i64,
    boxes: Boxes,
    (extent, k): (u32, u32),
    batches: u32,
) -> Result<TensorMap> {
    let (along, across) = along_and_across(boxes.major, extent, k);
    // Batches with stride 0 are one batch.
    let batches = if view.batch == 0 { 1 } else { batches };
    let (extents, strides) = ([along, across, batches], [leading, view.batch]);
    if boxes.depth == 1 {
        return map(stream, (element, view.address), extents, strides, boxes.extents);
    }
    // Blocks along K are a dimension with the extent of a box; or there is one block with the
    // extent K.
    let [row, part] = bytes_of_strides(element, extents, strides);
    let [inner, outer] = boxes.extents;
    let (block, blocks) = if boxes.at_once > 1 { (inner, k / inner) } else { (k, 1) };
    let extents = [block, across, blocks, batches].map(u64::from);
    let strides = [row, u64::from(ROW), part];
    let fields = Fields::new(element, view.address, &extents, &strides, &[inner, outer, boxes.at_once, 1]);
    // Adjacent boxes go to the same stage. Requested separately, they would cross between the
    // halves of the L2 cache twice.
    new_map(stream, fields, TensorPromotion::B128)
}

/// How a kernel writes its output matrix, C or a workspace.
pub(super) struct Target {
    /// Whether its element type is the accumulator's.
    pub wide: bool,
    /// Whether a tensor map may write it: address and strides are multiples of 16 bytes.
    pub aligned: bool,
    /// Whether the padding between the end of a row and the next multiple of 16 bytes may be
    /// overwritten.
    pub padded: bool,
    /// Batches or slices, and their stride in elements.
    pub parts: (u32, i64),
}

/// The map of the output matrix; `None` if the kernel must write it by address.
fn map_of_target<T: Operand, U: Output<T>>(
    stream: &Stream,
    Target { wide, aligned, padded, parts: (parts, part) }: Target,
    arguments: &ArgumentsOf<T>,
) -> Result<Option<TensorMap>> {
    let ArgumentsOf::<T> { m, n, ldc, .. } = *arguments;
    let element = if wide { T::TENSOR_SCALAR } else { U::TENSOR_ELEMENT };
    let far = |stride: i64| stride as u64 >= STRIDES / element.bytes();
    // An H200 stores whole 16-byte vectors, also where a row ends within one (observed). If the
    // padding may be overwritten, the map's extent includes it, with any values, so that later
    // 16-byte reads are of initialised memory.
    let columns = if padded { n.next_multiple_of((ALIGN / element.bytes()) as u32) } else { n };
    let whole = (u64::from(columns) * element.bytes()).is_multiple_of(ALIGN);
    let too_far = m > 1 && far(ldc) || parts > 1 && far(part);
    if !aligned || !whole || too_far {
        return Ok(None);
    }
    let boxes = [ROW / element.bytes() as u32, BOX_ROWS];
    map(stream, (element, arguments.c.address()), [columns, m, parts], [ldc, part], boxes).map(Some)
}

/// Launches a `wgmma` kernel for `arguments.batches` batches of a plan; `pieces` is the address of
/// the partial accumulators, if tiles are shared.
///
/// # Safety
/// As for the kernel: the arguments and views name the device's memory, which may be read and
/// written.
pub(super) unsafe fn launch<T: Operand, U: Output<T>>(
    stream: &Stream,
    (kernel, boxes): (&Kernel<(Map, Map, Map, ArgumentsOf<T>, Sharing<T::Scalar>)>, [Boxes; 2]),
    plan: &Plan<T>,
    pieces: Option<u64>,
    operands: [&View; 2],
    target: Target,
    mut arguments: ArgumentsOf<T>,
) -> Result<()> {
    let ArgumentsOf::<T> { m, n, k, batches, .. } = arguments;
    let schedule = plan.variant.schedule;
    let persistent = !schedule.fixes_slices();
    let boxes = if persistent { boxes } else { [boxes[0].fitted(m, k), boxes[1].fitted(n, k)] };
    let element = T::TENSOR_ELEMENT;
    let a = map_of_operand(stream, element, operands[0], arguments.lda, boxes[0], (m, k), batches)?;
    let b = map_of_operand(stream, element, operands[1], arguments.ldb, boxes[1], (n, k), batches)?;
    // Blocks with a share of a tile have fewer rows than a box.
    let c = if persistent { map_of_target::<T, U>(stream, target, &arguments)? } else { None };
    arguments.tensor_c = u32::from(c.is_some());
    // Without a map the kernel reads none.
    let c = c.unwrap_or_else(|| a.clone());
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
    // SAFETY: the caller's contract. The kernel waits for earlier kernels of the stream, also
    // before it uses the workspace's accumulators and counters.
    let launched = unsafe { stream.launch(kernel, grid, (&a, &b, &c, arguments, sharing)) };
    // On the simulator the launch is complete; on a GPU the counters keep their memory.
    drop(counters);
    launched
}

/// Launches an FMA kernel whose operands TMA loads, for `arguments.batches` batches. Each operand
/// has its own extent along M or N, and the last tiles may pass it.
///
/// # Safety
/// As for the kernel: the arguments and views name the device's memory, which may be read and
/// written.
pub(super) unsafe fn launch_sgemm<T: Operand>(
    stream: &Stream,
    (kernel, boxes): (&Kernel<(Map, Map, ArgumentsOf<T>)>, [SgemmBox; 2]),
    tiles: u32,
    operands: [(&View, u32); 2],
    arguments: ArgumentsOf<T>,
) -> Result<()> {
    // f32 only: these kernels exist for no other type. Other element types in the tensor map would
    // round to tf32.
    debug_assert_eq!(size_of::<T>(), size_of::<T::Scalar>(), "operands of the accumulators' type");
    let map = |(view, extent): (&View, u32), of: SgemmBox, leading: i64| {
        let (along, across) = along_and_across(of.major, extent, arguments.k);
        let (inner, outer) = along_and_across(of.major, of.extent, of.k);
        let swizzle = if of.major == Major::K { TensorSwizzle::B128 } else { TensorSwizzle::None };
        // Batches with stride 0 are one batch.
        let batches = if view.batch == 0 { 1 } else { arguments.batches };
        let extents = [along, across, batches];
        let strides = bytes_of_strides(T::TENSOR_SCALAR, extents, [leading, view.batch]);
        let extents = extents.map(u64::from);
        let fields = Fields::new(T::TENSOR_SCALAR, view.address, &extents, &strides, &[inner, outer, 1]);
        TensorMap::new(stream.device(), &fields.with_swizzle(swizzle))
    };
    let a = map(operands[0], boxes[0], arguments.lda)?;
    let b = map(operands[1], boxes[1], arguments.ldb)?;
    let threads = kernel.bounds().threads.unwrap_or(THREADS);
    let grid = Grid::new((tiles, arguments.batches * arguments.splits), threads).dependent();
    // SAFETY: the caller's contract. The kernel waits for earlier kernels of the stream.
    unsafe { stream.launch(kernel, grid, (&a, &b, arguments)) }
}

/// Clusters that run at the same time.
pub(super) fn clusters(multiprocessors: u32, cluster: u32) -> u32 {
    (multiprocessors / cluster).max(1)
}

/// Bytes of the partial accumulators of this many pieces.
pub(super) fn bytes_of_pieces(pieces: u32, cluster: u32, tile: (u32, u32)) -> u64 {
    u64::from(pieces) * u64::from(cluster) * u64::from(tile.0) * u64::from(tile.1) * 4
}

/// The smallest number of rows of a consumer warpgroup. It bounds a block's counters for a tile.
const ROWS_OF_WARPGROUP: u32 = 64;

/// Whether there are counters for this many shared tiles.
pub(super) fn can_count(tiles: u32, cluster: u32, tile: (u32, u32)) -> bool {
    let each = u64::from(cluster) * u64::from(tile.0.div_ceil(ROWS_OF_WARPGROUP));
    u64::from(tiles) * each <= u64::from(Counters::COUNT)
}

/// The largest number of batches of a launch whose tiles can be counted.
pub(super) fn batches_at_once(tiles: u64) -> Result<u32> {
    let limit = u64::from(crate::MAX_BLOCKS[0]);
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
