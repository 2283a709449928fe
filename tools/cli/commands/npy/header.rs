//! The version, keywords, shape and order.

use super::descriptor::Descriptor;
use super::literal::{Literal, Value};
use std::borrow::Cow;

/// The first bytes of every NumPy file.
pub const MAGIC: &[u8] = b"\x93NUMPY";

/// The way out for a header that NumPy does not read either.
const AGAIN: &str = "write the array again with numpy.save";

/// A header's description of the array.
#[derive(Debug)]
pub struct Header {
    pub descriptor: Descriptor,
    pub is_fortran: bool,
    pub shape: Vec<usize>,
}

impl Header {
    /// The header at the start of `bytes`, and the data. The error continues a sentence that starts
    /// with the file's name.
    pub fn read(bytes: &[u8]) -> Result<(Self, &[u8]), String> {
        let Some(rest) = bytes.strip_prefix(MAGIC) else {
            return Err("is not a .npy file; write one with numpy.save".to_owned());
        };
        let ends = || format!("ends within its header, so it is incomplete; {AGAIN}");
        let (&[major, minor], rest) = rest.split_first_chunk().ok_or_else(ends)?;
        let (len, rest) = match (major, minor) {
            (1, 0) => {
                rest.split_first_chunk().map(|(&len, rest)| (usize::from(u16::from_le_bytes(len)), rest))
            }
            (2 | 3, 0) => rest
                .split_first_chunk()
                .map(|(&len, rest)| (usize::try_from(u32::from_le_bytes(len)).unwrap_or(usize::MAX), rest)),
            _ => {
                return Err(format!(
                    "is a .npy file of version {major}.{minor}, and there are 1.0, 2.0 and 3.0; {AGAIN}"
                ));
            }
        }
        .ok_or_else(ends)?;
        let (text, data) = rest.split_at_checked(len).ok_or_else(ends)?;
        let text = match major {
            3 => Cow::Borrowed(
                std::str::from_utf8(text)
                    .map_err(|_| format!("has a header that is not UTF-8, as version 3.0 has it; {AGAIN}"))?,
            ),
            // Latin-1, whose characters are the first 256 of Unicode.
            _ => text.iter().copied().map(char::from).collect(),
        };
        Ok((Self::of(&text)?, data))
    }

    /// Parses a header.
    fn of(text: &str) -> Result<Self, String> {
        let literal = Literal::read(text)
            .map_err(|error| format!("has a header that is not a Python literal: {error}; {AGAIN}"))?;
        let Value::Dict(entries) = literal.value else {
            let text = literal.text;
            return Err(format!("has the header {text}, which is not a dictionary; {AGAIN}"));
        };
        let [mut descr, mut order, mut shape] = [None, None, None];
        for (key, value) in entries {
            // If a key occurs twice, the last one counts.
            match &key.value {
                Value::Text(name) if name == "descr" => descr = Some(value),
                Value::Text(name) if name == "fortran_order" => order = Some(value),
                Value::Text(name) if name == "shape" => shape = Some(value),
                _ => {
                    let key = key.text;
                    return Err(format!(
                        "has a header with the key {key} besides 'descr', 'fortran_order' and 'shape'; {AGAIN}"
                    ));
                }
            }
        }
        let missing = |key| move || format!("has a header without the key '{key}'; {AGAIN}");
        let (descr, order, shape) = (
            descr.ok_or_else(missing("descr"))?,
            order.ok_or_else(missing("fortran_order"))?,
            shape.ok_or_else(missing("shape"))?,
        );
        let Value::Bool(is_fortran) = order.value else {
            let order = order.text;
            return Err(format!(
                "has a header with 'fortran_order': {order}, which must be True or False; {AGAIN}"
            ));
        };
        let Some(descriptor) = Descriptor::of(&descr) else {
            let descr = descr.text;
            return Err(format!("has a header with 'descr': {descr}, which names no type; {AGAIN}"));
        };
        Ok(Self { descriptor, is_fortran, shape: extents(&shape)? })
    }
}

