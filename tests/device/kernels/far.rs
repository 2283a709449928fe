//! Elements whose offsets exceed 32 bits: more than 2^31 elements past the start of their matrix.
//! On a GPU they exist. The simulator uses the host's memory, which is too small; there the fault
//! names the address of such an element.

use super::common::{gpu, say};
use half::f16;
use moye::kernels::mma::Arguments;
use moye::{
    Buffer, Device, Error, Global, GlobalMut, Grid, Kernel, Matrix, MatrixMut, copy, kernels, matmul,
    transpose,
};
use moye_device::number::Scalar;
use rstest::rstest;

/// An offset in elements; a multiple of 8, as the tensor-core kernels require of leading
/// dimensions.
const FAR: i64 = (1 << 31) + (1 << 12);

type Move = Kernel<super::MoveParams>;

type Product =
    Kernel<(Global<f32>, Global<f32>, GlobalMut<f32>, u32, u32, u32, i64, i64, i64, i64, i64, i64)>;

/// The address in the fault of a launch on the simulator.
fn faulted_at(launched: moye::Result<()>) -> String {
    let fault = launched.unwrap_err().to_string();
    let (_, behind) = fault.split_once("global memory at ").unwrap_or_else(|| panic!("{fault}"));
    behind.split(',').next().unwrap().to_owned()
}

fn address<T>(base: u64) -> String {
    format!("{:#x}", base + FAR as u64 * size_of::<T>() as u64)
}

/// Two elements along one mode of one matrix, `FAR` apart; the other extents and strides are 1.
#[rstest]
fn a_move_addresses_an_element_past_2_31(
    #[values(kernels::copy, kernels::copy_async, kernels::transpose)] kernel: Move,
    #[values(0, 1)] axis: usize,
    #[values("src", "dst")] far: &str,
) {
    let device = Device::sim();
    let (src, dst) = (device.upload(&[1.0f32; 2]).unwrap(), device.upload(&[0.0f32; 2]).unwrap());
    let (m, n) = if axis == 0 { (2, 1) } else { (1, 2) };
    // Strides along M and N.
    let along = |name: &str| if name == far { [[FAR, 1], [1, FAR]][axis] } else { [1, 1] };
    let ([src_m, src_n], mut to) = (along("src"), along("dst"));
    if kernel.name() == "transpose" {
        // The transpose's destination has N first.
        to.reverse();
    }
    let pointers = (Global::from_address(src.address()), GlobalMut::from_address(dst.address()));
    // SAFETY: the simulator refuses the out-of-bounds access, which is what the test checks.
    let launched = unsafe {
        device.launch(&kernel, Grid::new(1, 256), (pointers.0, pointers.1, m, n, src_m, src_n, to[0], to[1]))
    };
    let base = if far == "src" { src.address() } else { dst.address() };
    assert_eq!(faulted_at(launched), address::<f32>(base));
}

/// The same for products: `a` along M and K, `b` along N and K, `c` along M and N.
#[rstest]
fn a_product_addresses_an_element_past_2_31(
    #[values(kernels::matmul_f32_nt, kernels::matmul_f32_nn, kernels::matmul_f32_tt, kernels::matmul_f32_tn)]
    kernel: Product,
    #[values((0, 'm'), (0, 'k'), (1, 'n'), (1, 'k'), (2, 'm'), (2, 'n'))] (matrix, axis): (usize, char),
) {
    let device = Device::sim();
    let data = [0; 3].map(|_| device.upload(&[1.0f32; 2]).unwrap());
    let extent = |of: char| if of == axis { 2 } else { 1 };
    let stride = |of: usize, along: char| if (of, along) == (matrix, axis) { FAR } else { 1 };
    let arguments = (
        Global::from_address(data[0].address()),
        Global::from_address(data[1].address()),
        GlobalMut::from_address(data[2].address()),
        extent('m'),
        extent('n'),
        extent('k'),
        stride(0, 'm'),
        stride(0, 'k'),
        stride(1, 'n'),
        stride(1, 'k'),
        stride(2, 'm'),
        stride(2, 'n'),
    );
    // SAFETY: the simulator refuses the out-of-bounds access, which is what the test checks.
    let launched = unsafe { device.launch(&kernel, Grid::new(1, 256), arguments) };
    assert_eq!(faulted_at(launched), address::<f32>(data[matrix].address()));
}

