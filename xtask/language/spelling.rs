//! Misspelt words, found with the dictionary of `typos`.

use super::Fault;
use std::borrow::Cow;
use typos::tokens::{Identifier, Tokenizer, Word};
use typos::{Dictionary, Status};
use unicase::UniCase;

/// Words that the dictionary considers misspelt but that are right here, with their meaning.
const OURS: &[(&str, &str)] = &[
    ("thr", "CuTe's name of the mode of threads"),
    ("cpy", "CuTe's name of the mode of a copy"),
    ("subtile", "a tile of a tile"),
    ("setp", "an instruction of PTX"),
    ("optin", "a part of a name of the CUDA driver"),
    ("flate", "the crate flate2"),
    ("arange", "a function of NumPy and Triton"),
    ("writeable", "a flag of NumPy's arrays"),
];

/// Corrections by the list of common misspellings.
struct Misspellings;

impl Dictionary for Misspellings {
    fn correct_ident<'s>(&'s self, _: Identifier<'_>) -> Option<Status<'s>> {
        None
    }

    fn correct_word<'s>(&'s self, word: Word<'_>) -> Option<Status<'s>> {
        let word = word.token();
        if OURS.iter().any(|(ours, _)| ours.eq_ignore_ascii_case(word)) {
            return Some(Status::Valid);
        }
        let corrections = typos_dict::WORD.find(&UniCase::new(word))?;
        Some(Status::Corrections(corrections.iter().map(|word| Cow::Borrowed(*word)).collect()))
    }
}

/// The misspelt words of a file, including its code.
pub fn check(name: &str, text: &str, faults: &mut Vec<Fault>) {
    let tokenizer = Tokenizer::new();
    let (mut line, mut counted) = (1, 0);
    for typo in typos::check_str(text, &tokenizer, &Misspellings) {
        line += text[counted..typo.byte_offset].matches('\n').count();
        counted = typo.byte_offset;
        let instead = match &typo.corrections {
            Status::Corrections(words) => words.join("` or `"),
            Status::Valid | Status::Invalid => continue,
        };
        faults.push(Fault::new(name, line, format!("`{}`: write `{instead}`", typo.typo)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_is_found_in_comments_and_in_names() {
        let mut faults = Vec::new();
        check("a.rs", "fn f() {}\n// It recieves.\nlet is_seperate = 1;\n", &mut faults);
        let found: Vec<_> = faults.iter().map(|fault| fault.to_string()).collect();
        assert_eq!(found, ["a.rs:2: `recieves`: write `receives`", "a.rs:3: `seperate`: write `separate`"]);
    }

    #[test]
    fn a_word_of_ours_is_one_that_the_dictionary_has() {
        for (word, what) in OURS {
            assert!(typos_dict::WORD.find(&UniCase::new(word)).is_some(), "`{word}` needs no exception");
            assert!(!what.is_empty(), "`{word}`: say what it is");
        }
    }
}
