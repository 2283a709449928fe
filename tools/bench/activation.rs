//! Activations by name, and in float64.

use clap::ValueEnum;
use moye::kernels::mma::Activation;

/// The activation, by its name on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Function {
    /// max(x, 0)
    Relu,
    /// 0.5 x (1 + erf(x / sqrt(2)))
    Gelu,
    /// 0.5 x (1 + tanh(0.7979 (x + 0.044715 x^3)))
    #[value(name = "gelu_tanh")]
    GeluTanh,
    /// x / (1 + exp(-x))
    Silu,
}

impl From<Function> for Activation {
    fn from(function: Function) -> Self {
        match function {
            Function::Relu => Self::Relu,
            Function::Gelu => Self::Gelu,
            Function::GeluTanh => Self::GeluTanh,
            Function::Silu => Self::Silu,
        }
    }
}

/// An activation in float64.
pub fn activated(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::None => x,
        Activation::Relu if x < 0.0 => 0.0,
        Activation::Relu => x,
        // For these, x times a factor that goes to 0.
        Activation::Gelu | Activation::GeluTanh | Activation::Silu if x == f64::NEG_INFINITY => 0.0,
        Activation::Gelu => 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
        Activation::GeluTanh => {
            let y = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
            // (1 + tanh(y)) / 2, which far below 0 would be the difference of two close values.
            x / (1.0 + (-2.0 * y).exp())
        }
        Activation::Silu => x / (1.0 + (-x).exp()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activations_have_their_limits() {
        for x in [f64::NEG_INFINITY, -1e300, -1e10] {
            for activation in [Activation::Gelu, Activation::GeluTanh, Activation::Silu, Activation::Relu] {
                assert_eq!(activated(activation, x), 0.0, "{activation:?} of {x}");
            }
        }
        assert_eq!(activated(Activation::Gelu, f64::INFINITY), f64::INFINITY);
        assert_eq!(activated(Activation::Silu, 1e300), 1e300);
        assert!((activated(Activation::GeluTanh, 1.0) - 0.841_191_990_608_3).abs() < 1e-9);
        assert!((activated(Activation::Gelu, 1.0) - 0.841_344_746_068_5).abs() < 1e-12);
    }
}
