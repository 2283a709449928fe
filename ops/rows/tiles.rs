//! The tiles of matrices whose elements share a scale: shapes, launches, and the reference's order.

use moye_device::kernel::KernelParam;

/// The matrices of a launch and their tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelParam)]
#[repr(C)]
pub struct Tiles {
    /// Rows of a matrix.
    pub rows: u32,
    /// Columns of a matrix.
    pub columns: u32,
    /// Rows of a tile.
    pub tile_rows: u32,
    /// Columns of a tile.
    pub tile_columns: u32,
    /// The 8-bit type: a [`Code`](crate::code::Code).
    pub code: u32,
    /// Whether vectors of both sides are at multiples of their size.
    pub aligned: bool,
}

impl Tiles {
    /// Tiles along a row, and of a matrix.
    pub const fn count(self) -> (u32, u32) {
        let across = self.columns.div_ceil(self.tile_columns);
        (across, across * self.rows.div_ceil(self.tile_rows))
    }
}

#[cfg(not(target_arch = "nvptx64"))]
pub use host::*;

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::Tiles;
    use crate::code::Code;
    use crate::declare::unsupported;
    use crate::groups::{self, Mode, Placed, is_of_words};
    use crate::place::Place;
    use moye_runtime::Result;
    use moye_runtime::operation::{Array, Dtype, OperandOf, Options, Role};

    /// The scales of tiles, which are read.
    pub const SCALES: OperandOf = OperandOf::new(
        Role::Input,
        "scales",
        "float32: one of all, of a row, of 128 elements of a row, or of 128 x 128 of the last two axes",
    )
    .of(&[Dtype::F32]);

    /// The tiles with a scale.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TileOf {
        /// Rows of a tile, `None` for all.
        pub rows: Option<usize>,
        /// Columns of a tile, `None` for all.
        pub columns: Option<usize>,
    }

    /// The matrices of a call.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Matrices {
        /// The type of the floats.
        pub dtype: Dtype,
        /// The tiles of each.
        pub tiles: Tiles,
        /// The number of matrices.
        pub count: u32,
        /// Floats, 8-bit elements and scales.
        pub arrays: [Placed; 3],
    }

    /// The tile of the options `tile_rows` and `tile_columns`, of which 0 is all.
    ///
    /// # Errors
    /// Other tiles than all, a row, 128 elements of a row and 128 x 128.
    pub fn tile_of(name: &'static str, options: &Options) -> Result<TileOf> {
        let [rows, columns] = ["tile_rows", "tile_columns"].map(|name| options.int(name));
        let given = |extent: i64| (extent != 0).then_some(extent as usize);
        match (rows, columns) {
            (0, 0) | (1, 0 | 128) | (128, 128) => Ok(TileOf { rows: given(rows), columns: given(columns) }),
            _ => unsupported(
                name,
                format!(
                    "tiles are {rows} x {columns}, and may be 0 x 0 (all), 1 x 0 (a row), 1 x 128 or 128 x 128"
                ),
            ),
        }
    }

    /// The shape of the scales of an array, with tiles of the last two axes.
    ///
    /// # Errors
    /// The array has fewer axes than a tile.
    pub fn scales_of(name: &'static str, shape: &[usize], tile: TileOf) -> Result<Vec<usize>> {
        let TileOf { rows, columns } = tile;
        let axes = if rows.is_some_and(|rows| rows > 1) { 2 } else { 1 };
        if shape.len() < axes {
            return unsupported(name, format!("x has shape {shape:?}, and must have {axes} axes or more"));
        }
        let (Some(rows), mut scales) = (rows, shape.to_vec()) else { return Ok(Vec::new()) };
        match columns {
            Some(columns) => {
                let last = scales.last_mut().expect("checked: it has an axis");
                *last = shape[shape.len() - 1].div_ceil(columns);
            }
            None => _ = scales.pop(),
        }
        if axes == 2 {
            scales[shape.len() - 2] = shape[shape.len() - 2].div_ceil(rows);
        }
        Ok(scales)
    }

    /// The matrices of floats, 8-bit elements and scales; a tile of all elements is a whole matrix.
    ///
    /// # Errors
    /// Rows of more than two strides, or more elements than a launch supports.
    pub fn matrices(name: &'static str, arrays: [&Array; 3], tile: TileOf) -> Result<Matrices> {
        let [x, q, scales] = arrays;
        let rank = x.shape.len();
        let (is_one, by_rows) = (tile.rows.is_none(), tile.rows.is_some_and(|rows| rows > 1));
        // The stride of a mode in each array; scales have no last mode if a row has one.
        let stride = |mode: usize| {
            let of_scales = if is_one { 0 } else { scales.strides.get(mode).copied().unwrap_or(0) };
            [x.strides[mode], q.strides[mode], of_scales]
        };
        let (columns, last) = (x.shape[rank - 1], stride(rank - 1));
        let others = if by_rows { rank - 2 } else { rank - 1 };
        let mode_of = |mode: usize| Mode { extent: x.shape[mode], strides: stride(mode) };
        let modes: Vec<Mode<3>> = (0..others).map(mode_of).collect();
        let [mut matrices, mut rows] = groups::groups_and_rows(name, x, groups::joined(modes))?;
        if by_rows {
            if matrices.extent > 1 {
                let detail = format!("x has strides {:?}, which join no matrices; copy it", x.strides);
                return unsupported(name, detail);
            }
            matrices = rows;
            rows = mode_of(rank - 2);
        }
        if x.elements() > i32::MAX as usize || matrices.extent > moye_runtime::MAX_BLOCKS[1] as usize {
            let detail = format!("x has shape {:?}, more than {} elements; split it", x.shape, i32::MAX);
            return unsupported(name, detail);
        }
        let vector = 16 / x.dtype.bytes();
        let aligned = columns.is_multiple_of(vector) && is_of_words(x, 16) && is_of_words(q, vector);
        let (rows_of, columns) = (rows.extent as u32, columns as u32);
        let tiles = Tiles {
            rows: rows_of,
            columns,
            tile_rows: tile.rows.map_or(rows_of, |rows| rows as u32),
            tile_columns: tile.columns.map_or(columns, |columns| columns as u32),
            code: Code::of(q.dtype) as u32,
            aligned,
        };
        let arrays = [0, 1, 2].map(|i| Placed {
            address: arrays[i].address,
            place: Place { group: matrices.strides[i], row: rows.strides[i], element: last[i] },
        });
        Ok(Matrices { dtype: x.dtype, tiles, count: matrices.extent as u32, arrays })
    }

    /// Calls `with` with the places of each tile's elements, in the order of the scales.
    pub fn each_tile(shape: &[usize], tile: TileOf, mut with: impl FnMut(&[usize])) {
        let TileOf { rows, columns } = tile;
        let n = shape[shape.len() - 1];
        let m = if shape.len() > 1 { shape[shape.len() - 2] } else { 1 };
        let all: usize = shape.iter().product();
        if all == 0 {
            return;
        }
        let Some(rows) = rows else { return with(&(0..all).collect::<Vec<_>>()) };
        let columns = columns.unwrap_or(n);
        for matrix in 0..all / (m * n) {
            for (row, column) in
                (0..m).step_by(rows).flat_map(|row| (0..n).step_by(columns).map(move |column| (row, column)))
            {
                let of_row = |row| {
                    (column..n.min(column + columns)).map(move |column| (matrix * m + row) * n + column)
                };
                with(&(row..m.min(row + rows)).flat_map(of_row).collect::<Vec<_>>());
            }
        }
    }
}
