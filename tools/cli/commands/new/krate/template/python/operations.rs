//! The operation compared with its float64 reference, on the simulator.

#[test]
fn silu_is_that_of_float64() {
    moye::operation::harness::check(&new_kernels::SILU);
}
