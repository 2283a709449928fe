//! The parameters of a PTX entry point, and their comparison with a kernel's.

use moye_device::kernel::ParamType;
use std::collections::HashMap;
use std::fmt;

/// The parameters of an entry point, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryParams(Vec<PtxParam>);

/// A parameter as the entry point's PTX declares it: `.u64`, `.f32`, `.b8[16]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PtxParam {
    /// The letter of its type: `u`, `s`, `f`, `b`.
    pub kind: char,
    /// The bytes of an element.
    pub bytes: usize,
    /// The number of elements, for an array parameter.
    pub count: Option<usize>,
}

impl EntryParams {
    /// Parses the declaration of the entry point of this name in PTX; `None` if it is absent.
    ///
    /// The syntax is `.entry NAME (.param .TYPE name, .param .u64 .ptr .align 8 name, .param .align
    /// 8 .b8 name[16])`, without the list if it is empty ("Kernel Function Parameters" in NVIDIA's
    /// "PTX ISA").
    pub fn of(text: &str, name: &str) -> Option<Self> {
        declarations(text).find(|(found, _)| found == name).map(|(_, params)| params)
    }

    /// The parameters of all entry points of a PTX module, by name.
    pub fn of_all(text: &str) -> HashMap<String, Self> {
        let mut all = HashMap::new();
        for (name, params) in declarations(text) {
            all.entry(name).or_insert(params);
        }
        all
    }

    /// The parameters.
    pub fn list(&self) -> &[PtxParam] {
        &self.0
    }

    /// Whether this entry point matches a kernel with these parameters.
    ///
    /// PTX distinguishes neither pointers from 64-bit integers nor signed from unsigned numbers.
    pub fn accept(&self, kernel: &[ParamType]) -> bool {
        self.0.len() == kernel.len() && self.0.iter().zip(kernel).all(|(entry, kernel)| entry.accepts(kernel))
    }
}

/// The entry points of a PTX module, in order.
fn declarations(text: &str) -> impl Iterator<Item = (String, EntryParams)> {
    text.match_indices(".entry").filter_map(|(at, entry)| {
        if is_comment(&text[..at]) {
            return None;
        }
        let head = head(&text[at + entry.len()..]);
        let head = head.trim_start();
        let (name, after) = head.split_at(head.find(ends_name)?);
        let list = after.trim_start().strip_prefix('(').and_then(|list| list.split(')').next());
        let params = list.unwrap_or_default().split(',').filter(|param| !param.trim().is_empty());
        Some((name.to_owned(), EntryParams(params.map(PtxParam::read).collect())))
    })
}

impl PtxParam {
    /// Its size in bytes.
    pub const fn size(&self) -> usize {
        self.bytes.saturating_mul(match self.count {
            Some(count) => count,
            None => 1,
        })
    }

    /// Parses `.param .u64 .ptr .align 8 name`. A parameter that cannot be parsed has 0 bytes, so
    /// it matches no kernel.
    fn read(param: &str) -> Self {
        let (kind, bits) = param
            .split_whitespace()
            .find_map(|word| {
                let ty = word.strip_prefix('.')?;
                let kind = ty.chars().next().filter(|kind| "usfb".contains(*kind))?;
                Some((kind, ty[1..].parse::<usize>().ok()?))
            })
            .unwrap_or(('b', 0));
        let count = param
            .split_once('[')
            .map(|(_, rest)| rest.split(']').next().and_then(|count| count.trim().parse().ok()).unwrap_or(0));
        Self { kind, bytes: bits / 8, count }
    }

    fn accepts(self, kernel: &ParamType) -> bool {
        let (bytes, float) = match kernel {
            ParamType::Global { .. } => (8, false),
            ParamType::Scalar(scalar) => (scalar.size, matches!(scalar.name, "f32" | "f64")),
            ParamType::Struct { size, .. } | ParamType::Constant { size, .. } => (*size, false),
        };
        // Some compilers declare half-precision types as 16-bit integers.
        let same_kind = self.kind == 'b' || self.count.is_some() || bytes < 4 || (self.kind == 'f') == float;
        self.size() == bytes && same_kind
    }
}

