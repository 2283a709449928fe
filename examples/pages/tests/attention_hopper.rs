//! The five steps of attention on Hopper on the simulator, against float64.

use moye_device::atom::tma::TmaMap;
use moye_device::half::bf16;
use moye_device::kernel::Kernel;
use moye_device::layout;
use moye_sim::{Dim3, GlobalMemory, Launch};
use pages::attention_hopper::*;

type Step = Kernel<(TmaMap<TmaQ>, TmaMap<TmaK>, TmaMap<TmaK>, TmaMap<TmaQ>, u32, f32, bool)>;

/// Numbers from -1 to 1 that look random.
fn numbers(count: usize, seed: u64) -> Vec<bf16> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bf16::from_f64((state >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
    };
    (0..count).map(|_| next()).collect()
}

/// The relative error of a step, of `s` tokens of `heads` heads in the order (head, token, column).
fn relative_error(step: Step, heads: usize, s: usize, causal: bool) -> f64 {
    let d = D as usize;
    let [q, k, v] = [1, 2, 3].map(|seed| numbers(heads * s * d, seed));
    let memory = GlobalMemory::new();
    let [dq, dk, dv] =
        [(&q, "q"), (&k, "k"), (&v, "v")].map(|(data, name)| memory.upload(data, name).unwrap());
    let poison = vec![bf16::NAN; heads * s * d];
    let o = memory.upload(&poison, "o").unwrap();
    let (rows, columns) = (s as i64, heads as i64);
    let tensor = layout!((rows, D, columns, 1):(D, 1, { rows * D }, { rows * columns * D }));
    let of_q = |address| TmaMap::from_words(TmaQ::tensor_map(address, &tensor).unwrap().encode());
    let of_k = |address| TmaMap::from_words(TmaK::tensor_map(address, &tensor).unwrap().encode());
    let scale = 1.0 / (d as f32).sqrt();
    let maps = (of_q(dq.address()), of_k(dk.address()), of_k(dv.address()), of_q(o.address()));
    let params = (maps.0, maps.1, maps.2, maps.3, s as u32, scale, causal);
    let threads = step.bounds().threads.unwrap();
    let grid = Dim3::new((s as u32).div_ceil(threads / 2 - 64), heads as u32, 1);
    Launch::new(step.name(), grid, threads, &memory)
        .shared_bytes(step.shared_bytes())
        // SAFETY: the maps are of the tensors.
        .run(&|| unsafe { step.call(params) })
        .unwrap_or_else(|fault| panic!("{fault}"));
    let (mut error, mut norm) = (0.0, 0.0);
    for (row, got) in o.download::<bf16>().chunks(d).enumerate() {
        let (head, token) = (row / s, row % s);
        let keys = head * s..head * s + if causal { token + 1 } else { s };
        let dot = |key: usize| -> f64 {
            (0..d).map(|i| q[row * d + i].to_f64() * k[key * d + i].to_f64()).sum::<f64>() * f64::from(scale)
        };
        let weights: Vec<f64> = keys.clone().map(|key| dot(key).exp()).collect();
        let total: f64 = weights.iter().sum();
        for column in 0..d {
            let sum: f64 = keys.clone().zip(&weights).map(|(key, w)| w * v[key * d + column].to_f64()).sum();
            error += (got[column].to_f64() - sum / total).powi(2);
            norm += (sum / total).powi(2);
        }
    }
    (error / norm).sqrt()
}

#[test]
fn every_step_is_within_the_rounding_of_bf16() {
    let steps = [attention_step1, attention_step2, attention_step3, attention_step4, attention_step5];
    for (number, step) in steps.into_iter().enumerate() {
        for (heads, s, causal) in [(1, 300, false), (2, 200, true)] {
            let error = relative_error(step, heads, s, causal);
            assert!(error < 1.0 / 256.0, "step {}: {heads} heads, {s} tokens: {error:e}", number + 1);
        }
    }
}
