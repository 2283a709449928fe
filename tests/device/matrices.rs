//! `matmul`, `copy` and `transpose` of matrices in every order, compared with a reference on every
//! available device, and the requests that they refuse.

#[path = "../fixtures/common/mod.rs"]
mod common;

use common::On;
use moye::{
    Buffer, Device, Error, Matrix, MatrixMut, copy, copy_on, matmul, matmul_on, transpose, transpose_on,
};
use rstest::rstest;

/// The storage order of a matrix in its buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    RowMajor,
    ColMajor,
    /// Row-major with gaps between rows and between elements.
    Spread,
}

impl Order {
    fn strides(self, rows: usize, cols: usize) -> (usize, usize) {
        match self {
            Self::RowMajor => (cols, 1),
            Self::ColMajor => (1, rows),
            Self::Spread => (2 * cols + 3, 2),
        }
    }

    /// The elements that the matrix spans, and a few after it.
    fn len(self, rows: usize, cols: usize) -> usize {
        let (row_stride, col_stride) = self.strides(rows, cols);
        rows * row_stride + cols * col_stride + 5
    }
}

/// Integers, so that sums are exact in any order.
fn element(row: usize, col: usize) -> f32 {
    ((13 * row + 5 * col) % 17) as f32 - 8.0
}

/// The buffer of a matrix of [`element`]s, NaN elsewhere.
fn filled(device: &Device, rows: usize, cols: usize, order: Order) -> Buffer<f32> {
    let mut elements = vec![f32::NAN; order.len(rows, cols)];
    let (row_stride, col_stride) = order.strides(rows, cols);
    for i in 0..rows {
        for j in 0..cols {
            elements[i * row_stride + j * col_stride] = element(i, j);
        }
    }
    device.upload(&elements).unwrap()
}

/// Asserts that the matrix has the `expected` elements, and that the elements of its buffer between
/// and after them are unchanged.
fn assert_matrix(
    buffer: &Buffer<f32>,
    (rows, cols): (usize, usize),
    order: Order,
    expected: impl Fn(usize, usize) -> f32,
) {
    let elements = buffer.download().unwrap();
    let mut wanted = vec![UNTOUCHED; elements.len()];
    let (row_stride, col_stride) = order.strides(rows, cols);
    for i in 0..rows {
        for j in 0..cols {
            wanted[i * row_stride + j * col_stride] = expected(i, j);
        }
    }
    let wrong = elements.iter().zip(&wanted).position(|(a, b)| a != b);
    assert_eq!(wrong.map(|at| (at, elements[at], wanted[at])), None, "{buffer:?}, {rows}x{cols} {order:?}");
}

/// The initial value of a result's buffer.
const UNTOUCHED: f32 = -1234.5;

/// A buffer for a result.
fn untouched(device: &Device, rows: usize, cols: usize, order: Order) -> Buffer<f32> {
    device.upload(&vec![UNTOUCHED; order.len(rows, cols)]).unwrap()
}

#[rstest]
fn a_product_is_exact_in_every_order(
    #[values(On::Sim, On::Gpu)] on: On,
    #[values((1, 1, 1), (3, 130, 9), (129, 2, 17), (50, 60, 0), (0, 5, 3))] (m, n, k): (usize, usize, usize),
    #[values(Order::RowMajor, Order::ColMajor, Order::Spread)] a_order: Order,
    #[values(Order::RowMajor, Order::ColMajor, Order::Spread)] b_order: Order,
    #[values(Order::RowMajor, Order::ColMajor, Order::Spread)] c_order: Order,
) {
    let Some(device) = on.device() else { return };
    let (a, b) = (filled(&device, m, k, a_order), filled(&device, k, n, b_order));
    let mut c = untouched(&device, m, n, c_order);
    matmul(
        &device,
        &Matrix::new(&a, m, k, a_order.strides(m, k)).unwrap(),
        &Matrix::new(&b, k, n, b_order.strides(k, n)).unwrap(),
        &mut MatrixMut::new(&mut c, m, n, c_order.strides(m, n)).unwrap(),
    )
    .unwrap();
    assert_matrix(&c, (m, n), c_order, |i, j| (0..k).map(|p| element(i, p) * element(p, j)).sum());
}

