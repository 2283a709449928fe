//! Words that hide a term or an actor, and what to write instead.

use super::Fault;
use super::source::Piece;

/// Phrases and their replacements. A phrase may continue on the next line.
#[rustfmt::skip] // A phrase a line would be two screens.
const WORDS: &[(&[&str], &str)] = &[
    (&["nobody", "no one"], "name the actor: no thread, no caller, no kernel"),
    (
        &["whoever", "whomever", "somebody", "anybody", "someone", "anyone"],
        "name the actor: the thread, the caller, the kernel that ...",
    ),
    (&["those that", "that which", "those which"], "repeat the noun: the threads that ..."),
    (&["likewise"], "`also`, or say what holds for both"),
    (&["so many", "as many as there are"], "the number, or `N values`"),
    (
        &["lies behind", "lie behind", "what is behind", "behind it lies", "lies in front"],
        "the term: epilogue, tail, padding, the next stage; or `after`",
    ),
    (&["in front"], "`before`, or the term: prologue, prefix, leading mode"),
    (
        &["turned round", "turns round", "turn round", "turning round"],
        "transposed, swapped, reversed, inverted",
    ),
    (
        &["comes last", "come last", "goes last", "goes through last"],
        "the term: epilogue, last mode, innermost; or `is the last ...`",
    ),
    (&["would do"], "suffices, works, is enough"),
    (&["by itself", "by themselves"], "separately, alone, on its own stream, without ..."),
    (&["counts itself", "count themselves"], "increments the counter"),
    (&["asked for", "asks for", "ask for"], "requested, requires, passed, set"),
    (&["sets out", "set out"], "issue (a copy), start (a kernel)"),
    (&["is told", "are told", "told of", "tells of", "tell of"], "receives, is passed, reports"),
    (&["adds up", "added up", "add up", "adding up"], "reduce, accumulate, sum"),
    (&["goes together", "go together"], "match, have the same number of elements"),
    (&["mends", "mended", "mend", "mending"], "fix, correct"),
    (&["thereof", "therein", "whereof", "hither", "lest"], "plain words"),
    (&["all the same"], "still, even so"),
    (&["is no multiple", "is no power", "is no name"], "is not a ..."),
    (&["all else"], "the rest, other dependencies, everything except ..."),
    (&["as told"], "as the parameter, the option or the caller says"),
    (&["ordered behind"], "ordered after"),
    (&["what tells"], "name it: the variable that selects, the note that reports"),
    (
        &[
            "f16 sums", "f32 sums", "4 sums", "16 sums", "64 sums", "four sums", "its sums", "sums in f32",
            "thread's sums", "rows of sums", "column of sums", "fragment of sums", "fragments of sums",
        ],
        "accumulators",
    ),
];

/// The listed words in a piece of a file, and sentences that begin with "Of".
pub fn check(name: &str, piece: &Piece, faults: &mut Vec<Fault>) {
    // In `Of::CUDA_R_16F` it is a name.
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '`' | ':' | '\'' | '-');
    for (line, text) in (piece.line..).zip(piece.text.lines()) {
        if text.split(|c| !is_word(c)).any(|word| word == "Of") {
            let what = "`Of` begins a sentence: begin with its subject, or with `for`, `among`, `in`";
            faults.push(Fault::new(name, line, what.to_owned()));
        }
    }
    let tokens = tokens(piece);
    for (phrases, instead) in WORDS {
        for phrase in *phrases {
            let words: Vec<&str> = phrase.split(' ').collect();
            for found in tokens.windows(words.len()) {
                let is_phrase = found.iter().zip(&words).all(|((token, _), word)| token == word);
                let line = found[0].1;
                if is_phrase {
                    faults.push(Fault::new(name, line, format!("`{phrase}`: write instead {instead}")));
                }
            }
        }
    }
}

/// Words in lower case, code between backticks and single punctuation marks, with their lines.
fn tokens(piece: &Piece) -> Vec<(String, usize)> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '\'' | '-');
    let mut tokens = Vec::new();
    for (line, text) in (piece.line..).zip(piece.text.lines()) {
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let end = match (end, first) {
                // Code between backticks is one token.
                (_, '`') => rest[1..].find('`').map_or(1, |length| length + 2),
                (0, _) => first.len_utf8(),
                _ => end,
            };
            tokens.push((rest[..end].to_lowercase(), line));
            rest = rest[end..].trim_start();
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::super::source::pieces;
    use super::*;

    fn faults(text: &str) -> Vec<String> {
        let mut faults = Vec::new();
        for piece in pieces("a.rs", text) {
            check("a.rs", &piece, &mut faults);
        }
        faults.iter().map(|fault| fault.to_string()).collect()
    }

    #[test]
    fn a_phrase_is_found_across_lines_with_its_line_and_what_to_write() {
        let found = faults("fn f() {}\n/// It is the thread; those\n/// that wait are others.\n");
        assert_eq!(found, ["a.rs:2: `those that`: write instead repeat the noun: the threads that ..."]);
    }

    #[test]
    fn error_texts_and_comments_are_checked_and_code_is_not() {
        assert_eq!(faults("let nobody = f(\"Nobody waits\"); // likewise\n").len(), 2);
        assert_eq!(faults("let nobody = likewise(by_itself);\n"), [""; 0]);
    }

    #[test]
    fn punctuation_parts_a_phrase() {
        assert_eq!(faults("// if so, many tiles; no so-many\n"), [""; 0]);
        assert_eq!(faults("// if so many tiles\n").len(), 1);
        assert_eq!(faults("// the parameter `nobody` and `in front`\n"), [""; 0]);
    }

    #[test]
    fn a_sentence_begins_with_its_subject() {
        let found =
            faults("/// It is so.\n/// Of two warps one waits.\nlet a = \"Of both\"; // Of::Type, offset\n");
        assert_eq!(found.iter().filter(|fault| fault.contains("begins a sentence")).count(), 2, "{found:?}");
        assert!(found[0].starts_with("a.rs:2: "), "{found:?}");
        assert_eq!(faults("// one of two, `Of two`, Of::Two, Offsets\n"), [""; 0]);
    }

    #[test]
    fn phrases_are_written_as_they_are_compared() {
        for phrase in WORDS.iter().flat_map(|(phrases, _)| *phrases) {
            assert_eq!(**phrase, phrase.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
}
