//! Products of experts over two simulated ranks that divide each expert's weights: along K, with
//! the sum of the ranks' results, or by columns, with a gather of them.

use crate::random::Random;
use moye::half::bf16;
use moye::{Buffer, Device, Matrix, MatrixMut, Stream};
use moye_parallel::{Group, Transfer};
use moye_products::grouped::GroupedMatmul;

/// Tokens, columns and K of all ranks; the end of each expert's tokens.
const M: usize = 45;
const N: usize = 48;
const K: usize = 80;
const ENDS: [i32; 4] = [7, 7, 40, 45];
const EXPERTS: usize = ENDS.len();

/// The tokens and weights of all ranks, or of one.
struct Layer {
    /// (M, K)
    tokens: Vec<bf16>,
    /// (EXPERTS, N, K)
    weights: Vec<bf16>,
}

impl Layer {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut values = |count: usize| (0..count).map(|_| bf16::from_f32(random.unit())).collect();
        Self { tokens: values(M * K), weights: values(EXPERTS * N * K) }
    }

    /// (M, N)
    fn reference(&self) -> Vec<f64> {
        let expert = |row: usize| ENDS.iter().position(|&end| row < end as usize).unwrap();
        let dot = |row: usize, column: usize| {
            let weights = (expert(row) * N + column) * K;
            (0..K).map(|x| self.tokens[row * K + x].to_f64() * self.weights[weights + x].to_f64()).sum()
        };
        (0..M * N).map(|at| dot(at / N, at % N)).collect()
    }

    /// These columns of each expert, and of K these elements.
    fn part(&self, columns: std::ops::Range<usize>, k: std::ops::Range<usize>) -> Self {
        let rows = |of: &[bf16]| of.chunks(K).flat_map(|row| row[k.clone()].to_vec()).collect();
        let own = self.weights.chunks(N * K).flat_map(|of| of[columns.start * K..columns.end * K].to_vec());
        Self { tokens: rows(&self.tokens), weights: rows(&own.collect::<Vec<_>>()) }
    }

    /// Multiplies the tokens of each expert by its weights, with K elements in a row: (M, n).
    fn multiply(&self, stream: &Stream, k: usize) -> Buffer<bf16> {
        let (device, n) = (stream.device(), self.weights.len() / EXPERTS / k);
        let (a, b) = (device.upload(&self.tokens).unwrap(), device.upload(&self.weights).unwrap());
        let ends = device.upload(&ENDS).unwrap();
        let mut c = device.alloc_uninit(M * n).unwrap();
        let product = GroupedMatmul::new(
            Matrix::row_major(&a, M, k).unwrap(),
            Matrix::row_major(&b, EXPERTS * n, k).unwrap(),
            Matrix::row_major(&ends, 1, EXPERTS).unwrap(),
        );
        // SAFETY: no other stream uses the matrices.
        unsafe { product.run_on(stream, &mut MatrixMut::row_major(&mut c, M, n).unwrap()).unwrap() };
        c
    }
}

/// What each rank receives in a collective of the ranks' products.
fn exchanged(parts: &[Layer; 2], k: [usize; 2], gathers: bool) -> Vec<Vec<bf16>> {
    let devices = Device::sim_peers(2);
    let group = Group::local(&devices).unwrap();
    let streams = [0, 1].map(|rank| devices[rank].new_stream().unwrap());
    let products = [0, 1].map(|rank: usize| parts[rank].multiply(&streams[rank], k[rank]));
    let count = products[0].len() * if gathers { 2 } else { 1 };
    let mut results = [0, 1].map(|rank: usize| devices[rank].alloc_uninit(count).unwrap());
    let mut calls = Vec::new();
    for ((stream, from), to) in streams.iter().zip(&products).zip(&mut results) {
        calls.push(Transfer { stream, from: from.as_slice(), to: to.as_slice_mut() });
    }
    // SAFETY: no other stream uses the buffers.
    unsafe {
        match gathers {
            true => group.collectives().all_gather(&mut calls).unwrap(),
            false => group.collectives().all_reduce(&mut calls).unwrap(),
        }
    }
    group.wait(&[&streams[0], &streams[1]]).unwrap();
    results.iter().map(|result| result.download().unwrap()).collect()
}

fn assert_close(found: impl Iterator<Item = bf16>, expected: &[f64], what: &str) {
    let (mut difference, mut norm, mut count) = (0.0, 0.0, 0);
    for (found, expected) in found.zip(expected) {
        difference += (found.to_f64() - expected).powi(2);
        norm += expected.powi(2);
        count += 1;
    }
    let error = f64::sqrt(difference / norm);
    assert!(count == M * N && error < 8e-3, "{what}: {error} of {count} elements");
}

#[test]
fn products_of_experts_whose_k_the_ranks_divide_are_summed() {
    let layer = Layer::new(1);
    let parts = [layer.part(0..N, 0..56), layer.part(0..N, 56..K)];
    let expected = layer.reference();
    for (rank, result) in exchanged(&parts, [56, K - 56], false).into_iter().enumerate() {
        assert_close(result.into_iter(), &expected, &format!("rank {rank}"));
    }
}

#[test]
fn products_of_experts_whose_columns_the_ranks_divide_are_gathered() {
    let layer = Layer::new(2);
    let half = N / 2;
    let parts = [layer.part(0..half, 0..K), layer.part(half..N, 0..K)];
    let expected = layer.reference();
    for (rank, result) in exchanged(&parts, [K; 2], true).into_iter().enumerate() {
        // (M, N / 2) of each rank.
        let at = |at: usize| (at % N / half * M + at / N) * half + at % half;
        assert_close((0..M * N).map(|row| result[at(row)]), &expected, &format!("rank {rank}"));
    }
}
