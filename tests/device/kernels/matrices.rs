//! `matmul`, `copy` and `transpose` on streams and of views, and refused calls. Their results in
//! every order are in `tests/host`.

use crate::common::devices;
use crate::common::matrix::{Order, Shape, TestMatrix, rng};
use moye::{
    Buffer, Device, Error, Matrix, MatrixMut, copy, copy_on, matmul, matmul_on, transpose, transpose_on,
};
use rand::RngExt;

fn matrix_mut(of: &mut TestMatrix) -> MatrixMut<'_, f32> {
    let Shape { rows, cols, row_stride, col_stride } = of.shape;
    MatrixMut::new(of.view_mut(), rows, cols, (row_stride, col_stride)).unwrap()
}

/// Asserts that the matrix holds `expected`, and that the rest of its buffer is as it was.
fn holds(matrix: &TestMatrix, expected: impl Fn(usize, usize) -> f32) {
    let (result, shape) = (matrix.download(), matrix.shape);
    for (i, j) in (0..shape.rows).flat_map(|i| (0..shape.cols).map(move |j| (i, j))) {
        assert_eq!(result(i, j), expected(i, j), "({i}, {j}) of {shape:?}, {:?}", matrix.buffer);
    }
}

#[test]
fn operations_on_a_stream_follow_one_another() {
    for device in devices() {
        let stream = device.new_stream().unwrap();
        let n = 40;
        let shape = Shape::new(n, n, Order::RowMajor);
        let mut rng = rng(&[n]);
        // Integers, whose sums are exact in any order.
        let a = TestMatrix::drawn(&device, shape, || rng.random_range(-8i8..=8).into());
        let source = Matrix::row_major(a.view(), n, n).unwrap();
        let mut results = [(); 3].map(|()| TestMatrix::poisoned(&device, shape));
        let [mut copied, mut turned, mut product] = results.each_mut().map(matrix_mut);
        // SAFETY: nothing else uses these buffers before the downloads, which wait.
        unsafe {
            copy_on(&stream, &source, &mut copied).unwrap();
            transpose_on(&stream, &copied.as_matrix(), &mut turned).unwrap();
            matmul_on(&stream, &copied.as_matrix(), &turned.as_matrix(), &mut product).unwrap();
        }
        stream.synchronize().unwrap();
        holds(&results[0], |i, j| a.at(i, j));
        holds(&results[1], |i, j| a.at(j, i));
        holds(&results[2], |i, j| (0..n).map(|l| a.at(i, l) * a.at(j, l)).sum());
    }
}