#[rstest]
fn a_product_on_tensor_cores_addresses_a_row_past_2_31(#[values(0, 1, 2)] far: usize) {
    let device = Device::sim();
    let data = [0; 3].map(|_| device.upload(&[f16::ONE; 16]).unwrap());
    let (m, n) = if far == 1 { (1, 2) } else { (2, 1) };
    let stride = |of: usize| if of == far { FAR } else { 8 };
    let pointers = (
        Global::from_address(data[0].address()),
        Global::from_address(data[1].address()),
        GlobalMut::from_address(data[2].address()),
    );
    let arguments = Arguments::product(pointers, (m, n, 8), (stride(0), stride(1), stride(2)));
    // SAFETY: the simulator refuses the out-of-bounds access, which is what the test checks.
    let launched = unsafe { device.launch(&kernels::mma::matmul_f16_tn, Grid::new(1, 256), (arguments,)) };
    assert_eq!(faulted_at(launched), address::<f16>(data[far].address()));
}

/// Elements of a buffer with room for one matrix whose last row or column is past 2^31, and a
/// second matrix between the first one's lines.
const LEN: usize = (1 << 31) + (1 << 22);

/// The start of the second matrix.
const SECOND: usize = 1 << 20;

/// A matrix in a buffer of `LEN` elements: lines of adjacent elements, so far apart that the last
/// line starts past 2^31.
#[derive(Clone, Copy, Debug)]
struct Lines {
    start: usize,
    shape: (usize, usize),
    /// Whether a line is a row; otherwise a column.
    rows: bool,
}

impl Lines {
    fn count(self) -> usize {
        if self.rows { self.shape.0 } else { self.shape.1 }
    }

    fn length(self) -> usize {
        if self.rows { self.shape.1 } else { self.shape.0 }
    }

    /// The stride between lines; a multiple of 8.
    fn apart(self) -> usize {
        ((1usize << 31).div_ceil(self.count() - 1) + 1).next_multiple_of(8)
    }

    fn strides(self) -> (usize, usize) {
        if self.rows { (self.apart(), 1) } else { (1, self.apart()) }
    }

    /// Integers, so that sums are exact.
    fn element(self, line: usize, at: usize) -> f32 {
        let (row, col) = if self.rows { (line, at) } else { (at, line) };
        ((13 * row + 5 * col + self.start / SECOND) % 17) as f32 - 8.0
    }

    fn range(self, line: usize) -> std::ops::Range<usize> {
        let first = self.start + line * self.apart();
        first..first + self.length()
    }

    fn upload<T: Scalar + moye::Element>(self, buffer: &mut Buffer<T>) {
        for line in 0..self.count() {
            let elements: Vec<T> =
                (0..self.length()).map(|at| T::nearest(f64::from(self.element(line, at)))).collect();
            buffer.slice_mut(self.range(line)).unwrap().upload_from(&elements).unwrap();
        }
    }

    /// Asserts that the element in each row and column has its `expected` value.
    fn check<T: Scalar + moye::Element>(self, buffer: &Buffer<T>, expected: impl Fn(usize, usize) -> f32) {
        for line in 0..self.count() {
            for (at, got) in
                buffer.slice(self.range(line)).unwrap().download().unwrap().into_iter().enumerate()
            {
                let (row, col) = if self.rows { (line, at) } else { (at, line) };
                let wanted = f64::from(expected(row, col));
                assert_eq!(got.to_f64(), wanted, "element ({row}, {col}) of {self:?}");
            }
        }
    }

    /// The element in a row and a column.
    fn at(self, row: usize, col: usize) -> f32 {
        if self.rows { self.element(row, col) } else { self.element(col, row) }
    }

    fn view(self, buffer: &Buffer<f32>) -> Matrix<'_, f32> {
        Matrix::new(buffer.slice(self.start..).unwrap(), self.shape.0, self.shape.1, self.strides()).unwrap()
    }

    fn view_mut(self, buffer: &mut Buffer<f32>) -> MatrixMut<'_, f32> {
        let slice = buffer.slice_mut(self.start..).unwrap();
        MatrixMut::new(slice, self.shape.0, self.shape.1, self.strides()).unwrap()
    }
}

