//! The program draws the pictures of the guide.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The picture at the top of the README, which does not show its command.
const FRONT: (&str, &str) = (
    "mma.svg",
    "moye draw --mma 16x8x8 --a '((4,8),(2,2)):((32,1),(16,8))' --b '((4,8),2):((16,1),8)' --c '((4,8),(2,2)):((32,1),(16,8))'",
);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Each picture of the guide, with the last command before it.
fn commands() -> BTreeMap<String, String> {
    let mut commands = BTreeMap::from([(FRONT.0.to_owned(), FRONT.1.to_owned())]);
    for page in std::fs::read_dir(root().join("guide")).unwrap() {
        // A long command continues in the next line.
        let text = std::fs::read_to_string(page.unwrap().path()).unwrap().replace("\n--", " --");
        let mut command = None;
        for line in text.lines() {
            if let Some((_, rest)) = line.split_once("`moye draw ") {
                command = rest.split_once('`').map(|(arguments, _)| format!("moye draw {arguments}"));
            }
            if let Some((_, picture)) = line.split_once("](../pictures/") {
                let name = picture.trim_end_matches(')').to_owned();
                // A command serves one picture, so an earlier command belongs to another picture.
                let command = command.take().unwrap_or_else(|| panic!("{name}: no command stands before it"));
                commands.insert(name, command);
            }
        }
    }
    commands
}

/// A command's arguments, split like a shell does: at spaces outside single quotes.
fn arguments(command: &str) -> Vec<String> {
    let mut arguments = vec![String::new()];
    let mut quoted = false;
    for c in command.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => arguments.push(String::new()),
            c => arguments.last_mut().expect("there is one").push(c),
        }
    }
    assert!(!quoted, "a quote is not closed: {command}");
    arguments
}

#[test]
fn each_picture_is_what_its_command_draws_now() {
    let commands = commands();
    let kept: Vec<String> = std::fs::read_dir(root().join("pictures"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    for name in &kept {
        assert!(commands.contains_key(name), "docs/pictures/{name} is in no page of the guide");
    }
    let mut wrong = Vec::new();
    for (name, command) in &commands {
        let output = Command::new(env!("CARGO_BIN_EXE_moye"))
            .args(&arguments(command)[1..])
            .args(["--format", "svg"])
            .env_remove("COLORTERM")
            .output()
            .expect("the program starts");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        let kept = std::fs::read(root().join("pictures").join(name)).unwrap_or_default();
        if kept != output.stdout {
            wrong.push(format!("  {command} -o docs/pictures/{name} --force"));
        }
    }
    assert!(
        wrong.is_empty(),
        "the program draws other pictures than docs/pictures has; make them anew:\n{}",
        wrong.join("\n")
    );
}
