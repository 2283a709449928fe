//! TikZ and Typst: the same cells and texts in the same places as in SVG, in documents that are
//! whole; and where a compiler for them is installed, that it takes every kind.

use super::common::{cells, number, parsed, scenes, svg};
use expect_test::expect_file;
use moye_draw::{Format, Scene, Style, Theme};
use roxmltree::Document;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Left, top, width, height in hundredths of a pixel.
type Place = [i64; 4];

fn hundredths(value: f64) -> i64 {
    (value * 100.0).round() as i64
}

/// The numbers in `text`, in order.
fn numbers(text: &str) -> Vec<f64> {
    text.split(|letter: char| !(letter.is_ascii_digit() || matches!(letter, '.' | '-')))
        .filter_map(|word| word.parse().ok())
        .collect()
}

fn place(numbers: &[f64]) -> Place {
    let [x, y, width, height] = numbers else { panic!("four numbers: {numbers:?}") };
    [*x, *y, *width, *height].map(hundredths)
}

/// The cells and the texts of a picture, sorted.
#[derive(Debug, PartialEq)]
struct Drawn {
    cells: Vec<Place>,
    texts: Vec<String>,
}

impl Drawn {
    fn sorted(mut cells: Vec<Place>, mut texts: Vec<String>) -> Self {
        cells.sort_unstable();
        texts.sort_unstable();
        Self { cells, texts }
    }

    fn of_svg(text: &str) -> Self {
        let document = Document::parse(text).unwrap();
        let rect = |cell: roxmltree::Node| {
            let rect = cell.children().find(|node| node.has_tag_name("rect")).unwrap();
            place(&["x", "y", "width", "height"].map(|name| number(rect, name)))
        };
        let texts = document.descendants().filter(|node| node.has_tag_name("text"));
        Self::sorted(
            cells(&document).map(rect).collect(),
            texts.map(|node| node.text().unwrap_or_default().to_owned()).collect(),
        )
    }

    fn of_tikz(tex: &str) -> Self {
        let mut cells = Vec::new();
        let mut texts = Vec::new();
        for line in tex.lines() {
            if let Some(rest) = line.strip_prefix("\\path[") {
                let (_, at) = rest.split_once("] ").expect("options end");
                cells.push(place(&numbers(at)));
            } else if let Some(rest) = line.strip_prefix("\\node[") {
                let (_, at) = rest.split_once("] at (").expect("a node has its place");
                let (at, text) = at.split_once(") {").expect("a node has its text");
                assert_eq!(numbers(at).len(), 2, "{line}");
                texts.push(untexed(text.strip_suffix("};").expect("a node ends")));
            }
        }
        Self::sorted(cells, texts)
    }

    fn of_typst(typ: &str) -> Self {
        let mut cells = Vec::new();
        let mut texts = Vec::new();
        for line in typ.lines() {
            if let Some(rest) = line.strip_prefix("#cell(") {
                cells.push(place(&numbers(rest.split_once('"').expect("a colour").0)));
            } else if let Some(rest) = line.strip_prefix("#label(") {
                let (at, text) = rest.split_once("deg, ").expect("a turn");
                assert_eq!(numbers(at.split_once(", \"").unwrap().0).len(), 5, "{line}");
                let text = text.strip_prefix('"').and_then(|text| text.strip_suffix("\")")).expect("a text");
                texts.push(text.replace("\\\"", "\"").replace("\\\\", "\\"));
            }
        }
        Self::sorted(cells, texts)
    }
}

/// The text that TeX prints.
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
fn tikz_and_typst_draw_the_cells_and_texts_that_svg_does() {
    for (name, scene) in scenes() {
        let expected = Drawn::of_svg(&svg(&scene));
        for theme in [Theme::Light, Theme::Dark] {
            assert_eq!(Drawn::of_tikz(&rendered(&scene, Format::Tikz, theme)), expected, "{name} in TikZ");
            assert_eq!(Drawn::of_typst(&rendered(&scene, Format::Typst, theme)), expected, "{name} in Typst");
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

/// Whole documents, to the letter: what they begin with, and each kind of cell and text.
#[test]
fn documents_are_as_they_were() {
    const WHOLE: [&str; 8] = [
        "nested",
        "nested_coordinates",
        "thread_value",
        "uncovered",
        "tiled_copy",
        "mma",
        "swizzle",
        "banks_64",
    ];
    for (name, scene) in scenes().into_iter().filter(|(name, _)| WHOLE.contains(name)) {
        for (format, suffix) in [(Format::Tikz, "tex"), (Format::Typst, "typ")] {
            let file = format!("{}/tests/data/{name}.{suffix}.txt", env!("CARGO_MANIFEST_DIR"));
            expect_file![file].assert_eq(&scene.render(format, &Style::default()));
        }
    }
}

/// The kinds, and what TeX and Typst might take for their own.
fn to_compile() -> Vec<(&'static str, Scene)> {
    let mut scenes: Vec<_> = scenes().into_iter().filter(|(name, _)| *name != "thousand").collect();
    let mut odd = moye_draw::layout(&parsed("(2,2):(2,1)")).unwrap();
    odd.title = "a_b #1 $x$ 50% {&} \\ ^~ \"q\" <3> @x /*y*/ //z".to_owned();
    scenes.push(("special_characters", odd));
    scenes
}

/// Whether a program is there: otherwise one line says what is left out.
fn runs(program: &str, arguments: &[&str], what: &str) -> bool {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let runs = status.is_ok_and(|status| status.success());
    if !runs {
        // Not `eprintln!`, whose words a test that passes keeps to itself.
        let _ = writeln!(std::io::stderr(), "{what} is not compiled: there is no {program}");
    }
    runs
}

/// Compiles the pictures in a folder of their own by a command line for each file, and looks for
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
