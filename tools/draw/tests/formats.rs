//! Properties of every picture in every format.

use super::common::{FORMATS, cells, class, number, parsed, scenes, svg};
use moye_device::layout::Layout;
use moye_draw::{self as draw, Colours, Fill, Format, Heading, Label, Mark, Scene, Style, Theme};
use proptest::prelude::*;
use roxmltree::{Document, Node};
use std::collections::BTreeSet;
use std::path::Path;

fn styles() -> Vec<Style> {
    let mut styles = Vec::new();
    for theme in [Theme::Auto, Theme::Light, Theme::Dark] {
        for (colours, width) in
            [(Colours::None, None), (Colours::Fixed256, Some(1)), (Colours::True, Some(60))]
        {
            for one_based in [false, true] {
                styles.push(Style { theme, colours, width, one_based });
            }
        }
    }
    styles
}

#[test]
fn every_renderer_draws_every_kind() {
    for (name, scene) in scenes() {
        for style in styles() {
            for format in FORMATS {
                let text = scene.render(format, &style);
                assert!(text.ends_with('\n'), "{name} as {format:?} ends without a line break");
                let base = i64::from(style.one_based);
                let cells = scene.panels.iter().flat_map(|panel| panel.grid.cells());
                let labels: BTreeSet<_> = cells.flat_map(|cell| cell.label.lines(base)).collect();
                for label in labels.into_iter().step_by(7) {
                    assert!(text.contains(&label), "{name} as {format:?} lacks the label {label}");
                }
            }
        }
    }
}

#[test]
fn svg_is_well_formed_and_says_what_it_shows() {
    for (name, scene) in scenes() {
        let text = svg(&scene);
        let document = Document::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let root = document.root_element();
        assert_eq!(root.attribute("role"), Some("img"), "{name}");
        let first = root.first_element_child().expect("it has children");
        assert!(first.has_tag_name("title"), "{name}: the title comes first, so that readers speak it");
        assert_eq!(first.text(), Some(scene.title.as_str()), "{name}");
        let count: usize = scene.panels.iter().map(|panel| panel.grid.cells().len()).sum();
        assert_eq!(cells(&document).count(), count, "{name}: every cell once");
    }
}

#[test]
fn each_cell_of_an_svg_is_that_of_the_scene() {
    for (name, scene) in scenes() {
        let text = svg(&scene);
        let document = Document::parse(&text).unwrap();
        for node in cells(&document) {
            let place = |name| node.attribute(name).unwrap().parse::<usize>().unwrap();
            let (panel, row, column) = (place("data-panel"), place("data-row"), place("data-column"));
            let cell = scene.panels[panel].grid.cell(row, column);
            let fill = match cell.fill {
                Fill::None => "plain".to_owned(),
                Fill::Category(index) => format!("c{index}"),
                Fill::Ramp(step) => format!("r{step}"),
            };
            let mark = match cell.mark {
                Mark::None => "",
                Mark::Accessed => " accessed",
                Mark::Conflict => " conflict",
            };
            let rect = node.children().find(|node| node.has_tag_name("rect")).unwrap();
            assert_eq!(class(rect), format!("{fill}{mark}"), "{name}: {row}, {column}");
            let lines = node.children().filter(|node| node.has_tag_name("text"));
            let lines: Vec<_> = lines.filter_map(|node| node.text()).collect();
            assert_eq!(lines, cell.label.lines(0), "{name}: {row}, {column}");
            let thread = match cell.label {
                Label::ThreadValue { thread, .. } | Label::Bank { thread: Some((thread, _)), .. } => {
                    Some(thread)
                }
                _ => None,
            };
            let said = node.attribute("data-thread").map(|thread| thread.parse().unwrap());
            assert_eq!(said, thread, "{name}: {row}, {column}");
        }
    }
}

