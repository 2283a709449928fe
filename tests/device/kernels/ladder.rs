//! The steps of the ladder, each compared with float64, on every available device: from one element
//! up, ragged and exact, with poison around and between the elements.

use crate::common::matrix::{Shape, TestMatrix, norm, rng};
use crate::common::product::Product;
use crate::common::{devices, gpu, is_watched};
use moye::kernels::{ladder, matmul_f32_nt};
use moye::{Device, Grid, Result};
use moye_device::number::{Scalar, Tf32};
use rand::RngExt;
use rstest::rstest;

/// A step: its kernel and its launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// `main.rs` has the others of its family, and its many shapes.
    First,
    Tiled,
    Vectorized64,
    Vectorized128,
    Overlapped,
    DoubleBuffered,
    Tf32Tile,
    Tf32Ldmatrix,
    Tf32Nn,
    Tf32Tn,
}
use Step::*;

const STEPS: [Step; 9] =
    [Tiled, Vectorized64, Vectorized128, Overlapped, DoubleBuffered, Tf32Tile, Tf32Ldmatrix, Tf32Nn, Tf32Tn];

impl Step {
    /// The kernel; `None` for the first step, whose kernel has strides instead of leading
    /// dimensions.
    fn kernel(self) -> Option<Product<f32, f32>> {
        Some(match self {
            First => return None,
            Tiled => ladder::ladder_tiled,
            Vectorized64 => ladder::ladder_vectorized_64,
            Vectorized128 => ladder::ladder_vectorized_128,
            Overlapped => ladder::ladder_overlapped,
            DoubleBuffered => ladder::ladder_double_buffered,
            Tf32Tile => ladder::ladder_tf32_tile,
            Tf32Ldmatrix => ladder::ladder_tf32_ldmatrix,
            Tf32Nn => ladder::ladder_tf32_nn,
            Tf32Tn => ladder::ladder_tf32_tn,
        })
    }

    fn on_tensor_cores(self) -> bool {
        matches!(self, Tf32Tile | Tf32Ldmatrix | Tf32Nn | Tf32Tn)
    }

    fn grid(self, m: usize, n: usize) -> Grid {
        let ((tile_m, tile_n), threads) = match self {
            Tf32Tile | Tf32Ldmatrix => ((16, 8), 32),
            Tf32Nn | Tf32Tn => ((128, 128), 128),
            _ => ((128, 128), 256),
        };
        Grid::new((m.div_ceil(tile_m) as u32, n.div_ceil(tile_n) as u32), threads)
    }

    /// Whether K is the contiguous mode of A, and of B.
    fn along_k(self) -> (bool, bool) {
        match self {
            Tf32Tile | Tf32Nn => (false, true),
            Tf32Ldmatrix | Tf32Tn => (true, true),
            _ => (false, false),
        }
    }

    /// The required divisors of the leading dimensions of A and B, in elements.
    fn multiples(self) -> (usize, usize) {
        match self {
            First | Tiled => (1, 1),
            Vectorized64 | Overlapped | DoubleBuffered => (2, 2),
            Tf32Tile | Tf32Ldmatrix => (4, 2),
            Vectorized128 | Tf32Nn | Tf32Tn => (4, 4),
        }
    }
}

/// An operand with the smallest leading dimension that the kernel accepts, or the next.
fn operand(rows: usize, k: usize, along_k: bool, multiple: usize, padded: bool) -> Shape {
    let extent = if along_k { k } else { rows };
    let leading = extent.max(1).next_multiple_of(multiple) + if padded { multiple } else { 0 };
    let (row_stride, col_stride) = if along_k { (leading, 1) } else { (1, leading) };
    Shape { rows, cols: k, row_stride, col_stride }
}

