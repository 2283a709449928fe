//! The variables that PTX declares in shared and local memory, and their sizes.

/// A variable, or an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable<'a> {
    pub name: &'a str,
    pub bytes: usize,
    /// Its alignment in bytes.
    pub align: usize,
}

/// The variables of a declaration: three of `.shared .align 8 .v2 .f32 a, b[4], c[2][0x10]`.
pub fn variables(declaration: &str) -> impl Iterator<Item = Variable<'_>> {
    let (mut element, mut vector, mut align) = (1, 1, None);
    let mut rest = declaration.trim_start();
    while rest.starts_with('.') {
        let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        rest = after.trim_start();
        if word == ".align" {
            let (multiple, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            (align, rest) = (number(multiple), after.trim_start());
        } else if let Some(length) = word.strip_prefix(".v").and_then(number) {
            vector = length;
        } else if let Some(bytes) = type_bytes(word) {
            element = bytes;
        }
    }
    let one = usize::saturating_mul(element, vector);
    rest.split(',').map(move |variable| {
        let (name, lengths) = variable.split_once('[').unwrap_or((variable, ""));
        let lengths = lengths.split('[').filter_map(|part| part.split_once(']'));
        // An extern array has no length and takes its memory from the launch.
        let lengths = lengths.map(|(length, _)| constant(length).unwrap_or(0));
        let bytes = lengths.fold(one, usize::saturating_mul);
        Variable { name: name.trim(), bytes, align: align.unwrap_or(one).max(1) }
    })
}

/// The bytes of variables laid out one after another.
pub fn bytes_of<'a>(variables: impl IntoIterator<Item = &'a Variable<'a>>) -> usize {
    let place = |end: usize, variable: &Variable| {
        end.checked_next_multiple_of(variable.align).unwrap_or(usize::MAX).saturating_add(variable.bytes)
    };
    variables.into_iter().fold(0, place)
}

/// The variables that a module declares in shared memory outside its functions, in `text`.
pub fn shared_outside(text: &str) -> impl Iterator<Item = Variable<'_>> {
    let declared = text.split(';').filter_map(|statement| {
        let at = statement.find(".shared")?;
        // A parameter may point to shared memory.
        let is_pointer = statement[..at].trim_end().ends_with(".ptr");
        (!is_pointer && !statement[..at].contains(".extern")).then(|| &statement[at..])
    });
    declared.flat_map(variables)
}

/// An integer constant: decimal, `0x1F`, `0b101`, octal with a leading 0, each optionally with a
/// `U`.
pub fn number<T: TryFrom<u64>>(text: &str) -> Option<T> {
    let digits = text.trim().trim_end_matches(['u', 'U']);
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
        [b'0', b'b' | b'B', ..] => (&digits[2..], 2),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits, 10),
    };
    u64::from_str_radix(digits, radix).ok()?.try_into().ok()
}

/// A constant expression of unsigned integers by `+`, `-`, `*`, `/` and parentheses: `(2+1)*4`.
fn constant(text: &str) -> Option<usize> {
    let text = text.trim();
    // The last operator outside of parentheses that binds least divides the expression.
    for operators in [['+', '-'], ['*', '/']] {
        let mut depth = 0;
        for (at, character) in text.char_indices().rev() {
            match character {
                ')' => depth += 1,
                '(' => depth -= 1,
                _ if depth == 0 && operators.contains(&character) => {
                    let (left, right) = (constant(&text[..at])?, constant(&text[at + 1..])?);
                    return match character {
                        '+' => left.checked_add(right),
                        '-' => left.checked_sub(right),
                        '*' => left.checked_mul(right),
                        _ => left.checked_div(right),
                    };
                }
                _ => {}
            }
        }
    }
    match text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
        Some(inner) => constant(inner),
        None => number(text),
    }
}

/// The bytes of `.f32`, `.u8`, `.b128`, `.bf16x2`.
fn type_bytes(word: &str) -> Option<usize> {
    let digits = word.trim_start_matches(['.', 'b', 'u', 's', 'f']);
    let (bits, count) = digits.split_once('x').unwrap_or((digits, "1"));
    Some(bits.parse::<usize>().ok()? / 8 * count.parse::<usize>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_in_all_radixes() {
        for (text, value) in
            [("0", 0), ("12", 12), ("0x1F", 31), ("0X1fU", 31), ("0b101", 5), ("010", 8), (" 7U ", 7)]
        {
            assert_eq!(number::<usize>(text), Some(value), "{text}");
        }
        for text in ["", "x", "0x", "08", "-1", "N"] {
            assert_eq!(number::<usize>(text), None, "{text}");
        }
        assert_eq!(number::<u32>("0x100000000"), None);
    }

    #[test]
    fn a_length_may_be_a_constant_expression() {
        for (text, bytes) in
            [("b[4*8]", 32), ("b[(2+1)*4]", 12), ("b[ 64/(8 - 4) - 2*3 ][0x2]", 20), ("b[]", 0), ("b[4*]", 0)]
        {
            let declared = format!(".shared .b8 {text}");
            assert_eq!(variables(&declared).next().unwrap().bytes, bytes, "{text}");
        }
    }

    #[test]
    fn a_type_has_its_size() {
        for (word, bytes) in [
            (".b8", Some(1)),
            (".u64", Some(8)),
            (".f16x2", Some(4)),
            (".bf16", Some(2)),
            (".b128", Some(16)),
            (".pred", None),
            (".shared", None),
        ] {
            assert_eq!(type_bytes(word), bytes, "{word}");
        }
    }
}
