//! One request for each line of input, one answer for each line of output.

use std::io::{self, BufRead, BufReader, Read, Write};

use super::json;

/// The number of bytes read and written at a time.
const BUFFER: usize = 64 * 1024;

/// The longest line that is parsed as a request.
const LONGEST_LINE: u64 = 1024 * 1024;

/// Answers each line of `input` with a line of `output`, in order, until the input ends.
///
/// A line that is not a request, including an empty line and one above 1 MiB, is answered by an
/// error, and the next line follows. Answers are written when many have accumulated or no further
/// line has arrived, so a peer that waits for an answer gets it immediately.
///
/// # Errors
/// Reading or writing fails.
pub fn serve(input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut input = BufReader::with_capacity(BUFFER, input);
    let mut answerer = json::Answerer::default();
    let mut line = Vec::new();
    let mut answers = Vec::with_capacity(2 * BUFFER);
    loop {
        let must_wait = !input.buffer().contains(&b'\n');
        if must_wait && !answers.is_empty() || answers.len() >= BUFFER {
            output.write_all(&answers)?;
            output.flush()?;
            answers.clear();
        }
        line.clear();
        if input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.len() as u64 == LONGEST_LINE && line.last() != Some(&b'\n') {
            input.skip_until(b'\n')?;
            json::error(&format!("a line has at most {LONGEST_LINE} bytes"), &mut answers);
        } else {
            answerer.answer(&line, &mut answers);
        }
        answers.push(b'\n');
    }
    output.write_all(&answers)?;
    output.flush()
}