/// Two buffers of `LEN` elements; `None`, with a message, if the GPU lacks the memory.
fn buffers<T: moye::Element>(device: &Device) -> Option<[Buffer<T>; 2]> {
    match device.alloc_uninit(LEN).and_then(|first| Ok([first, device.alloc_uninit(LEN)?])) {
        Ok(buffers) => Some(buffers),
        Err(error @ Error::OutOfMemory { .. }) => {
            say(&format!("elements past 2^31 are not tested on this GPU: {error}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn elements_past_2_31_are_moved_and_multiplied_on_a_gpu() {
    let Some(device) = gpu() else { return };
    // 17.2 GB; one test, so that no two tests allocate it at the same time.
    if let Some([mut from, mut to]) = buffers::<f32>(&device) {
        from.fill_bytes(0xFF).unwrap();
        for (src_rows, dst_rows) in [(false, false), (false, true), (true, false), (true, true)] {
            moves(&device, &mut from, &mut to, src_rows, dst_rows);
        }
        for which in 0..8 {
            products(&device, &mut from, &mut to, [which & 1 != 0, which & 2 != 0, which & 4 != 0]);
        }
    }
    if let Some([mut from, mut to]) = buffers::<f16>(&device) {
        half_product(&device, &mut from, &mut to);
    }
}

/// 33 lines, so that the last one is in a separate tile, which starts past 2^31.
fn moves(device: &Device, from: &mut Buffer<f32>, to: &mut Buffer<f32>, src_rows: bool, dst_rows: bool) {
    let src = Lines { start: 0, shape: (33, 33), rows: src_rows };
    let dst = Lines { rows: dst_rows, ..src };
    src.upload(from);
    to.fill_bytes(0xFF).unwrap();
    copy(device, &src.view(from), &mut dst.view_mut(to)).unwrap();
    dst.check(to, |row, col| src.at(row, col));
    to.fill_bytes(0xFF).unwrap();
    transpose(device, &src.view(from), &mut dst.view_mut(to)).unwrap();
    dst.check(to, |row, col| src.at(col, row));
}

/// The same with 129 along M and N, 9 along K. `rows`: of `a`, `b` and `c`.
fn products(device: &Device, from: &mut Buffer<f32>, to: &mut Buffer<f32>, rows: [bool; 3]) {
    let (m, n, k) = (129, 129, 9);
    let a = Lines { start: 0, shape: (m, k), rows: rows[0] };
    let b = Lines { start: SECOND, shape: (k, n), rows: rows[1] };
    let c = Lines { start: 0, shape: (m, n), rows: rows[2] };
    a.upload(from);
    b.upload(from);
    to.fill_bytes(0xFF).unwrap();
    matmul(device, &a.view(from), &b.view(from), &mut c.view_mut(to)).unwrap();
    c.check(to, |row, col| (0..k).map(|l| a.at(row, l) * b.at(l, col)).sum());
}

/// `a` and `b` with K contiguous, `c` with N: 129 rows of `a` and `c`, 257 of `b`.
fn half_product(device: &Device, from: &mut Buffer<f16>, to: &mut Buffer<f16>) {
    let (m, n, k) = (129, 257, 72);
    let a = Lines { start: 0, shape: (m, k), rows: true };
    let b = Lines { start: SECOND, shape: (n, k), rows: true };
    let c = Lines { start: 0, shape: (m, n), rows: true };
    a.upload(from);
    b.upload(from);
    to.fill_bytes(0xFF).unwrap();
    let matrix = |lines: Lines| (lines.start.., lines.shape.0, lines.shape.1, lines.apart());
    let of = |(range, rows, cols, apart): (std::ops::RangeFrom<usize>, usize, usize, usize)| {
        Matrix::new(from.slice(range).unwrap(), rows, cols, (apart, 1)).unwrap()
    };
    let mut to_matrix = MatrixMut::new(to.slice_mut(c.start..).unwrap(), m, n, (c.apart(), 1)).unwrap();
    matmul(device, &of(matrix(a)), &of(matrix(b)).t(), &mut to_matrix).unwrap();
    // Sums of at most 72 products of values up to 8, rounded to the nearest f16.
    c.check(to, |row, col| {
        let sum: f32 = (0..k).map(|l| a.at(row, l) * b.at(col, l)).sum();
        f16::from_f32(sum).to_f32()
    });
}
