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
    "cross_entropy":
        cross_entropy_is_that_of_float64 moye_rows::cross_entropy::CROSS_ENTROPY;
    "embedding":
        embedding_is_that_of_float64 moye_rows::embedding::EMBEDDING;
    "norm":
        rms_norm_is_that_of_float64 moye_rows::norm::RMS_NORM,
        layer_norm_is_that_of_float64 moye_rows::norm::LAYER_NORM;
    "norm_backward":
        rms_norm_backward_is_that_of_float64 moye_rows::norm_backward::RMS_NORM_BACKWARD,
        layer_norm_backward_is_that_of_float64 moye_rows::norm_backward::LAYER_NORM_BACKWARD;
    "rope":
        rope_is_that_of_float64 moye_rows::rope::ROPE;
    "softmax":
        softmax_is_that_of_float64 moye_rows::softmax::SOFTMAX,
        log_softmax_is_that_of_float64 moye_rows::softmax::LOG_SOFTMAX;
    "softmax_backward":
        softmax_backward_is_that_of_float64 moye_rows::softmax_backward::SOFTMAX_BACKWARD,
        log_softmax_backward_is_that_of_float64 moye_rows::softmax_backward::LOG_SOFTMAX_BACKWARD;
}

#[cfg(feature = "cross_entropy")]
#[test]
fn cross_entropy_of_what_is_not_finite_is_that_of_pytorch_and_the_gradient_may_replace_the_logits() {
    use moye::operation::{Array, ArrayType, Call, Dtype, Options, Value};
    let declaration = &moye_rows::cross_entropy::CROSS_ENTROPY;
    const INF: f32 = f32::INFINITY;
    #[rustfmt::skip]
    let logits = [
        0.0, f32::NAN, 1.0, 2.0,
        0.0, INF, 1.0, 2.0,
        0.0, -INF, 0.0, -INF,
        -INF, 0.0, 0.0, -INF,
        f32::NAN, INF, 0.0, 0.0,
        0.0, 0.0, 0.0, 0.0,
    ];
    let targets = [0i32, 0, 0, 0, -100, 4];
    for device in harness::devices() {
        let (x, t) = (device.upload(&logits).unwrap(), device.upload(&targets).unwrap());
        let loss = device.alloc_uninit::<f32>(6).unwrap();
        let array = |dtype, shape: &[usize], address| {
            Some(Array::row_major(&ArrayType { dtype, shape: shape.to_vec() }, address))
        };
        let operands = [
            array(Dtype::F32, &[6, 4], x.address()),
            array(Dtype::I32, &[6], t.address()),
            array(Dtype::F32, &[6], loss.address()),
            None,
            array(Dtype::F32, &[6, 4], x.address()),
        ];
        let mut options = Options::of(declaration);
        options.set("cross_entropy", "grad_scale", Value::Float(2.0)).unwrap();
        let call = Call { operands: &operands, options: &options };
        declaration.check(&call).unwrap();
        // SAFETY: the arrays are in buffers that live on.
        unsafe { (declaration.run)(&device.default_stream(), &call) }.unwrap();
        let loss = loss.download().unwrap();
        assert!(loss[0].is_nan() && loss[1].is_nan() && loss[5].is_nan(), "{loss:?}");
        assert!((loss[2] - 2f32.ln()).abs() < 1e-6 && loss[3] == INF && loss[4] == 0.0, "{loss:?}");
        let gradient = x.download().unwrap();
        assert_eq!(gradient[8..20], [-1.0, 0.0, 1.0, 0.0, -2.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert!(gradient[20..].iter().all(|x| x.is_nan()), "{gradient:?}");
    }
}

#[test]
fn integers_are_refused_with_the_operand_and_what_it_takes() {
    use moye::operation::{Array, ArrayType, Call, Declaration, Dtype, Options};
    let x = |dtype| Some(Array::row_major(&ArrayType { dtype, shape: vec![2, 8] }, 4096));
    let takes_floats = |of: &&&Declaration| !of.operands[0].dtypes.contains(&Dtype::I64);
    for declaration in moye_rows::OPERATIONS.iter().filter(takes_floats) {
        let options = Options::of(declaration);
        let operands: Vec<_> = declaration.operands.iter().map(|_| x(Dtype::I64)).collect();
        let refused =
            declaration.check(&Call { operands: &operands, options: &options }).unwrap_err().to_string();
        let name = declaration.operands[0].name;
        let wanted =
            format!("{name} has elements of int64, and must have float32, float16 or bfloat16; convert it");
        assert!(refused.contains(&wanted), "{refused}");
    }
}
