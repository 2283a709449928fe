//! Quantisation and its inverse. Scales are f32, and so is the product that is rounded.

use super::call::{TileOf, tile_of, tile_of_scales};
use super::kernel::{Code, LEAST};
use moye::number::{F8E4M3, F8E5M2, Scalar as _};
use moye::operation::{ArrayType, Dtype, Options};

/// Calls `with` with the places of each tile's elements, in the order of the scales.
fn each_tile(shape: &[usize], (rows, columns): TileOf, mut with: impl FnMut(&[usize])) {
    let n = shape[shape.len() - 1];
    let m = if shape.len() > 1 { shape[shape.len() - 2] } else { 1 };
    let all: usize = shape.iter().product();
    if all == 0 {
        return;
    }
    let Some(rows) = rows else { return with(&(0..all).collect::<Vec<_>>()) };
    let columns = columns.unwrap_or(n);
    for matrix in 0..all / (m * n) {
        for (row, column) in
            (0..m).step_by(rows).flat_map(|row| (0..n).step_by(columns).map(move |column| (row, column)))
        {
            let of_row =
                |row| (column..n.min(column + columns)).map(move |column| (matrix * m + row) * n + column);
            with(&(row..m.min(row + rows)).flat_map(of_row).collect::<Vec<_>>());
        }
    }
}

/// The 8-bit elements and the scales.
pub fn quantize(inputs: &[Option<(ArrayType, Vec<f64>)>], options: &Options) -> Vec<Vec<f64>> {
    let (ty, x) = inputs[0].as_ref().expect("x is not optional");
    let tile = tile_of("quantize", options).expect("the case has a tile");
    let (limit, nearest): (_, fn(f32) -> f64) = match options.dtype("dtype") {
        Dtype::I8 => (Code::I8.greatest(), |x| x.round_ties_even().clamp(-128.0, 127.0).into()),
        Dtype::E4m3 => (Code::E4m3.greatest(), |x| F8E4M3::from_f32(x).to_f64()),
        _ => (Code::E5m2.greatest(), |x| F8E5M2::from_f32(x).to_f64()),
    };
    let (mut q, mut scales) = (vec![0.0; x.len()], Vec::new());
    each_tile(&ty.shape, tile, |places| {
        let amax = places.iter().fold(0.0f32, |amax, &place| amax.max((x[place] as f32).abs()));
        let (scale, inverse) = if amax < LEAST { (1.0, 1.0) } else { (amax / limit, limit / amax) };
        scales.push(scale.into());
        for &place in places {
            q[place] = nearest(x[place] as f32 * inverse);
        }
    });
    vec![q, scales]
}

/// The floats.
pub fn dequantize(inputs: &[Option<(ArrayType, Vec<f64>)>], _: &Options) -> Vec<Vec<f64>> {
    let [(ty, q), (of, scales)] = [0, 1].map(|i| inputs[i].as_ref().expect("it is not optional"));
    let tile = tile_of_scales("dequantize", &ty.shape, &of.shape).expect("the case has scales");
    let (mut y, mut next) = (vec![0.0; q.len()], scales.iter());
    each_tile(&ty.shape, tile, |places| {
        let scale = next.next().expect("a scale for each tile");
        for &place in places {
            y[place] = q[place] * scale;
        }
    });
    vec![y]
}

/// None of quantised elements and scales, which are computed alike; of floats that of their type.
pub fn tolerance(dtype: Dtype) -> f64 {
    crate::rounding(dtype)
}
