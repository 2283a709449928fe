//! Literals have the same meaning for the parser of layouts and in expressions.

use moye_device::layout::{ComposedLayout, Layout, LayoutError, try_make_col_major};
use moye_eval::{EvalError, Value, evaluate};

/// The lines of `tests/fixtures/data/notation.txt`: an input, and its meaning.
fn lines() -> Vec<(String, String)> {
    let package = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| ".".to_owned());
    let path = format!("{package}/../../tests/fixtures/data/notation.txt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pair = |line: &str| {
        let (given, expected) = line.split_once(" => ").unwrap_or_else(|| panic!("{line:?}"));
        (given.to_owned(), expected.to_owned())
    };
    lines.map(pair).collect()
}

fn parsed(text: &str) -> Result<String, LayoutError> {
    if text.trim_start().starts_with('S') {
        text.parse::<ComposedLayout>().map(|layout| layout.to_string())
    } else {
        text.parse::<Layout>().map(|layout| layout.to_string())
    }
}

#[test]
fn the_parser_of_layouts_reads_each_line() {
    let lines = lines();
    assert!(lines.len() > 50, "{}", lines.len());
    for (text, expected) in lines {
        let got = parsed(&text).unwrap_or_else(|error| match error.column() {
            Some(column) => format!("column {column}"),
            None => panic!("{text:?}: {error}"),
        });
        assert_eq!(got, expected, "{text:?}");
    }
}

#[test]
fn expressions_read_each_line_alike() {
    for (text, expected) in lines() {
        let got = match evaluate(&text) {
            // A shape alone, where a layout is required.
            Ok(Value::Tuple(shape)) => match try_make_col_major(shape) {
                Ok(layout) => layout.to_string(),
                Err(error) => panic!("{text:?}: {error}"),
            },
            Ok(value) => value.to_string(),
            Err(EvalError::At { column, .. }) => format!("column {column}"),
            Err(error) => panic!("{text:?}: {error}"),
        };
        assert_eq!(got, expected, "{text:?}");
    }
}

/// An input that parses but is invalid has the same reason in both.
#[test]
fn a_misfit_has_the_same_reason_in_an_expression() {
    let mut seen = 0;
    for (text, _) in lines() {
        if let (Err(error), Err(EvalError::At { reason, .. })) = (parsed(&text), evaluate(&text))
            && !error.text().contains("expected")
        {
            assert_eq!(Some(reason.as_str()), error.reason(), "{text:?}");
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen}");
}