#[test]
fn a_transposed_view_is_taken_as_it_is() {
    for device in devices() {
        let a = device.upload(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let mut c = device.alloc_uninit::<f32>(9).unwrap();
        let a = Matrix::row_major(&a, 2, 3).unwrap();
        // The transposed result is written through a transposed view too.
        let mut result = MatrixMut::row_major(&mut c, 3, 3).unwrap().t();
        matmul(&device, &a.clone().t(), &a, &mut result).unwrap();
        assert_eq!(result.as_matrix().strides(), (1, 3));
        assert_eq!(
            c.download().unwrap(),
            [17.0, 22.0, 27.0, 22.0, 29.0, 36.0, 27.0, 36.0, 45.0],
            "a^T a, {device:?}"
        );
    }
}

#[test]
fn matrices_that_do_not_fit_their_buffers_are_refused_with_the_values() {
    let device = Device::sim();
    let mut buffer = device.alloc_zeroed::<f32>(11).unwrap();
    let error = Matrix::row_major(&buffer, 3, 4).unwrap_err().to_string();
    assert_eq!(error, "a 3x4 matrix with strides (4, 1) needs 12 elements, but the buffer has 11");
    assert!(Matrix::row_major(buffer.slice(1..).unwrap(), 2, 5).is_ok(), "a range is enough where it is");
    assert!(Matrix::row_major(buffer.slice(2..).unwrap(), 2, 5).is_err());
    assert!(Matrix::new(&buffer, 2, 3, (usize::MAX, usize::MAX)).is_err(), "no overflow");
    let error = MatrixMut::new(&mut buffer, 3, 3, (2, 1)).unwrap_err().to_string();
    assert!(
        error.contains("3x3 matrix with strides (2, 1) has the same element at several coordinates"),
        "{error}"
    );
    assert!(Matrix::new(&buffer, 3, 3, (0, 1)).is_ok(), "what is only read may repeat");
}

#[test]
fn shapes_that_do_not_fit_are_refused_with_the_values() {
    let device = Device::sim();
    let buffer = device.alloc_zeroed::<f32>(100).unwrap();
    let mut result = device.alloc_zeroed::<f32>(100).unwrap();
    let matrix = |rows, cols| Matrix::row_major(&buffer, rows, cols).unwrap();
    let mut c = MatrixMut::row_major(&mut result, 4, 5).unwrap();
    let message = |outcome: moye::Result<()>| match outcome.unwrap_err() {
        error @ Error::ShapeMismatch { .. } => error.to_string(),
        other => panic!("{other}"),
    };
    let error = message(matmul(&device, &matrix(4, 3), &matrix(2, 5), &mut c));
    assert_eq!(error, "matmul: a is 4x3 and b is 2x5; a must have as many columns as b has rows");
    let error = message(matmul(&device, &matrix(5, 3), &matrix(3, 4), &mut c));
    assert_eq!(error, "matmul: the product of 5x3 and 3x4 is 5x4, but c is 4x5");
    assert!(message(copy(&device, &matrix(5, 4), &mut c)).contains("src is 5x4 and dst is 4x5"));
    assert!(message(transpose(&device, &matrix(4, 5), &mut c)).contains("dst must be 5x4, not 4x5"));
}

#[test]
fn matrices_of_another_device_are_refused() {
    let (device, other) = (Device::sim(), Device::sim());
    let (here, there) = (device.alloc_zeroed::<f32>(4).unwrap(), other.alloc_zeroed::<f32>(4).unwrap());
    let mut result = device.alloc_zeroed::<f32>(4).unwrap();
    let mut c = MatrixMut::row_major(&mut result, 2, 2).unwrap();
    let (a, b) = (Matrix::row_major(&here, 2, 2).unwrap(), Matrix::row_major(&there, 2, 2).unwrap());
    let error = matmul(&device, &a, &b, &mut c).unwrap_err();
    assert!(matches!(error, Error::WrongDevice { kernel: "matmul", argument: 1, .. }), "{error}");
    assert!(matmul(&other, &a, &b, &mut c).is_err());
    assert!(copy(&device, &b, &mut c).is_err() && transpose(&device, &b, &mut c).is_err());
}

#[test]
fn extents_over_31_bits_are_refused_with_the_limit() {
    // The kernels count to the end of the last tile.
    const LIMIT: usize = i32::MAX as usize - 256;
    let device = Device::sim();
    let one = device.upload(&[3.0f32]).unwrap();
    // Matrices of one element in every place, and of no element.
    let large = |rows, cols| Matrix::new(&one, rows, cols, (0, 0)).unwrap();
    fn empty(none: &mut Buffer<f32>, rows: usize, cols: usize) -> MatrixMut<'_, f32> {
        MatrixMut::new(none, rows, cols, (0, 0)).unwrap()
    }
    let none = &mut device.alloc_zeroed::<f32>(0).unwrap();
    let refused = |outcome: moye::Result<()>, expected: &str| {
        let error = outcome.unwrap_err();
        assert!(
            matches!(error, Error::MatrixTooLarge { value, limit, .. } if value == LIMIT + 1 && limit == LIMIT as u64),
            "{expected}: {error}"
        );
        assert_eq!(
            error.to_string(),
            format!("{expected} = 2147483392 exceeds the kernel's limit of 2147483391; split the matrix")
        );
    };
    let over = LIMIT + 1;
    refused(matmul(&device, &large(over, 1), &large(1, 0), &mut empty(none, over, 0)), "matmul: M");
    refused(matmul(&device, &large(0, 1), &large(1, over), &mut empty(none, 0, over)), "matmul: N");
    refused(matmul(&device, &large(0, over), &large(over, 1), &mut empty(none, 0, 1)), "matmul: K");
    refused(copy(&device, &large(over, 0), &mut empty(none, over, 0)), "copy: rows");
    refused(copy(&device, &large(0, over), &mut empty(none, 0, over)), "copy: columns");
    refused(transpose(&device, &large(over, 0), &mut empty(none, 0, over)), "transpose: rows");
    refused(transpose(&device, &large(0, over), &mut empty(none, over, 0)), "transpose: columns");
    let mut result = device.alloc_zeroed::<f32>(1).unwrap();
    let mut c = MatrixMut::row_major(&mut result, 1, 1).unwrap();
    refused(matmul(&device, &large(1, over), &large(over, 1), &mut c), "matmul: K");

    matmul(&device, &large(LIMIT, 1), &large(1, 0), &mut empty(none, LIMIT, 0)).unwrap();
    copy(&device, &large(0, LIMIT), &mut empty(none, 0, LIMIT)).unwrap();
    transpose(&device, &large(0, LIMIT), &mut empty(none, LIMIT, 0)).unwrap();
}

#[test]
fn strides_that_lead_to_no_element_do_no_harm() {
    for device in devices() {
        // A thread past the edge multiplies its coordinate with the stride, which overflows in a
        // build that checks.
        const HUGE: usize = 1 << 61;
        let n = 40;
        let elements: Vec<f32> = (0..n).map(|i| ((5 * i) % 17) as f32 - 8.0).collect();
        let x = device.upload(&elements).unwrap();
        let row = Matrix::new(&x, 1, n, (HUGE, 1)).unwrap();
        let mut result = device.alloc_uninit::<f32>(1).unwrap();
        let mut c = MatrixMut::new(&mut result, 1, 1, (HUGE, HUGE)).unwrap();
        matmul(&device, &row, &row.clone().t(), &mut c).unwrap();
        let squares: f32 = elements.iter().map(|x| x * x).sum();
        assert_eq!(result.download().unwrap(), [squares], "{device:?}: the product of a row and a column");

        let mut moved = device.alloc_uninit::<f32>(n).unwrap();
        copy(&device, &row, &mut MatrixMut::new(&mut moved, 1, n, (HUGE, 1)).unwrap()).unwrap();
        assert_eq!(moved.download().unwrap(), elements, "{device:?}: a row copied");
        moved.fill_bytes(0).unwrap();
        transpose(&device, &row, &mut MatrixMut::new(&mut moved, n, 1, (1, HUGE)).unwrap()).unwrap();
        assert_eq!(moved.download().unwrap(), elements, "{device:?}: a row transposed");

        // Nothing to accumulate, and strides that no buffer bounds.
        let (a, b) =
            (Matrix::new(&x, 3, 0, (HUGE, HUGE)).unwrap(), Matrix::new(&x, 0, 2, (HUGE, HUGE)).unwrap());
        let mut zeros = device.alloc_uninit::<f32>(6).unwrap();
        matmul(&device, &a, &b, &mut MatrixMut::row_major(&mut zeros, 3, 2).unwrap()).unwrap();
        assert_eq!(zeros.download().unwrap(), [0.0; 6], "{device:?}");
    }
}
