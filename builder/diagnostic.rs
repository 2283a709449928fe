//! rustc's errors in device code, with their source lines.

use crate::nested;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

/// An error of the compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Its message.
    pub message: String,
    /// Its code, such as `E0308`, if it has one.
    pub code: Option<String>,
    /// The lines of the crate that it names; the line with the error is the first. Empty if it
    /// names none, as for an error in a dependency.
    pub places: Vec<Place>,
    /// The message as rustc prints it.
    pub rendered: String,
}

/// A position in a source file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file, as an absolute path.
    pub file: PathBuf,
    /// Its line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
}

impl Diagnostic {
    /// The errors in the output of a cargo that compiled the crate in the folder `krate`. rustc
    /// names files relative to the workspace's folder.
    pub(crate) fn all(output: &Output, krate: &Path, workspace: &Path) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for message in nested::messages(output) {
            let Some(rendered) = nested::rendered(&message) else { continue };
            let error = &message["message"];
            let text = error["message"].as_str().unwrap_or_default();
            let mut places = Vec::new();
            places_of(error, &mut |name, line, column| {
                let file = workspace.join(name);
                let place = Place { file: fs::canonicalize(&file).unwrap_or(file), line, column };
                if place.file.starts_with(krate) && !places.contains(&place) {
                    places.push(place);
                }
            });
            match (error["level"].as_str(), all.last_mut()) {
                // A separate note of rustc names the line that instantiates the generic code.
                (Some("note"), Some(last)) => {
                    places.retain(|place| !last.places.contains(place));
                    last.places.append(&mut places);
                    // rustc prints this error for each use of the failed constant.
                    if text != "erroneous constant encountered" {
                        last.rendered = format!("{}\n\n{}", last.rendered, rendered.trim_end());
                    }
                }
                (Some("error"), _) if !text.starts_with("aborting due to") => all.push(Self {
                    message: text.to_owned(),
                    code: error["code"]["code"].as_str().map(str::to_owned),
                    places,
                    rendered: rendered.trim_end().to_owned(),
                }),
                _ => {}
            }
        }
        // Several instances of a kernel have the same error.
        let mut seen: Vec<Self> = Vec::new();
        for error in all {
            if !seen.iter().any(|known| known.message == error.message && known.places == error.places) {
                seen.push(error);
            }
        }
        // The generic code that uses a failed constant repeats the error without a line.
        if seen.iter().any(|error| error.is_of_a_constant() && !error.places.is_empty()) {
            seen.retain(|error| !error.is_of_a_constant() || !error.places.is_empty());
        }
        seen
    }

    /// Whether only code generation finds the error, not `cargo check`: the evaluation of a
    /// constant of generic code, such as a check of layouts, fails.
    pub(crate) fn is_of_a_constant(&self) -> bool {
        self.code.as_deref() == Some("E0080")
    }

    /// The lines that a build script passes to cargo: the first error as rustc prints it, and the
    /// position and message of each further one.
    pub(crate) fn lines_of(all: &[Self], krate: &Path) -> Vec<String> {
        let Some((first, others)) = all.split_first() else { return Vec::new() };
        let mut lines = first.lines(krate);
        lines.extend(others.iter().filter_map(|other| other.lines(krate).into_iter().next()));
        lines
    }

    /// The position and the message, followed by the rest of rustc's output.
    fn lines(&self, krate: &Path) -> Vec<String> {
        let mut lines = self.rendered.lines();
        let first = lines.next().unwrap_or_default();
        let first = match self.places.first() {
            Some(place) => format!("{}: {first}", place.within(krate)),
            None => first.to_owned(),
        };
        std::iter::once(first).chain(lines.map(str::to_owned)).collect()
    }
}

impl Place {
    /// `src/lib.rs:12:30`, relative to the crate's folder.
    pub(crate) fn within(&self, krate: &Path) -> String {
        let file = self.file.strip_prefix(krate).unwrap_or(&self.file);
        format!("{}:{}:{}", file.display(), self.line, self.column)
    }
}

