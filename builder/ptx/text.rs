//! The little of PTX's syntax that counting instructions needs: comments, blocks, statements.

/// The text without comments. Newlines stay, so that a line keeps its number; what follows `//` on a line and what is
/// between `/*` and `*/` is gone.
pub fn without_comments(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = next_comment(rest) {
        clean.push_str(&rest[..at]);
        let comment = &rest[at..];
        let end = if comment.starts_with("//") {
            comment.find('\n').unwrap_or(comment.len())
        } else {
            comment.find("*/").map_or(comment.len(), |end| end + 2)
        };
        clean.extend(comment[..end].chars().filter(|&c| c == '\n'));
        if !comment.starts_with("//") {
            clean.push(' ');
        }
        rest = &comment[end..];
    }
    clean + rest
}

/// Where the next comment begins. One walk, as generated text is full of one kind and has none of the other.
fn next_comment(text: &str) -> Option<usize> {
    text.match_indices('/')
        .map(|(at, _)| at)
        .find(|&at| matches!(text.as_bytes().get(at + 1), Some(b'/' | b'*')))
}

/// The block that `text` starts with, without its braces, and what comes after it. `None` where a brace is missing.
pub fn block(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some((&text[1..at], &text[at + 1..]));
                }
            }
            _ => {}
        }
    }
    None
}

/// The statements of a body: instructions and directives, without labels, in order.
///
/// A brace where a statement may begin opens or closes a scope; a brace inside one belongs to a vector of operands.
pub fn statements(body: &str) -> impl Iterator<Item = &str> {
    let mut rest = body;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '{' | '}' | ';'));
            if rest.is_empty() {
                return None;
            }
            // Source positions are the one directive that ends with its line.
            if rest.starts_with(".loc ") || rest.starts_with(".loc\t") {
                rest = rest.split_once('\n').map_or("", |(_, after)| after);
                continue;
            }
            if let Some(after) = after_label(rest) {
                rest = after;
                continue;
            }
            let (statement, after) = rest.split_once(';').unwrap_or((rest, ""));
            rest = after;
            return Some(statement.trim_end());
        }
    })
}

/// What follows `LABEL:` where `text` starts with one.
fn after_label(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%')))?;
    let after = text[end..].trim_start();
    // `::` is part of an instruction's name (`.shared::cta`), never the end of a label.
    if end == 0 || after.starts_with("::") {
        return None;
    }
    after.strip_prefix(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_go_and_lines_stay() {
        assert_eq!(without_comments("a // b /* c\nd /* e\nf */ g"), "a \nd \n  g");
        assert_eq!(without_comments("a /* open"), "a  ");
    }

    #[test]
    fn a_vector_of_operands_is_no_block() {
        let body = "\n$L__BB0_1:\n\t{ .reg .pred p; setp.ne.b32 p, %r1, 0; @p ld.global.v2.f32 {%f1, %f2}, [%rd1]; }\n\tL2: ret;\n";
        let found: Vec<_> = statements(body).collect();
        assert_eq!(
            found,
            [".reg .pred p", "setp.ne.b32 p, %r1, 0", "@p ld.global.v2.f32 {%f1, %f2}, [%rd1]", "ret"]
        );
    }

    #[test]
    fn a_block_ends_at_its_own_brace() {
        assert_eq!(block("{ a { b } c } d"), Some((" a { b } c ", " d")));
        assert_eq!(block("{ a { b }"), None);
    }
}