/// The extents in the value of 'shape'.
fn extents(shape: &Literal<'_>) -> Result<Vec<usize>, String> {
    let text = shape.text;
    let extents = match &shape.value {
        Value::Tuple(extents) => extents,
        Value::Int(extent) => {
            return Err(format!(
                "has a header with 'shape': {text}, a number where a tuple must be, ({extent},) for one dimension; {AGAIN}"
            ));
        }
        _ => return Err(format!("has a header with 'shape': {text}, which is not a tuple; {AGAIN}")),
    };
    let extent = |extent: &Literal<'_>| match extent.value {
        Value::Int(value) => usize::try_from(value)
            .map_err(|_| format!("has a header with the shape {text}, which no array has; {AGAIN}")),
        _ => {
            let extent = extent.text;
            Err(format!("has a header with 'shape': {text}, where {extent} is not an integer; {AGAIN}"))
        }
    };
    extents.iter().map(extent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NumPy 2.4 reads this as float32, (3, 4), in C order.
    const GOOD: &str = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n";

    fn read(version: [u8; 2], text: &str) -> Result<(String, bool, Vec<usize>), String> {
        let len = u32::try_from(text.len()).unwrap().to_le_bytes();
        let len = if version[0] == 1 { &len[..2] } else { &len[..] };
        let bytes = [MAGIC, &version, len, text.as_bytes(), b"data"].concat();
        let (header, data) = Header::read(&bytes)?;
        assert_eq!(data, b"data");
        Ok((header.descriptor.name(), header.is_fortran, header.shape))
    }

    #[test]
    fn what_numpy_reads_is_read() {
        let expected = ("float32".to_owned(), false, vec![3, 4]);
        for (from, to) in [
            ("(3, 4)", "(3L, 4L)"),
            ("}\n", "}"),
            (", '", ",\n'"),
            (", '", ", # a comment\n'"),
            ("}\n", "} # a comment"),
            ("'<f4'", "u'<f4'"),
            ("'<f4'", "'float32'"),
            ("'<f4'", "'f'"),
            ("'<f4'", "('<f4')"),
            ("'shape'", "\"shape\""),
            ("{", "  {'shape': 1, "),
            ("(3, 4)", "(0x3, 4,)"),
        ] {
            let text = GOOD.replacen(from, to, usize::MAX);
            for version in [[1, 0], [2, 0], [3, 0]] {
                assert_eq!(read(version, &text).as_ref(), Ok(&expected), "{text:?}");
            }
        }
        assert_eq!(
            read([1, 0], &GOOD.replace("False", "True")).unwrap(),
            ("float32".to_owned(), true, vec![3, 4])
        );
        assert!(read([1, 0], &GOOD.replace("(3, 4)", "()")).unwrap().2.is_empty());
    }

    #[test]
    fn of_the_rest_is_said_what_is_wrong() {
        for (from, to, expected) in [
            (
                "(3, 4)",
                "(184)",
                "has a header with 'shape': (184), a number where a tuple must be, (184,) for one dimension",
            ),
            (
                "(3, 4)",
                "(np.int64(3), np.int64(4))",
                "has a header with 'shape': (np.int64(3), np.int64(4)), where np.int64(3) is not an integer",
            ),
            ("(3, 4)", "[3, 4]", "has a header with 'shape': [3, 4], which is not a tuple"),
            ("(3, 4)", "(3, 4.0)", "has a header with 'shape': (3, 4.0), where 4.0 is not an integer"),
            ("(3, 4)", "(True, 4)", "has a header with 'shape': (True, 4), where True is not an integer"),
            ("(3, 4)", "(-3, 4)", "has a header with the shape (-3, 4), which no array has"),
            ("False", "1", "has a header with 'fortran_order': 1, which must be True or False"),
            (
                "'shape'",
                "'more': 1, 'shape'",
                "has a header with the key 'more' besides 'descr', 'fortran_order' and 'shape'",
            ),
            ("'fortran_order': False, ", "", "has a header without the key 'fortran_order'"),
            ("'<f4'", "b'<f4'", "has a header with 'descr': b'<f4', which names no type"),
            ("'<f4'", "'>float32'", "has a header with 'descr': '>float32', which names no type"),
            ("'<f4'", "''", "has a header with 'descr': '', which names no type"),
            (
                "(3, 4)",
                "(3 4)",
                "has a header that is not a Python literal: expected `,` or `)` at column 54, found '4'",
            ),
            (GOOD, "[]", "has the header [], which is not a dictionary"),
        ] {
            let said = read([1, 0], &GOOD.replace(from, to)).unwrap_err();
            assert_eq!(said, format!("{expected}; {AGAIN}"));
        }
        let version = "is a .npy file of version 4.0, and there are 1.0, 2.0 and 3.0";
        assert_eq!(read([4, 0], GOOD).unwrap_err(), format!("{version}; {AGAIN}"));
        let bytes = [MAGIC, b"\x03\x00\x04\x00\x00\x00{\xff }"].concat();
        assert!(Header::read(&bytes).unwrap_err().starts_with("has a header that is not UTF-8"));
        for len in MAGIC.len()..bytes.len() {
            assert!(Header::read(&bytes[..len]).unwrap_err().starts_with("ends within its header"), "{len}");
        }
        assert!(Header::read(b"1 2 3").unwrap_err().starts_with("is not a .npy file"));
    }
}