impl fmt::Display for EntryParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, param) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{param}")?;
        }
        Ok(())
    }
}

impl fmt::Display for PtxParam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ".{}{}", self.kind, 8 * self.bytes)?;
        match self.count {
            Some(count) => write!(f, "[{count}]"),
            None => Ok(()),
        }
    }
}

/// Whether a character cannot be part of a name.
fn ends_name(c: char) -> bool {
    !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%'))
}

/// Whether the source after `before` is in a comment to the end of the line.
fn is_comment(before: &str) -> bool {
    before.rsplit('\n').next().is_some_and(|line| line.contains("//"))
}

/// The source up to the body or the end of a declaration, with comments replaced by spaces.
fn head(text: &str) -> String {
    let mut head = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', ';', '/']) {
        let (before, after) = rest.split_at(at);
        head.push_str(before);
        head.push(' ');
        rest = if after.starts_with("//") {
            after.find('\n').map_or("", |end| &after[end..])
        } else if after.starts_with("/*") {
            after.find("*/").map_or("", |end| &after[end + 2..])
        } else {
            return head;
        };
    }
    head + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use moye_device::kernel::Params;
    use moye_device::memory::{Global, GlobalMut};

    const TEXT: &str = "\
.version 8.0
// .visible .entry copy( .param .u8 wrong )
.visible .entry copy(
\t.param .u64 .ptr .align 1 copy_param_0, // a comment; with {a list}, (.param .u8 and one)
\t.param .f32 copy_param_1, /* .param .u32 gone, */
\t.param .u32 copy_param_2
)
.maxntid 256
{ ret; }
.entry bare { ret; }
.entry\tstruct_and_half (.param .align 8 .b8 struct_and_half_param_0[8], .param .b16 h) { ret; }
.entry empty() { ret; }
";

    fn accepts<P: Params>(kernel: &str) -> bool {
        EntryParams::of(TEXT, kernel).unwrap().accept(P::TYPES)
    }

    #[test]
    fn entry_points_are_found_by_their_whole_name() {
        for name in ["copy", "bare", "empty", "struct_and_half"] {
            assert!(EntryParams::of(TEXT, name).is_some(), "{name}");
        }
        assert_eq!(EntryParams::of_all(TEXT).len(), 4);
        for name in ["cop", "copy_async", "struct", "", "copy_param_0"] {
            assert_eq!(EntryParams::of(TEXT, name), None, "{name}");
        }
    }

    #[test]
    fn a_list_is_read_without_names_alignments_and_comments() {
        let all = EntryParams::of_all(TEXT);
        let list = |name| {
            let params = EntryParams::of(TEXT, name).unwrap();
            assert_eq!(all[name], params, "{name} among all of the text");
            params.to_string()
        };
        assert_eq!(list("copy"), ".u64, .f32, .u32");
        assert_eq!((list("bare"), list("empty")), (String::new(), String::new()));
        assert_eq!(list("struct_and_half"), ".b8[8], .b16");
    }

    #[test]
    fn parameters_of_another_size_count_or_kind_are_not_accepted() {
        assert!(accepts::<(Global<f32>, f32, u32)>("copy"));
        assert!(
            accepts::<(GlobalMut<u64>, f32, i32)>("copy"),
            "what a pointer points to is not in PTX, nor is the sign"
        );
        assert!(accepts::<(i64, f32, u32)>("copy"), "a pointer is a number of 64 bits");
        assert!(!accepts::<(Global<f32>, f32)>("copy"), "one fewer");
        assert!(!accepts::<(Global<f32>, f32, u32, u32)>("copy"), "one more");
        assert!(!accepts::<(Global<f32>, f32, u64)>("copy"), "a larger one");
        assert!(!accepts::<(Global<f32>, u32, f32)>("copy"), "two exchanged");
        assert!(!accepts::<(f64, f32, u32)>("copy"), "a float for a pointer");
        assert!(accepts::<()>("bare") && accepts::<()>("empty") && !accepts::<(u8,)>("empty"));
        assert!(accepts::<(u64, half::f16)>("struct_and_half"), "bits of the right size");
    }
}
