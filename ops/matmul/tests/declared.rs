//! The declared operation against its float64 reference, in all cases, element types and memory
//! layouts; and the packed PTX of this crate beside what its build script compiled.

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

/// The build script's output, which a bundle lacks.
#[test]
fn shipped_images_are_what_was_compiled_but_for_comments() {
    for (arch, text) in moye_matmul::PTX.images() {
        let file = format!("{}/moye_matmul.{arch}.ptx", env!("OUT_DIR"));
        let Ok(compiled) = std::fs::read_to_string(file) else { continue };
        let lines = |text| {
            str::lines(text).filter(|line| {
                let line = line.trim();
                !line.is_empty() && !line.starts_with("//")
            })
        };
        let (mut shipped, mut compiled) = (lines(text), lines(&compiled));
        loop {
            let (one, other) = (shipped.next(), compiled.next());
            assert_eq!(one, other, "{arch}");
            if one.is_none() {
                break;
            }
        }
    }
}
