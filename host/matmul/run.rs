//! A product step by step: checked, planned, its operands rearranged where they must be, multiplied, finished.

use super::builder::{Batch, BiasAlong, Explanation};
use super::element::{Clusters, Code, Major, Operand, Output, Precision};
use super::hopper::{self, Pieces, Target};
use super::operand::View;
use super::plan::{Forced, Plan, Question, plan};
use crate::device::Device;
use crate::kernels::mma::{Activation, Arguments, Scales};
use crate::kernels::{pack_u8, pack_u16, pack_u32, pack_u64, realign};
use crate::launch::Grid;
use crate::matrix::{Matrix, MatrixMut, Shape, check_device};
use crate::memory::{BufferSlice, Workspace};
use crate::stream::Stream;
use crate::{Error, Result};
use moye_device::arch::Fma;
use moye_device::kernels::mma::Scalar;
use moye_device::memory::{Element, Global, GlobalMut};

const OPERATION: &str = "matmul";

/// The largest extent: a tile more still fits into 31 bits.
const MAX_EXTENT: usize = i32::MAX as usize - 256;

/// Batches times parts of K are blocks along y.
const MAX_Y: u32 = crate::MAX_BLOCKS[1];

/// Rows of workspaces start at multiples of this, in bytes.
const ROW_ALIGN: u64 = 16;

/// Bytes of a line of the L2 cache.
const LINE: u64 = 128;

/// Parts of a workspace start at multiples of this, in bytes.
const PART_ALIGN: u64 = 256;

/// All that was asked for.
pub(super) struct Request<'r, 'a, T: Operand, U: Element> {
    pub a: &'r Matrix<'a, T>,
    pub b: &'r Matrix<'a, T>,
    pub alpha: T::Scalar,
    pub beta: T::Scalar,
    pub bias: Option<&'r (BufferSlice<'a, U>, BiasAlong)>,
    /// Of A's rows and B's columns.
    pub scales: [Option<&'r BufferSlice<'a, T::Scalar>>; 2],
    pub activation: Activation,
    pub precision: Precision,
    pub batch: Batch,
    pub forced: Forced,
    /// What was measured to be the fastest. Where no kernel has it, it counts for nothing.
    pub measured: Option<Forced>,
}

/// The problem as the kernels see it: C row-major, or to be written by way of a workspace that is.
struct Problem<T: Operand> {
    /// M, N, K.
    extents: [u32; 3],
    batches: u32,
    /// A as (M, K), B as (N, K).
    operands: [View; 2],
    c: View,
    /// Address (0: none) and strides along M and N.
    bias: (u64, i64, i64),
    /// Of A and of B.
    scales: [ScaleOf; 2],
    alpha: T::Scalar,
    beta: T::Scalar,
    activation: Activation,
    /// Whether C has no contiguous axis, so that it is computed elsewhere and rearranged.
    scattered: bool,
}

/// An operand's scale: address (0: none), and strides along M or N and between batches.
type ScaleOf = (u64, i64, i64);

/// Where the parts of the workspace begin, in bytes.
#[derive(Default)]
struct Layout {
    packed: [Option<u64>; 2],
    sums: Option<u64>,
    pieces: Option<u64>,
    c: Option<u64>,
    bytes: u64,
}

impl Layout {
    fn take(&mut self, bytes: u128) -> Result<u64> {
        let start = self.bytes;
        let end = u128::from(start) + bytes.next_multiple_of(u128::from(PART_ALIGN));
        self.bytes = u64::try_from(end).ok().filter(|&end| end <= i64::MAX as u64).ok_or_else(|| {
            let detail = format!(
                "the workspace would need {end} bytes, more than can be addressed; split the matrices"
            );
            Error::Unsupported { operation: OPERATION, detail }
        })?;
        Ok(start)
    }
}

