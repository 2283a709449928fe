//! File formats of quantised weights, and the kernels that permute them into the order of
//! [`codes`](super::codes).

use super::codes::{Code, CodeAs, CodePlace, E4m3, Factors, ROWS, Weights};
use moye_device::algorithm::store_vector_if;
use moye_device::arch::F16x2;
use moye_device::memory::GlobalMut;
use moye_device::number::U4;
use moye_device::prelude::*;

/// Threads of a block.
pub const THREADS: u32 = 256;

/// Quantised weights in a file format.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Source {
    /// Codes, or blocks of codes and factors.
    pub weights: Global<u8>,
    /// Scales, if they are separate.
    pub scales: Global<u8>,
    /// Minima of the type of scales, or zeros, if they are separate; or 0.
    pub others: Global<u8>,
    /// The type of scales.
    pub floats: Floats,
    /// Bytes of a row of `weights`.
    pub row: u32,
    /// Rows of W.
    pub n: u32,
    /// Elements of a row.
    pub k: u32,
    /// Weights of a group.
    pub group: u32,
}

/// The element type of scales; f16 if both fields are false.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Floats {
    /// bf16.
    pub bf16: bool,
    /// f32.
    pub f32: bool,
}

impl Floats {
    /// Element `at` of an array.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn read(self, array: Global<u8>, at: i64) -> f32 {
        // SAFETY: the array has the element.
        unsafe {
            if self.f32 {
                array.cast::<f32>().read(at)
            } else if self.bf16 {
                array.cast::<bf16>().read(at).convert()
            } else {
                array.cast::<f16>().read(at).convert()
            }
        }
    }
}

/// A form of quantised weights.
pub trait Format {
    /// The type of its codes.
    type Code: Code;

    /// The code of an element.
    ///
    /// # Safety
    /// The source has the element, in this form.
    unsafe fn code(source: &Source, row: u32, k: u32) -> u32;

    /// Scale and minimum of a group of a row.
    ///
    /// # Safety
    /// The source has the group, in this form.
    unsafe fn factors(source: &Source, row: u32, group: u32) -> [f32; 2];
}

impl Source {
    /// Byte `at` of a row.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn byte(&self, row: u32, at: u32) -> u32 {
        // SAFETY: the row has the byte.
        unsafe { self.weights.read(i64::from(row) * i64::from(self.row) + i64::from(at)) }.into()
    }

    /// The f16 that starts at byte `at` of a row.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn half(&self, row: u32, at: u32) -> f32 {
        // SAFETY: the row has the two bytes.
        let bits = unsafe { self.byte(row, at) | self.byte(row, at + 1) << 8 };
        f16::from_bits(bits as u16).convert()
    }

    /// The nibble at `place` of a little-endian array of nibbles.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn nibble(array: Global<u8>, place: i64) -> u32 {
        // SAFETY: the array has the nibble.
        u32::from(unsafe { array.read(place / 2) }) >> (place % 2 * 4) & 15
    }
}

/// Scale and minimum of a group whose scales are rows of W by groups: the minimum is given, or
/// follows from codes that start at `-offset`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn apart(source: &Source, row: u32, group: u32, offset: f32) -> [f32; 2] {
    let at = i64::from(row * (source.k / source.group) + group);
    let Source { scales, others, floats, .. } = source;
    // SAFETY: both have an element for each group.
    unsafe {
        let scale = floats.read(*scales, at);
        [scale, if others.address() == 0 { -offset * scale } else { floats.read(*others, at) }]
    }
}

