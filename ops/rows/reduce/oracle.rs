//! Reductions in float64.

use super::call::Kind;
use crate::prelude::*;

/// The result of row-major elements, without the axes of the options.
pub fn reference(kind: Kind, inputs: &Inputs, options: &Options) -> Vec<Vec<f64>> {
    let (ty, x) = input(inputs, 0);
    let of = |row: &[f64]| {
        let count = row.len() as f64;
        let sum: f64 = row.iter().sum();
        // NaN if an element is.
        let greater = |max: f64, x: f64| if x.is_nan() || x > max { x } else { max };
        let greatest = |sign: f64| row.iter().map(|x| x * sign).fold(f64::NEG_INFINITY, greater);
        let place = |sign: f64| {
            let max = greatest(sign);
            let is_it = |x: &f64| x * sign == max || x.is_nan();
            row.iter().position(is_it).map_or(f64::NAN, |place| place as f64)
        };
        match kind {
            Kind::Sum => sum,
            Kind::Mean => sum / count,
            Kind::Norm => row.iter().map(|x| x * x).sum::<f64>().sqrt(),
            Kind::Max => greatest(1.0),
            Kind::Min => -greatest(-1.0),
            Kind::LogSumExp => match greatest(1.0) {
                max if max.is_infinite() => max,
                max => max + row.iter().map(|x| (x - max).exp()).sum::<f64>().ln(),
            },
            Kind::Var => {
                let squares: f64 = row.iter().map(|x| (x - sum / count).powi(2)).sum();
                squares / (count - options.int("correction") as f64).max(0.0)
            }
            Kind::ArgMax => place(1.0),
            Kind::ArgMin => place(-1.0),
        }
    };
    let array = Array::row_major(ty, 0);
    let reduced = array.axes("reduce", options.axes("axis")).expect("the results have a type");
    let is_kept = |mode: usize| reduced.as_ref().is_some_and(|axes| !axes.contains(&mode));
    let kept: Vec<usize> = (0..ty.shape.len()).filter(|&mode| is_kept(mode)).collect();
    let mut rows = vec![Vec::new(); kept.iter().map(|&mode| ty.shape[mode]).product()];
    for (place, &x) in x.iter().enumerate() {
        let index = |mode: usize| place / array.strides[mode] as usize % ty.shape[mode];
        rows[kept.iter().fold(0, |row, &mode| row * ty.shape[mode] + index(mode))].push(x);
    }
    vec![rows.iter().map(|row| of(row)).collect()]
}

/// Half a unit of the last place of the result's type, and sums of f32.
pub const TOLERANCE: fn(Dtype) -> f64 = |dtype| rounding(dtype).max(4e-6);
