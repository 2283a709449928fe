//! Products whose results differ in type from C, or are computed from the accumulators.

use crate::common::devices;
use crate::{SM_80, entry, load};
use half::f16;
use moye::{Global, GlobalMut, Grid, Kernel};
use moye_device::number::Complex64;
use moye_kernels_tiled::results::{self, K, M, N};

const SIZES: [usize; 3] = [(M * K) as usize, (N * K) as usize, (M * N) as usize];

fn a(i: usize) -> f32 {
    (i * 37 % 23) as f32 - 11.0
}

fn b(i: usize) -> f32 {
    (i * 29 % 19) as f32 - 9.0
}

/// Values at which f16 has steps of 2, so that a sum that passed through f16 would not be exact.
fn c(i: usize) -> f32 {
    2048.0 + 2.0 * (i * 31 % 400) as f32
}

/// Row and column of C, and the places in A and B of what they multiply.
fn places(i: usize) -> impl Iterator<Item = (usize, usize)> {
    let (m, n) = (i % M as usize, i / M as usize);
    (0..K as usize).map(move |k| (m + M as usize * k, n + N as usize * k))
}

type Mixed = Kernel<(Global<f16>, Global<f16>, Global<f16>, GlobalMut<f32>)>;

fn mixed(kernel: &Mixed, order: &str) {
    let halves = |f: fn(usize) -> f32, size| (0..size).map(|i| f16::from_f32(f(i))).collect::<Vec<_>>();
    for device in devices() {
        let Some(module) = load(&device, &SM_80) else { continue };
        let [left, right, addend] = [(a as fn(usize) -> f32, SIZES[0]), (b, SIZES[1]), (c, SIZES[2])]
            .map(|(f, size)| device.upload(&halves(f, size)).unwrap());
        let mut output = device.alloc_zeroed::<f32>(SIZES[2]).unwrap();
        // SAFETY: the buffers hold the tiles.
        unsafe {
            let arguments = (&left, &right, &addend, &mut output);
            module.launch(kernel, Grid::new(1, 32), arguments).unwrap();
        }
        for (i, got) in output.download().unwrap().into_iter().enumerate() {
            let want = places(i).fold(c(i), |sum, (at, bt)| sum + a(at) * b(bt));
            assert_eq!(got, want, "{} on {}, element {i}", kernel.name(), device.name());
        }
    }
    // The first of three steps of 2 x 1 atoms adds to f16, the others to f32.
    let entry = entry(kernel.name());
    let count = |c: &str| entry.count(&format!("mma.sync.aligned.m8n8k4.{order}.f32.f16.f16.{c}"));
    let counts = (count("f16"), count("f32"), entry.count("mma"));
    assert_eq!(counts, (2, 4, 6), "{}: {:?}", kernel.name(), entry.instructions);
}

#[test]
fn f32_for_sums_of_f16_are_exact_over_all_steps() {
    mixed(&results::mixed_tn, "row.col");
    mixed(&results::mixed_nt, "col.row");
    mixed(&results::mixed_nn, "col.col");
    mixed(&results::mixed_tt, "row.row");
}

#[test]
fn complex_numbers_are_made_up_of_three_products() {
    let at = |i: usize| Complex64::new(f64::from(a(i)), f64::from(b(i + 3)));
    let bt = |i: usize| Complex64::new(f64::from(b(i)), f64::from(a(i + 5)));
    for device in devices() {
        let Some(module) = load(&device, &SM_80) else { continue };
        let left = device.upload(&(0..SIZES[0]).map(at).collect::<Vec<_>>()).unwrap();
        let right = device.upload(&(0..SIZES[1]).map(bt).collect::<Vec<_>>()).unwrap();
        let mut output = device.alloc_zeroed::<Complex64>(SIZES[2]).unwrap();
        // SAFETY: the buffers hold the tiles.
        unsafe { module.launch(&results::gauss, Grid::new(1, 128), (&left, &right, &mut output)) }.unwrap();
        for (i, got) in output.download().unwrap().into_iter().enumerate() {
            let want = places(i).fold(Complex64::default(), |sum, (l, r)| sum + at(l) * bt(r));
            assert_eq!(got, want, "on {}, element {i}", device.name());
        }
    }
    let entry = entry("gauss");
    // 2 x 1 atoms in three steps, of three products each.
    assert_eq!(entry.count("mma"), 18, "{:?}", entry.instructions);
}
