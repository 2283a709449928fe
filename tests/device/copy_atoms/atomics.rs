//! Atomic operations by 64 threads on four cells. The values are chosen so that the result does not
//! depend on the order of the threads.

use crate::support::{Bits, SM_80, SM_90, on_each, poisoned, random};
use half::{bf16, f16};
use moye::{Global, GlobalMut, Grid, Kernel, Ptx};
use moye_device::arch::{Bf16x2, F16x2};
use moye_kernels_copy::{self as kernels, sm_90};

type Exchange<T> = Kernel<(Global<T>, GlobalMut<T>, GlobalMut<T>)>;
type CompareExchange<T> = Kernel<(Global<T>, Global<T>, GlobalMut<T>, GlobalMut<T>)>;
type Operation<T> = Kernel<(Global<T>, GlobalMut<T>)>;

/// Kernels by name.
macro_rules! of {
    ($module:ident: $($kernel:ident)+) => { [$(&$module::$kernel),+] };
}

/// Runs each of the kernels with 64 `values` on four `cells` and checks the cells afterwards.
#[track_caller]
fn cells<T: Bits, const N: usize>(
    ptx: &Ptx,
    kernels: [&Operation<T>; N],
    values: &[T],
    before: &[T; 4],
    fold: impl Fn(T, T) -> T,
) {
    let want = |cell: usize| Some((cell..64).step_by(4).map(|i| values[i]).fold(before[cell], &fold));
    let name = |cell| format!("cell {cell}");
    for kernel in kernels {
        on_each(ptx, kernel.name(), want, name, |module, device| {
            let input = device.upload(values).unwrap();
            let mut cells = device.upload(before).unwrap();
            // SAFETY: 64 values and 4 cells.
            unsafe { module.launch(kernel, Grid::new(1, 64), (&input, &mut cells)) }.unwrap();
            cells.download().unwrap()
        });
    }
}

/// 64 values computed from 64 random ones.
fn values<T>(of: impl Fn(u64) -> T) -> Vec<T> {
    random(31, 64).into_iter().map(of).collect()
}

#[test]
fn integers_are_added_with_wrapping() {
    let kernels = of!(kernels: atom_add_u32 red_add_u32 shared_atom_add_u32 shared_red_add_u32);
    cells(&SM_80, kernels, &values(|r| r as u32), &[0, 1, u32::MAX, 7], u32::wrapping_add);
    let kernels = of!(kernels: atom_add_s32 red_add_s32 shared_atom_add_s32 shared_red_add_s32);
    cells(&SM_80, kernels, &values(|r| r as i32), &[0, -1, i32::MAX, i32::MIN], i32::wrapping_add);
    let kernels = of!(kernels: atom_add_u64 red_add_u64 shared_atom_add_u64 shared_red_add_u64);
    cells(&SM_80, kernels, &values(|r| r), &[0, 1, u64::MAX, 7], u64::wrapping_add);
    let kernels = of!(kernels: atom_add_s64 red_add_s64 shared_atom_add_s64 shared_red_add_s64);
    cells(&SM_80, kernels, &values(|r| r as i64), &[0, -1, i64::MAX, i64::MIN], i64::wrapping_add);
}

/// Adds the halves of pairs.
fn sum_f16x2(a: F16x2, b: F16x2) -> F16x2 {
    F16x2::new(a.low() + b.low(), a.high() + b.high())
}

/// Adds the halves of pairs.
fn sum_bf16x2(a: Bf16x2, b: Bf16x2) -> Bf16x2 {
    Bf16x2::new(a.low() + b.low(), a.high() + b.high())
}

#[test]
fn floats_are_added() {
    // Integers: every order gives the same sum.
    let small = |r: u64| (r % 9) as f32 - 4.0;
    let kernels = of!(kernels: atom_add_f32 red_add_f32 shared_atom_add_f32 shared_red_add_f32);
    cells(&SM_80, kernels, &values(small), &[0.0, 0.5, -1000.0, 1e6], |a, b| a + b);
    let kernels = of!(kernels: atom_add_f64 red_add_f64 shared_atom_add_f64 shared_red_add_f64);
    cells(&SM_80, kernels, &values(|r| f64::from(small(r))), &[0.0, 0.5, -1e9, 1e12], |a, b| a + b);
    let kernels = of!(kernels: atom_add_f16x2 red_add_f16x2 shared_atom_add_f16x2 shared_red_add_f16x2);
    let pair = |r: u64| F16x2::new(f16::from_f32(small(r)), f16::from_f32(small(r >> 20)));
    cells(&SM_80, kernels, &values(pair), &[F16x2::ZERO; 4], sum_f16x2);
    let kernels = of!(sm_90: atom_add_bf16x2 red_add_bf16x2 shared_atom_add_bf16x2 shared_red_add_bf16x2);
    let pair = |r: u64| Bf16x2::new(bf16::from_f32(small(r)), bf16::from_f32(small(r >> 20)));
    cells(&SM_90, kernels, &values(pair), &[Bf16x2::ZERO; 4], sum_bf16x2);
}