/// Computes a product.
///
/// # Safety
/// As for [`matmul_on`](crate::matmul_on).
pub(super) unsafe fn run<T: Operand, U: Output<T>>(
    request: &Request<'_, '_, T, U>,
    stream: &Stream,
    c: &mut MatrixMut<'_, U>,
) -> Result<()> {
    let Some(problem) = problem(request, stream.device(), c)? else { return Ok(()) };
    let plan = planned(request, &problem, stream.device())?;
    let layout = layout_of::<T, U>(&problem, &plan)?;
    let workspace = Workspace::new(stream, layout.bytes as usize)?;
    let base = workspace.as_ref().map_or(0, Workspace::address);
    // SAFETY: the matrices lie within their buffers (`Matrix::new`, `batches_fit`), and the workspace is as large as `layout`
    // says; `c`, borrowed mutably, shares no element with the others and holds none twice. The stream runs what is launched
    // here in order. The caller answers for other streams.
    unsafe { launch::<T, U>(&problem, &plan, &layout, base, stream) }
}

/// What [`run`] would do.
pub(super) fn explain<T: Operand, U: Output<T>>(
    request: &Request<'_, '_, T, U>,
    device: &Device,
    c: &mut MatrixMut<'_, U>,
) -> Result<Explanation> {
    let Some(problem) = problem(request, device, c)? else {
        return Ok(Explanation {
            kernel: None,
            tile: (0, 0),
            splits: 0,
            shared_tiles: 0,
            pieces: 0,
            rearranged: [false; 2],
            workspace_bytes: 0,
        });
    };
    let plan = planned(request, &problem, device)?;
    let layout = layout_of::<T, U>(&problem, &plan)?;
    let [tile_m, tile_n, _] = plan.variant.tile;
    Ok(Explanation {
        kernel: (problem.extents[2] > 0).then(|| plan.variant.kernel.name()),
        tile: (tile_m, tile_n),
        splits: plan.splits * plan.variant.kernel.clusters().parts(),
        shared_tiles: plan.shared_tiles,
        pieces: plan.pieces,
        rearranged: layout.packed.map(|packed| packed.is_some()),
        workspace_bytes: layout.bytes as usize,
    })
}

/// Checks everything; `None` where no element is to be computed.
fn problem<T: Operand, U: Output<T>>(
    request: &Request<'_, '_, T, U>,
    device: &Device,
    c: &mut MatrixMut<'_, U>,
) -> Result<Option<Problem<T>>> {
    let (a, b) = (request.a, request.b);
    super::check_shapes(a.shape(), b.shape(), c.shape())?;
    for (argument, of) in [a.device(), b.device(), c.device()].into_iter().enumerate() {
        check_device(OPERATION, argument, of, device)?;
    }
    let [m, n, k] = [("M", a.rows()), ("N", b.cols()), ("K", a.cols())].map(|(what, value)| {
        if value > MAX_EXTENT {
            let limit = MAX_EXTENT as u64;
            return Err(Error::MatrixTooLarge { operation: OPERATION, what, value, limit });
        }
        Ok(value as u32)
    });
    let (m, n, k) = (m?, n?, k?);
    let Batch { count, strides } = request.batch;
    batches_fit("a", a.shape(), a.data().len(), count, strides[0])?;
    batches_fit("b", b.shape(), b.data().len(), count, strides[1])?;
    batches_fit("c", c.shape(), c.data_mut().len(), count, strides[2])?;
    batches_of_c_are_apart(c.shape(), count, strides[2])?;
    let bias = bias_of(request, device, m, n)?;
    let scales = [
        scale_of::<T>(request.scales[0], device, ("a", "row", 4), m, count)?,
        scale_of::<T>(request.scales[1], device, ("b", "column", 5), n, count)?,
    ];
    let Ok(batches) = u32::try_from(count) else {
        let limit = u64::from(u32::MAX);
        return Err(Error::MatrixTooLarge { operation: OPERATION, what: "batches", value: count, limit });
    };
    if m == 0 || n == 0 || batches == 0 {
        return Ok(None);
    }
    let stride = |stride: usize| if count > 1 { stride as i64 } else { 0 };
    let straight = Problem {
        extents: [m, n, k],
        batches,
        operands: [
            View::new(a.data().address(), a.data().len(), a.shape(), (stride(strides[0]), batches), T::BYTES),
            View::new(
                b.data().address(),
                b.data().len(),
                b.shape().t(),
                (stride(strides[1]), batches),
                T::BYTES,
            ),
        ],
        c: View::new(
            c.data_mut().address(),
            c.data_mut().len(),
            c.shape(),
            (stride(strides[2]), batches),
            U::BYTES,
        ),
        bias,
        scales,
        alpha: request.alpha,
        beta: request.beta,
        activation: request.activation,
        scattered: false,
    };
    Ok(Some(straight.turned()))
}

