//! The output of `print_layout` in MoYe and CuTe: a table of `+---+` and `|` after a line with the
//! layout.
//!
//! The two differ only in the space that Julia prints after a comma. A column is as wide as the
//! digits of the layout's cosize; it is wider for larger column indices, negative indices and other
//! labels, where the originals are misaligned.

use super::format::Style;
use super::scene::{Grid, Scene};
use std::fmt::Write;

/// The spacing of a layout's notation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Spaces {
    /// `(4, 2):(1, 4)`, as Julia does.
    AfterCommas,
    /// `(4,2):(1,4)`, as C++ does.
    None,
}

pub fn print_layout(scene: &Scene, style: &Style, spaces: Spaces) -> String {
    let spaced = |text: &str| match spaces {
        Spaces::AfterCommas => text.replace(", ", ",").replace(',', ", "),
        Spaces::None => text.to_owned(),
    };
    let mut text = spaced(&scene.title);
    text.push('\n');
    for panel in &scene.panels {
        if scene.panels.len() > 1 {
            text.push('\n');
        }
        if !panel.grid.caption.is_empty() {
            text.push_str(&spaced(&panel.grid.caption));
            text.push('\n');
        }
        grid(&mut text, &panel.grid, style.base());
        for note in &panel.grid.notes {
            text.push_str(note);
            text.push('\n');
        }
    }
    text
}

fn grid(text: &mut String, grid: &Grid, base: i64) {
    let labels: Vec<_> = grid.cells().iter().map(|cell| cell.label.lines(base).join(" ")).collect();
    let columns: Vec<_> = grid.columns().iter().map(|heading| heading.text(base)).collect();
    let rows: Vec<_> = grid.rows().iter().map(|heading| heading.text(base)).collect();
    let digits = grid.cosize.map_or(0, |cosize| cosize.to_string().len());
    let width = labels.iter().chain(&columns).map(String::len).max().unwrap_or(0).max(digits);
    let margin = rows.iter().map(String::len).max().unwrap_or(0).max(2);
    let rule = format!("{:margin$}  {}+\n", "", format!("+{:-<1$}", "", width + 2).repeat(columns.len()));

    let _ = write!(text, "{:margin$}  ", "");
    for column in &columns {
        let _ = write!(text, "  {column:>width$} ");
    }
    text.push('\n');
    for (row, labels) in rows.iter().zip(labels.chunks(columns.len().max(1))) {
        text.push_str(&rule);
        let _ = write!(text, "{row:>margin$}  ");
        for label in labels {
            let _ = write!(text, "| {label:>width$} ");
        }
        text.push_str("|\n");
    }
    text.push_str(&rule);
}
