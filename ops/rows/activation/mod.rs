//! Activations: `f(x + bias)`, and gated `f(gate) * up` as SwiGLU, GEGLU and the gated squared ReLU
//! have it.
//!
//! Elements are f32, f16 or bf16, computed in f32, of any strides. An activation of NaN is NaN; at
//! infinities it is the limit, 0 for SiLU and GELU of minus infinity, where PyTorch has NaN.

mod call;
mod cases;
pub mod kernel;
mod oracle;

use crate::prelude::*;
use call::Kind;
pub use kernel::Activation;
use kernel::{ActivatedKernels, GatedPairKernels};

const NAMES: &[&str] = &["none", "relu", "relu2", "silu", "gelu", "gelu_tanh"];

impl Activation {
    const ALL: [Self; 6] = [Self::None, Self::Relu, Self::Relu2, Self::Silu, Self::Gelu, Self::GeluTanh];

    /// The activation of a name of the option.
    pub(super) fn named(name: &str) -> Self {
        Self::ALL[NAMES.iter().position(|known| *known == name).expect("a name of the option")]
    }

    /// Its name as an option.
    const fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

const INTERLEAVED: OptionOf = option(
    "interleaved",
    "without up: whether gates and factors alternate, instead of a half for each",
    Value::Bool(false),
);

declare! {
    /// `silu(x) * up`.
    pub static SWIGLU(Kind::Swiglu) = {
        name: "swiglu",
        summary: "silu(x) * up; without up the first half of the last axis of x gates the second",
        operands: &[
            OperandOf::new(Role::Input, "x", "the gate, float32, float16 or bfloat16, of any shape and strides"),
            OperandOf::new(Role::Optional, "up", "the factor, of the shape and type of x"),
            OperandOf::new(Role::Result, "out", "the result, of the type of x and of the shape of the gate"),
        ],
        options: &[INTERLEAVED],
        cases: cases::GATED,
        bench: cases::BENCH,
    };

    /// `gelu(x) * up`.
    pub static GEGLU(Kind::Geglu) = {
        name: "geglu",
        summary: "gelu(x) * up; without up the first half of the last axis of x gates the second",
        options: &[
            INTERLEAVED,
            option("approximate", "the form of GELU: by the error function (none), or by a hyperbolic tangent",
                Value::Choice("none", &["none", "tanh"])),
        ],
        cases: cases::GEGLU,
        ..SWIGLU
    };

    /// `max(x, 0)^2 * up`.
    pub static RELU2GLU(Kind::Relu2glu) = {
        name: "relu2glu",
        summary: "max(x, 0)^2 * up; without up the first half of the last axis of x gates the second",
        ..SWIGLU
    };

    /// `f(x + bias)`.
    pub static BIAS_ACTIVATION(Kind::Biased) = {
        name: "bias_activation",
        summary: "an activation of x + bias",
        operands: &[
            X,
            OperandOf::new(Role::Optional, "bias", "added to x first, of its type, broadcast to its shape"),
            OUT,
        ],
        options: &[option("activation", "the function", Value::Choice("gelu", NAMES))],
        cases: cases::BIASED,
        bench: cases::BENCH_BIASED,
    };
}

/// `f(x + bias)`, or `f(x) * up`.
///
/// ```
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_rows::activation::{Activate, Activation};
///
/// let device = Device::sim();
/// // SwiGLU of 2 x 4 elements: the first two columns are the gates.
/// let x = device.upload(&[0.0f32, 0.0, 5.0, 5.0, 50.0, -0.0, 2.0, 3.0])?;
/// let mut y = device.alloc_uninit::<f32>(4)?;
/// let swiglu = Activate::new(Activation::Silu, Matrix::row_major(&x, 2, 4)?).gated();
/// swiglu.run(&device, &mut MatrixMut::row_major(&mut y, 2, 2)?)?;
/// assert_eq!(y.download()?, [0.0, 0.0, 100.0, 0.0]);
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Activate<'a, T: ActivatedKernels + GatedPairKernels> {
    activation: Activation,
    x: Matrix<'a, T>,
    other: Option<Matrix<'a, T>>,
    gated: bool,
    interleaved: bool,
}

impl<'a, T: ActivatedKernels + GatedPairKernels> Activate<'a, T> {
    /// An activation of each element of `x`.
    pub fn new(activation: Activation, x: Matrix<'a, T>) -> Self {
        Self { activation, x, other: None, gated: false, interleaved: false }
    }

    /// A row that is added to each of `x` first.
    #[must_use]
    pub fn bias(self, bias: Matrix<'a, T>) -> Self {
        Self { other: Some(bias), gated: false, ..self }
    }

    /// A matrix of the shape of `x` that multiplies the result.
    #[must_use]
    pub fn up(self, up: Matrix<'a, T>) -> Self {
        Self { other: Some(up), gated: true, ..self }
    }

    /// The second half of each row of `x` multiplies the activation of the first.
    #[must_use]
    pub fn gated(self) -> Self {
        Self { other: None, gated: true, ..self }
    }

    /// Like [`gated`](Self::gated), but gates and factors alternate.
    #[must_use]
    pub fn interleaved(self) -> Self {
        Self { interleaved: true, ..self.gated() }
    }

    runs! {
        /// Computes it on the default stream of a device. Gates are those of SiLU, GELU or the
        /// squared ReLU.
        fn run, run_on, explain(self, stream, y: &mut MatrixMut<'_, T>) {
            let (declaration, named) = match (self.gated, self.activation) {
                (false, of) => (&BIAS_ACTIVATION, Some(("activation", of.name()))),
                (true, Activation::Silu) => (&SWIGLU, None),
                (true, Activation::Relu2) => (&RELU2GLU, None),
                (true, Activation::Gelu) => (&GEGLU, None),
                (true, Activation::GeluTanh) => (&GEGLU, Some(("approximate", "tanh"))),
                (true, other) => {
                    let detail = format!("there is no gate by {other:?}; take Silu, Gelu, GeluTanh or Relu2");
                    return unsupported("activation", detail);
                }
            };
            let mut call = TypedCall::new(declaration, stream);
            if self.gated {
                call = call.option("interleaved", Value::Bool(self.interleaved))?;
            }
            if let Some((option, name)) = named {
                call = call.choose(option, name)?;
            }
            call.read(&self.x)?.read(self.other.as_ref())?.write(y)?
        }
    }
}
