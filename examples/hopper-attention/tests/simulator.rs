//! The kernels in the simulator, against float64.

use hopper_attention::attention::hopper_config::*;
use hopper_attention::host::{Entry, Problem, simulate};

fn is_right<C: Entry>(problem: Problem, blocks: u32) {
    let (error, logarithm) =
        simulate::<C>(&problem, blocks, 7).unwrap_or_else(|error| panic!("{problem:?}: {error}"));
    // Rounding P and O to bf16 takes about 0.003.
    assert!(error < 0.006, "{problem:?}: relative norm {error:.1e}");
    assert!(logarithm < 1e-4, "{problem:?}: a logarithm is off by {logarithm:.1e}");
}

#[test]
fn heads_of_128_with_and_without_a_mask_and_ragged_lengths_are_right() {
    for (lengths, causal) in [([128, 128], true), ([200, 333], true), ([130, 60], true)] {
        is_right::<Bf16D128Causal>(Problem { batches: 1, heads: [2, 1], lengths, d: 128, causal }, 2);
    }
    for lengths in [[128, 352], [70, 400]] {
        is_right::<Bf16D128>(Problem { batches: 2, heads: [1, 1], lengths, d: 128, causal: false }, 1);
    }
}

#[test]
fn heads_of_64_are_right() {
    for (lengths, causal) in [([192, 256], false), ([250, 250], true)] {
        is_right::<Bf16D64>(Problem { batches: 1, heads: [2, 2], lengths, d: 64, causal }, 3);
    }
}

#[test]
fn heads_of_256_are_right() {
    is_right::<Bf16D256>(Problem { batches: 1, heads: [1, 1], lengths: [100, 170], d: 256, causal: true }, 1);
}

#[test]
fn f16_is_right() {
    is_right::<F16D128Causal>(
        Problem { batches: 1, heads: [2, 1], lengths: [150, 290], d: 128, causal: true },
        1,
    );
}
