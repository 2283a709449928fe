//! The order of quantised weights in memory: that of the registers of `mma.sync`.
//!
//! W has rows of K weights `code * scale + minimum`, with a scale and a minimum for each group of
//! consecutive weights of a row. Its codes are in tiles of [`ROWS`] rows and steps of
//! [`Code::STEP`] along K: 512 bytes, of which a lane loads its 16 at once. Half a step is a unit,
//! the smallest group. In a unit, lane `l` has codes of rows `l / 4` and `l / 4 + 8`: the ones that
//! multiply [`Code::VECTOR`] consecutive elements of x, from `l % 4 * VECTOR` on. The order along K
//! is arbitrary if both operands have it.

use moye_device::algorithm::Eight;
use moye_device::arch::{Bf16x2, F16x2};
use moye_device::number::U4;
use moye_device::prelude::*;

/// Rows of a tile of W.
pub const ROWS: u32 = 16;

/// A type of codes: [`U4`], `u8` or [`E4m3`].
pub trait Code: Copy + Send + Sync + 'static {
    /// Bits of a code.
    const BITS: u32;
    /// Instructions of a unit.
    const MMAS: u32;
    /// Consecutive elements of x of a lane for a unit.
    const VECTOR: u32 = 4 * Self::MMAS;
    /// Elements along K of a unit.
    const UNIT: u32 = 4 * Self::VECTOR;
    /// Elements along K of a step.
    const STEP: u32 = 2 * Self::UNIT;
    /// Whether codes are floats, which have no bias in registers.
    const IS_FLOAT: bool = false;

    /// The index, among the eight codes of an instruction, of value `value` of register `register`.
    fn place(register: u32, value: u32) -> u32;

    /// Permutes a word of codes in the order of their indices to its order in memory.
    #[inline(always)]
    fn stored(word: u32) -> u32 {
        word
    }
}

impl Code for U4 {
    const BITS: u32 = 4;
    const MMAS: u32 = 2;

    #[inline(always)]
    fn place(register: u32, value: u32) -> u32 {
        <Self as Eight<f16>>::place(register, value)
    }
}

impl Code for u8 {
    const BITS: u32 = 8;
    const MMAS: u32 = 1;

    #[inline(always)]
    fn place(register: u32, value: u32) -> u32 {
        <Self as Eight<f16>>::place(register, value)
    }
}

/// Codes that are e4m3: floats of a sign, four bits of exponent and three of mantissa.
///
/// In memory, the two codes of each half of a word are placed so that few instructions extract them
/// as f16: the upper code has its sign in bit 15 and the rest in bits 13 to 7, the lower code in
/// bit 14 and bits 6 to 0. NaN is not a code: the kernels read its bits as 480, and `pack_weights`
/// makes the scale of its group NaN.
#[derive(Clone, Copy, Debug)]
pub struct E4m3;

impl Code for E4m3 {
    const BITS: u32 = 8;
    const MMAS: u32 = 1;
    const IS_FLOAT: bool = true;

    #[inline(always)]
    fn place(register: u32, value: u32) -> u32 {
        register / 2 * 4 + 2 * value + (1 - register % 2)
    }

    #[inline(always)]
    fn stored(word: u32) -> u32 {
        word & 0x807F_807F | word >> 1 & 0x3F80_3F80 | word << 7 & 0x4000_4000
    }
}

/// Codes that become operands `T`.
pub trait CodeAs<T>: Code {
    /// The bias that [`operand`](Self::operand) adds to the codes of each register.
    const BIASES: [f32; 4];

    /// The registers of operand A of instruction `mma` of a unit, of a lane's 16 bytes of a step:
    /// codes plus their biases.
    fn operand(words: [u32; 4], unit: usize, mma: usize) -> [[T; 2]; 4];
}

/// `word & mask | bits` by one instruction; `ptxas` takes two where both are constants.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn masked_or(word: u32, mask: u32, bits: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let result: u32;
        // SAFETY: arithmetic on registers.
        unsafe {
            core::arch::asm!(
                "lop3.b32 {}, {}, {}, {}, 0xEA;",
                out(reg32) result,
                in(reg32) word,
                in(reg32) mask,
                in(reg32) bits,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        result
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        word & mask | bits
    }
}

/// `Eight::biased` with [`masked_or`]: the bits of the biases of even and odd pairs, the shift of
/// the word for each pair, and the bits `$up` by which odd pairs are then higher.
macro_rules! nibbles {
    ($($t:ident $even:literal $odd:literal $shifts:expr, $up:literal;)+) => { $(
        impl CodeAs<$t> for U4 {
            const BIASES: [f32; 4] = <Self as Eight<$t>>::BIASES;

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn operand(words: [u32; 4], unit: usize, mma: usize) -> [[$t; 2]; 4] {
                let word = words[2 * unit + mma];
                let mut pairs = [[$t::ZERO; 2]; 4];
                for (i, pair) in pairs.iter_mut().enumerate() {
                    let (bits, up) = if i % 2 == 0 { ($even, 0) } else { ($odd, $up) };
                    let word = masked_or(word >> $shifts[i], 0x000F_000F << up, bits);
                    *pair = [word as u16, (word >> 16) as u16].map($t::from_bits);
                }
                pairs
            }
        }
    )+ };
}
nibbles! {
    f16 0x6400_6400 0x5400_5400 [0, 0, 8, 8], 4;
    bf16 0x4300_4300 0x4300_4300 [0, 4, 8, 12], 0;
}

impl<T> CodeAs<T> for u8
where
    Self: Eight<T, Words = [u32; 2]>,
{
    const BIASES: [f32; 4] = <Self as Eight<T>>::BIASES;

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn operand(words: [u32; 4], unit: usize, _: usize) -> [[T; 2]; 4] {
        Self::biased([words[2 * unit], words[2 * unit + 1]])
    }
}

