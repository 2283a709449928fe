//! Builds the launches of a call.

use super::kernel::{
    QuantizeKernels, QuantizeRowsKernels, QuantizeWholeKernels, SIDE, Step, THREADS, WHOLE,
    quantize_transpose,
};
use crate::code::Code;
use crate::prelude::*;
use crate::tiles::{Matrices, TileOf, matrices, scales_of, tile_of};

pub const NAME: &str = "quantize";

/// Blocks per SM that step over the tiles where all elements have one scale.
const BLOCKS: u32 = 3;

/// Rows with a scale each, as elements of this [`Code`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Rows(u32);

impl RowKernel<3> for Rows {
    const SHAPES: &'static [RowInstance] = plan::SHAPES_OF_BYTES;

    plans!(QuantizeRowsKernels);

    fn variant(&self) -> u32 {
        self.0
    }

    unsafe fn launch(&self, on: &RowLaunch<'_>, [x, q, scales]: [RowArray; 3]) -> Result<()> {
        let (m, n, code) = (on.rows, on.columns, self.0);
        // SAFETY: the arrays hold the rows.
        of_floats!(NAME, on.dtype, T => unsafe {
            let arguments = (x.read(), q.write(), scales.write(), m, n, x.stride, q.stride, scales.stride, code);
            on.launch(<T as QuantizeRowsKernels>::KERNELS, arguments)
        })
    }
}

/// Tiles with a scale each, or tiles that share one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Tiled {
    of: Matrices,
    whole: Option<Whole>,
    /// The transpose of one matrix in tiles of 128 x 128, and whether four bytes of a row form a
    /// word.
    transposed: Option<(Placed, bool)>,
}

/// The reduction for one scale of all tiles.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Whole {
    /// Blocks of a matrix.
    blocks: u32,
    /// The address of a magnitude for each block.
    magnitudes: u64,
}

impl Launch for Tiled {
    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    unsafe fn launch(&self, to: To<'_>) -> Result<()> {
        let Self { of: Matrices { dtype, tiles, count, arrays: [x, q, scales] }, whole, transposed } = *self;
        // SAFETY: the arrays hold the matrices, and the workspace the magnitudes.
        of_floats!(NAME, dtype, T => unsafe {
            let Some(Whole { blocks, magnitudes }) = whole else {
                let grid = Grid::new((tiles.count().1, count), THREADS).dependent();
                let none = Placed { address: 0, place: Place { group: 0, row: 0, element: 0 } };
                let (transposed, aligned) = transposed.unwrap_or((none, false));
                let arguments = (
                    x.read(), q.write(), scales.write(), tiles, x.place, q.place, scales.place,
                    transposed.write(), transposed.place, aligned,
                );
                return to.launch(&<T as QuantizeKernels>::KERNELS[0], grid, arguments);
            };
            let grid = Grid::new((blocks, count), THREADS).dependent();
            [Step::Magnitudes, Step::Elements].into_iter().try_for_each(|step| {
                let magnitudes = GlobalMut::from_address(magnitudes);
                let (q, scales, of_q) = (q.write(), scales.write(), q.place);
                let arguments = (x.read(), q, scales, magnitudes, tiles, step as u32, x.place, of_q);
                to.launch(&<T as QuantizeWholeKernels>::KERNELS[0], grid, arguments)
            })
        })
    }
}

/// The transposes of matrices of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Transposed {
    /// Rows, columns, and matrices.
    extents: [u32; 3],
    /// The matrices and their transposes.
    arrays: [Placed; 2],
    /// Whether four bytes of a row of either form a word.
    aligned: [bool; 2],
}

impl Launch for Transposed {
    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    unsafe fn launch(&self, on: To<'_>) -> Result<()> {
        let Self { extents: [rows, columns, matrices], arrays: [q, to], aligned } = *self;
        let blocks = (columns.div_ceil(SIDE), rows.div_ceil(SIDE), matrices);
        let grid = Grid::new(blocks, THREADS).dependent();
        let arguments = (q.read(), to.write(), rows, columns, q.place, to.place, aligned[0], aligned[1]);
        // SAFETY: the arrays hold the matrices; the grid has all tiles.
        unsafe { on.launch(&quantize_transpose, grid, arguments) }
    }
}

/// Element types and shapes of the results.
pub fn results(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let (shape, dtype) = (given(inputs, 0).shape.clone(), byte_option(NAME, options)?);
    let scales = ArrayType { dtype: Dtype::F32, shape: scales_of(NAME, &shape, tile_of(NAME, options)?)? };
    expect_elements(NAME, &shape, &scales.shape)?;
    let mut transposed = shape.clone();
    if let [.., rows, columns] = transposed.as_mut_slice() {
        std::mem::swap(rows, columns);
    }
    Ok(vec![ArrayType { dtype, shape }, scales, ArrayType { dtype, shape: transposed }])
}

