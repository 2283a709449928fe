//! A `mma.sync` instruction as a value, and its emulation.

use super::operand::{MmaOperand, MmaResult, extract, insert_sum, places};
use super::product::MmaSum;
use crate::block::{ExitedLanes, WARP_SIZE, current};
use std::panic::Location;
use std::sync::OnceLock;

/// The most 32-bit registers per lane of one operand, in any instruction.
pub const MMA_WORDS: usize = 8;

const LANES: usize = WARP_SIZE as usize;

/// A `mma.sync` instruction: `D = A B + C` of an `m x k`, a `k x n` and an `m x n` matrix.
#[derive(Debug)]
pub struct Mma {
    /// The instruction's name in messages.
    pub operation: &'static str,
    /// The extents m, n and k.
    pub shape: [usize; 3],
    /// The number of threads that hold one set of matrices: 32, or 8 if a warp holds four sets.
    pub threads: usize,
    /// The lane of a thread of the first set. The other lanes hold the other sets in the same
    /// order.
    pub lane: fn(usize) -> usize,
    /// The matrix A, (m, k).
    pub a: MmaOperand,
    /// The matrix B, (n, k): counted column by column, n is fastest.
    pub b: MmaOperand,
    /// The matrix C, (m, n).
    pub c: MmaOperand,
    /// The result D, (m, n).
    pub d: MmaResult,
    /// The rule for sums of products.
    pub sum: MmaSum,
    /// Tables derived from the operands at the first use: `MmaTables::new()`.
    pub tables: MmaTables,
}

/// The positions of all elements, computed once.
#[derive(Debug, Default)]
pub struct MmaTables(OnceLock<Tables>);

impl MmaTables {
    /// Tables that are computed at first use.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }
}

#[derive(Debug)]
struct Tables {
    /// The lanes of each set's threads.
    sets: Vec<Vec<usize>>,
    // The position of each thread's values. A, C and D are stored row by row, so that the elements
    // of a row are contiguous, as are those of B for one k.
    a: Vec<usize>,
    b: Vec<usize>,
    c: Vec<usize>,
    d: Vec<usize>,
}

/// A lane's registers of one operand; unused registers follow.
type Words = [u32; MMA_WORDS];

impl Mma {
    /// The running lane's registers of D for its registers of A, B and C. All 32 lanes of the warp
    /// take part.
    #[track_caller]
    pub fn run(&'static self, a: Words, b: Words, c: Words) -> Words {
        let compute = |lanes: &[Option<[Words; 3]>; LANES]| self.compute(lanes);
        let exited = ExitedLanes::Fault;
        current().collective(self.operation, u32::MAX, exited, [a, b, c], compute, Location::caller())
    }

    fn compute(&self, lanes: &[Option<[Words; 3]>; LANES]) -> [Words; LANES] {
        let tables = self.tables.0.get_or_init(|| self.make_tables());
        let mut result = [Words::default(); LANES];
        for set in &tables.sets {
            self.multiply(tables, set, lanes, &mut result);
        }
        result
    }

    fn make_tables(&self) -> Tables {
        let first: Vec<_> = (0..self.threads).map(self.lane).collect();
        let mut sets: Vec<Vec<usize>> = Vec::new();
        for base in 0..LANES {
            if sets.iter().flatten().any(|&lane| lane == base) {
                continue;
            }
            sets.push(first.iter().map(|lane| base + lane).collect());
        }
        let [m, n, k] = self.shape;
        // From column-major to row-major.
        let turned = |mut places: Vec<usize>, columns: usize| {
            places.iter_mut().for_each(|place| *place = *place % m * columns + *place / m);
            places
        };
        let operand = |operand: &MmaOperand| places(self.threads, operand.values, operand.place);
        Tables {
            sets,
            a: turned(operand(&self.a), k),
            b: operand(&self.b),
            c: turned(operand(&self.c), n),
            d: turned(places(self.threads, self.d.values, self.d.place), n),
        }
    }

    fn multiply(
        &self,
        tables: &Tables,
        set: &[usize],
        lanes: &[Option<[Words; 3]>; LANES],
        result: &mut [Words; LANES],
    ) {
        let [m, n, k] = self.shape;
        let a = gather(&self.a, &tables.a, m * k, set, lanes, 0);
        let b = gather(&self.b, &tables.b, n * k, set, lanes, 1);
        let mut sums = gather(&self.c, &tables.c, m * n, set, lanes, 2);
        for (a, sums) in a.chunks_exact(k).zip(sums.chunks_exact_mut(n)) {
            self.sum.row(a, &b, sums);
        }
        for (thread, &lane) in set.iter().enumerate() {
            for value in 0..self.d.values {
                let sum = sums[tables.d[thread * self.d.values + value]];
                insert_sum(&mut result[lane], self.d.bits, value, self.d.encode, sum);
            }
        }
    }
}

/// A tile's values from the lanes' registers; each lane passes three operands.
fn gather(
    operand: &MmaOperand,
    places: &[usize],
    size: usize,
    set: &[usize],
    lanes: &[Option<[Words; 3]>; LANES],
    number: usize,
) -> Vec<f64> {
    let mut tile = vec![0.0; size];
    for (places, &lane) in places.chunks_exact(operand.values).zip(set) {
        // A lane is missing only if a thread unwinds, and then the result is not used.
        let Some(operands) = &lanes[lane] else { continue };
        let registers = &operands[number];
        match operand.bits {
            // The common widths, without the arithmetic of the others.
            16 => {
                for (pair, word) in places.chunks(2).zip(registers) {
                    for (&place, bits) in pair.iter().zip([word & 0xffff, word >> 16]) {
                        tile[place] = (operand.decode)(bits.into());
                    }
                }
            }
            32 => {
                for (&place, &word) in places.iter().zip(registers) {
                    tile[place] = (operand.decode)(word.into());
                }
            }
            bits => {
                for (value, &place) in places.iter().enumerate() {
                    tile[place] = (operand.decode)(extract(registers, bits, value));
                }
            }
        }
    }
    tile
}
