//! One product: the order of its matrices, its options, and the expected result.

use crate::common::matrix::{dot, rng};
use crate::common::product::Number;
use half::{bf16, f16};
use moye::kernels::mma::Activation;
use moye::number::{F8E4M3, F8E5M2};
use moye::{Buffer, Device, Matmul, Matrix, MatrixMut, Operand, Output};
use moye_device::arch::Convert;
use rand::RngExt;
use rand::rngs::StdRng;

/// The order of a matrix in its buffer, and the padding between its rows or columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Row-major, with this number of padding elements.
    Rows(usize),
    /// Column-major, with this number of padding elements.
    Columns(usize),
    /// Neither: every second element of rows that are padded by three.
    Scattered,
}

impl Order {
    /// The strides of a matrix of this shape.
    pub fn strides(self, rows: usize, cols: usize) -> (usize, usize) {
        match self {
            Self::Rows(pad) => (cols + pad, 1),
            Self::Columns(pad) => (1, rows + pad),
            Self::Scattered => (2 * cols + 3, 2),
        }
    }

    fn any(rng: &mut StdRng) -> Self {
        // Multiples of 16 elements are aligned for every type; others for some.
        let pad = [0, 0, 1, 3, 16][rng.random_range(0..5)];
        match rng.random_range(0..9) {
            0..4 => Self::Rows(pad),
            4..8 => Self::Columns(pad),
            _ => Self::Scattered,
        }
    }
}

/// The granularity of an operand's scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    None,
    /// The operand.
    All,
    /// Each row of A, or column of B.
    Each,
    /// Each row or column of each batch.
    EachOfBatch,
}

impl Scale {
    pub const ANY: [Self; 4] = [Self::None, Self::All, Self::Each, Self::EachOfBatch];

    /// The number of factors.
    fn len(self, extent: usize, batches: usize) -> usize {
        match self {
            Self::None => 0,
            Self::All => 1,
            Self::Each => extent,
            Self::EachOfBatch => extent * batches,
        }
    }

    /// The index of the factor of a batch's row or column.
    fn at(self, extent: usize, batch: usize, index: usize) -> usize {
        match self {
            Self::None | Self::All => 0,
            Self::Each => index,
            Self::EachOfBatch => batch * extent + index,
        }
    }
}

/// Operands, with and without scales.
pub trait Scaled: Operand {
    /// Whether the operands have scales.
    const SCALED: bool = false;

    fn scaled<'a, U: Output<Self>>(
        product: Matmul<'a, Self, U>,
        _: [Option<&'a Buffer<f32>>; 2],
    ) -> Matmul<'a, Self, U> {
        product
    }
}

macro_rules! scaled {
    ($($t:ty),*) => { $(
        impl Scaled for $t {
            const SCALED: bool = true;

            fn scaled<'a, U: Output<Self>>(
                mut product: Matmul<'a, Self, U>,
                [a, b]: [Option<&'a Buffer<f32>>; 2],
            ) -> Matmul<'a, Self, U> {
                if let Some(a) = a {
                    product = product.scale_a(a);
                }
                if let Some(b) = b {
                    product = product.scale_b(b);
                }
                product
            }
        }
    )* };
}
scaled!(F8E4M3, F8E5M2);
impl Scaled for f16 {}
impl Scaled for bf16 {}
impl Scaled for f32 {}
impl Scaled for f64 {}
impl Scaled for i8 {}

/// Elements of operands whose products are added to results `U`.
pub trait Tested<U>: Scaled<Scalar: Into<f64> + From<i8> + Convert<U>> + Number {}

impl<T: Scaled<Scalar: Into<f64> + From<i8> + Convert<U>> + Number, U> Tested<U> for T {}

/// The relative norm error that a GPU's accumulators add for 8-bit floats: they keep 14 bits (see
/// `moye_sim`'s `MmaSum::bound`), and truncate up to a unit in the last place at each of `k / 32`
/// steps.
fn of_hardware<T: Scaled>(device: &Device, k: usize) -> f64 {
    if T::SCALED && device.is_gpu() { (k.div_ceil(32) + 1) as f64 * 2f64.powi(-13) } else { 0.0 }
}

/// A product with all of its options.
#[derive(Clone, Debug)]
pub struct Case {
    pub shape: (usize, usize, usize),
    pub orders: [Order; 3],
    /// Elements before each matrix.
    pub offsets: [usize; 3],
    /// The number of elements after A and after B in their buffers.
    pub behind: usize,
    pub alpha: f64,
    pub beta: f64,
    /// `None`, for each row, or for each column.
    pub bias: Option<bool>,
    /// The scales of A and of B.
    pub scales: [Scale; 2],
    pub activation: Activation,
    pub batches: usize,
    /// Whether all batches have the same B.
    pub same_b: bool,
    pub splits: Option<u32>,
    pub tile: Option<(u32, u32)>,
    /// The kernel, by name.
    pub kernel: Option<&'static str>,
}

