//! TikZ and Typst: the same cells and texts at the same positions and in the same colours as in
//! SVG, in complete documents; and, if a compiler for them is installed, that it accepts every
//! kind.

use super::common::{cells, class, number, parsed, scenes};
use moye_draw::{Format, Scene, Style, Theme};
use roxmltree::Document;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// The numbers in `text`, in order.
fn numbers(text: &str) -> Vec<f64> {
    text.split(|letter: char| !(letter.is_ascii_digit() || matches!(letter, '.' | '-')))
        .filter_map(|word| word.parse().ok())
        .collect()
}

/// A cell: left, top, width, height; or a corner: left, top, and its side twice.
#[derive(Debug)]
struct Shape {
    place: [f64; 4],
    colour: String,
    /// Whether the border is a strong one.
    marked: bool,
}

#[derive(Debug)]
struct Text {
    text: String,
    /// The anchor, at the middle of the line.
    at: [f64; 2],
    side: Side,
    size: f64,
    colour: String,
    bold: bool,
    turned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Left,
    Middle,
    Right,
}

/// The elements of a picture, in drawing order.
#[derive(Debug, Default)]
struct Drawn {
    page: Vec<f64>,
    cells: Vec<Shape>,
    corners: Vec<Shape>,
    texts: Vec<Text>,
}

/// The colours of an SVG picture's classes.
fn style_sheet(document: &Document) -> BTreeMap<String, String> {
    let css = document.descendants().find(|node| node.has_tag_name("style")).unwrap().text().unwrap();
    let rule = |line: &str| {
        let (classes, colour) = line.strip_suffix('}')?.split_once("{fill:#")?;
        Some((classes.to_owned(), colour.to_owned()))
    };
    css.lines()
        .filter_map(rule)
        .flat_map(|(classes, colour)| {
            let classes: Vec<_> = classes.split(',').map(|class| class.replace(".moye .", "")).collect();
            classes.into_iter().map(move |class| (class, colour.clone()))
        })
        .collect()
}

impl Drawn {
    fn of_svg(text: &str) -> Self {
        let document = Document::parse(text).unwrap();
        let colours = style_sheet(&document);
        let words = |node| class(node).split(' ').collect::<Vec<_>>();
        let root = document.root_element();
        let mut drawn = Self { page: vec![number(root, "width"), number(root, "height")], ..Self::default() };
        for cell in cells(&document) {
            let rect = cell.children().find(|node| node.has_tag_name("rect")).unwrap();
            drawn.cells.push(Shape {
                place: ["x", "y", "width", "height"].map(|name| number(rect, name)),
                colour: colours[words(rect)[0]].clone(),
                marked: words(rect).len() > 1,
            });
            for corner in cell.children().filter(|node| node.has_tag_name("polygon")) {
                let points = numbers(corner.attribute("points").unwrap());
                let [left, top, right, _, _, bottom] = points[..] else { panic!("{points:?}") };
                let place = [left, top, right - left, bottom - top];
                drawn.corners.push(Shape { place, colour: colours["corner"].clone(), marked: false });
            }
        }
        for node in document.descendants().filter(|node| node.has_tag_name("text")) {
            let (size, words) = (number(node, "font-size"), words(node));
            drawn.texts.push(Text {
                text: node.text().unwrap_or_default().to_owned(),
                at: [number(node, "x"), number(node, "y") - 0.35 * size],
                side: match words.get(1) {
                    Some(&"middle") => Side::Middle,
                    Some(&"end") => Side::Right,
                    _ => Side::Left,
                },
                size,
                colour: colours[words[0]].clone(),
                bold: words[0] == "title",
                turned: node.has_attribute("transform"),
            });
        }
        drawn
    }

