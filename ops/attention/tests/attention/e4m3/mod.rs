//! Attention of e4m3 on the simulator, against softmax attention in f64. Random cases go through
//! the call, in `tests/host/attention`.

#[allow(dead_code, reason = "the tests of the call use all of it")]
mod case;

use crate::lines;
use crate::reference::Errors;
use case::{Case, compare};
use half::bf16;
use moye_attention::kernels::hopper::*;
use moye_attention::kernels::{self, Arguments, Strides, Window};
use moye_device::atom::tma::TmaMap;
use moye_device::kernel::Kernel;
use moye_device::layout;
use moye_device::memory::{Global, GlobalMut};
use moye_device::number::F8E4M3;
use moye_sim::{Allocation, GlobalMemory};

type Parameters<C> =
    (TmaMap<TmaQ<C>>, TmaMap<TmaK<C>>, TmaMap<TmaV<C>>, TmaMap<TmaO<C>>, Arguments<F8E4M3>, Scales, u32);

const POISON: u8 = 0xff;

fn run<C: HopperConfig<Operand = F8E4M3, T = bf16>>(
    kernel: &Kernel<Parameters<C>>,
    case: &Case,
    seed: u64,
) -> Errors {
    let operands = case.operands(seed);
    let [q, k, v] = &operands;
    let kv_heads = case.kv_heads();
    let memory = GlobalMemory::new();
    let upload = |bytes: &[u8]| {
        let buffer = memory.alloc(bytes.len(), "operand").unwrap();
        buffer.write(0, bytes).unwrap();
        buffer
    };
    let floats = |values: &[f32]| -> Allocation {
        upload(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
    };
    let [q_buffer, k_buffer, v_buffer] = [q, k, v].map(|operand| upload(&operand.bytes()));
    let [q_factors, k_factors, v_factors] = [q, k, v].map(|operand| floats(&operand.factors));
    let rows = case.rows();
    let (o_buffer, lse_buffer) = (upload(&vec![POISON; 2 * rows * case.d]), upload(&vec![POISON; 4 * rows]));
    let pointer = |buffer: &Allocation| Global::<F8E4M3>::from_address(buffer.address());
    let tokens = case.q_length as i64;
    let contiguous = |row: i64| Strides { batch: case.heads as i64 * tokens * row, row, head: tokens * row };
    let mut arguments = Arguments {
        stride_o: contiguous(case.d as i64),
        stride_lse: contiguous(1),
        q: pointer(&q_buffer),
        k: pointer(&k_buffer),
        v: pointer(&v_buffer),
        o: GlobalMut::from_address(o_buffer.address()),
        batches: case.batches as u32,
        heads: case.heads as u32,
        group: (case.heads / kv_heads) as u32,
        q_length: case.q_length as u32,
        k_length: case.k_length as u32,
        ..Arguments::none()
    };
    if !C::SUMS_BY_WGMMA {
        arguments.lse = GlobalMut::from_address(lse_buffer.address());
    }
    arguments.window = case.window;
    arguments.scale = 1.0 / (case.d as f32).sqrt();
    (arguments.stride_q, arguments.stride_k, arguments.stride_v) = (q.strides, k.strides, v.strides);
    let _ = arguments.grid(64 * C::WARPGROUPS);
    let scale = |factors: &Allocation, [batch, head]: [u32; 2]| Scale {
        factors: Global::from_address(factors.address()),
        batch,
        head,
    };
    let scales = Scales {
        q: scale(&q_factors, q.scale_strides),
        k: scale(&k_factors, k.scale_strides),
        v: scale(&v_factors, v.scale_strides),
    };
    let tensor = |tokens: usize, heads: usize, strides: &Strides| {
        let Strides { batch, row, head } = *strides;
        let [tokens, heads, batches] = [tokens, heads, case.batches].map(|extent| extent as i64);
        layout!((tokens, { C::D }, heads, batches):(row, 1, head, batch))
    };
    let queries = tensor(case.q_length, case.heads, &q.strides);
    let keys = tensor(case.k_length, kv_heads, &k.strides);
    let maps = (
        TmaMap::from_words(TmaQ::<C>::tensor_map(q_buffer.address(), &queries).unwrap().encode()),
        TmaMap::from_words(TmaK::<C>::tensor_map(k_buffer.address(), &keys).unwrap().encode()),
        TmaMap::from_words(TmaV::<C>::tensor_map(v_buffer.address(), &keys).unwrap().encode()),
        TmaMap::from_words(TmaO::<C>::tensor_map(o_buffer.address(), &queries).unwrap().encode()),
    );
    let parameters = (maps.0, maps.1, maps.2, maps.3, arguments, scales, 2);
    // A profile takes several times as long: short cases have one.
    // SAFETY: the operands of the case.
    let done = unsafe {
        if case.q_length < 64 {
            let profile = kernel.profile(&memory, case.blocks, C::THREADS, parameters);
            profile.map(|profile| lines::are_of_kernels(&profile))
        } else {
            kernel.simulate(&memory, case.blocks, C::THREADS, parameters).map(drop)
        }
    };
    done.unwrap_or_else(|fault| panic!("{fault}\n{case:?}"));
    let (o, lse) = (o_buffer.download::<bf16>(), lse_buffer.download::<f32>());
    compare(case, &operands, &o, (!C::SUMS_BY_WGMMA).then_some(&lse), seed)
}

fn check(case: &Case, seed: u64) -> Errors {
    match case.d {
        64 if seed.is_multiple_of(2) => run::<E4m3D64<F8E4M3>>(&kernels::hopper_e4m3_64, case, seed),
        64 => run::<E4m3D64Lse<F8E4M3>>(&kernels::hopper_e4m3_64_lse, case, seed),
        128 if seed.is_multiple_of(3) => run::<E4m3D128<F8E4M3>>(&kernels::hopper_e4m3_128, case, seed),
        128 if seed % 3 == 1 => run::<E4m3D128Causal<F8E4M3>>(&kernels::hopper_e4m3_128_causal, case, seed),
        128 => run::<E4m3D128Lse<F8E4M3>>(&kernels::hopper_e4m3_128_lse, case, seed),
        _ => run::<E4m3D256<F8E4M3>>(&kernels::hopper_e4m3_256, case, seed),
    }
}

#[test]
fn several_tiles_of_queries_and_keys_of_each_kernel_are_within_the_rounding_of_the_probabilities() {
    for (d, seed) in [(64, 0), (64, 1), (128, 0), (128, 1), (128, 2), (256, 0)] {
        for window in [Window::ALL, Window::CAUSAL] {
            let case = Case {
                d,
                batches: 1,
                heads: 2,
                group: 2,
                q_length: 260,
                k_length: 700,
                window,
                token_first: true,
                scales: 0,
                planted: vec![],
                blocks: 2,
                larger: 1.0,
            };
            let errors = check(&case, seed);
            // The root mean square error of rounding to e4m3 is about 0.026 of a value.
            assert!(errors.relative() <= 0.03, "{case:?}: {errors}");
        }
    }
}

#[test]
fn scores_beyond_the_online_softmax_give_the_value_of_the_largest() {
    for (d, seed) in [(64, 0), (64, 1), (128, 0), (128, 1), (128, 2), (256, 0)] {
        let case = Case {
            d,
            batches: 1,
            heads: 1,
            group: 1,
            q_length: 9,
            k_length: 210,
            window: Window::ALL,
            token_first: true,
            scales: 0,
            planted: vec![],
            blocks: 1,
            larger: 3.0e7,
        };
        check(&case, seed);
    }
}
