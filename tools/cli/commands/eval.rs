//! `moye eval`

use super::report;
use anyhow::{Context, Result};
use clap::Args;
use std::io;

/// Evaluates a layout expression, or answers requests.
#[derive(Args)]
// Manual line breaks: each operation stays on one line.
#[command(after_help = after_help(), arg_required_else_help = true, term_width = 0)]
pub struct Eval {
    /// Expression: a layout, a tuple or an operation on them; operations nest.
    #[arg(value_name = "EXPRESSION", allow_hyphen_values = true, required_unless_present = "jsonl")]
    expression: Option<String>,
    /// Answer requests from standard input, one JSON object for each line, with one line each.
    ///
    /// A request is {"op": "composition", "args": [{"shape": [6, 2], "stride": [8, 2]},
    /// "(4,3):(3,1)"]}, its answer {"result": ...} or {"error": "..."}.
    #[arg(long, conflicts_with = "expression")]
    jsonl: bool,
}

impl Eval {
    pub fn run(self) -> Result<()> {
        if let Some(expression) = self.expression {
            report::print(&format!("{}\n", moye_eval::evaluate(&expression)?));
            return Ok(());
        }
        match moye_eval::serve(io::stdin().lock(), io::stdout().lock()) {
            // The reader closed the pipe.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            done => done.context("requests could not be read or answered"),
        }
    }
}

fn after_help() -> String {
    format!(
        "\
An expression is
  a layout                    (4,(2,2)):(2,(1,8))
  a shape, a coordinate       (4,(2,_)); a shape is its compact column-major layout where one is needed
  a tiler                     a layout, a shape, or a tuple of them: (3:4,_,8), <3:4,_,8>
  a swizzle                   Sw<3,4,3>, S<3,4,3>, Swizzle(3,4,3)
  a composed layout           Sw<3,3,3> o 0 o (8,64):(64,1)
  what CuTe prints            gmem_ptr[32b](0x7f..) o (_32,_4):(_1,32); a swizzle before smem_ptr[16b](unset) is one of bytes
  an operation                composition((6,2):(8,2), (4,3):(3,1)), or for this one A o B
  a call                      (4,3):(3,1)(2,1), an index; make_identity_layout((4,3))(2,1), a coordinate; with `_` a slice;
                              of a composition too: (6,2):(8,2) o (4,3):(3,1)(2,1)

Operations (`?` may be left out, `...` any number):

{}",
        moye_eval::help()
    )
}