#[test]
fn subnormal_f32_count_in_shared_memory_and_not_in_global_memory() {
    let tiny = f32::from_bits(1 << 20);
    let addends = vec![tiny; 64];
    cells(&SM_80, [&kernels::shared_atom_add_f32], &addends, &[tiny; 4], |a, b| a + b);
    let flushed = |a, _| if a == 1.0 { 1.0 } else { 0.0 };
    cells(&SM_80, of!(kernels: atom_add_f32 red_add_f32), &addends, &[tiny, -tiny, 1.0, 0.0], flushed);
    // Subnormal halves of f16 pairs are kept (`.noftz`).
    let addends = vec![F16x2::splat(f16::from_bits(3)); 64];
    let kernels = of!(kernels: atom_add_f16x2 shared_atom_add_f16x2);
    cells(&SM_80, kernels, &addends, &[F16x2::ZERO; 4], sum_f16x2);
}

/// Every operation on integers of one type, in global and in shared memory.
macro_rules! integers {
    ($t:ident: $([$min:ident $max:ident $and:ident $or:ident $xor:ident])+) => { $(
        let random = values(|r| r.rotate_left(32) as $t);
        cells(&SM_80, [&kernels::$min], &random, &[$t::MAX; 4], Ord::min);
        cells(&SM_80, [&kernels::$max], &random, &[$t::MIN; 4], Ord::max);
        // 16 values with half of the bits each would leave no bit set.
        let dense = values(|r| (r | r.rotate_left(17) | r.rotate_left(29) | r.rotate_left(41)) as $t);
        cells(&SM_80, [&kernels::$and], &dense, &[!0; 4], |a, b| a & b);
        let sparse = values(|r| 1 << (r % u64::from($t::BITS)));
        cells(&SM_80, [&kernels::$or], &sparse, &[0; 4], |a, b| a | b);
        cells(&SM_80, [&kernels::$xor], &random, &[0, 1, 2, 3], |a, b| a ^ b);
    )+ };
}

#[test]
fn minimum_maximum_and_bits() {
    integers!(u32:
        [atom_min_u32 atom_max_u32 atom_and_b32 atom_or_b32 atom_xor_b32]
        [shared_atom_min_u32 shared_atom_max_u32 shared_atom_and_b32 shared_atom_or_b32 shared_atom_xor_b32]);
    integers!(i32:
        [atom_min_s32 atom_max_s32 atom_and_s32 atom_or_s32 atom_xor_s32]
        [shared_atom_min_s32 shared_atom_max_s32 shared_atom_and_s32 shared_atom_or_s32 shared_atom_xor_s32]);
    integers!(u64:
        [atom_min_u64 atom_max_u64 atom_and_b64 atom_or_b64 atom_xor_b64]
        [shared_atom_min_u64 shared_atom_max_u64 shared_atom_and_b64 shared_atom_or_b64 shared_atom_xor_b64]);
    integers!(i64:
        [atom_min_s64 atom_max_s64 atom_and_s64 atom_or_s64 atom_xor_s64]
        [shared_atom_min_s64 shared_atom_max_s64 shared_atom_and_s64 shared_atom_or_s64 shared_atom_xor_s64]);
}

