//! Each page's kernel compared with float64 on ragged sizes: small cases on the simulator, larger
//! ones too on a GPU; and the PTX of all pages.

mod attention;
#[path = "../../../../tests/fixtures/common/devices.rs"]
mod common;
mod gated;
mod map;
#[allow(dead_code, reason = "each test uses some of it")]
#[path = "../../../../ops/attention/host/oracle.rs"]
mod oracle;
mod ptx;
mod rows;

use moye::{Device, Ptx, include_ptx};
use moye_device::half::{bf16, f16};
use moye_device::memory::Element;

static PTX: Ptx = include_ptx!("pages");

/// An element type with its values.
trait Real: Element + Default + PartialEq + std::fmt::Debug {
    fn of(value: f64) -> Self;
    fn value(self) -> f64;
}
macro_rules! real {
    ($($t:ty: $of:expr, $value:expr;)+) => { $(
        impl Real for $t {
            fn of(value: f64) -> Self {
                $of(value)
            }
            fn value(self) -> f64 {
                $value(self)
            }
        }
    )+ };
}
real! {
    f32: |v| v as f32, f64::from;
    f16: f16::from_f64, f16::to_f64;
    bf16: bf16::from_f64, bf16::to_f64;
}

/// Deterministic pseudo-random values from -1 to 1.
fn numbers<T: Real>(count: usize, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| T::of(next())).collect()
}

/// Checks that the relative norm of the difference is below the limit.
#[track_caller]
fn is_near(got: &[f64], want: &[f64], limit: f64, case: &str) {
    assert_eq!(got.len(), want.len(), "{case}");
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let error = norm(&mut got.iter().zip(want).map(|(g, w)| g - w)) / norm(&mut want.iter().copied());
    println!("{case}: relative error {error:.1e}");
    assert!(error < limit, "{case}: relative error {error:e}, and {limit:e} is allowed");
}

/// The rows of `n` elements, `ld` apart, of a result; checks that elements between the rows are
/// `marked`.
fn rows_of<T: Real>(result: &[T], [m, n, ld]: [usize; 3], marked: T, case: &str) -> Vec<f64> {
    for row in 0..m {
        for (i, &value) in result[row * ld + n..(row + 1) * ld].iter().enumerate() {
            assert_eq!(value, marked, "{case}: after row {row}, {i}");
        }
    }
    (0..m).flat_map(|row| result[row * ld..row * ld + n].iter().map(|x| x.value())).collect()
}

/// The sizes for a device: the larger ones on a GPU only.
fn sizes<T: Copy>(device: &Device, small: &[T], larger: &[T]) -> Vec<T> {
    if device.is_gpu() { [small, larger].concat() } else { small.to_vec() }
}