/// Launches the step.
fn launch(device: &Device, step: Step, a: &TestMatrix, b: &TestMatrix, c: &mut TestMatrix) -> Result<()> {
    let (m, n, k) = (a.shape.rows, b.shape.rows, a.shape.cols);
    let leading = |shape: Shape| shape.row_stride.max(shape.col_stride) as i64;
    let (lda, ldb, ldc) = (leading(a.shape), leading(b.shape), leading(c.shape));
    let (grid, extents) = (step.grid(m, n), (m as u32, n as u32, k as u32));
    let (a, b, c) = (a.view(), b.view(), c.view_mut());
    // SAFETY: the matrices are inside their three buffers.
    unsafe {
        match step.kernel() {
            Some(kernel) => {
                device.launch(&kernel, grid, (a, b, c, extents.0, extents.1, extents.2, lda, ldb, ldc))
            }
            None => device.launch(
                &matmul_f32_nt,
                grid,
                (a, b, c, extents.0, extents.1, extents.2, 1, lda, 1, ldb, 1, ldc),
            ),
        }
    }
}

/// Runs a product of random values and compares every element with float64.
fn check(device: &Device, step: Step, (m, n, k): (usize, usize, usize), padded: bool, tf32: bool) {
    let mut rng = rng(&[m, n, k, step as usize, usize::from(padded), usize::from(tf32)]);
    // Values that tf32 represents, so that tensor cores lose nothing; or arbitrary ones.
    let mut draw = || {
        let number: f32 = rng.random_range(-1.0..1.0);
        if tf32 { Tf32::nearest(number.into()).to_f64() as f32 } else { number }
    };
    let ((a_along_k, b_along_k), (multiple_a, multiple_b)) = (step.along_k(), step.multiples());
    let a = TestMatrix::drawn(device, operand(m, k, a_along_k, multiple_a, padded), &mut draw);
    let b = TestMatrix::drawn(device, operand(n, k, b_along_k, multiple_b, padded), &mut draw);
    let leading = if padded { m + 3 } else { m };
    let mut c = TestMatrix::poisoned(device, Shape { rows: m, cols: n, row_stride: 1, col_stride: leading });
    launch(device, step, &a, &b, &mut c).unwrap();

    // The error bound of a product of magnitudes. f32 accumulators add one rounding each, on tensor
    // cores a truncation of slightly more. Operands truncated to tf32's 11 bits lose up to 2^-10
    // each.
    let unit = f64::from(f32::EPSILON) / 2.0;
    let relative = if !step.on_tensor_cores() {
        (k + 1) as f64 * unit
    } else if tf32 {
        4.0 * (k + 8) as f64 * unit
    } else {
        2.1 / 1024.0
    };
    let result = c.download();
    let (mut errors, mut scales) = (Vec::new(), Vec::new());
    for j in 0..n {
        for i in 0..m {
            let products = || (0..k).map(|l| f64::from(a.at(i, l)) * f64::from(b.at(j, l)));
            let (want, scale): (f64, f64) = (products().sum(), products().map(f64::abs).sum());
            let error = (f64::from(result(i, j)) - want).abs();
            // Poison is NaN, for which every comparison is false.
            let small = error <= relative * scale;
            assert!(
                small,
                "{step:?}, {m} x {n} x {k}: element ({i}, {j}) is {}, not {want}, on {}",
                result(i, j),
                device.name()
            );
            errors.push(error);
            scales.push(scale);
        }
    }
    // Signs are random, so the total error is much smaller: a few units with f32 accumulators, for
    // every K. Tensor cores truncate towards zero: each of K / 8 steps loses up to two units of a
    // partial sum, which for the first K products is about sqrt(K) / 3, with magnitudes of K / 4.
    // The total is sqrt(K) / 4 units of these.
    if tf32 || !step.on_tensor_cores() {
        let units = if step.on_tensor_cores() { 8f64.max((k as f64).sqrt() / 4.0) } else { 8.0 };
        let (error, bound) = (norm(errors), units * unit * norm(scales));
        assert!(error <= bound, "{step:?}, {m} x {n} x {k}: an error of {error:.2e} over {bound:.2e}");
    }
}

