//! The epilogue of measured products.

use crate::activation::{Function, activated};
use moye::kernels::mma::Activation;
use std::fmt;

/// `activation(a * b + bias)`, with an optional bias: one element for each row of C, which is
/// column-major, as in cuBLASLt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epilogue {
    /// Whether there is a bias.
    pub bias: bool,
    /// The activation.
    pub activation: Activation,
}

impl Epilogue {
    /// The epilogue from the command line.
    pub fn named(bias: bool, activation: Option<Function>) -> Self {
        Self { bias, activation: activation.map_or(Activation::None, Activation::from) }
    }

    /// Whether there is an epilogue.
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }

    /// An element of C in float64, from its accumulated sum and its row's bias.
    pub fn of(self, sum: f64, bias: f64) -> f64 {
        activated(self.activation, if self.bias { sum + bias } else { sum })
    }
}

impl fmt::Display for Epilogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let activation = match self.activation {
            Activation::None => None,
            Activation::Relu => Some("relu"),
            Activation::Gelu => Some("gelu"),
            Activation::GeluTanh => Some("gelu_tanh"),
            Activation::Silu => Some("silu"),
        };
        let parts: Vec<_> = self.bias.then_some("bias").into_iter().chain(activation).collect();
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_named_by_its_parts_and_computed_in_their_order() {
        let nothing = Epilogue::default();
        assert!(nothing.is_nothing() && nothing.to_string().is_empty());
        assert_eq!(nothing.of(-2.0, 5.0), -2.0, "there is no bias");
        let both = Epilogue::named(true, Some(Function::Relu));
        assert_eq!(
            (both.to_string().as_str(), both.of(-2.0, 5.0), both.of(-2.0, 1.0)),
            ("bias, relu", 3.0, 0.0)
        );
        assert_eq!(Epilogue::named(false, Some(Function::Silu)).to_string(), "silu");
    }
}
