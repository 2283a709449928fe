//! The transcript of the guide: its commands are run and its files written as on the page.

use crate::checkout::Checkout;
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The page.
const PAGE: &str = "docs/guide/transcript.md";
/// The page's placeholder for the reader's folder.
const HOME: &str = "~/";

/// A block of the page.
#[derive(Debug, PartialEq, Eq)]
enum Step<'a> {
    /// The contents of a file.
    File { path: &'a str, text: &'a str },
    /// A command, and lines that its output must contain.
    Command { line: &'a str, fails: bool, says: Vec<&'a str> },
}

/// Runs the section with this title in an empty folder, on the checkout. `settings` are environment
/// variables.
///
/// # Errors
/// A command fails, succeeds although the page says that it fails, or its output lacks a line of
/// the page.
pub fn run(checkout: &Checkout, title: &str, settings: &[(&str, &str)]) -> Result<()> {
    let page = fs::read_to_string(checkout.root.join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    let steps = steps(section(&page, title)?);
    let folder = checkout.target.join("transcript").join(title.to_lowercase());
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let outputs = folder.join("outputs");
    fs::create_dir_all(&outputs).with_context(|| format!("cannot make {}", outputs.display()))?;
    // One shell runs all commands, so that `cd` applies to the later ones.
    let mut bash = Command::new("bash");
    bash.arg("-c").arg(script(&steps, &folder, &checkout.root)).current_dir(&checkout.root);
    bash.env("CARGO_TARGET_DIR", &checkout.target).env_remove("MOYE_DEVICE").envs(settings.iter().copied());
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            bash.env_remove(&*name);
        }
    }
    let status = bash.status().context("the transcript needs bash")?;
    for (number, step) in steps.iter().enumerate() {
        let Step::Command { line, fails, says } = step else { continue };
        let file = outputs.join(number.to_string());
        let Ok(output) = fs::read_to_string(&file) else {
            bail!("{PAGE}: `{line}` was not reached ({status})")
        };
        let Some((output, code)) = output.rsplit_once("\nexit code ") else {
            bail!("{PAGE}: `{line}` ended the shell ({status}):\n{output}");
        };
        if (code.trim() != "0") != *fails {
            let wanted = if *fails { "fail" } else { "succeed" };
            bail!("{PAGE}: `{line}` should {wanted}, and ended with exit code {}:\n{output}", code.trim());
        }
        if let Some(missing) = says.iter().find(|part| !output.contains(**part)) {
            bail!("{PAGE}: `{line}` does not say `{missing}`:\n{output}");
        }
    }
    Ok(())
}

/// The part of a page below the heading with this title.
fn section<'a>(page: &'a str, title: &str) -> Result<&'a str> {
    let heading = format!("\n## {title}\n");
    let Some((_, below)) = page.split_once(&heading) else { bail!("{PAGE} has no section `{title}`") };
    Ok(below.split_once("\n## ").map_or(below, |(own, _)| own))
}

/// The files and commands of a section, in order: blocks whose fence names a file, and `console`
/// blocks.
fn steps(section: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for block in section.split("\n```").skip(1).step_by(2) {
        let Some((info, text)) = block.split_once('\n') else { continue };
        match info.split_once(' ') {
            Some((_, path)) => steps.push(Step::File { path, text }),
            None if info == "console" => commands(text, &mut steps),
            None => {}
        }
    }
    steps
}

/// The commands of a `console` block: lines that begin with `$ `, each followed by its output.
fn commands<'a>(text: &'a str, steps: &mut Vec<Step<'a>>) {
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            let (line, comment) = command.split_once(" #").unwrap_or((command, ""));
            steps.push(Step::Command {
                line: line.trim_end(),
                fails: comment.contains("fails"),
                says: vec![],
            });
        } else if let Some(Step::Command { says, .. }) = steps.last_mut() {
            says.push(line.trim());
        }
    }
}

