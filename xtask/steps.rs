//! Runs programs: one that must succeed, or a list of steps that may each fail, with a summary.

use anyhow::{Context, Result, bail};
use std::fmt;
use std::fs;
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

/// Runs a command quietly; an error contains its output.
pub fn quietly(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {}", name(command)))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!("{} failed ({}):\n{}", name(command), output.status, String::from_utf8_lossy(&said).trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command and returns its exit code, which becomes this program's.
pub fn exit_code(command: &mut Command) -> Result<ExitCode> {
    let status = command.status().with_context(|| format!("cannot run {}", name(command)))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// The command as typed in a shell.
pub fn name(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let mut text = program.to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text += &argument.to_string_lossy();
    }
    text
}

/// The time of a step.
#[derive(Clone, Copy)]
struct Took {
    time: Duration,
    /// The processor time of its programs, if the system reports it.
    busy: Option<Duration>,
}

impl Took {
    fn since(start: Instant, before: Option<Duration>) -> Self {
        let busy = before.zip(processor_time()).map(|(before, now)| now.saturating_sub(before));
        Self { time: start.elapsed(), busy }
    }
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.time.as_secs_f64())?;
        match self.busy {
            Some(busy) => write!(f, ", {:.1} s of processor time", busy.as_secs_f64()),
            None => Ok(()),
        }
    }
}

/// The processor time so far of this program and of the programs that it has run.
fn processor_time() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    of_stat(&stat)
}

/// The times in a line of `/proc/PID/stat`: fields 14 to 17; the state is the third. They follow
/// the program's name, which may contain spaces, and count hundredths of a second.
fn of_stat(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let times: Vec<u64> = fields.split_whitespace().skip(11).take(4).flat_map(str::parse).collect();
    (times.len() == 4).then(|| Duration::from_millis(10 * times.iter().sum::<u64>()))
}

/// The steps that have run, and their results.
#[derive(Default)]
pub struct Summary {
    steps: Vec<(&'static str, Took, Option<String>)>,
    skips: Vec<String>,
}

impl Summary {
    /// Runs one step and records its result; later steps run in either case.
    pub fn step(&mut self, title: &'static str, step: impl FnOnce() -> Result<()>) {
        eprintln!("\n== {title}");
        let (start, before) = (Instant::now(), processor_time());
        let error = step().err().map(|error| format!("{error:#}"));
        if let Some(error) = &error {
            eprintln!("error: {error}");
        }
        let took = Took::since(start, before);
        eprintln!("   ({took})");
        self.steps.push((title, took, error));
    }

    /// Records a skipped step and the reason.
    pub fn skip(&mut self, what: String) {
        eprintln!("skipped: {what}");
        self.skips.push(what);
    }

    /// Prints the results of all steps.
    pub fn finish(self) -> ExitCode {
        eprintln!("\n== summary");
        for (title, took, error) in &self.steps {
            let word = if error.is_some() { "FAILED" } else { "ok" };
            eprintln!("{word:>8}  {title} ({took})");
        }
        for what in &self.skips {
            eprintln!(" skipped  {what}");
        }
        let all = Took {
            time: self.steps.iter().map(|(_, took, _)| took.time).sum(),
            busy: self.steps.iter().map(|(_, took, _)| took.busy).sum(),
        };
        eprintln!("   total  {all}");
        if self.steps.iter().any(|(_, _, error)| error.is_some()) {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_that_of_the_program_and_of_those_it_ran() {
        // The name contains spaces and parentheses.
        let stat = "71 (a (b) c) S 1 71 71 0 -1 4194560 100 200 3 4 150 50 1000 25 20 0 1 0 88 9 1";
        assert_eq!(of_stat(stat), Some(Duration::from_millis(12_250)));
        assert_eq!(of_stat("71 (short) S 1"), None);
    }

    #[test]
    fn a_steps_time_is_printed_without_processor_time_if_the_system_has_none() {
        let mut took = Took { time: Duration::from_millis(1500), busy: None };
        assert_eq!(took.to_string(), "1.5 s");
        took.busy = Some(Duration::from_millis(2300));
        assert_eq!(took.to_string(), "1.5 s, 2.3 s of processor time");
    }
}
