//! LaTeX: a document of class `standalone` with a TikZ picture, for `\includestandalone` or to
//! compile separately.

use super::format::{Style, Theme};
use super::geometry::{Anchor, CORNER, Drawing, PlacedCell, PlacedText, Tone, place};
use super::palette::{DARK, LIGHT};
use super::scene::{Fill, Mark, Scene};
use std::collections::BTreeSet;
use std::fmt::Write;

pub fn tikz(scene: &Scene, style: &Style) -> String {
    let drawing = place(scene, style.base());
    let mut tex = format!("% {}\n", scene.description.replace('\n', " "));
    tex.push_str(
        "\\documentclass[tikz,border=0pt]{standalone}\n\\usepackage[T1]{fontenc}\n\\usepackage{lmodern}\n",
    );
    colours(&mut tex, &drawing, style.theme);
    // Spaces after a colon or a full stop are as wide as others.
    tex.push_str(
        "\\frenchspacing\n\\begin{document}\n\\begin{tikzpicture}[x=0.75bp,y=-0.75bp,line width=0.6bp,\n",
    );
    tex.push_str("  cell/.style={draw=mline},marked/.style={draw=mink,line width=2.2bp},\n");
    tex.push_str(
        "  text of/.style={inner sep=0pt,outer sep=0pt,font=\\fontsize{#1}{#1}\\selectfont\\ttfamily}]\n",
    );
    let _ = writeln!(tex, "\\fill[mpage] (0,0) rectangle ({},{});", drawing.width, drawing.height);
    for cell in drawing.cells.iter().filter(|cell| cell.mark == Mark::None) {
        draw_cell(&mut tex, cell);
    }
    for cell in drawing.cells.iter().filter(|cell| cell.mark != Mark::None) {
        draw_cell(&mut tex, cell);
    }
    for text in &drawing.texts {
        draw_text(&mut tex, text);
    }
    tex.push_str("\\end{tikzpicture}\n\\end{document}\n");
    tex
}

fn colours(tex: &mut String, drawing: &Drawing, theme: Theme) {
    let palette = if theme == Theme::Dark { &DARK } else { &LIGHT };
    let named = [
        ("page", palette.page),
        ("ink", palette.ink),
        ("muted", palette.muted),
        ("line", palette.line),
        ("conflict", palette.conflict),
    ];
    for (name, colour) in named {
        let _ = writeln!(tex, "\\definecolor{{m{name}}}{{HTML}}{{{}}}", colour.to_string().to_uppercase());
    }
    let fills: BTreeSet<_> = drawing.cells.iter().map(|cell| cell.fill).collect();
    for fill in fills.into_iter().filter(|fill| *fill != Fill::None) {
        let colour = palette.fill(fill).to_string().to_uppercase();
        let _ = writeln!(tex, "\\definecolor{{{}}}{{HTML}}{{{colour}}}", name(fill));
    }
}

fn name(fill: Fill) -> String {
    match fill {
        Fill::None => "mpage".to_owned(),
        Fill::Category(index) => format!("c{index}"),
        Fill::Ramp(step) => format!("r{step}"),
    }
}

fn draw_cell(tex: &mut String, cell: &PlacedCell) {
    let (style, inset) = if cell.mark == Mark::None { ("cell", 0.0) } else { ("marked", 1.5) };
    let (x, y) = (cell.x + inset, cell.y + inset);
    let (width, height) = (cell.width - 2.0 * inset, cell.height - 2.0 * inset);
    let _ = writeln!(
        tex,
        "\\path[{style},fill={}] ({x:.2},{y:.2}) rectangle +({width:.2},{height:.2});",
        name(cell.fill)
    );
    if cell.mark == Mark::Conflict {
        let (x, y) = (cell.x + cell.width - inset, cell.y + inset);
        let _ = writeln!(
            tex,
            "\\fill[mconflict] ({:.2},{y:.2}) -- ({x:.2},{y:.2}) -- ({x:.2},{:.2}) -- cycle;",
            x - CORNER,
            y + CORNER
        );
    }
    for line in &cell.lines {
        draw_text(tex, line);
    }
}

fn draw_text(tex: &mut String, text: &PlacedText) {
    let anchor = match text.anchor {
        Anchor::Start => "base west",
        Anchor::Middle => "base",
        Anchor::End => "base east",
    };
    let (colour, weight) = match text.tone {
        Tone::Strong => ("mink", ""),
        Tone::Muted => ("mmuted", ""),
        Tone::Title => ("mink", "\\bfseries "),
    };
    let (x, y, turn) = if text.turned {
        (text.x + 0.35 * text.size, text.y, ",rotate=90")
    } else {
        (text.x, text.baseline(), "")
    };
    // 1 px is 0.75 bp; TeX's font sizes are in pt, which is slightly smaller and only leaves more
    // room.
    let _ = writeln!(
        tex,
        "\\node[text of={:.2},text={colour},anchor={anchor}{turn}] at ({x:.2},{y:.2}) {{{weight}{}}};",
        text.size * 0.75,
        escaped(&text.text)
    );
}

/// Text with TeX's special characters as commands.
fn escaped(text: &str) -> String {
    let mut tex = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '#' | '$' | '%' | '&' | '_' | '{' | '}' => tex.extend(['\\', letter]),
            '\\' => tex.push_str("\\textbackslash{}"),
            '~' => tex.push_str("\\textasciitilde{}"),
            '^' => tex.push_str("\\textasciicircum{}"),
            '<' => tex.push_str("\\textless{}"),
            '>' => tex.push_str("\\textgreater{}"),
            _ => tex.push(letter),
        }
    }
    tex
}
