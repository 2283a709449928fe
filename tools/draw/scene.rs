//! The contents of a picture, independent of formats: grids of labelled, coloured cells. Every kind
//! of picture builds a [`Scene`], and every renderer draws one.

use moye_device::layout::IntTuple;

/// A picture: grids placed in rows and columns, under a title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    /// The title, such as the layout.
    pub title: String,
    /// A description of the picture in words, for readers who cannot see it.
    pub description: String,
    /// The grids.
    pub panels: Vec<Panel>,
}

/// A grid and its position in the picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    /// The row of panels, from 0 at the top.
    pub row: usize,
    /// The column of panels, from 0 at the left.
    pub column: usize,
    /// The grid.
    pub grid: Grid,
}

/// Cells in rows and columns, with headings, a caption and notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The caption above it; may be empty.
    pub caption: String,
    /// The notes below it, one paragraph each.
    pub notes: Vec<String>,
    /// One more than the largest index, if the cells are a layout's indices. `print_layout`'s
    /// columns are as wide as this number.
    pub cosize: Option<i64>,
    rows: Vec<Heading>,
    columns: Vec<Heading>,
    cells: Vec<Cell>,
}

/// The heading of a row or a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// The coordinate as one integer.
    pub index: i64,
    /// The hierarchical coordinate of a nested mode: `(1,0)`.
    pub coordinate: Option<String>,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Its label.
    pub label: Label,
    /// Its colour.
    pub fill: Fill,
    /// Its emphasis.
    pub mark: Mark,
}

/// The label of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    /// None: no thread holds the element.
    Empty,
    /// An index.
    Index(i64),
    /// A coordinate.
    Coordinate(Box<IntTuple>),
    /// The thread and value that hold the element.
    ThreadValue {
        /// The thread.
        thread: i64,
        /// The index of the value within the thread.
        value: i64,
        /// The number of other thread-value pairs that hold the same element.
        more: usize,
    },
    /// The banks of shared memory that contain the element.
    Bank {
        /// The first bank.
        first: i64,
        /// The last bank.
        last: i64,
        /// The first thread that accesses it, and the number of other threads that do.
        thread: Option<(i64, usize)>,
    },
}

/// A cell's colour, as an entry of a palette.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fill {
    /// The page's colour.
    None,
    /// One of the 32 distinguishable colours, cyclically.
    Category(u8),
    /// One of the eight steps of a ramp from light to strong.
    Ramp(u8),
}

/// The emphasis of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// Not at all.
    None,
    /// By a strong border.
    Accessed,
    /// By a strong border and a filled corner.
    Conflict,
}

/// The number of colours of [`Fill::Category`].
pub const CATEGORIES: u8 = 32;
/// The number of steps of [`Fill::Ramp`].
pub const RAMP_STEPS: u8 = 8;

impl Fill {
    /// The colour of the `index`-th item: the 32 colours cyclically.
    pub fn category(index: i64) -> Self {
        Self::Category(index.rem_euclid(i64::from(CATEGORIES)) as u8)
    }

    /// The step of the ramp for `value` between `low` and `high`.
    pub fn ramp(value: i64, low: i64, high: i64) -> Self {
        let span = i128::from(high) - i128::from(low) + 1;
        let step = (i128::from(value) - i128::from(low)) * i128::from(RAMP_STEPS) / span.max(1);
        Self::Ramp(step.clamp(0, i128::from(RAMP_STEPS) - 1) as u8)
    }
}

impl Cell {
    /// A cell without a mark.
    pub fn new(label: Label, fill: Fill) -> Self {
        Self { label, fill, mark: Mark::None }
    }

    /// A cell without a label.
    pub fn empty() -> Self {
        Self::new(Label::Empty, Fill::None)
    }
}

impl Label {
    /// The label in lines, with indices counted from `base`. Banks always count from 0, as the
    /// hardware numbers them.
    pub fn lines(&self, base: i64) -> Vec<String> {
        match self {
            Self::Empty => Vec::new(),
            Self::Index(index) => vec![based(*index, base)],
            Self::Coordinate(coordinate) => {
                vec![coordinate.transform(|part| part.saturating_add(base)).to_string()]
            }
            Self::ThreadValue { thread, value, more } => {
                let mut lines =
                    vec![format!("T{}", based(*thread, base)), format!("V{}", based(*value, base))];
                if *more > 0 {
                    lines.push(format!("+{more}"));
                }
                lines
            }
            Self::Bank { first, last, thread } => {
                let mut lines =
                    vec![if first == last { first.to_string() } else { format!("{first}-{last}") }];
                if let Some((thread, more)) = thread {
                    let more = if *more > 0 { format!("+{more}") } else { String::new() };
                    lines.push(format!("T{}{more}", based(*thread, base)));
                }
                lines
            }
        }
    }
}

/// `index + base`, which may exceed 64 bits.
fn based(index: i64, base: i64) -> String {
    (i128::from(index) + i128::from(base)).to_string()
}

impl Heading {
    /// Headings 0 to `extent - 1` without hierarchical coordinates.
    pub fn plain(extent: i64) -> Vec<Self> {
        (0..extent).map(|index| Self { index, coordinate: None }).collect()
    }

    /// The index as a string, counted from `base`.
    pub fn text(&self, base: i64) -> String {
        based(self.index, base)
    }
}

impl Grid {
    /// The grid whose cell at row `i` and column `j` is `cell(i, j)`.
    pub fn from_fn(
        rows: Vec<Heading>,
        columns: Vec<Heading>,
        mut cell: impl FnMut(usize, usize) -> Cell,
    ) -> Self {
        let cells =
            (0..rows.len()).flat_map(|i| (0..columns.len()).map(move |j| (i, j))).map(|(i, j)| cell(i, j));
        let cells = cells.collect();
        Self { caption: String::new(), notes: Vec::new(), cosize: None, rows, columns, cells }
    }

    /// The same grid under a caption.
    pub fn with_caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// The headings of the rows, from the top.
    pub fn rows(&self) -> &[Heading] {
        &self.rows
    }

    /// The headings of the columns, from the left.
    pub fn columns(&self) -> &[Heading] {
        &self.columns
    }

    /// The cell at a row and a column.
    ///
    /// # Panics
    /// There is no such row or column.
    pub fn cell(&self, row: usize, column: usize) -> &Cell {
        assert!(column < self.columns.len(), "column {column} of {}", self.columns.len());
        &self.cells[row * self.columns.len() + column]
    }

    /// All cells, row by row.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }
}

impl Scene {
    /// A picture of one grid.
    pub(super) fn single(title: String, description: String, grid: Grid) -> Self {
        Self { title, description, panels: vec![Panel { row: 0, column: 0, grid }] }
    }

    /// A picture of two grids side by side.
    pub(super) fn pair(title: String, description: String, left: Grid, right: Grid) -> Self {
        let panels =
            [left, right].into_iter().enumerate().map(|(column, grid)| Panel { row: 0, column, grid });
        Self { title, description, panels: panels.collect() }
    }
}
