//! Products by quantised weights in float64, of codes in the kernels' order.

use super::cases;
use super::codes::{Code, CodePlace, E4m3, ROWS};
use crate::bounds;
use moye_device::number::{F8E4M3, U4};
use moye_runtime::operation::{ArrayType, Dtype, Options};

type Inputs<'a> = &'a [Option<(ArrayType, Vec<f64>)>];

/// The weights `(n, k)` of packed codes and factors, the inputs from `first` on.
fn weights(inputs: Inputs<'_>, first: usize, k: usize, options: &Options) -> (usize, Vec<f64>) {
    let [(of_codes, codes), (of_factors, factors)] =
        [first, first + 1].map(|index| inputs[index].as_ref().expect("it is not optional"));
    let (tiles, groups, parts) = (of_codes.shape[0], of_factors.shape[1], of_factors.shape[3]);
    let n = if options.int("rows") == 0 { tiles * ROWS as usize } else { options.int("rows") as usize };
    let mut weights = vec![0.0; n * k];
    let mut put = |step: usize, tile: usize, place: CodePlace, step_size: u32, code: u32| {
        let (row, column) =
            (tile * ROWS as usize + place.row as usize, step * step_size as usize + place.k as usize);
        if row < n && column < k {
            let factor = |part: usize| {
                let group = column / (k / groups);
                let at = ((tile * groups + group) * 8 + row % 8) * parts + part * 2 + row % 16 / 8;
                factors[at]
            };
            weights[row * k + column] = match (options.bool("e4m3"), parts) {
                (true, _) => value(code) * factor(0),
                (false, 4) => f64::from(code) * factor(0) + factor(1),
                (false, _) => (f64::from(code) - options.int("offset") as f64) * factor(0),
            };
        }
    };
    for (lane, bytes) in codes.chunks(16).enumerate() {
        let (tile, step, lane) =
            (lane / 32 / of_codes.shape[1], lane / 32 % of_codes.shape[1], lane as u32 % 32);
        let mut all = u128::from_le_bytes(std::array::from_fn(|i| bytes[i] as u8));
        if options.bool("e4m3") {
            all = ordered(all);
        }
        macro_rules! each {
            ($code:ty) => {
                for (eight, register, value) in
                    (0..2 * <$code>::MMAS).flat_map(|eight| (0..8).map(move |i| (eight, i / 2, i % 2)))
                {
                    let unit = eight / <$code>::MMAS;
                    let mma = eight - unit * <$code>::MMAS;
                    let place = CodePlace::of::<$code>(lane, unit, mma, register, value);
                    let bit = (8 * eight + <$code>::place(register, value)) * <$code>::BITS;
                    let code = (all >> bit) as u32 & ((1 << <$code>::BITS) - 1);
                    put(step, tile, place, <$code>::STEP, code);
                }
            };
        }
        match (options.int("bits"), options.bool("e4m3")) {
            (4, _) => each!(U4),
            (_, false) => each!(u8),
            (_, true) => each!(E4m3),
        }
    }
    (n, weights)
}

/// The bytes of codes of e4m3 from their order in memory: the inverse of [`Code::stored`].
fn ordered(words: u128) -> u128 {
    (0..8).fold(0, |all, i| {
        let half = (words >> (16 * i)) as u16;
        let bytes = half & 0x807F | half << 1 & 0x7F00 | half >> 7 & 0x0080;
        all | u128::from(bytes) << (16 * i)
    })
}

/// The value of an e4m3 code: 480 for the bits of NaN.
fn value(code: u32) -> f64 {
    match code {
        0x7F => 480.0,
        0xFF => -480.0,
        _ => F8E4M3::from_bits(code as u8).to_f32().into(),
    }
}

/// The product.
pub fn product(inputs: Inputs<'_>, options: &Options) -> Vec<Vec<f64>> {
    let (ty, x) = inputs[0].as_ref().expect("x is not optional");
    let k = *ty.shape.last().expect("x has a mode");
    let (n, weights) = weights(inputs, 1, k, options);
    let mut x = x.clone();
    if let Some((_, norm)) = &inputs[4] {
        for row in x.chunks_mut(k) {
            let square = row.iter().map(|x| x * x).sum::<f64>() / k as f64;
            let scale = 1.0 / (square + options.float("eps")).sqrt();
            row.iter_mut().zip(norm).for_each(|(x, norm)| *x *= scale * norm);
        }
    }
    let dot = |row: &[f64], w: &[f64]| row.iter().zip(w).map(|(x, w)| x * w).sum::<f64>();
    let dot = |row: &[f64], i: usize| dot(row, &weights[i * k..][..k]);
    let of_row = |row: &[f64]| -> Vec<f64> {
        if !options.bool("gated") {
            return (0..n).map(|i| dot(row, i)).collect();
        }
        // Eight gates, then eight ups.
        let silu = |x: f64| x / (1.0 + (-x).exp());
        (0..n / 2).map(|i| silu(dot(row, i / 8 * 16 + i % 8)) * dot(row, i / 8 * 16 + 8 + i % 8)).collect()
    };
    let mut y: Vec<f64> = x.chunks(k).flat_map(of_row).collect();
    if let Some((_, residual)) = &inputs[3] {
        y.iter_mut().zip(residual).for_each(|(y, residual)| *y += residual);
    }
    vec![y]
}

/// The product by activations of 8 bits.
pub fn product_8(inputs: Inputs<'_>, options: &Options) -> Vec<Vec<f64>> {
    let [(of_x, x), (_, scales)] = [0, 1].map(|i| inputs[i].as_ref().expect("it is not optional"));
    let k = of_x.shape[1].max(1);
    let scaled = x.iter().enumerate().map(|(i, x)| x * scales[i / k]).collect();
    let x = Some((of_x.clone(), scaled));
    product(&[x, inputs[2].clone(), inputs[3].clone(), None, None], options)
}

/// The weights.
pub fn unpacked(inputs: Inputs<'_>, options: &Options) -> Vec<Vec<f64>> {
    let ty = &inputs[0].as_ref().expect("codes are not optional").0;
    let whole = ty.shape[1] * 512 / 16 * 8 / options.int("bits") as usize;
    let k = if options.int("columns") > 0 { options.int("columns") as usize } else { whole };
    vec![weights(inputs, 0, k, options).1]
}

/// Rounding of weights, gates, ups, the result and sums.
pub fn tolerance(dtype: Dtype) -> f64 {
    let k = bounds::most([cases::CASES, cases::BENCH], |shape| shape.last());
    bounds::roundings(dtype, 4) + bounds::sums(k)
}
