//! From a call to launches.

use super::kernel::{self, Code, DequantizeKernels, QuantizeKernels, Step, THREADS, Tiles};
use crate::groups::{self, Mode};
use crate::of_floats;
use crate::place::Place;
use moye::operation::{self, Array, ArrayType, Call, Dtype, Launcher, Operation, Options, Workspace};
use moye::{Error, Grid, Ptx, Rates, Result, Stream};
use moye_device::memory::{Global, GlobalMut};
use std::marker::PhantomData;

/// The tiles with a scale: rows and columns, `None` for all of them.
pub type TileOf = (Option<usize>, Option<usize>);

/// The most tiles of a group whose elements share one scale.
const MAGNITUDES: u32 = 1024;
/// Elements that the threads of a block hold.
const HELD: u32 = THREADS * kernel::HELD as u32 * 8;

/// The matrices of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem {
    tiles: Tiles,
    matrices: u32,
    /// Whether all tiles have one scale.
    is_one: bool,
}

/// Addresses and strides: of the floats, of the 8-bit elements, of the scales.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Arguments {
    addresses: [u64; 3],
    /// The address of the tiles' magnitudes if all have one scale.
    magnitudes: u64,
    strides: [Place; 3],
}

impl Problem {
    /// The tiles of the elements that share one scale with all others.
    const fn magnitudes(&self) -> u32 {
        self.tiles.count().1 * self.matrices
    }
}

/// Quantisation of elements `T`.
struct Quantize<T>(PhantomData<T>);

impl<T: QuantizeKernels> Operation for Quantize<T> {
    type Problem = Problem;
    type Plan = ();
    type Call = Arguments;
    const NAME: &'static str = "quantize";

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates(_: &Problem, _: &Rates) -> Vec<()> {
        vec![()]
    }

    fn cost(_: &(), _: &Problem, _: &Rates) -> f64 {
        0.0
    }

    fn kernel(_: &()) -> &'static str {
        T::KERNELS[0].name()
    }

    unsafe fn launch(_: &(), problem: &Problem, call: &Arguments, on: &Launcher<'_>) -> Result<()> {
        let ([x, q, scales], [of_x, of_q, of_scales]) = (call.addresses, call.strides);
        let tiles = problem.tiles;
        let blocks = tiles.count().1.div_ceil(THREADS / tiles.threads);
        let launch = |step: Step| {
            let (x, q) = (Global::from_address(x), GlobalMut::from_address(q));
            let (scales, magnitudes) =
                (GlobalMut::from_address(scales), GlobalMut::from_address(call.magnitudes));
            let arguments = (x, q, scales, magnitudes, tiles, step as u32, of_x, of_q, of_scales);
            // SAFETY: the caller's contract; the workspace holds the magnitudes.
            unsafe { on.launch(&T::KERNELS[0], Grid::new((blocks, problem.matrices), THREADS), arguments) }
        };
        if !problem.is_one {
            return launch(Step::Tile);
        }
        launch(Step::Magnitudes)?;
        launch(Step::Elements)
    }
}

/// Dequantisation to elements `T`.
struct Dequantize<T>(PhantomData<T>);

impl<T: DequantizeKernels> Operation for Dequantize<T> {
    type Problem = Problem;
    type Plan = ();
    type Call = Arguments;
    const NAME: &'static str = "dequantize";

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates(_: &Problem, _: &Rates) -> Vec<()> {
        vec![()]
    }

    fn cost(_: &(), _: &Problem, _: &Rates) -> f64 {
        0.0
    }

    fn kernel(_: &()) -> &'static str {
        T::KERNELS[0].name()
    }

    unsafe fn launch(_: &(), problem: &Problem, call: &Arguments, on: &Launcher<'_>) -> Result<()> {
        let ([y, q, scales], [of_y, of_q, of_scales]) = (call.addresses, call.strides);
        let vectors = problem.tiles.columns.div_ceil(16 / size_of::<T>() as u32) * problem.tiles.rows;
        let (q, scales, y) =
            (Global::from_address(q), Global::from_address(scales), GlobalMut::from_address(y));
        let arguments = (q, scales, y, problem.tiles, of_q, of_scales, of_y);
        let grid = Grid::new((vectors.div_ceil(THREADS), problem.matrices), THREADS);
        // SAFETY: the arrays hold the problem's elements; the grid has all of them.
        unsafe { on.launch(&T::KERNELS[0], grid, arguments) }
    }
}

fn unsupported<T>(name: &'static str, detail: String) -> Result<T> {
    Err(Error::Unsupported { operation: name, detail })
}

