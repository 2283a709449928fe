//! Launches of the test kernels, and comparisons that report the differences.

use crate::common::devices;
use half::{bf16, f16};
use moye::{Buffer, Device, Element, Global, GlobalMut, Grid, Kernel, Module, Ptx};
use moye_device::arch::{Bf16x2, F16x2};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::fmt::Write as _;

/// The kernels of sm_80.
pub static SM_80: Ptx = Ptx::new("moye-kernels-copy", moye_kernels_copy::PTX_SM_80);

/// The kernels that require sm_90.
pub static SM_90: Ptx = Ptx::new("moye-kernels-copy (sm_90)", moye_kernels_copy::PTX_SM_90);

/// The devices that can run the kernels of `ptx`, with the kernels loaded: the simulator first,
/// then a GPU if there is one that is new enough.
pub fn modules(ptx: &Ptx) -> Vec<Module> {
    let fits = |device: &Device| !device.is_gpu() || ptx.image_for(device.arch()).is_some();
    devices().into_iter().filter(fits).map(|device| device.load(ptx).unwrap()).collect()
}

/// A value with its bits.
pub trait Bits: Element + std::fmt::Debug {
    /// All bits, the lowest first.
    fn bits(self) -> u128;

    /// Whether the two are equal: the same bits, or both NaN (for pairs, each half separately).
    fn same(self, other: Self) -> bool {
        self.bits() == other.bits()
    }
}

macro_rules! integers {
    ($($t:ty),*) => { $(
        impl Bits for $t {
            fn bits(self) -> u128 {
                // For a negative value, drop the sign extension.
                (self as u128) & (u128::MAX >> (128 - 8 * size_of::<Self>()))
            }
        }
    )* };
}
integers!(u8, u16, u32, u64, u128, i8, i32, i64);

macro_rules! floats {
    ($($t:ty),*) => { $(
        impl Bits for $t {
            fn bits(self) -> u128 {
                self.to_bits().into()
            }
            fn same(self, other: Self) -> bool {
                self.to_bits() == other.to_bits() || self.is_nan() && other.is_nan()
            }
        }
    )* };
}
floats!(f16, bf16, f32, f64);

macro_rules! pairs {
    ($($t:ty),*) => { $(
        impl Bits for $t {
            fn bits(self) -> u128 {
                self.to_bits().into()
            }
            fn same(self, other: Self) -> bool {
                self.low().same(other.low()) && self.high().same(other.high())
            }
        }
    )* };
}
pairs!(F16x2, Bf16x2);

/// Fails if `got` and `want` differ, with the first differences and their inputs.
#[track_caller]
pub fn compare<T: Bits>(what: &str, got: &[T], want: &[T], input: impl Fn(usize) -> String) {
    assert_eq!(got.len(), want.len(), "{what}: as many results as expected ones");
    let different: Vec<usize> = (0..got.len()).filter(|&i| !got[i].same(want[i])).collect();
    if different.is_empty() {
        return;
    }
    let mut text = String::new();
    for &i in different.iter().take(12) {
        let (g, w) = (got[i], want[i]);
        let _ =
            writeln!(text, "  [{i}] {}: {g:?} ({:#x}), expected {w:?} ({:#x})", input(i), g.bits(), w.bits());
    }
    panic!("{what}: {} of {} results are wrong:\n{text}", different.len(), got.len());
}

/// Bits of a value, for messages.
pub fn hex<T: Bits>(value: T) -> String {
    format!("{value:?} ({:#x})", value.bits())
}

/// A grid with one thread for each element.
pub fn per_element(count: usize) -> Grid {
    Grid::new((count as u32).div_ceil(256), 256)
}

/// Runs `launch` on every suitable device: the simulator's results must be the expected ones, and
/// every other device's must equal the simulator's.
#[track_caller]
pub fn on_each<U: Bits>(
    ptx: &Ptx,
    name: &str,
    want: impl Fn(usize) -> Option<U>,
    input: impl Fn(usize) -> String,
    launch: impl Fn(&Module, &Device) -> Vec<U>,
) {
    let mut simulated: Option<Vec<U>> = None;
    for module in modules(ptx) {
        let device = module.device().clone();
        let got = launch(&module, &device);
        let what = format!("{name} on {}", device.name());
        match &simulated {
            Some(simulated) => compare(&format!("{what}, against the simulator"), &got, simulated, &input),
            None => {
                let known: Vec<usize> = (0..got.len()).filter(|&i| want(i).is_some()).collect();
                assert!(!known.is_empty(), "{what}: there are results to compare with");
                let (known_got, known_want): (Vec<U>, Vec<U>) =
                    known.iter().map(|&i| (got[i], want(i).expect("it is known"))).unzip();
                compare(&what, &known_got, &known_want, |at| input(known[at]));
                simulated = Some(got);
            }
        }
    }
}

