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
        // An extern array has no length and uses the launch's dynamic memory.
        let lengths = lengths.map(|(length, _)| number(length).unwrap_or(0));
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