/// Launches the step over each shape, on each device, with and without padding.
fn check_all(step: Step, shapes: &[(usize, usize, usize)], paddings: &[bool], tf32: bool) {
    for device in devices() {
        for (&shape, &padded) in shapes.iter().flat_map(|shape| paddings.iter().map(move |p| (shape, p))) {
            check(&device, step, shape, padded, tf32);
        }
    }
}

#[rstest]
fn a_step_is_the_product(
    #[values(Tiled, Vectorized64, Vectorized128, Overlapped, DoubleBuffered, Tf32Nn, Tf32Tn)] step: Step,
) {
    const SHAPES: &[(usize, usize, usize)] = &[
        (1, 1, 1),
        (128, 128, 16),
        (127, 129, 17),
        (129, 127, 15),
        (256, 128, 40),
        (13, 200, 31),
        (200, 13, 64),
        (2, 3, 5),
        (1, 1, 509),
        (65, 63, 33),
        (131, 257, 7),
    ];
    check_all(step, SHAPES, &[false, true], true);
}

#[rstest]
fn a_tile_on_tensor_cores_is_the_product(#[values(Tf32Tile, Tf32Ldmatrix)] step: Step) {
    const SHAPES: &[(usize, usize, usize)] = &[
        (1, 1, 1),
        (16, 8, 8),
        (17, 7, 9),
        (15, 9, 7),
        (32, 24, 40),
        (5, 61, 31),
        (67, 3, 64),
        (2, 3, 5),
        (1, 1, 509),
        (33, 31, 17),
    ];
    check_all(step, SHAPES, &[false, true], true);
}

#[rstest]
fn tensor_cores_take_any_f32_as_tf32(#[values(Tf32Tile, Tf32Ldmatrix, Tf32Nn, Tf32Tn)] step: Step) {
    check_all(step, &[(16, 8, 8), (31, 33, 65)], &[false], false);
}

#[test]
fn a_product_over_nothing_is_zero() {
    for step in STEPS {
        check_all(step, &[(19, 21, 0)], &[true], true);
    }
}

/// A hundred steps, on a GPU thousands: errors that accumulate in each, and stages that are
/// overwritten too early in some step, would show.
#[rstest]
fn a_step_adds_up_a_very_long_k(
    #[values(
        First,
        Tiled,
        Vectorized64,
        Vectorized128,
        Overlapped,
        DoubleBuffered,
        Tf32Tile,
        Tf32Ldmatrix,
        Tf32Nn,
        Tf32Tn
    )]
    step: Step,
) {
    for device in devices() {
        // Primes. The simulator takes a second for the smallest one, and tools that check each
        // access seconds for the next.
        let k = match device.is_gpu() {
            true if is_watched() => 5003,
            true => 50_021,
            false => 1009,
        };
        check(&device, step, (19, 21, k), true, true);
    }
}

#[test]
fn a_plain_copy_is_exact() {
    let shapes = [(1, 1), (32, 32), (31, 33), (7, 131), (131, 7)];
    // How far the rows and the columns of the source are apart, those of the destination are not.
    let strides = [(1, 131), (131, 1), (2, 300)];
    for (shape, strides) in shapes.into_iter().flat_map(|shape| strides.map(|strides| (shape, strides))) {
        devices().iter().for_each(|device| plain_copy(device, shape, strides));
    }
}

fn plain_copy(device: &Device, (m, n): (usize, usize), (row_stride, col_stride): (usize, usize)) {
    let mut rng = rng(&[m, n, row_stride]);
    let src = TestMatrix::random(device, Shape { rows: m, cols: n, row_stride, col_stride }, &mut rng);
    let shape = Shape { rows: m, cols: n, row_stride: 1, col_stride: m + 1 };
    let mut dst = TestMatrix::poisoned(device, shape);
    let grid = Grid::new((m.div_ceil(32) as u32, n.div_ceil(32) as u32), 256);
    let strides = (row_stride as i64, col_stride as i64, m as i64 + 1);
    let (from, to) = (src.view(), dst.view_mut());
    let arguments = (from, to, m as u32, n as u32, strides.0, strides.1, 1, strides.2);
    // SAFETY: both matrices are inside their buffers, which are two.
    unsafe { device.launch(&ladder::ladder_plain_copy, grid, arguments) }.unwrap();
    // Downloading also checks the poison between the columns.
    let result = dst.download();
    for j in 0..n {
        for i in 0..m {
            assert_eq!(result(i, j), src.at(i, j), "element ({i}, {j}) on {}", device.name());
        }
    }
}