impl<T: Operand> Problem<T> {
    /// The same problem, with C row-major if it has a contiguous axis at all: where that is along M, `c^T = b^T * a^T` is
    /// computed instead, the same elements with M and N exchanged.
    fn turned(self) -> Self {
        let Self { extents: [m, n, k], operands: [a, b], c, bias: (bias, bias_m, bias_n), .. } = self;
        let [scale_a, scale_b] = self.scales;
        let (along_m, along_n) = (c.mn == 1 || m <= 1, c.k == 1 || n <= 1);
        let turned = Self {
            extents: [n, m, k],
            operands: [b, a],
            c: View { mn: c.k, k: c.mn, ..c },
            bias: (bias, bias_n, bias_m),
            scales: [scale_b, scale_a],
            ..self
        };
        match (along_m, along_n) {
            // One row or column: the other axis is the one to go along.
            (true, true) if n == 1 && m > 1 => turned,
            (_, true) => self,
            (true, false) => turned,
            // The closer axis is written faster.
            (false, false) if c.mn < c.k => Self { scattered: true, ..turned },
            (false, false) => Self { scattered: true, ..self },
        }
    }

    /// Whether the sums need more than a factor on their way to C.
    fn needs_more(&self) -> bool {
        self.beta != T::Scalar::ZERO || self.bias.0 != 0 || self.activation != Activation::None
    }

    /// Whether rows of C start at multiples of 16 bytes.
    fn c_is_aligned(&self) -> bool {
        !self.scattered
            && View { end: u64::MAX, ..self.c }
                .leading(Major::K, self.extents[0], self.extents[1], ROW_ALIGN)
                .is_some()
    }
}

fn planned<T: Operand, U: Element>(
    request: &Request<'_, '_, T, U>,
    problem: &Problem<T>,
    device: &Device,
) -> Result<Plan<T>> {
    let question = Question {
        extents: problem.extents,
        batches: problem.batches,
        operands: problem.operands,
        precision: request.precision,
        finished_apart: problem.needs_more() || problem.scattered || !problem.c_is_aligned(),
        multiprocessors: device.properties().multiprocessors,
        shared_bytes: device.properties().shared_bytes_per_block,
        wgmma: hopper::is_there(device),
        forced: request.forced,
    };
    let measured = request.measured.and_then(|forced| plan(&Question { forced, ..question }));
    measured.or_else(|| plan(&question)).ok_or_else(|| {
        if !question.wgmma && T::VARIANTS.iter().all(|variant| variant.kernel.is_wgmma()) {
            let detail = format!(
                "{} is multiplied by `wgmma` alone, which GPUs of sm_90 (Hopper) have, and {} is {}; convert the matrices to f16, \
                 or take such a GPU",
                T::NAME,
                device.name(),
                device.arch()
            );
            return Error::Unsupported { operation: OPERATION, detail };
        }
        let tiles: Vec<String> =
            super::element::tiles::<T>(request.precision, question.wgmma).iter().map(|(m, n)| format!("{m} x {n}")).collect();
        let (m, n) = request.forced.tile.unwrap_or_default();
        let detail = format!(
            "no kernel for {} in {:?} precision has a tile of {m} x {n} and fits into the {} bytes of shared memory that a \
             block may have here; there are {}",
            T::NAME,
            request.precision,
            question.shared_bytes,
            tiles.join(", ")
        );
        Error::Unsupported { operation: OPERATION, detail }
    })
}

/// Checks that all batches of a matrix lie within the elements that it was made from.
fn batches_fit(name: &str, shape: Shape, len: usize, count: usize, stride: usize) -> Result<()> {
    if count <= 1 || shape.cosize() == 0 {
        return Ok(());
    }
    let needed = (count as u128 - 1).saturating_mul(stride as u128).saturating_add(shape.cosize());
    if needed <= len as u128 {
        return Ok(());
    }
    let detail = format!(
        "{count} batches of {name}, {stride} elements apart, need {needed} elements, and there are {len}; take fewer batches, \
         or a matrix over all of the buffer"
    );
    Err(Error::ShapeMismatch { operation: OPERATION, detail })
}

