//! Every operation against its float64 reference: all cases, element types and memory layouts.

use moye::operation::harness;

#[cfg(feature = "block_scaled")]
#[test]
fn block_scaled_products_are_those_of_float64() {
    harness::check(&moye_products::block_scaled::BLOCK_SCALED);
}

#[cfg(feature = "grouped")]
#[test]
fn grouped_products_are_those_of_float64() {
    harness::check(&moye_products::grouped::GROUPED);
}

#[cfg(feature = "grouped_k")]
#[test]
fn products_along_the_rows_of_groups_are_those_of_float64() {
    harness::check(&moye_products::grouped_k::GROUPED_K);
}

#[cfg(feature = "moe")]
#[test]
fn layers_of_experts_are_those_of_float64() {
    harness::check(&moye_products::moe::MOE);
}

#[cfg(feature = "weights")]
#[test]
fn products_by_quantised_weights_are_those_of_float64() {
    harness::check(&moye_products::weights::LINEAR_QUANTIZED);
}

#[cfg(feature = "weights")]
#[test]
fn unpacked_weights_are_those_of_float64() {
    harness::check(&moye_products::weights::UNPACK_WEIGHTS);
}
