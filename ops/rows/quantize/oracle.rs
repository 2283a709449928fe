//! Quantisation. Scales and the rounded products are f32.

use crate::code::{Code, scale_of};
use crate::prelude::*;
use crate::tiles::{each_tile, tile_of};

/// The 8-bit elements, the scales, and the elements of the transposes.
pub fn reference(inputs: &Inputs, options: &Options) -> Vec<Vec<f64>> {
    let (ty, x) = input(inputs, 0);
    let tile = tile_of("quantize", options).expect("the case has a tile");
    let code = Code::of(options.dtype("dtype"));
    let (mut q, mut scales) = (vec![0.0; x.len()], Vec::new());
    each_tile(&ty.shape, tile, |places| {
        let amax = places.iter().fold(0.0f32, |amax, &place| amax.max((x[place] as f32).abs()));
        let (scale, inverse) = scale_of(code as u32, amax);
        scales.push(scale.into());
        for &place in places {
            q[place] = code.nearest(x[place] as f32 * inverse);
        }
    });
    let columns = ty.shape.last().copied().unwrap_or(1);
    let rows = ty.shape.len().checked_sub(2).map_or(1, |mode| ty.shape[mode]);
    let transposed = (0..q.len()).map(|place| {
        let (matrix, rest) = (place / (rows * columns), place % (rows * columns));
        q[matrix * rows * columns + rest % rows * columns + rest / rows]
    });
    let transposed = transposed.collect();
    vec![q, scales, transposed]
}

/// 0: elements and scales are computed as in the kernel.
pub const TOLERANCE: fn(Dtype) -> f64 = |_| 0.0;
