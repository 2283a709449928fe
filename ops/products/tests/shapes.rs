//! Products of random shapes against float64.
#![cfg(all(feature = "few", feature = "fused", feature = "gated", feature = "weights"))]

use crate::check_random;
use crate::random::Random;
use moye::operation::{Case, Declaration, Value};
use moye_products::few::LINEAR_FEW;
use moye_products::fused::{LINEAR_E4M3, LINEAR_QKV, LINEAR_RESIDUAL};
use moye_products::gated::LINEAR_GATED;
use moye_products::weights::LINEAR_QUANTIZED_A8;

/// Checks a declaration by random cases of the shapes that `inputs` returns, with small elements.
fn check_shapes(declaration: &Declaration, inputs: impl Fn(&mut Random, usize) -> Vec<Option<Vec<usize>>>) {
    check_random(declaration, |seed, is_gpu| {
        let shapes = inputs(&mut Random::new(seed), if is_gpu { 3 } else { 1 });
        let shapes: Vec<_> = shapes.into_iter().map(|shape| shape.map(|shape| &*shape.leak())).collect();
        Case::new(shapes.leak()).ranges(&[("squares_of_a", 1.0, 40.0), ("gate_up", -1.0, 1.0)])
    });
}

#[test]
fn products_of_few_rows_of_random_shapes_are_those_of_float64() {
    check_shapes(&LINEAR_FEW, |random, scale| {
        let (m, n, k) = (1 + random.below(40), 1 + random.below(90 * scale), 1 + random.below(900 * scale));
        vec![Some(vec![m, k]), Some(vec![n, k]), random.one_in(2).then(|| vec![m, n])]
    });
}

#[test]
fn gated_products_of_random_shapes_are_those_of_float64() {
    check_shapes(&LINEAR_GATED, |random, scale| {
        let (m, n, k) = (1 + random.below(150 * scale), 1 + random.below(150 * scale), 1 + random.below(150));
        vec![Some(vec![m, k]), Some(vec![2 * n, k])]
    });
}

#[test]
fn products_with_residuals_and_norms_of_random_shapes_are_those_of_float64() {
    check_shapes(&LINEAR_RESIDUAL, |random, scale| {
        let (m, n, k) = (1 + random.below(150 * scale), 1 + random.below(280 * scale), 1 + random.below(150));
        let [with_residual, with_squares] = [0; 2].map(|_| random.one_in(2));
        let squares = with_squares.then(|| vec![m, 1 + random.below(4)]);
        vec![Some(vec![m, k]), Some(vec![n, k]), with_residual.then(|| vec![m, n]), squares]
    });
}

#[test]
fn products_to_8_bits_of_random_shapes_are_those_of_float64() {
    check_shapes(&LINEAR_E4M3, |random, scale| {
        let (m, n, k) = (1 + random.below(150 * scale), 1 + random.below(280 * scale), 1 + random.below(150));
        vec![Some(vec![m, k]), Some(vec![n, k])]
    });
}

#[test]
fn queries_keys_and_values_of_random_heads_are_those_of_float64() {
    check_random(&LINEAR_QKV, |seed, is_gpu| {
        let mut random = Random::new(seed);
        let (m, k) = (1 + random.below(if is_gpu { 300 } else { 60 }), 1 + random.below(150));
        let size = random.of(&[32, 64, 128, 256]);
        let (heads, kv) = (random.below(4), random.below(3));
        let n = (heads + 2 * kv).max(1) * size;
        let kv = if heads + 2 * kv == 0 { 0 } else { kv };
        let (page, positions) = (random.of(&[0, 1, 4]), 1 + random.below(50));
        let slots = (m + random.below(20)).next_multiple_of(page.max(1));
        // No two rows have one slot; some rows have none.
        let mut places: Vec<_> = (0..slots).map(|slot| slot as f64).collect();
        for i in (1..slots).rev() {
            places.swap(i, random.below(i + 1));
        }
        places.truncate(m);
        places.iter_mut().filter(|_| random.one_in(4)).for_each(|place| *place = -1.0);
        let at: Vec<_> = (0..m).map(|_| random.below(positions) as f64).collect();
        let table = vec![positions, size / 2];
        let rotation = [vec![m], table.clone(), table].map(|shape| seed.is_multiple_of(2).then_some(shape));
        let shapes = [vec![m, k], vec![n, k], vec![m]].map(Some).into_iter().chain(rotation);
        let shapes: Vec<_> = shapes.map(|shape| shape.map(|shape| &*shape.leak())).collect();
        let int = |value: usize| Value::Int(value as i64);
        let options = vec![
            ("size", int(size)),
            ("kv_heads", int(kv)),
            ("slots", int(slots)),
            ("page", int(page)),
            ("interleaved", Value::Bool(random.one_in(2))),
        ];
        let values: Vec<(_, &[f64])> = vec![("slots_of_rows", places.leak()), ("positions", at.leak())];
        Case::new(shapes.leak()).values(values.leak()).options(options.leak())
    });
}

#[test]
fn products_of_random_activations_of_8_bits_are_those_of_float64() {
    check_random(&LINEAR_QUANTIZED_A8, |seed, is_gpu| {
        let mut random = Random::new(seed);
        let [most_n, most_k] = if is_gpu { [400, 2048] } else { [48, 256] };
        let (m, n, bits) = (1 + random.below(100), 1 + random.below(most_n), random.of(&[4, 8]));
        let (k, step, tiles) = (8 * (1 + random.below(most_k / 8)), 256 / bits, n.div_ceil(16));
        let shapes =
            [vec![m, k], vec![m], vec![tiles, k.div_ceil(step), 512], vec![tiles, 1, 8, random.of(&[2, 4])]];
        let options = vec![("bits", Value::Int(bits as i64)), ("rows", Value::Int(n as i64))];
        Case::new(shapes.map(|shape| Some(&*shape.leak())).to_vec().leak())
            .ranges(&[
                ("codes", 0.0, 256.0),
                ("factors", -0.5, 0.5),
                ("scales", 0.01, 0.1),
                ("x", -20.0, 20.0),
            ])
            .options(options.leak())
    });
}
