//! Products by TMA and `wgmma`: the kernels' arguments, tensor maps and launch.

use super::element::{Clusters, Operand, Output};
use super::operand::View;
use crate::device::{Arch, Device};
use crate::launch::Grid;
use crate::memory::Counters;
use crate::stream::Stream;
use crate::tensor_map::TensorMap;
use crate::{Error, Result};
use moye_device::kernel::Kernel;
use moye_device::layout::Major;
use moye_device::memory::{GlobalMut, TensorMap as Map};
use moye_kernels::hopper::{Boxes, Cut, SgemmBox, Sharing};
use moye_kernels::mma::Arguments;
use moye_sim::{TensorElement, TensorMap as Fields, TensorPromotion, TensorSwizzle};

/// A kernel of [`moye_kernels::hopper`].
pub type TmaProduct<T> = Kernel<(
    Map,
    Map,
    Map,
    Arguments<T, <T as Operand>::Narrow, <T as Operand>::Scalar>,
    Sharing<<T as Operand>::Scalar>,
)>;

/// An f32 kernel by FMA whose operands TMA loads, [`sgemm`](moye_kernels::hopper::sgemm).
pub type LoadedProduct<T> = Kernel<(Map, Map, Arguments<T, <T as Operand>::Narrow, <T as Operand>::Scalar>)>;

/// Rows of a box of C, and bytes of a row of any box.
const BOX_ROWS: u32 = 64;
const ROW: u32 = 128;

/// Strides of tensor maps are multiples of this many bytes, and below [`STRIDES`].
const ALIGN: u64 = 16;
const STRIDES: u64 = 1 << 40;

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

/// The map of an operand that is contiguous along the mode of the boxes.
fn map_of_operand(
    stream: &Stream,
    element: TensorElement,
    view: &View,
    leading: i64,
    boxes: Boxes,
    (extent, k): (u32, u32),
    (address, batches): (u64, u32),
) -> Result<TensorMap> {
    let (along, across) = match boxes.major {
        Major::K => (k, extent),
        Major::Mn => (extent, k),
    };
    // Batches with stride 0 are one batch.
    let batches = if view.batch == 0 { 1 } else { batches };
    let (extents, strides) = ([along, across, batches], [leading, view.batch]);
    if boxes.depth == 1 {
        return map(stream, (element, address), extents, strides, boxes.extents);
    }
    // Blocks along K are a dimension with the extent of a box; or there is one block with the
    // extent K.
    let [row, part] = bytes_of_strides(element, extents, strides);
    let [inner, outer] = boxes.extents;
    let (block, blocks) = if boxes.at_once > 1 { (inner, k / inner) } else { (k, 1) };
    let extents = [block, across, blocks, batches].map(u64::from);
    let strides = [row, u64::from(ROW), part];
    let fields = Fields::new(element, address, &extents, &strides, &[inner, outer, boxes.at_once, 1]);
    // Adjacent boxes go to the same stage. Requested separately, they would cross between the
    // halves of the L2 cache twice.
    new_map(stream, fields, TensorPromotion::B128)
}

/// The output matrix.
pub(super) struct Target {
    /// The address of the first element.
    pub address: u64,
    /// Whether its element type is the accumulator's.
    pub wide: bool,
    /// Whether a tensor map may write it: address and strides are multiples of 16 bytes.
    pub aligned: bool,
    /// Whether the padding between the end of a row and the next multiple of 16 bytes may be
    /// overwritten.
    pub padded: bool,
    /// Slices, batches or splits, and their stride in elements.
    pub parts: (u32, i64),
}