#[test]
fn a_leading_dimension_that_breaks_the_contract_is_found() {
    for step in STEPS.into_iter().filter(|step| *step != Tiled) {
        breaks_the_contract(step);
    }
}

fn breaks_the_contract(step: Step) {
    let device = Device::sim();
    let mut rng = rng(&[step as usize]);
    let (along_k, _) = step.along_k();
    let shape = |odd| Shape {
        row_stride: if along_k { odd } else { 1 },
        col_stride: if along_k { 1 } else { odd },
        rows: 64,
        cols: 64,
    };
    let a = TestMatrix::random(&device, shape(65), &mut rng);
    let b = TestMatrix::random(&device, operand(64, 64, step.along_k().1, 4, false), &mut rng);
    let mut c = TestMatrix::poisoned(&device, Shape { rows: 64, cols: 64, row_stride: 1, col_stride: 64 });
    let error = launch(&device, step, &a, &b, &mut c).unwrap_err().to_string();
    assert!(error.contains("not a multiple of"), "{step:?}: {error}");
}

/// Each part is a test, so that they run beside each other.
#[rstest]
fn hundreds_of_shapes_on_a_gpu(#[values(0, 1, 2, 3, 4, 5, 6, 7)] part: usize) {
    // Minutes on the simulator, so on a GPU only.
    let Some(device) = gpu() else { return };
    let mut shapes = rng(&[2048, part]);
    // One element, primes, powers of two and their neighbours, or arbitrary extents.
    let mut extent = |most: usize| match shapes.random_range(0..4) {
        0 => [1, 2, 3, 5, 7, 13, 31, 61, 127, 251, 257, 509][shapes.random_range(0..12)].min(most),
        1 => ((1 << shapes.random_range(3..9)) + shapes.random_range(0..3) - 1_usize).min(most),
        _ => shapes.random_range(1..=most),
    };
    for (step, i) in
        STEPS.into_iter().flat_map(|step| (0..if is_watched() { 10 } else { 50 }).map(move |i| (step, i)))
    {
        let shape = (extent(400), extent(400), extent(300));
        check(&device, step, shape, i % 2 == 0, true);
    }
}

#[test]
fn the_guide_shows_the_kernels_as_they_are() {
    const SOURCES: [&str; 8] = [
        include_str!("../../../ops/movement/ladder/plain_copy.rs"),
        include_str!("../../../ops/movement/ladder/copy_async.rs"),
        include_str!("../../../ops/movement/ladder/transpose.rs"),
        include_str!("../../../ops/matmul/ladder/matmul.rs"),
        include_str!("../../../ops/matmul/ladder/tiled.rs"),
        include_str!("../../../ops/matmul/ladder/overlapped.rs"),
        include_str!("../../../ops/matmul/ladder/double_buffer.rs"),
        include_str!("../../../device/collective/multistage.rs"),
    ];
    // Ignore line breaks.
    let words = |text: &str| text.split_whitespace().collect::<String>();
    let guide = include_str!("../../../docs/guide/ladder.md");
    let shown: Vec<_> =
        guide.split("```ignore\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(shown.len(), SOURCES.len(), "the heart of each text");
    for (shown, source) in shown.iter().zip(SOURCES) {
        assert!(
            words(source).contains(&words(shown)),
            "the guide shows what the kernel does not have:\n{shown}"
        );
    }
}
