//! Python literals.
//!
//! The subset of `ast.literal_eval`'s input that headers use, and Python 2's `3L`. Other
//! expressions, such as `np.int64(3)` or `1.5`, become [`Value::Other`], so that messages can show
//! them.

use std::fmt;

/// Deeper nesting is rejected before it overflows the stack.
const DEEPEST: usize = 32;

/// A literal and its source.
#[derive(Debug)]
pub struct Literal<'a> {
    pub text: &'a str,
    pub value: Value<'a>,
}

#[derive(Debug)]
pub enum Value<'a> {
    Text(String),
    /// Values that exceed 128 bits are clamped.
    Int(i128),
    Bool(bool),
    Tuple(Vec<Literal<'a>>),
    List(Vec<Literal<'a>>),
    Dict(Vec<(Literal<'a>, Literal<'a>)>),
    /// None, floats, bytes, names and calls.
    Other,
}

/// The position at which the source stops being a literal.
#[derive(Debug)]
pub struct SyntaxError {
    /// Counted from 1, in characters.
    column: usize,
    expected: &'static str,
    found: Option<char>,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { column, expected, found } = self;
        write!(f, "expected {expected} at column {column}, found ")?;
        match found {
            Some(found) => write!(f, "{found:?}"),
            None => f.write_str("the end"),
        }
    }
}

impl<'a> Literal<'a> {
    /// Parses `text`, which must be one literal.
    pub fn read(text: &'a str) -> Result<Self, SyntaxError> {
        let mut reader = Reader { text, at: 0, depth: 0 };
        let literal = reader.literal()?;
        reader.skip();
        if reader.at < text.len() {
            return Err(reader.expected("the end"));
        }
        Ok(literal)
    }
}