/// The tile of the options `tile_rows` and `tile_columns`, of which 0 is all.
pub fn tile_of(name: &'static str, options: &Options) -> Result<TileOf> {
    let [rows, columns] = ["tile_rows", "tile_columns"].map(|name| options.int(name));
    let given = |extent: i64| (extent != 0).then_some(extent as usize);
    match (rows, columns) {
        (0, 0) | (1, 0 | 128) | (128, 128) => Ok((given(rows), given(columns))),
        _ => unsupported(
            name,
            format!(
                "tiles are {rows} x {columns}, and may be 0 x 0 (all), 1 x 0 (a row), 1 x 128 or 128 x 128"
            ),
        ),
    }
}

/// The shape of the scales of an array, with tiles of the last two axes.
pub fn scales_of(name: &'static str, shape: &[usize], (rows, columns): TileOf) -> Result<Vec<usize>> {
    let axes = if rows.is_some_and(|rows| rows > 1) { 2 } else { 1 };
    if shape.len() < axes {
        return unsupported(name, format!("x has shape {shape:?}, and must have {axes} axes or more"));
    }
    let (Some(rows), mut scales) = (rows, shape.to_vec()) else { return Ok(Vec::new()) };
    match columns {
        Some(columns) => {
            *scales.last_mut().expect("checked: it has an axis") = shape[shape.len() - 1].div_ceil(columns)
        }
        None => _ = scales.pop(),
    }
    if axes == 2 {
        scales[shape.len() - 2] = shape[shape.len() - 2].div_ceil(rows);
    }
    Ok(scales)
}

/// Element types and shapes of the results of quantisation.
pub fn quantized(
    name: &'static str,
    inputs: &[Option<ArrayType>],
    options: &Options,
) -> Result<Vec<ArrayType>> {
    let shape = inputs[0].clone().expect("checked: x is not optional").shape;
    let dtype = options.dtype("dtype");
    if !Dtype::BYTES.contains(&dtype) {
        return unsupported(name, format!("dtype is {dtype}, and may be int8, float8_e4m3fn or float8_e5m2"));
    }
    let scales = ArrayType { dtype: Dtype::F32, shape: scales_of(name, &shape, tile_of(name, options)?)? };
    Ok(vec![ArrayType { dtype, shape }, scales])
}

/// The tile that scales of a shape are of.
pub fn tile_of_scales(name: &'static str, shape: &[usize], scales: &[usize]) -> Result<TileOf> {
    let tiles = [(None, None), (Some(1), None), (Some(1), Some(128)), (Some(128), Some(128))];
    let found = tiles.into_iter().find(|&tile| scales_of(name, shape, tile).is_ok_and(|of| of == scales));
    found.ok_or_else(|| Error::ShapeMismatch {
        operation: name,
        detail: format!(
            "scales have shape {scales:?}, which is that of no tiles of an array of shape {shape:?}"
        ),
    })
}

/// Element type and shape of the result of dequantisation.
pub fn dequantized(
    name: &'static str,
    inputs: &[Option<ArrayType>],
    options: &Options,
) -> Result<Vec<ArrayType>> {
    let [q, scales] = [0, 1].map(|index| inputs[index].clone().expect("checked: it is not optional"));
    tile_of_scales(name, &q.shape, &scales.shape)?;
    let dtype = crate::float_option(name, options, "dtype")?;
    Ok(vec![ArrayType { dtype, shape: q.shape }])
}