/// Launches a product of `arguments.batches` batches.
///
/// # Safety
/// As for the kernel: the arguments and views name the device's memory, which may be read and
/// written.
pub(super) unsafe fn launch<T: Operand, U: Output<T>>(
    stream: &Stream,
    (kernel, boxes, blocks): (&TmaProduct<T>, [Boxes; 2], Clusters),
    tile: (u32, u32),
    pieces: Option<Pieces>,
    operands: [&View; 2],
    target: &Target,
    mut arguments: Arguments<T, T::Narrow, T::Scalar>,
) -> Result<()> {
    let (m, n, k) = (arguments.m, arguments.n, arguments.k);
    let batches = arguments.batches;
    let boxes = match blocks {
        Clusters::Rows(_) => boxes,
        Clusters::Parts(_) => [boxes[0].fitted(m, k), boxes[1].fitted(n, k)],
    };
    let a = map_of_operand(
        stream,
        T::TENSOR_ELEMENT,
        operands[0],
        arguments.lda,
        boxes[0],
        (m, k),
        (arguments.a.address(), batches),
    )?;
    let b = map_of_operand(
        stream,
        T::TENSOR_ELEMENT,
        operands[1],
        arguments.ldb,
        boxes[1],
        (n, k),
        (arguments.b.address(), batches),
    )?;
    let element = if target.wide { T::TENSOR_SCALAR } else { U::TENSOR_ELEMENT };
    let (parts, part) = target.parts;
    let far = |stride: i64| stride as u64 >= STRIDES / element.bytes();
    // An H200 stores whole 16-byte vectors, also where a row ends within one (observed). If the
    // padding may be overwritten, the map's extent includes it, with any values, so that later
    // 16-byte reads are of initialised memory.
    let columns = if target.padded { n.next_multiple_of((ALIGN / element.bytes()) as u32) } else { n };
    let whole = (u64::from(columns) * element.bytes()).is_multiple_of(ALIGN);
    let too_far = m > 1 && far(arguments.ldc) || parts > 1 && far(part);
    // Blocks with a share of a tile have fewer rows than a box.
    let by_boxes = matches!(blocks, Clusters::Rows(_));
    arguments.tensor_c = u32::from(by_boxes && target.aligned && whole && !too_far);
    let c = match arguments.tensor_c {
        // The kernel does not read it.
        0 => a.clone(),
        _ => map(
            stream,
            (element, target.address),
            [columns, m, parts],
            [arguments.ldc, part],
            [ROW / element.bytes() as u32, BOX_ROWS],
        )?,
    };
    let cluster = blocks.blocks();
    let tiles = u64::from(m.div_ceil(tile.0 * blocks.tiles()))
        * u64::from(n.div_ceil(tile.1))
        * u64::from(batches)
        * u64::from(arguments.splits);
    let at_once = match blocks {
        Clusters::Rows(_) => u64::from(clusters(stream.device().properties().multiprocessors, cluster)),
        Clusters::Parts(_) => tiles,
    };
    let (clusters, counters, sharing) = match pieces {
        None => (at_once.min(tiles) as u32, None, Sharing::NONE),
        Some(Pieces { clusters, cut, sums }) => {
            let counters = Counters::of(stream)?;
            let sharing = Sharing {
                sums: GlobalMut::from_address(sums),
                counters: GlobalMut::from_address(counters.address()),
                cut,
            };
            (clusters, Some(counters), sharing)
        }
    };
    let threads = kernel.bounds().threads.unwrap_or(384);
    let grid = Grid::new(clusters * cluster, threads).clusters(cluster).dependent();
    // SAFETY: the caller's contract. The kernel waits for earlier kernels of the stream, also
    // before it uses the workspace's accumulators and counters.
    let launched = unsafe { stream.launch(kernel, grid, (&a, &b, &c, arguments, sharing)) };
    // On the simulator the launch is complete; on a GPU the counters keep their memory.
    drop(counters);
    launched
}

/// Launches a product of `arguments.batches` batches with a kernel that has one tile for each
/// block. Each operand has its own extent along M or N, and the last tiles may pass it.
///
/// # Safety
/// As for the kernel: the arguments and views name the device's memory, which may be read and
/// written.
pub(super) unsafe fn launch_loaded<T: Operand>(
    stream: &Stream,
    (kernel, boxes): (&LoadedProduct<T>, [SgemmBox; 2]),
    tiles: u32,
    operands: [(&View, u32); 2],
    arguments: Arguments<T, T::Narrow, T::Scalar>,
) -> Result<()> {
    // f32 only: these kernels exist for no other type. Other element types in the tensor map would
    // round to tf32.
    debug_assert_eq!(size_of::<T>(), size_of::<T::Scalar>(), "operands of what is computed in");
    let map = |(view, extent): (&View, u32), of: SgemmBox, leading: i64, address: u64| {
        let (along, across, inner, outer, swizzle) = match of.major {
            Major::K => (arguments.k, extent, of.k, of.extent, TensorSwizzle::B128),
            Major::Mn => (extent, arguments.k, of.extent, of.k, TensorSwizzle::None),
        };
        // Batches with stride 0 are one batch.
        let batches = if view.batch == 0 { 1 } else { arguments.batches };
        let extents = [along, across, batches];
        let strides = bytes_of_strides(T::TENSOR_SCALAR, extents, [leading, view.batch]);
        let fields =
            Fields::new(T::TENSOR_SCALAR, address, &extents.map(u64::from), &strides, &[inner, outer, 1]);
        TensorMap::new(stream.device(), &fields.with_swizzle(swizzle))
    };
    let a = map(operands[0], boxes[0], arguments.lda, arguments.a.address())?;
    let b = map(operands[1], boxes[1], arguments.ldb, arguments.b.address())?;
    let threads = kernel.bounds().threads.unwrap_or(384);
    let grid = Grid::new((tiles, arguments.batches * arguments.splits), threads).dependent();
    // SAFETY: the caller's contract. The kernel waits for earlier kernels of the stream.
    unsafe { stream.launch(kernel, grid, (&a, &b, arguments)) }
}

/// The pieces of shared tiles, see [`Sharing`].
pub(super) struct Pieces {
    /// Clusters of the grid.
    pub clusters: u32,
    /// How the last tiles are split.
    pub cut: Cut,
    /// The address of the partial accumulators: [`bytes_of_pieces`].
    pub sums: u64,
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
            operation: "matmul",
            what: "tiles of c",
            value: tiles as usize,
            limit,
        }),
        at_once => Ok(at_once as u32),
    }
}
