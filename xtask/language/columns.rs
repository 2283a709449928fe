//! The length of lines of comments, docstrings and prose.

use super::Fault;

/// The maximum columns of a comment or Python docstring.
const COMMENT: usize = 100;
/// The maximum columns of a line of code with a trailing comment: the width of code.
const CODE: usize = 110;
/// The maximum columns of a wrapped paragraph of Markdown.
const PROSE: usize = 120;

/// The lines of a file that are too long.
pub fn check(name: &str, text: &str, faults: &mut Vec<Fault>) {
    if name.ends_with(".md") {
        markdown(name, text, faults);
    } else {
        comments(name, text, faults);
        if name.starts_with("python/") && name.ends_with(".py") {
            docstrings(name, text, faults);
        }
    }
}

fn comments(name: &str, text: &str, faults: &mut Vec<Fault>) {
    let mark = if name.ends_with(".rs") { "//" } else { "#" };
    let mut in_fence = false;
    for (line, text) in (1..).zip(text.lines()) {
        let Some(at) = text.find(mark) else {
            in_fence = false;
            continue;
        };
        let comment = text[at..].trim_start_matches(['/', '!', '#']).trim();
        let is_whole_line = text[..at].trim().is_empty();
        in_fence = is_whole_line && in_fence != comment.starts_with("```");
        let limit = if is_whole_line { COMMENT } else { CODE };
        // A mark after an odd number of quotes is part of a string. The modes of a tensor stay on
        // its line, as in CuTe: `// (CPY, CPY_M, CPY_K)`.
        let is_after_code =
            mark == "//" && text[..at].matches('"').count() % 2 == 0 && !comment.starts_with('(');
        let is_text = is_whole_line || is_after_code;
        let columns = text.chars().count();
        if is_text && columns > limit && !in_fence && !is_unbreakable(comment) {
            faults.push(Fault::new(
                name,
                line,
                format!("a comment with {columns} columns; wrap it at {limit}"),
            ));
        }
    }
}

/// A string is a docstring if its line begins with it. Examples keep the lines of their code.
fn docstrings(name: &str, text: &str, faults: &mut Vec<Fault>) {
    // The multi-line string that contains the line: whether it is a docstring.
    let mut open = None;
    for (line, text) in (1..).zip(text.lines()) {
        let begins = text.trim_start().trim_start_matches('r').starts_with("\"\"\"");
        let is_docstring = open.unwrap_or(begins);
        if text.matches("\"\"\"").count() % 2 == 1 {
            open = open.is_none().then_some(begins);
        }
        let columns = text.chars().count();
        let is_example = text.trim_start().starts_with(">>>");
        if is_docstring && columns > COMMENT && !is_example && !is_unbreakable(text) {
            let what = format!("a docstring with {columns} columns; wrap it at {COMMENT}");
            faults.push(Fault::new(name, line, what));
        }
    }
}

fn markdown(name: &str, text: &str, faults: &mut Vec<Fault>) {
    let lines: Vec<&str> = text.lines().collect();
    let mut in_fence = false;
    for (at, line) in lines.iter().enumerate() {
        let is_fence = line.trim_start().starts_with("```");
        in_fence = in_fence != is_fence;
        let columns = line.chars().count();
        if in_fence || is_fence || columns <= PROSE || is_unbreakable(line) {
            continue;
        }
        // A paragraph of one line may have any length.
        let above = at.checked_sub(1).map_or("", |above| lines[above]);
        let below = lines.get(at + 1).copied().unwrap_or("");
        let is_joined =
            !is_start(line) && !ends_paragraph(above) || !is_start(below) && !ends_paragraph(below);
        if is_joined {
            let what = format!("a line of a paragraph has {columns} columns; wrap it at {PROSE}");
            faults.push(Fault::new(name, at + 1, what));
        }
    }
}

/// A paragraph starts at a line like this, whatever is above.
fn is_start(line: &str) -> bool {
    let text = line.trim_start();
    let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    ["- ", "* ", "> ", "#"].iter().any(|mark| text.starts_with(mark))
        || (digits.len() < text.len() && digits.starts_with(". "))
}

