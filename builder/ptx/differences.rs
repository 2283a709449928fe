//! PTX whose register numbers are stored as differences, which packs to half the size.
//!
//! Unrolled code repeats an instruction with numbers that change by a constant: `mov.b32 %r16,
//! %r9;` then `mov.b32 %r17, %r8;`. A number is written as its difference from the number of the
//! same operand in the last line with the same opcode, so that such lines become equal. The letters
//! of a register's name are followed by
//! - `~`: one more,
//! - `^`: the same number,
//! - `#N`: N more, `!N`: N less,
//! - `'` and one of these five characters: that character.
//!
//! `host/ptx/differences.rs` has the inverse.

use std::collections::HashMap;
use std::fmt::Write as _;

/// LLVM's comments around inline assembly: most lines of a module. They are omitted.
const MARKS: [&str; 2] = ["// begin inline asm", "// end inline asm"];

/// The PTX with differences.
pub(super) fn of(text: &str) -> String {
    let mut numbers = HashMap::<&str, Vec<u32>>::new();
    let mut encoded = String::with_capacity(text.len());
    for line in text.split_inclusive('\n').filter(|line| !MARKS.contains(&line.trim())) {
        let numbers = numbers.entry(opcode(line)).or_default();
        let mut operand = 0;
        let mut names = line.split('%');
        encoded.push_str(names.next().unwrap_or_default());
        for name in names {
            let (letters, rest) = name.split_at(name.len() - name.trim_start_matches(is_letter).len());
            encoded.push('%');
            encoded.push_str(letters);
            match number(rest) {
                Some((number, rest)) if !letters.is_empty() => {
                    if operand == numbers.len() {
                        numbers.push(0);
                    }
                    let last = std::mem::replace(&mut numbers[operand], number);
                    operand += 1;
                    // Writing to a String cannot fail.
                    let _ = match i64::from(number) - i64::from(last) {
                        1 => encoded.write_char('~'),
                        0 => encoded.write_char('^'),
                        more @ 2.. => write!(encoded, "#{more}"),
                        less => write!(encoded, "!{}", -less),
                    };
                    encoded.push_str(rest);
                }
                _ => {
                    if !letters.is_empty() && rest.starts_with(['~', '^', '#', '!', '\'']) {
                        encoded.push('\'');
                    }
                    encoded.push_str(rest);
                }
            }
        }
    }
    encoded
}

/// The first word of a line, up to a register.
fn opcode(line: &str) -> &str {
    let line = line.trim_start();
    &line[..line.find(|c: char| c.is_whitespace() || c == '%').unwrap_or(line.len())]
}

fn is_letter(c: char) -> bool {
    c.is_ascii_lowercase()
}

/// The number at the start of the text, and the rest. A number with leading zeros, or with more
/// than nine digits, stays as it is.
fn number(text: &str) -> Option<(u32, &str)> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let is_plain = (1..=9).contains(&digits) && (digits == 1 || !text.starts_with('0'));
    is_plain.then(|| Some((text[..digits].parse().ok()?, &text[digits..]))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_unrolled_code_are_equal() {
        let text = "\
\tmov.b32 \t%r16, %r9;
\tmov.b32 \t%r17, %r8;
\tmov.b32 \t%r18, %r7;
\t// begin inline asm
\tadd.s32 %r18, %r18, %r3;
\t// end inline asm
\t@%p12 bra \t$L__BB0_2;
\tmov.b32 \t%r19, %r7;
";
        let expected = "\
\tmov.b32 \t%r#16, %r#9;
\tmov.b32 \t%r~, %r!1;
\tmov.b32 \t%r~, %r!1;
\tadd.s32 %r#18, %r#18, %r#3;
\t@%p#12 bra \t$L__BB0_2;
\tmov.b32 \t%r~, %r^;
";
        assert_eq!(of(text), expected);
    }

    #[test]
    fn names_without_a_plain_number_stay() {
        let text = ".reg .b32 %r<5>;\nmov.u32 %r001, %tid.x, %SP, %r1234567890, %%5;\n";
        assert_eq!(of(text), text);
        assert_eq!(of("a %r~ %r^2 %p' %~"), "a %r'~ %r'^2 %p'' %~");
    }
}
