//! Layout: no text is clipped or covers another.

use super::common::{cells, class, number, parsed, scenes, svg};
use moye_draw::{self as draw, Scene};
use roxmltree::{Document, Node};

/// Wider than a letter in DejaVu Sans Mono (0.602), Liberation Mono and Courier (0.6), Menlo
/// (0.602), Consolas (0.55).
const ADVANCE: f64 = 0.61;

/// Left, top, right, bottom.
type Bounds = (f64, f64, f64, f64);

fn bounds(node: Node) -> Bounds {
    let size = number(node, "font-size");
    let width = node.text().unwrap_or_default().chars().count() as f64 * ADVANCE * size;
    let (x, y) = (number(node, "x"), number(node, "y"));
    let left = match class(node) {
        class if class.contains("middle") => -width / 2.0,
        class if class.contains("end") => -width,
        _ => 0.0,
    };
    // Capitals and brackets extend from 0.8 above the baseline to 0.2 below it.
    if let Some(turn) = node.attribute("transform") {
        let middle = y - 0.35 * size;
        assert_eq!(
            turn,
            format!("rotate(-90 {x} {})", (middle * 100.0).round() / 100.0),
            "turned about its middle"
        );
        return (x - 0.5 * size, middle - left - width, x + 0.5 * size, middle - left);
    }
    (x + left, y - 0.8 * size, x + left + width, y + 0.2 * size)
}

fn within(inner: Bounds, outer: Bounds) -> bool {
    const SLACK: f64 = 0.02;
    inner.0 >= outer.0 - SLACK
        && inner.1 >= outer.1 - SLACK
        && inner.2 <= outer.2 + SLACK
        && inner.3 <= outer.3 + SLACK
}

fn overlap(a: Bounds, b: Bounds) -> bool {
    a.0 < b.2 && b.0 < a.2 && a.1 < b.3 && b.1 < a.3
}

fn wide() -> Vec<(&'static str, Scene)> {
    let grid = |text| draw::layout(&parsed(text)).unwrap();
    let mut scenes = scenes();
    let column = parsed("(8,1):(1,0)");
    scenes.push(("conflicts", draw::banks(parsed("(8,8):(8,1)"), 64, Some(&column)).unwrap()));
    scenes.push(("large_numbers", grid("(2,3):(1000000000000,-999999999999)")));
    scenes.push(("deep", grid("((2,(2,(2,2))),(2,((3,2),2))):((1,(2,(4,8))),(16,((32,96),192)))")));
    scenes.push((
        "one_cell_long_title",
        grid("((1,1,1,1),(1,1,1,1),(1,1,1,1)):((0,0,0,0),(0,0,0,0),(0,0,0,0))"),
    ));
    scenes
}

#[test]
fn every_text_is_within_the_picture_and_every_label_within_its_cell() {
    for (name, scene) in wide() {
        let text = svg(&scene);
        let document = Document::parse(&text).unwrap();
        let root = document.root_element();
        let page = (0.0, 0.0, number(root, "width"), number(root, "height"));
        for node in document.descendants().filter(|node| node.has_tag_name("text")) {
            assert!(within(bounds(node), page), "{name}: {:?} is clipped", node.text());
        }
        for cell in cells(&document) {
            let rect = cell.children().find(|node| node.has_tag_name("rect")).unwrap();
            let (x, y) = (number(rect, "x"), number(rect, "y"));
            let room = (x, y, x + number(rect, "width"), y + number(rect, "height"));
            assert!(within(room, page), "{name}: a cell is clipped");
            for label in cell.children().filter(|node| node.has_tag_name("text")) {
                assert!(within(bounds(label), room), "{name}: {:?} leaves its cell", label.text());
                for corner in cell.children().filter(|node| node.has_tag_name("polygon")) {
                    let points = corner.attribute("points").unwrap();
                    let left: f64 = points.split(',').next().unwrap().parse().unwrap();
                    let clear = bounds(label).2 <= left;
                    assert!(clear, "{name}: {:?} runs into the corner at {left}", label.text());
                }
            }
        }
    }
}

#[test]
fn no_text_covers_another_or_cells_that_are_not_its_own() {
    for (name, scene) in wide().into_iter().filter(|(name, _)| *name != "thousand") {
        let text = svg(&scene);
        let document = Document::parse(&text).unwrap();
        let root = document.root_element();
        let outside: Vec<_> = root.children().filter(|node| node.has_tag_name("text")).collect();
        for (index, a) in outside.iter().enumerate() {
            for b in &outside[..index] {
                assert!(!overlap(bounds(*a), bounds(*b)), "{name}: {:?} covers {:?}", a.text(), b.text());
            }
            for cell in cells(&document) {
                let rect = cell.children().find(|node| node.has_tag_name("rect")).unwrap();
                let (x, y) = (number(rect, "x"), number(rect, "y"));
                let room = (x, y, x + number(rect, "width"), y + number(rect, "height"));
                assert!(!overlap(bounds(*a), room), "{name}: {:?} covers a cell", a.text());
            }
        }
    }
}

#[test]
fn cells_of_panels_side_by_side_stand_in_line() {
    let text = svg(&super::common::mma());
    let document = Document::parse(&text).unwrap();
    let place = |panel: &str, row: &str, column: &str| {
        let cell = cells(&document).find(|cell| {
            [("data-panel", panel), ("data-row", row), ("data-column", column)]
                .iter()
                .all(|(name, value)| cell.attribute(*name) == Some(value))
        });
        let rect = cell.unwrap().children().find(|node| node.has_tag_name("rect")).unwrap();
        (number(rect, "x"), number(rect, "y"))
    };
    assert_eq!(place("1", "5", "0").1, place("2", "5", "0").1, "row m of A and of C");
    assert_eq!(place("0", "0", "6").0, place("2", "0", "6").0, "column n of B and of C");
}
