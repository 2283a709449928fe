//! Matrices for tests: random data behind any strides, poison between, references in float64.

use moye::{Buffer, BufferSlice, Device};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

/// How a test's matrix lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Rows are fast: stride 1 along the first axis.
    ColMajor,
    /// Columns are fast: stride 1 along the second axis.
    RowMajor,
    /// Stride 1 along the first axis, and some elements of padding after each column.
    Padded,
    /// No stride is 1.
    Strided,
}

/// Extents and strides, in elements.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub rows: usize,
    pub cols: usize,
    pub row_stride: usize,
    pub col_stride: usize,
}

impl Shape {
    pub fn new(rows: usize, cols: usize, order: Order) -> Self {
        let (row_stride, col_stride) = match order {
            Order::ColMajor => (1, rows),
            Order::RowMajor => (cols, 1),
            Order::Padded => (1, rows + 7),
            Order::Strided => (2, 2 * rows + 3),
        };
        Self { rows, cols, row_stride, col_stride }
    }

    /// Elements from the first to behind the last.
    pub fn span(&self) -> usize {
        if self.rows * self.cols == 0 {
            return 0;
        }
        (self.rows - 1) * self.row_stride + (self.cols - 1) * self.col_stride + 1
    }

    pub fn index(&self, row: usize, col: usize) -> usize {
        row * self.row_stride + col * self.col_stride
    }

    /// Whether some element of the matrix lies at each index.
    fn covered(&self) -> Vec<bool> {
        let mut covered = vec![false; self.span()];
        for col in 0..self.cols {
            for row in 0..self.rows {
                covered[self.index(row, col)] = true;
            }
        }
        covered
    }
}

/// The value of an unwritten byte: as an f32 it is NaN.
pub const POISON: u8 = 0xFF;

/// Elements kept before and behind a matrix, to see writes outside it.
const MARGIN: usize = 64;

/// A matrix on a device, with poison around it and between its elements.
pub struct TestMatrix {
    pub shape: Shape,
    pub host: Vec<f32>,
    pub buffer: Buffer<f32>,
}

impl TestMatrix {
    /// Uniformly random elements of [-1, 1).
    pub fn random(device: &Device, shape: Shape, rng: &mut impl Rng) -> Self {
        Self::drawn(device, shape, || rng.random_range(-1.0..1.0))
    }

    /// Elements from `draw`.
    pub fn drawn(device: &Device, shape: Shape, mut draw: impl FnMut() -> f32) -> Self {
        let mut host = vec![f32::from_bits(u32::from_ne_bytes([POISON; 4])); shape.span() + 2 * MARGIN];
        for (place, covered) in host[MARGIN..].iter_mut().zip(shape.covered()) {
            if covered {
                *place = draw();
            }
        }
        let buffer = device.upload(&host).unwrap();
        Self { shape, host, buffer }
    }

    /// Nothing but poison.
    pub fn poisoned(device: &Device, shape: Shape) -> Self {
        let host = vec![f32::from_bits(u32::from_ne_bytes([POISON; 4])); shape.span() + 2 * MARGIN];
        let buffer = device.upload(&host).unwrap();
        Self { shape, host, buffer }
    }

    /// The matrix without its margins, for reading.
    pub fn view(&self) -> BufferSlice<'_, f32> {
        self.buffer.slice(MARGIN..MARGIN + self.shape.span()).unwrap()
    }

    /// The matrix without its margins, for writing.
    pub fn view_mut(&mut self) -> moye::BufferSliceMut<'_, f32> {
        self.buffer.slice_mut(MARGIN..MARGIN + self.shape.span()).unwrap()
    }

    /// The element as the host wrote it.
    pub fn at(&self, row: usize, col: usize) -> f32 {
        self.host[MARGIN + self.shape.index(row, col)]
    }

    /// What the device holds now; nothing outside the matrix may have changed.
    pub fn download(&self) -> impl Fn(usize, usize) -> f32 + use<> {
        let device = self.buffer.download().unwrap();
        let (shape, covered) = (self.shape, self.shape.covered());
        for (i, (now, before)) in device.iter().zip(&self.host).enumerate() {
            let inside = i >= MARGIN && i - MARGIN < covered.len() && covered[i - MARGIN];
            assert!(
                inside || now.to_bits() == before.to_bits(),
                "something was written outside the matrix {shape:?}, {} elements from its start",
                i as isize - MARGIN as isize
            );
        }
        move |row, col| device[MARGIN + shape.index(row, col)]
    }
}

/// A generator that gives each test case inputs of its own, the same at each run.
pub fn rng(parts: &[usize]) -> StdRng {
    let seed =
        parts.iter().fold(0xcbf2_9ce4_8422_2325_u64, |h, &p| (h ^ p as u64).wrapping_mul(0x0100_0000_01b3));
    StdRng::seed_from_u64(seed)
}

/// The sum of products, by several sums beside each other: one alone would wait for each of its
/// additions.
///
/// Loops by hand: most of what tests compute is this, and iterators are calls where little is
/// optimised.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len(), "vectors of one length");
    let ((a, rest_a), (b, rest_b)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0; 8];
    let mut chunk = 0;
    while chunk < a.len() {
        let (a, b) = (&a[chunk], &b[chunk]);
        let mut i = 0;
        while i < 8 {
            sums[i] += a[i] * b[i];
            i += 1;
        }
        chunk += 1;
    }
    let rest: f64 = rest_a.iter().zip(rest_b).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f64>() + rest
}

/// The Frobenius norm.
pub fn norm(elements: impl IntoIterator<Item = f64>) -> f64 {
    elements.into_iter().map(|x| x * x).sum::<f64>().sqrt()
}
