//! `cargo xtask size`: lines of Rust, by folder and by operation, now or at a commit.

use crate::checkout::Checkout;
use crate::steps::quietly;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

/// The files of an operation's folder, in reading order.
const PARTS: [&str; 5] = ["mod.rs", "kernel.rs", "call.rs", "oracle.rs", "cases.rs"];
/// The folder that contains operations' folders.
const OPERATIONS: &str = "ops/";

/// The lines of a file, by its name in the checkout.
type File = (String, usize);

/// Prints the lines of Rust of each top-level folder, and of each operation's folder; then, for
/// each word, the source files of Rust and Python with that word in their path. All are counted in
/// the checkout's tracked files, or as they were `at` a commit.
///
/// # Errors
/// The files of the checkout or of the commit cannot be listed or read.
pub fn run(checkout: &Checkout, at: Option<&str>, words: &[String]) -> Result<()> {
    let git = |arguments: &[&str], paths: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(&checkout.root).args(arguments).args(at).arg("--").args(paths);
        quietly(&mut git).context("the files cannot be listed")
    };
    // Links are not followed, and files without a line have no entry.
    let counts = git(&["grep", "--count", "-e", ""], &["*.rs", "*.py"])?;
    let mut sources = Vec::new();
    for count in counts.lines() {
        let count = at.map_or(count, |at| count.trim_start_matches(at).trim_start_matches(':'));
        let (name, lines) = count.rsplit_once(':').context("git prints a name and a count")?;
        sources.push((name.to_owned(), lines.parse().context("git prints a count")?));
    }
    let rust = |(name, _): &&File| name.ends_with(".rs");
    let files: Vec<File> = sources.iter().filter(rust).cloned().collect();
    // Before there were operations, there is no list of them.
    let registries = git(&["grep", "-h", "-e", ""], &["ops/*/lib.rs"]).unwrap_or_default();
    print!("{}{}", table(&files, &registries), named(&sources, words));
    Ok(())
}

/// The number and the lines of files that have a word in their path, as text.
fn named(files: &[File], words: &[String]) -> String {
    let mut text = String::new();
    if !words.is_empty() {
        text += "\nin the path         files   lines\n";
    }
    for word in words {
        let lines = files.iter().filter(|(name, _)| name.contains(word.as_str())).map(|(_, lines)| lines);
        let _ = writeln!(text, "{word:<18} {:>6} {:>7}", lines.clone().count(), lines.sum::<usize>());
    }
    text
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
        let files = files.map(|(name, lines)| (name.to_owned(), lines));
        let text = named(&files, &["norm".to_owned(), "rows".to_owned()]);
        assert!(
            text.ends_with("norm                    1       4\nrows                    4      59\n"),
            "{text}"
        );
    }
}
