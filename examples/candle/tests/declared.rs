//! Declared operations on tensors of the host, which run on the simulator, beside candle's own
//! arithmetic in float64.

use crate::{error, random};
use candle_core::{D, DType, Result, Tensor};
use moye::interop::candle::Declared;
use moye::operation::{Dtype, Value};
use moye_products::few::LINEAR_FEW;
use moye_rows::norm::RMS_NORM;
use moye_rows::quantize::QUANTIZE;
use moye_rows::softmax::SOFTMAX;

fn softmax(x: &Tensor) -> Result<Tensor> {
    let exp = x.broadcast_sub(&x.max_keepdim(D::Minus1)?)?.exp()?;
    exp.broadcast_div(&exp.sum_keepdim(D::Minus1)?)
}

#[test]
fn views_are_read_in_place_and_results_have_the_type_of_the_operand() -> Result<()> {
    for (dtype, tolerance) in [(DType::F32, 1e-6), (DType::F16, 1e-3), (DType::BF16, 8e-3)] {
        // Neither dense nor at the start of its storage.
        let x = random(&[40, 3, 7], dtype)?.transpose(0, 2)?.narrow(2, 5, 33)?; // (7, 3, 33)
        let y = Declared::new(&SOFTMAX).run(&[Some(&x)])?;
        let [y] = &y[..] else { panic!("one result") };
        assert_eq!((y.dims(), y.dtype()), (&[7, 3, 33][..], dtype));
        let error = error(y, &softmax(&x.to_dtype(DType::F64)?)?)?;
        assert!(error < tolerance, "{dtype:?}: {error:e}");
    }
    Ok(())
}

#[test]
fn options_and_optional_operands_are_those_of_the_declaration() -> Result<()> {
    let x = random(&[5, 48], DType::F32)?;
    let scaled = Declared::new(&SOFTMAX).option("scale", Value::Float(0.5))?.option("axis", Value::Int(0))?;
    let y = &scaled.run(&[Some(&x)])?[0];
    let exact = softmax(&(x.to_dtype(DType::F64)? * 0.5)?.t()?.contiguous()?)?.t()?;
    assert!(error(y, &exact)? < 1e-6);

    let (weight, residual) = (random(&[48], DType::F32)?, random(&[5, 48], DType::F32)?);
    let norm = Declared::new(&RMS_NORM).keep("sum")?;
    let results = norm.run(&[Some(&x), Some(&weight), Some(&residual)])?;
    let [y, sum] = &results[..] else { panic!("the result and the sum") };
    let exact = (x.to_dtype(DType::F64)? + residual.to_dtype(DType::F64)?)?;
    assert!(error(sum, &exact)? < 1e-6);
    let scale = (exact.sqr()?.mean_keepdim(1)? + 1e-6)?.sqrt()?;
    let exact = exact.broadcast_div(&scale)?.broadcast_mul(&weight.to_dtype(DType::F64)?)?;
    assert!(error(y, &exact)? < 1e-6);
    Ok(())
}

#[test]
fn a_product_and_results_of_several_types_are_computed() -> Result<()> {
    let (x, w) = (random(&[3, 96], DType::F32)?, random(&[40, 96], DType::F32)?);
    let y = &Declared::new(&LINEAR_FEW).run(&[Some(&x), Some(&w)])?[0];
    assert!(error(y, &x.to_dtype(DType::F64)?.matmul(&w.to_dtype(DType::F64)?.t()?)?)? < 1e-6);

    let results = Declared::new(&QUANTIZE).run(&[Some(&x)])?;
    let [q, scales] = &results[..] else { panic!("elements and scales") };
    assert_eq!((q.dtype(), scales.dtype()), (DType::F8E4M3, DType::F32));
    let back = q.to_dtype(DType::F32)?.broadcast_mul(&scales.reshape((3, 1))?)?;
    assert!(error(&back, &x.to_dtype(DType::F64)?)? < 0.04, "three bits of a fraction");
    Ok(())
}

#[test]
fn tensors_that_an_operation_does_not_take_are_refused_with_the_way_out() -> Result<()> {
    let x = random(&[4, 6], DType::F32)?;
    let double = random(&[4, 6], DType::F64)?;
    let said = |declared: Result<Declared>, inputs: &[Option<&Tensor>]| {
        declared.and_then(|declared| declared.run(inputs)).unwrap_err().to_string()
    };
    let (softmax, few) = (|| Declared::new(&SOFTMAX), || Declared::new(&LINEAR_FEW));
    let int8 = Declared::new(&QUANTIZE).option("dtype", Value::Dtype(Dtype::I8));
    for (said, part) in [
        (
            said(Ok(softmax()), &[Some(&double)]),
            "x has elements of float64, and must have float32, float16 or",
        ),
        (said(Ok(softmax()), &[Some(&double)]), "convert it by `to_dtype`"),
        (said(Ok(softmax()), &[]), "softmax has no tensor; give x"),
        (said(Ok(few()), &[Some(&x)]), "linear_few: w is left out; it is not optional"),
        (said(Ok(softmax()), &[Some(&x); 9]), "softmax takes 3 tensors, and has 9"),
        (
            said(softmax().option("axis", Value::Int(5)), &[Some(&x)]),
            "axis is 5, and an array of shape [4, 6]",
        ),
        (said(softmax().keep("lse"), &[Some(&x)]), "softmax has no optional result lse"),
        (said(int8, &[Some(&x)]), "candle has no tensors of int8; choose another type"),
    ] {
        assert!(said.contains(part), "{said}");
    }
    Ok(())
}
