//! The tests of the crate in one program: linking a dozen takes longer than compiling them.

#[path = "../../tests/fixtures/common/bytes.rs"]
mod bytes;
#[path = "../../tools/eval/tests/golden/definition.rs"]
mod definition;
mod golden;

mod analysis;
mod callers;
mod const_agreement;
mod const_evaluation;
mod copy_atoms;
mod elementwise;
mod fragment_rows;
#[allow(non_snake_case, reason = "tensors have CuTe's names")]
mod global_edges;
#[allow(non_snake_case, reason = "tensors have CuTe's names")]
mod global_ranks;
mod golden_cute_cpp;
mod golden_pycute;
mod golden_rejected;
mod golden_tiling;
mod hopper;
#[allow(non_snake_case, reason = "tensors have CuTe's names")]
mod hopper_tiled;
mod kernel;
mod laws;
mod layout_edges;
mod layout_messages;
mod layout_text;
mod map;
mod math;
mod mma_faults;
mod mma_results;
mod profile_picture;
mod quad_pairs;
mod rows;
#[allow(non_snake_case, reason = "tensors have CuTe's names")]
mod sinks;
mod slices_checked;
mod slices_named;
mod static_layouts;
mod tensors;
mod tiles;
mod tiling_access;
mod tiling_edges;
mod transpose;
mod unwritten;
