//! Reductions in float64.

use super::call::Kind;
use moye::operation::{ArrayType, Dtype, Options};

/// The result of row-major elements, without the axis of the options.
pub fn reduce(kind: Kind, inputs: &[Option<(ArrayType, Vec<f64>)>], options: &Options) -> Vec<Vec<f64>> {
    let (ty, x) = inputs[0].as_ref().expect("x is not optional");
    let of = |row: &[f64]| {
        let count = row.len() as f64;
        let sum: f64 = row.iter().sum();
        let greatest = |sign: f64| row.iter().map(|x| x * sign).fold(f64::NEG_INFINITY, f64::max);
        let place = |sign: f64| {
            let max = greatest(sign);
            row.iter().position(|x| x * sign == max).map_or(f64::NAN, |place| place as f64)
        };
        match kind {
            Kind::Sum => sum,
            Kind::Mean => sum / count,
            Kind::Norm => row.iter().map(|x| x * x).sum::<f64>().sqrt(),
            Kind::Max => greatest(1.0),
            Kind::Min => -greatest(-1.0),
            Kind::LogSumExp => {
                let max = greatest(1.0).max(f64::MIN);
                max + row.iter().map(|x| (x - max).exp()).sum::<f64>().ln()
            }
            Kind::Var => {
                let squares: f64 = row.iter().map(|x| (x - sum / count).powi(2)).sum();
                squares / (count - options.int("correction") as f64).max(0.0)
            }
            Kind::ArgMax => place(1.0),
            Kind::ArgMin => place(-1.0),
        }
    };
    let mut y = Vec::new();
    match options.axis("axis") {
        Some(axis) => crate::each_row(&ty.shape, axis, |row| {
            y.push(of(&row.iter().map(|&place| x[place]).collect::<Vec<_>>()));
        }),
        None => y.push(of(x)),
    }
    vec![y]
}

/// Half a unit of the last place of the result's type, and sums of f32.
pub fn tolerance(dtype: Dtype) -> f64 {
    crate::rounding(dtype).max(4e-6)
}
