//! Histograms: the bin of a value is that of f32, as in the kernel.

use super::call::range;
use super::kernel::Bins;
use crate::prelude::*;

/// The counts.
pub fn reference(integers: bool, inputs: &Inputs, options: &Options) -> Vec<Vec<f64>> {
    let (_, x) = input(inputs, 0);
    let (range, count) =
        (range("histogram", integers, options).expect("the case has a range"), options.int("bins") as u32);
    let mut counts = vec![0.0; count as usize];
    for &x in x {
        let bin = if integers && x < 0.0 { u32::MAX } else { Bins::new(range, count).of(x as f32) };
        if bin < count && !(integers && x >= f64::from(count)) {
            counts[bin as usize] += 1.0;
        }
    }
    vec![counts]
}

/// None: counts are exact.
pub const TOLERANCE: fn(Dtype) -> f64 = |_| 0.0;
