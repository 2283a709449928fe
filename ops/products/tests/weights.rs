//! Weights in every file format, packed and unpacked again, have the values that the format
//! defines.
#![cfg(feature = "weights")]

use crate::check_random;
use crate::random::Random;
use half::{bf16, f16};
use moye::number::F8E4M3;
use moye::operation::{ArrayType, Case, Declaration, Dtype, Options, Value, harness};
use moye::{Device, Matrix, MatrixMut};
use moye_products::weights::{LINEAR_QUANTIZED, LINEAR_QUANTIZED_A8, PACK_WEIGHTS, PackedWeights};

fn bytes(count: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..count).map(|_| random.below(256) as u8).collect()
}

/// Factors below 2 in magnitude.
fn factors(count: usize, seed: u64) -> Vec<f16> {
    bytes(count, seed).into_iter().map(|byte| f16::from_f32(f32::from(byte as i8) / 64.0)).collect()
}

fn half(block: &[u8], at: usize) -> f64 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f64()
}

/// The weights of a block of GGUF, as `ggml-quants.c` of llama.cpp dequantises them.
fn of_block(form: &str, block: &[u8]) -> Vec<f64> {
    let nibble = |first: usize, i: usize| f64::from(block[first + i % 16] >> (i / 16 * 4) & 15);
    let six = |j: usize| {
        let s = &block[4..16];
        let (scale, minimum) = match j {
            0..4 => (s[j] & 63, s[j + 4] & 63),
            _ => (s[j + 4] & 15 | (s[j - 4] >> 6) << 4, s[j + 4] >> 4 | (s[j] >> 6) << 4),
        };
        (half(block, 0) * f64::from(scale), half(block, 2) * f64::from(minimum))
    };
    match form {
        "q4_0" => (0..32).map(|i| half(block, 0) * (nibble(2, i) - 8.0)).collect(),
        "q4_1" => (0..32).map(|i| half(block, 0) * nibble(4, i) + half(block, 2)).collect(),
        "q8_0" => (0..32).map(|i| half(block, 0) * f64::from(block[2 + i] as i8)).collect(),
        "q4_k" => (0..256)
            .map(|i| {
                let (scale, minimum) = six(i / 32);
                let code = block[16 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
                scale * f64::from(code) - minimum
            })
            .collect(),
        "q5_k" => (0..256)
            .map(|i| {
                let (scale, minimum) = six(i / 32);
                let code = block[48 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
                let fifth = block[16 + i % 32] >> (i / 32) & 1;
                scale * f64::from(code + 16 * fifth) - minimum
            })
            .collect(),
        "q6_k" => {
            let mut weights = vec![0.0; 256];
            for half_of_block in 0..2 {
                let low = &block[64 * half_of_block..];
                let high = &block[128 + 32 * half_of_block..];
                let scales = &block[192 + 8 * half_of_block..];
                for l in 0..32 {
                    for (quarter, code) in [
                        low[l] & 15 | (high[l] & 3) << 4,
                        low[l + 32] & 15 | (high[l] >> 2 & 3) << 4,
                        low[l] >> 4 | (high[l] >> 4 & 3) << 4,
                        low[l + 32] >> 4 | (high[l] >> 6 & 3) << 4,
                    ]
                    .into_iter()
                    .enumerate()
                    {
                        let scale = f64::from(scales[l / 16 + 2 * quarter] as i8);
                        weights[128 * half_of_block + 32 * quarter + l] =
                            half(block, 208) * scale * (f64::from(code) - 32.0);
                    }
                }
            }
            weights
        }
        _ => unreachable!("{form}"),
    }
}

/// Asserts that the weights are these, to the rounding to f16 of a scale, which two products may
/// have as a factor, of a minimum, and of the result.
fn assert_weights(weights: &PackedWeights, device: &Device, wanted: &[f64], what: &str) {
    let (n, k) = (weights.rows(), weights.columns());
    assert_eq!(n * k, wanted.len(), "{what}");
    let mut out = device.alloc_uninit::<f16>(n * k).unwrap();
    let mut matrix = MatrixMut::row_major(&mut out, n, k).unwrap();
    // SAFETY: the default stream runs its work in order.
    unsafe { weights.unpack_on(&device.default_stream(), &mut matrix) }.unwrap();
    let got: Vec<f64> = out.download().unwrap().into_iter().map(f16::to_f64).collect();
    let most = wanted.iter().fold(0.0f64, |most, w| most.max(w.abs()));
    for (i, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        assert!(
            (got - wanted).abs() <= 4.0 * 2f64.powi(-11) * most,
            "{what}: weight {i} is {got}, and must be {wanted}"
        );
    }
}

#[test]
fn every_form_of_gguf_is_packed_as_it_is_defined() {
    for device in harness::devices() {
        for (form, weights, size, halves) in [
            ("q4_0", 32, 18, &[0][..]),
            ("q4_1", 32, 20, &[0, 2]),
            ("q8_0", 32, 34, &[0]),
            ("q4_k", 256, 144, &[0, 2]),
            ("q5_k", 256, 176, &[0, 2]),
            ("q6_k", 256, 210, &[208]),
        ] {
            let (n, blocks) = (19, 3);
            let mut data = bytes(n * blocks * size, 7);
            for (block, scale) in data.chunks_mut(size).zip(factors(n * blocks, 8)) {
                for at in halves {
                    block[*at..at + 2].copy_from_slice(&scale.to_le_bytes());
                }
            }
            let wanted: Vec<f64> = data.chunks(size).flat_map(|block| of_block(form, block)).collect();
            let uploaded = device.upload(&data).unwrap();
            let matrix = Matrix::row_major(&uploaded, n, blocks * size).unwrap();
            let packed = PackedWeights::blocks(form, &matrix).unwrap();
            assert_eq!((packed.rows(), packed.columns()), (n, blocks * weights), "{form}");
            assert_weights(&packed, &device, &wanted, form);
        }
    }
}

#[test]
fn plain_codes_gptq_and_awq_are_packed_as_they_are_defined() {
    let (n, k, group) = (24, 128, 64);
    let groups = k / group;
    let codes: Vec<u8> = bytes(n * k, 1).into_iter().map(|byte| byte % 16).collect();
    let (scales, minima) = (factors(n * groups, 2), factors(n * groups, 3));
    let zeros: Vec<u8> = bytes(n * groups, 4).into_iter().map(|byte| byte % 15).collect();
    let by_group = |of: &[f16], row: usize, column: usize| of[row * groups + column / group].to_f64();
    let each =
        |f: &dyn Fn(usize, usize) -> f64| -> Vec<f64> { (0..n * k).map(|i| f(i / k, i % k)).collect() };
    // Words of nibbles along a mode: `nibble(word, i)` returns nibble `i` of a word.
    let words = |count: usize, nibble: &dyn Fn(usize, usize) -> u8| -> Vec<i32> {
        (0..count)
            .map(|word| (0..8).fold(0, |bits, i| bits | i32::from(nibble(word, i)) << (4 * i)))
            .collect()
    };
    let transposed: Vec<f16> = (0..groups * n).map(|i| scales[i % n * groups + i / n]).collect();
    // The place of a row among the nibbles of AWQ's words.
    const ORDER: [usize; 8] = [0, 2, 4, 6, 1, 3, 5, 7];

    for device in harness::devices() {
        let scales_at = device.upload(&scales).unwrap();
        let minima_at = device.upload(&minima).unwrap();
        let (of_scales, of_minima) = (
            Matrix::row_major(&scales_at, n, groups).unwrap(),
            Matrix::row_major(&minima_at, n, groups).unwrap(),
        );
        let nibbles: Vec<u8> = codes.chunks(2).map(|pair| pair[0] | pair[1] << 4).collect();
        let nibbles = device.upload(&nibbles).unwrap();
        let nibbles = Matrix::row_major(&nibbles, n, k / 2).unwrap();
        let code = |row: usize, column: usize| f64::from(codes[row * k + column]);
        let packed = PackedWeights::nibbles(&nibbles, &of_scales, Some(&of_minima)).unwrap();
        let wanted = each(&|row, column| {
            code(row, column) * by_group(&scales, row, column) + by_group(&minima, row, column)
        });
        assert_weights(&packed, &device, &wanted, "nibbles with minima");
        let packed = PackedWeights::nibbles(&nibbles, &of_scales, None).unwrap();
        let wanted = each(&|row, column| (code(row, column) - 8.0) * by_group(&scales, row, column));
        assert_weights(&packed, &device, &wanted, "nibbles");

        let signed: Vec<i8> = bytes(n * k, 5).into_iter().map(|byte| byte as i8).collect();
        let of_signed = device.upload(&signed).unwrap();
        let packed =
            PackedWeights::of_bytes(&Matrix::row_major(&of_signed, n, k).unwrap(), &of_scales, None).unwrap();
        let wanted =
            each(&|row, column| f64::from(signed[row * k + column]) * by_group(&scales, row, column));
        assert_weights(&packed, &device, &wanted, "bytes");

        let matrix = Matrix::row_major(&of_signed, n, k).unwrap();
        let packed = PackedWeights::of_bytes(&matrix, &of_scales, Some(&of_minima)).unwrap();
        // The minimum of code 0, which means -128, is rounded to f16.
        let minimum = |row: usize, column: usize| {
            let [scale, minimum] = [&scales, &minima].map(|of| by_group(of, row, column));
            f16::from_f64(minimum - 128.0 * scale).to_f64()
        };
        let wanted = each(&|row, column| {
            let code = f64::from(signed[row * k + column]) + 128.0;
            code * by_group(&scales, row, column) + minimum(row, column)
        });
        assert_weights(&packed, &device, &wanted, "bytes with minima");

        let of_transposed = device.upload(&transposed).unwrap();
        let of_transposed = Matrix::row_major(&of_transposed, groups, n).unwrap();
        let gptq = words(k / 8 * n, &|word, i| codes[word % n * k + word / n * 8 + i]);
        let gptq_zeros =
            words(groups * n / 8, &|word, i| zeros[(word % (n / 8) * 8 + i) * groups + word / (n / 8)]);
        let (gptq, gptq_zeros) = (device.upload(&gptq).unwrap(), device.upload(&gptq_zeros).unwrap());
        let packed = PackedWeights::gptq(
            &Matrix::row_major(&gptq, k / 8, n).unwrap(),
            &of_transposed,
            &Matrix::row_major(&gptq_zeros, groups, n / 8).unwrap(),
        )
        .unwrap();
        let zero = |row: usize, column: usize| f64::from(zeros[row * groups + column / group]);
        let wanted = each(&|row, column| {
            (code(row, column) - zero(row, column) - 1.0) * by_group(&scales, row, column)
        });
        assert_weights(&packed, &device, &wanted, "gptq");

        let awq = words(k * n / 8, &|word, i| codes[(word % (n / 8) * 8 + ORDER[i]) * k + word / (n / 8)]);
        let awq_zeros = words(groups * n / 8, &|word, i| {
            zeros[(word % (n / 8) * 8 + ORDER[i]) * groups + word / (n / 8)]
        });
        let (awq, awq_zeros) = (device.upload(&awq).unwrap(), device.upload(&awq_zeros).unwrap());
        let packed = PackedWeights::awq(
            &Matrix::row_major(&awq, k, n / 8).unwrap(),
            &of_transposed,
            &Matrix::row_major(&awq_zeros, groups, n / 8).unwrap(),
        )
        .unwrap();
        let wanted =
            each(&|row, column| (code(row, column) - zero(row, column)) * by_group(&scales, row, column));
        assert_weights(&packed, &device, &wanted, "awq");
    }
}

#[test]
fn packed_e4m3_is_the_same_unpacked_and_nan_stays_in_its_group() {
    // All codes; rows and elements past those of whole tiles and steps.
    let (n, k, group) = (19, 96, 16);
    let groups = k / group;
    let codes: Vec<u8> = (0..n * k).map(|i| (i * 7 + i / 256) as u8).collect();
    let code = |i: usize| F8E4M3::from_bits(codes[i]);
    let scales = factors(n * groups, 2);
    for device in harness::devices() {
        let codes_at = device.upload(&(0..n * k).map(code).collect::<Vec<_>>()).unwrap();
        let matrix = Matrix::row_major(&codes_at, n, k).unwrap();
        let of_scales = device.upload(&scales).unwrap();
        let of = |factors| Matrix::row_major(factors, n, groups).unwrap();
        let packed = PackedWeights::e4m3(&matrix, &of(&of_scales)).unwrap();
        let mut out = device.alloc_uninit::<f16>(n * k).unwrap();
        let mut floats = MatrixMut::row_major(&mut out, n, k).unwrap();
        // SAFETY: the default stream runs its work in order.
        unsafe { packed.unpack_on(&device.default_stream(), &mut floats) }.unwrap();
        for (i, got) in out.download().unwrap().into_iter().enumerate() {
            let first = i / group * group;
            if (first..first + group).any(|i| code(i).is_nan()) {
                assert!(got.is_nan(), "weight {i} is {got}");
                continue;
            }
            // A product of 4 bits by 11, in f32.
            let wanted = f16::from_f32(code(i).to_f32() * scales[i / group].to_f32());
            assert_eq!(got.to_f32(), wanted.to_f32(), "weight {i}");
        }
    }
}

#[test]
fn scales_of_bf16_and_f32_are_rounded_to_f16() {
    let (n, k, groups) = (17, 64, 2);
    let codes: Vec<_> =
        bytes(n * k, 1).into_iter().map(|byte| F8E4M3::from_f32(f32::from(byte) / 16.0)).collect();
    // Values of bf16, some of which are rounded to f16.
    let scales: Vec<_> = (0..n * groups).map(|i| bf16::from_f32(1.7e-5 * (i + 1) as f32)).collect();
    for device in harness::devices() {
        let codes_at = device.upload(&codes).unwrap();
        let matrix = Matrix::row_major(&codes_at, n, k).unwrap();
        let wide: Vec<f32> = scales.iter().map(|scale| scale.to_f32()).collect();
        let (narrow, wide) = (device.upload(&scales).unwrap(), device.upload(&wide).unwrap());
        let packed = [
            PackedWeights::e4m3(&matrix, &Matrix::row_major(&narrow, n, groups).unwrap()).unwrap(),
            PackedWeights::e4m3(&matrix, &Matrix::row_major(&wide, n, groups).unwrap()).unwrap(),
        ];
        for packed in packed {
            let mut out = device.alloc_uninit::<f16>(n * k).unwrap();
            let mut floats = MatrixMut::row_major(&mut out, n, k).unwrap();
            // SAFETY: the default stream runs its work in order.
            unsafe { packed.unpack_on(&device.default_stream(), &mut floats) }.unwrap();
            for (i, got) in out.download().unwrap().into_iter().enumerate() {
                let scale = f16::from_f32(scales[i / k * groups + i % k / (k / groups)].to_f32());
                assert_eq!(got, f16::from_f32(codes[i].to_f32() * scale.to_f32()), "weight {i}");
            }
        }
        let words = device.upload(&[1i32; 64]).unwrap();
        let scales = Matrix::row_major(&words, n, groups).unwrap();
        let error = PackedWeights::e4m3(&matrix, &scales).unwrap_err().to_string();
        assert!(error.contains("scales of float16, bfloat16 or float32 [17, 2]"), "{error}");
    }
}

#[test]
fn forms_and_shapes_that_no_kernel_takes_are_refused_with_what_it_takes() {
    let device = Device::sim();
    let codes = device.upload(&[0u8; 16 * 48]).unwrap();
    let scales = device.upload(&[f16::ONE; 16 * 6]).unwrap();
    let refused = |result: moye::Result<PackedWeights>, text: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    };
    let matrix = |rows, columns| Matrix::row_major(&codes, rows, columns).unwrap();
    let of_scales = |groups| Matrix::row_major(&scales, 16, groups).unwrap();
    refused(PackedWeights::blocks("q3_k", &matrix(16, 18)), "must be one of nibbles, bytes, e4m3, gptq");
    refused(PackedWeights::blocks("q4_0", &matrix(16, 20)), "rows have 20 bytes, and q4_0 has blocks of 18");
    refused(
        PackedWeights::nibbles(&matrix(16, 48), &of_scales(6), None),
        "groups of 32, 64, 128, ... or one",
    );
    let floats = device.upload(&[F8E4M3::from_f32(1.0); 16 * 48]).unwrap();
    refused(
        PackedWeights::e4m3(&Matrix::row_major(&floats, 16, 48).unwrap(), &of_scales(6)),
        "of 8 bits a row takes groups of 16, 32, 64, ... or one",
    );
    refused(
        PackedWeights::nibbles(&matrix(8, 48), &of_scales(3), None),
        "has scales of float16, bfloat16 or float32 [8, 3]",
    );
}

#[test]
fn sizes_and_offsets_beyond_the_kernels_numbers_are_refused_with_what_they_may_be() {
    let (e4m3, of_8) = (Dtype::E4m3, &LINEAR_QUANTIZED_A8);
    let refused =
        |declaration: &Declaration, types: &[(Dtype, &[usize])], set: &[(&str, i64)], text: &str| {
            let types: Vec<_> = types
                .iter()
                .map(|&(dtype, shape)| Some(ArrayType { dtype, shape: shape.to_vec() }))
                .chain([None, None])
                .collect();
            let mut options = Options::of(declaration);
            set.iter()
                .for_each(|&(name, value)| options.set(declaration.name, name, Value::Int(value)).unwrap());
            let error = (declaration.results)(&types, &options).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        };
    let of = |k: usize| [(Dtype::U8, vec![1, k / 64, 512]), (Dtype::F16, vec![1, 1, 8, 2])];
    let [codes, factors] = of(64);
    let (codes, factors) = ((codes.0, &*codes.1), (factors.0, &*factors.1));
    let x: (_, &[usize]) = (Dtype::F16, &[3, 64]);
    for offset in [-1, 16] {
        refused(&LINEAR_QUANTIZED, &[x, codes, factors], &[("offset", offset)], "it is from 0 to 15");
    }
    refused(&LINEAR_QUANTIZED, &[x, codes, factors], &[("rows", -1)], "W has 0 rows");
    // Rows whose codes have more than 2^32 bytes.
    let k = 1 << 30;
    let [codes, factors] = of(k);
    let (codes, factors) = ((codes.0, &*codes.1), (factors.0, &*factors.1));
    let wide = [(Dtype::F16, &[1, k][..]), codes, factors];
    refused(&LINEAR_QUANTIZED, &wide, &[("rows", 8)], "in 1 groups, and may have 536870848");
    // Converted activations of more than 2^32 elements.
    let (x, scales) = ((e4m3, &[300_000, 14_336][..]), (Dtype::F32, &[300_000][..]));
    let [codes, factors] = of(14_336);
    let (codes, factors) = ((codes.0, &*codes.1), (factors.0, &*factors.1));
    refused(of_8, &[x, scales, codes, factors], &[], "call it for parts of the rows");
    // GPTQ's words of eight zeros.
    let [words, scales, zeros] = [[8, 12], [1, 12], [1, 1]];
    let types = [(Dtype::I32, &words[..]), (Dtype::F16, &scales[..]), (Dtype::I32, &zeros[..])];
    let types = types.map(|(dtype, shape)| Some(ArrayType { dtype, shape: shape.to_vec() }));
    let mut options = Options::of(&PACK_WEIGHTS);
    options.choose("pack_weights", "form", "gptq").unwrap();
    let error = (PACK_WEIGHTS.results)(&types, &options).unwrap_err().to_string();
    assert!(
        error.contains("gptq has 12 rows of weights; words of eight zeros need a multiple of 8"),
        "{error}"
    );
}

#[test]
fn products_by_random_quantised_weights_are_those_of_float64() {
    check_random(&LINEAR_QUANTIZED, |seed, is_gpu| {
        let mut random = Random::new(seed);
        // Bits of a code, whether it is e4m3, and factors of two rows: scales, or also minima.
        let kinds = [(4, false, 2), (4, false, 4), (8, false, 2), (8, false, 4), (8, true, 2)];
        let (bits, e4m3, parts) = kinds[seed as usize % kinds.len()];
        let unit = if bits == 4 { 32 } else { 16 };
        let [most_n, most_k] = if is_gpu { [400, 2048] } else { [48, 256] };
        // One group of any multiple of 8 weights, or groups of 1, 2, 4 or 8 units.
        let group = if random.one_in(3) { None } else { Some(unit << random.below(4)) };
        let (k, groups) = match group {
            None => (8 * (1 + random.below(most_k / 8)), 1),
            Some(group) => {
                let groups = 1 + random.below(most_k / group);
                (group * groups, groups)
            }
        };
        let most = if random.one_in(2) { 16 } else { 300 };
        let m = 1 + random.below(most);
        let (n, gated) = (1 + random.below(most_n), random.one_in(3));
        let tiles = n.div_ceil(16);
        let (n, columns) = if gated { (16 * tiles, 8 * tiles) } else { (n, n) };
        let mut inputs = vec![
            Some(vec![m, k]),
            Some(vec![tiles, k.div_ceil(2 * unit), 512]),
            Some(vec![tiles, groups, 8, parts]),
            None,
            None,
        ];
        if random.one_in(2) {
            inputs[3] = Some(vec![m, columns]);
        }
        if random.one_in(3) {
            inputs[4] = Some(vec![k]);
        }
        // Gates and ups of about 5, whose products f16 has.
        let of_gates = if bits == 4 { 0.5 } else { 0.016 };
        let factor = if gated { of_gates / (k as f64).sqrt() } else { 0.5 };
        let inputs = Vec::from_iter(inputs.into_iter().map(|shape| shape.map(|shape| &*shape.leak())));
        Case::new(inputs.leak())
            .ranges(vec![("codes", 0.0, 256.0), ("factors", -factor, factor)].leak())
            .options(
                vec![
                    ("bits", Value::Int(bits)),
                    ("e4m3", Value::Bool(e4m3)),
                    ("rows", Value::Int(n as i64)),
                    ("gated", Value::Bool(gated)),
                ]
                .leak(),
            )
    });
}
