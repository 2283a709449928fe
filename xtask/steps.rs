//! Runs programs: one that must succeed, or a list of steps of which each may fail, with a summary.

use anyhow::{Context, Result, bail};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Runs a command with this program's output.
pub fn must(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {}", name(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", name(command));
    }
    Ok(())
}

/// Runs a command quietly; what it said is part of the error.
pub fn quietly(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {}", name(command)))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!("{} failed ({}):\n{}", name(command), output.status, String::from_utf8_lossy(&said).trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command, whose exit code becomes this program's.
pub fn exit_code(command: &mut Command) -> Result<ExitCode> {
    let status = command.status().with_context(|| format!("cannot run {}", name(command)))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// The command as one would type it.
pub fn name(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let mut text = program.to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text += &argument.to_string_lossy();
    }
    text
}

/// Steps that were run, and what came of each.
#[derive(Default)]
pub struct Summary {
    steps: Vec<(&'static str, Duration, Option<String>)>,
    skips: Vec<String>,
}

impl Summary {
    /// Runs one step and notes how it went; the steps after it run either way.
    pub fn step(&mut self, title: &'static str, step: impl FnOnce() -> Result<()>) {
        eprintln!("\n== {title}");
        let start = Instant::now();
        let error = step().err().map(|error| format!("{error:#}"));
        if let Some(error) = &error {
            eprintln!("error: {error}");
        }
        self.steps.push((title, start.elapsed(), error));
    }

    /// Notes what was left out and why.
    pub fn skip(&mut self, what: String) {
        eprintln!("skipped: {what}");
        self.skips.push(what);
    }

    /// Prints what came of all steps.
    pub fn finish(self) -> ExitCode {
        eprintln!("\n== summary");
        for (title, time, error) in &self.steps {
            let word = if error.is_some() { "FAILED" } else { "ok" };
            eprintln!("{word:>8}  {title} ({:.1} s)", time.as_secs_f64());
        }
        for what in &self.skips {
            eprintln!(" skipped  {what}");
        }
        if self.steps.iter().any(|(_, _, error)| error.is_some()) {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }
}
