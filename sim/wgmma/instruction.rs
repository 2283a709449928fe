//! A `wgmma.mma_async` instruction as a value, and its results for a warp.

use super::descriptor::MatrixDescriptor;
use crate::mma::{MmaSum, extract, insert_sum};
use std::ops::Range;

/// Rows of D that a warp computes.
const ROWS: usize = 16;
const LANES: usize = 32;

/// An element type of A or B.
#[derive(Clone, Copy, Debug)]
pub struct WgmmaNumber {
    /// The bits of one element.
    pub bits: usize,
    /// The value of an element's bits, exactly.
    pub decode: fn(u64) -> f64,
}

/// The element type of D.
#[derive(Clone, Copy, Debug)]
pub struct WgmmaResult {
    /// The bits of one element.
    pub bits: usize,
    /// The value of an element's bits, exactly.
    pub decode: fn(u64) -> f64,
    /// The bits of the nearest representable value, ties to even.
    pub encode: fn(f64) -> u64,
}

/// A `wgmma.mma_async` instruction: `D = A B + D`, of a 64 x K, a K x N and a 64 x N matrix; K is
/// 32 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Wgmma {
    /// The instruction's name in messages.
    pub operation: &'static str,
    /// Columns of B and D.
    pub n: usize,
    /// The element type of A.
    pub a: WgmmaNumber,
    /// The element type of B.
    pub b: WgmmaNumber,
    /// The element type of D.
    pub d: WgmmaResult,
    /// The arithmetic of the sums of products.
    pub sum: MmaSum,
    /// Whether A and B are MN-major in shared memory.
    pub mn_major: [bool; 2],
    /// Whether A and B are negated.
    pub negate: [bool; 2],
}

/// The location of A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WgmmaA {
    /// In shared memory.
    Shared(u64),
    /// In four registers of each thread.
    Registers([u32; 4]),
}

/// A warp's operands of an instruction.
pub(crate) struct WarpInput<'a> {
    /// The index of the warp in its warpgroup.
    pub(crate) warp: usize,
    /// The operand A of each lane.
    pub(crate) a: &'a [WgmmaA; LANES],
    pub(crate) b: u64,
    /// The previous registers of D of the lanes, unless the instruction ignores them.
    pub(crate) d: Option<[&'a [u32]; LANES]>,
}

impl Wgmma {
    /// Columns of A: 32 bytes.
    pub const fn k(&self) -> usize {
        256 / self.a.bits
    }

    /// 32-bit registers of D per thread.
    pub const fn words(&self) -> usize {
        self.n * self.d.bits / 64
    }

    /// The 16-byte pieces that hold rows of an operand in shared memory, with elements of this many
    /// bits: the address of each, and the row, along m or n and counted from the first of `rows`,
    /// and k of its first element. The others follow along the rows if the operand is MN-major,
    /// along k otherwise.
    fn for_each_piece(
        &self,
        descriptor: u64,
        mn_major: bool,
        bits: usize,
        rows: Range<usize>,
        mut visit: impl FnMut(u32, usize, usize),
    ) {
        let descriptor = MatrixDescriptor::of(descriptor);
        let per_piece = 128 / bits;
        if mn_major {
            // `rows` begin with a piece: they are counted by eights, and only 16-bit elements can
            // be M- or N-major.
            for row in rows.clone().step_by(per_piece) {
                for k in 0..self.k() {
                    visit(descriptor.mn_major((row / per_piece) as u32, k as u32), row - rows.start, k);
                }
            }
        } else {
            for row in rows.clone() {
                for k in (0..self.k()).step_by(per_piece) {
                    visit(descriptor.k_major(row as u32, (k / per_piece) as u32), row - rows.start, k);
                }
            }
        }
    }

    /// The addresses of the 16-byte pieces that a warp reads.
    pub(crate) fn pieces(&self, input: &WarpInput<'_>) -> Vec<u32> {
        let mut addresses = Vec::with_capacity(2 * (self.n + ROWS));
        let mut add = |descriptor: u64, mn_major: bool, bits: usize, rows: Range<usize>| {
            self.for_each_piece(descriptor, mn_major, bits, rows, |address, _, _| addresses.push(address));
        };
        add(input.b, self.mn_major[1], self.b.bits, 0..self.n);
        if let WgmmaA::Shared(descriptor) = input.a[0] {
            let first = ROWS * input.warp;
            add(descriptor, self.mn_major[0], self.a.bits, first..first + ROWS);
        }
        addresses
    }