    fn of_tikz(tex: &str) -> Self {
        let mut drawn = Self::default();
        let mut colours = BTreeMap::new();
        for line in tex.lines() {
            if let Some(rest) = line.strip_prefix("\\definecolor{") {
                let (name, value) = rest.split_once("}{HTML}{").expect("a colour has its value");
                colours.insert(name.to_owned(), value.trim_end_matches('}').to_lowercase());
            } else if let Some(rest) = line.strip_prefix("\\fill[mpage] (0,0) rectangle ") {
                drawn.page = numbers(rest);
            } else if let Some(rest) = line.strip_prefix("\\path[") {
                let (options, at) = rest.split_once("] ").expect("options end");
                let (style, fill) = options.split_once(",fill=").expect("a cell is filled");
                drawn.cells.push(Shape {
                    place: numbers(at).try_into().expect("four numbers"),
                    colour: colours[fill].clone(),
                    marked: style == "marked",
                });
            } else if let Some(rest) = line.strip_prefix("\\fill[mconflict] ") {
                let points = numbers(&rest.replace(" -- ", " "));
                let [left, top, right, _, _, bottom] = points[..] else { panic!("{line}") };
                let place = [left, top, right - left, bottom - top];
                drawn.corners.push(Shape { place, colour: colours["mconflict"].clone(), marked: false });
            } else if let Some(rest) = line.strip_prefix("\\node[text of=") {
                let (options, at) = rest.split_once("] at (").expect("a node has its place");
                let (at, text) = at.split_once(") {").expect("a node has its text");
                let options: Vec<_> = options.split(',').collect();
                let size = options[0].parse::<f64>().unwrap() / 0.75;
                let turned = options.contains(&"rotate=90");
                let (x, y) = (numbers(at)[0], numbers(at)[1]);
                drawn.texts.push(Text {
                    text: untexed(text.strip_suffix("};").expect("a node ends")),
                    at: if turned { [x - 0.35 * size, y] } else { [x, y - 0.35 * size] },
                    side: match options[2] {
                        "anchor=base west" => Side::Left,
                        "anchor=base" => Side::Middle,
                        "anchor=base east" => Side::Right,
                        other => panic!("{other}"),
                    },
                    size,
                    colour: colours[options[1].strip_prefix("text=").expect("a colour")].clone(),
                    bold: text.starts_with("\\bfseries "),
                    turned,
                });
            }
        }
        drawn
    }

    fn of_typst(typ: &str) -> Self {
        let mut drawn = Self::default();
        for line in typ.lines() {
            let colour = || line.split('"').nth(1).expect("a colour").to_owned();
            if let Some(rest) = line.strip_prefix("#set page(") {
                drawn.page = numbers(rest)[..2].iter().map(|length| length / 0.75).collect();
            } else if let Some(rest) = line.strip_prefix("#cell(") {
                let place =
                    numbers(rest.split_once('"').expect("a colour").0).try_into().expect("four numbers");
                drawn.cells.push(Shape {
                    place,
                    colour: colour(),
                    marked: rest.ends_with(", stroke: strong)"),
                });
            } else if let Some(rest) = line.strip_prefix("#corner(") {
                let [left, top, side] = numbers(rest.split_once('"').expect("a colour").0)[..] else {
                    panic!("{line}")
                };
                drawn.corners.push(Shape { place: [left, top, side, side], colour: colour(), marked: false });
            } else if let Some(rest) = line.strip_prefix("#label(") {
                let (at, text) = rest.split_once("deg, ").expect("a turn");
                let [x, y, width, height, size] = numbers(at.split_once(", \"").unwrap().0)[..] else {
                    panic!("{line}")
                };
                let text = text.strip_prefix('"').and_then(|text| text.strip_suffix("\")")).expect("a text");
                let side = [(", left,", Side::Left), (", center,", Side::Middle), (", right,", Side::Right)];
                let side = side.into_iter().find(|(word, _)| at.contains(word)).expect("a side").1;
                let turned = at.ends_with(", -90");
                // The anchor is at this distance from the middle of the box, which is rotated about
                // the anchor.
                let along = match side {
                    Side::Left => -0.5 * width,
                    Side::Middle => 0.0,
                    Side::Right => 0.5 * width,
                };
                let middle = [x + 0.5 * width, y + 0.5 * height];
                drawn.texts.push(Text {
                    text: text.replace("\\\"", "\"").replace("\\\\", "\\"),
                    at: if turned { [middle[0], middle[1] - along] } else { [middle[0] + along, middle[1]] },
                    side,
                    size,
                    colour: colour(),
                    bold: at.contains("\"bold\""),
                    turned,
                });
            }
        }
        drawn
    }

