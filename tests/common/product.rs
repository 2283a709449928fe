//! Products `C (M, N) = A (M, K) * B (N, K)` by a kernel, against a float64 reference, exactly for
//! integers, over shapes that fill their tiles, hang over them and barely exist.

use super::matrix::rng;
use super::{devices, say};
use half::{bf16, f16};
use moye::{Device, Element, Global, GlobalMut, Grid, Kernel, Module};
use moye_device::number::{B1, F8E4M3, F8E5M2, Number as _, S4, Scalar, Tf32, U4};
use rand::RngExt;
use rand::rngs::StdRng;

/// K is the fast axis of A and B, N that of C: pointers, extents, leading dimensions in elements.
pub type Product<T, U> = Kernel<(Global<T>, Global<T>, GlobalMut<U>, u32, u32, u32, i64, i64, i64)>;

/// The storage of the elements of A and B: separate, or packed into bytes.
pub trait Operand {
    /// What a buffer holds.
    type Stored: Element;
    /// How many elements that is.
    const PER: usize;
    fn draw_stored(rng: &mut StdRng) -> Self::Stored;
    /// The value of element `index` of what is stored.
    fn value_of(stored: &[Self::Stored], index: usize) -> f64;
}

/// An element of an operand or a result.
pub trait Number: Element + PartialEq + Operand<Stored = Self> {
    fn draw(rng: &mut StdRng) -> Self;
    fn value(self) -> f64;
}

macro_rules! whole {
    ($($t:ty),*) => { $(
        impl Operand for $t {
            type Stored = Self;
            const PER: usize = 1;
            fn draw_stored(rng: &mut StdRng) -> Self {
                <Self as Number>::draw(rng)
            }
            fn value_of(stored: &[Self], index: usize) -> f64 {
                stored[index].value()
            }
        }
    )* };
}
whole!(f16, bf16, f64, F8E4M3, F8E5M2, f32, i8, u8, i32);

macro_rules! packed {
    ($($t:ty),*) => { $(
        impl Operand for $t {
            type Stored = u8;
            const PER: usize = 8 / Self::WIDTH;
            fn draw_stored(rng: &mut StdRng) -> u8 {
                rng.random()
            }
            fn value_of(stored: &[u8], index: usize) -> f64 {
                let byte = stored[index / Self::PER];
                Self::from_low_bits(u64::from(byte) >> (index % Self::PER * Self::WIDTH)).to_f64()
            }
        }
    )* };
}
packed!(S4, U4, B1);

macro_rules! floats {
    ($($t:ty),*) => { $(
        impl Number for $t {
            fn draw(rng: &mut StdRng) -> Self {
                Self::nearest(rng.random_range(-1.0..=1.0))
            }
            fn value(self) -> f64 {
                self.to_f64()
            }
        }
    )* };
}
floats!(f16, bf16, f64, F8E4M3, F8E5M2);

impl Number for f32 {
    /// A value that tf32 has too, so that tensor cores lose nothing of it.
    fn draw(rng: &mut StdRng) -> Self {
        Tf32::nearest(rng.random_range(-1.0..=1.0)).to_f64() as Self
    }
    fn value(self) -> f64 {
        f64::from(self)
    }
}

macro_rules! integers {
    ($($t:ty),*) => { $(
        impl Number for $t {
            fn draw(rng: &mut StdRng) -> Self {
                rng.random()
            }
            fn value(self) -> f64 {
                f64::from(self)
            }
        }
    )* };
}
integers!(i8, u8, i32);

/// `(M, N, K)`: one tile, ragged ones, single rows and columns, several tiles along each mode.
pub const SHAPES: [(usize, usize, usize); 8] = [
    (64, 64, 64),
    (1, 1, 1),
    (5, 3, 7),
    (64, 64, 16),
    (67, 129, 72),
    (130, 65, 33),
    (1, 200, 100),
    (200, 1, 130),
];

/// How a kernel's product is checked.
pub struct Check {
    /// The largest error that is let pass, relative in norm: 0 for a result that has to be exact.
    pub bound: f64,
    /// What the leading dimension of C is a multiple of.
    pub c_multiple: usize,
    /// The grid for an M and an N.
    pub grid: fn(usize, usize) -> Grid,
}