/// The problem of floats, 8-bit elements and scales.
fn problem(name: &'static str, arrays: [&Array; 3], tile: TileOf) -> Result<(Problem, Arguments)> {
    let [x, q, scales] = arrays;
    let rank = x.shape.len();
    let (is_one, by_rows) = (tile.0.is_none(), tile.0.is_some_and(|rows| rows > 1));
    // The stride of a mode in each array; scales have no last mode if a row has one.
    let stride = |mode: usize| {
        let of_scales = if is_one { 0 } else { scales.strides.get(mode).copied().unwrap_or(0) };
        [x.strides[mode], q.strides[mode], of_scales]
    };
    let (columns, last) = (x.shape[rank - 1], stride(rank - 1));
    let others = if by_rows { rank - 2 } else { rank - 1 };
    let modes: Vec<Mode<3>> = (0..others).map(|mode| (x.shape[mode], stride(mode))).collect();
    let [mut matrices, mut rows] = groups::groups_and_rows(name, x, groups::joined(modes))?;
    if by_rows {
        if matrices.0 > 1 {
            return unsupported(
                name,
                format!("x has strides {:?}, which join no matrices; copy it", x.strides),
            );
        }
        matrices = rows;
        rows = (x.shape[rank - 2] as u32, stride(rank - 2));
    }
    if x.elements() > i32::MAX as usize || matrices.0 > moye::MAX_BLOCKS[1] {
        return unsupported(
            name,
            format!("x has shape {:?}, more than {} elements; split it", x.shape, i32::MAX),
        );
    }
    let vector = 16 / x.dtype.bytes();
    let is_aligned = |array: &Array, i: usize, bytes: i64| {
        let far = |extent: u32, stride: i64| extent == 1 || stride * array.dtype.bytes() as i64 % bytes == 0;
        array.address.is_multiple_of(bytes as u64)
            && (last[i] == 1 || columns == 1)
            && far(rows.0, rows.1[i])
            && far(matrices.0, matrices.1[i])
    };
    let aligned = columns.is_multiple_of(vector) && is_aligned(x, 0, 16) && is_aligned(q, 1, vector as i64);
    let columns = columns as u32;
    let (tile_rows, tile_columns) = match tile {
        (Some(rows), columns_of) => (rows as u32, columns_of.map_or(columns, |of| of as u32)),
        // Tiles that blocks hold, or larger ones if there were too many.
        (None, _) => {
            let most = (MAGNITUDES / matrices.0).max(1);
            let tile_columns = columns.min(HELD.max(columns.div_ceil(most).next_multiple_of(16)));
            let rows_of_tiles = (most / columns.div_ceil(tile_columns)).max(1);
            (rows.0.div_ceil(rows_of_tiles).max((HELD / tile_columns).min(rows.0)), tile_columns)
        }
    };
    let threads = match (tile_rows * tile_columns).div_ceil(vector as u32) {
        0..=16 => 16,
        17..=64 => 32,
        _ => THREADS,
    };
    let code = match q.dtype {
        Dtype::I8 => Code::I8,
        Dtype::E4m3 => Code::E4m3,
        _ => Code::E5m2,
    };
    let tiles = Tiles { rows: rows.0, columns, tile_rows, tile_columns, threads, code: code as u32, aligned };
    let strides = [0, 1, 2].map(|i| Place { group: matrices.1[i], row: rows.1[i], element: last[i] });
    let arguments = Arguments { addresses: arrays.map(|array| array.address), magnitudes: 0, strides };
    Ok((Problem { tiles, matrices: matrices.0, is_one }, arguments))
}

/// Quantises an array.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn quantize(name: &'static str, stream: &Stream, call: &Call<'_>) -> Result<()> {
    let x = call.operand(0);
    if x.elements() == 0 {
        return Ok(());
    }
    let tile = tile_of(name, call.options)?;
    let (problem, mut arguments) = problem(name, [x, call.operand(1), call.operand(2)], tile)?;
    let bytes = if problem.is_one { 4 * problem.magnitudes() as usize } else { 0 };
    // Held until all has been launched.
    let work = Workspace::new(stream, bytes)?;
    arguments.magnitudes = work.as_ref().map_or(0, Workspace::address);
    // SAFETY: the call's arrays are on the stream's device until the work is complete, and the
    // workspace has room for the magnitudes.
    unsafe { of_floats!(name, x.dtype, T => operation::run::<Quantize<T>>(stream, &problem, &arguments)) }
}

/// Dequantises an array.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn dequantize(name: &'static str, stream: &Stream, call: &Call<'_>) -> Result<()> {
    let [q, scales, y] = [0, 1, 2].map(|index| call.operand(index));
    if q.elements() == 0 {
        return Ok(());
    }
    let tile = tile_of_scales(name, &q.shape, &scales.shape)?;
    let (mut problem, arguments) = problem(name, [y, q, scales], tile)?;
    if problem.is_one {
        (problem.tiles.tile_rows, problem.tiles.tile_columns) = (problem.tiles.rows, problem.tiles.columns);
    }
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { of_floats!(name, y.dtype, T => operation::run::<Dequantize<T>>(stream, &problem, &arguments)) }
}

/// The kernel that computes a call of either.
pub fn explain(name: &'static str, call: &Call<'_>) -> Result<&'static str> {
    Ok(match name {
        "quantize" => of_floats!(name, call.operand(0).dtype, T => Quantize::<T>::kernel(&())),
        _ => of_floats!(name, call.operand(2).dtype, T => Dequantize::<T>::kernel(&())),
    })
}
