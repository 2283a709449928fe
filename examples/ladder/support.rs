//! Helpers of the steps: random numbers, a product in float64, launches, a clock.

use moye::{Device, Element, Global, GlobalMut, Grid, Kernel, Result};
use moye_device::number::Scalar;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::time::Duration;

/// The mode along which an operand's elements are contiguous.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fast {
    /// M, or N for B: stride 1 along the first mode.
    Mn,
    /// K: stride 1 along the second mode.
    K,
}

/// A product on the host, `c = a * b` with `a` as `(m, k)`, `b` as `(n, k)` and `c` as `(m, n)`.
pub struct Product<T> {
    /// `(m, n, k)`
    pub extents: (u32, u32, u32),
    /// The operands, in memory order.
    pub a: Vec<T>,
    pub b: Vec<T>,
    /// The result, computed in float64, with M contiguous.
    pub c: Vec<T>,
    /// Leading dimensions of `a`, `b` and `c`; those of `a` and `b` are multiples of 8, the
    /// smallest alignment that suffices for every step.
    pub leading: (i64, i64, i64),
}

impl<T: Element + Scalar> Product<T> {
    /// Random small integers: sums of their products are exact in f32, tf32 and f16, so the
    /// kernel's result must be equal.
    pub fn random(device: &Device, a_fast: Fast, b_fast: Fast) -> Self {
        // Smaller on the simulator, and ragged: no extent is a multiple of a tile.
        let (m, n, k) = if device.is_gpu() { (2048, 2048, 256) } else { (150, 200, 100) };
        let mut rng = StdRng::seed_from_u64(0);
        let mut numbers = |count: usize, most: i32| -> Vec<f64> {
            (0..count).map(|_| rng.random_range(-most..=most).into()).collect()
        };
        // Rows of K.
        let (rows_a, rows_b) = (numbers(m * k, 3), numbers(n * k, 2));
        let (a, lda) = stored(&rows_a, k, a_fast);
        let (b, ldb) = stored(&rows_b, k, b_fast);
        let columns = rows_b.chunks(k).flat_map(|b| rows_a.chunks(k).map(move |a| (a, b)));
        let dot = |(a, b): (&[f64], &[f64])| T::nearest(a.iter().zip(b).map(|(a, b)| a * b).sum());
        let (extents, leading) = ((m as u32, n as u32, k as u32), (lda, ldb, m as i64));
        Self { extents, a, b, c: columns.map(dot).collect(), leading }
    }

    /// Launches twice, because the first launch also compiles the PTX for this GPU, and prints the
    /// speed of the second.
    pub fn time(&self, device: &Device, name: &str, launch: impl FnMut() -> Result<()>) -> Result<()> {
        let (m, n, k) = self.extents;
        let time = second(device, launch)?;
        let rate = 2.0 * f64::from(m) * f64::from(n) * f64::from(k) / time.as_secs_f64() / 1e12;
        println!("{name}: {m} x {n} x {k}, {time:?}, {rate:.3} TFLOP/s on {}", device.name());
        Ok(())
    }
}

/// A step from 2 to 6: pointers to A, B and C, the extents M, N and K, the leading dimensions.
type Step = Kernel<(Global<f32>, Global<f32>, GlobalMut<f32>, u32, u32, u32, i64, i64, i64)>;

impl Product<f32> {
    /// Launches a step, a block of `threads` for each tile of C, and compares the result.
    pub fn run(&self, device: &Device, step: &Step, tile: (u32, u32), threads: u32) -> Result<()> {
        let ((m, n, k), (lda, ldb, ldc)) = (self.extents, self.leading);
        let (a, b) = (device.upload(&self.a)?, device.upload(&self.b)?);
        // An element that the kernel leaves out stays NaN.
        let mut c = device.upload(&vec![f32::NAN; self.c.len()])?;
        let grid = Grid::new((m.div_ceil(tile.0), n.div_ceil(tile.1)), threads);
        self.time(device, step.name(), || {
            // SAFETY: the buffers hold the matrices with these extents and leading dimensions.
            unsafe { device.launch(step, grid, (&a, &b, &mut c, m, n, k, lda, ldb, ldc)) }
        })?;
        assert!(c.download()? == self.c, "a result that differs from float64");
        Ok(())
    }
}

/// The elements of a matrix of rows of `k` in memory order, and its leading dimension.
fn stored<T: Element + Scalar>(rows: &[f64], k: usize, fast: Fast) -> (Vec<T>, i64) {
    let count = rows.len() / k;
    let (leading, columns) = if fast == Fast::K { (k, count) } else { (count, k) };
    let leading = leading.next_multiple_of(8);
    let mut elements = vec![T::nearest(0.0); leading * columns];
    for (at, &number) in rows.iter().enumerate() {
        let (i, l) = (at / k, at % k);
        elements[if fast == Fast::K { i * leading + l } else { i + l * leading }] = T::nearest(number);
    }
    (elements, leading as i64)
}

/// A copy or a transpose: pointers, extents of the source, and the strides of both matrices.
type Move = Kernel<(Global<f32>, GlobalMut<f32>, u32, u32, i64, i64, i64, i64)>;

/// A matrix on the host, with M contiguous and the leading dimension `m`.
pub struct Matrix {
    pub m: u32,
    pub n: u32,
    pub elements: Vec<f32>,
}

impl Matrix {
    pub fn random(device: &Device) -> Self {
        // No extent is a multiple of a tile.
        let (m, n) = if device.is_gpu() { (8190, 8194) } else { (150, 70) };
        let mut rng = StdRng::seed_from_u64(0);
        Self { m, n, elements: (0..m * n).map(|_| rng.random()).collect() }
    }

    /// Launches a kernel, a block of 256 threads for each 32 x 32 tile, and compares the result.
    pub fn moves(&self, device: &Device, kernel: &Move, transposes: bool) -> Result<()> {
        let (m, n) = (self.m, self.n);
        let (from, to) = (i64::from(m), i64::from(if transposes { n } else { m }));
        let src = device.upload(&self.elements)?;
        // An element that the kernel leaves out stays NaN.
        let mut dst = device.upload(&vec![f32::NAN; self.elements.len()])?;
        let grid = Grid::new((m.div_ceil(32), n.div_ceil(32)), 256);
        self.time(device, kernel.name(), || {
            // SAFETY: both buffers hold m * n elements, with these strides of column-major
            // matrices.
            unsafe { device.launch(kernel, grid, (&src, &mut dst, m, n, 1, from, 1, to)) }
        })?;
        // Column i of a transpose is row i of the source.
        let (m, n) = (m as usize, n as usize);
        let from = |at: usize| if transposes { at / n + at % n * m } else { at };
        let result = dst.download()?;
        assert!((0..m * n).all(|at| result[at] == self.elements[from(at)]), "an element is elsewhere");
        Ok(())
    }

    /// Launches twice, as the first launch also compiles the PTX for this GPU, and prints the speed
    /// of the second: bytes read and written.
    fn time(&self, device: &Device, name: &str, launch: impl FnMut() -> Result<()>) -> Result<()> {
        let time = second(device, launch)?;
        let rate = (2 * size_of_val(&*self.elements)) as f64 / time.as_secs_f64() / 1e9;
        println!("{name}: {} x {}, {time:?}, {rate:.3} GB/s on {}", self.m, self.n, device.name());
        Ok(())
    }
}

/// The time of the second launch.
fn second(device: &Device, mut launch: impl FnMut() -> Result<()>) -> Result<Duration> {
    launch()?;
    device.time(|_| launch())
}