/// A line that does not belong to the adjacent paragraph.
fn ends_paragraph(line: &str) -> bool {
    let text = line.trim_start();
    text.is_empty() || ["```", "|", "#", "<", "!["].iter().any(|mark| text.starts_with(mark))
}

/// Rows of tables, addresses, and lines without a place to break.
fn is_unbreakable(text: &str) -> bool {
    let text = text.trim();
    text.starts_with('|')
        || text.contains("://")
        || (text.starts_with('[') && text.contains("]: "))
        || text.split_whitespace().count() < 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(name: &str, text: &str) -> Vec<String> {
        let mut faults = Vec::new();
        check(name, text, &mut faults);
        faults.iter().map(|fault| fault.to_string()).collect()
    }

    #[test]
    fn a_comment_ends_at_column_100() {
        let words = "word ".repeat(20); // 100 columns, the last of them a space
        assert_eq!(faults("a.rs", &format!("// {}\n", &words[..97])), [""; 0]);
        let long = faults("a.rs", &format!("fn f() {{}}\n    /// {}\n", &words[..99]));
        assert_eq!(long, ["a.rs:2: a comment with 107 columns; wrap it at 100"]);
        assert_eq!(faults("a.py", &format!("# {words}a\n")).len(), 1);
    }

    #[test]
    fn code_with_a_comment_ends_at_column_110() {
        let words = "word ".repeat(20);
        assert_eq!(faults("a.rs", &format!("f(); // {words}\n")), [""; 0]);
        assert_eq!(faults("a.rs", &format!("f(); // {words}and more\n")).len(), 1);
        assert_eq!(faults("a.rs", &format!("let {} = 1; // (CPY, CPY_M)\n", "tA".repeat(50))), [""; 0]);
    }

    #[test]
    fn a_docstring_of_python_ends_at_column_100() {
        let (short, long) = ("word ".repeat(18), "word ".repeat(21));
        assert_eq!(
            faults("python/a.py", &format!("def f():\n    \"\"\"{short}\n\n    {short}\"\"\"\n")),
            [""; 0]
        );
        let text =
            format!("def f():\n    \"\"\"One line.\"\"\"\n\n\n\"\"\"{short}\n\n{long}\n\"\"\"\n{long}\n");
        assert_eq!(
            faults("python/a.py", &text),
            ["python/a.py:7: a docstring with 105 columns; wrap it at 100"]
        );
        assert_eq!(
            faults("python/a.py", &format!("class A:\n    r\"\"\"{long}\"\"\"\n    a = \"{long}\"\n")).len(),
            1
        );
        assert_eq!(faults("python/a.py", &format!("a = \"\"\"\n{long}\n\"\"\"\n{long}\n")), [""; 0]);
        assert_eq!(faults("python/a.py", &format!("\"\"\"\n>>> {long}\n\"\"\"\n")), [""; 0]);
    }

    #[test]
    fn tables_addresses_and_fences_may_be_longer() {
        let words = "word ".repeat(30);
        for text in [
            format!("/// | {words} |\n"),
            format!("// https://example.org/{} {words}\n", "a".repeat(90)),
            format!("/// ```text\n/// {words}\n/// ```\n"),
        ] {
            assert_eq!(faults("a.rs", &text), [""; 0]);
        }
        assert_eq!(faults("a.rs", &format!("/// ```text\n/// ```\n/// {words}\n")).len(), 1);
    }

    #[test]
    fn a_paragraph_of_markdown_is_one_line_or_wrapped_at_120() {
        let words = "word ".repeat(30);
        assert_eq!(faults("a.md", &format!("# Title\n\n{words}\n\n- {words}\n- {words}\n")), [""; 0]);
        assert_eq!(faults("a.md", &format!("{words}\nmore\n")).len(), 1);
        assert_eq!(faults("a.md", &format!("- item\n  {words}\n")).len(), 1);
        assert_eq!(faults("a.md", &format!("```text\n{words}\n{words}\n```\n")), [""; 0]);
    }
}
