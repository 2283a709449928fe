//! Elementwise kernels on the simulator: strides, broadcasts, alignments and ragged edges, against
//! plain Rust.

use half::{bf16, f16};
use moye_device::algorithm::{FastDivmod, MAP_THREADS, MapLaunch, MapModes, MapOperand, map};
use moye_device::prelude::*;
use moye_sim::GlobalMemory;

/// `out = 2 x + y - z`, in f32.
///
/// # Safety
/// The operands have the elements of `modes`.
#[kernel(threads = MAP_THREADS, instances = (mixed<bf16, f32, f16, f32>, narrow<bf16, bf16, bf16, bf16>))]
pub unsafe fn sums<X, Y, Z, U>(
    x: Global<X>,
    y: Global<Y>,
    z: Global<Z>,
    out: GlobalMut<U>,
    modes: MapModes<3>,
) where
    X: Element + Convert<f32>,
    Y: Element + Convert<f32>,
    Z: Element + Convert<f32>,
    U: Element,
    f32: Convert<U>,
{
    map((x, y, z), out, &modes, |[x, y, z]: [f32; 3]| 2.0 * x + y - z);
}

/// `out = a b + c d`.
///
/// # Safety
/// Same contract as [`sums`].
#[kernel(threads = MAP_THREADS)]
pub unsafe fn products(
    a: Global<bf16>,
    b: Global<f32>,
    c: Global<f16>,
    d: Global<bf16>,
    out: GlobalMut<f32>,
    modes: MapModes<4>,
) {
    map((a, b, c, d), out, &modes, |[a, b, c, d]: [f32; 4]| a * b + c * d);
}

/// `out = x + 1` of integers.
///
/// # Safety
/// Same contract as [`sums`].
#[kernel(threads = MAP_THREADS, instances = (next<i32>))]
pub unsafe fn successors<T: Element + Convert<i32>>(x: Global<T>, out: GlobalMut<i32>, modes: MapModes<1>) {
    map((x,), out, &modes, |[x]: [i32; 1]| x + 1);
}

/// `out = value`.
///
/// # Safety
/// Same contract as [`sums`].
#[kernel(threads = MAP_THREADS)]
pub unsafe fn constant(out: GlobalMut<f32>, modes: MapModes<0>, value: f32) {
    map((), out, &modes, |[]: [f32; 0]| value);
}

/// `out = x + y` of adjacent elements `x`, `y`.
///
/// # Safety
/// Same contract as [`sums`].
#[kernel(threads = MAP_THREADS)]
pub unsafe fn of_pairs(pairs: Global<moye_device::arch::Bf16x2>, out: GlobalMut<bf16>, modes: MapModes<1>) {
    map((pairs,), out, &modes, |[[x, y]]: [[f32; 2]; 1]| x + y);
}

/// An operand's strides and the offset of its first element.
type Operand<'a> = (&'a [i64], usize);

/// The offsets of all indices of a shape, the last mode fastest.
fn offsets(shape: &[usize], strides: &[i64]) -> Vec<usize> {
    let count: usize = shape.iter().product();
    let offset = |index: usize| {
        let (mut rest, mut offset) = (index, 0);
        for (extent, stride) in shape.iter().zip(strides).rev() {
            offset += (rest % extent) as i64 * stride;
            rest /= extent;
        }
        usize::try_from(offset).unwrap()
    };
    (0..count).map(offset).collect()
}

/// Conversions from f32 to the inputs' elements, and from the result's elements.
struct Conversions<X, Y, Z, U> {
    x: fn(f32) -> X,
    y: fn(f32) -> Y,
    z: fn(f32) -> Z,
    out: fn(U) -> f32,
}

