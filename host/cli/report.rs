//! What a command tells while it works, and what it prints.

use anyhow::{Context, Result};
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The first failure to write on the standard output.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Lines of a name and what is to be said of it.
pub enum Report {
    /// On the standard output.
    Stdout,
    /// On the standard error output.
    Stderr,
}

impl Report {
    /// On the standard output.
    pub fn to_stdout() -> Self {
        Self::Stdout
    }

    /// On the standard error output, where the standard output may be taken by a result.
    pub fn to_stderr() -> Self {
        Self::Stderr
    }

    /// One line. The work goes on where it cannot be written; [`told`] says so when it is done.
    pub fn line(&mut self, name: &str, text: impl Display) {
        match self {
            Self::Stdout => keep(writeln!(io::stdout(), "{name:<8} {text}")),
            // There is no place left to tell of a failure.
            Self::Stderr => drop(writeln!(io::stderr(), "{name:<8} {text}")),
        }
    }
}

/// A result on the standard output, with its line ends. The work goes on where it cannot be
/// written; [`told`] says so when it is done.
pub fn print(text: &str) {
    let mut output = io::stdout().lock();
    // What follows the last line end would wait for the end of the process, where nobody hears of a
    // failure.
    keep(output.write_all(text.as_bytes()).and_then(|()| output.flush()));
}

/// Keeps what became of writing on the standard output for [`told`].
pub fn keep(done: io::Result<()>) {
    match done {
        // Whoever listened, `head` say, has what it wanted.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            failed().get_or_insert(error);
        }
        _ => {}
    }
}

/// An error where something could not be written on the standard output.
pub fn told() -> Result<()> {
    match failed().take() {
        Some(error) => Err(error).context("cannot write to standard output"),
        None => Ok(()),
    }
}

fn failed() -> MutexGuard<'static, Option<io::Error>> {
    FAILED.lock().unwrap_or_else(PoisonError::into_inner)
}
