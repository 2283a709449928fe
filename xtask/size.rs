//! `cargo xtask size`: lines of Rust, by folder and by operation.

use crate::checkout::Checkout;
use crate::steps::quietly;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

/// The files of an operation's folder, in reading order.
const PARTS: [&str; 5] = ["mod.rs", "kernel.rs", "call.rs", "oracle.rs", "cases.rs"];
/// The folder that contains operations' folders.
const OPERATIONS: &str = "ops/";

/// The lines of a file, by its name in the checkout.
type File = (String, usize);

/// Prints the lines of Rust of each top-level folder, and of each operation's folder.
///
/// # Errors
/// The files of the checkout cannot be listed or read.
pub fn run(checkout: &Checkout) -> Result<()> {
    let mut list = Command::new("git");
    list.current_dir(&checkout.root).args(["ls-files", "-z", "--", "*.rs"]);
    let names = quietly(&mut list).context("the files of the checkout cannot be listed")?;
    let (mut files, mut registries) = (Vec::new(), String::new());
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let path = checkout.root.join(name);
        // A link's target is counted under its own name; a removed file is not.
        if path.is_symlink() || !path.is_file() {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {name}"))?;
        files.push((name.to_owned(), text.lines().count()));
        if name.starts_with(OPERATIONS) && name.ends_with("/lib.rs") {
            registries += &text;
        }
    }
    print!("{}", table(&files, &registries));
    Ok(())
}

/// Whether a file contains only tests.
fn is_test(name: &str) -> bool {
    name.split('/').any(|part| matches!(part, "tests" | "tests.rs"))
}

/// Both tables as text. `registries` holds the lists of operations: lines
/// `"FEATURE" FOLDER: NAME, NAME;`, or `&crate::FOLDER::NAME`.
fn table(files: &[File], registries: &str) -> String {
    let mut folders: BTreeMap<&str, (usize, usize, usize)> = BTreeMap::new();
    let mut operations: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for (name, lines) in files {
        let top = name.split_once('/').map_or("", |(top, _)| top);
        let (count, all, tests) = folders.entry(top).or_default();
        *count += 1;
        *all += lines;
        *tests += if is_test(name) { *lines } else { 0 };
        if name.starts_with(OPERATIONS)
            && let Some((folder, file)) = name.rsplit_once('/')
        {
            operations.entry(folder).or_default().insert(file, *lines);
        }
    }
    operations.retain(|_, files| files.contains_key(PARTS[0]));
    let mut text = String::from("folder              files   lines  of them tests\n");
    let mut sum = (0, 0, 0);
    for (folder, (count, all, tests)) in &folders {
        let folder = if folder.is_empty() { "." } else { folder };
        let _ = writeln!(text, "{folder:<18} {count:>6} {all:>7} {tests:>14}");
        sum = (sum.0 + count, sum.1 + all, sum.2 + tests);
    }
    let _ = writeln!(text, "{:<18} {:>6} {:>7} {:>14}", "all", sum.0, sum.1, sum.2);
    let _ = write!(text, "\nfolder of operations             lines operations");
    for part in PARTS {
        let _ = write!(text, " {part:>9}");
    }
    text.push('\n');
    for (folder, files) in &operations {
        let name = folder.rsplit('/').next().unwrap_or_default();
        let listed =
            registries.split_once(&format!("\" {name}: ")).and_then(|(_, rest)| rest.split_once(';'));
        let declared = match listed {
            Some((names, _)) => names.split(',').count(),
            None => registries.matches(&format!("&crate::{name}::")).count(),
        };
        let _ = write!(text, "{folder:<30} {:>7} {declared:>10}", files.values().sum::<usize>());
        for part in PARTS {
            let _ = write!(text, " {:>9}", files.get(part).copied().unwrap_or(0));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_by_folder_and_by_operation() {
        let files = [
            ("build.rs", 3),
            ("host/lib.rs", 10),
            ("host/tests/a.rs", 7),
            ("ops/rows/add/kernel.rs", 20),
            ("ops/rows/add/mod.rs", 30),
            ("ops/rows/norm/mod.rs", 4),
            ("ops/rows/lib.rs", 5),
        ];
        let registry = "\"all\" add: ADD, SUBTRACT;\n&crate::norm::NORM,\n&crate::other::ADD";
        let text = table(&files.map(|(name, lines)| (name.to_owned(), lines)), registry);
        let has = |row: &[&str]| text.lines().any(|line| line.split_whitespace().eq(row.iter().copied()));
        assert!(has(&["host", "2", "17", "7"]), "{text}");
        assert!(has(&["all", "7", "79", "7"]), "{text}");
        assert!(has(&["ops/rows/add", "50", "2", "30", "20", "0", "0", "0"]), "{text}");
        assert!(has(&["ops/rows/norm", "4", "1", "4", "0", "0", "0", "0"]), "{text}");
        assert!(!text.contains("ops/rows  "), "{text}");
    }
}
