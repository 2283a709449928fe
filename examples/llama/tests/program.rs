//! The program, on the simulator.

use crate::model::{GREEDY, PLAIN, answers};
use crate::synthetic::{self, CONTEXT};
use moye::Device;
use moye_llama::engine::Engine;
use moye_llama::gguf::Gguf;
use moye_llama::model::Model;
use moye_llama::template::{Template, Turn};
use moye_llama::vocabulary::Vocabulary;
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
fn a_prompt_has_the_greedy_answer_of_the_library() {
    let model = synthetic::model("qwen2");
    let file = Gguf::open(&model.path).unwrap();
    let vocabulary = Vocabulary::of(&file).unwrap();
    let template = Template::of(&file, &vocabulary).unwrap().unwrap();
    let turn = Turn { role: "user", content: "the".to_owned() };
    let prompt = vocabulary.encode(&template.prompt(&[turn]).unwrap(), false).unwrap();
    let of_library = Model::load(&Device::sim(), &file, CONTEXT, |_, _| ()).unwrap();
    let mut engine = Engine::new(of_library, PLAIN, GREEDY).unwrap();
    let tokens = answers(&mut engine, &[prompt], 3).remove(0);
    let wanted: Vec<_> = tokens.into_iter().take_while(|&token| !vocabulary.ends(token)).collect();
    let answer = run(&model.path, &["--tokens", "3", "the"], "");
    assert!(answer.status.success(), "{}", text(&answer.stderr));
    // A character that is incomplete at the end is not printed.
    let trimmed = |text: &str| text.trim_end_matches(['\u{fffd}', '\n', ' ']).to_owned();
    assert_eq!(trimmed(&text(&answer.stdout)), trimmed(&vocabulary.decode(&wanted).unwrap()));
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
    let chat = run(&model.path, &["--chat", "--tokens", "1", "--stats"], "the\n\n42\n");
    let (answers, stats) = (text(&chat.stdout), text(&chat.stderr));
    assert!(chat.status.success(), "{stats}");
    // The second turn reads what the first one, whose tokens are in the cache, did not.
    let turn = |role, content: &str| Turn { role, content: content.to_owned() };
    let turns = [turn("user", "the"), turn("assistant", answers.lines().next().unwrap()), turn("user", "42")];
    let file = Gguf::open(&model.path).unwrap();
    let vocabulary = Vocabulary::of(&file).unwrap();
    let all = Template::of(&file, &vocabulary).unwrap().unwrap().prompt(&turns).unwrap();
    let tokens = vocabulary.encode(&all, false).unwrap().len();
    assert!(stats.contains(&format!("prompt    {} tokens", tokens - 2)), "{tokens} of {all:?}: {stats}");
}

#[test]
fn impossible_requests_are_errors_with_their_values() {
    let model = synthetic::model("qwen2");
    let prompts = model.path.with_file_name("prompts.txt");
    fs::write(&prompts, format!("the\n\n{}\n", "the ".repeat(CONTEXT))).unwrap();
    let missing = Path::new("no/such.gguf");
    for (model, arguments, wanted) in [
        (&*model.path, &["--batch", prompts.to_str().unwrap()][..], ", line 3: a prompt of "),
        (&model.path, &["--context", "3", "the"], " and an answer of 1: the context has 3, and the cache 64"),
        // Before the model is loaded.
        (
            missing,
            &["--temperature", "NaN", "the"],
            "error: temperature NaN and top-p 1: a temperature from 0",
        ),
        (missing, &["--temperature=-1", "the"], "error: temperature -1 and top-p 1: "),
        (missing, &["--top-p", "1.5", "the"], "error: temperature 0 and top-p 1.5: "),
        (missing, &["--tokens", "0", "the"], "0 is not in 1.."),
        (missing, &[], "required arguments were not provided"),
    ] {
        let refused = run(model, arguments, "");
        let error = text(&refused.stderr);
        assert!(!refused.status.success() && error.contains(wanted), "{arguments:?}: {error}");
        assert_eq!(text(&refused.stdout), "", "no answer before the error");
    }
}

#[test]
fn a_closed_output_is_an_error() {
    let model = synthetic::model("qwen2");
    let mut program = program();
    program.arg("--model").arg(&model.path).args(["--device", "sim", "--tokens", "1", "the"]);
    let mut running = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(running.stdout.take());
    let ended = running.wait_with_output().unwrap();
    let error = text(&ended.stderr);
    assert!(ended.status.code() == Some(1) && error.starts_with("error: standard output: "), "{error}");
}

#[test]
fn a_file_that_is_missing_or_a_directory_is_an_error_with_its_name() {
    let missing = run(Path::new("no/such.gguf"), &["the"], "");
    let error = text(&missing.stderr);
    assert!(!missing.status.success() && error.starts_with("error: no/such.gguf: "), "{error}");
    let folder = run(Path::new("."), &["the"], "");
    assert_eq!(text(&folder.stderr), "error: .: it is not a regular file\n");
}