impl Case {
    /// A plain product.
    pub fn new(shape: (usize, usize, usize), orders: [Order; 3]) -> Self {
        Self {
            shape,
            orders,
            offsets: [0; 3],
            behind: 0,
            alpha: 1.0,
            beta: 0.0,
            bias: None,
            scales: [Scale::None; 2],
            activation: Activation::None,
            batches: 1,
            same_b: false,
            splits: None,
            tile: None,
            kernel: None,
        }
    }

    /// A random case, with extents up to about `most`, which is at least 2.
    pub fn any<T: Scaled>(rng: &mut StdRng, most: usize) -> Self {
        let primes: Vec<usize> = (2..=most).filter(|&n| (2..n).all(|divisor| n % divisor != 0)).collect();
        let mut extent = || match rng.random_range(0..8) {
            0 => rng.random_range(1..=3),
            1 => 16 * rng.random_range(1..=most.div_ceil(16)),
            // A power of two or a neighbour of one.
            2 | 3 => (1 << rng.random_range(1..=most.ilog2())) + rng.random_range(0..3) - 1_usize,
            4 => primes[rng.random_range(0..primes.len())],
            _ => rng.random_range(1..=most),
        };
        let shape = (extent(), extent(), extent());
        // Drawn only if the operands have scales, so that other cases stay the same.
        let scales =
            if T::SCALED { [(); 2].map(|()| Scale::ANY[rng.random_range(0..4)]) } else { [Scale::None; 2] };
        let factors = [1.0, 2.0, -1.0, 0.0];
        let all =
            [Activation::None, Activation::Relu, Activation::GeluTanh, Activation::Silu, Activation::Gelu];
        let activations = if T::SMOOTH { all.len() } else { 2 };
        Self {
            shape,
            orders: std::array::from_fn(|_| Order::any(rng)),
            offsets: std::array::from_fn(|_| [0, 0, 0, 1, 16][rng.random_range(0..5)]),
            behind: 0,
            alpha: factors[rng.random_range(0..4)],
            beta: factors[[3, 3, 0, 1, 2][rng.random_range(0..5)]],
            bias: [None, None, Some(false), Some(true)][rng.random_range(0..4)],
            scales,
            activation: all[rng.random_range(0..activations)],
            batches: [1, 1, 1, 2, 3][rng.random_range(0..5)],
            same_b: rng.random(),
            splits: [None, None, Some(1), Some(2), Some(5)][rng.random_range(0..5)],
            tile: None,
            kernel: None,
        }
    }
}