    /// Asserts that another format draws the same picture. Formats round to hundredths.
    fn assert_is(&self, other: &Self, what: &str) {
        let close =
            |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 0.03);
        assert!(close(&self.page, &other.page), "{what}: the page is {:?}", other.page);
        for (ours, theirs) in [(&self.cells, &other.cells), (&self.corners, &other.corners)] {
            assert_eq!(ours.len(), theirs.len(), "{what}");
            for (a, b) in ours.iter().zip(theirs) {
                let same = close(&a.place, &b.place) && a.colour == b.colour && a.marked == b.marked;
                assert!(same, "{what}: {b:?}, in SVG {a:?}");
            }
        }
        assert_eq!(self.texts.len(), other.texts.len(), "{what}");
        for (a, b) in self.texts.iter().zip(&other.texts) {
            let same = close(&a.at, &b.at)
                && close(&[a.size], &[b.size])
                && (&a.text, a.side, &a.colour) == (&b.text, b.side, &b.colour)
                && (a.bold, a.turned) == (b.bold, b.turned);
            assert!(same, "{what}: {b:?}, in SVG {a:?}");
        }
    }
}

/// The characters that TeX prints for `tex`.
fn untexed(tex: &str) -> String {
    let mut text = tex.strip_prefix("\\bfseries ").unwrap_or(tex).to_owned();
    for (command, letter) in [("\\textless{}", "<"), ("\\textgreater{}", ">"), ("\\_", "_"), ("\\%", "%")] {
        text = text.replace(command, letter);
    }
    text
}

fn rendered(scene: &Scene, format: Format, theme: Theme) -> String {
    scene.render(format, &Style { theme, ..Style::default() })
}

#[test]
fn tikz_and_typst_draw_what_svg_does() {
    for (name, scene) in scenes() {
        for theme in [Theme::Light, Theme::Dark] {
            let expected = Drawn::of_svg(&rendered(&scene, Format::Svg, theme));
            assert!(!expected.cells.is_empty() && !expected.texts.is_empty(), "{name}");
            let formats = [Format::Tikz, Format::Typst].map(|format| rendered(&scene, format, theme));
            expected.assert_is(&Drawn::of_tikz(&formats[0]), &format!("{name} in TikZ, {theme:?}"));
            expected.assert_is(&Drawn::of_typst(&formats[1]), &format!("{name} in Typst, {theme:?}"));
        }
    }
}

#[test]
fn tikz_is_whole() {
    for (name, scene) in scenes() {
        let tex = rendered(&scene, Format::Tikz, Theme::Light);
        let mut open = Vec::new();
        let mut depth = 0i32;
        let mut defined = vec!["mpage".to_owned()];
        for line in tex.lines().filter(|line| !line.starts_with('%')) {
            let plain = line.replace("\\{", "").replace("\\}", "");
            depth += plain.matches('{').count() as i32 - plain.matches('}').count() as i32;
            assert!(depth >= 0, "{name}: {line}");
            for (start, end) in [("\\path", ";"), ("\\node", ";"), ("\\fill", ";")] {
                assert!(!line.starts_with(start) || line.ends_with(end), "{name}: {line}");
            }
            let argument = |command: &str| {
                line.strip_prefix(command)
                    .and_then(|rest| rest.split_once('}'))
                    .map(|(word, _)| word.to_owned())
            };
            open.extend(argument("\\begin{"));
            defined.extend(argument("\\definecolor{"));
            if let Some(closed) = argument("\\end{") {
                assert_eq!(open.pop(), Some(closed), "{name}");
            }
            if let Some((_, fill)) = line.split_once("fill=") {
                let fill = fill.split([',', ']']).next().unwrap();
                assert!(defined.iter().any(|colour| colour == fill), "{name}: {fill} is no colour");
            }
        }
        assert_eq!((depth, open.len()), (0, 0), "{name} is closed");
    }
}

