//! Errors that the compilation for the GPU found in a kernel, reported at the kernel's tokens.
//!
//! Constants of generic code, such as checks of layouts, are evaluated only in code generation, and
//! so not by `cargo check`. The build script of a crate that compiles its own kernels
//! (`moye_build::PtxBuilder`) has generated code for the GPU, and writes such errors to files in
//! its `OUT_DIR`: one per line, with the message and the file, line and column of each location,
//! separated by tabs.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::quote_spanned;
use std::env;
use std::fs;
use std::path::PathBuf;

/// The errors located at tokens of an item, as `compile_error!`s there.
pub fn of(item: &TokenStream) -> TokenStream {
    let Some(errors) = recorded() else { return TokenStream::new() };
    let mut tokens = vec![Token::of(Span::call_site())];
    flatten(item.clone(), &mut tokens);
    let tokens: Vec<Token> = tokens.into_iter().flatten().collect();
    errors.iter().filter_map(|error| error.at(&tokens)).collect()
}

/// An error of the compilation for the GPU.
struct Recorded {
    message: String,
    /// File, line and column.
    places: Vec<(PathBuf, usize, usize)>,
}

/// The errors of the crate being compiled; `None` if there are none.
fn recorded() -> Option<Vec<Recorded>> {
    // rust-analyzer expands macros outside the compiler, and shows the compiler's errors.
    if !proc_macro::is_available() {
        return None;
    }
    let (out_dir, krate) = (env::var_os("OUT_DIR")?, env::var("CARGO_CRATE_NAME").ok()?);
    let mut errors = Vec::new();
    for entry in fs::read_dir(out_dir).ok()? {
        let path = entry.ok()?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(&format!("{krate}.")) && name.ends_with(".kernel-errors") {
            let text = fs::read_to_string(&path).ok()?;
            errors.extend(text.lines().filter_map(Recorded::parse));
        }
    }
    (!errors.is_empty()).then_some(errors)
}

impl Recorded {
    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.split('\t');
        let message = unescaped(parts.next()?);
        let rest: Vec<&str> = parts.collect();
        let places = rest.chunks_exact(3).filter_map(|place| {
            Some((PathBuf::from(place[0]), place[1].parse().ok()?, place[2].parse().ok()?))
        });
        Some(Self { message, places: places.collect() })
    }

    /// The error at its token, if the tokens contain one of its locations.
    fn at(&self, tokens: &[Token]) -> Option<TokenStream> {
        let token = self.places.iter().find_map(|(file, line, column)| {
            let place = (*line, *column);
            let own = || tokens.iter().filter(|token| token.file == *file);
            let is_inside = own().any(|token| token.place >= place);
            own().filter(|token| token.place <= place).max_by_key(|token| token.place).filter(|_| is_inside)
        })?;
        let message = &self.message;
        Some(quote_spanned! { token.span => ::core::compile_error! { #message } })
    }
}

fn unescaped(text: &str) -> String {
    let mut characters = text.chars();
    let mut plain = String::new();
    while let Some(c) = characters.next() {
        plain.push(match c {
            '\\' => match characters.next() {
                Some('n') => '\n',
                other => other.unwrap_or('\\'),
            },
            other => other,
        });
    }
    plain
}

/// A token in a source file.
struct Token {
    span: Span,
    file: PathBuf,
    /// Its line and column.
    place: (usize, usize),
}

impl Token {
    fn of(span: Span) -> Option<Self> {
        let place = span.unwrap();
        let file = fs::canonicalize(place.local_file()?).ok()?;
        Some(Self { span, file, place: (place.line(), place.column()) })
    }
}

fn flatten(tokens: TokenStream, all: &mut Vec<Option<Token>>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                all.push(Token::of(group.span_open()));
                flatten(group.stream(), all);
                all.push(Token::of(group.span_close()));
            }
            token => all.push(Token::of(token.span())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_error_has_its_message_and_all_its_places() {
        let error = Recorded::parse("two\\nlines of C:\\\\x\t/a/lib.rs\t3\t5\t/a/lib.rs\t9\t1").unwrap();
        assert_eq!(error.message, "two\nlines of C:\\x");
        assert_eq!(error.places, [(PathBuf::from("/a/lib.rs"), 3, 5), (PathBuf::from("/a/lib.rs"), 9, 1)]);
        assert!(of(&TokenStream::new()).is_empty(), "outside the compiler there are none");
    }
}
