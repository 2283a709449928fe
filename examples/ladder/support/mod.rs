//! What the examples of the ladder share: operands, a launch, a check of every element, the time.

use moye::{Device, Global, GlobalMut, Grid, Kernel, Result};

/// A step's kernel: pointers to A, B and C, the extents M, N and K, the leading dimensions.
pub type Step = Kernel<(Global<f32>, Global<f32>, GlobalMut<f32>, u32, u32, u32, i64, i64, i64)>;

/// The axis along which an operand's elements lie next to each other.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "each example has its own")]
pub enum Fast {
    /// M, or N for B: stride 1 along the first axis.
    Mn,
    /// K: stride 1 along the second axis.
    K,
}

/// What a step is launched with: the tile of C of a block, and the block's threads.
pub struct Block {
    pub tile: (usize, usize),
    pub threads: u32,
}

/// Runs `c = a * b` by a step, with `a` as `(m, k)`, `b` as `(n, k)` and `c` as `(m, n)`, checks it and prints its speed.
pub fn run(step: &Step, block: Block, a_fast: Fast, b_fast: Fast) -> Result<()> {
    let device = Device::open()?;
    // On the simulator smaller, and ragged: nothing is a multiple of a tile.
    let (m, n, k) = if device.is_gpu() { (2048, 2048, 256) } else { (150, 200, 100) };

    // Small whole numbers: exact in f32 and in tf32, sums included, so that the result can be checked for equality.
    let a_at = |i: usize, l: usize| ((i * 7 + l * 3) % 7) as f32 - 3.0;
    let b_at = |j: usize, l: usize| ((j * 5 + l * 11) % 5) as f32 - 2.0;
    let (a, lda) = stored(m, k, a_fast, a_at);
    let (b, ldb) = stored(n, k, b_fast, b_at);
    let (a, b) = (device.upload(&a)?, device.upload(&b)?);
    let mut c = device.alloc_uninit::<f32>(m * n)?;

    let grid = Grid::new((m.div_ceil(block.tile.0) as u32, n.div_ceil(block.tile.1) as u32), block.threads);
    let mut launch = || {
        let arguments = (&a, &b, &mut c, m as u32, n as u32, k as u32, lda as i64, ldb as i64, m as i64);
        // SAFETY: the buffers hold the matrices with these leading dimensions.
        unsafe { device.launch(step, grid, arguments) }
    };
    launch()?; // The first launch also compiles the PTX for this GPU.
    let time = device.time(|_| launch())?;

    let c = c.download()?;
    for j in 0..n {
        for i in 0..m {
            let want: f32 = (0..k).map(|l| a_at(i, l) * b_at(j, l)).sum();
            assert_eq!(c[i + j * m], want, "element ({i}, {j})");
        }
    }
    let flops = 2.0 * (m * n * k) as f64;
    println!(
        "{}: {m} x {n} x {k}, {time:?}, {:.3} TFLOP/s on {}",
        step.name(),
        flops / time.as_secs_f64() / 1e12,
        device.name()
    );
    Ok(())
}

/// The elements of a matrix `(rows, k)` as they lie in memory, and the leading dimension, a multiple of 4: the least
/// alignment that every step is content with.
fn stored(rows: usize, k: usize, fast: Fast, at: impl Fn(usize, usize) -> f32) -> (Vec<f32>, usize) {
    let leading = if fast == Fast::K { k } else { rows }.next_multiple_of(4);
    let mut elements = vec![0.0; leading * if fast == Fast::K { rows } else { k }];
    for i in 0..rows {
        for l in 0..k {
            elements[if fast == Fast::K { i * leading + l } else { i + l * leading }] = at(i, l);
        }
    }
    (elements, leading)
}
