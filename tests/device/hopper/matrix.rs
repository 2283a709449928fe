//! Operands of `wgmma`: their images in shared memory, and their registers by thread-value layouts.

use crate::numbers::{Inputs, TestNumber};
use moye_device::layout::{ComposedLayout, Layout};
use moye_sim::intrinsics::MmaSum;
use rand::rngs::StdRng;

/// A matrix of `rows` x `columns`, column by column.
#[derive(Clone)]
pub struct Matrix<T> {
    pub rows: usize,
    pub elements: Vec<T>,
}

impl<T: TestNumber> Matrix<T> {
    pub fn draw(
        rows: usize,
        columns: usize,
        mut draw: impl FnMut(&mut StdRng) -> T,
        rng: &mut StdRng,
    ) -> Self {
        Self { rows, elements: (0..rows * columns).map(|_| draw(rng)).collect() }
    }

    pub fn columns(&self) -> usize {
        self.elements.len() / self.rows
    }

    /// The words of the matrix's image in shared memory; a layout of 1-bit elements counts bytes.
    pub fn image(&self, layout: &ComposedLayout) -> Vec<u32> {
        let per = if T::WIDTH < 8 { 8 / T::WIDTH } else { 1 };
        let bits = T::WIDTH * per;
        let mut words = vec![0; self.elements.len() * T::WIDTH / 32];
        for (index, element) in self.elements.iter().enumerate() {
            let (row, column) = (index % self.rows, index / self.rows);
            let place = layout.at_coord([row as i64, (column / per) as i64]) as usize;
            put(&mut words, place * bits + column % per * T::WIDTH, *element);
        }
        words
    }

    /// The registers of all threads, by a layout `(thread, value)` to the index in the matrix.
    pub fn registers(&self, layout: &Layout) -> Vec<u32> {
        let (threads, values) = (layout.extent(0), layout.extent(1));
        let mut words = vec![0; (threads * values) as usize * T::WIDTH / 32];
        for thread in 0..threads {
            for value in 0..values {
                let element = self.elements[layout.at_coord([thread, value]) as usize];
                put(&mut words, (thread * values + value) as usize * T::WIDTH, element);
            }
        }
        words
    }

    /// The matrix held in registers.
    pub fn of_registers(rows: usize, layout: &Layout, words: &[u32]) -> Self {
        let (threads, values) = (layout.extent(0), layout.extent(1));
        let mut elements = vec![None; (threads * values) as usize];
        for thread in 0..threads {
            for value in 0..values {
                let at = (thread * values + value) as usize * T::WIDTH;
                let element = T::from_words(&[words[at / 32] >> (at % 32)]);
                let place = &mut elements[layout.at_coord([thread, value]) as usize];
                assert!(place.replace(element).is_none(), "two threads hold one element");
            }
        }
        let elements = elements.into_iter().map(|element| element.expect("every element is held")).collect();
        Self { rows, elements }
    }

    fn values(&self) -> Vec<f64> {
        self.elements.iter().map(|element| element.value().re).collect()
    }
}

fn put<T: TestNumber>(words: &mut [u32], at: usize, element: T) {
    words[at / 32] |= element.to_words()[0] << (at % 32);
}

/// The arithmetic of a sum.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A sum of floats of this many bits.
    Float(usize),
    Wrap,
    Saturate,
    AndPopc,
}

impl Kind {
    /// The kind in the instruction's name, for factors of `bits` bits.
    pub fn of(instruction: &str, bits: usize) -> Self {
        match instruction {
            name if name.contains("and.popc") => Self::AndPopc,
            name if name.contains("satfinite") => Self::Saturate,
            name if name.contains(".s32.") => Self::Wrap,
            _ => Self::Float(bits),
        }
    }
}

/// The arithmetic of a product, for its error bound.
#[derive(Clone, Copy)]
pub struct Run {
    pub kind: Kind,
    pub inputs: Inputs,
    pub on_gpu: bool,
    /// -1 if one of the factors is negated.
    pub sign: f64,
}

/// Panics if `d` differs from `sign * a b + c` by more than the bound.
pub fn check<A: TestNumber, B: TestNumber, D: TestNumber>(
    what: &str,
    run: Run,
    (a, b): (&Matrix<A>, &Matrix<B>),
    c: Option<&Matrix<D>>,
    d: &Matrix<D>,
) {
    let (m, n, k) = (a.rows, b.rows, a.columns());
    assert_eq!((d.rows, d.columns(), b.columns()), (m, n, k));
    let (a, b, d) = (a.values(), b.values(), d.values());
    let c = c.map_or_else(|| vec![0.0; m * n], Matrix::values);
    let mut wrong = Vec::new();
    for column in 0..n {
        for row in 0..m {
            let at = row + m * column;
            let pairs = || (0..k).map(|i| (a[row + m * i], b[column + n * i]));
            let (expected, bound) = match run.kind {
                Kind::Float(bits) => {
                    let sum = pairs().fold(c[at], |sum, (a, b)| sum + run.sign * a * b);
                    let magnitude = pairs().fold(c[at].abs(), |sum, (a, b)| sum + (a * b).abs());
                    (sum, bound::<D>(run, bits, k, magnitude))
                }
                Kind::Wrap => (f64::from((c[at] as i64 + whole(pairs())) as i32), 0.0),
                Kind::Saturate => {
                    ((c[at] + whole(pairs()) as f64).clamp(f64::from(i32::MIN), f64::from(i32::MAX)), 0.0)
                }
                Kind::AndPopc => {
                    let both = pairs().filter(|&(a, b)| a * b != 0.0).count() as i64;
                    (f64::from((c[at] as i64 + both) as i32), 0.0)
                }
            };
            // NaN is within no bound.
            let within = (d[at] - expected).abs() <= bound;
            if !within {
                wrong.push(format!(
                    "({row}, {column}): got {}, expected {expected} within {bound:.3e}",
                    d[at]
                ));
            }
        }
    }
    let shown = wrong.iter().take(6).map(String::as_str).collect::<Vec<_>>().join("\n  ");
    assert!(wrong.is_empty(), "{what}: {} of {} elements are wrong:\n  {shown}", wrong.len(), m * n);
}

fn whole(pairs: impl Iterator<Item = (f64, f64)>) -> i64 {
    pairs.map(|(a, b)| a as i64 * b as i64).sum()
}

/// The error bound of a result: for the simulator, which adds exact products in f64 and rounds to
/// `D` after each instruction; for a GPU, by the assumptions about hardware in [`MmaSum::bound`].
fn bound<D: TestNumber>(run: Run, bits: usize, k: usize, magnitude: f64) -> f64 {
    if run.inputs == Inputs::Small {
        return 0.0;
    }
    let (precision, smallest) = if D::WIDTH == 16 { (11, -24) } else { (24, -149) };
    // Products and f64 accumulators, including the reference's.
    let sums = 3.0 * (k + 1) as f64 * 2_f64.powi(-52) * magnitude;
    let instructions = k.div_ceil(256 / bits) as f64;
    let nearest = instructions * (2_f64.powi(-precision) * (magnitude + sums) + 2_f64.powi(smallest - 1));
    if !run.on_gpu {
        return sums + nearest;
    }
    let kept = if bits == 8 { 14 } else { 24 };
    let below = k.div_ceil(4) as f64 * 2_f64.powi(smallest);
    sums + nearest + below + MmaSum::Float.bound(k, magnitude, kept, precision)
}
