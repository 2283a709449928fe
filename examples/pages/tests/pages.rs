//! The pages on the simulator against f64 accumulators, on sizes that are not multiples of a tile.

use moye_device::algorithm::{MAP_THREADS, MapModes, MapOperand};
use moye_device::half::{bf16, f16};
use moye_device::kernel::Kernel;
use moye_device::memory::{Element, Global, GlobalMut};
use moye_sim::memory::Allocation;
use moye_sim::{Dim3, GlobalMemory, Launch};
use pages::attention::{BLK, attention_bf16_64, attention_bf16_128, attention_f16_64, attention_f16_128};
use pages::map::{gate_bf16, gate_f32};
use pages::rmsnorm::{rmsnorm_bf16, rmsnorm_f32};
use pages::softmax::{BLK_M, softmax_bf16, softmax_f32};

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

/// Numbers from -1 to 1 that look random.
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

fn upload<T: Real>(memory: &GlobalMemory, name: &'static str, values: &[T]) -> Allocation {
    let allocation = memory.alloc(size_of_val(values), name).unwrap();
    // SAFETY: elements have no padding.
    allocation
        .write(0, unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) })
        .unwrap();
    allocation
}

fn download<T: Real>(allocation: &Allocation, count: usize) -> Vec<T> {
    let mut values = vec![T::default(); count];
    let bytes = size_of_val(&values[..]);
    // SAFETY: elements have no padding, and take any bits.
    allocation.read(0, unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), bytes) }).unwrap();
    values
}

/// The norm of the difference, as part of that of what is wanted.
#[track_caller]
fn is_near(got: impl IntoIterator<Item = f64>, want: &[f64], limit: f64, case: &str) {
    let got: Vec<f64> = got.into_iter().collect();
    assert_eq!(got.len(), want.len());
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let error = norm(&mut got.iter().zip(want).map(|(g, w)| g - w)) / norm(&mut want.iter().copied());
    assert!(error < limit, "{case}: relative error {error:e}");
}

type Attention<T> = Kernel<(Global<T>, Global<T>, Global<T>, GlobalMut<T>, u32, u32, f32, bool)>;

