//! A PTX text packed kernel by kernel, for programs that carry many and launch few.

use super::differences;
use super::split::Split;
use miniz_oxide::deflate::compress_to_vec;
use std::fmt::Write as _;

/// The compression level, of 10: the next level takes twice the time and saves a few percent.
const LEVEL: u8 = 6;

/// A text whose entry points are packed one by one: register numbers as differences, then DEFLATE.
/// LLVM's comments around inline assembly are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The packed bytes.
    pub bytes: Vec<u8>,
    /// The text before the first entry point.
    pub preamble: Part,
    /// The entry points.
    pub entries: Vec<Entry>,
}

/// An entry point of a packed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its header, up to the body, as text.
    pub head: String,
    /// Where it is.
    pub part: Part,
}

/// A range of the packed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first byte.
    pub start: usize,
    /// One past the last.
    pub end: usize,
    /// The length of the text with differences.
    pub text: usize,
}

impl Packed {
    /// Packs a text; `None` if its entry points depend on each other, or if it has none.
    pub fn of(text: &str) -> Option<Self> {
        let split = Split::of(text)?;
        let mut bytes = Vec::new();
        let mut pack = |part: &str| {
            let (start, text) = (bytes.len(), differences::of(part));
            bytes.extend(compress_to_vec(text.as_bytes(), LEVEL));
            Part { start, end: bytes.len(), text: text.len() }
        };
        let preamble = pack(&text[split.preamble]);
        let entries = split.entries.into_iter().map(|(name, entry)| {
            let entry = &text[entry];
            let head = entry.split("\n{").next().unwrap_or_default().to_owned();
            Entry { name: text[name].to_owned(), head, part: pack(entry) }
        });
        let entries = entries.collect();
        Some(Self { bytes, preamble, entries })
    }

    /// The expression of a program that carries it, whose bytes are in the file `file`:
    /// architecture, bytes, preamble and entry points.
    pub fn expression(&self, arch: &str, file: &str) -> String {
        let mut text =
            format!("    ({arch:?}, include_bytes!({file:?}), {}, &[\n", self.preamble.expression());
        for Entry { name, head, part } in &self.entries {
            let _ = writeln!(text, "        ({name:?}, {head:?}, {}),", part.expression());
        }
        text + "    ]),\n"
    }
}

impl Part {
    fn expression(self) -> String {
        format!("({}, {}, {})", self.start, self.end, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use miniz_oxide::inflate::decompress_to_vec;

    const TEXT: &str = "\
.version 8.0
.target sm_90a
.visible .entry first(
\t.param .u64 first_param_0
)
.maxntid 256
{
\tmov.b32 %r1, %r7;
\tmov.b32 %r2, %r6;
}
.visible .entry second() { ret; }
";

    #[test]
    fn each_part_is_unpacked_without_the_others() {
        let packed = Packed::of(TEXT).unwrap();
        let text = |part: Part| {
            let text = decompress_to_vec(&packed.bytes[part.start..part.end]).unwrap();
            assert_eq!(text.len(), part.text);
            String::from_utf8(text).unwrap()
        };
        assert_eq!(text(packed.preamble), ".version 8.0\n.target sm_90a\n");
        assert!(text(packed.entries[0].part).ends_with("%r~, %r#7;\n\tmov.b32 %r~, %r!1;\n}"));
        let [first, second] = &packed.entries[..] else { panic!("{packed:?}") };
        assert!(
            text(first.part).starts_with(&first.head) && first.head.ends_with(".maxntid 256"),
            "{first:?}"
        );
        assert_eq!((&*second.name, &*text(second.part)), ("second", ".visible .entry second() { ret; }"));
    }

    #[test]
    fn a_text_without_entry_points_is_not_packed() {
        assert_eq!(Packed::of(".version 8.0\n"), None);
    }
}
