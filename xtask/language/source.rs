//! The prose of a file: comments, string literals, and the prose of Markdown.

/// The kind of a piece of prose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A comment: adjacent lines of comments are one piece.
    Comment,
    /// A string literal: an error message, help, or data.
    Literal,
    /// The whole file, if it is not Rust.
    Page,
}

/// A piece of prose with the number of its first line. Its line breaks are those of the file.
#[derive(Debug)]
pub struct Piece {
    pub kind: Kind,
    pub line: usize,
    pub text: String,
}

/// The pieces of a file with this name.
pub fn pieces(name: &str, text: &str) -> Vec<Piece> {
    if name.ends_with(".rs") {
        Lexer { bytes: text.as_bytes(), text, at: 0, line: 1, pieces: Vec::new() }.run()
    } else {
        vec![Piece { kind: Kind::Page, line: 1, text: text.to_owned() }]
    }
}

/// Finds comments and string literals in Rust, and skips all other tokens.
struct Lexer<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
    line: usize,
    pieces: Vec<Piece>,
}

impl Lexer<'_> {
    fn run(mut self) -> Vec<Piece> {
        while let Some(byte) = self.byte(0) {
            match byte {
                b'/' if self.byte(1) == Some(b'/') => self.line_comment(),
                b'/' if self.byte(1) == Some(b'*') => self.block_comment(),
                b'"' => self.string(),
                b'r' if self.raw_hashes().is_some() => self.raw_string(),
                b'\'' => self.quote(),
                _ => self.advance(1),
            }
        }
        self.pieces
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    /// Advances by bytes and counts their lines.
    fn advance(&mut self, count: usize) {
        let end = (self.at + count).min(self.bytes.len());
        self.line += self.bytes[self.at..end].iter().filter(|&&byte| byte == b'\n').count();
        self.at = end;
    }

    fn line_comment(&mut self) {
        let rest = &self.text[self.at..];
        let comment = rest.lines().next().unwrap_or(rest);
        let text = comment.trim_start_matches(['/', '!']);
        let above = self.text[..self.at].rsplit('\n').next().unwrap_or("");
        let is_whole_line = above.trim().is_empty();
        let line = self.line;
        match self.pieces.last_mut() {
            Some(last) if is_whole_line && last.kind == Kind::Comment && last.end() + 1 == line => {
                last.text.push('\n');
                last.text += text;
            }
            _ => self.pieces.push(Piece { kind: Kind::Comment, line, text: text.to_owned() }),
        }
        self.advance(comment.len());
    }

    fn block_comment(&mut self) {
        let (start, line, mut depth) = (self.at, self.line, 0);
        while self.at < self.bytes.len() {
            match (self.byte(0), self.byte(1)) {
                (Some(b'/'), Some(b'*')) => (depth, ()) = (depth + 1, self.advance(2)),
                (Some(b'*'), Some(b'/')) => (depth, ()) = (depth - 1, self.advance(2)),
                _ => self.advance(1),
            }
            if depth == 0 {
                break;
            }
        }
        self.push(Kind::Comment, line, start, self.at);
    }

    fn string(&mut self) {
        let line = self.line;
        self.advance(1);
        let mut text = String::new();
        let mut plain = self.at;
        loop {
            match self.byte(0) {
                // An escape separates words; a line break after it is kept.
                Some(b'\\') => {
                    text += &self.text[plain..self.at];
                    text.push(' ');
                    self.advance(1);
                    if self.byte(0) != Some(b'\n') {
                        self.advance(1);
                    }
                    plain = self.at;
                }
                Some(b'"') | None => break,
                Some(_) => self.advance(1),
            }
        }
        text += self.text.get(plain..self.at).unwrap_or("");
        self.pieces.push(Piece { kind: Kind::Literal, line, text });
        self.advance(1);
    }

    /// The number of `#` of a raw string that starts here.
    fn raw_hashes(&self) -> Option<usize> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let before = |back: usize| self.at.checked_sub(back).map(|at| self.bytes[at]);
        // `br"` and `cr"` are raw strings as well.
        let is_prefixed = matches!(before(1), Some(b'b' | b'c')) && !before(2).is_some_and(is_name);
        if before(1).is_some_and(is_name) && !is_prefixed {
            return None;
        }
        let hashes = self.bytes[self.at + 1..].iter().take_while(|&&byte| byte == b'#').count();
        (self.byte(1 + hashes) == Some(b'"')).then_some(hashes)
    }

    fn raw_string(&mut self) {
        let Some(hashes) = self.raw_hashes() else { return };
        let line = self.line;
        self.advance(hashes + 2);
        let start = self.at;
        let end = format!("\"{}", "#".repeat(hashes));
        let length = self.text[start..].find(&end).unwrap_or(self.bytes.len() - start);
        self.advance(length);
        self.push(Kind::Literal, line, start, self.at);
        self.advance(end.len());
    }

    /// A character, or the quote of a lifetime.
    fn quote(&mut self) {
        let mut characters = self.text[self.at + 1..].chars();
        match (characters.next(), characters.next()) {
            (Some('\\'), Some(escaped)) => {
                self.advance(2 + escaped.len_utf8());
                while !matches!(self.byte(0), Some(b'\'') | None) {
                    self.advance(1);
                }
                self.advance(1);
            }
            (Some(one), Some('\'')) => self.advance(2 + one.len_utf8()),
            _ => self.advance(1),
        }
    }

    fn push(&mut self, kind: Kind, line: usize, start: usize, end: usize) {
        self.pieces.push(Piece { kind, line, text: self.text[start..end].to_owned() });
    }
}

impl Piece {
    /// The number of the last line.
    fn end(&self) -> usize {
        self.line + self.text.bytes().filter(|&byte| byte == b'\n').count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(Kind, usize, String)> {
        pieces("a.rs", text).into_iter().map(|p| (p.kind, p.line, p.text.trim().to_owned())).collect()
    }

    #[test]
    fn adjacent_comment_lines_are_one_piece_and_others_are_not() {
        let text = "//! One\n//! two\n\n// Three\nlet x = 1; // four\n// five\n";
        let texts: Vec<_> = found(text).into_iter().map(|(_, line, text)| (line, text)).collect();
        let expected = [(1, "One\n two"), (4, "Three"), (5, "four\n five")];
        assert_eq!(texts, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn strings_are_found_whatever_quotes_are_around_them() {
        let text = concat!(
            "let (a, b) = ('\"', '\\'');\nfn f<'a>(x: &'a str) {}\n",
            "let c = \"say \\\"no\\\" // here\";\n",
            "let d = br##\"raw \"# text\"##; // end\n",
        );
        let expected = [
            (Kind::Literal, 3, "say  no  // here"),
            (Kind::Literal, 4, "raw \"# text"),
            (Kind::Comment, 4, "end"),
        ];
        assert_eq!(found(text), expected.map(|(kind, line, text)| (kind, line, text.to_owned())));
    }

    #[test]
    fn lines_are_counted_in_strings_and_block_comments() {
        let text = "let a = \"one \\\n  two\";\n/* three\n /* four */ five */\nlet b = \"six\";\n";
        let lines: Vec<_> = found(text).into_iter().map(|(kind, line, _)| (kind, line)).collect();
        assert_eq!(lines, [(Kind::Literal, 1), (Kind::Comment, 3), (Kind::Literal, 5)]);
    }
}