#[test]
fn typst_is_whole() {
    for (name, scene) in scenes() {
        let typ = rendered(&scene, Format::Typst, Theme::Light);
        let mut depth = 0i32;
        let mut within = false;
        for line in typ.lines().filter(|line| !line.starts_with("//")) {
            let mut escaped = false;
            for letter in line.chars() {
                match letter {
                    _ if escaped => escaped = false,
                    '\\' => escaped = within,
                    '"' => within = !within,
                    '(' if !within => depth += 1,
                    ')' if !within => depth -= 1,
                    _ => {}
                }
                assert!(depth >= 0, "{name}: {line}");
            }
            assert!(!within, "{name}: a text ends on its line: {line}");
        }
        assert_eq!(depth, 0, "{name} is closed");
    }
}

/// All kinds, and characters that are special in TeX and Typst.
fn to_compile() -> Vec<(&'static str, Scene)> {
    let mut scenes: Vec<_> = scenes().into_iter().filter(|(name, _)| *name != "thousand").collect();
    let mut odd = moye_draw::layout(&parsed("(2,2):(2,1)")).unwrap();
    odd.title = "a_b #1 $x$ 50% {&} \\ ^~ \"q\" <3> @x /*y*/ //z".to_owned();
    scenes.push(("special_characters", odd));
    scenes
}

/// Whether a program is installed: otherwise prints a line about what is skipped.
fn runs(program: &str, arguments: &[&str], what: &str) -> bool {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let runs = status.is_ok_and(|status| status.success());
    if !runs {
        // Not `eprintln!`, whose output is hidden if the test passes.
        let _ = writeln!(std::io::stderr(), "{what} is not compiled: there is no {program}");
    }
    runs
}

/// Compiles the pictures in a separate folder, with a command line for each file, and checks for
/// the pages.
fn compiled(format: Format, suffix: &str, command: impl Fn(&str) -> Command) {
    let folder = tempfile::tempdir().unwrap();
    for (name, scene) in to_compile() {
        for (theme, shade) in [(Theme::Light, "light"), (Theme::Dark, "dark")] {
            let stem = format!("{name}_{shade}");
            std::fs::write(folder.path().join(format!("{stem}.{suffix}")), rendered(&scene, format, theme))
                .unwrap();
            let output = command(&stem).current_dir(&folder).stdin(Stdio::null()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{stem}: {said}");
            for bad in ["Overfull", "LaTeX Warning", "Missing character", "warning:"] {
                assert!(!said.contains(bad), "{stem}: {said}");
            }
            let pdf = std::fs::read(folder.path().join(format!("{stem}.pdf"))).unwrap();
            assert!(pdf.starts_with(b"%PDF"), "{stem}");
        }
    }
}

#[test]
fn latex_takes_every_picture() {
    if runs("kpsewhich", &["standalone.cls", "tikz.sty", "lmodern.sty"], "TikZ")
        && runs("pdflatex", &["--version"], "TikZ")
    {
        compiled(Format::Tikz, "tex", |stem| {
            let mut latex = Command::new("pdflatex");
            latex.args(["-interaction=nonstopmode", "-halt-on-error", &format!("{stem}.tex")]);
            latex
        });
    }
}

#[test]
fn typst_takes_every_picture() {
    const MODULE: &str =
        "import sys, typst; typst.compile(sys.argv[1] + '.typ', output=sys.argv[1] + '.pdf')";
    if runs("typst", &["--version"], "Typst") {
        compiled(Format::Typst, "typ", |stem| {
            let mut typst = Command::new("typst");
            typst.args(["compile", &format!("{stem}.typ"), &format!("{stem}.pdf")]);
            typst
        });
    } else if runs("python3", &["-c", "import typst"], "Typst by its Python module") {
        compiled(Format::Typst, "typ", |stem| {
            let mut python = Command::new("python3");
            python.args(["-c", MODULE, stem]);
            python
        });
    }
}
