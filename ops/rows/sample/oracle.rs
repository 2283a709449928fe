//! Sampling in float64, with the random bits of the kernel.

use super::call::rule;
use super::kernel::random;
use crate::prelude::*;

/// The index of each row.
pub fn reference(inputs: &Inputs, options: &Options) -> Vec<Vec<f64>> {
    let (ty, x) = input(inputs, 0);
    let rule = rule(options).expect("the case has a rule");
    let [top_p, min_p, factor] =
        [rule.top_p, rule.min_p, rule.factor].map(|bits| f64::from(f32::from_bits(bits)));
    let seeds = elements(inputs, 1);
    let mut drawn = Vec::new();
    each_row(&ty.shape, -1, |row| {
        let own = |seeds: &Vec<f64>| (rule.seed.wrapping_add((seeds[drawn.len()] as i64).cast_unsigned()), 0);
        let (seed, number) = seeds.map_or((rule.seed, drawn.len() as u32), own);
        let mut sorted: Vec<usize> = (0..row.len()).collect();
        sorted.sort_by(|&a, &b| x[row[b]].partial_cmp(&x[row[a]]).expect("numbers"));
        let at = |rank: usize| x[row[sorted[rank]]];
        let weight = |value: f64| ((value - at(0)) * factor).exp();
        // Ranks that may be drawn, with all elements equal to the last one.
        let with_equal =
            |count: usize| (count..row.len()).find(|&rank| at(rank) < at(count - 1)).unwrap_or(row.len());
        let mut allowed = row.len();
        if rule.top_k > 0 {
            allowed = with_equal(allowed.min(rule.top_k as usize));
        }
        allowed = allowed.min((0..row.len()).filter(|&rank| weight(at(rank)) >= min_p).count());
        if top_p < 1.0 {
            let all: f64 = (0..allowed).map(|rank| weight(at(rank))).sum();
            let mut sum = 0.0;
            let reached = (0..allowed).position(|rank| {
                sum += weight(at(rank));
                sum >= top_p * all
            });
            allowed = with_equal(reached.map_or(allowed, |rank| rank + 1));
        }
        let score = |rank: usize| {
            let bits = random(seed, number, sorted[rank] as u32);
            let uniform = (f64::from(bits >> 9) + 0.5) / f64::from(1 << 23);
            at(rank) * factor - (-uniform.ln()).ln()
        };
        let best = if factor == 0.0 {
            0
        } else {
            (0..allowed).max_by(|&a, &b| score(a).total_cmp(&score(b))).unwrap_or(0)
        };
        drawn.push(sorted[best] as f64);
    });
    vec![drawn]
}

/// None: an index is right or wrong.
pub const TOLERANCE: fn(Dtype) -> f64 = |_| 0.0;