#[test]
fn headings_stand_beside_their_rows_and_above_their_columns() {
    for (name, scene) in scenes() {
        let text = svg(&scene);
        let document = Document::parse(&text).unwrap();
        let outside = document.root_element().children().filter(|node| node.has_tag_name("text"));
        let outside: Vec<_> = outside.collect();
        // Whether `text` is outside the cells at a position (x, y) for which `at` holds.
        let stands = |text: &str, at: &dyn Fn(f64, f64) -> bool| {
            let stands =
                |node: &&Node| node.text() == Some(text) && at(number(**node, "x"), number(**node, "y"));
            outside.iter().any(|node| stands(&node))
        };
        for (panel, grid) in scene.panels.iter().map(|panel| &panel.grid).enumerate() {
            let room = |row: usize, column: usize| {
                let place = [panel, row, column].map(|index| index.to_string());
                let is = |node: &Node| {
                    let names = ["data-panel", "data-row", "data-column"];
                    names.iter().zip(&place).all(|(name, index)| node.attribute(*name) == Some(index))
                };
                let cell = cells(&document).find(is).expect("the cell is there");
                let rect = cell.children().find(|node| node.has_tag_name("rect")).unwrap();
                ["x", "y", "width", "height"].map(|name| number(rect, name))
            };
            let said = |heading: &Heading| [Some(heading.text(0)), heading.coordinate.clone()];
            for (row, heading) in grid.rows().iter().enumerate() {
                let [left, top, _, height] = room(row, 0);
                for text in said(heading).into_iter().flatten() {
                    let beside = |x, y| x < left && y > top && y < top + height;
                    assert!(stands(&text, &beside), "{name}: {text} of row {row}");
                }
            }
            for (column, heading) in grid.columns().iter().enumerate() {
                let [left, top, width, _] = room(0, column);
                for text in said(heading).into_iter().flatten() {
                    let above = |x, y| y < top && x > left && x < left + width;
                    assert!(stands(&text, &above), "{name}: {text} of column {column}");
                }
            }
            for text in grid.notes.iter().chain([&grid.caption, &scene.title]) {
                let words: Vec<_> = text.split_whitespace().collect();
                let has = |word: &&&str| {
                    outside.iter().any(|node| node.text().is_some_and(|said| said.contains(**word)))
                };
                let lacks = words.iter().find(|word| word.len() < 20 && !has(word));
                assert_eq!(lacks, None, "{name}: {text}");
            }
        }
    }
}

#[test]
fn only_the_automatic_theme_asks_for_dark_pages() {
    let scene = super::common::thread_value();
    let render = |theme| scene.render(Format::Svg, &Style { theme, ..Style::default() });
    assert!(render(Theme::Auto).contains("prefers-color-scheme"));
    assert!(!render(Theme::Light).contains("prefers-color-scheme"));
    assert!(!render(Theme::Dark).contains("prefers-color-scheme"));
    assert_ne!(render(Theme::Light), render(Theme::Dark));
}

#[test]
fn a_table_without_colours_has_no_escape_codes_and_one_with_them_the_same_text() {
    for (name, scene) in scenes() {
        let plain = scene.render(Format::Table, &Style::default());
        assert!(!plain.contains('\x1b'), "{name}");
        for colours in [Colours::Fixed256, Colours::True] {
            let coloured = scene.render(Format::Table, &Style { colours, ..Style::default() });
            let stripped = anstream::adapter::strip_str(&coloured).to_string();
            assert_eq!(stripped, plain, "{name}: colours change nothing but colours");
        }
    }
}

#[test]
fn no_line_of_a_table_is_wider_than_the_terminal() {
    for (name, scene) in scenes() {
        for width in [40, 60, 80, 120, 200] {
            let table = scene.render(Format::Table, &Style { width: Some(width), ..Style::default() });
            for line in table.lines() {
                let used = line.chars().count();
                assert!(used <= width, "{name} at {width} has a line of {used}: {line}");
            }
        }
    }
}

#[test]
fn a_broken_table_holds_every_column_once() {
    let scene = draw::layout(&parsed("(2,50):(50,1)")).unwrap();
    let table = scene.render(Format::Table, &Style { width: Some(40), ..Style::default() });
    for index in 0..100 {
        let count = table.matches(&format!(" {index} │")).count();
        assert_eq!(count, 1, "index {index} in\n{table}");
    }
}

#[test]
fn formats_follow_from_suffixes() {
    let format = |name: &str| Format::of_path(Path::new(name));
    assert_eq!(format("a.svg").unwrap(), Format::Svg);
    assert_eq!(format("a.b/c.TEX").unwrap(), Format::Tikz);
    assert_eq!(format("c.typ").unwrap(), Format::Typst);
    assert_eq!(format("c.txt").unwrap(), Format::MoYe);
    for name in ["c.pdf", "svg", ".svg", "c."] {
        let error = format(name).unwrap_err().to_string();
        assert!(error.contains("--format") && error.contains(name), "{error}");
    }
}

