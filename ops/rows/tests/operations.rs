//! Every operation against its float64 reference: all cases, element types and memory layouts.

use moye::operation::harness;

/// A test of each declaration of an operation's feature.
macro_rules! operations {
    ($($feature:literal: $($name:ident $declaration:path),+;)+) => { $($(
        #[cfg(feature = $feature)]
        #[test]
        fn $name() {
            harness::check(&$declaration);
        }
    )+)+ };
}
operations! {
    "activation":
        swiglu_is_that_of_float64 moye_rows::activation::SWIGLU,
        geglu_is_that_of_float64 moye_rows::activation::GEGLU,
        relu2glu_is_that_of_float64 moye_rows::activation::RELU2GLU,
        bias_activation_is_that_of_float64 moye_rows::activation::BIAS_ACTIVATION;
    "affine":
        add_is_that_of_float64 moye_rows::affine::ADD,
        axpby_is_that_of_float64 moye_rows::affine::AXPBY,
        cast_is_that_of_float64 moye_rows::affine::CAST,
        full_like_is_that_of_float64 moye_rows::affine::FULL_LIKE;
    "embedding":
        embedding_is_that_of_float64 moye_rows::embedding::EMBEDDING;
    "norm":
        rms_norm_is_that_of_float64 moye_rows::norm::RMS_NORM;
    "rope":
        rope_is_that_of_float64 moye_rows::rope::ROPE;
    "softmax":
        softmax_is_that_of_float64 moye_rows::softmax::SOFTMAX,
        log_softmax_is_that_of_float64 moye_rows::softmax::LOG_SOFTMAX;
}

#[cfg(feature = "softmax")]
#[test]
fn integers_are_refused_with_the_operand_and_what_it_takes() {
    use moye::operation::{Array, ArrayType, Call, Dtype, Options};
    let x = |dtype| Some(Array::row_major(&ArrayType { dtype, shape: vec![2, 8] }, 4096));
    for declaration in [&moye_rows::softmax::SOFTMAX, &moye_rows::softmax::LOG_SOFTMAX] {
        let options = Options::of(declaration);
        let operands = [x(Dtype::I64), x(Dtype::I64)];
        let refused =
            declaration.check(&Call { operands: &operands, options: &options }).unwrap_err().to_string();
        let wanted = "x has elements of int64, and must have float32, float16 or bfloat16; convert it";
        assert!(refused.contains(wanted), "{refused}");
    }
}
