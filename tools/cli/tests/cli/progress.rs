//! Progress bars: drawn on a terminal, and nowhere else.

use crate::{command, succeeded};
use nix::pty::{OpenptyResult, Winsize, openpty};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Output, Stdio};
use tempfile::TempDir;

/// Multiplies random matrices on the simulator, which takes a moment; standard error goes to
/// `stderr`.
fn matmul(folder: &Path, stderr: Stdio) -> Output {
    let mut work = command(folder, &["matmul"]);
    work.env("TERM", "xterm").env_remove("NO_COLOR").stdout(Stdio::piped()).stderr(stderr);
    work.spawn().unwrap().wait_with_output().unwrap()
}

/// Everything that was written to a terminal whose other side is closed.
fn shown(terminal: File) -> String {
    let mut bytes = Vec::new();
    match (&terminal).read_to_end(&mut bytes) {
        // Linux reports a closed terminal by this error.
        Err(error) if error.raw_os_error() == Some(nix::libc::EIO) => {}
        result => drop(result.unwrap()),
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_terminal_shows_a_bar_while_the_simulator_runs_and_none_when_it_is_done() {
    let folder = TempDir::new().unwrap();
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let OpenptyResult { master, slave } = openpty(Some(&size), None).unwrap();
    let reader = std::thread::spawn(move || shown(master.into()));
    let output = matmul(folder.path(), slave.into());
    let shown = reader.join().unwrap();

    let said = succeeded(&output);
    assert!(said.contains("TFLOP/s"), "the result is where it is without a terminal: {said}");
    // A 256 x 256 C in tiles of 128 x 128.
    assert!(shown.contains("running") && shown.contains("4/4 blocks"), "the bar counts blocks: {shown:?}");
    assert!(shown.contains('█'), "it has a part that is done: {shown:?}");
    let cleared = shown.rfind("\u{1b}[2K").unwrap_or_else(|| panic!("a line is cleared: {shown:?}"));
    assert_eq!(shown[cleared..].trim_end(), "\u{1b}[2K", "nothing of it is left at the end: {shown:?}");
}

#[test]
fn what_is_no_terminal_shows_nothing() {
    let folder = TempDir::new().unwrap();
    let output = matmul(folder.path(), Stdio::piped());
    succeeded(&output);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    let (file, path) = tempfile::NamedTempFile::new_in(folder.path()).unwrap().into_parts();
    succeeded(&matmul(folder.path(), file.into()));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "", "a file is none either");
}
