//! Element types by their names in NumPy and PyTorch and by their codes in DLPack.

/// An element type.
#[derive(Debug, PartialEq, Eq)]
pub struct Dtype {
    /// Its name in NumPy, `ml_dtypes` and PyTorch.
    pub name: &'static str,
    /// DLPack's `DLDataTypeCode`.
    pub code: u8,
    /// The bits of an element.
    pub bits: u8,
}

const fn dtype(name: &'static str, code: u8, bits: u8) -> Dtype {
    Dtype { name, code, bits }
}

// DLPack's codes.
const INT: u8 = 0;
const UINT: u8 = 1;
const FLOAT: u8 = 2;
const BFLOAT: u8 = 4;
const COMPLEX: u8 = 5;
const BOOL: u8 = 6;
const FLOAT8_E4M3FN: u8 = 10;
const FLOAT8_E5M2: u8 = 12;

/// All of them.
static ALL: &[Dtype] = &[
    dtype("float16", FLOAT, 16),
    dtype("bfloat16", BFLOAT, 16),
    dtype("float32", FLOAT, 32),
    dtype("float64", FLOAT, 64),
    dtype("float8_e4m3fn", FLOAT8_E4M3FN, 8),
    dtype("float8_e5m2", FLOAT8_E5M2, 8),
    dtype("int8", INT, 8),
    dtype("int16", INT, 16),
    dtype("int32", INT, 32),
    dtype("int64", INT, 64),
    dtype("uint8", UINT, 8),
    dtype("uint16", UINT, 16),
    dtype("uint32", UINT, 32),
    dtype("uint64", UINT, 64),
    dtype("bool", BOOL, 8),
    dtype("complex64", COMPLEX, 64),
    dtype("complex128", COMPLEX, 128),
];

impl Dtype {
    /// The bytes of an element.
    pub fn bytes(&self) -> usize {
        usize::from(self.bits / 8)
    }

    /// The type of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|dtype| dtype.name == name)
    }

    /// The type of a code and a number of bits.
    pub fn coded(code: u8, bits: u8) -> Option<&'static Self> {
        ALL.iter().find(|dtype| (dtype.code, dtype.bits) == (code, bits))
    }

    /// The names of all, for messages.
    pub fn names() -> String {
        Self::all_names().collect::<Vec<_>>().join(", ")
    }

    /// The names of all.
    pub fn all_names() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|dtype| dtype.name)
    }
}