macro_rules! formats {
    ($($(#[$doc:meta])* $name:ident: $code:ty,
        |$source:ident, $row:ident, $k:ident| $of_code:expr, |$group:ident| $of_factors:expr;)+) => { $(
        $(#[$doc])*
        pub struct $name;

        impl Format for $name {
            type Code = $code;

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn code($source: &Source, $row: u32, $k: u32) -> u32 {
                // SAFETY: the source has the element.
                unsafe { $of_code }
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn factors($source: &Source, $row: u32, $group: u32) -> [f32; 2] {
                // SAFETY: the source has the group.
                unsafe { $of_factors }
            }
        }
    )+ };
}
formats! {
    /// Two codes from 0 to 15 a byte, the first in its lower half, `(n, k / 2)`; scales and minima
    /// `(n, k / group)`. Without minima codes mean -8 to 7.
    Nibbles: U4, |s, row, k| s.byte(row, k / 2) >> (k % 2 * 4) & 15, |group| apart(s, row, group, 8.0);
    /// Signed bytes `(n, k)`; scales `(n, k / group)`.
    Bytes: u8, |s, row, k| s.byte(row, k) ^ 0x80, |group| {
        let [scale, minimum] = apart(s, row, group, 0.0);
        [scale, minimum - 128.0 * scale]
    };
    /// e4m3 `(n, k)`; scales `(n, k / group)`. The scale of a group with NaN becomes NaN.
    E4m3Bytes: E4m3, |s, row, k| s.byte(row, k), |group| {
        let [mut scale, _] = apart(s, row, group, 0.0);
        for i in 0..s.group {
            if s.byte(row, group * s.group + i) & 0x7F == 0x7F {
                scale = f32::NAN;
            }
        }
        [scale, 0.0]
    };
    /// GPTQ, version 1: `qweight` int32 `(k / 8, n)`, `scales` `(k / group, n)`, `qzeros` int32
    /// `(k / group, n / 8)` of zeros less 1.
    Gptq: U4, |s, row, k| {
        let word = i64::from(k / 8) * i64::from(s.n) + i64::from(row);
        Source::nibble(s.weights, 8 * word + i64::from(k % 8))
    }, |group| {
        let at = i64::from(group) * i64::from(s.n) + i64::from(row);
        let scale = s.floats.read(s.scales, at);
        [scale, -((Source::nibble(s.others, at) & 15) as f32 + 1.0) * scale]
    };
    /// AWQ: `qweight` int32 `(k, n / 8)` of rows in the order 0 2 4 6 1 3 5 7, `scales`
    /// `(k / group, n)`, `qzeros` int32 `(k / group, n / 8)`.
    Awq: U4, |s, row, k| Source::nibble(s.weights, i64::from(k) * i64::from(s.n) + awq(row)), |group| {
        let first = i64::from(group) * i64::from(s.n);
        let scale = s.floats.read(s.scales, first + i64::from(row));
        [scale, -(Source::nibble(s.others, first + awq(row)) as f32) * scale]
    };
    /// GGUF's Q4_0: blocks of 32, 18 bytes: the scale in f16, then the codes of elements i and
    /// i + 16.
    Q4_0: U4, |s, row, k| {
        let (block, i) = (k / 32 * 18, k % 32);
        s.byte(row, block + 2 + i % 16) >> (i / 16 * 4) & 15
    }, |group| {
        let scale = s.half(row, 18 * group);
        [scale, -8.0 * scale]
    };
    /// GGUF's Q4_1: blocks of 32, 20 bytes: scale and minimum in f16, then the codes as in Q4_0.
    Q4_1: U4, |s, row, k| {
        let (block, i) = (k / 32 * 20, k % 32);
        s.byte(row, block + 4 + i % 16) >> (i / 16 * 4) & 15
    }, |group| [s.half(row, 20 * group), s.half(row, 20 * group + 2)];
    /// GGUF's Q8_0: blocks of 32, 34 bytes: the scale in f16, then signed bytes.
    Q8_0: u8, |s, row, k| s.byte(row, k / 32 * 34 + 2 + k % 32) ^ 0x80, |group| {
        let scale = s.half(row, 34 * group);
        [scale, -128.0 * scale]
    };
    /// GGUF's Q4_K: blocks of 256, 144 bytes: two f16 that the 6-bit scales and minima of 8 groups
    /// multiply, and the codes of elements i and i + 32 of each 64.
    Q4K: U4, |s, row, k| {
        let (block, i) = (k / 256 * 144, k % 256);
        s.byte(row, block + 16 + i / 64 * 32 + i % 32) >> (i / 32 % 2 * 4) & 15
    }, |group| six_bits(s, row, group / 8 * 144, group % 8);
    /// GGUF's Q5_K: as Q4_K, 176 bytes, with the fifth bits of all groups before the others.
    Q5K: u8, |s, row, k| {
        let (block, i) = (k / 256 * 176, k % 256);
        let low = s.byte(row, block + 48 + i / 64 * 32 + i % 32) >> (i / 32 % 2 * 4) & 15;
        low | (s.byte(row, block + 16 + i % 32) >> (i / 32) & 1) << 4
    }, |group| six_bits(s, row, group / 8 * 176, group % 8);
    /// GGUF's Q6_K: blocks of 256, 210 bytes: the lower four bits and the upper two of the codes,
    /// 16 signed scales of groups of 16, and the f16 that they multiply.
    Q6K: u8, |s, row, k| {
        let (block, i) = (k / 256 * 210, k % 128);
        let (low, high) = (block + k % 256 / 128 * 64, block + 128 + k % 256 / 128 * 32);
        let low = s.byte(row, low + i % 64) >> (i / 64 * 4) & 15;
        low | (s.byte(row, high + i % 32) >> (i / 32 * 2) & 3) << 4
    }, |group| {
        let block = group / 16 * 210;
        let scale = s.half(row, block + 208) * (s.byte(row, block + 192 + group % 16) as i8) as f32;
        [scale, -32.0 * scale]
    };
}

/// The nibble of a row among those of a row of AWQ's words.
const fn awq(row: u32) -> i64 {
    (row / 8 * 8 + row % 2 * 4 + row % 8 / 2) as i64
}

/// Scale and minimum of group `j` of a block of Q4_K or Q5_K.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn six_bits(source: &Source, row: u32, block: u32, j: u32) -> [f32; 2] {
    // SAFETY: the block has 12 bytes of scales after two f16.
    unsafe {
        let byte = |i: u32| source.byte(row, block + 4 + i);
        let (scale, minimum) = if j < 4 {
            (byte(j) & 63, byte(j + 4) & 63)
        } else {
            (byte(j + 4) & 15 | byte(j - 4) >> 6 << 4, byte(j + 4) >> 4 | byte(j) >> 6 << 4)
        };
        let (of_scale, of_minimum) = (source.half(row, block), source.half(row, block + 2));
        [of_scale * scale as f32, -of_minimum * minimum as f32]
    }
}

/// Packs the codes and factors of weights of a form: a thread for each 16 bytes of codes, and for
/// each two rows of a group. Elements past the end of W are 0.
///
/// # Safety
/// `source` is readable; `weights` have room for its tiles, and overlap nothing.
#[kernel(
    threads = THREADS,
    instances = (
        pack_nibbles<Nibbles>, pack_bytes<Bytes>, pack_e4m3<E4m3Bytes>, pack_gptq<Gptq>, pack_awq<Awq>, pack_q4_0<Q4_0>,
        pack_q4_1<Q4_1>, pack_q8_0<Q8_0>, pack_q4_k<Q4K>, pack_q5_k<Q5K>, pack_q6_k<Q6K>
    )
)]
pub unsafe fn pack<F: Format>(
    source: Source,
    codes: GlobalMut<[u32; 4]>,
    factors: GlobalMut<F16x2>,
    pairs: bool,
) {
    let at = block_idx().x * THREADS + thread_idx().x;
    let tiles = source.n.div_ceil(ROWS);
    let steps = source.k.div_ceil(F::Code::STEP);
    let groups = source.k / source.group;
    if at < tiles * steps * 32 {
        let (lane, step, tile) = (at % 32, at / 32 % steps, at / 32 / steps);
        let mut words = [0; 4];
        for eight in 0..2 * F::Code::MMAS {
            let (unit, mma) = (eight / F::Code::MMAS, eight % F::Code::MMAS);
            for register in 0..4 {
                for value in 0..2 {
                    let place = CodePlace::of::<F::Code>(lane, unit, mma, register, value);
                    let (row, k) = (tile * ROWS + place.row, step * F::Code::STEP + place.k);
                    if row < source.n && k < source.k {
                        let bit = (8 * eight + F::Code::place(register, value)) * F::Code::BITS;
                        words[bit as usize / 32] |= F::code(&source, row, k) << (bit % 32);
                    }
                }
            }
        }
        codes.write(at, words.map(F::Code::stored));
    }
    if at < tiles * groups * 8 {
        let (i, group, tile) = (at % 8, at / 8 % groups, at / 8 / groups);
        let mut of_rows = [[0.0; 2]; 2];
        for half in 0..2 {
            let row = tile * ROWS + i + 8 * half;
            if row < source.n {
                of_rows[half as usize] = F::factors(&source, row, group);
            }
        }
        let [[scale, minimum], [scale8, minimum8]] = of_rows;
        if pairs {
            factors.write(2 * at, F16x2::new(scale.convert(), scale8.convert()));
            factors.write(2 * at + 1, F16x2::new(minimum.convert(), minimum8.convert()));
        } else {
            factors.write(at, F16x2::new(scale.convert(), scale8.convert()));
        }
    }
}

