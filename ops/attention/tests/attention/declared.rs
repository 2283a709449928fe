//! The declared operation against its float64 reference: all cases, element types, memory layouts.

use moye_attention::ATTENTION;
use moye_runtime::Arch;
use moye_runtime::operation::{Case, Declaration, Dtype, harness};

#[test]
fn declared_attention_is_that_of_float64_in_each_case_type_and_memory_layout() {
    // 8-bit floats have kernels for Hopper alone.
    let is_hopper = harness::devices().iter().all(|device| device.arch() == Arch::new(9, 0));
    let computes = |case: &&Case| is_hopper || case.only != Some(&[Dtype::E4m3]);
    let cases: Vec<_> = ATTENTION.cases.iter().filter(computes).copied().collect();
    harness::check_with_workspace(&Declaration { cases: cases.leak(), ..ATTENTION });
}
