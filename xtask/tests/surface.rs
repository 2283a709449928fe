//! The public items of the runtime and of the families name neither the driver's types nor `cust`.

use std::fs;
use std::path::{Path, PathBuf};

/// The Rust files below a folder, except those of `host/driver`.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .filter(|path| !path.ends_with("host/driver"))
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// Whether a source names the driver's bindings, one of their types (`CUstream`) or `cust`.
fn names_the_driver(text: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.split(|c| !is_part(c)).any(|word| {
        let of_driver =
            word.strip_prefix("CU").is_some_and(|rest| rest.starts_with(|c: char| c.is_lowercase()));
        of_driver || matches!(word, "sys" | "cust")
    })
}

/// The signatures of the `pub` items of a source.
fn signatures(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("pub ").filter(|(at, _)| text[..*at].trim_end_matches(' ').ends_with('\n')).map(
        |(at, _)| {
            let item = &text[at..];
            let line = item.lines().next().unwrap_or(item);
            // A function's parameters, and the names of a `use`, may continue on the next lines.
            let ends: &[char] =
                if line.contains("fn ") || line.contains("use ") { &[';', '{'] } else { &[';', '\n'] };
            let end = if line.contains("use ") { item.find(';') } else { item.find(ends) };
            &item[..end.unwrap_or(item.len())]
        },
    )
}

#[test]
fn public_items_name_neither_types_of_the_driver_nor_cust() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folders = ["host", "ops/attention/host", "ops/matmul/host", "ops/movement/host"];
    let mut seen = 0;
    for path in folders.iter().flat_map(|folder| sources(&root.join(folder))) {
        let text = fs::read_to_string(&path).unwrap();
        for signature in signatures(&text) {
            seen += 1;
            assert!(!names_the_driver(signature), "{}: {signature}", path.display());
        }
    }
    assert!(seen > 300, "{seen} public items");
    assert!(names_the_driver("stream: CUstream") && !names_the_driver("CUDA and custom"));
    let found: Vec<_> = signatures("\n    pub fn f(\n    a: CUfunction) {}\n// pub fn\n").collect();
    assert_eq!(found, ["pub fn f(\n    a: CUfunction) "]);
}