/// Calls `f` with the positions that a message names: its primary spans, its other spans, and the
/// spans of its notes. A span inside a macro stands for the outermost call of it.
fn places_of(message: &Value, f: &mut dyn FnMut(&str, usize, usize)) {
    let spans = || message["spans"].as_array().into_iter().flatten();
    let (primary, others): (Vec<_>, Vec<_>) = spans().partition(|span| span["is_primary"] == true);
    for mut span in primary.into_iter().chain(others) {
        while span["expansion"]["span"].is_object() {
            span = &span["expansion"]["span"];
        }
        let number = |name: &str| span[name].as_u64().unwrap_or_default() as usize;
        if let Some(file) = span["file_name"].as_str() {
            f(file, number("line_start"), number("column_start"));
        }
    }
    for note in message["children"].as_array().into_iter().flatten() {
        places_of(note, f);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use serde_json::json;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn span(file: &str, line: usize, is_primary: bool) -> Value {
        json!({"file_name": file, "line_start": line, "column_start": 5, "is_primary": is_primary})
    }

    #[test]
    fn an_error_has_the_crates_own_lines_with_those_of_its_notes() {
        let mut in_macro = span("/registry/library.rs", 7, true);
        in_macro["expansion"] = json!({"span": span("kernels/src/lib.rs", 3, false)});
        let error = json!({
            "reason": "compiler-message",
            "message": {
                "level": "error", "message": "mismatched", "code": {"code": "E0308"},
                "rendered": "error[E0308]: mismatched\n --> line\n",
                "spans": [span("kernels/src/other.rs", 9, false), in_macro],
                "children": [{"spans": [span("kernels/src/lib.rs", 12, true), span("dependency.rs", 1, true)]}],
            },
        });
        let note = json!({
            "reason": "compiler-message",
            "message": {
                "level": "note", "message": "the above error was encountered while instantiating `fn f`",
                "rendered": "note: the above error\n", "spans": [span("kernels/src/lib.rs", 20, true)],
            },
        });
        let use_of_it = json!({
            "reason": "compiler-message",
            "message": {
                "level": "note", "message": "erroneous constant encountered",
                "rendered": "note: erroneous constant encountered\n", "spans": [span("dependency.rs", 5, true)],
            },
        });
        let last = json!({
            "reason": "compiler-message",
            "message": {"level": "error", "message": "aborting due to 1 previous error", "rendered": "", "spans": []},
        });
        let output = Output {
            status: ExitStatus::from_raw(1),
            stdout: format!("{error}\n{use_of_it}\n{note}\n{last}\n").into_bytes(),
            stderr: Vec::new(),
        };
        let all = Diagnostic::all(&output, Path::new("/src/kernels"), Path::new("/src"));
        assert_eq!(all.len(), 1, "{all:?}");
        let places: Vec<_> =
            all[0].places.iter().map(|place| place.within(Path::new("/src/kernels"))).collect();
        assert_eq!(places, ["src/lib.rs:3:5", "src/other.rs:9:5", "src/lib.rs:12:5", "src/lib.rs:20:5"]);
        assert_eq!(
            all[0].lines(Path::new("/src/kernels")),
            ["src/lib.rs:3:5: error[E0308]: mismatched", " --> line", "", "note: the above error"]
        );
    }

    #[test]
    fn the_first_error_is_shown_whole_and_each_other_one_in_a_line() {
        let error = |line, message: &str| Diagnostic {
            message: message.into(),
            code: None,
            places: vec![Place { file: "/src/kernels/src/lib.rs".into(), line, column: 5 }],
            rendered: format!("error: {message}\n --> line\n  | text"),
        };
        let all = [error(3, "one"), error(7, "two"), error(9, "three")];
        assert_eq!(
            Diagnostic::lines_of(&all, Path::new("/src/kernels")),
            [
                "src/lib.rs:3:5: error: one",
                " --> line",
                "  | text",
                "src/lib.rs:7:5: error: two",
                "src/lib.rs:9:5: error: three"
            ]
        );
    }
}