/// The rows with a scale each, if kernels hold them.
fn rows(x: &Array, q: &Array, scales: &Array, tile: TileOf) -> Option<RowsOf<3>> {
    let last = x.shape.len().checked_sub(1)?;
    let block = match tile {
        TileOf { rows: Some(1), columns: None } => x.shape[last],
        TileOf { rows: Some(1), columns: Some(block) } if x.shape[last].is_multiple_of(block) => block,
        _ => return None,
    };
    // A mode of blocks, whose elements are the last mode.
    let blocks = |array: &Array| {
        let mut array = array.clone();
        if tile.columns.is_some() {
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
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn compute(on: &On<'_>, call: &Call<'_>) -> Result<()> {
    let [x, q, scales] = [0, 1, 2].map(|index| call.operand(index));
    if x.elements() == 0 {
        return Ok(());
    }
    let (tile, to) = (tile_of(NAME, call.options)?, call.operands[3].as_ref());
    // Kernels of whole rows, and of several matrices, write no transpose.
    let at_once = to.filter(|_| tile.columns.is_some() && tile.rows != Some(1) && x.shape.len() == 2);
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe {
        quantize(on, [x, q, scales], tile, at_once)?;
        to.filter(|_| at_once.is_none()).map_or(Ok(()), |to| transpose(on, q, to))
    }
}

/// Whether four bytes of a row of the transposes of matrices of `rows` are a word.
fn is_aligned(to: &Array, rows: usize) -> bool {
    rows.is_multiple_of(4) && is_of_words(to, 4)
}

/// Quantises floats to 8-bit elements and scales.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
unsafe fn quantize(
    on: &On<'_>,
    [x, q, scales]: [&Array; 3],
    tile: TileOf,
    transposed: Option<&Array>,
) -> Result<()> {
    if let Some(rows) = rows(x, q, scales, tile) {
        let of = Rows(Code::of(q.dtype) as u32);
        // SAFETY: the arrays hold the rows of x, on the stream's device.
        return unsafe { rows.launch(NAME, on, |_| of) };
    }
    let mut of = matrices(NAME, [x, q, scales], tile)?;
    if tile.rows.is_some() {
        let transposed = transposed.map(|to| {
            let place = Place { group: 0, row: to.strides[0], element: to.strides[1] };
            (Placed { address: to.address, place }, is_aligned(to, x.shape[0]))
        });
        // SAFETY: the call's arrays are on the stream's device until the work is complete.
        return unsafe { on.launch(&Tiled { of, whole: None, transposed }) };
    }
    // Tiles that fit in the registers of a block.
    let (tiles, vector) = (&mut of.tiles, (16 / x.dtype.bytes()) as u32);
    tiles.tile_columns = tiles.columns.min(THREADS * WHOLE as u32 * vector);
    tiles.tile_rows = (THREADS * WHOLE as u32 / tiles.tile_columns.div_ceil(vector)).min(tiles.rows);
    let blocks = tiles.count().1.min((BLOCKS * on.card().multiprocessors / of.count).max(1));
    // Held until everything is launched.
    let work = on.workspace(4 * (blocks * of.count) as usize)?;
    let magnitudes = work.as_ref().map_or(0, Workspace::address);
    // SAFETY: the call's arrays are on the stream's device until the work is complete, and the
    // workspace has room for the magnitudes.
    unsafe { on.launch(&Tiled { of, whole: Some(Whole { blocks, magnitudes }), transposed: None }) }
}

/// Writes the transposes of matrices of bytes.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
unsafe fn transpose(on: &On<'_>, q: &Array, to: &Array) -> Result<()> {
    let rank = q.shape.len();
    let matrix = |array: &Array| {
        let mut array = array.clone();
        if rank < 2 {
            array.shape.insert(0, 1);
            array.strides.insert(0, 0);
        }
        array
    };
    // A single row is the transpose of a column.
    let (q, mut to) = (matrix(q), matrix(to));
    if rank < 2 {
        to.strides.swap(0, 1);
    }
    let [row, column] = [q.shape.len() - 2, q.shape.len() - 1];
    let mode = |mode: usize| Mode { extent: q.shape[mode], strides: [q.strides[mode], to.strides[mode]] };
    let modes = (0..row).map(mode).collect();
    let [others, matrices] = groups_and_rows(NAME, &q, joined(modes))?;
    let [rows, columns] = RowProblem::extents(NAME, [q.shape[row], q.shape[column]])?;
    let extents = [rows, columns, matrices.extent as u32];
    if others.extent > 1
        || extents[2] > moye_runtime::MAX_BLOCKS[2]
        || extents[0].div_ceil(SIDE) > moye_runtime::MAX_BLOCKS[1]
    {
        let detail = format!("q has shape {:?} and strides {:?}; transpose parts of it", q.shape, q.strides);
        return unsupported(NAME, detail);
    }
    let placed = |array: &Array, i: usize| Placed {
        address: array.address,
        place: Place { group: matrices.strides[i], row: array.strides[row], element: array.strides[column] },
    };
    let arrays = [placed(&q, 0), placed(&to, 1)];
    let aligned = [extents[1].is_multiple_of(4) && is_of_words(&q, 4), is_aligned(&to, rows as usize)];
    // SAFETY: the arrays hold the matrices, on the stream's device.
    unsafe { on.launch(&Transposed { extents, arrays, aligned }) }
}
