//! Elementwise operations beyond the cases of the harness: in place, special values, and refused
//! calls.

use crate::{array, run};
use half::{bf16, f16};
use moye::operation::{Array, Value};
use moye::{Device, Matrix, MatrixMut};
use moye_rows::activation::{Activate, Activation, BIAS_ACTIVATION, SWIGLU};
use moye_rows::affine::{ADD, AXPBY, Affine, CAST};
use moye_rows::embedding::EMBEDDING;
use moye_rows::rope::ROPE;

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37) % 101) as f32 / 16.0 - 3.0).collect()
}

#[test]
fn results_may_be_an_input() {
    let device = Device::sim();
    for (rows, columns) in [(3, 40), (5, 33), (1, 4099)] {
        let (values, shape) = (numbers(rows * columns), [rows, columns]);
        let (x, y) = (device.upload(&values).unwrap(), device.upload(&values).unwrap());
        let out = device.alloc_uninit::<f32>(values.len()).unwrap();
        let operands = [array(&x, &shape), array(&y, &shape), array(&out, &shape)];
        run(&device, &SWIGLU, &operands, &[]).unwrap();
        let wanted = out.download().unwrap();
        run(&device, &SWIGLU, &[array(&x, &shape), array(&y, &shape), array(&y, &shape)], &[]).unwrap();
        assert_eq!(y.download().unwrap(), wanted);
        run(&device, &ADD, &[array(&x, &shape), array(&x, &shape), array(&x, &shape)], &[]).unwrap();
        assert_eq!(x.download().unwrap(), values.iter().map(|x| x + x).collect::<Vec<_>>());
    }
}

#[test]
fn rotations_in_place_leave_the_other_elements_and_their_inverse_restores() {
    let device = Device::sim();
    let (tokens, heads, elements) = (5, 3, 48);
    let before = numbers(tokens * heads * elements);
    for (rotary, interleaved) in [(48, false), (32, true), (6, false)] {
        let x = device.upload(&before).unwrap();
        let of_x = array(&x, &[tokens, heads, elements]);
        let operands = [of_x.clone(), None, None, None, of_x];
        let options = |inverse| {
            let (rotary, interleaved) = (Value::Int(rotary), Value::Bool(interleaved));
            [("rotary", rotary), ("interleaved", interleaved), ("inverse", Value::Bool(inverse))]
        };
        run(&device, &ROPE, &operands, &options(false)).unwrap();
        let after = x.download().unwrap();
        let is_other = |i: usize| i % elements >= rotary as usize;
        assert!((0..before.len()).all(|i| !is_other(i) || after[i] == before[i]), "rotary {rotary}");
        assert!((0..before.len()).any(|i| after[i] != before[i]), "rotary {rotary}");
        run(&device, &ROPE, &operands, &options(true)).unwrap();
        let after = x.download().unwrap();
        assert!(after.iter().zip(&before).all(|(a, b)| (a - b).abs() < 2e-6), "rotary {rotary}");
    }
}

#[test]
fn tables_of_float32_rotate_16_bit_elements_and_positions_beyond_them_give_nan() {
    let device = Device::sim();
    let values: Vec<bf16> = numbers(3 * 16).into_iter().map(bf16::from_f32).collect();
    let (x, out) = (device.upload(&values).unwrap(), device.alloc_uninit::<bf16>(48).unwrap());
    let positions = device.upload(&[1i64, 4, -1]).unwrap();
    let cos: Vec<f32> = (0..32).map(|i| (i / 8) as f32).collect();
    let sin = device.upload(&[0.0f32; 32]).unwrap();
    let cos = device.upload(&cos).unwrap();
    let shape = &[3, 1, 16][..];
    let tables = (array(&cos, &[4, 8]), array(&sin, &[4, 8]));
    let operands = [array(&x, shape), array(&positions, &[3]), tables.0, tables.1, array(&out, shape)];
    run(&device, &ROPE, &operands, &[]).unwrap();
    let out = out.download().unwrap();
    assert_eq!(out[..16], values[..16]);
    assert!(out[16..].iter().all(|x| x.is_nan()));
}

#[test]
fn indices_of_any_size_that_are_no_rows_give_zeros() {
    let device = Device::sim();
    let table = device.upload(&[1.0f32; 3 * 8]).unwrap();
    let indices = device.upload(&[i64::MIN, -1, 2, 3, i64::MAX]).unwrap();
    let out = device.alloc_uninit::<f32>(5 * 8).unwrap();
    run(&device, &EMBEDDING, &[array(&indices, &[5]), array(&table, &[3, 8]), array(&out, &[5, 8])], &[])
        .unwrap();
    let wanted: Vec<f32> = (0..40).map(|i| if i / 8 == 2 { 1.0 } else { 0.0 }).collect();
    assert_eq!(out.download().unwrap(), wanted);
}

