//! Splits a PTX module into entry points, so that the driver compiles only the launched ones.
//!
//! The driver's compiler takes long for a module of many kernels, and a program launches few of
//! them. An entry point in the stock compiler's output is independent: it refers only to
//! declarations before the first entry point, and calls nothing.

use std::ops::Range;

/// A module with independent, consecutive entry points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The part before the first entry point: version, target, variables.
    pub preamble: Range<usize>,
    /// The entry points: name and source.
    pub entries: Vec<(Range<usize>, Range<usize>)>,
}

impl Split {
    /// The entry points of a module. `None` if other code follows one of them, such as a function
    /// that it may call, or if there are none.
    pub fn of(text: &str) -> Option<Self> {
        let mut entries = Vec::new();
        let mut end = 0;
        let mut preamble = None;
        while let Some((start, name)) = next_entry(text, end) {
            if preamble.is_none() {
                preamble = Some(0..start);
            } else if !is_blank(&text[end..start]) {
                return None;
            }
            end = end_of_body(text, name.end)?;
            entries.push((name, start..end));
        }
        if !is_blank(&text[end..]) {
            return None;
        }
        Some(Self { preamble: preamble?, entries })
    }
}

/// The start of the next entry point's line, and the entry's name.
fn next_entry(text: &str, from: usize) -> Option<(usize, Range<usize>)> {
    const ENTRY: &str = ".entry";
    text[from..].match_indices(ENTRY).find_map(|(at, _)| {
        let at = from + at;
        let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
        if is_comment(&text[line..at]) {
            return None;
        }
        let after = &text[at + ENTRY.len()..];
        let name = at + ENTRY.len() + (after.len() - after.trim_start().len());
        let length = text[name..].find(ends_name)?;
        Some((line, name..name + length))
    })
}

/// The end of the next body: its closing brace.
fn end_of_body(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut depth = 0usize;
    let mut at = from;
    while at < bytes.len() {
        match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => {
                at += text[at..].find('\n')?;
                continue;
            }
            b'/' if bytes[at..].starts_with(b"/*") => {
                at += text[at..].find("*/")? + 2;
                continue;
            }
            // A declaration without a body.
            b';' if depth == 0 => return None,
            b'{' => depth += 1,
            b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Whether a character cannot belong to a name.
fn ends_name(c: char) -> bool {
    !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%'))
}

/// Whether the source after `before` is in a comment to the end of the line.
fn is_comment(before: &str) -> bool {
    before.rsplit('\n').next().is_some_and(|line| line.contains("//"))
}

/// Whether the source has only comments, each on one line.
fn is_blank(text: &str) -> bool {
    text.lines().all(|line| {
        let line = line.trim();
        line.is_empty() || line.starts_with("//")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
//
.version 8.0
.target sm_90a
.extern .shared .align 16 .b8 moye_shared[];
.global .b8 table[2] = {1, 2};
\t// .globl\tfirst  // -- Begin function first
.visible .entry first(
\t.param .u64 first_param_0 // a comment; with {a brace
)
.maxntid 256
{
\t{ ret; }
}
                                        // -- End function
\t// .globl\tsecond
.visible .entry second() { /* } */ ret; }
";

    #[test]
    fn entry_points_are_found_with_their_names_and_bodies() {
        let split = Split::of(TEXT).unwrap();
        let preamble = &TEXT[split.preamble.clone()];
        assert!(preamble.contains(".target sm_90a") && preamble.contains("table[2]"), "{preamble}");
        let [first, second] = &split.entries[..] else { panic!("{split:?}") };
        assert_eq!((&TEXT[first.0.clone()], &TEXT[second.0.clone()]), ("first", "second"));
        let body = &TEXT[first.1.clone()];
        assert!(body.contains("first_param_0") && body.ends_with("\t{ ret; }\n}"), "{body}");
        assert_eq!(&TEXT[second.1.clone()], ".visible .entry second() { /* } */ ret; }");
    }

    #[test]
    fn texts_with_more_than_entry_points_are_left_whole() {
        for text in [
            "",
            ".version 8.0\n",
            ".entry a() { ret; }\n.func f() { ret; }\n.entry b() { ret; }\n",
            ".entry a() { ret; }\n.func f() { ret; }\n",
            ".entry a() { ret; }\n.global .u32 x;\n",
            ".entry a();\n.entry b() { ret; }\n",
            ".entry a() { ret;",
        ] {
            assert_eq!(Split::of(text), None, "{text}");
        }
    }
}
