//! Histograms: the bin of a value is that of f32, as in the kernel.

use super::call::range;
use super::kernel::Bins;
use moye::operation::{ArrayType, Dtype, Options};

/// The counts.
pub fn histogram(
    name: &'static str,
    inputs: &[Option<(ArrayType, Vec<f64>)>],
    options: &Options,
) -> Vec<Vec<f64>> {
    let (_, x) = inputs[0].as_ref().expect("x is not optional");
    let (range, count) = (range(name, options).expect("the case has a range"), options.int("bins") as u32);
    let mut counts = vec![0.0; count as usize];
    for &x in x {
        let bin = if name == "bincount" && x < 0.0 { u32::MAX } else { Bins::new(range, count).of(x as f32) };
        if bin < count && !(name == "bincount" && x >= f64::from(count)) {
            counts[bin as usize] += 1.0;
        }
    }
    vec![counts]
}

/// None: counts are exact.
pub fn tolerance(_: Dtype) -> f64 {
    0.0
}
