//! Dequantisation in float64.

use super::call::tile_of_scales;
use crate::tiles::each_tile;
use moye::operation::{ArrayType, Dtype, Options};

/// The floats.
pub fn dequantize(inputs: &[Option<(ArrayType, Vec<f64>)>], _: &Options) -> Vec<Vec<f64>> {
    let [(ty, q), (of, scales)] = [0, 1].map(|i| inputs[i].as_ref().expect("it is not optional"));
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
pub fn tolerance(dtype: Dtype) -> f64 {
    crate::rounding(dtype)
}
