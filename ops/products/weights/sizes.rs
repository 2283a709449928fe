//! Forms of weights, and the sizes and types that operands lead to.

use super::call::{LINEAR, LINEAR_8, PACK, UNPACK};
use super::codes::{Code, ROWS, Weights};
use super::formats::{self, Source};
use moye_device::arch::F16x2;
use moye_device::kernel::Kernel;
use moye_device::memory::{Global, GlobalMut};
use moye_device::number::U4;
use moye_runtime::operation::{ArrayType, Dtype, Options};
use moye_runtime::{Error, Result};

/// Bytes of a tile of codes for a step.
pub const STEP_BYTES: usize = 512;

/// Element types of scales in files. Packed ones are f16.
pub const SCALES: &[Dtype] = &[Dtype::F16, Dtype::Bf16, Dtype::F32];

/// A type of codes, in the order of the kernels' tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codes {
    /// Integers of 4 bits.
    U4,
    /// Integers of 8 bits.
    U8,
    /// Floats of 8 bits.
    E4m3,
}

impl Codes {
    /// Bits of a code.
    pub const fn bits(self) -> usize {
        if matches!(self, Self::U4) { 4 } else { 8 }
    }

    /// The least weights of a group.
    const fn unit(self) -> usize {
        if self.bits() == 4 { U4::UNIT as usize } else { u8::UNIT as usize }
    }

    /// The codes that the options select.
    pub fn of(operation: &'static str, options: &Options) -> Result<Self> {
        match (options.int("bits"), options.bool("e4m3")) {
            (4, false) => Ok(Self::U4),
            (8, false) => Ok(Self::U8),
            (8, true) => Ok(Self::E4m3),
            (bits, e4m3) => {
                let bits_are = if e4m3 { "8 for codes of e4m3" } else { "4 or 8" };
                let detail = format!("bits is {bits}, and must be {bits_are}");
                Err(Error::Unsupported { operation, detail })
            }
        }
    }
}

/// A form in which files have weights: its name, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The name.
    pub name: &'static str,
    /// The codes in the kernels' order.
    pub codes: Codes,
    /// Weights of a group; 0 if the shape of separate scales determines it.
    pub group: usize,
    /// Weights of a block and its bytes, or zeros where a row is codes alone.
    pub block: (usize, usize),
    /// Whether the words hold columns of W.
    pub columns: bool,
    /// Where there are no minima, what is subtracted from a code.
    pub offset: Option<u32>,
    /// Packs it.
    pub kernel: Kernel<(Source, GlobalMut<[u32; 4]>, GlobalMut<F16x2>, bool)>,
}

macro_rules! forms {
    ($($name:literal: $codes:ident, $group:literal, $block:expr, $columns:literal, $offset:expr, $kernel:ident;)+) => {
        /// All forms.
        pub static FORMS: &[Form] = &[$(Form {
            name: $name, codes: Codes::$codes, group: $group, block: $block, columns: $columns, offset: $offset,
            kernel: formats::$kernel,
        }),+];
        /// Their names.
        pub const NAMES: &[&str] = &[$($name),+];
    };
}
forms! {
    "nibbles": U4, 0, (0, 0), false, Some(8), pack_nibbles;
    "bytes": U8, 0, (0, 0), false, Some(128), pack_bytes;
    "e4m3": E4m3, 0, (0, 0), false, Some(0), pack_e4m3;
    "gptq": U4, 0, (0, 0), true, None, pack_gptq;
    "awq": U4, 0, (0, 0), true, None, pack_awq;
    "q4_0": U4, 32, (32, 18), false, Some(8), pack_q4_0;
    "q4_1": U4, 32, (32, 20), false, None, pack_q4_1;
    "q8_0": U8, 32, (32, 34), false, Some(128), pack_q8_0;
    "q4_k": U4, 32, (256, 144), false, None, pack_q4_k;
    "q5_k": U8, 32, (256, 176), false, None, pack_q5_k;
    "q6_k": U8, 16, (256, 210), false, Some(32), pack_q6_k;
}

impl Form {
    /// The form of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        FORMS.iter().find(|form| form.name == name)
    }
}

fn mismatch<T>(operation: &'static str, detail: String) -> Result<T> {
    Err(Error::ShapeMismatch { operation, detail })
}