/// Runs the case, and compares all of C and the elements between its own.
///
/// `setup` chooses the precision; `bound` is the maximum norm error, 0 for an exact result, to
/// which the error of hardware with less than f32 accumulators is added.
pub fn check<T: Tested<U>, U: Output<T> + Number>(
    device: &Device,
    case: &Case,
    bound: f64,
    seed: u64,
    setup: impl for<'a> Fn(Matmul<'a, T, U>) -> Matmul<'a, T, U>,
) {
    let (m, n, k) = case.shape;
    let bound = bound + of_hardware::<T>(device, k);
    let mut rng = rng(&[m, n, k, seed as usize]);
    let extents = [(m, k), (k, n), (m, n)];
    let strides: [(usize, usize); 3] =
        std::array::from_fn(|i| case.orders[i].strides(extents[i].0, extents[i].1));
    let spans: [usize; 3] = std::array::from_fn(|i| {
        let ((rows, cols), (row, col)) = (extents[i], strides[i]);
        if rows == 0 || cols == 0 { 0 } else { (rows - 1) * row + (cols - 1) * col + 1 }
    });
    // Batches follow each other with a gap of five elements, or sixteen.
    let gap = if seed.is_multiple_of(2) { 5 } else { 16 };
    let batch: [usize; 3] = std::array::from_fn(|i| if i == 1 && case.same_b { 0 } else { spans[i] + gap });
    let lengths: [usize; 3] =
        std::array::from_fn(|i| case.offsets[i] + (case.batches - 1) * batch[i] + spans[i]);
    let [a, b] =
        [0, 1].map(|i| -> Vec<T> { (0..lengths[i] + case.behind).map(|_| T::draw(&mut rng)).collect() });
    // Larger sums of integers would wrap.
    let draw =
        |rng: &mut StdRng| if T::SMOOTH { U::draw(rng) } else { T::Scalar::from(rng.random()).convert() };
    let before: Vec<U> = (0..lengths[2]).map(|_| draw(&mut rng)).collect();
    let bias: Option<Vec<U>> =
        case.bias.map(|rows| (0..if rows { m } else { n }).map(|_| draw(&mut rng)).collect());

    let scales: [Vec<f32>; 2] = std::array::from_fn(|of| {
        (0..case.scales[of].len([m, n][of], case.batches)).map(|_| rng.random_range(0.25..2.0)).collect()
    });

    let (device_a, device_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let mut device_c = device.upload(&before).unwrap();
    if case.beta == 0.0 {
        // NaN, or far from any value: must not be read.
        device_c.fill_bytes(0xFF).unwrap();
    }
    let device_bias = bias.as_ref().map(|bias| device.upload(bias).unwrap());
    let device_scales = scales.each_ref().map(|scale| device.upload(scale).unwrap());
    let what = format!(
        "{case:?} of {} to {} on {}",
        <T as moye::Element>::NAME,
        <U as moye::Element>::NAME,
        device.name()
    );
    {
        let a = Matrix::new(device_a.slice(case.offsets[0]..).unwrap(), m, k, strides[0]).unwrap();
        let b = Matrix::new(device_b.slice(case.offsets[1]..).unwrap(), k, n, strides[1]).unwrap();
        let mut c = MatrixMut::new(device_c.slice_mut(case.offsets[2]..).unwrap(), m, n, strides[2]).unwrap();
        let mut product = setup(Matmul::new(a, b))
            .alpha(T::Scalar::from(case.alpha as i8))
            .beta(T::Scalar::from(case.beta as i8))
            .activation(case.activation);
        if case.batches != 1 {
            product = product.batch(case.batches, batch);
        }
        if let Some(splits) = case.splits {
            product = product.split_k(splits);
        }
        if let Some((m, n)) = case.tile {
            product = product.tile(m, n);
        }
        if let Some(name) = case.kernel {
            product = product.kernel(name);
        }
        product = match (&device_bias, case.bias) {
            (Some(bias), Some(true)) => product.bias_rows(bias),
            (Some(bias), _) => product.bias(bias),
            _ => product,
        };
        let scales = std::array::from_fn(|of| (case.scales[of] != Scale::None).then_some(&device_scales[of]));
        T::scaled(product, scales).run(device, &mut c).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    let got = device_c.download().unwrap();

    let mut touched = vec![false; got.len()];
    let (mut error, mut norm, mut largest) = (0.0, 0.0, (0.0f64, 0, 0, 0));
    for batch_of in 0..case.batches {
        let at = |of: usize, row: usize, col: usize| {
            case.offsets[of] + batch_of * batch[of] + row * strides[of].0 + col * strides[of].1
        };
        let rows_a: Vec<f64> = (0..m * k).map(|of| a[at(0, of / k, of % k)].value()).collect();
        let columns_b: Vec<f64> = (0..n * k).map(|of| b[at(1, of % k, of / k)].value()).collect();
        for i in 0..m {
            for j in 0..n {
                let sum = dot(&rows_a[i * k..][..k], &columns_b[j * k..][..k]);
                let scale = |of: usize, index: usize| match case.scales[of] {
                    Scale::None => 1.0,
                    scale => f64::from(scales[of][scale.at([m, n][of], batch_of, index)]),
                };
                let mut want = case.alpha * scale(0, i) * scale(1, j) * sum;
                if case.beta != 0.0 {
                    want += case.beta * before[at(2, i, j)].value();
                }
                if let Some(bias) = &bias {
                    want += bias[if case.bias == Some(true) { i } else { j }].value();
                }
                let want = activated(case.activation, want);
                let place = at(2, i, j);
                touched[place] = true;
                let got: f64 = got[place].value();
                let off = (got - want).abs();
                if off.is_nan() || off > largest.0 {
                    largest = (off, batch_of, i, j);
                }
                error += off.powi(2);
                norm += want.powi(2);
            }
        }
    }
    let count = (m * n * case.batches) as f64;
    if count > 0.0 {
        let (relative, typical) = ((error / norm.max(f64::MIN_POSITIVE)).sqrt(), (norm / count).sqrt());
        // If everything cancels (alpha and beta 0, say), nothing may remain.
        let relative = if norm == 0.0 { error } else { relative };
        assert!(relative <= bound, "{what}: relative error {relative:e}, expected at most {bound:e}");
        let (worst, of, row, column) = largest;
        assert!(
            worst <= 16.0 * bound * typical,
            "{what}: element ({row}, {column}) of batch {of} is off by {worst:e}, where elements are {typical:e}"
        );
    }
    for (place, touched) in touched.iter().enumerate() {
        if !touched {
            let same = if case.beta == 0.0 {
                // SAFETY: plain bits.
                let bytes = unsafe {
                    std::slice::from_raw_parts((&raw const got[place]).cast::<u8>(), size_of::<U>())
                };
                bytes.iter().all(|&byte| byte == 0xFF)
            } else {
                got[place] == before[place]
            };
            assert!(same, "{what}: place {place} of C's buffer, which is no element, was written");
        }
    }
}

fn activated(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::None => x,
        Activation::Relu => x.max(0.0),
        Activation::Gelu => 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
        Activation::GeluTanh => {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
        }
        Activation::Silu => x / (1.0 + (-x).exp()),
    }
}
