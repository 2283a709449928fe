//! The formats of blocks of elements, as in ggml.
//!
//! Layouts and formulas are those of `block_*` and `dequantize_row_*` in ggml's
//! [`ggml-common.h`](https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h) and
//! [`ggml-quants.c`](https://github.com/ggml-org/ggml/blob/master/src/ggml-quants.c).

use half::{bf16, f16};
use std::fmt;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// f32.
    F32,
    /// f16.
    F16,
    /// bf16.
    Bf16,
    /// 4 bits minus 8, times a scale.
    Q4_0,
    /// 4 bits times a scale, plus a minimum.
    Q4_1,
    /// 8 bits, signed, times a scale.
    Q8_0,
    /// 4 bits with scales and minima of 6 bits for groups of 32.
    Q4K,
    /// 5 bits with scales and minima of 6 bits for groups of 32.
    Q5K,
    /// 6 bits with scales of 8 bits for groups of 16.
    Q6K,
}

/// A format with ggml's number and name, and the elements and bytes of a block.
struct Row {
    format: Format,
    number: u32,
    name: &'static str,
    elements: usize,
    bytes: usize,
}

impl Format {
    /// All formats.
    const TABLE: [Row; 9] = [
        Row { format: Self::F32, number: 0, name: "F32", elements: 1, bytes: 4 },
        Row { format: Self::F16, number: 1, name: "F16", elements: 1, bytes: 2 },
        Row { format: Self::Bf16, number: 30, name: "BF16", elements: 1, bytes: 2 },
        Row { format: Self::Q4_0, number: 2, name: "Q4_0", elements: 32, bytes: 18 },
        Row { format: Self::Q4_1, number: 3, name: "Q4_1", elements: 32, bytes: 20 },
        Row { format: Self::Q8_0, number: 8, name: "Q8_0", elements: 32, bytes: 34 },
        Row { format: Self::Q4K, number: 12, name: "Q4_K", elements: 256, bytes: 144 },
        Row { format: Self::Q5K, number: 13, name: "Q5_K", elements: 256, bytes: 176 },
        Row { format: Self::Q6K, number: 14, name: "Q6_K", elements: 256, bytes: 210 },
    ];

    /// The format with ggml's number `number`.
    pub(crate) fn numbered(number: u32) -> Result<Self, String> {
        let row = Self::TABLE.into_iter().find(|row| row.number == number);
        row.map(|row| row.format).ok_or_else(|| {
            let names = Self::TABLE.map(|row| row.name).join(", ");
            format!("its format is number {number} of ggml; supported are {names}")
        })
    }

    fn row(self) -> Row {
        Self::TABLE.into_iter().find(|row| row.format == self).expect("the table has all formats")
    }

    /// Elements of a block.
    pub fn elements(self) -> usize {
        self.row().elements
    }

    /// Bytes of a block.
    pub fn bytes(self) -> usize {
        self.row().bytes
    }

    /// The elements of whole blocks.
    ///
    /// # Panics
    /// The bytes are not whole blocks.
    pub fn dequantize(self, bytes: &[u8]) -> Vec<f32> {
        let (blocks, rest) = (bytes.chunks_exact(self.bytes()), bytes.len() % self.bytes());
        assert_eq!(rest, 0, "{rest} bytes are left of blocks of {self}");
        let mut out = Vec::with_capacity(bytes.len() / self.bytes() * self.elements());
        for block in blocks {
            match self {
                Self::F32 => out.push(f32::from_le_bytes([block[0], block[1], block[2], block[3]])),
                Self::F16 => out.push(half(block)),
                Self::Bf16 => out.push(bf16::from_le_bytes([block[0], block[1]]).to_f32()),
                Self::Q4_0 => nibbles(&block[2..], half(block), -8.0 * half(block), &mut out),
                Self::Q4_1 => nibbles(&block[4..], half(block), half(&block[2..]), &mut out),
                Self::Q8_0 => {
                    let scale = half(block);
                    out.extend(block[2..].iter().map(|&q| scale * f32::from(q.cast_signed())));
                }
                Self::Q4K => groups(block, &block[16..], None, &mut out),
                Self::Q5K => groups(block, &block[48..], Some(&block[16..48]), &mut out),
                Self::Q6K => six_bits(block, &mut out),
            }
        }
        out
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().name)
    }
}

fn half(bytes: &[u8]) -> f32 {
    f16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
}

/// 32 elements: the low nibbles of 16 bytes, then the high ones.
fn nibbles(bytes: &[u8], scale: f32, minimum: f32, out: &mut Vec<f32>) {
    let value = |q: u8| f32::from(q) * scale + minimum;
    out.extend(bytes.iter().map(|byte| value(byte & 15)));
    out.extend(bytes.iter().map(|byte| value(byte >> 4)));
}

/// Q4_K and Q5_K: two scales, twelve bytes with eight pairs of 6 bits, and 4 bits of each element;
/// `fifth` holds the fifth bits.
fn groups(block: &[u8], low: &[u8], fifth: Option<&[u8]>, out: &mut Vec<f32>) {
    let (scale, minimum, packed) = (half(block), half(&block[2..]), &block[4..16]);
    for group in 0..8 {
        let (s, m) = if group < 4 {
            (packed[group] & 63, packed[group + 4] & 63)
        } else {
            let high = |of: usize| (packed[of] >> 6) << 4;
            (packed[group + 4] & 15 | high(group - 4), packed[group + 4] >> 4 | high(group))
        };
        let (s, m) = (scale * f32::from(s), minimum * f32::from(m));
        for i in 0..32 {
            let byte = low[32 * (group / 2) + i];
            let q = if group % 2 == 0 { byte & 15 } else { byte >> 4 };
            let high = fifth.map_or(0, |fifth| (fifth[i] >> group & 1) << 4);
            out.push(s * f32::from(q | high) - m);
        }
    }
}

/// Q6_K: 4 bits of 256 elements, 2 more bits of each, sixteen scales, and a scale of the scales.
fn six_bits(block: &[u8], out: &mut Vec<f32>) {
    let (low, high, scales, scale) = (&block[..128], &block[128..192], &block[192..208], half(&block[208..]));
    for i in 0..256 {
        // Two halves of 128 elements, each of four groups of 32.
        let (part, group, lane) = (i / 128, i / 32 % 4, i % 32);
        let byte = low[64 * part + 32 * (group % 2) + lane];
        let four = if group < 2 { byte & 15 } else { byte >> 4 };
        let two = high[32 * part + lane] >> (2 * group) & 3;
        let q = f32::from(four | two << 4) - 32.0;
        out.push(scale * f32::from(scales[i / 16].cast_signed()) * q);
    }
}
