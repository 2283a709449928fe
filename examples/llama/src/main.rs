//! Answers prompts with a language model from a GGUF file.

mod program;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match program::run(&program::Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