/// The values of a list.
struct Items<'a> {
    values: Vec<Literal<'a>>,
    /// Whether a comma follows one.
    has_comma: bool,
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn literal(&mut self) -> Result<Literal<'a>, SyntaxError> {
        self.skip();
        let start = self.at;
        if self.depth == DEEPEST {
            return Err(self.expected("fewer brackets in one another"));
        }
        self.depth += 1;
        let value = match self.next() {
            Some('(') => self.parentheses()?,
            Some('[') => Value::List(self.list('[', ']', "`,` or `]`")?.values),
            Some('{') => self.dict()?,
            Some('\'' | '"') => self.strings()?,
            Some('0'..='9' | '.' | '-' | '+') => self.number(),
            Some(first) if is_in_name(first) => self.name()?,
            _ => return Err(self.expected("a Python literal")),
        };
        self.depth -= 1;
        Ok(Literal { text: &self.text[start..self.at], value })
    }

    /// A tuple, or a value in parentheses: a comma makes it a tuple.
    fn parentheses(&mut self) -> Result<Value<'a>, SyntaxError> {
        let Items { mut values, has_comma } = self.list('(', ')', "`,` or `)`")?;
        match values.pop() {
            Some(only) if values.is_empty() && !has_comma => Ok(only.value),
            last => {
                values.extend(last);
                Ok(Value::Tuple(values))
            }
        }
    }

    /// Parses values up to `close`.
    fn list(&mut self, open: char, close: char, expected: &'static str) -> Result<Items<'a>, SyntaxError> {
        self.eat(open);
        let (mut values, mut has_comma) = (Vec::new(), false);
        while !self.eat(close) {
            values.push(self.literal()?);
            if self.eat(',') {
                has_comma = true;
            } else if !self.next_is(close) {
                return Err(self.expected(expected));
            }
        }
        Ok(Items { values, has_comma })
    }

    fn dict(&mut self) -> Result<Value<'a>, SyntaxError> {
        self.eat('{');
        let mut entries = Vec::new();
        while !self.eat('}') {
            let key = self.literal()?;
            if !self.eat(':') {
                return Err(self.expected("`:`"));
            }
            entries.push((key, self.literal()?));
            if !self.eat(',') && !self.next_is('}') {
                return Err(self.expected("`,` or `}`"));
            }
        }
        Ok(Value::Dict(entries))
    }

    /// Strings without prefixes; adjacent ones are concatenated.
    fn strings(&mut self) -> Result<Value<'a>, SyntaxError> {
        let mut all = String::new();
        loop {
            self.string(&mut all, false)?;
            let end = self.at;
            self.skip();
            if !matches!(self.next(), Some('\'' | '"')) {
                self.at = end;
                return Ok(Value::Text(all));
            }
        }
    }

    /// Appends a string, with the escapes that a type's or a field's name may contain.
    fn string(&mut self, to: &mut String, is_raw: bool) -> Result<(), SyntaxError> {
        let rest = &self.text[self.at..];
        let quote = ["'''", "\"\"\"", "'", "\""].into_iter().find(|quote| rest.starts_with(quote));
        let Some(quote) = quote else { return Err(self.expected("a string")) };
        self.at += quote.len();
        while !self.text[self.at..].starts_with(quote) {
            match self.next() {
                None => return Err(self.expected("the end of the string")),
                Some('\n') if quote.len() == 1 => return Err(self.expected("the end of the string")),
                Some('\\') if !is_raw => self.escape(to)?,
                Some(other) => {
                    to.push(other);
                    self.at += other.len_utf8();
                }
            }
        }
        self.at += quote.len();
        Ok(())
    }

    fn escape(&mut self, to: &mut String) -> Result<(), SyntaxError> {
        self.at += 1;
        let Some(escaped) = self.next() else { return Err(self.expected("an escaped character")) };
        let digits = match escaped {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        if digits > 0 {
            let code = self.text.get(self.at + 1..self.at + 1 + digits);
            let code = code.and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32);
            let Some(code) = code else { return Err(self.expected("an escape of hexadecimal digits")) };
            to.push(code);
            self.at += 1 + digits;
            return Ok(());
        }
        match escaped {
            '\n' => {}
            'n' => to.push('\n'),
            't' => to.push('\t'),
            '\\' | '\'' | '"' => to.push(escaped),
            other => to.extend(['\\', other]),
        }
        self.at += escaped.len_utf8();
        Ok(())
    }

    /// An integer, or another kind of number, which headers do not contain.
    fn number(&mut self) -> Value<'a> {
        let is_negative = self.next_is('-');
        if is_negative || self.next_is('+') {
            self.at += 1;
            self.skip();
        }
        let start = self.at;
        let is_in_number = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
        self.take_while(is_in_number);
        let digits = &self.text[start..self.at];
        // Python 2 writes long integers with an `L`, which NumPy also accepts after spaces.
        let digits = digits.strip_suffix('L').unwrap_or(digits);
        let end = self.at;
        self.skip();
        let after = &self.text[self.at..];
        match after.strip_prefix('L') {
            Some(rest) if !rest.starts_with(is_in_number) => self.at += 1,
            _ => self.at = end,
        }
        match integer(digits) {
            Some(value) => Value::Int(if is_negative { -value } else { value }),
            None => Value::Other,
        }
    }

    /// A word: a boolean, the prefix of a string, or a name with its arguments.
    fn name(&mut self) -> Result<Value<'a>, SyntaxError> {
        let start = self.at;
        self.take_while(is_in_name);
        let name = &self.text[start..self.at];
        let is_before_string = matches!(self.next(), Some('\'' | '"'));
        match name {
            "True" => return Ok(Value::Bool(true)),
            "False" => return Ok(Value::Bool(false)),
            "u" | "U" if is_before_string => return self.strings(),
            _ if is_before_string && name.len() <= 2 => {
                let mut text = String::new();
                self.string(&mut text, name.contains(['r', 'R']))?;
                let is_text = matches!(name, "r" | "R");
                return Ok(if is_text { Value::Text(text) } else { Value::Other });
            }
            _ => {}
        }
        self.take_while(|c| is_in_name(c) || c == '.');
        if self.next_is('(') {
            self.list('(', ')', "`,` or `)`")?;
        }
        Ok(Value::Other)
    }

    /// Skips spaces, line ends, comments.
    fn skip(&mut self) {
        loop {
            self.take_while(|c| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0c'));
            let rest = &self.text[self.at..];
            if rest.starts_with('#') {
                self.take_while(|c| c != '\n');
            } else if rest.starts_with("\\\n") {
                self.at += 2;
            } else {
                return;
            }
        }
    }

    fn take_while(&mut self, takes: impl Fn(char) -> bool) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches(takes).len();
    }

    fn next(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    /// Whether `token` is next, after spaces.
    fn next_is(&mut self, token: char) -> bool {
        self.skip();
        self.next() == Some(token)
    }

    fn eat(&mut self, token: char) -> bool {
        let found = self.next_is(token);
        if found {
            self.at += token.len_utf8();
        }
        found
    }

    fn expected(&self, expected: &'static str) -> SyntaxError {
        SyntaxError { column: self.text[..self.at].chars().count() + 1, expected, found: self.next() }
    }
}

