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
mod shapes;
mod weights;

/// Checks a declaration by random cases, from their seeds and whether the device is a GPU: 100 on a
/// GPU, and 8 on the simulator.
#[cfg(any(feature = "few", feature = "fused", feature = "gated", feature = "moe", feature = "weights"))]
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
