//! The pictures' structure, and the text forms to the letter, against files in `tests/data`.
//! After a change that is meant, `UPDATE_EXPECT=1 cargo test -p moye-draw --test draw` writes them
//! anew.

use super::common::{cells, class, scenes, svg};
use expect_test::{ExpectFile, expect_file};
use moye_draw::{Format, Style};
use roxmltree::Document;
use std::fmt::Write;

fn file(name: &str) -> ExpectFile {
    expect_file![format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))]
}

const TEXT: [&str; 8] =
    ["row_major", "nested", "rank_0", "rank_1", "negative", "broadcast", "thread_value", "swizzle"];

#[test]
fn print_layout_is_cutes_to_the_letter() {
    for (name, scene) in scenes().into_iter().filter(|(name, _)| TEXT.contains(name)) {
        file(&format!("{name}.cute.txt")).assert_eq(&scene.render(Format::CuTe, &Style::default()));
    }
}

#[test]
fn print_layout_is_moyes_to_the_letter_from_0_and_from_1() {
    for (name, scene) in scenes().into_iter().filter(|(name, _)| TEXT.contains(name)) {
        file(&format!("{name}.moye.txt")).assert_eq(&scene.render(Format::MoYe, &Style::default()));
        let style = Style { one_based: true, ..Style::default() };
        file(&format!("{name}.moye_from_1.txt")).assert_eq(&scene.render(Format::MoYe, &style));
    }
}

#[test]
fn terminal_tables_are_as_they_were() {
    for (name, scene) in scenes().into_iter().filter(|(name, _)| *name != "thousand") {
        let style = Style { width: Some(80), ..Style::default() };
        file(&format!("{name}.table.txt")).assert_eq(&scene.render(Format::Table, &style));
    }
}

#[test]
fn svg_pictures_have_the_structure_that_they_had() {
    for (name, scene) in scenes().into_iter().filter(|(name, _)| *name != "thousand") {
        let svg = svg(&scene);
        file(&format!("{name}.svg.txt")).assert_eq(&structure(&Document::parse(&svg).unwrap()));
    }
}

/// Titles and captions, then a line for each cell: panel, row, column, classes and label.
fn structure(document: &Document) -> String {
    let mut text = String::new();
    for tag in ["title", "desc"] {
        let node =
            document.descendants().find(|node| node.has_tag_name(tag)).expect("it has a title and desc");
        let _ = writeln!(text, "{tag}: {}", node.text().unwrap_or_default());
    }
    let plain = document.root_element().children().filter(|node| node.has_tag_name("text"));
    for node in plain {
        let _ = writeln!(text, "{}: {}", class(node), node.text().unwrap_or_default());
    }
    for cell in cells(document) {
        let attribute = |name| cell.attribute(name).unwrap_or("?");
        let rect = cell.children().find(|node| node.has_tag_name("rect")).expect("a cell is a rectangle");
        let lines: Vec<_> = cell.children().filter_map(|node| node.text()).map(str::trim).collect();
        let lines: Vec<_> = lines.into_iter().filter(|line| !line.is_empty()).collect();
        let _ = writeln!(
            text,
            "{} {} {} [{}] {}",
            attribute("data-panel"),
            attribute("data-row"),
            attribute("data-column"),
            class(rect),
            lines.join(" ")
        );
    }
    text
}