fn is_in_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// An unsigned integer in Python's notation.
fn integer(digits: &str) -> Option<i128> {
    let (radix, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, &digits[2..]),
        Some("0o" | "0O") => (8, &digits[2..]),
        Some("0b" | "0B") => (2, &digits[2..]),
        _ => (10, digits),
    };
    let is_plain = !digits.is_empty() && digits.chars().all(|c| c == '_' || c.is_digit(radix));
    let is_octal_of_python_2 = radix == 10 && digits.starts_with('0') && digits.contains(|c| c != '0');
    if !is_plain || is_octal_of_python_2 {
        return None;
    }
    Some(i128::from_str_radix(&digits.replace('_', ""), radix).unwrap_or(i128::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(literal: &Literal<'_>) -> String {
        let all = |values: &[Literal<'_>]| values.iter().map(show).collect::<Vec<_>>().join(" ");
        match &literal.value {
            Value::Text(text) => format!("{text:?}"),
            Value::Int(value) => value.to_string(),
            Value::Bool(value) => value.to_string(),
            Value::Tuple(values) => format!("({})", all(values)),
            Value::List(values) => format!("[{}]", all(values)),
            Value::Dict(entries) => {
                let entries = entries.iter().map(|(key, value)| format!("{}={}", show(key), show(value)));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(" "))
            }
            Value::Other => format!("?{}", literal.text),
        }
    }

    #[test]
    fn literals_are_read_as_python_reads_them() {
        for (text, expected) in [
            ("(3, 4)", "(3 4)"),
            ("(184)", "184"),
            ("(184,)", "(184)"),
            ("()", "()"),
            ("(3L, 4L,)", "(3 4)"),
            ("(3 L, 0x1f, 0o17, 0b11, 1_000, 000)", "(3 31 15 3 1000 0)"),
            ("(-3, + 4)", "(-3 4)"),
            ("03", "?03"),
            ("1.5", "?1.5"),
            ("1e3", "?1e3"),
            ("None", "?None"),
            ("np.int64(3)", "?np.int64(3)"),
            ("'<f4'", "\"<f4\""),
            ("u'<f4'", "\"<f4\""),
            ("r'a\\n'", "\"a\\\\n\""),
            ("b'<f4'", "?b'<f4'"),
            ("'''<f4'''", "\"<f4\""),
            ("'<' \"f4\"", "\"<f4\""),
            ("'\\x73hape'", "\"shape\""),
            ("[('x', '<f4')]", "[(\"x\" \"<f4\")]"),
            ("{'a': True, 'b': False}", "{\"a\"=true \"b\"=false}"),
            ("{'a':\n1, # one\n'b'\t:\r\n2,\n}\n  # end", "{\"a\"=1 \"b\"=2}"),
            ("999999999999999999999999999999999999999999999", "170141183460469231731687303715884105727"),
        ] {
            assert_eq!(show(&Literal::read(text).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn errors_name_what_is_expected_and_where() {
        for (text, expected) in [
            ("", "expected a Python literal at column 1, found the end"),
            ("(3,, 4)", "expected a Python literal at column 4, found ','"),
            ("(3 4)", "expected `,` or `)` at column 4, found '4'"),
            ("(3, 4", "expected `,` or `)` at column 6, found the end"),
            ("{'a' 1}", "expected `:` at column 6, found '1'"),
            ("{'a': 2+2}", "expected `,` or `}` at column 8, found '+'"),
            ("'abc", "expected the end of the string at column 5, found the end"),
            ("{}\0", "expected the end at column 3, found '\\0'"),
        ] {
            assert_eq!(Literal::read(text).unwrap_err().to_string(), expected, "{text}");
        }
        let deep = "(".repeat(100_000);
        assert!(Literal::read(&deep).unwrap_err().to_string().contains("fewer brackets"));
    }
}
