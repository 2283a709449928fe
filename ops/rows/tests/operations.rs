//! Every operation against its float64 reference: all cases, element types and memory layouts.

use moye::operation::harness;

#[test]
fn softmax_is_that_of_float64() {
    harness::check(&moye_rows::softmax::SOFTMAX);
}

#[test]
fn log_softmax_is_that_of_float64() {
    harness::check(&moye_rows::softmax::LOG_SOFTMAX);
}

#[test]
fn rms_norm_is_that_of_float64() {
    harness::check(&moye_rows::norm::RMS_NORM);
}
