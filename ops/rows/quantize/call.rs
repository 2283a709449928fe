//! From a call to launches.

use super::kernel::{
    QuantizeKernels, QuantizeRowsKernels, QuantizeWholeKernels, SIDE, Step, THREADS, WHOLE,
    quantize_transpose,
};
use crate::code::Code;
use crate::groups::{One, OneKernel, is_of_words};
use crate::of_floats;
use crate::place::Place;
use crate::plan::{self, Shape};
use crate::rows::{Operand, RowArray, RowKernel, RowLaunch, RowsOf};
use crate::tiles::{Arguments, Problem, TileOf, problem, scales_of, tile_of, unsupported};
use moye::operation::{self, Array, ArrayType, Call, Dtype, Launcher, Options, Workspace};
use moye::{Grid, Result, Stream};
use moye_device::memory::{Global, GlobalMut};
use std::marker::PhantomData;

pub const NAME: &str = "quantize";

/// The most tiles of a matrix of which all have one scale.
const MAGNITUDES: u32 = 1024;

/// Rows of elements `T`.
struct QuantizeRows<T>(PhantomData<T>);

impl<T: QuantizeRowsKernels> RowKernel<3> for QuantizeRows<T> {
    const NAME: &'static str = NAME;
    const SHAPES: &'static [Shape] = plan::SHAPES_OF_BYTES;
    /// The type.
    type Scalars = u32;

    fn name(instance: usize) -> &'static str {
        T::KERNELS[instance].name()
    }

    unsafe fn launch(on: &RowLaunch<'_>, [x, q, scales]: [RowArray; 3], code: u32) -> Result<()> {
        let (m, n) = (on.rows, on.columns);
        let arguments = (x.read(), q.write(), scales.write(), m, n, x.stride, q.stride, scales.stride, code);
        // SAFETY: the arrays hold the rows.
        unsafe { on.launch(T::KERNELS, arguments) }
    }
}

/// Tiles of elements `T`; the call has the address of the magnitudes of tiles that share a scale.
struct Quantize<T>(PhantomData<T>);

impl<T: QuantizeKernels + QuantizeWholeKernels> OneKernel for Quantize<T> {
    type Problem = Problem;
    type Call = (Arguments, u64);
    const NAME: &'static str = NAME;

    fn kernel() -> &'static str {
        <T as QuantizeKernels>::KERNELS[0].name()
    }

    unsafe fn launch(problem: &Problem, call: &(Arguments, u64), on: &Launcher<'_>) -> Result<()> {
        let (Arguments { addresses: [x, q, scales], places: [of_x, of_q, of_scales] }, magnitudes) = *call;
        let (x, q, scales) =
            (Global::from_address(x), GlobalMut::from_address(q), GlobalMut::from_address(scales));
        let (tiles, grid) = (problem.tiles, Grid::new((problem.tiles.count().1, problem.matrices), THREADS));
        // SAFETY: the caller's contract; the workspace holds the magnitudes.
        unsafe {
            if magnitudes == 0 {
                let arguments = (x, q, scales, tiles, of_x, of_q, of_scales);
                return on.launch(&<T as QuantizeKernels>::KERNELS[0], grid, arguments);
            }
            [Step::Magnitudes, Step::Elements].into_iter().try_for_each(|step| {
                let magnitudes = GlobalMut::from_address(magnitudes);
                let arguments = (x, q, scales, magnitudes, tiles, step as u32, of_x, of_q);
                on.launch(&<T as QuantizeWholeKernels>::KERNELS[0], grid, arguments)
            })
        }
    }
}

/// The transpose of matrices of bytes.
struct Transposed;

/// Rows, columns, and matrices.
type Extents = [u32; 3];

impl OneKernel for Transposed {
    type Problem = Extents;
    /// The address, and the strides, of the matrices and of their transposes; and whether four
    /// bytes of a row are a word.
    type Call = ([u64; 2], [Place; 2], [bool; 2]);
    const NAME: &'static str = NAME;

    fn kernel() -> &'static str {
        quantize_transpose.name()
    }

    unsafe fn launch(
        &[rows, columns, matrices]: &Extents,
        call: &Self::Call,
        on: &Launcher<'_>,
    ) -> Result<()> {
        let ([q, to], [of_q, of_to], aligned) = *call;
        let (q, to) = (Global::from_address(q), GlobalMut::from_address(to));
        let grid = Grid::new((columns.div_ceil(SIDE), rows.div_ceil(SIDE), matrices), THREADS);
        // SAFETY: the caller's contract; the grid has all tiles.
        unsafe {
            on.launch(&quantize_transpose, grid, (q, to, rows, columns, of_q, of_to, aligned[0], aligned[1]))
        }
    }
}

/// Element types and shapes of the results.
pub fn results(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let shape = inputs[0].clone().expect("checked: x is not optional").shape;
    let dtype = options.dtype("dtype");
    if !Dtype::BYTES.contains(&dtype) {
        return unsupported(NAME, format!("dtype is {dtype}, and may be int8, float8_e4m3fn or float8_e5m2"));
    }
    let scales = ArrayType { dtype: Dtype::F32, shape: scales_of(NAME, &shape, tile_of(NAME, options)?)? };
    let mut transposed = shape.clone();
    if let [.., rows, columns] = transposed.as_mut_slice() {
        std::mem::swap(rows, columns);
    }
    Ok(vec![ArrayType { dtype, shape }, scales, ArrayType { dtype, shape: transposed }])
}