/// The shell script. It stores the output of each command by its number, and continues after a
/// failure.
fn script(steps: &[Step<'_>], folder: &Path, root: &Path) -> String {
    let home = format!("{}/", folder.display());
    let mut script = String::new();
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::File { path, text } => {
                let path = path.replace(HOME, &home);
                let _ = writeln!(script, "cat > '{path}' <<'END OF FILE'\n{text}\nEND OF FILE");
            }
            Step::Command { line, .. } => {
                let output = folder.join("outputs").join(number.to_string());
                let line = line.replace(HOME, &home);
                let _ = writeln!(script, "echo '   {}'", line.replace('\'', r"'\''"));
                let _ = writeln!(
                    script,
                    "{{ {line}; }} > '{0}' 2>&1; echo \"\nexit code $?\" >> '{0}'",
                    output.display()
                );
                // The checkout's versions of other packages, which are already downloaded.
                if let Some(krate) = line.strip_prefix("cargo xtask new ") {
                    let _ = writeln!(script, "cp '{}' {krate}", root.join("Cargo.lock").display());
                }
            }
        }
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTION: &str = "\nWords.\n\n```console\n$ cd ~/x     # 1 s\n$ false  # 2 s, fails\nsays this\n  and this\n```\n\n\
                           ```rust src/lib.rs\nfn f() {}\n```\n\n```text\nno step\n```\n";

    #[test]
    fn files_and_commands_are_read_in_order_with_what_they_say() {
        let [first, second, file] = &steps(SECTION)[..] else { panic!("{:?}", steps(SECTION)) };
        assert_eq!(*first, Step::Command { line: "cd ~/x", fails: false, says: vec![] });
        assert_eq!(
            *second,
            Step::Command { line: "false", fails: true, says: vec!["says this", "and this"] }
        );
        assert_eq!(*file, Step::File { path: "src/lib.rs", text: "fn f() {}" });
    }

    #[test]
    fn a_command_with_other_output_or_exit_code_than_the_page_is_an_error() {
        let root = std::env::temp_dir().join(format!("moye-transcript-{}", std::process::id()));
        let checkout = Checkout { target: root.join("target"), root: root.clone() };
        fs::create_dir_all(root.join("docs/guide")).unwrap();
        fs::write(root.join("Cargo.lock"), "").unwrap();
        let run = |text: &str| {
            fs::write(root.join(PAGE), format!("# Page\n\n## Rust\n\n{text}\n\n## Python\n\n")).unwrap();
            super::run(&checkout, "Rust", &[]).map_err(|error| error.to_string())
        };
        let went = [
            run(
                "```console\n$ mkdir ~/a\n$ cd ~/a\n```\n\n```text b\nhello\n```\n\n```console\n$ cat b\nhello\n```",
            ),
            run("```console\n$ echo hello\ngoodbye\n```"),
            run("```console\n$ false\n```"),
            run("```console\n$ true # fails\n```"),
            run("```console\n$ exit\n$ true\n```"),
        ];
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(went[0], Ok(()));
        for (went, expected) in went[1..].iter().zip([
            "does not say `goodbye`",
            "`false` should succeed, and ended with exit code 1",
            "`true` should fail, and ended with exit code 0",
            "`exit` ended the shell",
        ]) {
            assert!(went.as_ref().is_err_and(|error| error.contains(expected)), "{went:?}");
        }
    }

    #[test]
    fn the_page_has_both_sections() {
        let page = fs::read_to_string(Checkout::find().unwrap().root.join(PAGE)).unwrap();
        for title in ["Rust", "Python"] {
            let steps = steps(section(&page, title).unwrap());
            assert!(steps.iter().any(|step| matches!(step, Step::File { .. })), "{title}");
            assert!(
                steps.iter().any(|step| matches!(step, Step::Command { says, .. } if !says.is_empty())),
                "{title}"
            );
        }
    }
}
