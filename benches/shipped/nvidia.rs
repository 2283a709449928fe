//! NVIDIA's own code for the same work: the driver's copy, and cuBLAS, opened at run time.

use libloading::{Library, Symbol};
use moye::Result;
use std::ffi::{c_int, c_void};

/// The driver's own copy of `bytes` bytes.
pub fn driver_copy(to: u64, from: u64, bytes: usize) -> impl FnMut() -> Result<()> {
    type CopyAsync = unsafe extern "C" fn(u64, u64, usize, *mut c_void) -> c_int;
    // SAFETY: a library with ordinary initialisers, already open.
    let driver = unsafe { Library::new("libcuda.so.1") }.expect("there is a GPU, so there is a driver");
    // SAFETY: the function's type is that of the driver's header.
    let function =
        unsafe { *driver.get::<CopyAsync>(b"cuMemcpyDtoDAsync_v2\0").expect("every driver has it") };
    move || {
        let _open = &driver;
        // SAFETY: both addresses are of buffers of at least `bytes` bytes that live on.
        let code = unsafe { function(to, from, bytes, std::ptr::null_mut()) };
        assert_eq!(code, 0, "cuMemcpyDtoDAsync failed");
        Ok(())
    }
}

/// As much of cuBLAS as the products take.
pub struct Cublas {
    library: Library,
    handle: *mut c_void,
}

/// `cublasSgemm`: handle, transposes, M, N, K, alpha, A, lda, B, ldb, beta, C, ldc.
type Sgemm = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const f32,
    u64,
    c_int,
    u64,
    c_int,
    *const f32,
    u64,
    c_int,
) -> c_int;

/// `cublasGemmEx`: the same with a type behind each matrix, then the type that is computed in and the algorithm.
type GemmEx = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const f32,
    u64,
    c_int,
    c_int,
    u64,
    c_int,
    c_int,
    *const f32,
    u64,
    c_int,
    c_int,
    c_int,
    c_int,
) -> c_int;

const R_32F: c_int = 0;
const R_16F: c_int = 2;
const COMPUTE_32F: c_int = 68;
const COMPUTE_32F_FAST_TF32: c_int = 77;
const DEFAULT_ALGORITHM: c_int = -1;

impl Cublas {
    /// The library that `MOYE_CUBLAS` names, or the newest that there is.
    pub fn open() -> Option<Self> {
        let named = std::env::var("MOYE_CUBLAS").ok();
        let names = named.as_deref().into_iter().chain(["libcublas.so.13", "libcublas.so.12"]);
        // SAFETY: a library with ordinary initialisers.
        let library = names.into_iter().find_map(|name| unsafe { Library::new(name) }.ok())?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the function's type is that of cuBLAS's header.
        let code = unsafe {
            let create: Symbol<unsafe extern "C" fn(*mut *mut c_void) -> c_int> =
                library.get(b"cublasCreate_v2\0").ok()?;
            create(&raw mut handle)
        };
        (code == 0).then_some(Self { library, handle })
    }

    /// `c = a * b`, all column-major or transposed. Without tensor cores: cuBLAS's default for f32 is exact fp32.
    pub fn sgemm(&self, (ta, tb): (bool, bool), (m, n, k): (usize, usize, usize), [a, b, c]: [u64; 3]) {
        let [lda, ldb, ldc] = [if ta { k } else { m }, if tb { n } else { k }, m].map(int);
        let (one, zero) = (1.0, 0.0);
        // SAFETY: the type is that of the header; the matrices have these extents and leading dimensions.
        let code = unsafe {
            let sgemm: Symbol<Sgemm> = self.library.get(b"cublasSgemm_v2\0").expect("every cuBLAS has it");
            let [m, n, k] = [m, n, k].map(int);
            sgemm(self.handle, ta.into(), tb.into(), m, n, k, &one, a, lda, b, ldb, &zero, c, ldc)
        };
        assert_eq!(code, 0, "cublasSgemm failed");
    }

    /// [`sgemm`](Self::sgemm) on tensor cores: numbers of f32 taken as tf32.
    #[allow(dead_code, reason = "the ladder's benchmark measures beside it")]
    pub fn tf32(&self, (ta, tb): (bool, bool), (m, n, k): (usize, usize, usize), [a, b, c]: [u64; 3]) {
        let (lda, ldb) = (if ta { k } else { m }, if tb { n } else { k });
        self.gemm_ex((ta, tb), (m, n, k), R_32F, COMPUTE_32F_FAST_TF32, [(a, lda), (b, ldb), (c, m)]);
    }

    /// `c = a * b^T` of f16 with sums in f32: `a` is `(m, k)` and `b` `(n, k)`, K contiguous, and `c` is `(m, n)`, N
    /// contiguous. To cuBLAS, which counts columns first, that is `c^T = b * a^T`.
    pub fn half(&self, (m, n, k): (usize, usize, usize), [a, b, c]: [u64; 3]) {
        self.gemm_ex((true, false), (n, m, k), R_16F, COMPUTE_32F, [(b, k), (a, k), (c, n)]);
    }

    /// `c = a * b`, all column-major or transposed, of one type; each with its leading dimension.
    fn gemm_ex(
        &self,
        (ta, tb): (bool, bool),
        (m, n, k): (usize, usize, usize),
        of: c_int,
        compute: c_int,
        [(a, lda), (b, ldb), (c, ldc)]: [(u64, usize); 3],
    ) {
        let (one, zero) = (1.0, 0.0);
        // SAFETY: the type is that of the header; the matrices have these extents and leading dimensions.
        let code = unsafe {
            let gemm: Symbol<GemmEx> = self.library.get(b"cublasGemmEx\0").expect("every cuBLAS has it");
            let ([m, n, k], [lda, ldb, ldc]) = ([m, n, k].map(int), [lda, ldb, ldc].map(int));
            gemm(
                self.handle,
                ta.into(),
                tb.into(),
                m,
                n,
                k,
                &one,
                a,
                of,
                lda,
                b,
                of,
                ldb,
                &zero,
                c,
                of,
                ldc,
                compute,
                DEFAULT_ALGORITHM,
            )
        };
        assert_eq!(code, 0, "cublasGemmEx failed");
    }
}

fn int(extent: usize) -> c_int {
    c_int::try_from(extent).expect("the matrices measured are far smaller")
}
