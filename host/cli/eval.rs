//! `moye eval`

use anyhow::{Context, Result};
use clap::Args;
use std::io::{self, Write};

/// Evaluates an expression of layouts, or answers requests.
#[derive(Args)]
#[command(after_help = after_help(), arg_required_else_help = true)]
pub struct Eval {
    /// What to evaluate: a layout, a tuple or an operation on them, which nest.
    #[arg(value_name = "EXPRESSION", allow_hyphen_values = true, required_unless_present = "jsonl")]
    expression: Option<String>,
    /// Read requests from the standard input, one JSON object a line, and answer each by a line: `{"op":
    /// "composition", "args": ["(6,2):(8,2)", {"shape": [4, 3], "stride": [3, 1]}]}` by `{"result": ...}` or
    /// `{"error": "..."}`.
    #[arg(long, conflicts_with = "expression")]
    jsonl: bool,
}

impl Eval {
    pub fn run(self) -> Result<()> {
        let mut output = io::stdout().lock();
        let done = match self.expression {
            Some(expression) => writeln!(output, "{}", moye::eval::evaluate(&expression)?),
            None => moye::eval::serve(io::stdin().lock(), output),
        };
        match done {
            // Whoever listened has what it wanted.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            done => done.context("requests could not be read or answered"),
        }
    }
}

fn after_help() -> String {
    format!(
        "An expression is a layout, (4,(2,2)):(2,(1,8)); a shape or a coordinate, (4,(2,_)); a tiler, a tuple of \
         these as in (3:4, 8:2) or <3:4, 8:2>; a swizzle, Sw<3,4,3>, or Sw<3,3,3> o 0 o (8,64):(64,1); or an \
         operation, which may also be written A o B where it is a composition. A shape alone is its compact \
         column-major layout where a layout is due, and a tiler by mode where a tiler is.\n\nOperations (`?` may be \
         left out, `...` any number):\n\n{}",
        moye::eval::help()
    )
}