#[test]
fn tex_and_typst_escape_what_is_special_there() {
    let scene = Scene {
        title: "a_b #1 $x$ 50% {&} \\ ^~ \"q\"".to_owned(),
        description: "two\nlines".to_owned(),
        panels: Vec::new(),
    };
    let tex = scene.render(Format::Tikz, &Style::default());
    assert!(
        tex.contains(
            r#"a\_b \#1 \$x\$ 50\% \{\&\} \textbackslash{} \textasciicircum{}\textasciitilde{} "q""#
        )
    );
    assert!(tex.starts_with("% two lines\n"), "a line break would end the comment");
    let typ = scene.render(Format::Typst, &Style::default());
    assert!(typ.contains(r#""a_b #1 $x$ 50% {&} \\ ^~ \"q\"""#));
}

/// Layouts of rank up to 4, some modes nested, with strides of either sign.
fn layouts() -> impl Strategy<Value = Layout> {
    let leaf =
        || (1..=5i64, -40..=40i64).prop_map(|(extent, stride)| (extent.to_string(), stride.to_string()));
    let tuple = |parts: Vec<(String, String)>| {
        let (shape, stride): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        (format!("({})", shape.join(",")), format!("({})", stride.join(",")))
    };
    let mode =
        prop_oneof![3 => leaf().boxed(), 1 => prop::collection::vec(leaf(), 0..3).prop_map(tuple).boxed()];
    let whole =
        prop_oneof![1 => leaf().boxed(), 8 => prop::collection::vec(mode, 0..5).prop_map(tuple).boxed()];
    whole
        .prop_map(|(shape, stride)| parsed(&format!("{shape}:{stride}")))
        .prop_filter("a picture holds at most MAX_CELLS cells", |layout| layout.size() <= draw::MAX_CELLS)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_cell_carries_the_layouts_index(layout in layouts()) {
        let scene = draw::layout(&layout).unwrap();
        let grid = &scene.panels[0].grid;
        let rows = grid.rows().len();
        prop_assert_eq!((rows * grid.columns().len()) as i64, layout.size());
        for (row, row_heading) in grid.rows().iter().enumerate() {
            for (column, heading) in grid.columns().iter().enumerate() {
                let wanted = layout.at((column * rows + row) as i64);
                prop_assert_eq!(&grid.cell(row, column).label, &Label::Index(wanted));
                if layout.rank() == 2 {
                    prop_assert_eq!(layout.at_coord([row_heading.index, heading.index]), wanted);
                }
            }
        }
    }

    #[test]
    fn hierarchical_headings_are_coordinates_of_their_index(layout in layouts()) {
        let scene = draw::layout(&layout).unwrap();
        let grid = &scene.panels[0].grid;
        for heading in grid.columns().iter().filter(|_| layout.rank() == 2) {
            if let Some(text) = &heading.coordinate {
                let coordinate = moye_device::layout::IntTuple::parse(text).unwrap();
                let mode = layout.mode(1);
                let index = moye_device::layout::crd2idx(mode, coordinate);
                prop_assert_eq!(index, mode.at(heading.index), "{} of {}", text, layout);
            }
        }
    }

    #[test]
    fn svg_cells_carry_the_scenes_indices(layout in layouts()) {
        let scene = draw::layout(&layout).unwrap();
        let text = svg(&scene);
        let document = Document::parse(&text).unwrap();
        for cell in cells(&document) {
            let place = |name| cell.attribute(name).unwrap().parse::<usize>().unwrap();
            let (row, column) = (place("data-row"), place("data-column"));
            let index: i64 = cell.attribute("data-index").unwrap().parse().unwrap();
            prop_assert_eq!(&scene.panels[0].grid.cell(row, column).label, &Label::Index(index));
            let said: String = cell.descendants().filter(|node| node.is_text()).filter_map(|n| n.text()).collect();
            prop_assert_eq!(said.trim(), index.to_string());
        }
    }

    #[test]
    fn no_layout_text_and_no_layout_makes_a_renderer_panic(
        shape in prop::collection::vec(1..=60i64, 0..4),
        stride in any::<i64>(),
    ) {
        let text = |parts: &[i64]| format!("({})", parts.iter().map(i64::to_string).collect::<Vec<_>>().join(","));
        let strides = vec![stride; shape.len()];
        let Ok(layout) = Layout::parse(&format!("{}:{}", text(&shape), text(&strides))) else { return Ok(()) };
        let Ok(scene) = draw::layout(&layout) else {
            prop_assert!(layout.size() > draw::MAX_CELLS);
            return Ok(());
        };
        if layout.size() <= 1000 {
            for format in FORMATS {
                let text = scene.render(format, &Style { one_based: true, width: Some(80), ..Style::default() });
                prop_assert!(!text.is_empty());
            }
        }
    }
}
