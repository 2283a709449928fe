//! Builds the launches of a call.

use super::kernel::{Rule, SampleKernels, THREADS};
use crate::prelude::*;

pub const NAME: &str = "sample";

/// Draws from rows of logits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Sample {
    /// x, seeds, indices, and the row numbers, which have only strides.
    of: Along<4>,
    /// Whether indices are i64.
    wide: bool,
    rule: Rule,
}

impl Launch for Sample {
    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    unsafe fn launch(&self, to: To<'_>) -> Result<()> {
        let Self { of: Along { dtype, rows, groups, columns: n, arrays }, wide, rule } = *self;
        let ([x, seeds, indices, numbers], grid) = (arrays, Grid::new((rows, groups), THREADS).dependent());
        // SAFETY: the arrays hold the rows, which have an element.
        of_floats!(NAME, dtype, T => unsafe { to.launch(&T::KERNELS[0], grid, (
            x.read(), seeds.read(), indices.write(), wide, n,
            x.place, seeds.place, indices.place, numbers.place, rule,
        )) })
    }
}

/// The longest row: the kernel adds weights of at most 2^40 in 64 bits.
const MOST: usize = 1 << 23;

/// The factor of the logits, 0 for the first greatest one. Temperatures below 1e-36 count as 0, and
/// those above 1e35 as 1e35: the kernel's factors of exponents and their inverses are finite.
fn factor(temperature: f32) -> f32 {
    if temperature < 1e-36 { 0.0 } else { 1.0 / temperature.min(1e35) }
}

/// The options as the kernel has them.
pub fn rule(options: &Options) -> Result<Rule> {
    let [temperature, top_p, min_p] =
        ["temperature", "top_p", "min_p"].map(|name| options.float(name) as f32);
    let top_k = u32::try_from(options.int("top_k"));
    let refuse = |detail: String| unsupported(NAME, detail);
    if !(temperature >= 0.0 && temperature.is_finite()) {
        return refuse(format!("temperature is {temperature}, and must be 0 or more"));
    }
    for (name, p) in [("top_p", top_p), ("min_p", min_p)] {
        if !(0.0..=1.0).contains(&p) {
            return refuse(format!("{name} is {p}, and must be from 0 to 1"));
        }
    }
    let Ok(top_k) = top_k else {
        return refuse(format!("top_k is {}, and must be 0 (all) or more", options.int("top_k")));
    };
    let factor = factor(temperature);
    let [factor, top_p, min_p] = [factor, top_p, min_p].map(f32::to_bits);
    Ok(Rule { factor, top_k, top_p, min_p, seed: options.int("seed").cast_unsigned() })
}

/// Element type and shape of the indices.
pub fn results(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let mut shape = given(inputs, 0).shape.clone();
    rule(options)?;
    match shape.pop() {
        Some(1..=MOST) => {}
        Some(n @ 1..) => {
            return unsupported(NAME, format!("rows have {n} elements, and may have {MOST}; split them"));
        }
        n => {
            return unsupported(
                NAME,
                format!("rows have {} elements; a draw needs at least one", n.unwrap_or(0)),
            );
        }
    }
    if let Some(seeds) = &inputs[1]
        && seeds.shape != shape
    {
        let detail = format!("seeds have shape {:?}, and must have {shape:?}: one for each row", seeds.shape);
        return mismatch(NAME, detail);
    }
    let dtype = if options.bool("int32") { Dtype::I32 } else { Dtype::I64 };
    Ok(vec![ArrayType { dtype, shape }])
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn compute(on: &On<'_>, call: &Call<'_>) -> Result<()> {
    let (x, seeds, indices) = (call.operand(0), call.operands[1].as_ref(), call.operand(2));
    if x.elements() == 0 {
        return Ok(());
    }
    let numbers = Array::row_major(&indices.ty(), 0);
    let of = Along::new(NAME, [Some(x), seeds, Some(indices), Some(&numbers)], x.axis(NAME, -1)?)?;
    let sample = Sample { of, wide: indices.dtype == Dtype::I64, rule: rule(call.options)? };
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { on.launch(&sample) }
}

#[cfg(test)]
mod tests {
    use super::{ArrayType, Dtype, MOST, Options};

    #[test]
    fn rows_whose_weights_do_not_fit_into_64_bits_are_refused_with_the_limit() {
        let options = Options::of(&super::super::SAMPLE);
        let of = |n: usize| {
            let x = ArrayType { dtype: Dtype::Bf16, shape: vec![1, n] };
            super::results(&[Some(x), None], &options).map_err(|error| error.to_string())
        };
        assert!(of(MOST).is_ok());
        let refused = of(MOST + 1).unwrap_err();
        assert!(refused.contains("8388609 elements") && refused.contains("8388608"), "{refused}");
    }

    #[test]
    fn factors_of_exponents_and_the_width_of_all_bins_are_finite_at_every_temperature() {
        use super::super::kernel::Scale;
        assert_eq!([0.0, 1e-45, 1e-39, 9e-37].map(super::factor), [0.0; 4]);
        assert_eq!(
            [1e-35f32, 0.5, 1.0, 1e30].map(super::factor),
            [1e-35f32, 0.5, 1.0, 1e30].map(|t| 1.0 / t)
        );
        for temperature in [1e-36, 1e-30, 1.0, 1e35, f32::MAX] {
            let scale = Scale::new(0.0, super::factor(temperature));
            let lowest = scale.below(2040.0);
            assert!(lowest < 0.0 && lowest.is_finite(), "{temperature}: {lowest}");
            assert_eq!(scale.place(lowest).0, 2040, "{temperature}");
            assert_eq!(scale.place(0.0), (0, 0.0), "{temperature}");
        }
    }
}