static_layout! {
    /// A lane's consecutive elements of a row of a unit.
    Vector<Q: Code> = layout!(({ Q::VECTOR as i64 }, 1));
}

/// The weights as f16 or bf16, row-major: a thread for each 16 bytes of codes.
///
/// # Safety
/// `out` has `n` rows of `k` elements without gaps, starts at a multiple of 16 bytes, and overlaps
/// no weights. `k` is a multiple of 8.
#[kernel(
    threads = THREADS,
    instances = unpack<f16 | bf16, U4 | u8 | E4m3>,
    table = UnpackKernels
)]
pub unsafe fn unpack<T: Half, Q: CodeAs<T>>(weights: Weights, out: GlobalMut<T>)
where
    f32: Convert<T>,
{
    let at = block_idx().x * THREADS + thread_idx().x;
    let steps = weights.k.div_ceil(Q::STEP);
    let (lane, step, tile) = (at % 32, at / 32 % steps, at / 32 / steps);
    if tile * ROWS >= weights.n {
        return;
    }
    let words = weights.codes.read(at);
    for unit in 0..2u32 {
        let first = CodePlace::of::<Q>(lane, unit, 0, 0, 0);
        let (row, k) = (tile * ROWS + first.row, step * Q::STEP + first.k);
        if k >= weights.k {
            return;
        }
        let from = weights.place_of_factors(tile, step, unit, lane / 4);
        let Factors { scales, minima } = weights.factors(|i| from.read(i));
        for half in 0..2 {
            let mut values = Fragment::<T, Vector<Q>>::zeros();
            for mma in 0..Q::MMAS as usize {
                let pairs = Q::operand(words, unit as usize, mma);
                for i in 0..4 {
                    let register = half + i / 2 * 2;
                    let code: f32 = pairs[register][i % 2].convert();
                    let code = code - (Q::BIASES[register] + weights.offset);
                    values[4 * mma + i] = code.fma(scales[half], minima[half]).convert();
                }
            }
            let row = row + 8 * half as u32;
            let to = i64::from(row) * i64::from(weights.k) + i64::from(k);
            store_vector_if(row < weights.n, out.offset(to), &values, 0);
        }
    }
}