#[test]
fn casts_round_to_even_overflow_to_infinity_and_keep_signs_and_nan() {
    let device = Device::sim();
    let values = [-0.0, 1.0, 2049.0, 2051.0, 65_519.0, 65_520.0, -1e30, 1e-9, f32::NAN, f32::INFINITY];
    let x = device.upload(&values).unwrap();
    let mut half = device.alloc_uninit::<f16>(10).unwrap();
    let matrix = Matrix::row_major(&x, 1, 10).unwrap();
    Affine::new(matrix.clone()).run(&device, &mut MatrixMut::row_major(&mut half, 1, 10).unwrap()).unwrap();
    for (got, value) in half.download().unwrap().into_iter().zip(values) {
        let wanted = f16::from_f32(value);
        assert!(got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan(), "{value}: {got}");
    }
    let mut same = device.alloc_uninit::<f32>(10).unwrap();
    Affine::new(matrix).run(&device, &mut MatrixMut::row_major(&mut same, 1, 10).unwrap()).unwrap();
    for (got, value) in same.download().unwrap().into_iter().zip(values) {
        assert!(got.to_bits() == value.to_bits() || got.is_nan() && value.is_nan(), "{value}: {got}");
    }
    Affine::constant(-0.0).run(&device, &mut MatrixMut::row_major(&mut same, 1, 10).unwrap()).unwrap();
    assert!(same.download().unwrap().iter().all(|x| x.to_bits() == (-0.0f32).to_bits()));
}

#[test]
fn activations_keep_nan_and_have_their_limits_at_infinities() {
    let device = Device::sim();
    let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 100.0, -100.0];
    let x = device.upload(&values).unwrap();
    let infinity = f32::INFINITY;
    for (activation, wanted) in [
        (Activation::None, [f32::NAN, infinity, -infinity, -0.0, 100.0, -100.0]),
        (Activation::Relu, [f32::NAN, infinity, 0.0, 0.0, 100.0, 0.0]),
        (Activation::Relu2, [f32::NAN, infinity, 0.0, 0.0, 10_000.0, 0.0]),
        (Activation::Silu, [f32::NAN, infinity, 0.0, 0.0, 100.0, 0.0]),
        (Activation::Gelu, [f32::NAN, infinity, 0.0, 0.0, 100.0, 0.0]),
        (Activation::GeluTanh, [f32::NAN, infinity, 0.0, 0.0, 100.0, 0.0]),
    ] {
        let mut out = device.alloc_uninit::<f32>(6).unwrap();
        let of = Activate::new(activation, Matrix::row_major(&x, 1, 6).unwrap());
        of.run(&device, &mut MatrixMut::row_major(&mut out, 1, 6).unwrap()).unwrap();
        for (got, wanted) in out.download().unwrap().into_iter().zip(wanted) {
            assert!(
                got == wanted || got.is_nan() && wanted.is_nan() || (got - wanted).abs() < 1e-30,
                "{activation:?}: {got}"
            );
        }
    }
}

#[test]
fn a_y_with_factor_0_is_not_read() {
    let device = Device::sim();
    let (x, y) = (device.upload(&[1.0f32, 2.0]).unwrap(), device.upload(&[f32::NAN; 2]).unwrap());
    let operands = [array(&x, &[2]), array(&y, &[2]), array(&y, &[2])];
    run(&device, &AXPBY, &operands, &[("alpha", Value::Float(3.0)), ("beta", Value::Float(0.0))]).unwrap();
    assert_eq!(y.download().unwrap(), [3.0, 6.0]);
}

#[test]
fn what_does_not_fit_is_refused_with_names_and_values() {
    let device = Device::sim();
    let (x, h) = (device.upload(&[0.0f32; 12]).unwrap(), device.upload(&[f16::ZERO; 12]).unwrap());
    let refused = |declaration, operands: &[Option<Array>], options: &[(&str, Value)], text: &str| {
        let error = run(&device, declaration, operands, options).unwrap_err();
        assert!(error.contains(text), "{error}");
    };
    let of = |shape: &[usize]| array(&x, shape);
    refused(&ADD, &[of(&[3, 4]), of(&[3]), of(&[3, 4])], &[], "shape [3] is not broadcast with [3, 4]");
    refused(
        &ADD,
        &[of(&[12]), array(&h, &[12]), of(&[12])],
        &[],
        "x has elements of float32, and y of float16",
    );
    refused(&SWIGLU, &[of(&[4, 3]), None, of(&[4, 1])], &[], "its last extent must be even");
    refused(&SWIGLU, &[of(&[4, 2]), of(&[2, 4]), of(&[4, 2])], &[], "up has shape [2, 4]");
    let choice = [("activation", Value::Choice("swish", &[]))];
    refused(&BIAS_ACTIVATION, &[of(&[12]), None, of(&[12])], &choice, "must be one of none, relu, relu2");
    let mut repeated = of(&[3, 4]);
    repeated.as_mut().unwrap().strides[0] = 0;
    refused(&CAST, &[of(&[3, 4]), repeated], &[], "the result has stride 0 along axis 0, of 3 elements");
    refused(&EMBEDDING, &[of(&[2]), of(&[3, 4]), of(&[2, 4])], &[], "indices has elements of float32");
    let q = of(&[1, 3, 4]);
    let operands = [q.clone(), None, of(&[1, 2]), None, q.clone()];
    refused(&ROPE, &operands, &[], "cos and sin differ in shape or type, or one is left out");
    let operands = [q.clone(), None, None, None, q];
    refused(&ROPE, &operands, &[("rotary", Value::Int(3))], "3 of 4 elements are rotated");
    refused(&ROPE, &operands, &[("axis", Value::Int(0))], "tokens are axis 0");
}
