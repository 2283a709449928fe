//! Tables of box-drawing characters for the terminal.
//!
//! Panels are placed as in the picture if the line is wide enough, otherwise stacked. A
//! grid that is wider than the line is broken between columns into several tables, each with its
//! headings.

use super::format::{Colours, Style};
use super::geometry::wrap;
use super::palette::LIGHT;
use super::scene::{Cell, Fill, Grid, Heading, Mark, Scene};
use anstyle::{Color, Style as Ansi};

/// The space between panels, in characters.
const GAP: usize = 4;

pub fn table(scene: &Scene, style: &Style) -> String {
    let limit = style.width.unwrap_or(usize::MAX);
    let joined = Sizes::of(scene, style, Stacking::Joined);
    let widest = scene.panels.iter().map(|panel| joined.width(panel.grid.columns().len())).max();
    let sizes =
        if widest.unwrap_or(0) <= limit { joined } else { Sizes::of(scene, style, Stacking::Stacked) };

    let mut lines = wrap(&scene.title, limit.clamp(20, 100));
    let rows = 1 + scene.panels.iter().map(|panel| panel.row).max().unwrap_or(0);
    let columns = 1 + scene.panels.iter().map(|panel| panel.column).max().unwrap_or(0);
    let whole: Vec<_> = scene.panels.iter().map(|panel| sizes.blocks(&panel.grid, usize::MAX)).collect();
    let width_of = |column: usize| {
        let blocks = scene.panels.iter().zip(&whole).filter(|(panel, _)| panel.column == column);
        blocks.flat_map(|(_, blocks)| blocks).map(Block::width).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width_of).collect();
    if widths.iter().sum::<usize>() + GAP * (columns - 1) <= limit {
        for row in 0..rows {
            let mut blocks: Vec<Option<&Block>> = vec![None; columns];
            for (panel, whole) in scene.panels.iter().zip(&whole).filter(|(panel, _)| panel.row == row) {
                blocks[panel.column] = whole.first();
            }
            lines.extend(beside(&blocks, &widths));
        }
    } else {
        for panel in &scene.panels {
            for block in sizes.blocks(&panel.grid, limit) {
                lines.extend(block.lines.into_iter().map(|line| line.text));
            }
        }
    }
    lines.extend(marks(scene));
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The legend of the marks after labels, if there are any.
fn marks(scene: &Scene) -> Option<String> {
    let mut marks = scene.panels.iter().flat_map(|panel| panel.grid.cells()).map(|cell| cell.mark);
    marks.any(|mark| mark != Mark::None).then(|| "* accessed, ! accessed with a conflict".to_owned())
}

/// Blocks side by side, with their cells starting on one line.
fn beside(blocks: &[Option<&Block>], widths: &[usize]) -> Vec<String> {
    let head = blocks.iter().flatten().map(|block| block.head).max().unwrap_or(0);
    let height =
        blocks.iter().flatten().map(|block| head - block.head + block.lines.len()).max().unwrap_or(0);
    let line = |index: usize| {
        let mut text = String::new();
        for (block, width) in blocks.iter().zip(widths) {
            let line = block.and_then(|block| {
                index.checked_sub(head - block.head).and_then(|index| block.lines.get(index))
            });
            let (part, used) = line.map_or(("", 0), |line| (&line.text, line.width));
            text.push_str(part);
            text.extend(std::iter::repeat_n(' ', width - used + GAP));
        }
        text
    };
    (0..height).map(line).collect()
}

/// A line with escape codes, and its displayed width.
struct Line {
    text: String,
    width: usize,
}

impl Line {
    fn plain(text: String) -> Self {
        Self { width: text.chars().count(), text }
    }
}

/// A grid in lines.
struct Block {
    lines: Vec<Line>,
    /// The number of lines before the cells.
    head: usize,
}

impl Block {
    fn width(&self) -> usize {
        self.lines.iter().map(|line| line.width).max().unwrap_or(0)
    }
}

/// The arrangement of a label's lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stacking {
    /// Side by side.
    Joined,
    /// Stacked.
    Stacked,
}

/// Style and sizes of all grids of a picture.
struct Sizes<'a> {
    style: &'a Style,
    stacking: Stacking,
    /// The width and height of a cell, in characters.
    cell: usize,
    height: usize,
    /// The width of a row's index and of its hierarchical coordinate.
    index: usize,
    coordinate: usize,
}

impl<'a> Sizes<'a> {
    fn of(scene: &Scene, style: &'a Style, stacking: Stacking) -> Self {
        let mut sizes = Self { style, stacking, cell: 1, height: 1, index: 1, coordinate: 0 };
        for grid in scene.panels.iter().map(|panel| &panel.grid) {
            for cell in grid.cells() {
                let lines = sizes.lines(cell);
                sizes.height = sizes.height.max(lines.len());
                let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
                sizes.cell = sizes.cell.max(width);
            }
            for heading in grid.columns() {
                sizes.cell = sizes.cell.max(sizes.text(heading).len()).max(coordinate(heading).len());
            }
            for heading in grid.rows() {
                sizes.index = sizes.index.max(sizes.text(heading).len());
                sizes.coordinate = sizes.coordinate.max(coordinate(heading).len());
            }
        }
        sizes
    }