/// Sizes of quantised weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sizes {
    /// Rows of W.
    pub n: usize,
    /// Elements of a row.
    pub k: usize,
    /// Groups of a row.
    pub groups: usize,
    /// The codes.
    pub codes: Codes,
    /// The offset subtracted from a code, where there are no minima.
    pub offset: Option<u32>,
}

impl Sizes {
    /// Refuses sizes that no kernel takes.
    pub fn check(self, operation: &'static str) -> Result<Self> {
        let Self { n, k, groups, codes, .. } = self;
        let (bits, unit, group) = (codes.bits(), codes.unit(), k / groups.max(1));
        let whole = groups > 0 && k.is_multiple_of(groups) && k.is_multiple_of(8);
        if n == 0
            || k == 0
            || !whole
            || (groups > 1 && !(group.is_multiple_of(unit) && (group / unit).is_power_of_two()))
        {
            return mismatch(
                operation,
                format!(
                    "W has {n} rows of {k} weights in {groups} groups; of {bits} bits a row takes groups of {unit}, {}, \
                     {}, ... or one, and a multiple of 8 weights",
                    2 * unit,
                    4 * unit
                ),
            );
        }
        if n as u128 * k as u128 / 8 > i32::MAX as u128 {
            let detail = format!("W has {n} x {k} weights, and may have {}", 8 * i32::MAX as i64);
            return Err(Error::Unsupported { operation, detail });
        }
        // Kernels step over a row's codes, and its factors, 64 bytes a group, by 32-bit numbers.
        let most = (u32::MAX as usize / STEP_BYTES).min(u32::MAX as usize / 64);
        if self.steps().max(groups) > most {
            let of_row = most * 2 * unit;
            let detail = format!("rows have {k} weights in {groups} groups, and may have {of_row} in {most}");
            return Err(Error::Unsupported { operation, detail });
        }
        Ok(self)
    }

    /// Tiles of rows.
    pub fn tiles(self) -> usize {
        self.n.div_ceil(ROWS as usize)
    }

    /// Steps along K.
    pub fn steps(self) -> usize {
        self.k.div_ceil(2 * self.codes.unit())
    }

    /// The types of codes and factors.
    pub fn packed(self) -> [ArrayType; 2] {
        let parts = if self.offset.is_some() { 2 } else { 4 };
        [
            ArrayType { dtype: Dtype::U8, shape: vec![self.tiles(), self.steps(), STEP_BYTES] },
            ArrayType { dtype: Dtype::F16, shape: vec![self.tiles(), self.groups, 8, parts] },
        ]
    }

    /// The weights that a kernel reads.
    pub fn weights(self, codes: u64, factors: u64) -> Weights {
        let (group, step) = (self.k / self.groups, 2 * self.codes.unit());
        let shift = match self.groups {
            1 => 31,
            _ if group < step => Weights::BY_UNIT,
            _ => (group / step).ilog2(),
        };
        Weights {
            codes: Global::from_address(codes),
            factors: Global::from_address(factors),
            n: self.n as u32,
            k: self.k as u32,
            groups: self.groups as u32,
            shift,
            minima: self.offset.is_none(),
            offset: self.offset.unwrap_or(0) as f32,
        }
    }

    /// The sizes of packed weights with rows of `k` elements, by the types of codes and factors.
    pub fn of(
        operation: &'static str,
        [codes, factors]: [&ArrayType; 2],
        k: usize,
        options: &Options,
    ) -> Result<Self> {
        let (of, rows) = (Codes::of(operation, options)?, options.int("rows"));
        let tiles = codes.shape.first().copied().unwrap_or(0);
        let n = match rows {
            0 => tiles * ROWS as usize,
            _ => rows.try_into().unwrap_or(0),
        };
        let groups = factors.shape.get(1).copied().unwrap_or(0);
        let minima = factors.shape.last() == Some(&4);
        let offset = match of {
            Codes::E4m3 => Some(0),
            _ if minima => None,
            // Floats have the difference of each code and the offset.
            _ => match (options.int("offset"), if of == Codes::U4 { 15 } else { 128 }) {
                (offset, most) if (0..=most).contains(&offset) => Some(offset as u32),
                (offset, most) => {
                    let detail =
                        format!("offset is {offset}; for codes of {} bits it is from 0 to {most}", of.bits());
                    return Err(Error::Unsupported { operation, detail });
                }
            },
        };
        let sizes = Self { n, k, groups, codes: of, offset }.check(operation)?;
        let wanted = sizes.packed();
        if [codes, factors].into_iter().ne(&wanted) {
            return mismatch(
                operation,
                format!(
                    "codes have shape {:?} and factors {:?}; for {n} rows of {k} weights of {} bits they have {:?} \
                     and {:?}, as pack_weights gives them",
                    codes.shape,
                    factors.shape,
                    of.bits(),
                    wanted[0].shape,
                    wanted[1].shape
                ),
            );
        }
        Ok(sizes)
    }
}

