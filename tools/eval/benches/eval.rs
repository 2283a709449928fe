//! The rate at which `moye eval --jsonl` answers requests, on one core.

use std::hint::black_box;

use divan::Bencher;
use divan::counter::ItemsCount;

fn main() {
    divan::main();
}

/// The requests of the reference vectors, in the form that a script sends: without the answers.
fn golden(op: Option<&str>) -> Vec<u8> {
    let package =
        std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    let path = format!("{package}/../../tests/fixtures/data/golden/pycute.jsonl");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut requests = Vec::new();
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        let is_table = line["op"].as_str().is_some_and(|op| op.ends_with("_table"));
        if op.is_none_or(|op| line["op"] == op) && !is_table {
            let request = serde_json::json!({"op": line["op"], "args": line["args"]});
            requests.extend_from_slice(request.to_string().as_bytes());
            requests.push(b'\n');
        }
    }
    requests
}

fn serve(bencher: Bencher, requests: &[u8]) {
    let count = requests.iter().filter(|byte| **byte == b'\n').count();
    bencher.counter(ItemsCount::new(count)).bench_local(|| {
        let mut out = Vec::with_capacity(4 * requests.len());
        moye_eval::serve(black_box(requests), &mut out).expect("memory");
        out
    });
}

/// All operations, in the proportions of the reference vectors.
#[divan::bench]
fn mixed(bencher: Bencher) {
    serve(bencher, &golden(None));
}

/// One operation.
#[divan::bench(args = ["composition", "coalesce", "zipped_divide", "crd2idx", "slice"])]
fn one(bencher: Bencher, op: &str) {
    serve(bencher, &golden(Some(op)));
}

/// The same layouts in layout notation.
#[divan::bench]
fn composition_of_text(bencher: Bencher) {
    let line = "{\"op\":\"composition\",\"args\":[\"(6,2):(8,2)\",\"(4,3):(3,1)\"]}\n";
    serve(bencher, line.repeat(1000).as_bytes());
}
