//! Calls that are refused, with the values and the way out.
#![cfg(all(feature = "block_scaled", feature = "grouped", feature = "moe"))]

use half::{bf16, f16};
use moye::number::{F8E4M3, F8E5M2};
use moye::{Device, Matrix, MatrixMut};
use moye_products::block_scaled::BlockScaled;
use moye_products::grouped::GroupedMatmul;
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
