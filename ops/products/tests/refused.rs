//! Calls that are refused, with the values and the way out.
#![cfg(all(feature = "block_scaled_groups", feature = "grouped_k", feature = "moe"))]

use half::{bf16, f16};
use moye::number::{F8E4M3, F8E5M2};
use moye::operation::{Array, ArrayType, Call, Declaration, Dtype, Options, Value};
use moye::{Device, Matrix, MatrixMut};
use moye_products::block_scaled::BlockScaled;
use moye_products::block_scaled_groups::{BLOCK_SCALED_K, BLOCK_SCALED_PAIRS};
use moye_products::grouped::{GROUPED, GROUPED_PAIRS, GroupedMatmul};
use moye_products::grouped_k::GROUPED_K;
use moye_products::moe::Moe;

#[test]
fn shapes_that_do_not_agree_are_refused_with_both() {
    let device = Device::sim();
    let bytes = device.upload(&[F8E4M3::from_f32(1.0); 512]).unwrap();
    let (scales, ends) = (device.upload(&[1.0f32; 8]).unwrap(), device.upload(&[1, 2, 3]).unwrap());
    let halves = device.upload(&[bf16::ONE; 512]).unwrap();
    let mut c = device.alloc_uninit::<bf16>(16).unwrap();
    let mut c = MatrixMut::row_major(&mut c, 4, 4).unwrap();
    let of = |rows, columns| Matrix::row_major(&bytes, rows, columns).unwrap();
    let of_scales = |rows, columns| Matrix::row_major(&scales, rows, columns).unwrap();
    let mut refused = |product: BlockScaled<'_>, text: &str| {
        let error = product.run(&device, &mut c).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    };
    refused(BlockScaled::new(of(4, 128), of(4, 128)), "there are no scales; set them with `scales`");
    refused(
        BlockScaled::new(of(4, 128), of(4, 64)).scales(of_scales(4, 1), of_scales(1, 1)),
        "a has shape [4, 128], and must be (m, 64)",
    );
    refused(
        BlockScaled::new(of(4, 128), of(4, 128)).scales(of_scales(3, 1), of_scales(1, 1)),
        "scale_a has shape [3, 1], and must have [4, 1], of which any extent may be 1",
    );
    let (a, b) = (Matrix::row_major(&halves, 4, 8).unwrap(), Matrix::row_major(&halves, 4, 8).unwrap());
    let product = GroupedMatmul::new(a, b, Matrix::row_major(&ends, 1, 3).unwrap());
    let error = product.run(&device, &mut c).unwrap_err().to_string();
    assert!(error.contains("b has 4 rows for 3 groups, and must have as many for each"), "{error}");
}

#[test]
fn layers_of_experts_that_do_not_agree_are_refused_with_their_shapes() {
    let device = Device::sim();
    let (halves, logits) = (device.upload(&[bf16::ONE; 512]).unwrap(), device.upload(&[1.0f32; 16]).unwrap());
    let mut out = device.alloc_uninit::<bf16>(32).unwrap();
    let mut out = MatrixMut::row_major(&mut out, 4, 8).unwrap();
    let of = |rows, columns| Matrix::row_major(&halves, rows, columns).unwrap();
    let mut refused = |experts, gate_up, down, top, text: &str| {
        let logits = Matrix::row_major(&logits, 4, experts).unwrap();
        let layer = Moe::new(of(4, 8), logits, gate_up, down).top(top);
        let error = layer.run(&device, &mut out).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    };
    refused(3, of(10, 8), of(24, 2), 1, "gate_up has 10 rows for 3 groups, and must have as many for each");
    refused(3, of(9, 8), of(24, 2), 1, "gate_up has shape [3, 3, 8], and must be [3, 4, 8]");
    refused(3, of(12, 8), of(27, 2), 1, "down has shape [3, 9, 2], and must be (experts, 8, intermediate)");
    refused(3, of(12, 8), of(24, 2), 4, "top is 4, and of 3 experts a token takes 1 to 3");
    refused(3, of(12, 8), of(24, 2), 0, "top is 0, and of 3 experts a token takes 1 to 3");
}

#[test]
fn types_and_tiles_that_no_kernel_has_are_refused_with_those_there_are() {
    let device = Device::sim();
    let (e4m3, e5m2) = (
        device.upload(&[F8E4M3::from_f32(1.0); 512]).unwrap(),
        device.upload(&[F8E5M2::from_f32(1.0); 512]).unwrap(),
    );
    let scales = device.upload(&[1.0f32; 16]).unwrap();
    let of_scales = |rows, columns| Matrix::row_major(&scales, rows, columns).unwrap();
    let mut c = device.alloc_uninit::<f16>(16).unwrap();
    let mut c = MatrixMut::row_major(&mut c, 4, 4).unwrap();
    let error = BlockScaled::new(
        Matrix::row_major(&e4m3, 4, 128).unwrap(),
        Matrix::row_major(&e5m2, 4, 128).unwrap(),
    )
    .scales(of_scales(4, 1), of_scales(1, 1))
    .run(&device, &mut c)
    .unwrap_err()
    .to_string();
    assert!(error.contains("there is no kernel \"e4m3_e5m2\" with results of float16"), "{error}");
    let mut q = device.alloc_uninit::<F8E4M3>(16).unwrap();
    let error = BlockScaled::new(
        Matrix::row_major(&e4m3, 4, 128).unwrap(),
        Matrix::row_major(&e4m3, 4, 128).unwrap(),
    )
    .scales(of_scales(4, 1), of_scales(1, 1))
    .run(&device, &mut MatrixMut::row_major(&mut q, 4, 4).unwrap())
    .unwrap_err()
    .to_string();
    assert!(error.contains("a result of float8_e4m3fn has scales; give out_scales"), "{error}");
}

