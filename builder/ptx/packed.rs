//! A PTX module packed kernel by kernel, for programs that carry many kernels and launch few.

use super::differences;
use super::split::Split;
use crate::report::Ptxas;
use crate::{Arch, BuildError};
use miniz_oxide::deflate::compress_to_vec;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The compression level of builds, out of 10: the next level takes twice the time and saves a few
/// percent.
const LEVEL: u8 = 6;
/// The level of packages, which are packed once, with machine code.
const SMALLEST: u8 = 10;

/// A module whose entry points are packed one by one: register numbers as differences, then
/// DEFLATE. LLVM's comments around inline assembly are omitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The packed bytes.
    pub bytes: Vec<u8>,
    /// The source before the first entry point.
    pub preamble: Part,
    /// The entry points.
    pub entries: Vec<Entry>,
}

/// An entry point of a packed module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its header, up to the body, unpacked.
    pub head: String,
    /// Its range of bytes.
    pub part: Part,
    /// The range of its machine code, if there is any.
    pub cubin: Option<Part>,
}

/// A range of the packed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first byte.
    pub start: usize,
    /// One past the last.
    pub end: usize,
    /// The unpacked length: of the PTX with differences, or of machine code.
    pub length: usize,
}

impl Packed {
    /// Packs a module, with machine code by `ptxas` for each entry point; `None` if its entry
    /// points depend on each other or share a variable, or if it has none.
    ///
    /// # Errors
    /// `ptxas` cannot be run, or refuses an entry point.
    pub fn of(text: &str, arch: Arch, ptxas: Option<&Ptxas>) -> Result<Option<Self>, BuildError> {
        let Some(split) = Split::of(text) else { return Ok(None) };
        let opening = &text[split.preamble.clone()];
        if opening.lines().any(|line| line.split_whitespace().any(|word| word == ".global")) {
            return Ok(None);
        }
        let cubins = match ptxas {
            Some(ptxas) => assembled(text, &split, arch, ptxas)?,
            None => Vec::new(),
        };
        let level = if ptxas.is_some() { SMALLEST } else { LEVEL };
        let mut bytes = Vec::new();
        let mut pack = |part: &[u8]| {
            let start = bytes.len();
            bytes.extend(compress_to_vec(part, level));
            Part { start, end: bytes.len(), length: part.len() }
        };
        let preamble = pack(differences::of(opening).as_bytes());
        let mut entries = Vec::with_capacity(split.entries.len());
        for (number, (name, entry)) in split.entries.into_iter().enumerate() {
            let entry = &text[entry];
            let head = entry.split("\n{").next().unwrap_or_default().to_owned();
            let part = pack(differences::of(entry).as_bytes());
            let cubin = cubins.get(number).map(|cubin| pack(cubin));
            entries.push(Entry { name: text[name].to_owned(), head, part, cubin });
        }
        Ok(Some(Self { bytes, preamble, entries }))
    }

    /// The expression of a program that includes it, with its bytes in `file`: architecture, bytes,
    /// preamble and entry points.
    pub fn expression(&self, arch: &str, file: &str) -> String {
        let mut text =
            format!("    ({arch:?}, include_bytes!({file:?}), {}, &[\n", self.preamble.expression());
        for Entry { name, head, part, cubin } in &self.entries {
            let cubin =
                cubin.map_or_else(|| "None".to_owned(), |part| format!("Some({})", part.expression()));
            let _ = writeln!(text, "        ({name:?}, {head:?}, {}, {cubin}),", part.expression());
        }
        text + "    ]),\n"
    }
}

impl Part {
    fn expression(self) -> String {
        format!("({}, {}, {})", self.start, self.end, self.length)
    }
}

/// The machine code of each entry point, in order. `ptxas` uses one core, so one runs on each core.
fn assembled(text: &str, split: &Split, arch: Arch, ptxas: &Ptxas) -> Result<Vec<Vec<u8>>, BuildError> {
    let next = AtomicUsize::new(0);
    let cubin = |(_, entry): &(Range<usize>, Range<usize>)| {
        let module = format!("{}{}\n", &text[split.preamble.clone()], &text[entry.clone()]);
        let refused = |error: crate::report::PtxasError| BuildError::Tool {
            command: ptxas.path().display().to_string(),
            reason: error.to_string(),
        };
        ptxas.cubin(&module, arch).map_err(refused)
    };
    let work = || {
        let mut done = Vec::new();
        while let Some(entry) = split.entries.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((entry.1.start, cubin(entry)?));
        }
        Ok(done)
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let done = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("errors are returned"))
            .collect::<Result<Vec<_>, BuildError>>()
    })?;
    let mut cubins: Vec<_> = done.into_iter().flatten().collect();
    cubins.sort_by_key(|(start, _)| *start);
    Ok(cubins.into_iter().map(|(_, cubin)| cubin).collect())
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

    fn of(text: &str) -> Option<Packed> {
        Packed::of(text, "sm_90a".parse().unwrap(), None).unwrap()
    }

    #[test]
    fn each_part_is_unpacked_without_the_others() {
        let packed = of(TEXT).unwrap();
        let text = |part: Part| {
            let text = decompress_to_vec(&packed.bytes[part.start..part.end]).unwrap();
            assert_eq!(text.len(), part.length);
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
    fn a_text_without_entry_points_or_with_a_variable_of_several_is_not_packed() {
        assert_eq!(of(".version 8.0\n"), None);
        let variable = ".visible .global .align 4 .u32 count;\n.visible .entry first";
        assert_eq!(of(&TEXT.replace(".visible .entry first", variable)), None);
    }

    #[test]
    fn each_entry_point_has_its_own_machine_code() {
        let Some(ptxas) = Ptxas::find() else { return };
        let text = TEXT.replace("%r", "%x").replace("{\n", "{\n\t.reg .b32 %x<8>;\n");
        let text = text.replace("second() { ret; }", "second()\n{\n\tret;\n}");
        let packed = Packed::of(&text, "sm_90a".parse().unwrap(), Some(&ptxas)).unwrap().unwrap();
        let code = |entry: &Entry| {
            let part = entry.cubin.unwrap();
            decompress_to_vec(&packed.bytes[part.start..part.end]).unwrap()
        };
        for entry in &packed.entries {
            let (code, name) = (code(entry), format!(".text.{}\0", entry.name));
            assert!(code.starts_with(b"\x7fELF"), "{}", entry.name);
            assert!(code.windows(name.len()).any(|part| part == name.as_bytes()), "{}", entry.name);
        }
    }
}
