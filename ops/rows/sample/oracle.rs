//! Sampling in float64, with the random bits and the bins of the kernel.

use super::call::rule;
use super::kernel::{OF_BIN, OF_BIN_AGAIN, Scale, random};
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
        // Elements of probabilities below 2^-40 of the greatest have no bin.
        allowed = allowed.min((0..row.len()).filter(|&rank| weight(at(rank)) >= 0.5f64.powi(40)).count());
        let up_to: Vec<f64> = (0..allowed)
            .scan(0.0, |sum, rank| {
                *sum += weight(at(rank));
                Some(*sum)
            })
            .collect();
        let best = if factor == 0.0 {
            0
        } else {
            let scale = Scale::new(at(0) as f32, f32::from_bits(rule.factor));
            let bin = |rank: usize| scale.place(at(rank) as f32).0;
            let uniform = |index| f64::from(random(seed, number, index)) / 2f64.powi(32);
            // The element with which the sum exceeds a point.
            let rank_at = |point: f64| up_to.iter().position(|&sum| sum > point).unwrap_or(0);
            let (mut last, mut in_bins) = (allowed, allowed);
            if top_p < 1.0 {
                let enough = top_p * up_to[allowed - 1];
                last = up_to.iter().position(|&sum| sum >= enough).expect("the sum reaches its part");
                in_bins = (last..allowed).find(|&rank| bin(rank) != bin(last)).unwrap_or(allowed);
                last = with_equal(last + 1).min(allowed);
            }
            let mut point = uniform(OF_BIN) * up_to[in_bins - 1];
            if rank_at(point) >= last {
                point = uniform(OF_BIN_AGAIN) * up_to[last - 1];
            }
            let drawn = bin(rank_at(point));
            let score = |rank: usize| {
                let bits = random(seed, number, sorted[rank] as u32);
                let uniform = (f64::from(bits >> 9) + 0.5) / f64::from(1 << 23);
                at(rank) * factor - (-uniform.ln()).ln()
            };
            (0..last)
                .filter(|&rank| bin(rank) == drawn)
                .max_by(|&a, &b| score(a).total_cmp(&score(b)))
                .expect("the bin has elements")
        };
        drawn.push(sorted[best] as f64);
    });
    vec![drawn]
}

/// None: an index is right or wrong.
pub const TOLERANCE: fn(Dtype) -> f64 = |_| 0.0;
