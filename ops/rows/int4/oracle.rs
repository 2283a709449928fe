//! 4-bit groups. Scales, minima and the products that are rounded are f32, as in the kernel.

use super::call::{Kind, group};
use super::kernel::LEAST;
use crate::prelude::*;
use half::f16;

/// The bytes, the scales, and the minima; or the floats.
pub fn reference(kind: Kind, inputs: &Inputs, options: &Options) -> Vec<Vec<f64>> {
    let (ty, given) = input(inputs, 0);
    let (columns, others) = ty.shape.split_last().expect("the case has a mode");
    let rows: usize = others.iter().product();
    let columns = if kind == Kind::Back { 2 * columns } else { *columns };
    let size = group("int4", options).expect("the case has a group");
    // The places of each group's elements.
    let groups = (0..rows).flat_map(move |row| {
        let row = row * columns;
        (0..columns).step_by(size).map(move |column| row + column..row + columns.min(column + size))
    });
    if kind == Kind::Back {
        let ((_, scales), minima) = (input(inputs, 1), elements(inputs, 2));
        let mut y = vec![0.0; 2 * given.len()];
        for (places, number) in groups.zip(0..) {
            let minimum = minima.map_or(-8.0 * scales[number], |minima| minima[number]);
            for place in places {
                let byte = given[place / 2];
                let code = if place % 2 == 0 { byte % 16.0 } else { (byte / 16.0).floor() };
                y[place] = code * scales[number] + minimum;
            }
        }
        return vec![y];
    }
    let stored = |value: f32| match options.dtype("scale_dtype") {
        Dtype::F16 => f16::from_f32(value).to_f32(),
        _ => value,
    };
    let (mut codes, mut scales, mut minima) = (vec![0.0; given.len()], Vec::new(), Vec::new());
    for places in groups {
        let values = places.clone().map(|place| given[place] as f32);
        let (low, high) =
            values.clone().fold((f32::MAX, f32::MIN), |(low, high), x| (low.min(x), high.max(x)));
        let (scale, minimum, zero) = match kind {
            Kind::Minima => ((high - low) / 15.0, stored(low), 0.0),
            _ => (high.max(-low) / 7.0, 0.0, 8.0),
        };
        let scale = stored(scale);
        let inverse = if scale < LEAST { 0.0 } else { 1.0 / scale };
        for (place, x) in places.zip(values) {
            codes[place] = f64::from((((x - minimum) * inverse).round_ties_even() + zero).clamp(0.0, 15.0));
        }
        scales.push(f64::from(scale));
        minima.push(f64::from(minimum));
    }
    vec![codes.chunks(2).map(|pair| pair[0] + 16.0 * pair[1]).collect(), scales, minima]
}

/// 0 for bytes, scales and minima, which are computed the same way; the rounding of their type for
/// floats.
pub const TOLERANCE: fn(Dtype) -> f64 = |dtype| rounding(dtype);
