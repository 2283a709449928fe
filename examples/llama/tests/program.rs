//! The program, on the simulator.

use crate::synthetic;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The program, of the build or of a bundle.
pub fn program() -> Command {
    let bundled = |bundle| Path::new(&bundle).join("bin/moye-llama");
    let bundle = std::env::var_os("MOYE_BUNDLE").map(bundled);
    Command::new(bundle.unwrap_or_else(|| env!("CARGO_BIN_EXE_moye-llama").into()))
}

/// Runs the program on a model with these arguments and this standard input.
pub fn run(model: &Path, arguments: &[&str], input: &str) -> Output {
    let mut program = program();
    program.arg("--model").arg(model).args(["--device", "sim"]).args(arguments);
    let streams = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = streams.spawn().unwrap();
    running.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    running.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_batch_has_an_answer_to_each_line_and_a_conversation_to_each_turn() {
    let model = synthetic::model("qwen2");
    let prompts = model.path.with_file_name("prompts.txt");
    fs::write(&prompts, "the\n\n42\n").unwrap();
    let batch = run(&model.path, &["--batch", prompts.to_str().unwrap(), "--tokens", "2", "--stats"], "");
    let (answers, stats) = (text(&batch.stdout), text(&batch.stderr));
    assert!(batch.status.success(), "{stats}");
    let (first, second) = answers.split_once("> 42\n").unwrap();
    assert!(first.starts_with("> the\n") && second.ends_with("\n\n"), "{answers}");
    assert!(stats.contains("device    simulator") && stats.contains("prompt    "), "{stats}");
    let chat = run(&model.path, &["--chat", "--tokens", "1"], "the\n42\n");
    assert!(chat.status.success(), "{}", text(&chat.stderr));
    assert!(text(&chat.stdout).matches('\n').count() >= 2);
}

#[test]
fn a_file_that_is_missing_or_a_directory_is_an_error_with_its_name() {
    let missing = run(Path::new("no/such.gguf"), &["the"], "");
    let error = text(&missing.stderr);
    assert!(!missing.status.success() && error.starts_with("error: no/such.gguf: "), "{error}");
    let folder = run(Path::new("."), &["the"], "");
    assert!(!folder.status.success() && text(&folder.stderr).starts_with("error: .: "));
}