/// 64 threads exchange cells for `values`, all of them or the cells that hold `expected`: returns
/// the cells afterwards, followed by the previous values.
#[track_caller]
fn exchanges<T: Bits + PartialEq>(
    exchange: &Exchange<T>,
    compare: &CompareExchange<T>,
    of: impl Fn(u64) -> T,
) {
    let before: Vec<T> = random(41, 64).into_iter().map(&of).collect();
    let values: Vec<T> = random(42, 64).into_iter().map(&of).collect();
    // Every other cell has the expected value.
    let expected: Vec<T> = (0..64).map(|i| if i % 2 == 0 { before[i] } else { values[i] }).collect();
    let name = |i: usize| format!("{} of thread {}", if i < 64 { "cell" } else { "taken" }, i % 64);
    let want = |i: usize| Some(if i < 64 { values[i] } else { before[i - 64] });
    on_each(&SM_80, exchange.name(), want, name, |module, device| {
        let input = device.upload(&values).unwrap();
        let (mut cells, mut taken) = (device.upload(&before).unwrap(), poisoned::<T>(device, 64));
        // SAFETY: 64 elements each.
        unsafe { module.launch(exchange, Grid::new(1, 64), (&input, &mut cells, &mut taken)) }.unwrap();
        [cells.download().unwrap(), taken.download().unwrap()].concat()
    });
    let want = |i: usize| {
        Some(if i >= 64 {
            before[i - 64]
        } else if i.is_multiple_of(2) {
            values[i]
        } else {
            before[i]
        })
    };
    on_each(&SM_80, compare.name(), want, name, |module, device| {
        let (known, input) = (device.upload(&expected).unwrap(), device.upload(&values).unwrap());
        let (mut cells, mut taken) = (device.upload(&before).unwrap(), poisoned::<T>(device, 64));
        // SAFETY: 64 elements each.
        unsafe { module.launch(compare, Grid::new(1, 64), (&known, &input, &mut cells, &mut taken)) }
            .unwrap();
        [cells.download().unwrap(), taken.download().unwrap()].concat()
    });
}

/// The bits of a float; every fourth is a NaN with a payload or a zero of either sign.
fn f32_of(r: u64) -> f32 {
    f32::from_bits(match r % 8 {
        0 => 0x7fc0_0000 | (r >> 40) as u32,
        1 => (r >> 63 << 31) as u32,
        _ => (r >> 32) as u32,
    })
}

/// [`f32_of`] for f64.
fn f64_of(r: u64) -> f64 {
    f64::from_bits(match r % 8 {
        0 => 0x7ff8_0000_0000_0000 | r >> 16,
        1 => r >> 63 << 63,
        _ => r,
    })
}

#[test]
fn exchanges_hand_out_what_was_there() {
    exchanges(&kernels::atom_exch_b32, &kernels::atom_cas_b32, |r| r as u32);
    exchanges(&kernels::atom_exch_b64, &kernels::atom_cas_b64, |r| r);
    exchanges(&kernels::atom_exch_s32, &kernels::atom_cas_s32, |r| r as i32);
    exchanges(&kernels::atom_exch_s64, &kernels::atom_cas_s64, |r| r as i64);
    exchanges(&kernels::shared_exch_b32, &kernels::shared_cas_b32, |r| r as u32);
    exchanges(&kernels::shared_exch_b64, &kernels::shared_cas_b64, |r| r);
    exchanges(&kernels::shared_exch_s32, &kernels::shared_cas_s32, |r| r as i32);
    exchanges(&kernels::shared_exch_s64, &kernels::shared_cas_s64, |r| r as i64);
    // The instruction compares bits: some random values are NaN, which a comparison of values would
    // find unequal.
    exchanges(&kernels::atom_exch_f32, &kernels::atom_cas_f32, f32_of);
    exchanges(&kernels::atom_exch_f64, &kernels::atom_cas_f64, f64_of);
    exchanges(&kernels::shared_exch_f32, &kernels::shared_cas_f32, f32_of);
    exchanges(&kernels::shared_exch_f64, &kernels::shared_cas_f64, f64_of);
}

#[test]
fn nothing_is_lost_in_exchanges_of_many_threads() {
    for module in crate::support::modules(&SM_80) {
        let mut output = poisoned::<u32>(module.device(), 66);
        // SAFETY: 66 words.
        unsafe { module.launch(&kernels::shared_exchanges, Grid::new(1, 64), (&mut output,)) }.unwrap();
        let words = output.download().unwrap();
        let name = module.device().name();
        assert_eq!(words[0], 64, "every thread added 1 on {name}");
        // Each stored value is returned once: 0 from the start, and all values except the last one.
        let mut seen = words[1..].to_vec();
        seen.sort_unstable();
        assert_eq!(seen, (0..=64).collect::<Vec<u32>>(), "numbers put in and taken out on {name}");
    }
}
