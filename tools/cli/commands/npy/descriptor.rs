//! The element type.

use super::literal::{Literal, Value};
use crate::commands::dtype::Dtype;

/// The meaning of `descr`.
#[derive(Debug)]
pub struct Descriptor {
    pub kind: Kind,
    /// Whether the elements have the other byte order.
    pub is_swapped: bool,
}

/// Element types, by how they can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An element type of operands or results.
    Number(Dtype),
    /// Other real types, by NumPy's name: `astype` converts them.
    Other(&'static str),
    /// Complex types, by NumPy's name.
    Complex(&'static str),
    /// Bytes without a type.
    Bytes(usize),
    /// Strings, dates or Python objects, by a word for them.
    Things(&'static str),
    /// Records, with the subscripts of the first field of real numbers, `['x']`; or arrays as
    /// elements.
    Record(Option<String>),
}

/// NumPy's numeric types: the name; the letter and bytes; other names that `numpy.dtype` accepts.
const NUMBERS: &[(&str, &str, &[&str])] = &[
    ("float16", "f2", &["half", "e"]),
    ("float32", "f4", &["single", "f"]),
    ("float64", "f8", &["double", "float", "d"]),
    ("longdouble", "f16", &["float128", "g"]),
    ("int8", "i1", &["byte", "b"]),
    ("int16", "i2", &["short", "h"]),
    ("int32", "i4", &["intc", "i"]),
    ("int64", "i8", &["int", "int_", "intp", "long", "longlong", "l", "q", "p", "n"]),
    ("uint8", "u1", &["ubyte", "B"]),
    ("uint16", "u2", &["ushort", "H"]),
    ("uint32", "u4", &["uintc", "I"]),
    ("uint64", "u8", &["uint", "uintp", "ulong", "ulonglong", "L", "Q", "P", "N"]),
    ("bool", "b1", &["bool_", "?"]),
    ("complex64", "c8", &["csingle", "F"]),
    ("complex128", "c16", &["cdouble", "complex", "D"]),
    ("clongdouble", "c32", &["complex256", "G"]),
    // The types of `ml_dtypes`. It writes float8_e5m2 as a code that NumPy lacks.
    ("bfloat16", "", &[]),
    ("float8_e5m2", "f1", &[]),
    ("float8_e4m3fn", "", &[]),
];

impl Descriptor {
    /// The descriptor in the value of 'descr', if it is valid.
    pub fn of(descr: &Literal<'_>) -> Option<Self> {
        let code = match &descr.value {
            Value::Text(code) => code,
            // Records are lists of fields; an array element is a type with its shape.
            Value::List(fields) => {
                let numbers = fields.iter().find_map(field_of_numbers);
                return Some(Self { kind: Kind::Record(numbers), is_swapped: false });
            }
            Value::Tuple(_) => return Some(Self { kind: Kind::Record(None), is_swapped: false }),
            _ => return None,
        };
        if code.contains(',') {
            // NumPy calls the first unnamed field f0.
            let first = code.split(',').next().map(|first| first.trim_start_matches(['<', '>', '=', '|']));
            let first = first.and_then(kind);
            let is_number = matches!(first, Some(Kind::Number(_) | Kind::Other(_)));
            let field = is_number.then(|| "['f0']".to_owned());
            return Some(Self { kind: Kind::Record(field), is_swapped: false });
        }
        let (order, bare) = match code.chars().next()? {
            order @ ('<' | '>' | '=' | '|') => (Some(order), &code[1..]),
            _ => (None, code.as_str()),
        };
        // A byte order precedes a letter, with or without a number, but not a name.
        if order.is_some() && bare.chars().take_while(char::is_ascii_alphabetic).count() != 1 && bare != "?" {
            return None;
        }
        let kind = kind(bare)?;
        let is_other_order = order == Some(if cfg!(target_endian = "big") { '<' } else { '>' });
        Some(Self { is_swapped: is_other_order && kind.has_order(), kind })
    }

    /// NumPy's name of the type, or a description.
    pub fn name(&self) -> String {
        match &self.kind {
            Kind::Number(dtype) => dtype.to_string(),
            Kind::Other(name) | Kind::Complex(name) | Kind::Things(name) => (*name).to_owned(),
            // `ml_dtypes` writes bfloat16 as two bytes, for which NumPy has no type.
            Kind::Bytes(2) => Dtype::Bf16.to_string(),
            Kind::Bytes(bytes) => format!("V{bytes}, bytes without a type"),
            Kind::Record(_) => "records".to_owned(),
        }
    }

    /// The NumPy call on `a`, the array from `numpy.load`, that converts it to type `to`: the part
    /// of a message after the semicolon.
    pub fn conversion(&self, to: Dtype) -> String {
        let as_type = to.as_type();
        match &self.kind {
            // `numpy.load` reads neither, so the array exists only in the program that wrote it.
            Kind::Number(Dtype::E5m2) => {
                format!(
                    "convert it before it is saved, with a{as_type}: numpy.load does not read float8_e5m2"
                )
            }
            Kind::Number(from @ (Dtype::Bf16 | Dtype::E4m3)) => {
                format!("convert it with {}{as_type}", from.viewed())
            }
            Kind::Bytes(2) => format!("convert it with {}{as_type}", Dtype::Bf16.viewed()),
            Kind::Bytes(1) => {
                format!("if it is float8_e4m3fn, convert it with {}{as_type}", Dtype::E4m3.viewed())
            }
            Kind::Bytes(bytes) => {
                let of = match bytes {
                    4 => "a.view('float32')",
                    8 => "a.view('float64')",
                    _ => "a.view('uint8')",
                };
                format!("give the bytes a type in NumPy, for example with {of}")
            }
            Kind::Number(_) | Kind::Other(_) => format!("convert it with a{as_type}"),
            Kind::Complex(_) => format!("save its parts as two files, a.real{as_type} and a.imag{as_type}"),
            Kind::Things("Python objects") => {
                format!("read it with numpy.load(..., allow_pickle=True) and save a{as_type}")
            }
            Kind::Things(_) => format!("if they are numbers, convert it with a{as_type}"),
            Kind::Record(Some(field)) => format!("save one field, a{field}{as_type}"),
            Kind::Record(None) => "save a single array of numbers".to_owned(),
        }
    }
}

impl Kind {
    /// Whether elements of type `dtype` may be stored like this: NumPy lacks some types. The user's
    /// type for bytes and integers was checked before
    /// ([`NpyFile::dtype`](crate::commands::input::NpyFile::dtype)).
    pub fn is_kept_for(&self, dtype: Dtype) -> bool {
        match self {
            Self::Number(held) => *held == dtype,
            Self::Other("uint16") => matches!(dtype, Dtype::F16 | Dtype::Bf16),
            Self::Bytes(2) => dtype == Dtype::Bf16,
            Self::Other("uint8") => dtype.is_float8() || dtype == Dtype::U8,
            // A byte that is 0 or 1.
            Self::Other("bool") => dtype == Dtype::U8,
            Self::Bytes(1) => dtype.is_float8(),
            _ => false,
        }
    }

    /// Whether elements of this kind have a byte order.
    fn has_order(&self) -> bool {
        match self {
            Self::Number(dtype) => !matches!(dtype, Dtype::I8 | Dtype::E4m3 | Dtype::E5m2),
            Self::Other(name) => !matches!(*name, "uint8" | "bool"),
            Self::Complex(_) => true,
            Self::Bytes(_) | Self::Things(_) | Self::Record(_) => false,
        }
    }
}

/// The kind of a code without a byte order.
fn kind(code: &str) -> Option<Kind> {
    let letter = code.chars().next()?;
    let digits = &code[letter.len_utf8()..];
    // `f04` is `f4`.
    let canonical = match digits.parse::<usize>() {
        Ok(bytes) if digits.bytes().all(|digit| digit.is_ascii_digit()) => format!("{letter}{bytes}"),
        _ => code.to_owned(),
    };
    let number = NUMBERS.iter().find(|(name, short, others)| {
        *name == code || (!short.is_empty() && *short == canonical) || others.contains(&code)
    });
    if let Some(&(name, ..)) = number {
        return Some(match name {
            "float16" => Kind::Number(Dtype::F16),
            "bfloat16" => Kind::Number(Dtype::Bf16),
            "float32" => Kind::Number(Dtype::F32),
            "float64" => Kind::Number(Dtype::F64),
            "int8" => Kind::Number(Dtype::I8),
            "int32" => Kind::Number(Dtype::I32),
            "int64" => Kind::Number(Dtype::I64),
            "float8_e5m2" => Kind::Number(Dtype::E5m2),
            "float8_e4m3fn" => Kind::Number(Dtype::E4m3),
            "complex64" | "complex128" | "clongdouble" => Kind::Complex(name),
            _ => Kind::Other(name),
        });
    }
    let has_size = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    match letter {
        'V' if has_size => digits.parse().ok().map(Kind::Bytes),
        'S' | 'a' | 'U' if has_size => Some(Kind::Things("texts")),
        'M' | 'm' if digits.starts_with('8') => Some(Kind::Things("dates or times")),
        _ => match code {
            "O" | "object" => Some(Kind::Things("Python objects")),
            "datetime64" | "timedelta64" => Some(Kind::Things("dates or times")),
            _ if code.starts_with("datetime64[") || code.starts_with("timedelta64[") => {
                Some(Kind::Things("dates or times"))
            }
            // `2f4` and `(2,)f4`: arrays as elements.
            _ if letter == '(' || letter.is_ascii_digit() => Some(Kind::Record(None)),
            _ => None,
        },
    }
}

/// The subscripts of the real values in a field of records, which `astype` converts.
fn field_of_numbers(field: &Literal<'_>) -> Option<String> {
    let Value::Tuple(field) = &field.value else { return None };
    let name = match &field.first()?.value {
        Value::Text(name) => name,
        // The name follows its title.
        Value::Tuple(titled) => match &titled.last()?.value {
            Value::Text(name) => name,
            _ => return None,
        },
        _ => return None,
    };
    let within = match Descriptor::of(field.get(1)?)?.kind {
        Kind::Number(dtype) if !dtype.is_of_ml_dtypes() => String::new(),
        Kind::Other(_) => String::new(),
        Kind::Record(within) => within?,
        _ => return None,
    };
    Some(format!("[{}]{within}", quoted(name)))
}

/// A name as a Python string literal.
fn quoted(name: &str) -> String {
    format!("'{}'", name.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Descriptor> {
        Descriptor::of(&Literal::read(text).unwrap())
    }

    // As in `numpy.dtype` of NumPy 2.4 on 64-bit Linux.
    #[test]
    fn descriptors_are_those_of_numpy() {
        for (descr, name) in [
            ("'<f4'", "float32"),
            ("'=f4'", "float32"),
            ("'|f4'", "float32"),
            ("'f'", "float32"),
            ("'<f'", "float32"),
            ("'f04'", "float32"),
            ("'float32'", "float32"),
            ("'single'", "float32"),
            ("'e'", "float16"),
            ("'float'", "float64"),
            ("'d'", "float64"),
            ("'g'", "longdouble"),
            ("'b'", "int8"),
            ("'<b1'", "bool"),
            ("'?'", "bool"),
            ("'|?'", "bool"),
            ("'intc'", "int32"),
            ("'l'", "int64"),
            ("'B'", "uint8"),
            ("'F'", "complex64"),
            ("'V2'", "bfloat16"),
            ("'bfloat16'", "bfloat16"),
            ("'<f1'", "float8_e5m2"),
            ("'V8'", "V8, bytes without a type"),
            ("'S5'", "texts"),
            ("'<U3'", "texts"),
            ("'<M8[ns]'", "dates or times"),
            ("'O'", "Python objects"),
            ("[('x', '<f4')]", "records"),
            ("'f4,i4'", "records"),
            ("('<f4', (2,))", "records"),
            ("'2f4'", "records"),
        ] {
            assert_eq!(of(descr).map(|it| it.name()).as_deref(), Some(name), "{descr}");
        }
        for descr in
            ["'>float32'", "'Float32'", "'f12'", "'d8'", "'<bfloat16'", "'q4'", "'void16'", "None", "4"]
        {
            assert!(of(descr).is_none(), "{descr}");
        }
    }

    #[test]
    fn only_what_has_more_bytes_than_one_has_an_order() {
        let other = if cfg!(target_endian = "big") { '<' } else { '>' };
        for (code, is_swapped) in [
            ("f4", true),
            ("e", true),
            ("i4", true),
            ("c8", true),
            ("i1", false),
            ("b", false),
            ("V2", false),
        ] {
            assert_eq!(of(&format!("'{other}{code}'")).unwrap().is_swapped, is_swapped, "{code}");
        }
    }

    // Each was run in NumPy 2.4 with ml_dtypes 0.6, on an array from numpy.load (for float8_e5m2 on
    // the array itself). `astype` alone raises on V1, V2 and records, and drops the imaginary parts
    // of complex values.
    #[test]
    fn the_advice_works_in_numpy() {
        for (descr, advice) in [
            ("'<i8'", "convert it with a.astype('float32')"),
            ("'V2'", "convert it with a.view(ml_dtypes.bfloat16).astype('float32')"),
            (
                "'V1'",
                "if it is float8_e4m3fn, convert it with a.view(ml_dtypes.float8_e4m3fn).astype('float32')",
            ),
            (
                "'<f1'",
                "convert it before it is saved, with a.astype('float32'): numpy.load does not read float8_e5m2",
            ),
            ("'<c8'", "save its parts as two files, a.real.astype('float32') and a.imag.astype('float32')"),
            ("[('x', '<f4'), ('y', '<i4')]", "save one field, a['x'].astype('float32')"),
            ("[(('title', 'it\\'s'), '<f4')]", "save one field, a['it\\'s'].astype('float32')"),
            // For other fields `astype` raises, or drops half of the value.
            (
                "[('', '|V4'), ('s', 'S3'), ('z', '<c8'), ('h', 'V2'), ('x', '>i4')]",
                "save one field, a['x'].astype('float32')",
            ),
            ("[('p', [('s', 'S3'), ('x', '<f4', (2,))])]", "save one field, a['p']['x'].astype('float32')"),
            ("[('s', 'S3'), ('p', [('z', '<c8')])]", "save a single array of numbers"),
            ("'<i2,<f4'", "save one field, a['f0'].astype('float32')"),
            ("'S3,f4'", "save a single array of numbers"),
            ("'V8'", "give the bytes a type in NumPy, for example with a.view('float64')"),
            ("'O'", "read it with numpy.load(..., allow_pickle=True) and save a.astype('float32')"),
            ("'S3'", "if they are numbers, convert it with a.astype('float32')"),
        ] {
            assert_eq!(of(descr).unwrap().conversion(Dtype::F32), advice, "{descr}");
        }
        assert_eq!(
            of("'<f4'").unwrap().conversion(Dtype::Bf16),
            "convert it with a.astype(ml_dtypes.bfloat16)"
        );
    }
}