/// The rows that have a scale, if kernels hold them.
fn rows(x: &Array, q: &Array, scales: &Array, tile: TileOf) -> Option<RowsOf<3>> {
    let last = x.shape.len().checked_sub(1)?;
    let block = match tile {
        (Some(1), None) => x.shape[last],
        (Some(1), Some(block)) if x.shape[last].is_multiple_of(block) => block,
        _ => return None,
    };
    // A mode of blocks, whose elements are the last mode.
    let blocks = |array: &Array| {
        let mut array = array.clone();
        if tile.1.is_some() {
            let stride = array.strides[last];
            array.shape.splice(last.., [array.shape[last] / block, block]);
            array.strides.splice(last.., [stride * block as i64, stride]);
        }
        array
    };
    let (x, q) = (blocks(x), blocks(q));
    let operands = [Operand::Rows(Some(&x)), Operand::Rows(Some(&q)), Operand::Each(Some(scales))];
    let rows = RowsOf::new(NAME, operands, x.shape.len() - 1).ok()?;
    (rows.aligned && rows.columns <= plan::MOST_OF_BYTES).then_some(rows)
}

/// Quantises an array.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let [x, q, scales] = [0, 1, 2].map(|index| call.operand(index));
    if x.elements() == 0 {
        return Ok(());
    }
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe {
        quantize(stream, [x, q, scales], tile_of(NAME, call.options)?)?;
        call.operands[3].as_ref().map_or(Ok(()), |to| transpose(stream, q, to))
    }
}

/// Quantises floats to 8-bit elements and scales.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
unsafe fn quantize(stream: &Stream, [x, q, scales]: [&Array; 3], tile: TileOf) -> Result<()> {
    if let Some(rows) = rows(x, q, scales, tile) {
        let code = Code::of(q.dtype) as u32;
        // SAFETY: the arrays hold the rows of x, on the stream's device.
        of_floats!(NAME, x.dtype, T => return unsafe { rows.run::<QuantizeRows<T>>(NAME, stream, |_| code) })
    }
    let (mut problem, arguments) = problem(NAME, [x, q, scales], tile)?;
    let mut magnitudes = 0;
    if tile.0.is_none() {
        // Tiles that blocks hold, or larger ones if there were too many.
        let Problem { tiles, matrices } = &mut problem;
        let held = THREADS * WHOLE as u32 * (16 / x.dtype.bytes()) as u32;
        let most = (MAGNITUDES / *matrices).max(1);
        tiles.tile_columns = tiles.columns.min(held.max(tiles.columns.div_ceil(most).next_multiple_of(16)));
        let of_rows = (most / tiles.columns.div_ceil(tiles.tile_columns)).max(1);
        tiles.tile_rows = tiles.rows.div_ceil(of_rows).max((held / tiles.tile_columns).min(tiles.rows));
        magnitudes = tiles.count().1 * *matrices;
    }
    // Held until all has been launched.
    let work = Workspace::new(stream, 4 * magnitudes as usize)?;
    let arguments = (arguments, work.as_ref().map_or(0, Workspace::address));
    // SAFETY: the caller's contract; the workspace has room for the magnitudes.
    unsafe {
        of_floats!(NAME, x.dtype, T => operation::run::<One<Quantize<T>>>(stream, &problem, &arguments))
    }
}

/// Writes the transposes of matrices of bytes.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
unsafe fn transpose(stream: &Stream, q: &Array, to: &Array) -> Result<()> {
    let rank = q.shape.len();
    let matrix = |array: &Array| {
        let mut array = array.clone();
        if rank < 2 {
            array.shape.insert(0, 1);
            array.strides.insert(0, 0);
        }
        array
    };
    // A row has itself as its transpose: a matrix of one row, and of one column.
    let (q, mut to) = (matrix(q), matrix(to));
    if rank < 2 {
        to.strides.swap(0, 1);
    }
    let [row, column] = [q.shape.len() - 2, q.shape.len() - 1];
    let modes = (0..row).map(|mode| (q.shape[mode], [q.strides[mode], to.strides[mode]])).collect();
    let matrices = crate::groups::joined(modes);
    let [others, matrices] = crate::groups::groups_and_rows(NAME, &q, matrices)?;
    let extents = [q.shape[row] as u32, q.shape[column] as u32, matrices.0];
    if others.0 > 1 || matrices.0 > moye::MAX_BLOCKS[2] || extents[0].div_ceil(SIDE) > moye::MAX_BLOCKS[1] {
        let detail = format!("q has shape {:?} and strides {:?}; transpose parts of it", q.shape, q.strides);
        return unsupported(NAME, detail);
    }
    let place = |array: &Array, i: usize| Place {
        group: matrices.1[i],
        row: array.strides[row],
        element: array.strides[column],
    };
    let places = [place(&q, 0), place(&to, 1)];
    let aligned = [
        extents[1].is_multiple_of(4) && is_of_words(&q, 4),
        extents[0].is_multiple_of(4) && is_of_words(&to, 4),
    ];
    let call = ([q.address, to.address], places, aligned);
    // SAFETY: the arrays hold the matrices, on the stream's device.
    unsafe { operation::run::<One<Transposed>>(stream, &extents, &call) }
}

/// The kernel that computes a call.
pub fn explain(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    let [x, q, scales] = [0, 1, 2].map(|index| call.operand(index));
    if let Some(rows) = rows(x, q, scales, tile_of(NAME, call.options)?) {
        of_floats!(NAME, x.dtype, T => return rows.explain::<QuantizeRows<T>>(NAME, stream))
    }
    Ok(of_floats!(NAME, x.dtype, T => Quantize::<T>::kernel()))
}