/// Runs `sums` on small integers, which are exact, and returns the launches.
fn check<X, Y, Z, U>(
    kernel: moye_device::kernel::Kernel<(Global<X>, Global<Y>, Global<Z>, GlobalMut<U>, MapModes<3>)>,
    shape: &[usize],
    operands: [Operand<'_>; 4],
    of: Conversions<X, Y, Z, U>,
) -> Vec<MapLaunch<3>>
where
    X: Element + moye_sim::Pod,
    Y: Element + moye_sim::Pod,
    Z: Element + moye_sim::Pod,
    U: Element + moye_sim::Pod,
{
    let memory = GlobalMemory::new();
    let places = operands.map(|(strides, first)| {
        offsets(shape, strides).into_iter().map(|offset| first + offset).collect::<Vec<_>>()
    });
    let room = places.each_ref().map(|places| places.iter().max().map_or(1, |max| max + 1));
    let value = |operand: usize, place: usize| ((place * 7 + operand * 3) % 11) as f32;
    let x = memory.upload(&(0..room[0]).map(|i| (of.x)(value(0, i))).collect::<Vec<_>>(), "x").unwrap();
    let y = memory.upload(&(0..room[1]).map(|i| (of.y)(value(1, i))).collect::<Vec<_>>(), "y").unwrap();
    let z = memory.upload(&(0..room[2]).map(|i| (of.z)(value(2, i))).collect::<Vec<_>>(), "z").unwrap();
    let out = memory.alloc(room[3] * U::BYTES, "out").unwrap();
    out.fill(0, room[3] * U::BYTES, 0).unwrap();
    let operand = |k: usize, address: u64, bytes: usize| MapOperand {
        address: address + (operands[k].1 * bytes) as u64,
        bytes,
        strides: operands[k].0,
    };
    let inputs = [
        operand(0, x.address(), X::BYTES),
        operand(1, y.address(), Y::BYTES),
        operand(2, z.address(), Z::BYTES),
    ];
    let launches = MapModes::launches(shape, inputs, operand(3, out.address(), U::BYTES));
    for launch in &launches {
        let [x, y, z] = launch.inputs;
        let arguments = (
            Global::from_address(x),
            Global::from_address(y),
            Global::from_address(z),
            GlobalMut::from_address(launch.out),
            launch.modes,
        );
        // SAFETY: the buffers have the elements of the modes.
        unsafe { kernel.simulate(&memory, launch.modes.blocks(), MAP_THREADS, arguments) }.unwrap();
    }
    let got = out.download::<U>();
    let mut expected = vec![0.0; room[3]];
    for i in 0..places[3].len() {
        expected[places[3][i]] =
            2.0 * value(0, places[0][i]) + value(1, places[1][i]) - value(2, places[2][i]);
    }
    for (place, (got, expected)) in got.into_iter().zip(expected).enumerate() {
        assert_eq!((of.out)(got), expected, "{shape:?} {operands:?}: element {place}");
    }
    launches
}

const MIXED: Conversions<bf16, f32, f16, f32> =
    Conversions { x: bf16::from_f32, y: |y| y, z: f16::from_f32, out: |out| out };
const NARROW: Conversions<bf16, bf16, bf16, bf16> =
    Conversions { x: bf16::from_f32, y: bf16::from_f32, z: bf16::from_f32, out: bf16::to_f32 };

#[test]
fn four_inputs_of_different_types_are_broadcast_to_the_result() {
    const ROWS: usize = 7;
    const COLUMNS: usize = 101;
    let (memory, value) = (GlobalMemory::new(), |i: usize| (i * 7 % 11) as f32);
    let values = |count: usize, from: usize| (from..from + count).map(value);
    // A matrix, a row, a column and one element.
    let a = memory.upload(&values(ROWS * COLUMNS, 0).map(bf16::from_f32).collect::<Vec<_>>(), "a").unwrap();
    let b = memory.upload(&values(COLUMNS, 1).collect::<Vec<_>>(), "b").unwrap();
    let c = memory.upload(&values(ROWS, 2).map(f16::from_f32).collect::<Vec<_>>(), "c").unwrap();
    let d = memory.upload(&[bf16::from_f32(3.0)], "d").unwrap();
    let out = memory.upload(&[f32::NAN; ROWS * COLUMNS], "out").unwrap();
    let operand = |address, bytes, strides| MapOperand { address, bytes, strides };
    let inputs = [
        operand(a.address(), 2, &[COLUMNS as i64, 1]),
        operand(b.address(), 4, &[0, 1]),
        operand(c.address(), 2, &[1, 0]),
        operand(d.address(), 2, &[0, 0]),
    ];
    let to = operand(out.address(), 4, &[COLUMNS as i64, 1]);
    for launch in MapModes::launches(&[ROWS, COLUMNS], inputs, to) {
        let [a, b, c, d] = launch.inputs;
        let (a, b) = (Global::from_address(a), Global::from_address(b));
        let (c, d) = (Global::from_address(c), Global::from_address(d));
        let arguments = (a, b, c, d, GlobalMut::from_address(launch.out), launch.modes);
        // SAFETY: the buffers have the elements of the modes.
        unsafe { products.simulate(&memory, launch.modes.blocks(), MAP_THREADS, arguments) }.unwrap();
    }
    let of = |i: usize| value(i) * value(1 + i % COLUMNS) + 3.0 * value(2 + i / COLUMNS);
    assert!(out.download::<f32>().into_iter().eq((0..ROWS * COLUMNS).map(of)));
}

#[test]
fn contiguous_operands_are_one_mode_of_vectors_with_a_ragged_end() {
    for count in [1, 8, 31, 4096, 4101, 10_000] {
        let operand = (&[100 * count as i64, count as i64, 1][..], 0);
        let launches = check(narrow, &[1, 1, count], [operand; 4], NARROW);
        let modes = launches[0].modes;
        let vector = if count == 1 || count == 31 { 1 } else { 8 };
        assert_eq!((launches.len(), modes.rank(), modes.vector()), (1, 1, vector));
    }
    let row_major = (&[1001, 1][..], 0);
    assert_eq!(check(mixed, &[7, 1001], [row_major; 4], MIXED)[0].modes.vector(), 4);
}

#[test]
fn rows_columns_and_numbers_are_broadcast() {
    let (whole, row, column, one) =
        ((&[104, 1][..], 0), (&[0, 1][..], 0), (&[1, 0][..], 3), (&[0, 0][..], 5));
    assert_eq!(check(narrow, &[9, 100], [whole, row, column, whole], NARROW)[0].modes.vector(), 8);
    assert_eq!(check(mixed, &[9, 100], [row, column, one, whole], MIXED)[0].modes.vector(), 4);
    check(mixed, &[3, 5], [row, column, one, (&[5, 1], 0)], MIXED);
}

#[test]
fn operands_that_allow_no_vectors_are_computed_by_elements() {
    let (rows, moved, columns) = ((&[64, 1][..], 0), (&[64, 1][..], 1), (&[1, 40][..], 0));
    for operands in
        [[moved, rows, rows, rows], [rows, rows, rows, moved], [rows, columns, rows, rows], [columns; 4]]
    {
        let launches = check(narrow, &[40, 64], operands, NARROW);
        let all_columns = operands[3].0 == columns.0;
        assert_eq!(launches[0].modes.vector(), if all_columns { 8 } else { 1 }, "{operands:?}");
    }
    check(mixed, &[3, 5, 7], [(&[1, 3, 15], 2), (&[35, 7, 1], 0), (&[0, 1, 0], 0), (&[70, 14, 2], 1)], MIXED);
}

#[test]
fn modes_that_no_stride_joins_are_divisions_or_launches() {
    let strides = &[5000, 900, 160, 30, 7, 2][..];
    let launches = check(mixed, &[2, 3, 2, 3, 2, 3], [(strides, 0); 4], MIXED);
    assert_eq!((launches.len(), launches[0].modes.rank()), (6, 4));
    // Modes of one element and joined modes do not count.
    let strides = &[600, 120, 99, 24, 1][..];
    let launches = check(narrow, &[2, 5, 1, 5, 24], [(strides, 0); 4], NARROW);
    assert_eq!((launches.len(), launches[0].modes.rank(), launches[0].modes.vector()), (1, 1, 8));
}

#[test]
fn more_elements_than_32_bits_number_are_several_launches() {
    let x = MapOperand { address: 4096, bytes: 2, strides: &[2] };
    let launches = MapModes::launches(&[10 << 30], [x], x);
    assert_eq!(launches.len(), 8);
    let mut address = 4096;
    for launch in launches {
        assert_eq!((launch.inputs[0], launch.out), (address, address));
        address += (10u64 << 30) / 8 * 4;
    }
    let x = MapOperand { strides: &[1], ..x };
    assert_eq!(MapModes::launches(&[10 << 30], [x], x).len(), 1);
}

#[test]
fn an_input_without_an_address_is_zeros_and_without_elements_nothing_is_launched() {
    let memory = GlobalMemory::new();
    let out = memory.upload(&[7; 100], "out").unwrap();
    let strides = &[1][..];
    let (left_out, result) = (
        MapOperand { address: 0, bytes: 4, strides },
        MapOperand { address: out.address(), bytes: 4, strides },
    );
    let launch = MapModes::launches(&[100], [left_out], result)[0];
    let arguments = (Global::from_address(0), GlobalMut::from_address(launch.out), launch.modes);
    // SAFETY: the buffer has 100 elements.
    unsafe { next.simulate(&memory, launch.modes.blocks(), MAP_THREADS, arguments) }.unwrap();
    assert_eq!(out.download::<i32>(), [1; 100]);
    assert!(
        MapModes::launches(&[3, 0], [], MapOperand { address: 0, bytes: 4, strides: &[0, 1] }).is_empty()
    );

    let launch = MapModes::launches(&[3, 33], [], MapOperand { strides: &[33, 1], ..result })[0];
    let arguments = (GlobalMut::from_address(launch.out), launch.modes, 2.5);
    // SAFETY: the buffer has 99 elements.
    unsafe { constant.simulate(&memory, launch.modes.blocks(), MAP_THREADS, arguments) }.unwrap();
    assert_eq!(out.download::<f32>()[..99], [2.5; 99]);
}

#[test]
fn a_pair_of_16_bit_elements_is_one_element_of_32() {
    let memory = GlobalMemory::new();
    let values: Vec<bf16> = (0..2 * 77).map(|i| bf16::from_f32((i % 13) as f32)).collect();
    let (x, out) = (memory.upload(&values, "x").unwrap(), memory.alloc(2 * 77, "out").unwrap());
    let operand = |address, bytes| MapOperand { address, bytes, strides: &[1] };
    let launch = MapModes::launches(&[77], [operand(x.address(), 4)], operand(out.address(), 2))[0];
    assert_eq!(launch.modes.vector(), 4);
    let arguments = (Global::from_address(x.address()), GlobalMut::from_address(out.address()), launch.modes);
    // SAFETY: the buffers have 77 pairs and elements.
    unsafe { of_pairs.simulate(&memory, launch.modes.blocks(), MAP_THREADS, arguments) }.unwrap();
    let expected: Vec<bf16> = values.chunks(2).map(|pair| pair[0] + pair[1]).collect();
    assert_eq!(out.download::<bf16>(), expected);
}

#[test]
fn fast_divmod_is_exact_below_2_to_31() {
    let divisors = [1, 2, 3, 5, 7, 641, 65_535, 65_537, (1 << 30) + 1, (1 << 31) - 1, 1 << 31];
    for divisor in divisors {
        let by = FastDivmod::new(divisor);
        let near = (0..8).flat_map(|k| {
            let multiple = (((1u64 << 31) - 1) * k / 7 / u64::from(divisor) * u64::from(divisor)) as u32;
            [multiple.saturating_sub(1), multiple, multiple + 1]
        });
        for n in near.filter(|&n| n < 1 << 31).chain([(1 << 31) - 1]) {
            assert_eq!(by.divide(n), (n / divisor, n % divisor), "{n} / {divisor}");
        }
    }
}
