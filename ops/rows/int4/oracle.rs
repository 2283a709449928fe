//! 4-bit groups. Scales, minima and the products that are rounded are f32, as in the kernel.

use super::call::group;
use super::kernel::LEAST;
use half::f16;
use moye::operation::{ArrayType, Dtype, Options};

/// Calls `with` with the places of each group's elements.
fn each_group(columns: usize, rows: usize, group: usize, mut with: impl FnMut(std::ops::Range<usize>)) {
    for (row, column) in
        (0..rows).flat_map(|row| (0..columns).step_by(group).map(move |column| (row, column)))
    {
        with(row * columns + column..row * columns + columns.min(column + group));
    }
}

/// Columns of an array, and its rows.
fn extents(shape: &[usize]) -> (usize, usize) {
    let (columns, others) = shape.split_last().expect("the case has a mode");
    (*columns, others.iter().product())
}

/// The bytes, the scales, and the minima.
pub fn quantize(
    inputs: &[Option<(ArrayType, Vec<f64>)>],
    options: &Options,
    has_minima: bool,
) -> Vec<Vec<f64>> {
    let (ty, x) = inputs[0].as_ref().expect("x is not optional");
    let (columns, rows) = extents(&ty.shape);
    let stored = |value: f32| match options.dtype("scale_dtype") {
        Dtype::F16 => f16::from_f32(value).to_f32(),
        _ => value,
    };
    let (mut codes, mut scales, mut minima) = (vec![0.0; x.len()], Vec::new(), Vec::new());
    each_group(columns, rows, group("int4", options).expect("the case has a group"), |places| {
        let values = places.clone().map(|place| x[place] as f32);
        let (low, high) =
            values.clone().fold((f32::MAX, f32::MIN), |(low, high), x| (low.min(x), high.max(x)));
        let (scale, minimum, zero) = if has_minima {
            ((high - low) / 15.0, stored(low), 0.0)
        } else {
            (high.max(-low) / 7.0, 0.0, 8.0)
        };
        let scale = stored(scale);
        let inverse = if scale < LEAST { 0.0 } else { 1.0 / scale };
        for (place, x) in places.zip(values) {
            codes[place] = f64::from((((x - minimum) * inverse).round_ties_even() + zero).clamp(0.0, 15.0));
        }
        scales.push(f64::from(scale));
        minima.push(f64::from(minimum));
    });
    vec![codes.chunks(2).map(|pair| pair[0] + 16.0 * pair[1]).collect(), scales, minima]
}

/// The floats.
pub fn dequantize(inputs: &[Option<(ArrayType, Vec<f64>)>], options: &Options) -> Vec<Vec<f64>> {
    let [(ty, q), (_, scales)] = [0, 1].map(|i| inputs[i].as_ref().expect("it is not optional"));
    let minima = inputs[2].as_ref().map(|(_, minima)| minima);
    let (bytes, rows) = extents(&ty.shape);
    let (mut y, mut next) = (vec![0.0; 2 * q.len()], 0);
    each_group(2 * bytes, rows, group("int4", options).expect("the case has a group"), |places| {
        let minimum = minima.map_or(-8.0 * scales[next], |minima| minima[next]);
        for place in places {
            let code = if place % 2 == 0 { q[place / 2] % 16.0 } else { (q[place / 2] / 16.0).floor() };
            y[place] = code * scales[next] + minimum;
        }
        next += 1;
    });
    vec![y]
}

/// None of bytes, scales and minima, which are computed alike; of floats that of their type.
pub fn tolerance(dtype: Dtype) -> f64 {
    crate::rounding(dtype)
}
