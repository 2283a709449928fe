//! Typst: a document whose page is the picture.

use super::format::{Style, Theme};
use super::geometry::{Anchor, Bounds, CORNER, PlacedCell, PlacedText, Tone, place};
use super::palette::{DARK, LIGHT, Palette};
use super::scene::{Mark, Scene};
use std::fmt::Write;

/// The functions that the calls below use; lengths are in CSS pixels.
const FUNCTIONS: &str = "\
#set text(font: \"DejaVu Sans Mono\", top-edge: \"cap-height\", bottom-edge: \"baseline\")
#set par(leading: 0pt)
#let px(x) = x * 0.75pt
#let at(x, y, body) = place(top + left, dx: px(x), dy: px(y), body)
#let cell(x, y, w, h, fill, stroke: line) = at(x, y, rect(
  width: px(w), height: px(h), fill: rgb(fill), stroke: stroke,
))
#let corner(x, y, s, fill) = at(x, y, polygon(fill: rgb(fill), (0pt, 0pt), (px(s), 0pt), (px(s), px(s))))
#let label(x, y, w, h, side, size, fill, weight, turn, body) = at(x, y, rotate(turn, box(
  width: px(w), height: px(h),
  align(side + horizon, text(size: px(size), fill: rgb(fill), weight: weight, body)),
)))
";

pub fn typst(scene: &Scene, style: &Style) -> String {
    let drawing = place(scene, style.base());
    let palette = if style.theme == Theme::Dark { &DARK } else { &LIGHT };
    let mut typ = format!("// {}\n", scene.description.replace('\n', " "));
    let _ = writeln!(
        typ,
        "#set document(title: {})\n#set page(width: {}pt, height: {}pt, margin: 0pt, fill: rgb(\"{}\"))",
        quoted(&scene.title),
        drawing.width * 0.75,
        drawing.height * 0.75,
        palette.page
    );
    let _ = writeln!(
        typ,
        "#let line = 0.6pt + rgb(\"{}\")\n#let strong = 2.2pt + rgb(\"{}\")",
        palette.line, palette.ink
    );
    typ.push_str(FUNCTIONS);
    for cell in drawing.cells.iter().filter(|cell| cell.mark == Mark::None) {
        draw_cell(&mut typ, cell, palette);
    }
    for cell in drawing.cells.iter().filter(|cell| cell.mark != Mark::None) {
        draw_cell(&mut typ, cell, palette);
    }
    for text in &drawing.texts {
        draw_text(&mut typ, text, palette);
    }
    typ
}

fn draw_cell(typ: &mut String, cell: &PlacedCell, palette: &Palette) {
    let (stroke, inset) = if cell.mark == Mark::None { ("", 0.0) } else { (", stroke: strong", 1.5) };
    let _ = writeln!(
        typ,
        "#cell({:.2}, {:.2}, {:.2}, {:.2}, \"{}\"{stroke})",
        cell.x + inset,
        cell.y + inset,
        cell.width - 2.0 * inset,
        cell.height - 2.0 * inset,
        palette.fill(cell.fill)
    );
    if cell.mark == Mark::Conflict {
        let (x, y) = (cell.x + cell.width - inset - CORNER, cell.y + inset);
        let _ = writeln!(typ, "#corner({x:.2}, {y:.2}, {CORNER}, \"{}\")", palette.conflict);
    }
    for line in &cell.lines {
        draw_text(typ, line, palette);
    }
}

fn draw_text(typ: &mut String, text: &PlacedText, palette: &Palette) {
    let Bounds { left, top, right, bottom } = text.bounds();
    let (colour, weight) = match text.tone {
        Tone::Strong => (palette.ink, "regular"),
        Tone::Muted => (palette.muted, "regular"),
        Tone::Title => (palette.ink, "bold"),
    };
    let side = match text.anchor {
        Anchor::Start => "left",
        Anchor::Middle => "center",
        Anchor::End => "right",
    };
    // A rotated box is placed before it is rotated about its centre.
    let (x, y) = ((left + right) / 2.0, (top + bottom) / 2.0);
    let (width, height) =
        if text.turned { (bottom - top, right - left) } else { (right - left, bottom - top) };
    let _ = writeln!(
        typ,
        "#label({:.2}, {:.2}, {width:.2}, {height:.2}, {side}, {}, \"{colour}\", \"{weight}\", {}deg, {})",
        x - width / 2.0,
        y - height / 2.0,
        text.size,
        if text.turned { -90 } else { 0 },
        quoted(&text.text)
    );
}

/// The text as a string literal.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
