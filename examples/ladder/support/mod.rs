//! What the examples of the ladder share: operands, a launch, a check of every element, the time.
#![allow(dead_code, reason = "each example needs some of it")]

use half::f16;
use moye::{Buffer, Device, Element, Global, GlobalMut, Grid, Kernel, Result};

/// A step's kernel: pointers to A, B and C, the extents M, N and K, the leading dimensions.
pub type Step = Kernel<(Global<f32>, Global<f32>, GlobalMut<f32>, u32, u32, u32, i64, i64, i64)>;

/// The axis along which an operand's elements are contiguous.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fast {
    /// M, or N for B: stride 1 along the first axis.
    Mn,
    /// K: stride 1 along the second axis.
    K,
}

/// A kernel of step 1 that moves a matrix: pointers, the extents M and N, the strides of the source
/// and of the destination.
pub type Move = Kernel<(Global<f32>, GlobalMut<f32>, u32, u32, i64, i64, i64, i64)>;

/// What a step is launched with: the tile of C of a block, and the block's threads.
pub struct Block {
    pub tile: (usize, usize),
    pub threads: u32,
}

/// The matrices of a product on a device, `a` as `(m, k)`, `b` as `(n, k)` and `c` as `(m, n)` with
/// M fast.
pub struct Problem<T: Element> {
    pub a: Buffer<T>,
    pub b: Buffer<T>,
    pub c: Buffer<T>,
    pub shape: (usize, usize, usize),
    /// Leading dimensions of `a` and `b`.
    pub leading: (i64, i64),
}

/// The elements of a product: small whole numbers, which all of them have.
pub trait Number: Element + PartialEq {
    fn of(number: f32) -> Self;
    fn to_f32(self) -> f32;
}

impl Number for f32 {
    fn of(number: f32) -> Self {
        number
    }
    fn to_f32(self) -> f32 {
        self
    }
}

impl Number for f16 {
    fn of(number: f32) -> Self {
        Self::from_f32(number)
    }
    fn to_f32(self) -> f32 {
        self.to_f32()
    }
}

/// Runs `c = a * b` by a step, with `a` as `(m, k)`, `b` as `(n, k)` and `c` as `(m, n)`, checks it
/// and prints its speed.
pub fn run(step: &Step, block: Block, a_fast: Fast, b_fast: Fast) -> Result<()> {
    let Block { tile, threads } = block;
    run_by(step.name(), a_fast, b_fast, |device, problem: &mut Problem<f32>| {
        let ((m, n, k), (lda, ldb)) = (problem.shape, problem.leading);
        let grid = Grid::new((m.div_ceil(tile.0) as u32, n.div_ceil(tile.1) as u32), threads);
        let (a, b, c) = (&problem.a, &problem.b, &mut problem.c);
        // SAFETY: the buffers hold the matrices with these leading dimensions.
        unsafe { device.launch(step, grid, (a, b, c, m as u32, n as u32, k as u32, lda, ldb, m as i64)) }
    })
}

/// Moves a column-major matrix, which may be transposed, checks every element and prints the speed.
pub fn run_move(kernel: &Move, transposes: bool) -> Result<()> {
    let device = Device::open()?;
    // Nothing is a multiple of a tile.
    let (m, n): (usize, usize) = if device.is_gpu() { (8190, 8194) } else { (150, 70) };
    let elements: Vec<f32> = (0..m * n).map(|i| i as f32).collect();
    let src = device.upload(&elements)?;
    let mut dst = device.alloc_uninit::<f32>(m * n)?;
    dst.fill_bytes(0xFF)?;
    let grid = Grid::new((m.div_ceil(32) as u32, n.div_ceil(32) as u32), 256);
    let leading = if transposes { n } else { m } as i64;
    let mut launch = || {
        let arguments = (&src, &mut dst, m as u32, n as u32, 1, m as i64, 1, leading);
        // SAFETY: both buffers hold m * n elements, and these are the strides of column-major
        // matrices.
        unsafe { device.launch(kernel, grid, arguments) }
    };
    launch()?; // The first launch also compiles the PTX for this GPU.
    let time = device.time(|_| launch())?;
    let after = dst.download()?;
    for j in 0..n {
        for i in 0..m {
            let at = if transposes { j + i * n } else { i + j * m };
            assert_eq!(after[at], elements[i + j * m], "{}: element ({i}, {j})", kernel.name());
        }
    }
    let rate = (2 * m * n * size_of::<f32>()) as f64 / time.as_secs_f64() / 1e9;
    println!("{}: {m} x {n}, {time:?}, {rate:.3} GB/s on {}", kernel.name(), device.name());
    Ok(())
}

/// As [`run`], by what `launch` launches.
pub fn run_by<T: Number>(
    name: &str,
    a_fast: Fast,
    b_fast: Fast,
    launch: impl Fn(&Device, &mut Problem<T>) -> Result<()>,
) -> Result<()> {
    let device = Device::open()?;
    // On the simulator smaller, and ragged: nothing is a multiple of a tile.
    let (m, n, k) = if device.is_gpu() { (2048, 2048, 256) } else { (150, 200, 100) };

    // Small whole numbers: exact in f32, in tf32 and in f16, sums included, so that the result can
    // be checked for equality.
    let a_at = |i: usize, l: usize| ((i * 7 + l * 3) % 7) as f32 - 3.0;
    let b_at = |j: usize, l: usize| ((j * 5 + l * 11) % 5) as f32 - 2.0;
    let (a, lda) = stored(m, k, a_fast, a_at);
    let (b, ldb) = stored(n, k, b_fast, b_at);
    let mut problem = Problem {
        a: device.upload(&a)?,
        b: device.upload(&b)?,
        c: device.alloc_uninit::<T>(m * n)?,
        shape: (m, n, k),
        leading: (lda as i64, ldb as i64),
    };
    // Not a number: what the kernel leaves out would show.
    problem.c.fill_bytes(0xFF)?;
    launch(&device, &mut problem)?; // The first launch also compiles the PTX for this GPU.
    let time = device.time(|_| launch(&device, &mut problem))?;

    let c = problem.c.download()?;
    for j in 0..n {
        for i in 0..m {
            let want: f32 = (0..k).map(|l| a_at(i, l) * b_at(j, l)).sum();
            assert_eq!(c[i + j * m].to_f32(), want, "element ({i}, {j})");
        }
    }
    let flops = 2.0 * (m * n * k) as f64;
    println!(
        "{name}: {m} x {n} x {k}, {time:?}, {:.3} TFLOP/s on {}",
        flops / time.as_secs_f64() / 1e12,
        device.name()
    );
    Ok(())
}

/// The elements of a matrix `(rows, k)` as they are in memory, and the leading dimension, a
/// multiple of 8: the least alignment that every step is content with.
fn stored<T: Number>(rows: usize, k: usize, fast: Fast, at: impl Fn(usize, usize) -> f32) -> (Vec<T>, usize) {
    let leading = if fast == Fast::K { k } else { rows }.next_multiple_of(8);
    let mut elements = vec![T::of(0.0); leading * if fast == Fast::K { rows } else { k }];
    for i in 0..rows {
        for l in 0..k {
            elements[if fast == Fast::K { i * leading + l } else { i + l * leading }] = T::of(at(i, l));
        }
    }
    (elements, leading)
}
