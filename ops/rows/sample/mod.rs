//! Sampling from logits: the index of an element of each row, drawn with the probabilities of the
//! softmax of the row divided by the temperature, from the elements that top-k, min-p and top-p
//! leave, in this order. At temperature 0 it is the first of the greatest elements.
//!
//! Elements are f32, f16 or bf16. A filter keeps all of several equal elements, or none of them.
//! The draw depends only on the seed, the row's index, and its elements. NaN and minus infinity are
//! drawn only from rows that have nothing else, and so are finite elements beside infinity.
//!
//! An element is drawn in two steps, which together have the probabilities of the softmax: first a
//! bin of 1/51 of an octave of probability, then an element of it. The weights of elements are
//! integers, so that their sums are the same in any order, and within 2^-17 of the exact ones.
//! Elements whose probability is below 2^-40 of the greatest are not drawn.

mod call;
mod cases;
pub mod kernel;
mod oracle;

use crate::prelude::*;
use call::NAME;
use kernel::SampleKernels;

declare! {
    /// Sampling from logits.
    pub static SAMPLE = {
        name: NAME,
        summary: "the index of an element of each row of logits, drawn with the probabilities of their softmax",
        operands: &[
            OperandOf::new(Role::Input, "x", "logits: float32, float16 or bfloat16, of any shape and strides")
                .finite("logits with an infinity have no probabilities"),
            OperandOf::new(Role::Optional, "seeds",
                "int64, one for each row, added to seed: the draw of a row depends on its own, not on its number")
                .of(&[Dtype::I64]),
            OperandOf::new(Role::Result, "out", "the indices, int64 or int32, of x's shape without the last axis")
                .of(Dtype::INTEGERS),
        ],
        options: &[
            option("temperature", "divides the logits; 0 for the first greatest one", Value::Float(1.0)),
            option("top_k", "how many of the greatest are left; 0 for all", Value::Int(0)),
            option("top_p", "the probability of the greatest ones that are left", Value::Float(1.0)),
            option("min_p", "the least probability that is left, relative to the greatest", Value::Float(0.0)),
            option("seed", "the seed of the random numbers", Value::Int(0)),
            option("int32", "indices are int32 instead of int64", Value::Bool(false)),
        ],
        cases: cases::CASES,
        bench: cases::BENCH,
    };
}

/// Sampling from the rows of a matrix of logits.
///
/// ```
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_rows::sample::Sample;
///
/// let device = Device::sim();
/// let x = device.upload(&[0.0f32, 5.0, 5.0, 1.0, 0.0, 9.0])?;
/// let mut drawn = device.alloc_uninit::<i64>(2)?;
/// let sample = Sample::new(Matrix::row_major(&x, 2, 3)?);
/// sample.clone().temperature(0.0).run(&device, &mut MatrixMut::row_major(&mut drawn, 2, 1)?)?;
/// assert_eq!(drawn.download()?, [1, 2]);
/// sample.top_k(1).seed(3).run(&device, &mut MatrixMut::row_major(&mut drawn, 2, 1)?)?;
/// assert_ne!(drawn.download()?[0], 0);
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sample<'a, T: SampleKernels> {
    x: Matrix<'a, T>,
    seeds: Option<Matrix<'a, i64>>,
    options: Vec<(&'static str, Value)>,
}

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident: $t:ty as $value:ident;)+) => { $(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: $t) -> Self {
            self.options.push((stringify!($name), Value::$value($name.into())));
            self
        }
    )+ };
}

impl<'a, T: SampleKernels> Sample<'a, T> {
    /// A draw from each row of `x` with temperature 1.
    pub fn new(x: Matrix<'a, T>) -> Self {
        Self { x, seeds: None, options: Vec::new() }
    }

    options! {
        /// Divides the logits; 0 for the first greatest one.
        temperature: f32 as Float;
        /// The number of greatest elements to keep, with elements equal to the last one; 0 for all.
        top_k: u32 as Int;
        /// The total probability of the greatest elements to keep.
        top_p: f32 as Float;
        /// The least probability to keep, relative to the greatest.
        min_p: f32 as Float;
        /// The seed, 0 by default.
        seed: i64 as Int;
    }

    setters! {
        /// A column with a seed for each row, on the device, to which the
        /// [`seed`](Self::seed) is added: a row's draw depends on its seed, not on its
        /// index.
        seeds: Matrix<'a, i64> as Some;
    }

    runs! {
        /// Computes it on the default stream of a device. `indices` is a column of i64 or i32.
        fn run, run_on, explain<I: Element>(self, stream, indices: &mut MatrixMut<'_, I>) {
            let int32 = Array::of_mut(NAME, indices)?.dtype == Dtype::I32;
            let mut call = TypedCall::new(&SAMPLE, stream).option("int32", Value::Bool(int32))?;
            for (name, value) in &self.options {
                call = call.option(name, *value)?;
            }
            call.read(&self.x)?.read(self.seeds.as_ref())?.drop_mode(1).write(indices)?.drop_mode(1)
        }
    }
}
