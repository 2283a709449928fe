//! The subset of PTX's syntax that counting instructions needs: comments, blocks, statements.

/// The source without comments, both `//` to the end of a line and `/* ... */`. Newlines stay, so
/// that line numbers do not change.
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

/// The start of the next comment. One search serves both kinds, because generated source has many
/// comments of one kind and none of the other.
fn next_comment(text: &str) -> Option<usize> {
    text.match_indices('/')
        .map(|(at, _)| at)
        .find(|&at| matches!(text.as_bytes().get(at + 1), Some(b'/' | b'*')))
}

/// The block at the start of `text`, without its braces, and the rest. `None` if a brace is
/// missing.
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

/// An item of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// `NAME:`.
    Label(&'a str),
    /// The operands of `.loc`, the source position of the items after it.
    Position(&'a str),
    /// An instruction or a directive, without its semicolon.
    Statement(&'a str),
}

/// The items of a body, in order.
///
/// A brace at the start of a statement opens or closes a scope; a brace inside one belongs to a
/// vector operand.
pub fn items(body: &str) -> impl Iterator<Item = Item<'_>> {
    let mut rest = body;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '{' | '}' | ';'));
        if rest.is_empty() {
            return None;
        }
        // Only source positions end with their line.
        if rest.starts_with(".loc ") || rest.starts_with(".loc\t") {
            let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
            rest = after;
            return Some(Item::Position(line[".loc".len()..].trim()));
        }
        if let Some((label, after)) = label(rest) {
            rest = after;
            return Some(Item::Label(label));
        }
        let (statement, after) = rest.split_once(';').unwrap_or((rest, ""));
        rest = after;
        Some(Item::Statement(statement.trim_end()))
    })
}

/// The statements of a body: instructions and directives, without labels, in order.
pub fn statements(body: &str) -> impl Iterator<Item = &str> {
    items(body).filter_map(|item| match item {
        Item::Statement(statement) => Some(statement),
        Item::Label(_) | Item::Position(_) => None,
    })
}

/// The instruction of a statement without its predicate; `None` for a directive.
pub fn instruction(statement: &str) -> Option<&str> {
    if statement.starts_with('.') {
        return None;
    }
    match statement.strip_prefix('@') {
        Some(guarded) => Some(guarded.split_once(char::is_whitespace)?.1.trim_start()),
        None => Some(statement),
    }
}

/// `LABEL` and the rest after `LABEL:`, if `text` starts with a label.
fn label(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%')))?;
    let after = text[end..].trim_start();
    // `::` is part of an instruction's name (`.shared::cta`), never the end of a label.
    if end == 0 || after.starts_with("::") {
        return None;
    }
    Some((&text[..end], after.strip_prefix(':')?))
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
    fn labels_and_source_positions_stand_between_the_statements() {
        let body = "L1:\n\t.loc\t1 20 9\n\tst.shared::cta.b32 [a], b;\n\t@p bra L1;\n";
        assert_eq!(
            items(body).collect::<Vec<_>>(),
            [
                Item::Label("L1"),
                Item::Position("1 20 9"),
                Item::Statement("st.shared::cta.b32 [a], b"),
                Item::Statement("@p bra L1"),
            ]
        );
        assert_eq!(instruction("@!%p1 bra L1"), Some("bra L1"));
        assert_eq!(instruction(".reg .pred p"), None);
    }

    #[test]
    fn a_block_ends_at_its_own_brace() {
        assert_eq!(block("{ a { b } c } d"), Some((" a { b } c ", " d")));
        assert_eq!(block("{ a { b }"), None);
    }
}
