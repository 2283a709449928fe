//! Requests and answers as JSON, one a line.

mod read;
mod write;

use super::error::EvalError;
use super::operations::{self, Operation};

/// Writes the answer to one request, without a line feed: `{"result": ...}` or `{"error": "..."}`.
///
/// ```
/// let mut answer = Vec::new();
/// moye_eval::answer(br#"{"op": "coalesce", "args": [{"shape": [2, 4], "stride": [1, 2]}]}"#, &mut answer);
/// assert_eq!(answer, br#"{"result":{"shape":8,"stride":1}}"#);
/// ```
pub fn answer(request: &[u8], out: &mut Vec<u8>) {
    Answerer::default().answer(request, out);
}

/// Answers requests, and reuses one buffer for all of them.
#[derive(Default)]
pub(super) struct Answerer {
    stack: read::Stack,
}

impl Answerer {
    /// See [`answer`].
    pub fn answer(&mut self, request: &[u8], out: &mut Vec<u8>) {
        match read::request(request, &mut self.stack) {
            Err(reason) => write::error(&reason, out),
            Ok(name) => {
                match operation(&name).and_then(|operation| operation.call(self.stack.values.drain(..))) {
                    Ok(value) => write::result(&value, out),
                    Err(error) => write::error(&error.to_string(), out),
                }
            }
        }
    }
}

fn operation(name: &str) -> Result<&'static Operation, EvalError> {
    Operation::named(name).ok_or_else(|| operations::unknown(name))
}

pub(super) use write::error;
