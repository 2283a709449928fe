//! The debug information that the compiler writes into PTX as bytes (DWARF 2): which function was
//! inlined where.
//!
//! `.loc` names only the innermost function, mostly one of `core`. This information locates the
//! line of the kernel that called it. The format is that of the DWARF 2 specification, sections 2
//! and 7: a table of abbreviations, and a tree of entries that uses it.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A line of a source file, which the module names by a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    pub file: u32,
    pub line: u32,
    pub column: u32,
}

/// A range of code, and for inlined code the call that it replaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// The labels at the ends of the code.
    pub low: Arc<str>,
    pub high: Arc<str>,
    /// The call; line 0 for a function that is not inlined.
    pub call: Position,
    /// The ranges inlined into it.
    pub inner: Vec<Scope>,
}

const TAG_SUBPROGRAM: u64 = 0x2e;
const TAG_INLINED: u64 = 0x1d;
const AT_LOW: u64 = 0x11;
const AT_HIGH: u64 = 0x12;
const AT_CALL_COLUMN: u64 = 0x57;
const AT_CALL_FILE: u64 = 0x58;
const AT_CALL_LINE: u64 = 0x59;

/// The functions of a module with everything inlined into them, by the label at their start. Empty
/// if the module has no debug information, or unreadable one.
pub fn functions(text: &str) -> BTreeMap<Arc<str>, Scope> {
    let (Some(abbreviations), Some(info)) = (section(text, ".debug_abbrev"), section(text, ".debug_info"))
    else {
        return BTreeMap::new();
    };
    let Some(abbreviations) = Abbreviation::table(&mut Bytes::of(abbreviations)) else {
        return BTreeMap::new();
    };
    let mut bytes = Bytes::of(info);
    let mut all = BTreeMap::new();
    // An unreadable entry ends the list: only its lines are then missing.
    while unit(&mut bytes, &abbreviations, &mut all).is_some() {}
    all
}

/// The contents of `.section NAME { ... }`.
fn section<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = text;
    loop {
        rest = rest.split_once(".section")?.1;
        let (header, after) = rest.split_once('{')?;
        if header.trim() == name {
            return Some(after.split_once('}')?.0);
        }
    }
}

/// The bytes of a section, and the labels whose addresses it contains.
struct Bytes<'a> {
    bytes: Vec<u8>,
    labels: BTreeMap<usize, &'a str>,
    at: usize,
}

impl<'a> Bytes<'a> {
    fn of(section: &'a str) -> Self {
        let mut all = Self { bytes: Vec::new(), labels: BTreeMap::new(), at: 0 };
        for line in section.lines() {
            let Some((width, values)) =
                line.trim().strip_prefix(".b").and_then(|l| l.split_once([' ', '\t']))
            else {
                continue;
            };
            let width = width.parse::<usize>().unwrap_or(8) / 8;
            for value in values.split(',').map(str::trim) {
                match value.parse::<u64>() {
                    Ok(number) => all.bytes.extend(&number.to_le_bytes()[..width.min(8)]),
                    Err(_) => {
                        all.labels.insert(all.bytes.len(), value);
                        all.bytes.extend(vec![0; width]);
                    }
                }
            }
        }
        all
    }