/// Checks that no two batches of C have an element in common.
fn batches_of_c_are_apart(shape: Shape, count: usize, stride: usize) -> Result<()> {
    if count <= 1 || shape.cosize() <= stride as u128 {
        return Ok(());
    }
    let detail = format!(
        "batches of c are {stride} elements apart, and each reaches over {}: they may not overlap",
        shape.cosize()
    );
    Err(Error::ShapeMismatch { operation: OPERATION, detail })
}

/// The bias's address and strides.
fn bias_of<T: Operand, U: Element>(
    request: &Request<'_, '_, T, U>,
    device: &Device,
    m: u32,
    n: u32,
) -> Result<(u64, i64, i64)> {
    let Some((bias, along)) = request.bias else { return Ok((0, 0, 0)) };
    check_device(OPERATION, 3, bias.device(), device)?;
    let (what, extent, strides) = match along {
        BiasAlong::Rows => ("rows", m, (1, 0)),
        BiasAlong::Columns => ("columns", n, (0, 1)),
    };
    if bias.len() != extent as usize {
        let detail = format!("the bias has {} elements, and c has {extent} {what}", bias.len());
        return Err(Error::ShapeMismatch { operation: OPERATION, detail });
    }
    Ok((bias.address(), strides.0, strides.1))
}

/// The scale of an operand, which has so many rows or columns that are not K, in so many batches.
fn scale_of<T: Operand>(
    scale: Option<&BufferSlice<'_, T::Scalar>>,
    device: &Device,
    (name, each, argument): (&str, &str, usize),
    extent: u32,
    batches: usize,
) -> Result<ScaleOf> {
    let Some(scale) = scale else { return Ok((0, 0, 0)) };
    check_device(OPERATION, argument, scale.device(), device)?;
    let (len, extent) = (scale.len(), extent as usize);
    let (along, batch) = match len {
        1 => (0, 0),
        len if len == extent => (1, 0),
        len if Some(len) == extent.checked_mul(batches) => (1, extent as i64),
        _ => {
            let of_batches = if batches > 1 {
                format!(", or one for each {each} of each of {batches} batches")
            } else {
                String::new()
            };
            let detail = format!(
                "the scale of {name} has {len} elements, and {name} has {extent} {each}s; give one element for all, or one for each \
                 {each}{of_batches}"
            );
            return Err(Error::ShapeMismatch { operation: OPERATION, detail });
        }
    };
    Ok((scale.address(), along, batch))
}

/// Elements of a row in a workspace.
fn row_of(extent: u32, bytes: u64) -> u64 {
    u64::from(extent).next_multiple_of(ROW_ALIGN / bytes.min(ROW_ALIGN))
}

/// Elements of a row of a rearranged operand: it begins with a line of the L2 cache, so that whole lines are read.
fn packed_row_of(extent: u32, bytes: u64) -> u64 {
    u64::from(extent).next_multiple_of((LINE / bytes).max(1))
}

/// How long the contiguous lines of an operand are, and how many there are.
fn lines(major: Major, extent: u32, k: u32) -> (u32, u32) {
    match major {
        Major::K => (k, extent),
        Major::Mn => (extent, k),
    }
}

fn layout_of<T: Operand, U: Element>(problem: &Problem<T>, plan: &Plan<T>) -> Result<Layout> {
    let [m, n, k] = problem.extents;
    let mut layout = Layout::default();
    if k > 0 {
        for (i, extent) in [m, n].into_iter().enumerate() {
            if plan.leading[i].is_none() {
                let view = problem.operands[i];
                let batches = if view.batch == 0 { 1 } else { problem.batches };
                let (along, across) = lines(plan.majors[i], extent, k);
                let row = packed_row_of(along, view.bytes) * view.bytes;
                layout.packed[i] =
                    Some(layout.take(u128::from(across) * u128::from(row) * u128::from(batches))?);
            }
        }
        if plan.apart {
            let row = row_of(n, size_of::<T::Scalar>() as u64) * size_of::<T::Scalar>() as u64;
            let parts = u128::from(plan.splits) * u128::from(problem.batches);
            layout.sums = Some(layout.take(u128::from(m) * u128::from(row) * parts)?);
        }
        if plan.shared_tiles > 0 {
            let (cluster, [tile_m, tile_n, _]) = (plan.variant.kernel.clusters().blocks(), plan.variant.tile);
            let bytes = hopper::bytes_of_pieces(plan.shared_tiles * plan.pieces, cluster, (tile_m, tile_n));
            layout.pieces = Some(layout.take(bytes.into())?);
        }
    }
    if problem.scattered {
        let row = row_of(n, U::BYTES as u64) * U::BYTES as u64;
        layout.c = Some(layout.take(u128::from(m) * u128::from(row) * u128::from(problem.batches))?);
    }
    Ok(layout)
}

