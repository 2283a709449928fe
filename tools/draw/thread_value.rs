//! Pictures of thread-value layouts, tiled copies and matrix instructions.

use super::error::{DrawError, check_cells};
use super::scene::{Cell, Fill, Grid, Heading, Label, Panel, Scene};
use moye_device::layout::{Basis, Layout, Leaf, try_make_layout_tv};

/// A tile with the thread (T) and the value (V) that hold each element, coloured by thread.
///
/// `tv` maps (thread, value) to an index in the tile of `tile` = (rows, columns) elements, counted
/// down the columns, or to coordinates in it (strides such as `1@0`). `threads` maps thread indices
/// to thread ids (an atom's `thr_id`); without it they are equal. An element that several pairs
/// hold shows the first pair and the number of others.
///
/// # Errors
/// A value is outside the tile, or there are too many cells.
///
/// ```
/// use moye_draw::Label;
/// use moye_device::layout::layout;
///
/// // Four threads, each with two values in a row of a 2 x 4 tile.
/// let scene = moye_draw::thread_value(&layout!(((2, 2), 2):((4, 1), 2)), [2, 4], None).unwrap();
/// let cell = scene.panels[0].grid.cell(1, 2);
/// assert_eq!(cell.label, Label::ThreadValue { thread: 3, value: 0, more: 0 });
/// ```
pub fn thread_value(tv: &Layout, tile: [i64; 2], threads: Option<&Layout>) -> Result<Scene, DrawError> {
    let grid = tile_grid(&Holders::of(tv, tile, threads)?);
    let description = format!(
        "The thread-value layout {tv} over a tile of {} rows and {} columns: each cell holds the thread T and value V \
         of its element; {} threads with {} values each.",
        tile[0],
        tile[1],
        thread_count(tv),
        tv.size() / thread_count(tv),
    );
    Ok(Scene::single(tv.to_string(), description, grid))
}

/// A tiled copy: the source tile on the left, the destination tile on the right, each with the
/// thread and value that copy the element.
///
/// # Errors
/// Same as [`thread_value`], for either tile.
pub fn tiled_copy(source: &Layout, destination: &Layout, tile: [i64; 2]) -> Result<Scene, DrawError> {
    let left = tile_grid(&Holders::of(source, tile, None)?).with_caption(format!("Source {source}"));
    let right =
        tile_grid(&Holders::of(destination, tile, None)?).with_caption(format!("Destination {destination}"));
    let title = format!("Tiled copy of {} x {}", tile[0], tile[1]);
    let description = format!(
        "A tiled copy of {} rows and {} columns: on the left the source, by {source}, on the right the destination, by \
         {destination}. Each cell holds the thread T and value V that move its element.",
        tile[0], tile[1],
    );
    Ok(Scene::pair(title, description, left, right))
}

/// The tiled copy of a thread layout over a value layout (`make_tiled_copy` with an atom in which
/// each thread reads and writes the same values). A tile of one mode is one row; with more than two
/// modes, all modes after the first go along the columns.
///
/// # Errors
/// The two form no thread-value layout, or as for [`tiled_copy`].
///
/// ```
/// use moye_draw;
/// use moye_device::layout::layout;
///
/// let scene = moye_draw::tiled_copy_of(&layout!((32, 8)), &layout!((4, 1))).unwrap();
/// assert_eq!(scene.title, "Tiled copy of 128 x 8");
/// ```
pub fn tiled_copy_of(threads: &Layout, values: &Layout) -> Result<Scene, DrawError> {
    let copy = try_make_layout_tv(*threads, *values)?;
    let rows = if copy.tile.rank() < 2 { 1 } else { copy.tile.mode(0).size() };
    tiled_copy(&copy.layout, &copy.layout, [rows, copy.tile.size() / rows])
}

/// A matrix instruction in CuTe's arrangement: A (M x K) on the left, B (K x N) above, C (M x N) in
/// the corner between them.
///
/// `a`, `b` and `c` map (thread, value) to an index in the M x K, N x K and M x N tiles, counted
/// along the first extent; `threads` maps thread indices to thread ids.
///
/// # Errors
/// Same as [`thread_value`], for any of them.
pub fn mma(
    shape_mnk: [i64; 3],
    a: &Layout,
    b: &Layout,
    c: &Layout,
    threads: Option<&Layout>,
) -> Result<Scene, DrawError> {
    let [m, n, k] = shape_mnk;
    let a_grid = tile_grid(&Holders::of(a, [m, k], threads)?).with_caption("A (M x K)");
    let b_grid = tile_grid(&Holders::of(b, [n, k], threads)?.transposed()).with_caption("B (K x N)");
    let c_grid = tile_grid(&Holders::of(c, [m, n], threads)?).with_caption("C (M x N)");
    let panels = vec![
        Panel { row: 0, column: 1, grid: b_grid },
        Panel { row: 1, column: 0, grid: a_grid },
        Panel { row: 1, column: 1, grid: c_grid },
    ];
    let title = format!("{m} x {n} x {k}");
    let description = format!(
        "A matrix instruction of shape {m} x {n} x {k}: A on the left by the thread-value layout {a}, B above by {b}, C \
         between them by {c}. Each cell holds the thread T and value V of its element."
    );
    Ok(Scene { title, description, panels })
}

