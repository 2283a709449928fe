//! Helpers of the float64 references.

use moye_runtime::operation::{ArrayType, Dtype};

/// An array: its type, and its elements row-major.
pub type Values = (ArrayType, Vec<f64>);

/// The inputs of a reference, `None` for those left out.
pub type Inputs = [Option<Values>];

/// An input that is not optional.
pub fn input(inputs: &Inputs, index: usize) -> &Values {
    inputs[index].as_ref().expect("it is not optional")
}

/// The elements of an input, if it is there.
pub fn elements(inputs: &Inputs, index: usize) -> Option<&Vec<f64>> {
    inputs[index].as_ref().map(|(_, elements)| elements)
}

/// The relative error of results that are rounded to a type: half a unit of the last place.
pub const fn rounding(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F32 => 1e-7,
        Dtype::F16 => 5e-4,
        Dtype::Bf16 => 4e-3,
        _ => 0.0,
    }
}

/// The place of an element, at a row-major place of a shape, in an array that is broadcast to it.
pub fn broadcast(shape: &[usize], array: &[usize], place: usize) -> usize {
    let (mut rest, mut at, mut stride) = (place, 0, 1);
    for (extent, own) in shape.iter().rev().zip(array.iter().rev()) {
        at += if *own == 1 { 0 } else { rest % extent * stride };
        (rest, stride) = (rest / extent, stride * own);
    }
    at
}

/// Calls `with` with the row-major places of each row along an axis.
pub fn each_row(shape: &[usize], axis: i64, mut with: impl FnMut(&[usize])) {
    let axis = axis.rem_euclid(shape.len() as i64) as usize;
    let inner: usize = shape[axis + 1..].iter().product();
    let outer: usize = shape[..axis].iter().product();
    for (i, j) in (0..outer).flat_map(|i| (0..inner).map(move |j| (i, j))) {
        let row: Vec<_> = (0..shape[axis]).map(|k| (i * shape[axis] + k) * inner + j).collect();
        with(&row);
    }
}
