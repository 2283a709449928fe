//! Scores of any size: every finite score counts, and only minus infinity masks.

use crate::case::{Broadcast, Case, Scores};
use crate::{check, simulator, varied};
use half::{bf16, f16};

/// The kernels by their case: a few queries and 136 keys, which are several tiles.
fn each_kernel(scores: Scores, mut check: impl FnMut(&Case, bool)) {
    for (d, queries, decode, splits) in
        [(64, 17, false, 3), (128, 9, false, 1), (64, 5, true, 1), (128, 5, true, 3)]
    {
        let mut case = Case::new(d, (1, 1, 1), (queries, 136));
        (case.scale, case.decode, case.splits, case.scores) = (0.125, decode, splits, Some(scores));
        if let Scores::Bias(_) = scores {
            case.bias =
                Some(Broadcast { batch: true, head: true, row: true, transposed: false, padded: true });
        }
        check(&case, decode);
    }
}

/// Checks the kernels with `mma.sync` and with `wgmma`.
fn check_bf16(scores: Scores) {
    each_kernel(scores, |case, few| {
        check::check::<bf16, _>(&simulator(), case, 1);
        varied::check::<bf16>(&Case { decode: false, ..case.clone() }, few, 1);
    });
}

/// [`check_bf16`] of f16.
fn check_f16(scores: Scores) {
    each_kernel(scores, |case, few| {
        check::check::<f16, _>(&simulator(), case, 2);
        varied::check::<f16>(&Case { decode: false, ..case.clone() }, few, 2);
    });
}

#[test]
fn a_bias_near_the_largest_number_at_one_key_gives_its_value() {
    check_bf16(Scores::Bias(|key| if key == 77 { 3.0e38 } else { 0.0 }));
    check_bf16(Scores::Bias(|key| if key % 90 == 7 { 3.0e38 } else { -3.0e38 }));
    check_f16(Scores::Bias(|key| if key == 77 { 65504.0 } else { 0.0 }));
}

#[test]
fn a_row_of_equally_low_biases_is_the_mean() {
    check_bf16(Scores::Bias(|_| bf16::MIN.to_f32()));
    check_bf16(Scores::Bias(|_| -1.0e9));
    check_f16(Scores::Bias(|_| f16::MIN.to_f32()));
}

#[test]
fn only_minus_infinity_hides_and_low_tiles_lose_against_later_ones() {
    check_bf16(Scores::Bias(|key| if key % 90 == 7 { -3.0e38 } else { f32::NEG_INFINITY }));
    // The last keys are processed first.
    check_bf16(Scores::Bias(|key| if key < 100 { 0.25 * (key % 8) as f32 } else { -3.0e38 }));
}

#[test]
fn products_of_any_size_have_the_softmax_of_their_differences() {
    // Scores of 1.3e10 in heads of 64, and twice that in heads of 128: the mean.
    check_f16(Scores::Alike(40960.0));
    // A little above 2^21, more than the online softmax takes; a little above 2^18, which it takes.
    check_f16(Scores::Product(32768.0, |key| [512.0, (8 * (key / 24 % 4)) as f32]));
    check_f16(Scores::Product(32768.0, |key| [64.0, (8 * (key / 24 % 4)) as f32]));
    check_bf16(Scores::Product(-32768.0, |key| [64.0, (8 * (key / 24 % 4)) as f32]));
    // Tiles with low scores before a tile with scores of 0, and others after it.
    check_f16(Scores::Product(32768.0, |key| [if key / 64 == 1 { 0.0 } else { -32768.0 }, 0.0]));
    // -2^113, except at one key.
    check_bf16(Scores::Product(2f32.powi(66), |key| [if key == 3 { 0.0 } else { -2f32.powi(50) }, 0.0]));
}

#[test]
fn a_soft_cap_far_above_the_scores_leaves_them_as_they_are() {
    for cap in [1e5, 1e8] {
        for (queries, decode) in [(70, false), (5, true)] {
            let mut case = Case::new(64, (1, 2, 1), (queries, 100));
            (case.softcap, case.decode) = (cap, decode);
            check::check::<bf16, _>(&simulator(), &case, 1);
            check::check::<f16, _>(&simulator(), &case, 2);
            varied::check::<f16>(&Case { decode: false, ..case }, decode, 3);
        }
    }
}