fn thread_count(tv: &Layout) -> i64 {
    if tv.rank() == 0 { 1 } else { tv.extent(0) }
}

/// The threads and values that hold each element of a tile.
struct Holders {
    rows: i64,
    columns: i64,
    /// For each element, row by row: the first holder (thread id, value), and the number of others.
    cells: Vec<Option<(i64, i64, usize)>>,
}

impl Holders {
    fn of(tv: &Layout, [rows, columns]: [i64; 2], threads: Option<&Layout>) -> Result<Self, DrawError> {
        let unsuited = |why: String| DrawError::Unsuited { layout: tv.to_string(), how: "over a tile", why };
        if rows < 1 || columns < 1 {
            return Err(unsuited(format!("the tile is {rows} x {columns}; its extents must be at least 1")));
        }
        check_cells(format!("the tile of {rows} x {columns}"), rows.saturating_mul(columns))?;
        // Usually there are as many pairs as cells; broadcasts repeat them.
        check_cells(format!("the thread-value layout {tv}"), tv.size() / 64)?;
        let count = thread_count(tv);
        if let Some(threads) = threads
            && (threads.size() < count || threads.is_coordinate())
        {
            return Err(unsuited(format!(
                "it has {count} threads, but the layout of thread ids {threads} numbers {}",
                threads.size()
            )));
        }
        let element = Element::of(tv, rows)?;
        let mut cells = vec![None; (rows * columns) as usize];
        for pair in 0..tv.size() {
            let (thread, value) = (pair % count, pair / count);
            let (row, column) = element.at(pair);
            if !(0..rows).contains(&row) || !(0..columns).contains(&column) {
                return Err(DrawError::OutsideTile {
                    layout: tv.to_string(),
                    thread,
                    value,
                    index: element.text(pair),
                    rows,
                    columns,
                    last: rows * columns - 1,
                });
            }
            let thread = threads.map_or(thread, |threads| threads.at(thread));
            let cell: &mut Option<(i64, i64, usize)> = &mut cells[(row * columns + column) as usize];
            match cell {
                Some((_, _, more)) => *more += 1,
                None => *cell = Some((thread, value, 0)),
            }
        }
        Ok(Self { rows, columns, cells })
    }

    fn transposed(self) -> Self {
        let at = |row: i64, column: i64| self.cells[(row * self.columns + column) as usize];
        let cells = (0..self.columns).flat_map(|column| (0..self.rows).map(move |row| (row, column)));
        let cells = cells.map(|(row, column)| at(row, column)).collect();
        Self { rows: self.columns, columns: self.rows, cells }
    }
}

/// The elements of a tile to which a thread-value layout maps pairs.
enum Element<'a> {
    /// By an index that counts down columns of this number of rows.
    Index(&'a Layout, i64),
    /// By two coordinates.
    Coordinate(Box<[Layout; 2]>),
}

impl<'a> Element<'a> {
    fn of(tv: &'a Layout, rows: i64) -> Result<Self, DrawError> {
        if !tv.is_coordinate() {
            return Ok(Self::Index(tv, rows));
        }
        let (row, column) = (tv.along(0), tv.along(1));
        let stride = tv.stride();
        let is_other = |leaf| match stride.leaf(leaf) {
            Leaf::Int(stride) => stride != 0,
            Leaf::Scaled { basis, .. } => basis != Basis::new(&[0]) && basis != Basis::new(&[1]),
            Leaf::Any => true,
        };
        if (0..stride.leaves()).any(is_other) {
            return Err(DrawError::Unsuited {
                layout: tv.to_string(),
                how: "over a tile",
                why: "some stride is neither along basis vector 0 (rows) nor 1 (columns)".to_owned(),
            });
        }
        Ok(Self::Coordinate(Box::new([row, column])))
    }

    fn at(&self, pair: i64) -> (i64, i64) {
        match self {
            Self::Index(layout, rows) => {
                let index = layout.at(pair);
                (index.rem_euclid(*rows), index.div_euclid(*rows))
            }
            Self::Coordinate(parts) => (parts[0].at(pair), parts[1].at(pair)),
        }
    }

    fn text(&self, pair: i64) -> String {
        match self {
            Self::Index(layout, _) => format!("index {}", layout.at(pair)),
            Self::Coordinate(parts) => format!("({},{})", parts[0].at(pair), parts[1].at(pair)),
        }
    }
}

fn tile_grid(holders: &Holders) -> Grid {
    let columns = holders.columns as usize;
    let mut grid =
        Grid::from_fn(Heading::plain(holders.rows), Heading::plain(holders.columns), |row, column| {
            match holders.cells[row * columns + column] {
                Some((thread, value, more)) => {
                    Cell::new(Label::ThreadValue { thread, value, more }, Fill::category(thread))
                }
                None => Cell::empty(),
            }
        });
    let empty = holders.cells.iter().filter(|cell| cell.is_none()).count();
    if empty > 0 {
        grid.notes.push(format!("{empty} of {} elements are held by no thread.", holders.cells.len()));
    }
    if holders.cells.iter().flatten().any(|(_, _, more)| *more > 0) {
        grid.notes.push("+n: n more hold the element, beside the one shown.".to_owned());
    }
    grid
}
