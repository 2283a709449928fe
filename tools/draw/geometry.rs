//! The geometry of a picture: boxes and lines of text with coordinates, which SVG, TikZ and Typst
//! all draw in the same way.
//!
//! Lengths are in CSS pixels (1/96 inch), from the upper left corner. Text is set in a fixed-width
//! font, whose letters are assumed wider than in any common one ([`ADVANCE`]), so that nothing is
//! clipped in another font.

use super::scene::{Cell, Fill, Grid, Heading, Label, Mark, Scene};

/// The width of a letter over the font size: 0.60 to 0.602 in DejaVu, Liberation, Courier and
/// Consolas-like fonts, 0.525 in Computer Modern.
const ADVANCE: f64 = 0.62;
const MARGIN: f64 = 16.0;
const GAP: f64 = 28.0;
const CELL_PADDING: f64 = 5.0;
/// The side of the filled corner of a cell with a conflict.
pub const CORNER: f64 = 9.0;
const MIN_CELL: f64 = 34.0;
const HEADING_SIZE: f64 = 11.0;
const COORDINATE_SIZE: f64 = 9.0;
const CAPTION_SIZE: f64 = 12.0;
const TITLE_SIZE: f64 = 15.0;
const LINE: f64 = 1.3;
/// Text is wrapped to at least this number of characters: the picture becomes wider instead.
const MIN_CHARACTERS: usize = 44;

/// A picture with all coordinates.
pub struct Drawing {
    pub width: f64,
    pub height: f64,
    pub cells: Vec<PlacedCell>,
    /// Titles, captions, headings and notes.
    pub texts: Vec<PlacedText>,
}

pub struct PlacedCell {
    pub panel: usize,
    pub row: usize,
    pub column: usize,
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
    pub fill: Fill,
    pub mark: Mark,
    pub label: Label,
    pub lines: Vec<PlacedText>,
}

/// The edges of a rectangle.
pub struct Bounds {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

/// One line of text.
#[derive(Clone)]
pub struct PlacedText {
    pub text: String,
    /// The position of the anchor.
    pub x: f64,
    /// The middle of the line; the baseline is [`PlacedText::baseline`].
    pub y: f64,
    pub size: f64,
    pub anchor: Anchor,
    pub tone: Tone,
    /// Rotated by a quarter turn, so that it reads upwards.
    pub turned: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    Strong,
    Muted,
    Title,
}

impl PlacedText {
    /// The baseline that centres digits and capitals vertically.
    pub fn baseline(&self) -> f64 {
        self.y + 0.35 * self.size
    }

    /// The bounding rectangle.
    pub fn bounds(&self) -> Bounds {
        let width = width_of(&self.text, self.size);
        let left = match self.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -width / 2.0,
            Anchor::End => -width,
        };
        let (x, y, half) = (self.x, self.y, self.size / 2.0);
        if self.turned {
            Bounds { left: x - half, top: y - left - width, right: x + half, bottom: y - left }
        } else {
            Bounds { left: x + left, top: y - half, right: x + left + width, bottom: y + half }
        }
    }
}

fn width_of(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * ADVANCE * size
}

/// The sizes that all grids of a picture share.
struct Sizes {
    font: f64,
    cell_width: f64,
    cell_height: f64,
}

impl Sizes {
    fn of(scene: &Scene, base: i64) -> Self {
        let cells = scene.panels.iter().flat_map(|panel| panel.grid.cells());
        let (mut longest, mut lines, mut padding) = (1, 1, CELL_PADDING);
        for cell in cells {
            if cell.mark == Mark::Conflict {
                padding = CORNER + 2.0;
            }
            let label = cell.label.lines(base);
            lines = lines.max(label.len());
            longest = label.iter().map(|line| line.chars().count()).max().unwrap_or(0).max(longest);
        }
        let font = match longest {
            0..=4 => 13.0,
            5..=7 => 12.0,
            8..=10 => 11.0,
            _ => 10.0,
        };
        let headings = scene.panels.iter().flat_map(|panel| panel.grid.columns());
        let heading = headings.map(|heading| width_of(&heading.text(base), HEADING_SIZE)).fold(0.0, f64::max);
        let text = (longest as f64 * ADVANCE * font + 2.0 * padding).max(heading + 4.0);
        let cell_height = (lines as f64 * font * LINE + 2.0 * CELL_PADDING).max(MIN_CELL).ceil();
        let cell_width = text.max(cell_height).ceil();
        Self { font, cell_width, cell_height }
    }
}

/// The space around the cells of one grid.
struct Surround {
    /// Left of the cells: the rows' headings.
    left: f64,
    /// Between the caption and the cells: the columns' headings.
    heading: f64,
    /// Whether the hierarchical coordinates of the columns are rotated.
    turned: bool,
    caption: Vec<String>,
    notes: Vec<String>,
    width: f64,
}

