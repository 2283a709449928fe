//! SVG: cells as rectangles with text, coloured by a style sheet for light and dark pages.

use super::format::{Style, Theme};
use super::geometry::{Anchor, CORNER, Drawing, PlacedCell, PlacedText, Tone, place};
use super::palette::{DARK, LIGHT, Palette};
use super::scene::{Fill, Label, Mark, Scene};
use std::collections::BTreeSet;
use std::fmt::Write;
use svg::node::element::{Description, Element, Group, Polygon, Rectangle, Title};
use svg::{Document, Node};

/// Every cell is a `<g class="cell">` with `data-panel`, `data-row`, `data-column` and its contents
/// (`data-index`, `data-thread` and `data-value`, ...), so that scripts can find it.
pub fn svg(scene: &Scene, style: &Style) -> String {
    let drawing = place(scene, style.base());
    let (width, height) = (drawing.width, drawing.height);
    let mut document = Document::new()
        .set("class", "moye")
        .set("role", "img")
        .set("width", width)
        .set("height", height)
        .set("viewBox", (0, 0, width, height))
        .add(Title::new(&scene.title))
        .add(Description::new().add(svg::node::Text::new(&scene.description)))
        .add(svg::node::element::Style::new(style_sheet(&drawing, style.theme)))
        .add(Rectangle::new().set("class", "page").set("width", width).set("height", height));
    for cell in drawing.cells.iter().filter(|cell| cell.mark == Mark::None) {
        document = document.add(group(cell));
    }
    // Strong borders are drawn over their neighbours' thin ones.
    for cell in drawing.cells.iter().filter(|cell| cell.mark != Mark::None) {
        document = document.add(group(cell));
    }
    for text in &drawing.texts {
        document = document.add(line(text));
    }
    format!("{document}\n")
}

fn group(cell: &PlacedCell) -> Group {
    let mut group = Group::new()
        .set("class", "cell")
        .set("data-panel", cell.panel)
        .set("data-row", cell.row)
        .set("data-column", cell.column);
    match &cell.label {
        Label::Empty => {}
        Label::Index(index) => group = group.set("data-index", *index),
        Label::Coordinate(coordinate) => {
            // Without the outer brackets.
            let text = coordinate.to_string();
            let parts = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
            group = group.set("data-coordinate", parts.unwrap_or(&text));
        }
        Label::ThreadValue { thread, value, .. } => {
            group = group.set("data-thread", *thread).set("data-value", *value);
        }
        Label::Bank { first, thread, .. } => {
            group = group.set("data-bank", *first);
            if let Some((thread, _)) = thread {
                group = group.set("data-thread", *thread);
            }
        }
    }
    let mark = match cell.mark {
        Mark::None => "",
        Mark::Accessed => " accessed",
        Mark::Conflict => " conflict",
    };
    // A strong border is within its cell.
    let inset = if cell.mark == Mark::None { 0.0 } else { 1.5 };
    group = group.add(
        Rectangle::new()
            .set("class", format!("{}{mark}", class(cell.fill)))
            .set("x", cell.x + inset)
            .set("y", cell.y + inset)
            .set("width", cell.width - 2.0 * inset)
            .set("height", cell.height - 2.0 * inset),
    );
    if cell.mark == Mark::Conflict {
        let (x, y) = (cell.x + cell.width - 1.5, cell.y + 1.5);
        let corner = [(x - CORNER, y), (x, y), (x, y + CORNER)].map(|(x, y)| format!("{x},{y}")).join(" ");
        group = group.add(Polygon::new().set("class", "corner").set("points", corner));
    }
    cell.lines.iter().fold(group, |group, text| group.add(line(text)))
}

fn line(text: &PlacedText) -> Element {
    let mut classes = vec![match text.tone {
        Tone::Strong => "strong",
        Tone::Muted => "muted",
        Tone::Title => "title",
    }];
    match text.anchor {
        Anchor::Start => {}
        Anchor::Middle => classes.push("middle"),
        Anchor::End => classes.push("end"),
    }
    // The crate's `Text` adds line breaks around its content, which some viewers show as spaces.
    let mut node = Element::new("text");
    node.assign("class", classes.join(" "));
    node.assign("x", rounded(text.x));
    node.assign("y", rounded(text.baseline()));
    node.assign("font-size", text.size);
    if text.turned {
        node.assign("transform", format!("rotate(-90 {} {})", rounded(text.x), rounded(text.y)));
    }
    node.append(svg::node::Text::new(&text.text));
    node
}

fn rounded(length: f64) -> f64 {
    (length * 100.0).round() / 100.0
}

/// The class of a fill.
fn class(fill: Fill) -> String {
    match fill {
        Fill::None => "plain".to_owned(),
        Fill::Category(index) => format!("c{index}"),
        Fill::Ramp(step) => format!("r{step}"),
    }
}

fn style_sheet(drawing: &Drawing, theme: Theme) -> String {
    let fills: BTreeSet<_> = drawing.cells.iter().map(|cell| cell.fill).collect();
    let mut css = String::from(
        "\n.moye text{font-family:ui-monospace,\"DejaVu Sans Mono\",\"Liberation Mono\",Menlo,Consolas,monospace}\n.moye .middle{text-anchor:middle}\n.moye .end{text-anchor:end}\n\
         .moye .title{font-weight:bold}\n.moye .accessed,.moye .conflict{stroke-width:3}\n",
    );
    let mut rules = |palette: &Palette| {
        let Palette { page, ink, muted, line, conflict, .. } = palette;
        let _ = writeln!(css, ".moye .page{{fill:#{page}}}");
        let _ = writeln!(css, ".moye .strong,.moye .title{{fill:#{ink}}}");
        let _ = writeln!(css, ".moye .muted{{fill:#{muted}}}");
        let _ = writeln!(css, ".moye .cell rect{{stroke:#{line}}}");
        let _ = writeln!(css, ".moye .cell .accessed,.moye .cell .conflict{{stroke:#{ink};stroke-width:3}}");
        let _ = writeln!(css, ".moye .corner{{fill:#{conflict}}}");
        for fill in &fills {
            let _ = writeln!(css, ".moye .{}{{fill:#{}}}", class(*fill), palette.fill(*fill));
        }
        std::mem::take(&mut css)
    };
    match theme {
        Theme::Light => rules(&LIGHT),
        Theme::Dark => rules(&DARK),
        Theme::Auto => {
            let light = rules(&LIGHT);
            format!("{light}@media (prefers-color-scheme:dark){{\n{}}}\n", rules(&DARK))
        }
    }
}
