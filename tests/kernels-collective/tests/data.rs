//! Matrices of the tests, on the simulator, and their products in float64.

use half::{bf16, f16};
use moye_device::memory::Element;
use moye_sim::GlobalMemory;
use moye_sim::memory::Allocation;

/// What a result of 16 bits may be off by in norm: rounding to bf16 takes about 0.0017.
pub const TOLERANCE: f64 = 0.003;

/// Elements with a value.
pub trait Number: Element + Default {
    fn of(value: f64) -> Self;
    fn value(self) -> f64;
}

macro_rules! numbers {
    ($($t:ty: $of:expr, $to:expr;)+) => { $(
        impl Number for $t {
            fn of(value: f64) -> Self {
                $of(value)
            }
            fn value(self) -> f64 {
                $to(self)
            }
        }
    )+ };
}
numbers! {
    f16: f16::from_f64, f16::to_f64;
    bf16: bf16::from_f64, bf16::to_f64;
    f32: |value| value as f32, f64::from;
}

/// Row-major matrices of a batch.
pub struct Matrix<T> {
    batches: usize,
    rows: usize,
    columns: usize,
    values: Vec<T>,
}

impl<T: Number> Matrix<T> {
    /// Numbers from -1 to 1 that differ from place to place.
    pub fn new(batches: usize, rows: usize, columns: usize, seed: usize) -> Self {
        let number = |i: usize| ((i * 37 + seed * 101 + i / 64 * 13) % 129) as f64 / 64.0 - 1.0;
        let values = (0..batches * rows * columns).map(|i| T::of(number(i))).collect();
        Self { batches, rows, columns, values }
    }

    pub fn filled(batches: usize, rows: usize, columns: usize, value: T) -> Self {
        Self { batches, rows, columns, values: vec![value; batches * rows * columns] }
    }

    pub fn shape(&self) -> (usize, usize, usize) {
        (self.batches, self.rows, self.columns)
    }

    pub fn get(&self, index: usize) -> f64 {
        self.values[index].value()
    }

    pub fn upload(&self, memory: &GlobalMemory, name: &'static str) -> Allocation {
        let bytes = std::mem::size_of_val(&self.values[..]);
        let allocation = memory.alloc(bytes, name).unwrap();
        // SAFETY: elements have no padding.
        allocation
            .write(0, unsafe { std::slice::from_raw_parts(self.values.as_ptr().cast(), bytes) })
            .unwrap();
        allocation
    }

    /// As many elements as this matrix has, from the simulator's memory.
    pub fn download(&self, allocation: &Allocation) -> Vec<f64> {
        let mut values = vec![T::default(); self.values.len()];
        let bytes = std::mem::size_of_val(&values[..]);
        // SAFETY: elements have no padding, and take any bits.
        allocation
            .read(0, unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), bytes) })
            .unwrap();
        values.into_iter().map(T::value).collect()
    }

    /// `a b^T` of each pair of the batch, in float64.
    pub fn times(&self, b: &Self) -> Vec<f64> {
        let (m, n, k) = (self.rows, b.rows, self.columns);
        let all = |matrix: &Self| matrix.values.iter().map(|&value| value.value()).collect::<Vec<_>>();
        let (a, b) = (all(self), all(b));
        let mut c = Vec::with_capacity(self.batches * m * n);
        for batch in 0..self.batches {
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let (a, b) = (&a[(batch * m + i) * k..][..k], &b[(batch * n + j) * k..][..k]);
                c.push(a.iter().zip(b).map(|(a, b)| a * b).sum());
            }
        }
        c
    }
}

/// The norm of the difference over that of what is right; not a number where an element is none.
pub fn relative_error(got: &[f64], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    norm(&mut got.iter().zip(want).map(|(g, w)| g - w)) / norm(&mut want.iter().copied())
}

/// GELU by a hyperbolic tangent.
pub fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}