/// A kernel with one, two or three inputs: `output[i] = f(a[i], ...)` for a number of elements.
pub type Unary<T, U> = Kernel<(Global<T>, GlobalMut<U>, u32)>;
pub type Binary<T, U> = Kernel<(Global<T>, Global<T>, GlobalMut<U>, u32)>;
pub type Ternary<T> = Kernel<(Global<T>, Global<T>, Global<T>, GlobalMut<T>, u32)>;

/// `output[i] = f(input[i])`, checked against `want`.
#[track_caller]
pub fn unary<T: Bits, U: Bits>(ptx: &Ptx, kernel: &Unary<T, U>, inputs: &[T], want: impl Fn(T) -> U) {
    let want = |i: usize| Some(want(inputs[i]));
    on_each(
        ptx,
        kernel.name(),
        want,
        |i| hex(inputs[i]),
        |module, device| {
            let input = device.upload(inputs).unwrap();
            let mut output = poisoned::<U>(device, inputs.len());
            let count = inputs.len() as u32;
            // SAFETY: the buffers have `count` elements.
            unsafe { module.launch(kernel, per_element(inputs.len()), (&input, &mut output, count)) }
                .unwrap();
            output.download().unwrap()
        },
    );
}

/// `output[i] = f(a[i], b[i])`, checked against `want`.
#[track_caller]
pub fn binary<T: Bits, U: Bits>(kernel: &Binary<T, U>, inputs: &[[T; 2]], want: impl Fn(T, T) -> U) {
    let column = |at: usize| inputs.iter().map(|values| values[at]).collect::<Vec<T>>();
    let want = |i: usize| Some(want(inputs[i][0], inputs[i][1]));
    on_each(
        &SM_80,
        kernel.name(),
        want,
        |i| inputs[i].map(hex).join(", "),
        |module, device| {
            let (a, b) = (device.upload(&column(0)).unwrap(), device.upload(&column(1)).unwrap());
            let mut output = poisoned::<U>(device, inputs.len());
            let count = inputs.len() as u32;
            // SAFETY: the buffers have `count` elements.
            unsafe { module.launch(kernel, per_element(inputs.len()), (&a, &b, &mut output, count)) }
                .unwrap();
            output.download().unwrap()
        },
    );
}

/// `output[i] = f(a[i], b[i], c[i])`, compared with `want` where it is `Some`.
#[track_caller]
pub fn ternary<T: Bits>(kernel: &Ternary<T>, inputs: &[[T; 3]], want: impl Fn(T, T, T) -> Option<T>) {
    let column = |at: usize| inputs.iter().map(|values| values[at]).collect::<Vec<T>>();
    let want = |i: usize| want(inputs[i][0], inputs[i][1], inputs[i][2]);
    on_each(
        &SM_80,
        kernel.name(),
        want,
        |i| inputs[i].map(hex).join(", "),
        |module, device| {
            let [a, b, c] = [0, 1, 2].map(|at| device.upload(&column(at)).unwrap());
            let mut output = poisoned::<T>(device, inputs.len());
            let count = inputs.len() as u32;
            // SAFETY: the buffers have `count` elements.
            unsafe { module.launch(kernel, per_element(inputs.len()), (&a, &b, &c, &mut output, count)) }
                .unwrap();
            output.download().unwrap()
        },
    );
}

/// A buffer whose bytes are all 0xA5, so that elements that a kernel omits are noticed.
pub fn poisoned<T: Element>(device: &Device, len: usize) -> Buffer<T> {
    let mut buffer = device.alloc_uninit(len).unwrap();
    buffer.fill_bytes(0xA5).unwrap();
    buffer
}

/// `count` pseudo-random values, the same in every run, from a seed.
pub fn random(seed: u64, count: usize) -> Vec<u64> {
    StdRng::seed_from_u64(seed).random_iter().take(count).collect()
}
