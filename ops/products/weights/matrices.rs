//! Arrays as the matrices of products.

use super::codes::Rows;
use moye_runtime::Result;
use moye_runtime::operation::Array;

/// The rows of an array, if one stride covers all modes but the last.
pub(super) fn rows(array: &Array) -> Option<Rows> {
    let last = array.shape.len() - 1;
    let (mut stride, mut rows) = (0, 1);
    for mode in (0..last).rev().filter(|&mode| array.shape[mode] != 1) {
        if rows > 1 && array.strides[mode] != stride * rows as i64 {
            return None;
        }
        if rows == 1 {
            stride = array.strides[mode];
        }
        rows *= array.shape[mode];
    }
    let element = if array.shape[last] == 1 { 1 } else { array.strides[last] };
    let bytes = array.dtype.bytes() as i64;
    let aligned = element == 1 && array.address.is_multiple_of(16) && (rows == 1 || stride * bytes % 16 == 0);
    Some(Rows { row: stride, element, aligned })
}

/// Calls `with` with the number of rows, the addresses and the rows of x, y and the residual: once
/// where all are matrices, else for each index of their first mode.
pub(super) fn matrices(
    arrays: [Option<&Array>; 3],
    with: &mut impl FnMut(usize, [u64; 3], [Rows; 3]) -> Result<()>,
) -> Result<()> {
    const NONE: Rows = Rows { row: 0, element: 0, aligned: true };
    let of = arrays.map(|array| array.map_or(Some(NONE), rows));
    let x = arrays[0].expect("x is not optional");
    if let [Some(of_x), Some(of_y), Some(of_residual)] = of {
        let m = x.shape[..x.shape.len() - 1].iter().product();
        // A grid has 65,535 blocks along y.
        const MOST: usize = 8 * 65_535;
        return (0..m).step_by(MOST).try_for_each(|first| {
            let of = [of_x, of_y, of_residual];
            let at = |i: usize| {
                arrays[i].map_or(0, |array: &Array| {
                    array.address.wrapping_add_signed(first as i64 * of[i].row * array.dtype.bytes() as i64)
                })
            };
            with(MOST.min(m - first), [at(0), at(1), at(2)], of)
        });
    }
    (0..x.shape[0] as i64).try_for_each(|index| {
        let inner = arrays.map(|array| {
            array.map(|array| Array {
                shape: array.shape[1..].to_vec(),
                strides: array.strides[1..].to_vec(),
                address: array
                    .address
                    .wrapping_add_signed(index * array.strides[0] * array.dtype.bytes() as i64),
                dtype: array.dtype,
            })
        });
        matrices([0, 1, 2].map(|i| inner[i].as_ref()), with)
    })
}