/// The bits of e4m3 in the exponent and the mantissa of a wider float are the value times a power
/// of two, also where e4m3 is subnormal: one multiplication of a pair yields the values.
macro_rules! floats {
    ($($t:ident $pair:ident $power:expr, |$word:ident| $upper:expr, $lower:expr;)+) => { $(
        impl CodeAs<$t> for E4m3 {
            const BIASES: [f32; 4] = [0.0; 4];

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn operand(words: [u32; 4], unit: usize, _: usize) -> [[$t; 2]; 4] {
                let mut pairs = [[$t::ZERO; 2]; 4];
                for (i, pair) in pairs.iter_mut().enumerate() {
                    let $word = words[2 * unit + i / 2];
                    let bits = if i % 2 == 0 { $upper } else { $lower };
                    let values = $pair::from_bits(bits) * const { $pair::splat($t::from_f32_const($power)) };
                    *pair = [values.low(), values.high()];
                }
                pairs
            }
        }
    )+ };
}
/// The bits of both signs.
const SIGNS: u32 = 0x8000_8000;
floats! {
    f16 F16x2 256.0, |word| word & 0xBF80_BF80, masked_or(word << 1, SIGNS, word << 7 & 0x3F80_3F80);
    bf16 Bf16x2 f32::from_bits((127 + 120) << 23), |word|
        masked_or(word, SIGNS, word >> 3 & 0x07F0_07F0), masked_or(word << 1, SIGNS, word << 4 & 0x07F0_07F0);
}

/// f16 or bf16, with products of two at a time.
pub trait Pairs: Half<Bits = u16> {
    /// The product of each pair, rounded.
    fn times(a: [Self; 2], b: [Self; 2]) -> [Self; 2];
}

macro_rules! pairs {
    ($($t:ident $pair:ident),+) => { $(
        impl Pairs for $t {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn times([a, b]: [Self; 2], [c, d]: [Self; 2]) -> [Self; 2] {
                let product = $pair::new(a, b) * $pair::new(c, d);
                [product.low(), product.high()]
            }
        }
    )+ };
}
pairs!(f16 F16x2, bf16 Bf16x2);

/// A code of a lane's operand A: its row of the tile, and its place in the step.
#[derive(Clone, Copy, Debug)]
pub struct CodePlace {
    /// The row.
    pub row: u32,
    /// The element along K.
    pub k: u32,
}

impl CodePlace {
    /// The place of value `value` of register `register` of instruction `mma` of a unit.
    #[inline(always)]
    pub const fn of<Q: Code>(lane: u32, unit: u32, mma: u32, register: u32, value: u32) -> Self {
        let k = unit * Q::UNIT + lane % 4 * Q::VECTOR + 4 * mma + 2 * (register / 2) + value;
        Self { row: lane / 4 + 8 * (register % 2), k }
    }
}

/// The quantised weights of a matrix, for kernels.
#[repr(C)]
#[derive(Clone, Copy, KernelParam)]
pub struct Weights {
    /// A lane's 16 bytes: (lane, step, tile).
    pub codes: Global<[u32; 4]>,
    /// The scales of rows `i` and `i + 8` of a tile, or these and their minima: words (part, i,
    /// group, tile).
    pub factors: Global<u32>,
    /// Rows of W.
    pub n: u32,
    /// Elements of a row.
    pub k: u32,
    /// Groups of a row.
    pub groups: u32,
    /// The binary logarithm of the steps of a group; 31 if a row is a group,
    /// [`Weights::BY_UNIT`] if a unit is.
    pub shift: u32,
    /// Whether there are minima.
    pub minima: bool,
    /// The offset subtracted from a code.
    pub offset: f32,
}

/// The rows of a matrix.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelParam)]
pub struct Rows {
    /// Stride between rows, in elements.
    pub row: i64,
    /// Stride between elements.
    pub element: i64,
    /// Whether rows are contiguous and start at multiples of 16 bytes.
    pub aligned: bool,
}

/// Scales and minima of a lane's two rows of a tile.
#[derive(Clone, Copy)]
pub struct Factors {
    /// The scales.
    pub scales: [f32; 2],
    /// The minima.
    pub minima: [f32; 2],
}

impl Weights {
    /// Groups are units: two of a step.
    pub const BY_UNIT: u32 = 32;

    /// The groups of a step: 2 if they are units.
    #[inline(always)]
    pub const fn per_step(&self) -> u32 {
        1 + (self.shift == Self::BY_UNIT) as u32
    }

    /// The group of a unit of a step.
    #[inline(always)]
    pub fn group(&self, step: u32, unit: u32) -> u32 {
        // The last step may contain a unit past the end of K, whose sums are 0.
        let group = if self.shift == Self::BY_UNIT { 2 * step + unit } else { step >> self.shift };
        group.min(self.groups - 1)
    }

    /// The place of the factors of rows `row` and `row + 8` of a tile for a unit of a step.
    #[inline(always)]
    pub fn place_of_factors(&self, tile: u32, step: u32, unit: u32, row: u32) -> Global<u32> {
        let at = (tile * self.groups + self.group(step, unit)) * 8 + row;
        self.factors.offset(i64::from(at << u32::from(self.minima)))
    }

    /// The factors at that place, from words that `word` reads; absent minima are 0.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn factors(&self, word: impl Fn(u32) -> u32) -> Factors {
        let scales = F16x2::from_bits(word(0)).convert();
        let minima = if self.minima { F16x2::from_bits(word(1)).convert() } else { [0.0; 2] };
        Factors { scales, minima }
    }
}
