//! The program `moye`.

mod commands;

use clap::Parser;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    match commands::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line, even if the causes have several.
            let line = format!("{error:#}").replace('\n', " ");
            // No stream is left to report a failure.
            let _ = writeln!(io::stderr(), "moye: {line}");
            ExitCode::FAILURE
        }
    }
}