    fn text(&self, heading: &Heading) -> String {
        heading.text(self.style.base())
    }

    /// A cell's label; `*` stands for a strong border and `!` for a filled corner.
    fn lines(&self, cell: &Cell) -> Vec<String> {
        let mut lines = cell.label.lines(self.style.base());
        if self.stacking == Stacking::Joined {
            lines = vec![lines.join(" ")];
        }
        let mark = match cell.mark {
            Mark::None => "",
            Mark::Accessed => "*",
            Mark::Conflict => "!",
        };
        if let Some(first) = lines.first_mut() {
            first.push_str(mark);
        }
        lines
    }

    /// The width left of the cells.
    fn margin(&self) -> usize {
        self.index + if self.coordinate == 0 { 0 } else { self.coordinate + 1 } + 1
    }

    fn width(&self, columns: usize) -> usize {
        self.margin() + 1 + columns * (self.cell + 3)
    }

    /// A grid, in several blocks if it is wider than `limit`.
    fn blocks(&self, grid: &Grid, limit: usize) -> Vec<Block> {
        let columns = grid.columns().len();
        let fit = (limit.saturating_sub(self.margin() + 1) / (self.cell + 3)).max(1);
        let mut blocks: Vec<_> = (0..columns.max(1))
            .step_by(fit)
            .map(|first| self.block(grid, first, columns.min(first.saturating_add(fit))))
            .collect();
        if let Some(first) = blocks.first_mut()
            && !grid.caption.is_empty()
        {
            let caption = self.paragraph(&grid.caption, first.width(), limit);
            first.head += caption.len();
            first.lines.splice(0..0, caption);
        }
        if let Some(last) = blocks.last_mut() {
            let width = last.width();
            for note in &grid.notes {
                last.lines.extend(self.paragraph(note, width, limit));
            }
        }
        blocks
    }

    fn paragraph(&self, text: &str, width: usize, limit: usize) -> Vec<Line> {
        wrap(text, width.max(60).min(limit).max(20)).into_iter().map(Line::plain).collect()
    }

    /// The columns from `first` up to `end`, exclusive.
    fn block(&self, grid: &Grid, first: usize, end: usize) -> Block {
        let columns = &grid.columns()[first..end];
        let margin = self.margin();
        let heads = |of: &dyn Fn(&Heading) -> String| {
            let texts = columns.iter().map(|heading| format!(" {:^1$}  ", of(heading), self.cell));
            Line::plain(format!("{:margin$} {}", "", texts.collect::<String>()))
        };
        let rule = |left: char, middle: char, right: char| {
            let parts = vec!["─".repeat(self.cell + 2); columns.len()];
            Line::plain(format!("{:margin$}{left}{}{right}", "", parts.join(&middle.to_string())))
        };
        let mut lines = vec![heads(&|heading| self.text(heading))];
        if columns.iter().any(|heading| heading.coordinate.is_some()) {
            lines.push(heads(&|heading| coordinate(heading).to_owned()));
        }
        lines.push(rule('┌', '┬', '┐'));
        let head = lines.len();
        for (row, heading) in grid.rows().iter().enumerate() {
            if row > 0 && self.height > 1 {
                lines.push(rule('├', '┼', '┤'));
            }
            for part in 0..self.height {
                let cells = (first..end).map(|column| self.part(grid.cell(row, column), part));
                let cells: String = cells.map(|cell| format!("│{cell}")).collect();
                let heading = if part == 0 { self.row_heading(heading) } else { " ".repeat(margin) };
                let width = self.width(columns.len());
                lines.push(Line { text: format!("{heading}{cells}│"), width });
            }
        }
        lines.push(rule('└', '┴', '┘'));
        Block { lines, head }
    }

    fn row_heading(&self, heading: &Heading) -> String {
        let index = format!("{:>1$} ", self.text(heading), self.index);
        if self.coordinate == 0 {
            return index;
        }
        format!("{index}{:>1$} ", coordinate(heading), self.coordinate)
    }

    /// One line of a cell.
    fn part(&self, cell: &Cell, part: usize) -> String {
        let lines = self.lines(cell);
        let text = format!(" {:>1$} ", lines.get(part).map_or("", String::as_str), self.cell);
        let ansi = self.ansi(cell);
        format!("{ansi}{text}{ansi:#}")
    }

    fn ansi(&self, cell: &Cell) -> Ansi {
        if self.style.colours == Colours::None || cell.fill == Fill::None {
            return Ansi::new();
        }
        let colour = |rgb: super::palette::Rgb| {
            let rgb = anstyle::RgbColor(rgb.red, rgb.green, rgb.blue);
            match self.style.colours {
                Colours::True => Color::Rgb(rgb),
                _ => Color::Ansi256(anstyle_lossy::rgb_to_xterm(rgb)),
            }
        };
        let ansi =
            Ansi::new().fg_color(Some(colour(LIGHT.ink))).bg_color(Some(colour(LIGHT.fill(cell.fill))));
        if cell.mark == Mark::None { ansi } else { ansi.bold() }
    }
}

fn coordinate(heading: &Heading) -> &str {
    heading.coordinate.as_deref().unwrap_or_default()
}