impl Surround {
    fn of(grid: &Grid, sizes: &Sizes, base: i64) -> Self {
        let row = |heading: &Heading| {
            let coordinate = heading.coordinate.as_ref().map_or(0.0, |c| width_of(c, COORDINATE_SIZE) + 6.0);
            width_of(&heading.text(base), HEADING_SIZE) + coordinate
        };
        let left = grid.rows().iter().map(row).fold(0.0, f64::max) + 8.0;
        let widest = grid.columns().iter().filter_map(|h| h.coordinate.as_ref());
        let widest = widest.map(|c| width_of(c, COORDINATE_SIZE)).fold(0.0, f64::max);
        let turned = widest > sizes.cell_width - 2.0;
        let coordinate = if widest == 0.0 {
            0.0
        } else if turned {
            widest + 6.0
        } else {
            COORDINATE_SIZE * LINE
        };
        let cells = grid.columns().len() as f64 * sizes.cell_width;
        let characters = ((left + cells) / (ADVANCE * CAPTION_SIZE)) as usize;
        let characters = characters.max(MIN_CHARACTERS);
        let wrapped = |text: &str| if text.is_empty() { Vec::new() } else { wrap(text, characters) };
        let caption = wrapped(&grid.caption);
        let notes: Vec<_> = grid.notes.iter().flat_map(|note| wrapped(note)).collect();
        let text = caption.iter().chain(&notes).map(|line| width_of(line, CAPTION_SIZE)).fold(0.0, f64::max);
        Self {
            left,
            heading: HEADING_SIZE * LINE + 4.0 + coordinate,
            turned,
            caption,
            notes,
            width: (left + cells).max(left + text),
        }
    }

    fn caption_height(&self) -> f64 {
        lines_height(self.caption.len())
    }
}

fn lines_height(lines: usize) -> f64 {
    if lines == 0 { 0.0 } else { lines as f64 * CAPTION_SIZE * LINE + 6.0 }
}