/// The kernel on every device that `load` can load it on.
pub fn check<T: Number, U: Number>(
    load: impl Fn(&Device) -> Option<Module>,
    kernel: &Product<T, U>,
    check: &Check,
    shapes: &[(usize, usize, usize)],
) {
    check_of::<T, U>(load, kernel, check, shapes, |a, b| a * b);
}

/// As [`check`], where A and B have the elements `T`, which a byte may hold several of, and C sums
/// `product` of them.
pub fn check_of<T: Operand, U: Number>(
    load: impl Fn(&Device) -> Option<Module>,
    kernel: &Product<T::Stored, U>,
    check: &Check,
    shapes: &[(usize, usize, usize)],
    product: impl Fn(f64, f64) -> f64,
) {
    for device in devices() {
        let Some(module) = load(&device) else {
            say(&format!("{} is skipped on {}, which is older", kernel.name(), device.name()));
            continue;
        };
        for &shape in shapes {
            one::<T, U>(&device, &module, kernel, shape, check, &product);
        }
    }
}

fn one<T: Operand, U: Number>(
    device: &Device,
    module: &Module,
    kernel: &Product<T::Stored, U>,
    (m, n, k): (usize, usize, usize),
    check: &Check,
    product: impl Fn(f64, f64) -> f64,
) {
    let mut rng = rng(&[m, n, k]);
    // Rows start at multiples of 16 bytes, which the kernels are promised; C's need not.
    let stored = k.div_ceil(T::PER).next_multiple_of(16) + 16;
    let ld = stored * T::PER;
    let mut draw = |rows| (0..rows * stored).map(|_| T::draw_stored(&mut rng)).collect::<Vec<_>>();
    let (a, b) = (draw(m), draw(n));
    let values = |of: &[T::Stored], rows| {
        let row = |i| (0..k).map(move |j| T::value_of(of, i * ld + j)).collect::<Vec<_>>();
        (0..rows).map(row).collect::<Vec<_>>()
    };
    let (rows_a, rows_b) = (values(&a, m), values(&b, n));
    let ldc = (n + 3).next_multiple_of(check.c_multiple);
    let (device_a, device_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let mut device_c = device.alloc_uninit::<U>(m * ldc).unwrap();
    device_c.fill_bytes(0xFF).unwrap();
    let grid = (check.grid)(m, n);
    // SAFETY: the buffers hold the matrices with these leading dimensions.
    unsafe {
        module.launch(
            kernel,
            grid,
            (
                &device_a,
                &device_b,
                &mut device_c,
                m as u32,
                n as u32,
                k as u32,
                ld as i64,
                ld as i64,
                ldc as i64,
            ),
        )
    }
    .unwrap();
    let c = device_c.download().unwrap();

    let what = format!("{} of {m} x {n} x {k} on {}", kernel.name(), device.name());
    let (mut error, mut norm, mut largest) = (0.0, 0.0, (0.0, 0, 0));
    for i in 0..m {
        for j in 0..n {
            let want: f64 = rows_a[i].iter().zip(&rows_b[j]).map(|(&a, &b)| product(a, b)).sum();
            let got = c[i * ldc + j].value();
            error += (got - want).powi(2);
            // One that was never written is not a number; nothing is larger.
            let off = (got - want).abs();
            if off.is_nan() || off > largest.0 {
                largest = (off, i, j);
            }
            norm += want.powi(2);
        }
        for (j, got) in c[i * ldc + n..(i + 1) * ldc].iter().enumerate() {
            // SAFETY: plain bits.
            let bytes =
                unsafe { std::slice::from_raw_parts(std::ptr::from_ref(got).cast::<u8>(), size_of::<U>()) };
            assert!(bytes.iter().all(|&byte| byte == 0xFF), "{what}: writes at ({i}, {}) of C", n + j);
        }
    }
    // A result that was never written is not a number, or far away.
    let relative = if error == 0.0 { 0.0 } else { (error / norm).sqrt() };
    assert!(
        relative <= check.bound,
        "{what}: relative error {relative:e}, expected at most {:e}",
        check.bound
    );
    // A single wrong element is lost in the norm of many.
    let typical = (norm / (m * n) as f64).sqrt();
    let (worst, row, column) = largest;
    assert!(
        worst <= 8.0 * check.bound * typical,
        "{what}: element ({row}, {column}) is off by {worst:e}, where elements are {typical:e}"
    );
}