    /// The lanes' registers of D after the instruction, lane by lane; `read` returns the 16 bytes
    /// at a shared address.
    pub(crate) fn compute(&self, input: &WarpInput<'_>, read: impl Fn(u32) -> u128 + Copy) -> Vec<u32> {
        let (n, k) = (self.n, self.k());
        // (N, K), with N contiguous
        let b = self.shared_rows(1, input.b, 0..n, [1, n], read);
        // (M, K), with K contiguous
        let a = match input.a[0] {
            WgmmaA::Shared(descriptor) => {
                let first = ROWS * input.warp;
                self.shared_rows(0, descriptor, first..first + ROWS, [k, 1], read)
            }
            WgmmaA::Registers(_) => self.register_rows(input.a),
        };
        // Pairs along a row, rows 8 apart, then the next 8 columns.
        let place = |lane: usize, value: usize| {
            let row = lane / 4 + 8 * (value / 2 % 2);
            row * n + 2 * (lane % 4) + value % 2 + 8 * (value / 4)
        };
        // The 32-bit floats, without a call for each.
        let is_f32 = self.d.bits == 32 && self.sum == MmaSum::Float;
        // (M, N), with N contiguous
        let mut sums = vec![0.0; ROWS * n];
        for (lane, words) in input.d.into_iter().flatten().enumerate() {
            for value in 0..n / 2 {
                sums[place(lane, value)] = match is_f32 {
                    true => f64::from(f32::from_bits(words[value])),
                    false => (self.d.decode)(extract(words, self.d.bits, value)),
                };
            }
        }
        for (a, sums) in a.chunks_exact(k).zip(sums.chunks_exact_mut(n)) {
            self.sum.row(a, &b, sums);
        }
        let mut result = vec![0; self.words() * LANES];
        for (lane, words) in result.chunks_exact_mut(self.words()).enumerate() {
            for value in 0..n / 2 {
                let sum = sums[place(lane, value)];
                match is_f32 {
                    true if !sum.is_nan() => words[value] = (sum as f32).to_bits(),
                    _ => insert_sum(words, self.d.bits, value, self.d.encode, sum),
                }
            }
        }
        result
    }

    /// The values of rows of an operand in shared memory, of A (0) or B (1), with these strides
    /// along rows and along k.
    fn shared_rows(
        &self,
        operand: usize,
        descriptor: u64,
        rows: Range<usize>,
        strides: [usize; 2],
        read: impl Fn(u32) -> u128,
    ) -> Vec<f64> {
        let WgmmaNumber { bits, decode } = [self.a, self.b][operand];
        let (mn_major, negate) = (self.mn_major[operand], self.negate[operand]);
        // From one element of a piece to the next.
        let step = if mn_major { strides[0] } else { strides[1] };
        let mut values = vec![0.0; rows.len() * self.k()];
        self.for_each_piece(descriptor, mn_major, bits, rows, |address, row, k| {
            let (mut piece, first) = (read(address), row * strides[0] + k * strides[1]);
            for value in values[first..].iter_mut().step_by(step).take(128 / bits) {
                let number = decode(piece as u64 & (u64::MAX >> (64 - bits)));
                *value = if negate { -number } else { number };
                piece >>= bits;
            }
        });
        values
    }

    /// The values of the warp's rows of A in registers, row by row.
    fn register_rows(&self, lanes: &[WgmmaA; LANES]) -> Vec<f64> {
        let (k, per_register) = (self.k(), 32 / self.a.bits);
        let mut values = vec![0.0; ROWS * k];
        for (lane, registers) in lanes.iter().enumerate() {
            let WgmmaA::Registers(registers) = registers else { continue };
            for value in 0..4 * per_register {
                let (register, at) = (value / per_register, value % per_register);
                let row = lane / 4 + 8 * (register % 2);
                let column = per_register * (lane % 4 + 4 * (register / 2)) + at;
                let number = (self.a.decode)(extract(registers, self.a.bits, value));
                values[row * k + column] = if self.negate[0] { -number } else { number };
            }
        }
        values
    }
}