    fn number(&mut self, width: usize) -> Option<u64> {
        let bytes = self.bytes.get(self.at..self.at.checked_add(width)?)?;
        self.at += width;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// A LEB128 integer: seven bits a byte, the lowest first.
    fn leb(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.number(1)?;
            number |= (byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn string(&mut self) -> Option<()> {
        while self.number(1)? != 0 {}
        Some(())
    }
}

/// The shape of an entry: its tag, whether it has children, and its attributes with their forms.
struct Abbreviation {
    tag: u64,
    children: bool,
    attributes: Vec<(u64, u64)>,
}

impl Abbreviation {
    fn table(bytes: &mut Bytes<'_>) -> Option<BTreeMap<u64, Self>> {
        let mut table = BTreeMap::new();
        loop {
            let code = bytes.leb()?;
            if code == 0 {
                return Some(table);
            }
            let (tag, children) = (bytes.leb()?, bytes.number(1)? != 0);
            let mut attributes = Vec::new();
            loop {
                match (bytes.leb()?, bytes.leb()?) {
                    (0, 0) => break,
                    attribute => attributes.push(attribute),
                }
            }
            table.insert(code, Self { tag, children, attributes });
        }
    }
}

/// Reads one compilation unit.
fn unit(
    bytes: &mut Bytes<'_>,
    table: &BTreeMap<u64, Abbreviation>,
    all: &mut BTreeMap<Arc<str>, Scope>,
) -> Option<()> {
    let length = bytes.number(4)? as usize;
    let end = bytes.at.checked_add(length)?;
    // The version, the offset of the abbreviations, the size of an address.
    bytes.number(2 + 4 + 1)?;
    let mut scopes = Vec::new();
    while bytes.at < end {
        children(bytes, table, end, &mut scopes)?;
    }
    all.extend(scopes.into_iter().map(|scope| (scope.low.clone(), scope)));
    Some(())
}

/// Reads entries up to the end of the list. Scopes below an entry that has no scope are added to
/// the entry's list.
fn children(
    bytes: &mut Bytes<'_>,
    table: &BTreeMap<u64, Abbreviation>,
    end: usize,
    scopes: &mut Vec<Scope>,
) -> Option<()> {
    while bytes.at < end {
        let code = bytes.leb()?;
        if code == 0 {
            return Some(());
        }
        let shape = table.get(&code)?;
        let mut scope = Scope::default();
        for &(attribute, form) in &shape.attributes {
            let label = bytes.labels.get(&bytes.at).copied();
            let value = match form {
                0x01 | 0x07 => bytes.number(8)?,
                0x05 => bytes.number(2)?,
                0x06 | 0x13 => bytes.number(4)?,
                0x0b | 0x0c => bytes.number(1)?,
                0x0d | 0x0f => bytes.leb()?,
                0x08 => {
                    bytes.string()?;
                    0
                }
                _ => return None,
            };
            match attribute {
                AT_LOW => scope.low = label.unwrap_or_default().into(),
                AT_HIGH => scope.high = label.unwrap_or_default().into(),
                AT_CALL_FILE => scope.call.file = value as u32,
                AT_CALL_LINE => scope.call.line = value as u32,
                AT_CALL_COLUMN => scope.call.column = value as u32,
                _ => {}
            }
        }
        let has_code = matches!(shape.tag, TAG_SUBPROGRAM | TAG_INLINED) && !scope.low.is_empty();
        if shape.children {
            children(bytes, table, end, if has_code { &mut scope.inner } else { scopes })?;
        }
        if has_code {
            scopes.push(scope);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inlined_is_inside_what_it_is_inlined_into() {
        // A subprogram with one inlined call, whose abbreviations are 1 and 2.
        let text = "\t.section\t.debug_abbrev\n\t{\n.b8 1,46,1,17,1,18,1,0,0\n.b8 2,29,0,17,1,18,1,88,11,89,5,0,0\n.b8 0\n\t}\n\t.section\t.debug_info\n\t{\n.b32 45\n.b8 2\n.b8 0\n.b32 .debug_abbrev\n.b8 8\n.b8 1\n.b64 $L__func_begin0\n.b64 $L__func_end0\n.b8 2\n.b64 $L__tmp1\n.b64 $L__tmp2\n.b8 1\n.b8 44\n.b8 1\n.b8 0\n\t}\n";
        let all = functions(text);
        let function = &all["$L__func_begin0"];
        assert_eq!(&*function.high, "$L__func_end0");
        let [inner] = function.inner.as_slice() else { panic!("{function:?}") };
        let call = Position { file: 1, line: 300, column: 0 };
        assert_eq!((&*inner.low, &*inner.high, inner.call), ("$L__tmp1", "$L__tmp2", call));
    }

    #[test]
    fn a_module_without_or_with_damaged_information_gives_none() {
        assert!(functions(".version 7.0\n").is_empty());
        let cut = "\t.section .debug_abbrev {\n.b8 1,46\n}\n\t.section .debug_info {\n.b32 45\n}\n";
        assert!(functions(cut).is_empty());
    }
}
