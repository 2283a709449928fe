//! The step `language` of `cargo xtask test`: the rules of the project's language that a program
//! can check.
//!
//! - [`spelling`]: no misspelt word, in text or in names;
//! - [`columns`]: comments and docstrings wrapped at 100 columns, paragraphs of Markdown at 120 or
//!   on one line;
//! - [`words`]: no word from the list of those that hide a term or an actor;
//! - [`lengths`]: no file of a shipped kernel above 450 lines;
//! - [`floors`]: no module imports one above it;
//! - [`contracts`]: `unsafe` in kernels and examples, and comments on it without a condition,
//!   within their limits.
//!
//! A line that needs such a word is marked `language-ok: REASON`, on the line itself or the one
//! above.

mod columns;
mod contracts;
mod floors;
mod lengths;
mod source;
#[cfg(feature = "spelling")]
mod spelling;
mod words;

use crate::checkout::Checkout;
use crate::steps::{must, quietly};
use anyhow::{Context, Result, bail};
use contracts::Contracts;
use lengths::Sums;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Files with these endings are checked.
const ENDINGS: &[&str] = &[".rs", ".md", ".py", ".pyi", ".toml", ".sh", ".toml.in", ".yml", ".ci/run"];

/// Files that start like this are not checked, for the given reason.
const EXCEPT: &[(&str, &str)] = &[
    ("xtask/language/", "has the words themselves"),
    ("tests/fixtures/data/", "recorded output"),
    ("Cargo.toml", "descriptions are checked where they are shown: in README.md"),
];

/// A line that contains this, and the line below, may have any words; the reason follows.
const MARKER: &str = "language-ok: ";

/// A position that violates a rule.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    file: String,
    line: usize,
    what: String,
}

impl Fault {
    fn new(file: &str, line: usize, what: String) -> Self {
        Self { file: file.to_owned(), line, what }
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// Checks all files of the checkout that git tracks or would add, and lists the faults.
pub fn run(checkout: &Checkout) -> Result<()> {
    if cfg!(not(feature = "spelling")) {
        // The dictionary takes half of this program's build time, which the other commands need not
        // wait for.
        let arguments =
            ["run", "--quiet", "--package", "xtask", "--features", "spelling", "--", "test", "language"];
        return must(checkout.cargo().args(arguments));
    }
    let mut list = Command::new("git");
    list.current_dir(&checkout.root);
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let names = quietly(&mut list).context("the files of the checkout cannot be listed")?;
    let (mut faults, mut contracts, mut sums) = (Vec::new(), Contracts::default(), Sums::default());
    for name in names.split('\0').filter(|name| is_checked(name)) {
        let path = checkout.root.join(name);
        // A link's target is checked under its own name; a removed file is not.
        if path.is_symlink() || !path.is_file() {
            continue;
        }
        let text = read(&path)?;
        contracts.add(name, &text);
        sums.add(name, &text);
        faults.extend(check(name, &text));
    }
    eprintln!("   unsafe: {}", contracts.counts());
    faults.extend(contracts.faults());
    faults.extend(sums.faults());
    faults.sort();
    for fault in &faults {
        eprintln!("{fault}");
    }
    if !faults.is_empty() {
        bail!("{} places to correct, listed above", faults.len());
    }
    Ok(())
}

fn is_checked(name: &str) -> bool {
    let is_text = ENDINGS.iter().any(|ending| name.ends_with(ending));
    is_text && !EXCEPT.iter().any(|(start, _)| name.starts_with(start))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The faults of one file.
fn check(name: &str, text: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    #[cfg(feature = "spelling")]
    spelling::check(name, text, &mut faults);
    columns::check(name, text, &mut faults);
    lengths::check(name, text, &mut faults);
    floors::check(name, text, &mut faults);
    for piece in source::pieces(name, text) {
        words::check(name, &piece, &mut faults);
    }
    let marked: Vec<usize> =
        (1..).zip(text.lines()).filter(|(_, line)| line.contains(MARKER)).map(|(at, _)| at).collect();
    faults.retain(|fault| !marked.iter().any(|&at| fault.line == at || fault.line == at + 1));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_fault_is_found_in_one_file() {
        let text = format!("// Nobody recieves {}it\n", "the word ".repeat(12));
        let found: Vec<_> = check("a.rs", &text).iter().map(|fault| fault.what.clone()).collect();
        assert_eq!(found.len(), 3, "{found:?}");
    }

    #[test]
    fn a_marker_allows_its_line_and_the_line_below() {
        let faults = |text: &str| check("a.rs", text).len();
        assert_eq!(faults("// language-ok: a quotation\n// nobody recieves\n"), 0);
        assert_eq!(faults("let a = \"nobody\"; // language-ok: data\n"), 0);
        assert_eq!(faults("// language-ok: a quotation\n//\n// nobody recieves\n"), 2);
    }

    #[test]
    fn scripts_and_templates_are_checked() {
        let template = "tools/cli/commands/new/krate/template";
        for name in [".ci/run", &format!("{template}/Cargo.toml.in"), &format!("{template}/ci.yml")] {
            assert!(is_checked(name) && Checkout::find().unwrap().root.join(name).is_file(), "{name}");
        }
    }

    #[test]
    fn exceptions_name_files_that_are_there() {
        let checkout = Checkout::find().unwrap();
        for (start, reason) in EXCEPT {
            assert!(checkout.root.join(start).exists() && !reason.is_empty(), "{start}");
        }
    }
}
