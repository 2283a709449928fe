//! Attention: FlashAttention-2, and the five steps on Hopper.

use crate::common::{devices, devices_of_sm_90a};
use crate::oracle::{self, dot};
use crate::{PTX, Real, is_near, numbers, sizes};
use moye::{Grid, Kernel, TensorMapOf};
use moye_device::atom::tma::TmaMap;
use moye_device::half::bf16;
use moye_device::layout;
use moye_device::memory::{Global, GlobalMut};
use pages::attention::{BLK, attention_bf16_64, attention_bf16_128, attention_f16_64, attention_f16_128};
use pages::attention_hopper::*;

/// Attention in float64, of one head: `s` rows of `d` elements, each from the index `at(row)` on.
fn attended(
    [q, k, v]: [&[f64]; 3],
    (s, d): (usize, usize),
    at: impl Fn(usize) -> usize,
    scale: f64,
    causal: bool,
) -> Vec<f64> {
    let mut want = Vec::with_capacity(s * d);
    for row in 0..s {
        let head = |tensor: &[f64], row: usize| tensor[at(row)..][..d].to_vec();
        let query = head(q, row);
        let keys = if causal { row + 1 } else { s };
        let scores = (0..keys).map(|key| (key, scale * dot(query.iter().copied(), head(k, key))));
        want.extend(oracle::row(scores, f64::NEG_INFINITY, d, |key| head(v, key)).values);
    }
    want
}

/// Batches, tokens and heads.
const LENGTHS: [[usize; 3]; 3] = [[1, 1, 1], [1, 17, 3], [2, 129, 1]];
const LARGER_LENGTHS: [[usize; 3]; 2] = [[2, 333, 3], [1, 1000, 2]];

type Attention<T> = Kernel<(Global<T>, Global<T>, Global<T>, GlobalMut<T>, u32, u32, f32, bool)>;

fn attention<T: Real>(kernel: Attention<T>, d: usize, limit: f64) {
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        for [batches, s, heads] in sizes(&device, &LENGTHS, &LARGER_LENGTHS) {
            for causal in [false, true] {
                let case = format!(
                    "{} of {batches} x {s} x {heads}, causal: {causal}, on {}",
                    kernel.name(),
                    device.name()
                );
                let count = batches * s * heads * d;
                let inputs = [1, 2, 3].map(|seed| numbers::<T>(count, seed));
                let [q, k, v] = [0, 1, 2].map(|i| device.upload(&inputs[i]).unwrap());
                let mut o = device.upload(&vec![T::of(f64::NAN); count]).unwrap();
                let grid = Grid::new(((s as u32).div_ceil(BLK), heads as u32, batches as u32), 128);
                let arguments = (&q, &k, &v, &mut o, s as u32, heads as u32, 0.3, causal);
                // SAFETY: the buffers hold the four tensors.
                unsafe { module.launch(&kernel, grid, arguments) }.unwrap();
                let o: Vec<f64> = o.download().unwrap().into_iter().map(T::value).collect();
                let values = inputs.each_ref().map(|t| t.iter().map(|x| x.value()).collect::<Vec<f64>>());
                let (mut got, mut want) = (Vec::new(), Vec::new());
                for (batch, head) in (0..batches).flat_map(|b| (0..heads).map(move |h| (b, h))) {
                    let at = |row: usize| ((batch * s + row) * heads + head) * d;
                    let scale = f64::from(0.3f32);
                    want.extend(attended(values.each_ref().map(|t| &t[..]), (s, d), at, scale, causal));
                    got.extend((0..s).flat_map(|row| o[at(row)..][..d].iter().copied()));
                }
                is_near(&got, &want, limit, &case);
            }
        }
    }
}

#[test]
fn attention_is_that_of_float64() {
    attention(attention_f16_64, 64, 1e-3);
    attention(attention_f16_128, 128, 1e-3);
    attention(attention_bf16_64, 64, 8e-3);
    attention(attention_bf16_128, 128, 8e-3);
}

type Step = Kernel<(TmaMap<TmaQ>, TmaMap<TmaK>, TmaMap<TmaK>, TmaMap<TmaQ>, u32, f32, bool)>;

#[test]
fn every_step_of_attention_on_hopper_is_that_of_float64() {
    let d = D as usize;
    let steps: [Step; 5] =
        [attention_step1, attention_step2, attention_step3, attention_step4, attention_step5];
    for device in devices_of_sm_90a() {
        let module = device.load(&PTX).unwrap();
        for [heads, s] in sizes(&device, &[[2, 300]], &[[3, 1], [2, 333], [2, 1100]]) {
            for causal in [false, true] {
                let inputs = [1, 2, 3].map(|seed| numbers::<bf16>(heads * s * d, seed));
                let values = inputs.each_ref().map(|t| t.iter().map(|x| x.to_f64()).collect::<Vec<f64>>());
                let scale = 1.0 / (d as f32).sqrt();
                let want: Vec<f64> = (0..heads)
                    .flat_map(|head| {
                        let at = |row: usize| (head * s + row) * d;
                        let values = values.each_ref().map(|t| &t[..]);
                        attended(values, (s, d), at, f64::from(scale), causal)
                    })
                    .collect();
                let [q, k, v] = [0, 1, 2].map(|i| device.upload(&inputs[i]).unwrap());
                for step in &steps {
                    let case =
                        format!("{} of {heads} x {s}, causal: {causal}, on {}", step.name(), device.name());
                    let o = device.upload(&vec![bf16::NAN; heads * s * d]).unwrap();
                    let (rows, columns) = (s as i64, heads as i64);
                    let tensor = layout!((rows, D, columns, 1):(D, 1, { rows * D }, { rows * columns * D }));
                    let maps = (
                        TensorMapOf::<TmaQ>::new(&q, &tensor).unwrap(),
                        TensorMapOf::<TmaK>::new(&k, &tensor).unwrap(),
                        TensorMapOf::<TmaK>::new(&v, &tensor).unwrap(),
                        TensorMapOf::<TmaQ>::new(&o, &tensor).unwrap(),
                    );
                    let threads = step.bounds().threads.unwrap();
                    let grid = Grid::new(((s as u32).div_ceil(threads / 2 - 64), heads as u32), threads);
                    let arguments = (&maps.0, &maps.1, &maps.2, &maps.3, s as u32, scale, causal);
                    // SAFETY: the maps are of the tensors, which overlap nowhere.
                    unsafe { module.launch(step, grid, arguments) }.unwrap();
                    let got: Vec<f64> = o.download().unwrap().into_iter().map(bf16::to_f64).collect();
                    is_near(&got, &want, 1.0 / 256.0, &case);
                }
            }
        }
    }
}