/// Launches all steps.
///
/// # Safety
/// As for [`run`]; `base` is the address of a workspace with this layout.
unsafe fn launch<T: Operand, U: Output<T>>(
    problem: &Problem<T>,
    plan: &Plan<T>,
    layout: &Layout,
    base: u64,
    stream: &Stream,
) -> Result<()> {
    let [m, n, k] = problem.extents;
    // SAFETY: the caller's contract, for each launch of this function.
    unsafe {
        let mut operands = problem.operands;
        let mut leading = [0; 2];
        for (i, extent) in [m, n].into_iter().enumerate() {
            leading[i] = plan.leading[i].unwrap_or_default();
            if let Some(offset) = layout.packed[i] {
                let from = operands[i];
                let major = plan.majors[i];
                let (along, across) = lines(major, extent, k);
                let row = packed_row_of(along, from.bytes) as i64;
                let (mn, k_stride) = if major == Major::K { (row, 1) } else { (1, row) };
                let to = View {
                    address: base + offset,
                    mn,
                    k: k_stride,
                    batch: if from.batch == 0 { 0 } else { row * i64::from(across) },
                    ..from
                };
                let batches = if from.batch == 0 { 1 } else { problem.batches };
                // The kernel is fastest where the second mode of what it writes is contiguous.
                match major {
                    Major::K => rearrange(stream, from, to, (extent, k), batches)?,
                    Major::Mn => rearrange(stream, from.exchanged(), to.exchanged(), (k, extent), batches)?,
                }
                (operands[i], leading[i]) = (to, row);
            }
        }
        // C, or what stands for it.
        let mut c = problem.c;
        if let Some(offset) = layout.c {
            let row = row_of(n, U::BYTES as u64) as i64;
            c = View { address: base + offset, mn: row, k: 1, batch: row * i64::from(m), ..c };
            if problem.beta != T::Scalar::ZERO {
                rearrange(stream, problem.c, c, (m, n), problem.batches)?;
            }
        }
        if k > 0 {
            multiply::<T, U>(
                problem,
                plan,
                operands,
                leading,
                c,
                [layout.sums, layout.pieces].map(|offset| offset.map(|offset| base + offset)),
                stream,
            )?;
        }
        if plan.apart || k == 0 {
            finish::<T, U>(problem, plan, c, layout.sums.map_or(0, |offset| base + offset), stream)?;
        }
        if layout.c.is_some() {
            rearrange(stream, c, problem.c, (m, n), problem.batches)?;
        }
    }
    Ok(())
}