fn input(inputs: &[Option<ArrayType>], index: usize) -> &ArrayType {
    inputs[index].as_ref().expect("checked: it is not optional")
}

/// Form and sizes of weights to be packed.
pub fn source_sizes(inputs: &[Option<ArrayType>], options: &Options) -> Result<(&'static Form, Sizes)> {
    let form = Form::named(options.choice("form")).expect("an option of these names");
    let (weights, scales, others) = (input(inputs, 0), inputs[1].as_ref(), inputs[2].as_ref());
    let name = form.name;
    let [rows, columns] = weights.shape[..] else {
        return mismatch(PACK, format!("weights have shape {:?}, and must have two modes", weights.shape));
    };
    let bytes = columns * weights.dtype.bytes();
    let (n, k) = match (form.block, form.columns) {
        ((0, 0), false) => (rows, bytes * 8 / form.codes.bits()),
        // Words of eight elements along K, or along N.
        (_, true) if name == "gptq" => (columns, rows * 8),
        (_, true) => (columns * 8, rows),
        ((weights, block), _) if bytes.is_multiple_of(block) => (rows, bytes / block * weights),
        ((_, block), _) => {
            return mismatch(PACK, format!("rows have {bytes} bytes, and {name} has blocks of {block}"));
        }
    };
    let (apart, floats) = (form.group == 0, form.codes == Codes::E4m3);
    if weights.dtype == Dtype::E4m3 && !floats {
        return mismatch(PACK, format!("weights are float8_e4m3fn, and form is {name}; set it to e4m3"));
    }
    if apart != scales.is_some()
        || ((!apart || floats) && others.is_some())
        || (form.columns != others.is_some() && form.columns)
    {
        let takes = match (apart, form.columns) {
            (true, true) => "scales and zeros",
            (true, false) if floats => "scales, without minima",
            (true, false) => "scales, with or without minima",
            _ => "the weights alone",
        };
        return mismatch(PACK, format!("{name} takes {takes}"));
    }
    let groups = match scales {
        None => k / form.group,
        Some(scales) if form.columns => scales.shape.first().copied().unwrap_or(0),
        Some(scales) => scales.shape.get(1).copied().unwrap_or(0),
    };
    if form.columns && !n.is_multiple_of(8) {
        let detail = format!("{name} has {n} rows of weights; words of eight zeros need a multiple of 8");
        return mismatch(PACK, detail);
    }
    let offset = form.offset.filter(|_| others.is_none());
    let sizes = Sizes { n, k, groups, codes: form.codes, offset }.check(PACK)?;
    let wanted = if form.columns { [groups, n] } else { [n, groups] };
    let zeros = [groups, n / 8];
    let fits = |array: Option<&ArrayType>, wanted: &[usize], dtype| {
        array.is_none_or(|array| array.shape == wanted && array.dtype == dtype)
    };
    let floats_of = scales.map_or(Dtype::F16, |scales| scales.dtype);
    let (other, dtype) = if form.columns { (&zeros, Dtype::I32) } else { (&wanted, floats_of) };
    if !SCALES.contains(&floats_of)
        || !fits(scales, &wanted, floats_of)
        || !fits(others, other, dtype)
        || (form.columns && weights.dtype != Dtype::I32)
        || (floats && !matches!(weights.dtype, Dtype::E4m3 | Dtype::U8))
    {
        return mismatch(
            PACK,
            format!(
                "{name} of {n} rows of {k} weights has scales of float16, bfloat16 or float32 {wanted:?} and, where given, others of {dtype} \
                 {other:?}; {}they have {scales:?} and {others:?}",
                match (form.columns, floats) {
                    (true, _) => "words are int32; ",
                    (_, true) => "weights are float8_e4m3fn, or their bytes; ",
                    _ => "",
                }
            ),
        );
    }
    Ok((form, sizes))
}

