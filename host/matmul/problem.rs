//! A matrix product as the kernels take it.

use crate::matrix::{Matrix, MatrixMut, Shape, kernel_extent};
use crate::{Error, Result};
use moye_device::memory::{Global, GlobalMut};

/// What the matmul kernels take: `c = a * b` with `a` as (M, K), `b` as (N, K), `c` as (M, N), strides in elements.
pub(super) type Parameters = (
    Global<f32>,
    Global<f32>,
    GlobalMut<f32>,
    u32, // M
    u32, // N
    u32, // K
    i64, // a along M
    i64, // a along K
    i64, // b along N
    i64, // b along K
    i64, // c along M
    i64, // c along N
);

/// The most tiles along N: they are blocks along y.
const MAX_TILES_N: u32 = crate::MAX_BLOCKS[1];

/// A product `c = a * b`, with the roles of the operands chosen to suit the kernels.
#[derive(Debug)]
pub(super) struct Problem {
    a: Operand,
    b: Operand,
    c: Operand,
    /// The extents.
    pub m: u32,
    pub n: u32,
    pub k: u32,
}

/// A matrix's address and its strides: along M or N, then along K (for `c`: along M, then along N).
#[derive(Clone, Copy, Debug)]
struct Operand {
    address: u64,
    strides: (i64, i64),
}

impl Problem {
    /// The product of matrices whose shapes fit, for a kernel with tiles of `tile` x `tile`.
    ///
    /// The kernels write `c` with neighbouring threads along M, and can have more tiles along M than along N. So where
    /// `c` is row-major, or has very many columns, `c^T = b^T * a^T` is computed: the same elements, with M and N
    /// exchanged.
    pub fn new(
        a: &Matrix<'_, f32>,
        b: &Matrix<'_, f32>,
        c: &mut MatrixMut<'_, f32>,
        tile: u32,
    ) -> Result<Self> {
        let extent = |what, value| kernel_extent("matmul", what, value);
        let (m, n, k) = (extent("M", a.rows())?, extent("N", b.cols())?, extent("K", a.cols())?);
        let straight = Self {
            a: operand(a.data().address(), a.shape()),
            b: operand(b.data().address(), b.shape().t()),
            c: operand(c.data_mut().address(), c.shape()),
            m,
            n,
            k,
        };
        let fits = |problem: &Self| problem.n.div_ceil(tile) <= MAX_TILES_N;
        let (first, second) = if c.shape().col_stride < c.shape().row_stride {
            (straight.exchanged(), straight)
        } else {
            let exchanged = straight.exchanged();
            (straight, exchanged)
        };
        [first, second].into_iter().find(fits).ok_or_else(|| {
            let limit = u64::from(MAX_TILES_N) * u64::from(tile);
            Error::MatrixTooLarge {
                operation: "matmul",
                what: "the smaller of M and N",
                value: m.min(n) as usize,
                limit,
            }
        })
    }

    /// The same product with the roles of the operands exchanged.
    fn exchanged(&self) -> Self {
        let c = Operand { address: self.c.address, strides: (self.c.strides.1, self.c.strides.0) };
        Self { a: self.b, b: self.a, c, m: self.n, n: self.m, k: self.k }
    }

    /// Whether there is no element to compute.
    pub fn is_empty(&self) -> bool {
        self.m == 0 || self.n == 0
    }

    /// Whether M is the axis along which the elements of `a` lie closer together, and N that of `b`; otherwise K is.
    pub fn fast_along_mn(&self) -> (bool, bool) {
        let along = |operand: Operand, extent: u32| {
            // Where there is one element along K, nothing lies closer together along it.
            extent > 1 && (self.k <= 1 || operand.strides.0 <= operand.strides.1)
        };
        (along(self.a, self.m), along(self.b, self.n))
    }

    /// The kernels' parameters.
    pub fn parameters(&self) -> Parameters {
        let Self { a, b, c, m, n, k } = *self;
        (
            Global::from_address(a.address),
            Global::from_address(b.address),
            GlobalMut::from_address(c.address),
            m,
            n,
            k,
            a.strides.0,
            a.strides.1,
            b.strides.0,
            b.strides.1,
            c.strides.0,
            c.strides.1,
        )
    }
}

fn operand(address: u64, shape: Shape) -> Operand {
    Operand { address, strides: shape.strides() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    /// The problem of an `m x k` by `k x n` product; each matrix row-major or column-major.
    fn problem(m: usize, n: usize, k: usize, row_major: (bool, bool, bool)) -> Problem {
        let device = Device::sim();
        let (a, b) = (device.alloc_zeroed(m * k).unwrap(), device.alloc_zeroed(k * n).unwrap());
        let mut c = device.alloc_zeroed(m * n).unwrap();
        let view = |row_major, data, rows, cols| {
            if row_major { Matrix::row_major(data, rows, cols) } else { Matrix::col_major(data, rows, cols) }
                .unwrap()
        };
        let (a, b) = (view(row_major.0, &a, m, k), view(row_major.1, &b, k, n));
        let mut c =
            if row_major.2 { MatrixMut::row_major(&mut c, m, n) } else { MatrixMut::col_major(&mut c, m, n) };
        Problem::new(&a, &b, c.as_mut().unwrap(), 128).unwrap()
    }

    #[test]
    fn c_is_contiguous_along_m_after_the_choice_of_roles() {
        let kept = problem(5, 7, 3, (true, true, false));
        assert_eq!((kept.m, kept.n, kept.k, kept.c.strides), (5, 7, 3, (1, 5)));
        assert_eq!((kept.a.strides, kept.b.strides), ((3, 1), (1, 7)), "a as (M, K), b as (N, K)");
        let exchanged = problem(5, 7, 3, (true, true, true));
        assert_eq!((exchanged.m, exchanged.n, exchanged.c.strides), (7, 5, (1, 7)));
        assert_eq!((exchanged.a.strides, exchanged.b.strides), ((1, 7), (3, 1)), "b has become a");
    }

    #[test]
    fn fast_axes_follow_the_strides() {
        assert_eq!(problem(5, 7, 3, (true, true, true)).fast_along_mn(), (true, false), "roles exchanged");
        assert_eq!(problem(5, 7, 3, (true, true, false)).fast_along_mn(), (false, true));
        assert_eq!(problem(5, 7, 3, (false, true, false)).fast_along_mn(), (true, true));
        assert_eq!(problem(5, 7, 1, (true, true, false)).fast_along_mn(), (true, true), "K is 1");
        assert_eq!(problem(1, 7, 9, (false, true, false)).fast_along_mn(), (false, true), "M is 1");
    }

    #[test]
    fn many_columns_become_rows() {
        // A zero stride makes large matrices of few elements; nothing reads them here.
        let device = Device::sim();
        let (a, b) = (device.alloc_zeroed(1).unwrap(), device.alloc_zeroed(1).unwrap());
        let columns = 65536 * 128;
        let mut c = device.alloc_zeroed(columns).unwrap();
        let a = Matrix::new(&a, 1, 1, (0, 0)).unwrap();
        let b = Matrix::new(&b, 1, columns, (0, 0)).unwrap();
        // As a column-major matrix of one row, the roles would stay.
        let mut c = MatrixMut::col_major(&mut c, 1, columns).unwrap();
        let problem = Problem::new(&a, &b, &mut c, 128).unwrap();
        assert_eq!((problem.m, problem.n), (columns as u32, 1));
    }
}
