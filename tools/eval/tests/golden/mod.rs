//! The lines of `tests/fixtures/data/golden` as requests. Their README defines when answers are
//! equal.

mod compare;
mod definition;

use std::collections::HashSet;
use std::fmt::{Display, Write as _};
use std::path::Path;

use compare::{holds, same_form, without_unit_strides};
use definition::{Function, values_of};
use serde_json::Value;

/// The lines of a file, and the answers to them.
fn asked(file: &str) -> Vec<(Value, Value)> {
    // A bundle for machines without cargo sets the variable too, and lacks the folder of the
    // compilation.
    let package =
        std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    let path = Path::new(&package).join("../../tests/fixtures/data/golden").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut requests = String::new();
    let mut lines = Vec::new();
    for text in text.lines() {
        let line: Value = serde_json::from_str(text).expect("a line of JSON");
        // CuTe's lines about the algebra are requests.
        if file.starts_with("cute_cpp") && line["kind"] != "algebra" {
            continue;
        }
        requests.push_str(text);
        requests.push('\n');
        lines.push(line);
    }
    let answers = super::answers(&requests);
    assert_eq!(answers.len(), lines.len(), "one answer a line of {file}");
    lines.into_iter().zip(answers).collect()
}

/// Collects failures, so that a test reports all of them.
#[derive(Default)]
struct Failures {
    text: String,
    count: usize,
}

impl Failures {
    fn add(&mut self, line: &Value, what: impl Display) {
        self.count += 1;
        if self.count <= 30 {
            let _ = writeln!(self.text, "{} {} {}: {what}", line["id"], line["op"], line["args"]);
        }
    }

    #[track_caller]
    fn none(self, lines: usize) {
        assert!(self.count == 0, "{} of {lines} lines fail:\n{}", self.count, self.text);
    }
}

#[test]
fn pycute_requests_get_pycute_answers() {
    let lines = asked("pycute.jsonl");
    assert!(lines.len() > 4800, "only {} lines", lines.len());
    let mut failures = Failures::default();
    for (line, answer) in &lines {
        let compare = line["compare"].as_str();
        let Some(result) = answer.get("result") else {
            if compare != Some("optional") {
                failures.add(line, answer);
            }
            continue;
        };
        let right = match compare {
            Some("property") => holds(line["property"].as_str().unwrap_or_default(), line, result),
            Some("pycute_only") => compare::cute_form(line, result),
            Some("optional") => Ok(()),
            _ => same_answer(line, result),
        };
        if let Err(what) = right {
            failures.add(line, what);
        }
    }
    failures.none(lines.len());
}

/// Whether two answers are equal, except for the strides of extents of 1, and for the tuple around
/// a single rest of a tiled divide or product.
fn same_answer(line: &Value, result: &Value) -> Result<(), String> {
    let expected = &line["result"];
    if without_unit_strides(result) != without_unit_strides(expected) && !same_form(line, result) {
        return Err(format!("{result}, pycute has {expected}"));
    }
    if let Some(values) = line["functional"].as_array().filter(|_| result["shape"] != Value::Null) {
        let function = Function::of(result)?;
        let wrong = values.iter().zip(0..).find(|(value, i)| value.as_i64() != Some(function.at(*i)));
        if function.size() != values.len() as i64 || wrong.is_some() {
            return Err(format!("{result} is another function: {wrong:?}"));
        }
    }
    Ok(())
}

#[test]
fn cute_requests_get_cute_answers_in_the_form_of_cute() {
    let lines = asked("cute_cpp.jsonl");
    assert!(lines.len() > 380, "only {} lines", lines.len());
    let mut failures = Failures::default();
    for (line, answer) in &lines {
        if answer["result"] != line["result"] {
            failures.add(line, format!("{answer}, CuTe has {}", line["result"]));
        }
    }
    failures.none(lines.len());
}

#[test]
fn what_pycute_rejects_gets_an_error_or_a_right_answer() {
    let lines = asked("pycute_rejected.jsonl");
    assert!(lines.len() > 280, "only {} lines", lines.len());
    let mut failures = Failures::default();
    for (line, answer) in &lines {
        let Some(result) = answer.get("result") else { continue };
        let right = match line["expect"].as_str().unwrap_or_default() {
            "undefined" => Ok(()),
            "error_or_correct" => Function::of(result).and_then(|function| {
                let right = match line["correct_functional"].as_array() {
                    Some(values) => values.iter().filter_map(Value::as_i64).collect(),
                    // Products and tilers are checked by their definition.
                    None => values_of(
                        line["op"].as_str().unwrap_or_default(),
                        line["args"].as_array().expect("arguments"),
                    )?,
                };
                let got: Vec<i64> = (0..function.size()).map(|i| function.at(i)).collect();
                if got == right {
                    Ok(())
                } else {
                    Err(format!("{result} has the values {got:?}, not {right:?}"))
                }
            }),
            "error_or_property" => holds(line["expect_property"].as_str().unwrap_or_default(), line, result),
            expected => Err(format!("{result}, expected {expected}: {}", line["reason"])),
        };
        if let Err(what) = right {
            failures.add(line, what);
        }
    }
    failures.none(lines.len());
}

#[test]
fn what_cute_rejects_gets_an_error_or_a_right_answer() {
    let lines = asked("cute_cpp_rejected.jsonl");
    assert!(lines.len() > 30, "only {} lines", lines.len());
    let mut failures = Failures::default();
    for (line, answer) in &lines {
        let Some(result) = answer.get("result") else { continue };
        // The common layout is defined even where CuTe's algorithm is not.
        let right = match line["op"].as_str().unwrap_or_default() {
            "max_common_layout" => compare::common(line, result),
            "max_common_vector" => compare::most_common(line).and_then(|most| match *result == most {
                true => Ok(()),
                false => Err(format!("{result}, where a search through all coordinates finds {most}")),
            }),
            _ => Err(format!("{result}, where CuTe says {}", line["cpp_error"])),
        };
        if let Err(what) = right {
            failures.add(line, what);
        }
    }
    failures.none(lines.len());
}

#[test]
fn every_result_has_a_text_form_that_reads_back() {
    let mut seen = HashSet::new();
    for (line, answer) in asked("pycute.jsonl").into_iter().chain(asked("cute_cpp.jsonl")) {
        let Some(result) = answer.get("result").filter(|result| result["shape"] != Value::Null) else {
            continue;
        };
        if !seen.insert(result.to_string()) {
            continue;
        }
        let part = |name: &str| result[name].to_string().replace('[', "(").replace(']', ")").replace('"', "");
        let text = format!("{}:{}", part("shape"), part("stride"));
        let value =
            moye_eval::evaluate(&text).unwrap_or_else(|error| panic!("{} {text}: {error}", line["id"]));
        assert_eq!(value.to_string(), text, "{}: the text of {result} reads back as itself", line["id"]);
    }
    assert!(seen.len() > 1000, "only {} layouts", seen.len());
}
