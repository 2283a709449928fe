//! Rotations in float64.

use crate::prelude::*;

/// The heads of x, rotated.
pub fn reference(inputs: &Inputs, options: &Options) -> Vec<Vec<f64>> {
    let (ty, x) = input(inputs, 0);
    let (rank, elements) = (ty.shape.len(), ty.shape[ty.shape.len() - 1]);
    let token = (rank as i64 + options.int("axis")) as usize;
    let heads = if rank == 2 { 1 } else { ty.shape[(2 * rank - 5) - token] };
    let tokens = ty.shape[token];
    let rotary = match options.int("rotary") {
        0 => elements,
        rotary => rotary as usize,
    };
    let half = rotary / 2;
    let sign = if options.bool("inverse") { -1.0 } else { 1.0 };
    let mut y = x.clone();
    for row in 0..x.len().checked_div(elements).unwrap_or(0) {
        let in_batch = row % (tokens * heads);
        let number = if options.int("axis") == -3 { in_batch / heads } else { in_batch % tokens };
        let batch = row / (tokens * heads);
        let position = inputs[1].as_ref().map_or(number as f64, |(ty, positions)| {
            // Broadcast along batches, unless it has them.
            positions[if ty.shape.len() == 1 { number } else { batch * tokens + number }]
        });
        for pair in 0..half {
            let (cos, sin) = match [2, 3].map(|table| inputs[table].as_ref()) {
                [Some((_, cos)), Some((_, sin))] => {
                    let at = position as usize * half + pair;
                    (cos[at], sin[at])
                }
                _ => {
                    let angle = position * options.float("base").powf(-2.0 * pair as f64 / rotary as f64);
                    (angle.cos(), angle.sin())
                }
            };
            let (a, b) =
                if options.bool("interleaved") { (2 * pair, 2 * pair + 1) } else { (pair, half + pair) };
            let (at, bt) = (row * elements + a, row * elements + b);
            y[at] = x[at] * cos - x[bt] * sin * sign;
            y[bt] = x[bt] * cos + x[at] * sin * sign;
        }
    }
    vec![y]
}

/// Half a unit of the last place of the result's type, and the error of an angle in f32.
pub const TOLERANCE: fn(Dtype) -> f64 = |dtype| rounding(dtype).max(5e-7);
