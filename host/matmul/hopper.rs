//! Products by TMA and `wgmma`: what their kernels are told of the matrices, and their launch.

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

/// A kernel of f32 by FMA whose operands TMA loads, [`sgemm`](moye_kernels::hopper::sgemm).
pub type LoadedProduct<T> = Kernel<(Map, Map, Arguments<T, <T as Operand>::Narrow, <T as Operand>::Scalar>)>;

/// Rows of a box of C, and bytes of a row of any box.
const BOX_ROWS: u32 = 64;
const ROW: u32 = 128;

/// Strides of tensor maps are multiples of this, in bytes, and less than [`STRIDES`].
const ALIGN: u64 = 16;
const STRIDES: u64 = 1 << 40;

/// Whether a device has TMA and `wgmma`: they are sm_90a's, and no other architecture's.
pub(super) fn is_there(device: &Device) -> bool {
    device.arch() == Arch::new(9, 0)
}

/// Whether TMA can load an operand whose rows are `leading` elements apart: no row lies twice, and
/// none too far.
pub(super) fn takes(view: &View, leading: i64, others: u32) -> bool {
    let bytes = |stride: i64| u64::try_from(stride).ok().and_then(|stride| stride.checked_mul(view.bytes));
    let fits = |stride: i64, count: u32| {
        count <= 1 || bytes(stride).is_some_and(|bytes| bytes < STRIDES && (bytes > 0 || stride == 0))
    };
    fits(leading, others) && (others <= 1 || leading > 0) && fits(view.batch, view.batches)
}

/// The map of a matrix: `along` elements of each of `across` rows, of each of `parts`. Strides in
/// elements; where there is but one of something, its stride is of no meaning.
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

/// The strides of a matrix in bytes, as a map takes them: also of what there is but one.
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

/// A map with these fields, as all are swizzled.
fn new_map(stream: &Stream, fields: Fields, promotion: TensorPromotion) -> Result<TensorMap> {
    let fields = Fields { promotion, ..fields };
    TensorMap::new(stream.device(), &fields.with_swizzle(TensorSwizzle::B128))
}

/// The map of an operand, which is contiguous as the boxes say.
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
    // Batches that are the same are one.
    let batches = if view.batch == 0 { 1 } else { batches };
    let (extents, strides) = ([along, across, batches], [leading, view.batch]);
    if boxes.depth == 1 {
        return map(stream, (element, address), extents, strides, boxes.extents);
    }
    // Blocks along K are a dimension, each as long as a box; or there is one, as long as K.
    let [row, part] = bytes_of_strides(element, extents, strides);
    let [inner, outer] = boxes.extents;
    let (block, blocks) = if boxes.at_once > 1 { (inner, k / inner) } else { (k, 1) };
    let extents = [block, across, blocks, batches].map(u64::from);
    let strides = [row, u64::from(ROW), part];
    let fields = Fields::new(element, address, &extents, &strides, &[inner, outer, boxes.at_once, 1]);
    // What lies beside a box's rows is in the same stage: asked for twice, it would pass the L2
    // cache's halves twice.
    new_map(stream, fields, TensorPromotion::B128)
}

/// What is written, and where.
pub(super) struct Target {
    /// Of the first element, in bytes.
    pub address: u64,
    /// Whether it has elements of the type that is computed in.
    pub wide: bool,
    /// Whether a tensor map may write it: addresses and strides are multiples of 16 bytes.
    pub aligned: bool,
    /// Whether what lies between the end of a row and the next multiple of 16 bytes may be written
    /// too.
    pub padded: bool,
    /// Parts, batches or splits of them, and their distance in elements.
    pub parts: (u32, i64),
}

