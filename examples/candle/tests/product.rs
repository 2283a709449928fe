//! Products of tensors on the host, computed on the simulator, compared with candle's in float64.

use crate::{error, random};
use candle_core::{DType, Result, Tensor};
use moye::interop::candle::{Product, ProductInto};
use moye::kernels::mma::Activation;

fn exact(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    a.to_dtype(DType::F64)?.contiguous()?.matmul(&b.to_dtype(DType::F64)?.contiguous()?)
}

#[test]
fn products_of_each_type_are_as_exact_as_the_type() -> Result<()> {
    for (dtype, tolerance) in
        [(DType::F64, 1e-14), (DType::F32, 1e-6), (DType::F16, 1e-3), (DType::BF16, 8e-3)]
    {
        let (a, b) = (random(&[20, 33], dtype)?, random(&[33, 17], dtype)?);
        let c = a.apply_op2(&b, Product::new())?;
        assert_eq!((c.dims(), c.dtype()), (&[20, 17][..], dtype));
        let error = error(&c, &exact(&a, &b)?)?;
        assert!(error < tolerance, "{dtype:?}: {error:e}");
    }
    Ok(())
}

#[test]
fn views_are_read_in_place_and_batches_repeat_by_a_stride_of_0() -> Result<()> {
    let a = random(&[2, 3, 9, 5], DType::F32)?.transpose(2, 3)?.narrow(3, 2, 6)?; // (2, 3, 5, 6)
    let b = random(&[1, 3, 6, 7], DType::F32)?.broadcast_as((2, 3, 6, 7))?;
    let c = a.apply_op2(&b, Product::new().alpha(0.5))?;
    assert_eq!(c.dims(), [2, 3, 5, 7]);
    assert!(error(&c, &(exact(&a, &b)? * 0.5)?)? < 1e-6);
    let swapped = a.transpose(0, 1)?.apply_op2(&b.transpose(0, 1)?, Product::new())?;
    assert!(error(&swapped, &exact(&a, &b)?.transpose(0, 1)?)? < 1e-6, "batches in another order");
    Ok(())
}

#[test]
fn a_product_is_added_in_place_to_a_view_of_a_tensor() -> Result<()> {
    let (a, b) = (random(&[4, 6], DType::F32)?, random(&[6, 5], DType::F32)?);
    let all = random(&[9, 5], DType::F32)?;
    let before = all.copy()?.to_dtype(DType::F64)?;
    let c = all.narrow(0, 3, 4)?;
    c.inplace_op3(&a, &b, &ProductInto::new().alpha(2.0).beta(-1.0))?;
    let wanted = ((exact(&a, &b)? * 2.0)? - before.narrow(0, 3, 4)?)?;
    assert!(error(&c, &wanted)? < 1e-6);
    for rows in [(0, 3), (7, 2)] {
        assert_eq!(
            error(&all.narrow(0, rows.0, rows.1)?, &before.narrow(0, rows.0, rows.1)?)?,
            0.0,
            "other rows"
        );
    }
    Ok(())
}

#[test]
fn the_gradients_are_those_of_candle() -> Result<()> {
    let (a, b) = (random(&[2, 4, 6], DType::F64)?, random(&[2, 6, 5], DType::F64)?);
    let (a, b) = (candle_core::Var::from_tensor(&a)?, candle_core::Var::from_tensor(&b)?);
    let weights = random(&[2, 4, 5], DType::F64)?;
    let gradients = |c: Tensor| -> Result<Vec<Tensor>> {
        let all = (c * &weights)?.sum_all()?.backward()?;
        Ok([&a, &b].iter().map(|x| all.get(x).expect("a gradient").clone()).collect())
    };
    let ours = gradients(a.apply_op2(&b, Product::new().alpha(3.0))?)?;
    let theirs = gradients((a.matmul(&b)? * 3.0)?)?;
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert!(error(ours, theirs)? < 1e-14);
    }
    let rounded = a.apply_op2(&b, Product::new().activation(Activation::Relu))?;
    assert!(rounded.sum_all()?.backward().is_err(), "an activation has no gradient");
    Ok(())
}

#[test]
fn tensors_that_do_not_fit_are_refused_with_their_shapes() -> Result<()> {
    let of = |shape: &[usize], dtype| random(shape, dtype);
    for (a, b, text) in [
        (of(&[4, 6], DType::F32)?, of(&[5, 6], DType::F32)?, "a has shape [4, 6] and b [5, 6]"),
        (of(&[2, 4, 6], DType::F32)?, of(&[6, 5], DType::F32)?, "the same batch extents"),
        (of(&[4], DType::F32)?, of(&[4], DType::F32)?, "a has shape [4], and must have two modes at least"),
        (of(&[4, 6], DType::F32)?, of(&[6, 5], DType::F64)?, "expected: F32, got: F64"),
        (of(&[4, 6], DType::U8)?, of(&[6, 5], DType::U8)?, "not of u8"),
    ] {
        let error = a.apply_op2(&b, Product::new()).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    let (a, b) = (of(&[4, 6], DType::F32)?, of(&[6, 5], DType::F32)?);
    let error = of(&[4, 4], DType::F32)?.inplace_op3(&a, &b, &ProductInto::new()).unwrap_err().to_string();
    assert!(error.contains("the product of a and b has shape [4, 5], and c [4, 4]"), "{error}");
    Ok(())
}

#[test]
fn products_without_elements_are_empty_or_zero() -> Result<()> {
    let product =
        |m, n, k| random(&[m, k], DType::F32)?.apply_op2(&random(&[k, n], DType::F32)?, Product::new());
    assert_eq!(product(0, 5, 3)?.dims(), [0, 5]);
    assert_eq!(product(2, 3, 0)?.to_vec2::<f32>()?, [[0.0; 3]; 2]);
    Ok(())
}
