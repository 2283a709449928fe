//! `moye eval`, as used by a shell and by a script.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

fn eval(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moye"));
    command.arg("eval").args(arguments);
    command
}

fn output(arguments: &[&str]) -> Output {
    eval(arguments).stdin(Stdio::null()).output().expect("the program starts")
}

fn serving() -> Child {
    eval(&["--jsonl"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts")
}

#[test]
fn an_expression_is_printed() {
    let output = output(&["composition((6,2):(8,2), (4,3):(3,1))"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"((2,2),3):((24,2),8)\n", "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_wrong_expression_fails_with_its_column() {
    let output = output(&["(4,2"]);
    assert!(!output.status.success(), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("column 5: expected `,` or `)`, found the end"), "{error}");
}

#[test]
fn a_negative_number_is_no_option() {
    let output = output(&["-3"]);
    assert_eq!(output.stdout, b"-3\n", "{output:?}");
}

#[test]
fn help_lists_the_operations() {
    let output = output(&["--help"]);
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    for operation in moye_eval::all() {
        assert!(help.contains(&operation.signature()), "{} in\n{help}", operation.signature());
    }
}

#[test]
fn a_peer_that_waits_gets_each_answer_at_once() {
    let mut child = serving();
    let mut requests = child.stdin.take().expect("a pipe");
    let answers = BufReader::new(child.stdout.take().expect("a pipe"));
    let (sender, received) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in answers.lines() {
            if sender.send(line.expect("a line")).is_err() {
                break;
            }
        }
    });
    for i in 1..20 {
        writeln!(requests, "{{\"op\":\"size\",\"args\":[[{i},3]]}}").expect("a listener");
        // The second half of this request is withheld: a finished answer must not wait for it.
        write!(requests, "{{\"op\":\"size\",").expect("a listener");
        let answer =
            received.recv_timeout(Duration::from_secs(30)).expect("an answer before the next request");
        assert_eq!(answer, format!("{{\"result\":{}}}", 3 * i));
        writeln!(requests, "\"args\":[{i}]}}").expect("a listener");
        let answer = received.recv_timeout(Duration::from_secs(30)).expect("an answer to the second request");
        assert_eq!(answer, format!("{{\"result\":{i}}}"));
    }
    drop(requests);
    reader.join().expect("the reader");
    assert!(child.wait().expect("an end").success());
}

#[test]
fn a_listener_that_leaves_ends_it_quietly() {
    let mut child = serving();
    let mut requests = child.stdin.take().expect("a pipe");
    let mut answers = BufReader::new(child.stdout.take().expect("a pipe"));
    let request = "{\"op\":\"size\",\"args\":[4]}\n";
    requests.write_all(request.as_bytes()).expect("a listener");
    let mut answer = String::new();
    answers.read_line(&mut answer).expect("an answer");
    drop(answers);
    // The program may exit before all of this is written.
    let _ = requests.write_all(request.repeat(100_000).as_bytes());
    drop(requests);
    let status = child.wait().expect("an end");
    assert_eq!(status.code(), Some(0), "a closed pipe is no failure: {status}");
}

#[test]
fn a_large_input_is_answered_while_it_is_written() {
    let mut child = serving();
    let mut requests = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || {
        let line = "{\"op\":\"composition\",\"args\":[\"(8,8):(8,1)\",\"(4,2):(2,8)\"]}\n";
        requests.write_all(line.repeat(20_000).as_bytes()).expect("a listener");
    });
    let mut text = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut text).expect("answers");
    writer.join().expect("the writer");
    assert_eq!(text.lines().count(), 20_000);
    assert!(child.wait().expect("an end").success());
}
