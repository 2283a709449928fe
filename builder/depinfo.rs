//! Reads the `.d` file that cargo writes for each build: the source files of the crate and of its
//! path dependencies.

use std::path::PathBuf;

/// The files after the first colon, in `make`'s syntax: separated by spaces, with spaces in names
/// escaped.
pub fn sources(text: &str) -> Vec<PathBuf> {
    let Some(line) = text.lines().next() else { return Vec::new() };
    // A space follows the colon that ends the target, but not a colon in a name (a drive's, say).
    let Some((_, list)) = line.split_once(": ") else { return Vec::new() };
    let mut files = Vec::new();
    let mut name = String::new();
    let mut characters = list.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\\' if characters.peek() == Some(&' ') => name.extend(characters.next()),
            ' ' if name.is_empty() => {}
            ' ' => files.push(std::mem::take(&mut name).into()),
            c => name.push(c),
        }
    }
    if !name.is_empty() {
        files.push(name.into());
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_spaces_stay_whole() {
        let files = sources("/t/release/k.ptx: /a b/lib.rs /a/x.rs\n".replace("/a b", "/a\\ b").as_str());
        assert_eq!(files, [PathBuf::from("/a b/lib.rs"), PathBuf::from("/a/x.rs")]);
    }

    #[test]
    fn a_file_without_sources_gives_none() {
        assert!(sources("").is_empty());
        assert!(sources("/t/release/k.ptx:\n").is_empty());
    }
}
