//! The progress reports and results of a command.

use anyhow::{Context, Result};
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The first failed write to standard output.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Lines with a name and a value.
pub enum Report {
    /// On standard output.
    Stdout,
    /// On standard error.
    #[cfg(feature = "run")]
    Stderr,
}

impl Report {
    /// On standard output.
    pub fn to_stdout() -> Self {
        Self::Stdout
    }

    /// On standard error, if a result may go to standard output.
    #[cfg(feature = "run")]
    pub fn to_stderr() -> Self {
        Self::Stderr
    }

    /// Prints a line. If it cannot be written, the work continues, and [`told`] reports that at the
    /// end.
    pub fn line(&mut self, name: &str, text: impl Display) {
        match self {
            Self::Stdout => keep(writeln!(io::stdout(), "{name:<8} {text}")),
            // No stream is left to report a failure.
            #[cfg(feature = "run")]
            Self::Stderr => drop(writeln!(io::stderr(), "{name:<8} {text}")),
        }
    }
}

/// Prints a result on standard output, including its newlines. If it cannot be written, the work
/// continues, and [`told`] reports that at the end.
pub fn print(text: &str) {
    let mut output = io::stdout().lock();
    // Output after the last newline would stay in the buffer until the process exits, when a
    // failure is lost.
    keep(output.write_all(text.as_bytes()).and_then(|()| output.flush()));
}

/// Stores the first failed write to standard output for [`told`].
pub fn keep(done: io::Result<()>) {
    match done {
        // The reader, `head` for example, closed the pipe.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            failed().get_or_insert(error);
        }
        _ => {}
    }
}

/// An error if a write to standard output failed.
pub fn told() -> Result<()> {
    match failed().take() {
        Some(error) => Err(error).context("cannot write to standard output"),
        None => Ok(()),
    }
}

fn failed() -> MutexGuard<'static, Option<io::Error>> {
    FAILED.lock().unwrap_or_else(PoisonError::into_inner)
}
