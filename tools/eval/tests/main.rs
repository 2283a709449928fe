//! Expressions and requests.

mod expressions;
mod fuzz;
mod golden;
mod notation;
mod requests;

/// The answers to lines of requests.
fn answers(lines: &str) -> Vec<serde_json::Value> {
    let mut out = Vec::new();
    moye_eval::serve(lines.as_bytes(), &mut out).expect("reading from and writing to memory");
    let text = String::from_utf8(out).expect("answers are UTF-8");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}
