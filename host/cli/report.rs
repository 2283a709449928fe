//! What a command tells while it works.

use std::fmt::Display;
use std::io::{self, Write};

/// Lines of a name and what is to be said of it.
pub struct Report(Box<dyn Write>);

impl Report {
    /// On the standard output.
    pub fn to_stdout() -> Self {
        Self(Box::new(io::stdout()))
    }

    /// On the standard error output, where the standard output may be taken by a result.
    pub fn to_stderr() -> Self {
        Self(Box::new(io::stderr()))
    }

    /// One line.
    pub fn line(&mut self, name: &str, text: impl Display) {
        // Nobody may be listening any more, which is no reason to stop the work.
        let _ = writeln!(self.0, "{name:<8} {text}");
    }
}