/// Copies `(rows, k)` elements of each batch, whatever they are.
///
/// # Safety
/// Both lie in memory that is there, and do not overlap.
unsafe fn rearrange(
    stream: &Stream,
    from: View,
    to: View,
    (rows, k): (u32, u32),
    batches: u32,
) -> Result<()> {
    // Words of such lines are cut out of two; larger elements are words themselves.
    let realigned = from.k == 1 && to.k == 1 && from.bytes < 4;
    let tiles = match realigned {
        true => u64::from(rows.div_ceil(8)),
        false => u64::from(rows.div_ceil(64)) * u64::from(k.div_ceil(64)),
    };
    let tiles = blocks("tiles to rearrange", tiles)?;
    let mut first = 0;
    while first < batches {
        let count = (batches - first).min(MAX_Y);
        let grid = Grid::new((tiles, count), 256);
        let at = |view: View| view.address.wrapping_add((i64::from(first) * view.batch) as u64 * view.bytes);
        macro_rules! with {
            ($kernel:ident) => {
                // SAFETY: the caller's contract.
                unsafe {
                    let (source, destination) =
                        (Global::from_address(at(from)), GlobalMut::from_address(at(to)));
                    stream.launch(
                        &$kernel,
                        grid,
                        (source, destination, rows, k, from.mn, from.k, from.batch, to.mn, to.k, to.batch),
                    )?
                }
            };
        }
        if realigned {
            let bytes = from.bytes as i64;
            let (source, destination) = (Global::from_address(at(from)), GlobalMut::from_address(at(to)));
            let line = (k as u64 * from.bytes) as u32;
            let strides = [from.mn, to.mn, from.batch, to.batch].map(|stride| bytes * stride);
            // SAFETY: the caller's contract; lines are written in a workspace, which has room up to the next line.
            unsafe {
                stream.launch(
                    &realign,
                    grid,
                    (source, destination, rows, line, strides[0], strides[1], strides[2], strides[3]),
                )?
            };
            first += count;
            continue;
        }
        match from.bytes {
            1 => with!(pack_u8),
            2 => with!(pack_u16),
            4 => with!(pack_u32),
            _ => with!(pack_u64),
        }
        first += count;
    }
    Ok(())
}

/// A number of blocks along x.
fn blocks(what: &'static str, count: u64) -> Result<u32> {
    let limit = u64::from(crate::MAX_BLOCKS[0]);
    if count > limit {
        return Err(Error::MatrixTooLarge { operation: OPERATION, what, value: count as usize, limit });
    }
    Ok(count as u32)
}

/// The product itself.
///
/// # Safety
/// As for [`launch`].
unsafe fn multiply<T: Operand, U: Output<T>>(
    problem: &Problem<T>,
    plan: &Plan<T>,
    operands: [View; 2],
    leading: [i64; 2],
    c: View,
    [sums, pieces]: [Option<u64>; 2],
    stream: &Stream,
) -> Result<()> {
    let [m, n, k] = problem.extents;
    let variant = plan.variant;
    let row = row_of(n, size_of::<T::Scalar>() as u64) as i64;
    let (address, ldc, split_c, batch_c, bytes) = match sums {
        Some(address) => {
            let part = row * i64::from(m);
            (address, row, part, part * i64::from(plan.splits), size_of::<T::Scalar>() as u64)
        }
        None => (c.address, c.mn, 0, c.batch, U::BYTES as u64),
    };
    let (bias, bias_m, bias_n) = if sums.is_some() { (0, 0, 0) } else { problem.bias };
    // Plain kernels have C with M contiguous: they compute the transposed product.
    let [tile_m, tile_n, _] = variant.tile;
    let ((first, second), (m, n)) = if variant.plain { ((1, 0), (n, m)) } else { ((0, 1), (m, n)) };
    let tiles = u64::from(m.div_ceil(tile_m)) * u64::from(n.div_ceil(tile_n));
    let tiles = blocks("tiles of c", tiles)?;
    let at_once = match variant.kernel {
        Code::Blocks(_) => MAX_Y / plan.splits,
        Code::Wgmma(_, _, Clusters::Rows(_)) => {
            hopper::batches_at_once(u64::from(tiles) * u64::from(plan.splits))?
        }
        Code::Wgmma(_, _, Clusters::Parts(parts)) => {
            hopper::batches_at_once(u64::from(tiles) * u64::from(parts))?
        }
    };
    let mut done = 0;
    while done < problem.batches {
        let count = (problem.batches - done).min(at_once);
        let moved = |address: u64, batch: i64, bytes: u64| {
            address.wrapping_add((i64::from(done) * batch) as u64 * bytes)
        };
        let of =
            |i: usize| Global::from_address(moved(operands[i].address, operands[i].batch, operands[i].bytes));
        let scale_of = |i: usize| {
            let (address, along, batch) = problem.scales[i];
            // Where there is none, none is to be moved.
            let batch = if address == 0 { 0 } else { batch };
            (Global::from_address(moved(address, batch, size_of::<T::Scalar>() as u64)), along, batch)
        };
        let arguments = Arguments {
            a: of(first),
            b: of(second),
            c: GlobalMut::from_address(moved(address, batch_c, bytes)),
            bias: Global::from_address(bias),
            lda: leading[first],
            ldb: leading[second],
            ldc,
            batch_a: operands[first].batch,
            batch_b: operands[second].batch,
            batch_c,
            split_c,
            bias_m,
            bias_n,
            alpha: if sums.is_some() { T::Scalar::ONE } else { problem.alpha },
            beta: if sums.is_some() { T::Scalar::ZERO } else { problem.beta },
            m,
            n,
            k,
            splits: plan.splits,
            k_chunk: plan.k_chunk,
            activation: if sums.is_some() { 0 } else { problem.activation as u32 },
            wide: u32::from(sums.is_some() || U::WIDE),
            tensor_c: 0,
            batches: count,
            reserved: 0,
            scales: Scales::new(scale_of(first), scale_of(second)),
        };
        // SAFETY: the caller's contract; the plan keeps the kernel's.
        unsafe {
            match &variant.kernel {
                Code::Blocks(kernel) => {
                    let threads = kernel.bounds().threads.unwrap_or(256);
                    let grid = Grid::new((tiles, count * plan.splits), threads);
                    stream.launch(kernel, grid, (arguments,))?;
                }
                Code::Wgmma(kernel, boxes, clusters) => {
                    let target = Target {
                        address: arguments.c.address(),
                        wide: sums.is_some() || U::WIDE,
                        aligned: sums.is_some() || problem.c_is_aligned() || problem.scattered,
                        // Rows of workspaces end at multiples of 16 bytes.
                        padded: sums.is_some() || problem.scattered,
                        parts: match sums {
                            Some(_) => (count * plan.splits, split_c),
                            None => (count, batch_c),
                        },
                    };
                    let operands = [&operands[0], &operands[1]];
                    let tile = (tile_m, tile_n);
                    let pieces = pieces.map(|sums| Pieces {
                        clusters: plan.clusters,
                        tiles: plan.shared_tiles,
                        pieces: plan.pieces,
                        sums,
                    });
                    hopper::launch::<T, U>(
                        stream,
                        (kernel, *boxes, *clusters),
                        tile,
                        pieces,
                        operands,
                        &target,
                        arguments,
                    )?;
                }
            }
        };
        done += count;
    }
    Ok(())
}