/// Types of codes and factors.
pub fn packed(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    Ok(source_sizes(inputs, options)?.1.packed().to_vec())
}

/// The type of the weights as floats.
pub fn unpacked(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let (dtype, columns) = (options.dtype("dtype"), options.int("columns"));
    let [codes, factors] = [input(inputs, 0), input(inputs, 1)];
    let whole = codes
        .shape
        .get(1)
        .map_or(0, |steps| steps * STEP_BYTES / 16 * 8 / options.int("bits").max(1) as usize);
    let k = if columns > 0 { columns as usize } else { whole };
    if !matches!(dtype, Dtype::F16 | Dtype::Bf16) {
        let detail = format!("dtype is {dtype}, and may be float16 or bfloat16");
        return Err(Error::Unsupported { operation: UNPACK, detail });
    }
    let sizes = Sizes::of(UNPACK, [codes, factors], k, options)?;
    Ok(vec![ArrayType { dtype, shape: vec![sizes.n, k] }])
}

/// The type of the product.
pub fn product(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let x = input(inputs, 0);
    let Some(&k) = x.shape.last() else {
        return mismatch(LINEAR, "x has no modes; give an array of one or more".to_owned());
    };
    let sizes = Sizes::of(LINEAR, [input(inputs, 1), input(inputs, 2)], k, options)?;
    let mut shape = x.shape.clone();
    let last = shape.last_mut().expect("x has a mode");
    *last = sizes.n;
    if options.bool("gated") {
        if !sizes.n.is_multiple_of(ROWS as usize) {
            let detail = format!(
                "W has {} rows; alternating gate and up rows, 8 each, are a multiple of {ROWS}",
                sizes.n
            );
            return mismatch(LINEAR, detail);
        }
        *last /= 2;
    }
    let result = ArrayType { dtype: x.dtype, shape };
    if let Some(norm) = inputs[4].as_ref().filter(|norm| norm.dtype != x.dtype || norm.shape != [k]) {
        let detail = format!(
            "norm has shape {:?} of {}, and must have [{k}] of {}: a weight for each element of a row of x",
            norm.shape, norm.dtype, x.dtype
        );
        return mismatch(LINEAR, detail);
    }
    match &inputs[3] {
        Some(residual) if *residual != result => mismatch(
            LINEAR,
            format!(
                "residual has shape {:?} of {}, and must have {:?} of {}",
                residual.shape, residual.dtype, result.shape, result.dtype
            ),
        ),
        _ => Ok(vec![result]),
    }
}

/// The type of the product by activations of 8 bits.
pub fn product_8(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let (x, scales, dtype) = (input(inputs, 0), input(inputs, 1), options.dtype("dtype"));
    let [m, k] = x.shape[..] else {
        return mismatch(LINEAR_8, format!("x has shape {:?}, and must have two modes", x.shape));
    };
    if scales.shape != [m] {
        let detail =
            format!("scales have shape {:?}, and must have [{m}], one for each row of x", scales.shape);
        return mismatch(LINEAR_8, detail);
    }
    // A grid has 65,535 blocks along y, of eight rows at least.
    if !matches!(dtype, Dtype::F16 | Dtype::Bf16) || m > 8 * 65_535 {
        let detail =
            format!("dtype is {dtype} of float16 and bfloat16, and x has {m} rows of {}", 8 * 65_535);
        return Err(Error::Unsupported { operation: LINEAR_8, detail });
    }
    let of_converted = m as u128 * (k as u128).next_multiple_of(8);
    if of_converted > u128::from(u32::MAX) - 256 {
        let detail =
            format!("x has {m} rows of {k} activations, and may have 2^32; call it for parts of the rows");
        return Err(Error::Unsupported { operation: LINEAR_8, detail });
    }
    let x = ArrayType { dtype, shape: x.shape.clone() };
    product(&[Some(x), inputs[2].clone(), inputs[3].clone(), None, None], options)
}
