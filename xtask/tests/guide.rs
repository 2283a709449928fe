//! The guide: its pages are tests, and its index names them.

use std::fs;
use std::path::Path;

/// The checkout.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Where pages are compiled as doctests, or read by a test that runs what they hold.
const TESTS: [&str; 7] = [
    "builder/lib.rs",
    "device/guide.rs",
    "device/kernels/guide.rs",
    "examples/hopper-steps/tests/page.rs",
    "host/lib.rs",
    "python/tests/test_pages.py",
    "xtask/transcript.rs",
];

#[test]
fn each_page_of_the_guide_runs_as_a_test_and_is_in_the_index() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let tests = TESTS.map(read).concat();
    let index = read("docs/guide/README.md");
    let mut pages = 0;
    for entry in fs::read_dir(root().join("docs/guide")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name == "README.md" {
            continue;
        }
        assert!(tests.contains(&format!("guide/{name}\"")), "no test has docs/guide/{name}");
        assert!(index.contains(&format!("]({name})")), "the index does not name docs/guide/{name}");
        let page = read(&format!("docs/guide/{name}"));
        let fences: Vec<_> = page.lines().filter(|line| line.starts_with("```rust")).collect();
        let compiled_alone = ["no_run", "ignore", "compile_fail", "text"];
        let runs =
            fences.iter().filter(|fence| !compiled_alone.iter().any(|word| fence.contains(word))).count();
        assert!(2 * runs >= fences.len(), "{runs} of {} blocks of docs/guide/{name} run", fences.len());
        pages += 1;
    }
    assert!(pages > 15, "{pages} pages");
}

#[test]
fn the_first_screen_the_changelog_and_the_records_stay_short() {
    let lines = |name: &str| fs::read_to_string(root().join(name)).unwrap().lines().count();
    assert!(lines("README.md") <= 120, "{} lines", lines("README.md"));
    assert!(lines("CHANGELOG.md") <= 60, "{} lines", lines("CHANGELOG.md"));
    let changelog = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let longest = changelog.lines().map(str::len).max();
    assert!(longest <= Some(120), "a line of the changelog has {longest:?} bytes");
    for entry in fs::read_dir(root().join("docs/decisions")).unwrap() {
        let path = entry.unwrap().path();
        let words = fs::read_to_string(&path).unwrap().split_whitespace().count();
        assert!(words <= 900, "{} has {words} words; a record is one page", path.display());
    }
}