/// Makes C of the sums in the workspace, or of none.
///
/// # Safety
/// As for [`launch`].
unsafe fn finish<T: Operand, U: Output<T>>(
    problem: &Problem<T>,
    plan: &Plan<T>,
    c: View,
    sums: u64,
    stream: &Stream,
) -> Result<()> {
    let [m, n, k] = problem.extents;
    let row = row_of(n, size_of::<T::Scalar>() as u64) as i64;
    let part = row * i64::from(m);
    let splits = if k == 0 { 0 } else { plan.splits };
    let tiles = blocks("tiles of c", u64::from(m.div_ceil(8)) * u64::from(n.div_ceil(128)))?;
    let (bias, bias_m, bias_n) = problem.bias;
    let mut done = 0;
    while done < problem.batches {
        let count = (problem.batches - done).min(MAX_Y);
        let moved = |address: u64, batch: i64, bytes: usize| {
            address.wrapping_add((i64::from(done) * batch) as u64 * bytes as u64)
        };
        let batch_a = part * i64::from(splits);
        let arguments = Arguments::<T::Scalar, U, T::Scalar> {
            a: Global::from_address(moved(sums, batch_a, size_of::<T::Scalar>())),
            b: Global::from_address(0),
            c: GlobalMut::from_address(moved(c.address, c.batch, U::BYTES)),
            bias: Global::from_address(bias),
            lda: row,
            ldb: 0,
            ldc: c.mn,
            batch_a,
            batch_b: 0,
            batch_c: c.batch,
            split_c: part,
            bias_m,
            bias_n,
            alpha: problem.alpha,
            beta: problem.beta,
            m,
            n,
            k,
            splits,
            k_chunk: 0,
            activation: problem.activation as u32,
            wide: 0,
            tensor_c: 0,
            batches: count,
            reserved: 0,
            // The product's kernel has multiplied by them.
            scales: Scales::NONE,
        };
        // SAFETY: the caller's contract.
        unsafe { stream.launch(&U::finish(), Grid::new((tiles, count), 256), (arguments,))? };
        done += count;
    }
    Ok(())
}
