//! What docs/guide/debugging.md says of the faults.

use std::fs;
use std::path::Path;

/// A file of the checkout.
fn text(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The names of the kinds of faults.
fn kinds() -> Vec<String> {
    let source = text("fault/kind.rs");
    let (_, body) = source.split_once("pub enum FaultKind {\n").unwrap();
    let (body, _) = body.split_once("\n}").unwrap();
    let name = |line: &str| {
        let name = line.strip_prefix("    ")?.split(['{', '(', ',']).next()?.trim();
        name.starts_with(|first: char| first.is_ascii_uppercase()).then(|| name.to_owned())
    };
    body.lines().filter_map(name).collect()
}

#[test]
fn each_kind_of_fault_has_a_row_with_cause_and_fix_in_the_guide_and_no_row_has_another() {
    let kinds = kinds();
    assert!(kinds.len() > 25 && kinds.iter().any(|kind| kind == "Race"), "{kinds:?}");
    let guide = text("../docs/guide/debugging.md");
    let (_, table) = guide.split_once("| fault | cause | fix |\n").unwrap();
    let rows: Vec<Vec<_>> = table
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let mut named: Vec<_> = rows.iter().flat_map(|row| row[0].split(", ")).collect();
    let mut expected: Vec<_> = kinds.iter().map(|kind| format!("`{kind}`")).collect();
    named.sort_unstable();
    expected.sort_unstable();
    assert_eq!(named, expected);
    for row in rows {
        assert!(row.len() == 3 && row.iter().all(|cell| !cell.is_empty()), "{row:?}");
    }
}
