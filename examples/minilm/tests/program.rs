//! The program, on the simulator.

use crate::synthetic;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(model: &Path, arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_moye-minilm"));
    program.arg("--model").arg(model).args(["--device", "sim"]).args(arguments).output().unwrap()
}

#[test]
fn the_program_prints_the_similarity_of_the_first_sentence_to_each_other() {
    let model = synthetic::model();
    let run = run(model.path(), &["the sea", "green", "The sea", "--repeat", "1"]);
    let (out, error) = (String::from_utf8(run.stdout).unwrap(), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{error}");
    let lines: Vec<_> = out.lines().collect();
    assert_eq!((lines[0], lines[2]), ("       the sea", " 1.000 The sea"), "{out}");
    assert!(lines[1].ends_with(" green") && lines[3].starts_with("3 sentences, 11 tokens: "), "{out}");
}

#[test]
fn lines_of_standard_input_that_are_no_text_are_an_error() {
    let model = synthetic::model();
    let mut program = Command::new(env!("CARGO_BIN_EXE_moye-minilm"));
    program.arg("--model").arg(model.path()).args(["--device", "sim"]);
    let streams = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = streams.spawn().unwrap();
    running.stdin.take().unwrap().write_all(b"the sea\n\xff\nis green\n").unwrap();
    let ended = running.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success() && error.starts_with("error: standard input: "), "{error}");
}

#[test]
fn a_folder_without_a_model_is_an_error_with_the_missing_file() {
    let run = run(Path::new("no/such"), &["the"]);
    let error = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(!run.status.success() && error.starts_with("error: no/such/model.safetensors: "), "{error}");
}
