//! The declared operation against its float64 reference: all cases, element types, memory layouts.

use moye_matmul::MATMUL;
use moye_runtime::Arch;
use moye_runtime::operation::{Declaration, Dtype, OperandOf, harness};

#[test]
fn declared_products_are_those_of_float64_in_each_case_type_and_memory_layout() {
    // 8-bit floats have kernels for Hopper alone.
    let is_hopper = harness::devices().iter().all(|device| device.arch() == Arch::new(9, 0));
    let computes = |dtype: &&Dtype| is_hopper || !matches!(dtype, Dtype::E4m3 | Dtype::E5m2);
    let typed = |operand: &OperandOf| {
        let dtypes: Vec<_> = operand.dtypes.iter().filter(computes).copied().collect();
        OperandOf { dtypes: dtypes.leak(), ..*operand }
    };
    let operands: Vec<_> = MATMUL.operands.iter().map(typed).collect();
    harness::check_with_workspace(&Declaration { operands: operands.leak(), ..MATMUL });
}