fn attention<T: Real>(
    kernel: Attention<T>,
    d: usize,
    [batches, s, heads]: [usize; 3],
    causal: bool,
    limit: f64,
) {
    let memory = GlobalMemory::new();
    let count = batches * s * heads * d;
    let (q, k, v) = (numbers::<T>(count, 1), numbers::<T>(count, 2), numbers::<T>(count, 3));
    let [dq, dk, dv] = [("q", &q), ("k", &k), ("v", &v)].map(|(name, values)| upload(&memory, name, values));
    let o = upload(&memory, "o", &vec![T::of(f64::NAN); count]);
    let arguments = (
        Global::from_address(dq.address()),
        Global::from_address(dk.address()),
        Global::from_address(dv.address()),
        GlobalMut::from_address(o.address()),
        s as u32,
        heads as u32,
        0.3,
        causal,
    );
    let grid = Dim3::new((s as u32).div_ceil(BLK), heads as u32, batches as u32);
    Launch::new(kernel.name(), grid, 128, &memory)
        .shared_bytes(kernel.shared_bytes())
        // SAFETY: the buffers hold the four tensors.
        .run(&|| unsafe { kernel.call(arguments) })
        .unwrap();
    let at = |batch: usize, row: usize, head: usize, i: usize| ((batch * s + row) * heads + head) * d + i;
    let mut want = vec![0.0; count];
    for (batch, head, row) in
        (0..batches).flat_map(|b| (0..heads).flat_map(move |h| (0..s).map(move |r| (b, h, r))))
    {
        let columns = if causal { row + 1 } else { s };
        let product = |column: usize| -> f64 {
            (0..d).map(|i| q[at(batch, row, head, i)].value() * k[at(batch, column, head, i)].value()).sum()
        };
        let scores: Vec<f64> = (0..columns).map(|column| 0.3 * product(column)).collect();
        let max = scores.iter().copied().fold(f64::MIN, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
        let sum: f64 = weights.iter().sum();
        for i in 0..d {
            let values =
                weights.iter().enumerate().map(|(column, w)| w * v[at(batch, column, head, i)].value());
            want[at(batch, row, head, i)] = values.sum::<f64>() / sum;
        }
    }
    let case = format!("{} of {batches} x {s} x {heads}, causal: {causal}", kernel.name());
    is_near(download::<T>(&o, count).into_iter().map(T::value), &want, limit, &case);
}

#[test]
fn attention_is_that_of_float64_for_both_types_and_head_dimensions_on_ragged_lengths() {
    for causal in [false, true] {
        attention(attention_f16_64, 64, [2, 100, 2], causal, 1e-3);
        attention(attention_f16_128, 128, [1, 65, 1], causal, 1e-3);
        attention(attention_bf16_64, 64, [1, 129, 1], causal, 8e-3);
        attention(attention_bf16_128, 128, [1, 64, 2], causal, 8e-3);
        attention(attention_f16_64, 64, [1, 1, 1], causal, 1e-3);
        attention(attention_bf16_64, 64, [1, 17, 3], causal, 8e-3);
    }
}

/// Rows of `n` numbers, `ld` apart, through a kernel; the padding between the rows stays as it was.
fn rows<T: Real>(
    [m, n]: [usize; 2],
    x: &[T],
    ld: usize,
    run: impl Fn(&GlobalMemory, u64, u64, Dim3),
    want: impl Fn(&[f64]) -> Vec<f64>,
    limit: f64,
    case: &str,
) {
    let memory = GlobalMemory::new();
    let marked = vec![T::of(77.0); m * ld];
    let (dx, y) = (upload(&memory, "x", x), upload(&memory, "y", &marked));
    run(&memory, dx.address(), y.address(), Dim3::new((m as u32).div_ceil(BLK_M), 1, 1));
    let got = download::<T>(&y, m * ld);
    let mut all = (Vec::new(), Vec::new());
    for row in 0..m {
        let values: Vec<f64> = x[row * ld..row * ld + n].iter().map(|v| v.value()).collect();
        all.0.extend(want(&values));
        all.1.extend(got[row * ld..row * ld + n].iter().map(|v| v.value()));
        for (i, value) in got[row * ld + n..(row + 1) * ld].iter().enumerate() {
            assert_eq!(*value, T::of(77.0), "{case}: behind row {row}, {i}");
        }
    }
    is_near(all.1, &all.0, limit, &format!("{case} of {m} x {n}"));
}

const SIZES: [[usize; 2]; 6] = [[1, 1], [5, 100], [4, 512], [7, 1027], [2, 3], [9, 256]];

fn softmax<T: Real>(kernel: Kernel<(Global<T>, GlobalMut<T>, u32, u32, i64)>, limit: f64) {
    for [m, n] in SIZES {
        let ld = n.next_multiple_of(16) + 16;
        let x: Vec<T> = numbers::<T>(m * ld, 5).into_iter().map(|x| T::of(8.0 * x.value())).collect();
        let run = |memory: &GlobalMemory, x: u64, y: u64, grid: Dim3| {
            let arguments =
                (Global::from_address(x), GlobalMut::from_address(y), m as u32, n as u32, ld as i64);
            // SAFETY: the buffers hold the rows.
            Launch::new(kernel.name(), grid, 128, memory).run(&|| unsafe { kernel.call(arguments) }).unwrap();
        };
        let want = |row: &[f64]| {
            let max = row.iter().copied().fold(f64::MIN, f64::max);
            let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
            row.iter().map(|x| (x - max).exp() / sum).collect()
        };
        rows([m, n], &x, ld, run, want, limit, kernel.name());
    }
}

#[test]
fn softmax_is_that_of_float64_on_rows_of_any_length() {
    softmax(softmax_f32, 1e-6);
    softmax(softmax_bf16, 4e-3);
}

fn rmsnorm<T: Real>(kernel: Kernel<(Global<T>, Global<T>, GlobalMut<T>, u32, u32, i64, f32)>, limit: f64) {
    for [m, n] in SIZES {
        let ld = n.next_multiple_of(16) + 16;
        let (x, w) = (numbers::<T>(m * ld, 6), numbers::<T>(n.next_multiple_of(16), 7));
        let weights: Vec<f64> = w.iter().map(|w| w.value()).collect();
        let run = |memory: &GlobalMemory, x: u64, y: u64, grid: Dim3| {
            let w = upload(memory, "w", &w);
            let (x, w, y) =
                (Global::from_address(x), Global::from_address(w.address()), GlobalMut::from_address(y));
            let arguments = (x, w, y, m as u32, n as u32, ld as i64, 1e-3);
            // SAFETY: the buffers hold the rows.
            Launch::new(kernel.name(), grid, 128, memory).run(&|| unsafe { kernel.call(arguments) }).unwrap();
        };
        let want = |row: &[f64]| {
            let mean = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
            row.iter().zip(&weights).map(|(x, w)| x / (mean + f64::from(1e-3f32)).sqrt() * w).collect()
        };
        rows([m, n], &x, ld, run, want, limit, kernel.name());
    }
}

#[test]
fn rmsnorm_is_that_of_float64_on_rows_of_any_length() {
    rmsnorm(rmsnorm_f32, 1e-6);
    rmsnorm(rmsnorm_bf16, 4e-3);
}

fn gate<T: Real>(
    kernel: Kernel<(Global<T>, Global<T>, Global<T>, GlobalMut<T>, MapModes<3>)>,
    [m, n]: [usize; 2],
    ld: usize,
    limit: f64,
) {
    // `y` is a row and `z` a column.
    let (x, y, z) = (numbers::<T>(m * ld, 8), numbers::<T>(n, 9), numbers::<T>(m, 10));
    let want: Vec<f64> = (0..m * n)
        .map(|i| {
            let (row, column) = (i / n, i % n);
            x[row * ld + column].value() / (1.0 + (-y[column].value()).exp()) + z[row].value()
        })
        .collect();
    let memory = GlobalMemory::new();
    let [dx, dy, dz] = [("x", &x), ("y", &y), ("z", &z)].map(|(name, values)| upload(&memory, name, values));
    let out = upload(&memory, "out", &vec![T::of(77.0); m * ld]);
    let strides = [[ld as i64, 1], [0, 1], [1, 0], [ld as i64, 1]];
    let operand = |k: usize, memory: &Allocation| MapOperand {
        address: memory.address(),
        bytes: T::BYTES,
        strides: &strides[k],
    };
    let inputs = [operand(0, &dx), operand(1, &dy), operand(2, &dz)];
    for launch in MapModes::launches(&[m, n], inputs, operand(3, &out)) {
        let [x, y, z] = launch.inputs.map(Global::from_address);
        let arguments = (x, y, z, GlobalMut::from_address(launch.out), launch.modes);
        // SAFETY: the buffers hold the operands.
        unsafe { kernel.simulate(&memory, launch.modes.blocks(), MAP_THREADS, arguments) }.unwrap();
    }
    let got = download::<T>(&out, m * ld);
    let results = got.iter().enumerate().filter(|(i, _)| i % ld < n).map(|(_, value)| value.value());
    let case = format!("{} of {m} x {n}, {ld} apart", kernel.name());
    is_near(results, &want, limit, &case);
    assert!(got.iter().enumerate().all(|(i, value)| i % ld < n || *value == T::of(77.0)), "{case}: padding");
}

#[test]
fn an_elementwise_function_is_that_of_float64_on_vectors_and_elements() {
    for (shape, ld) in [([5, 100], 104), ([3, 1027], 1040), ([4, 33], 33), ([1, 1], 1)] {
        gate(gate_f32, shape, ld, 1e-6);
        gate(gate_bf16, shape, ld, 4e-3);
    }
}