#[rstest]
fn copies_and_transposes_are_exact_in_every_order(
    #[values(On::Sim, On::Gpu)] on: On,
    #[values((1, 1), (33, 70), (64, 32), (0, 4))] (rows, cols): (usize, usize),
    #[values(Order::RowMajor, Order::ColMajor, Order::Spread)] from: Order,
    #[values(Order::RowMajor, Order::ColMajor, Order::Spread)] to: Order,
) {
    let Some(device) = on.device() else { return };
    let source = filled(&device, rows, cols, from);
    let source = Matrix::new(&source, rows, cols, from.strides(rows, cols)).unwrap();
    let mut same = untouched(&device, rows, cols, to);
    let strides = to.strides(rows, cols);
    copy(&device, &source, &mut MatrixMut::new(&mut same, rows, cols, strides).unwrap()).unwrap();
    assert_matrix(&same, (rows, cols), to, element);
    let mut turned = untouched(&device, cols, rows, to);
    let strides = to.strides(cols, rows);
    transpose(&device, &source, &mut MatrixMut::new(&mut turned, cols, rows, strides).unwrap()).unwrap();
    assert_matrix(&turned, (cols, rows), to, |i, j| element(j, i));
}

#[rstest]
fn operations_on_a_stream_follow_one_another(#[values(On::Sim, On::Gpu)] on: On) {
    let Some(device) = on.device() else { return };
    let stream = device.new_stream().unwrap();
    let (n, order) = (40, Order::RowMajor);
    let a = filled(&device, n, n, order);
    let a = Matrix::row_major(&a, n, n).unwrap();
    let mut buffers = [(); 3].map(|()| untouched(&device, n, n, order));
    let [copied, turned, product] = buffers.each_mut().map(|buffer| MatrixMut::row_major(buffer, n, n));
    let (mut copied, mut turned, mut product) = (copied.unwrap(), turned.unwrap(), product.unwrap());
    // SAFETY: no other work uses these buffers before the downloads, which wait.
    unsafe {
        copy_on(&stream, &a, &mut copied).unwrap();
        transpose_on(&stream, &copied.as_matrix(), &mut turned).unwrap();
        matmul_on(&stream, &copied.as_matrix(), &turned.as_matrix(), &mut product).unwrap();
    }
    stream.synchronize().unwrap();
    assert_matrix(&buffers[0], (n, n), order, element);
    assert_matrix(&buffers[1], (n, n), order, |i, j| element(j, i));
    let expected = |i, j| (0..n).map(|p| element(i, p) * element(j, p)).sum();
    assert_matrix(&buffers[2], (n, n), order, expected);
}

#[rstest]
fn a_transposed_view_is_taken_as_it_is(#[values(On::Sim, On::Gpu)] on: On) {
    let Some(device) = on.device() else { return };
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
    // Matrices with one element at every coordinate, and empty matrices.
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

#[rstest]
fn strides_that_lead_to_no_element_do_no_harm(#[values(On::Sim, On::Gpu)] on: On) {
    // A thread out of bounds multiplies its coordinate by the stride, which overflows in a build
    // with overflow checks.
    const HUGE: usize = 1 << 61;
    let Some(device) = on.device() else { return };
    let n = 40;
    let elements: Vec<f32> = (0..n).map(|i| element(0, i)).collect();
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
    let (a, b) = (Matrix::new(&x, 3, 0, (HUGE, HUGE)).unwrap(), Matrix::new(&x, 0, 2, (HUGE, HUGE)).unwrap());
    let mut zeros = device.alloc_uninit::<f32>(6).unwrap();
    matmul(&device, &a, &b, &mut MatrixMut::row_major(&mut zeros, 3, 2).unwrap()).unwrap();
    assert_eq!(zeros.download().unwrap(), [0.0; 6], "{device:?}");
}