/// The text in lines of at most `width` characters, broken after spaces, commas and colons, or
/// anywhere in a longer word.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_inclusive([' ', ',', ':']) {
        let length = word.trim_end().chars().count();
        if used > 0 && used + length > width {
            lines.push(String::new());
            used = 0;
        }
        for letter in word.chars() {
            if used == width && letter != ' ' {
                lines.push(String::new());
                used = 0;
            }
            if used < width {
                lines.last_mut().expect("there is always a line").push(letter);
                used += 1;
            }
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

/// Lays out a scene, with indices counted from `base`.
pub fn place(scene: &Scene, base: i64) -> Drawing {
    let sizes = Sizes::of(scene, base);
    let surrounds: Vec<_> =
        scene.panels.iter().map(|panel| Surround::of(&panel.grid, &sizes, base)).collect();
    let rows = 1 + scene.panels.iter().map(|panel| panel.row).max().unwrap_or(0);
    let columns = 1 + scene.panels.iter().map(|panel| panel.column).max().unwrap_or(0);
    // Cells in one row of panels start at the same height, those in one column at the same left
    // edge.
    let over_row = |row: usize, of: &dyn Fn(usize) -> f64| over(scene, |p| scene.panels[p].row == row, of);
    let over_column =
        |column: usize, of: &dyn Fn(usize) -> f64| over(scene, |p| scene.panels[p].column == column, of);
    let lefts: Vec<_> = (0..columns).map(|c| over_column(c, &|p| surrounds[p].left)).collect();
    let widths: Vec<_> = (0..columns)
        .map(|c| lefts[c] + over_column(c, &|p| surrounds[p].width - surrounds[p].left))
        .collect();
    let width = MARGIN * 2.0 + widths.iter().sum::<f64>() + GAP * (columns - 1) as f64;

    let mut drawing =
        Drawing { width: width.max(260.0), height: MARGIN, cells: Vec::new(), texts: Vec::new() };
    drawing.title(&scene.title);
    for row in 0..rows {
        let caption = over_row(row, &|p| surrounds[p].caption_height());
        let heading = over_row(row, &|p| surrounds[p].heading);
        let cells = over_row(row, &|p| scene.panels[p].grid.rows().len() as f64 * sizes.cell_height);
        let notes = over_row(row, &|p| lines_height(surrounds[p].notes.len()));
        for (index, panel) in scene.panels.iter().enumerate().filter(|(_, panel)| panel.row == row) {
            let x = MARGIN
                + widths[..panel.column].iter().map(|width| width + GAP).sum::<f64>()
                + lefts[panel.column];
            let y = drawing.height + caption + heading;
            drawing.grid(index, &panel.grid, &surrounds[index], &sizes, (x, y), base);
        }
        drawing.height += caption + heading + cells + notes + if row + 1 < rows { GAP } else { MARGIN };
    }
    drawing.width = drawing.width.ceil();
    drawing.height = drawing.height.ceil();
    drawing
}

/// The maximum over the chosen panels.
fn over(scene: &Scene, chosen: impl Fn(usize) -> bool, of: &dyn Fn(usize) -> f64) -> f64 {
    (0..scene.panels.len()).filter(|&panel| chosen(panel)).map(of).fold(0.0, f64::max)
}

impl Drawing {
    fn title(&mut self, title: &str) {
        let characters = ((self.width - 2.0 * MARGIN) / (ADVANCE * TITLE_SIZE)) as usize;
        for line in wrap(title, characters.max(MIN_CHARACTERS)) {
            let y = self.height + TITLE_SIZE * LINE / 2.0;
            self.width = self.width.max(width_of(&line, TITLE_SIZE) + 2.0 * MARGIN);
            self.text(line, MARGIN, y, TITLE_SIZE, Anchor::Start, Tone::Title);
            self.height += TITLE_SIZE * LINE;
        }
        self.height += 8.0;
    }

    fn text(&mut self, text: String, x: f64, y: f64, size: f64, anchor: Anchor, tone: Tone) {
        self.texts.push(PlacedText { text, x, y, size, anchor, tone, turned: false });
    }

    /// Draws a grid whose cells start at (`left`, `top`).
    fn grid(
        &mut self,
        panel: usize,
        grid: &Grid,
        around: &Surround,
        sizes: &Sizes,
        (left, top): (f64, f64),
        base: i64,
    ) {
        let caption_line = CAPTION_SIZE * LINE;
        let mut y = top - around.heading - around.caption_height() + caption_line / 2.0;
        for line in &around.caption {
            self.text(line.clone(), left, y, CAPTION_SIZE, Anchor::Start, Tone::Strong);
            y += caption_line;
        }
        for (column, heading) in grid.columns().iter().enumerate() {
            let x = left + (column as f64 + 0.5) * sizes.cell_width;
            let mut y = top - 4.0 - HEADING_SIZE * LINE / 2.0;
            if let Some(coordinate) = &heading.coordinate {
                let mut text = PlacedText {
                    text: coordinate.clone(),
                    x,
                    y: top - 4.0 - COORDINATE_SIZE * LINE / 2.0,
                    size: COORDINATE_SIZE,
                    anchor: Anchor::Middle,
                    tone: Tone::Muted,
                    turned: around.turned,
                };
                if around.turned {
                    (text.y, text.anchor) = (top - 5.0, Anchor::Start);
                }
                self.texts.push(text);
                y = top - around.heading + HEADING_SIZE * LINE / 2.0;
            }
            self.text(heading.text(base), x, y, HEADING_SIZE, Anchor::Middle, Tone::Strong);
        }
        for (row, heading) in grid.rows().iter().enumerate() {
            let y = top + (row as f64 + 0.5) * sizes.cell_height;
            let mut x = left - 6.0;
            if let Some(coordinate) = &heading.coordinate {
                self.text(coordinate.clone(), x, y, COORDINATE_SIZE, Anchor::End, Tone::Muted);
                let widest = grid.rows().iter().filter_map(|h| h.coordinate.as_ref());
                x -= widest.map(|c| width_of(c, COORDINATE_SIZE)).fold(0.0, f64::max) + 6.0;
            }
            self.text(heading.text(base), x, y, HEADING_SIZE, Anchor::End, Tone::Strong);
        }
        for row in 0..grid.rows().len() {
            for column in 0..grid.columns().len() {
                let x = left + column as f64 * sizes.cell_width;
                let y = top + row as f64 * sizes.cell_height;
                let place = CellPlace { panel, row, column, x, y };
                let cell = placed(place, grid.cell(row, column), sizes, base);
                self.cells.push(cell);
            }
        }
        let mut y = top + grid.rows().len() as f64 * sizes.cell_height + 6.0 + caption_line / 2.0;
        for line in &around.notes {
            self.text(line.clone(), left, y, CAPTION_SIZE, Anchor::Start, Tone::Muted);
            y += caption_line;
        }
    }
}

/// A cell's indices, and its corner in the picture.
struct CellPlace {
    panel: usize,
    row: usize,
    column: usize,
    x: f64,
    y: f64,
}

fn placed(at: CellPlace, cell: &Cell, sizes: &Sizes, base: i64) -> PlacedCell {
    let CellPlace { panel, row, column, x, y } = at;
    let lines = cell.label.lines(base);
    let middle = y + sizes.cell_height / 2.0;
    let first = middle - (lines.len() as f64 - 1.0) / 2.0 * sizes.font * LINE;
    let line = |(index, text): (usize, String)| PlacedText {
        text,
        x: x + sizes.cell_width / 2.0,
        y: first + index as f64 * sizes.font * LINE,
        size: sizes.font,
        anchor: Anchor::Middle,
        tone: Tone::Strong,
        turned: false,
    };
    PlacedCell {
        panel,
        row,
        column,
        x,
        y,
        width: sizes.cell_width,
        height: sizes.cell_height,
        fill: cell.fill,
        mark: cell.mark,
        label: cell.label.clone(),
        lines: lines.into_iter().enumerate().map(line).collect(),
    }
}
