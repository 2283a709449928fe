//! Every operation against its float64 reference: all cases, element types and memory layouts.

use moye::operation::harness;

macro_rules! that_of_float64 {
    ($($test:ident: $name:literal of $feature:literal;)+) => { $(
        #[cfg(feature = $feature)]
        #[test]
        fn $test() {
            let declaration = moye_rows::OPERATIONS.iter().find(|declaration| declaration.name == $name);
            harness::check(declaration.unwrap());
        }
    )+ };
}
that_of_float64! {
    softmax_is_that_of_float64: "softmax" of "softmax";
    log_softmax_is_that_of_float64: "log_softmax" of "softmax";
    rms_norm_is_that_of_float64: "rms_norm" of "norm";
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
