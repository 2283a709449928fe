//! Dequantisation in float64.

use super::call::tile_of_scales;
use crate::prelude::*;
use crate::tiles::each_tile;

/// The floats.
pub fn reference(inputs: &Inputs, _: &Options) -> Vec<Vec<f64>> {
    let ((ty, q), (of, scales)) = (input(inputs, 0), input(inputs, 1));
    let tile = tile_of_scales(&ty.shape, &of.shape).expect("the case has scales");
    let (mut y, mut next) = (vec![0.0; q.len()], scales.iter());
    each_tile(&ty.shape, tile, |places| {
        let scale = next.next().expect("a scale for each tile");
        for &place in places {
            y[place] = q[place] * scale;
        }
    });
    vec![y]
}

/// Half a unit of the last place of the result's type.
pub const TOLERANCE: fn(Dtype) -> f64 = |dtype| rounding(dtype);
