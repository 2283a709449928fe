//! PTX whose register numbers are stored as differences, as `builder/ptx/differences.rs` writes it.

use std::collections::HashMap;
use std::fmt::Write as _;

/// The PTX with register numbers.
pub(super) fn undone(encoded: &str) -> String {
    let mut numbers = HashMap::<&str, Vec<u32>>::new();
    let mut text = String::with_capacity(encoded.len() + encoded.len() / 4);
    for line in encoded.split_inclusive('\n') {
        let numbers = numbers.entry(opcode(line)).or_default();
        let mut operand = 0;
        let mut names = line.split('%');
        text.push_str(names.next().unwrap_or_default());
        for name in names {
            let (letters, rest) = name.split_at(leading(name, |c| c.is_ascii_lowercase()));
            text.push('%');
            text.push_str(letters);
            let mark = rest.chars().next().filter(|_| !letters.is_empty());
            let Some(mark @ ('~' | '^' | '#' | '!' | '\'')) = mark else {
                text.push_str(rest);
                continue;
            };
            let rest = &rest[1..];
            if mark == '\'' {
                text.push_str(rest);
                continue;
            }
            let digits = if matches!(mark, '#' | '!') { leading(rest, |c| c.is_ascii_digit()) } else { 0 };
            let (by, rest) = rest.split_at(digits);
            let by: u32 = by.parse().unwrap_or_default();
            if operand == numbers.len() {
                numbers.push(0);
            }
            let number = &mut numbers[operand];
            *number = match mark {
                '~' => number.wrapping_add(1),
                '#' => number.wrapping_add(by),
                '!' => number.wrapping_sub(by),
                _ => *number,
            };
            operand += 1;
            // Writing to a String cannot fail.
            let _ = write!(text, "{number}");
            text.push_str(rest);
        }
    }
    text
}

/// The first word of a line, up to a register.
fn opcode(line: &str) -> &str {
    let line = line.trim_start();
    &line[..leading(line, |c| !c.is_whitespace() && c != '%')]
}

/// The length of the longest prefix of characters for which `is` holds.
fn leading(text: &str, is: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is(c)).unwrap_or(text.len())
}
