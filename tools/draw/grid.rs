//! Pictures of layouts: the grid of their indices, and helpers for other kinds.

use super::error::{DrawError, check_cells};
use super::scene::{Cell, Fill, Grid, Heading, Label, Scene};
use moye_device::layout::{IntTuple, Layout, coordinate_of, try_coordinate_of};

/// The grid of a layout's indices, with the coordinates as headings.
///
/// Mode 0 goes down the rows and mode 1 along the columns. A layout of rank 1 is one row; in a
/// higher rank, all modes after the first go along the columns together, the second fastest. The
/// headings of a nested mode also show the hierarchical coordinate. Colours run from light to
/// strong with the index, so they show the order in memory. A layout of coordinates (strides such
/// as `1@0`) shows coordinates.
///
/// # Errors
/// The layout has more than [`MAX_CELLS`](super::MAX_CELLS) elements, or has strides that form no
/// coordinate, such as integers beside strides along basis vectors.
///
/// ```
/// use moye_draw::Label;
/// use moye_device::layout::layout;
///
/// let scene = moye_draw::layout(&layout!((4, (2, 2)):(2, (1, 8)))).unwrap();
/// let grid = &scene.panels[0].grid;
/// assert_eq!(grid.cell(1, 2).label, Label::Index(10));
/// assert_eq!(grid.columns()[2].coordinate.as_deref(), Some("(0,1)"));
/// ```
pub fn layout(layout: &Layout) -> Result<Scene, DrawError> {
    let frame = Frame::of(layout)?;
    let grid = index_grid(&frame, &Values::of(layout)?);
    let description = format!(
        "The layout {layout}: a grid of {} rows and {} columns; each cell holds the {} of its coordinate.",
        frame.rows.len(),
        frame.columns.len(),
        if layout.is_coordinate() { "coordinate in the target" } else { "index" },
    );
    Ok(Scene::single(layout.to_string(), description, grid))
}

/// The headings of a layout's picture.
pub(super) struct Frame {
    pub rows: Vec<Heading>,
    pub columns: Vec<Heading>,
}

impl Frame {
    pub fn of(layout: &Layout) -> Result<Self, DrawError> {
        check_cells(format!("the layout {layout}"), layout.size())?;
        let shape = layout.shape();
        let (rows, columns) = match layout.rank() {
            0 => (Heading::plain(1), Heading::plain(1)),
            1 => (Heading::plain(1), headings(&[mode_of(&shape, 0)])),
            rank => {
                let rest: Vec<_> = (1..rank).map(|mode| mode_of(&shape, mode)).collect();
                (headings(&[mode_of(&shape, 0)]), headings(&rest))
            }
        };
        Ok(Self { rows, columns })
    }

    /// The integer coordinate of a cell. Modes after the first are counted together, so the cells
    /// are in the layout's order, column by column.
    pub fn linear(&self, row: usize, column: usize) -> i64 {
        (column * self.rows.len() + row) as i64
    }

    pub fn grid(&self, cell: impl FnMut(usize, usize) -> Cell) -> Grid {
        Grid::from_fn(self.rows.clone(), self.columns.clone(), cell)
    }
}

fn mode_of(shape: &IntTuple, mode: usize) -> IntTuple {
    if shape.is_int() { *shape } else { shape.mode(mode) }
}

/// The headings of modes along one side, the first fastest.
fn headings(modes: &[IntTuple]) -> Vec<Heading> {
    let extent: i64 = modes.iter().map(IntTuple::size).product();
    let nested = modes.len() != 1 || !modes[0].is_int();
    let heading = |index| {
        let coordinate = nested.then(|| {
            let mut rest = index;
            let mut parts: Vec<_> = modes.iter().map(|mode| coordinate_text(mode, &mut rest)).collect();
            if parts.len() == 1 { parts.remove(0) } else { format!("({})", parts.join(",")) }
        });
        Heading { index, coordinate }
    };
    (0..extent).map(heading).collect()
}

/// The hierarchical coordinate of `rest` within `shape`; the quotient that remains counts in the
/// following modes.
fn coordinate_text(shape: &IntTuple, rest: &mut i64) -> String {
    if let Some(extent) = shape.as_int() {
        let digit = *rest % extent;
        *rest /= extent;
        return digit.to_string();
    }
    let parts: Vec<_> = (0..shape.rank()).map(|mode| coordinate_text(&shape.mode(mode), rest)).collect();
    format!("({})", parts.join(","))
}

/// The codomain of a layout: indices, or coordinates.
struct Values<'a>(&'a Layout);

impl<'a> Values<'a> {
    fn of(layout: &'a Layout) -> Result<Self, DrawError> {
        // Whether there are values does not depend on the coordinate.
        if let Err(error) = try_coordinate_of(*layout, IntTuple::int(0)) {
            return Err(DrawError::Unsuited {
                layout: layout.to_string(),
                how: "as a grid",
                why: error.reason().unwrap_or(error.text()).to_owned(),
            });
        }
        Ok(Self(layout))
    }

    /// The label of an element, and the value of its colour: for a coordinate the last component,
    /// which distinguishes the columns of an identity layout.
    fn at(&self, coord: i64) -> (Label, i64) {
        if !self.0.is_coordinate() {
            let index = self.0.at(coord);
            return (Label::Index(index), index);
        }
        let coordinate = coordinate_of(*self.0, IntTuple::int(coord));
        let last = coordinate.leaves().checked_sub(1).and_then(|last| coordinate.value_at(last));
        (Label::Coordinate(Box::new(coordinate)), last.unwrap_or(0))
    }

    fn cosize(&self) -> Option<i64> {
        (!self.0.is_coordinate()).then(|| self.0.cosize())
    }
}

fn index_grid(frame: &Frame, values: &Values<'_>) -> Grid {
    let size = (frame.rows.len() * frame.columns.len()) as i64;
    let low = (0..size).map(|coord| values.at(coord).1).min().unwrap_or(0);
    let high = (0..size).map(|coord| values.at(coord).1).max().unwrap_or(0);
    let mut grid = frame.grid(|row, column| {
        let (label, value) = values.at(frame.linear(row, column));
        Cell::new(label, Fill::ramp(value, low, high))
    });
    grid.cosize = values.cosize();
    grid
}