/// A call of a declared operation on arrays without memory: it is refused before a launch, which
/// would be a fault. The results have the declared types.
fn refused(
    declaration: &'static Declaration,
    inputs: &[Option<(&[usize], Dtype)>],
    options: &[(&str, Value)],
    left_out: &[&str],
    text: &str,
) {
    let device = Device::sim();
    let mut set = Options::of(declaration);
    for (name, value) in options {
        set.set(declaration.name, name, *value).unwrap();
    }
    let ty = |&(shape, dtype): &(&[usize], Dtype)| ArrayType { dtype, shape: shape.to_vec() };
    let types: Vec<_> = inputs.iter().map(|input| input.as_ref().map(ty)).collect();
    let error = (declaration.results)(&types, &set).and_then(|results| {
        let written = declaration.operands.iter().filter(|operand| !operand.role.is_input()).zip(results);
        let written = written.map(|(operand, ty)| (!left_out.contains(&operand.name)).then_some(ty));
        let array = |ty: Option<ArrayType>| ty.map(|ty| Array::row_major(&ty, 1 << 20));
        let operands: Vec<_> = types.iter().cloned().chain(written).map(array).collect();
        let call = Call { operands: &operands, options: &set };
        // SAFETY: it is refused.
        unsafe { (declaration.run)(&device.default_stream(), &call) }
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains(text), "{error}");
}

const HALF: Dtype = Dtype::Bf16;
const EIGHT: Dtype = Dtype::E4m3;
const F32: Dtype = Dtype::F32;

#[test]
fn a_product_of_a_list_without_its_result_is_refused() {
    let of = |rows: &'static [usize]| Some((rows, HALF));
    let inputs = [of(&[3, 16]), of(&[5, 16]), of(&[4, 8]), of(&[2, 8]), None, None, None, None];
    refused(&GROUPED_PAIRS, &inputs, &[], &["out1"], "a1 and b1 are given without out1; give it, or leave");
    let (of, scale) = (|rows: &'static [usize]| Some((rows, EIGHT)), Some((&[1, 1][..], F32)));
    let mut inputs = [None; 16];
    inputs[..4].copy_from_slice(&[of(&[3, 16]), of(&[5, 16]), scale, scale]);
    inputs[12..].copy_from_slice(&[of(&[3, 16]), of(&[5, 16]), scale, scale]);
    refused(
        &BLOCK_SCALED_PAIRS,
        &inputs,
        &[],
        &["out3"],
        "a3 and b3 are given without out3; give it, or leave",
    );
}

#[test]
fn extents_that_kernels_do_not_count_are_refused_with_the_values() {
    const MANY: usize = 1 << 30;
    let half = |shape: &'static [usize]| Some((shape, HALF));
    let ends = |shape: &'static [usize]| Some((shape, Dtype::I32));
    // Tiles of 32 bits.
    let inputs = [half(&[MANY, 8]), half(&[1, MANY, 8]), ends(&[1])];
    refused(&GROUPED, &inputs, &[], &[], "tiles, and may have 2147483647; divide it");
    // Rows of all groups, and a copy of rows that are not aligned.
    let inputs = [half(&[8, MANY, 8]), half(&[8, 1, 8]), ends(&[8])];
    refused(
        &GROUPED,
        &inputs,
        &[],
        &[],
        "an operand has shape [8, 1073741824, 8], and may have 2147483647 rows",
    );
    let inputs = [half(&[MANY, 9]), half(&[1, 1, 9]), ends(&[1])];
    refused(&GROUPED, &inputs, &[], &[], "an operand has shape [1073741824, 9] and strides [9, 1], and rows");
    // Groups along a grid, and rows of all results.
    let inputs = [half(&[8, 8]), half(&[8, 8]), ends(&[70_000])];
    refused(&GROUPED_K, &inputs, &[], &[], "70000 groups of results of 8 x 8; groups are 65535 at most");
    let inputs = [half(&[8, MANY]), half(&[8, 8]), ends(&[2])];
    refused(&GROUPED_K, &inputs, &[], &[], "2 groups of results of 1073741824 x 8; groups are 65535 at most");
    // Elements along K of the copies.
    let (eight, scale) = (|shape: &'static [usize]| Some((shape, EIGHT)), Some((&[1, 1][..], F32)));
    let inputs = [eight(&[300, 1]), eight(&[300, 1]), scale, scale, ends(&[1 << 25])];
    refused(&BLOCK_SCALED_K, &inputs, &[], &[], "are copied to rows of 4294967680 elements");
}

#[test]
fn results_of_f16_are_refused_for_operands_of_e5m2() {
    let (of, scale) = (Some((&[3, 16][..], Dtype::E5m2)), Some((&[1, 1][..], F32)));
    let inputs = [of, of, scale, scale, Some((&[1][..], Dtype::I32))];
    let f16 = [("dtype", Value::Dtype(Dtype::F16))];
    refused(
        &BLOCK_SCALED_K,
        &inputs,
        &f16,
        &[],
        "of float8_e5m2 by float8_e5m2 they may be bfloat16 or float32",
    );
}
