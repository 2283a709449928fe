//! Products that models run, on the simulator, and on a GPU where one is found.

#[path = "../../../tests/fixtures/common/assembler.rs"]
mod assembler;
mod groups;
mod operations;
mod own_end;
mod ptxas;
#[path = "../../../tests/fixtures/common/random.rs"]
mod random;
mod refused;
mod scaled;
mod weights;

/// Checks a declaration by random cases, from their seeds and whether the device is a GPU: 100 on a
/// GPU, and 8 on the simulator.
#[cfg(any(feature = "moe", feature = "weights"))]
fn check_random(
    declaration: &moye::operation::Declaration,
    case: impl Fn(u64, bool) -> moye::operation::Case,
) {
    use moye::operation::{Declaration, harness};
    for device in harness::devices() {
        let is_gpu = device.is_gpu();
        let cases: Vec<_> = (0..if is_gpu { 100 } else { 8 }).map(|seed| case(seed, is_gpu)).collect();
        harness::check_on(&Declaration { cases: cases.leak(), ..*declaration }, &device, |_| true);
    }
}

/// The types of random cases whose reference does not round as the kernels do: on a GPU bf16 alone.
/// Among many results in f16 some equal the harness's poison, -0.022, and differ from the
/// reference by more than the harness allows there.
#[cfg(any(feature = "moe", feature = "weights"))]
fn types_of_random(is_gpu: bool) -> Option<&'static [moye::operation::Dtype]> {
    is_gpu.then_some(&[moye::operation::Dtype::Bf16])
}