/// Launches a product of `arguments.batches` batches.
///
/// # Safety
/// As for the kernel: what the arguments and views name is in the device's memory, and may be read
/// and written.
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
    // An H200 stores whole pieces of 16 bytes, also where a row ends within one (seen). Where what
    // is behind is ours, the map says that they are written whole, whatever with: so whoever reads
    // them by such pieces reads nothing that nobody wrote.
    let columns = if target.padded { n.next_multiple_of((ALIGN / element.bytes()) as u32) } else { n };
    let whole = (u64::from(columns) * element.bytes()).is_multiple_of(ALIGN);
    let too_far = m > 1 && far(arguments.ldc) || parts > 1 && far(part);
    // Blocks with a share of a tile have fewer rows than a box.
    let by_boxes = matches!(blocks, Clusters::Rows(_));
    arguments.tensor_c = u32::from(by_boxes && target.aligned && whole && !too_far);
    let c = match arguments.tensor_c {
        // It is not looked at.
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
    // SAFETY: the caller's contract; the kernel waits for those in front of it, also for the sums
    // and counters of pieces.
    let launched = unsafe { stream.launch(kernel, grid, (&a, &b, &c, arguments, sharing)) };
    // The simulator has ended, a GPU's counters stay.
    drop(counters);
    launched
}

/// Launches a product of `arguments.batches` batches, each with so many tiles: of a kernel whose
/// blocks have a tile each. Each operand comes with its own extent along M or N: tiles may hang
/// over it.
///
/// # Safety
/// As for the kernel: what the arguments and views name is in the device's memory, and may be read
/// and written.
pub(super) unsafe fn launch_loaded<T: Operand>(
    stream: &Stream,
    (kernel, boxes): (&LoadedProduct<T>, [SgemmBox; 2]),
    tiles: u32,
    operands: [(&View, u32); 2],
    arguments: Arguments<T, T::Narrow, T::Scalar>,
) -> Result<()> {
    // Of f32, the only elements that have such kernels: what operands are called otherwise is
    // rounded to tf32 on its way.
    debug_assert_eq!(size_of::<T>(), size_of::<T::Scalar>(), "operands of what is computed in");
    let map = |(view, extent): (&View, u32), of: SgemmBox, leading: i64, address: u64| {
        let (along, across, inner, outer, swizzle) = match of.major {
            Major::K => (arguments.k, extent, of.k, of.extent, TensorSwizzle::B128),
            Major::Mn => (extent, arguments.k, of.extent, of.k, TensorSwizzle::None),
        };
        // Batches that are the same are one.
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
    // SAFETY: the caller's contract; the kernel waits for those in front of it.
    unsafe { stream.launch(kernel, grid, (&a, &b, arguments)) }
}

/// The pieces of shared tiles, see [`Sharing`].
pub(super) struct Pieces {
    /// Clusters of the grid.
    pub clusters: u32,
    /// How the last tiles are cut.
    pub cut: Cut,
    /// Where their sums go: [`bytes_of_pieces`].
    pub sums: u64,
}

/// Clusters that run at the same time.
pub(super) fn clusters(multiprocessors: u32, cluster: u32) -> u32 {
    (multiprocessors / cluster).max(1)
}

/// Bytes of the sums of so many pieces of tiles of clusters.
pub(super) fn bytes_of_pieces(pieces: u32, cluster: u32, tile: (u32, u32)) -> u64 {
    u64::from(pieces) * u64::from(cluster) * u64::from(tile.0) * u64::from(tile.1) * 4
}

/// Rows of a consuming warpgroup, at least: so a block has no more counters of a tile than there
/// are of these.
const ROWS_OF_WARPGROUP: u32 = 64;

/// Whether there are counters for so many shared tiles.
pub(super) fn can_count(tiles: u32, cluster: u32, tile: (u32, u32)) -> bool {
    let each = u64::from(cluster) * u64::from(tile.0.div_ceil(ROWS_OF_WARPGROUP));
    u64::from(tiles) * each <= u64::from(Counters::COUNT)
}

/// How many batches a launch takes at most, so that its tiles can be counted.
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
