//! The program `moye`.

mod cli;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line, whatever the causes print.
            eprintln!("moye: {}", format!("{error:#}").replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}
